"""Gamma-process Poisson matrix factorisation as a transformer."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import jax
import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from vijax.algorithms import cavi
from vijax.arguments import NotNegative, Positive, Size
from vijax.checks import require
from vijax.inference import estep
from vijax.models.factors.gap_nmf import gap_nmf
from vijax.sklearn.parts.base import Transformer, estimator, key_of
from vijax.sklearn.parts.rows import OfCounts, by_row, fit_rows


@estimator
class GammaPoissonNMF(OfCounts, Transformer):
    """Counts as sums of a few parts, X ~ Poisson(W H), with gamma priors of everything: a Bayesian Kullback-Leibler
    NMF, in which parts that are not needed tend to lose their weight (Hoffman and Blei 2015, section 4.3).

    Args:
      n_components: most parts.
      activation_prior: shape and rate of the gamma prior of the activations W; below 1 they are sparse.
      dictionary_prior: shape and rate of the gamma prior of the entries of H.
      concentration: concentration of the gamma process of the parts' weights: smaller values use fewer parts.
      max_iter: most steps.
      tol: the bound has converged when it changes by less, per row.
      random_state: an integer for results that can be repeated.

    Attributes:
      components_: H times the parts' weights, posterior means, (n_components, features).
      gains_: the parts' weights.
      converged_, n_iter_, lower_bound_: whether the fit converged, its steps, and the bound on log p(X).
      fit_: the `vijax.Fit`.

    >>> parts = np.array([[9.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 9.0]])
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(1.0, size=(60, 2)) @ parts)
    >>> nmf = GammaPoissonNMF(n_components=3, random_state=0).fit(X)
    >>> nmf.transform(X).shape, nmf.components_.shape
    ((60, 3), (3, 4))
    """

    n_components: Size = 10
    _: dataclasses.KW_ONLY
    activation_prior: Positive = 0.2
    dictionary_prior: Positive = 0.25
    concentration: Positive = 1.0
    max_iter: Size = 200
    tol: NotNegative = 1e-3
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Finds the parts of counts.

        Args:
          X: counts, (rows, features), none negative, dense or sparse (made dense); weights that are not
            whole are taken as they are.
          y: ignored.

        Raises:
          ValueError: an argument out of its range; negative or missing numbers; only zeros.

        Warns:
          ConvergenceWarning: the bound had not converged after `max_iter` steps.
        """
        del y
        self._check_settings()
        X = self._checked(X, reset=True)
        require(X.any(), "X", "counts", "only zeros")
        with jax.enable_x64(True):
            model = gap_nmf(
                X.shape[1],
                self.n_components,
                a=self.dictionary_prior,
                b=self.activation_prior,
                alpha=self.concentration,
                estep=estep.mean_field(max_iters=50, tol=1e-4),
            )
            hyper = {"c": np.asarray(1.0 / X.mean())}
            found = fit_rows(cavi(model), X, key_of(self.random_state), self.max_iter, self.tol, hyper=hyper)
            q = found.fit.posterior
            self.gains_ = np.array(q["gains"].mean())
            self.components_ = np.array(q["dictionary"].mean()).T * self.gains_[:, None]
        self.lower_bound_ = float(found.bounds[-1])
        self._keep(found.fit, found.converged, found.n_iter)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "rows K"]:
        """The activations W of rows: posterior means."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        with jax.enable_x64(True):
            return by_row(lambda x: self.fit_.locals(x, key=jax.random.key(0))["activations"].mean(), X)

    def inverse_transform(self, X: Any) -> Float[np.ndarray, "rows D"]:
        """The rates W H of given activations."""
        check_is_fitted(self)
        return np.asarray(X) @ self.components_
