"""Gamma-process Poisson matrix factorisation as a transformer."""

from __future__ import annotations

from typing import Any, Self

import jax
import numpy as np
from jaxtyping import Float
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from vijax.algorithms import cavi
from vijax.checks import require, require_integers, require_positive
from vijax.inference import estep
from vijax.models.factors.gap_nmf import gap_nmf
from vijax.sklearn.parts.base import VijaxEstimator, as_dense, key_of, warn_not_converged
from vijax.sklearn.parts.counts import check_counts
from vijax.sklearn.parts.rows import by_row, fit_rows


class GammaPoissonNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, VijaxEstimator):
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

    def __init__(
        self,
        n_components: int = 10,
        *,
        activation_prior: float = 0.2,
        dictionary_prior: float = 0.25,
        concentration: float = 1.0,
        max_iter: int = 200,
        tol: float = 1e-3,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.activation_prior = activation_prior
        self.dictionary_prior = dictionary_prior
        self.concentration = concentration
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

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
        self._check_arguments()
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
        self.fit_, self.converged_, self.n_iter_ = found.fit, found.converged, found.n_iter
        self.lower_bound_ = float(found.bounds[-1])
        if not self.converged_:
            warn_not_converged(self, self.max_iter)
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

    def _check_arguments(self) -> None:
        require_integers(n_components=self.n_components, max_iter=self.max_iter)
        names = ("activation_prior", "dictionary_prior", "concentration")
        require_positive(**{name: getattr(self, name) for name in names})
        require(self.tol >= 0, "tol", "a number >= 0", self.tol)

    def _checked(self, X: Any, reset: bool) -> np.ndarray:
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        X = np.asarray(as_dense(X), np.float64)
        check_counts(self, X)
        return X

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags
