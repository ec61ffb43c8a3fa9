"""Factor analysis and Poisson matrix factorisation as transformers."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from vijax.algorithms import cavi, em, svi
from vijax.arguments import NotNegative, Positive, Size
from vijax.checks import require
from vijax.families.vector.free_normals import LowRankNormal
from vijax.inference import estep
from vijax.models.factors.factor_analysis import factor_analysis
from vijax.models.factors.gap_nmf import gap_nmf
from vijax.sklearn.parts.base import Transformer, estimator, or_default, to_key
from vijax.sklearn.parts.rows import CountsMixin, PartialFitMixin, fit_rows
from vijax.xla.compiler import quick_jit
from vijax.xla.precision import enable_x64


@estimator
class FactorAnalysis(Transformer):
    """Factor analysis: rows are linear in a few normal factors, plus noise with one variance for
    each column.

    Args:
      n_components: number of factors; None is the number of columns.
      noise: "diagonal", or "isotropic": one variance for all columns of X as they are
        (probabilistic principal components).
      inference: "em" (maximum likelihood, as scikit-learn's) or "variational" (posteriors of
          loadings and noise).
      loading_precision: precision of the prior of the loadings, the columns in units of their
        spread; EM does not read it.
      tol: the bound has converged when it changes by less, per row.
      max_iter: most steps.
      random_state: an integer for results that can be repeated.

    Attributes:
      components_: loadings, (n_components, features).
      mean_, noise_variance_: mean and noise variance of each column.
      loglike_: the bound at each step, per row (for EM the mean log likelihood).
      converged_, n_iter_: whether the fit converged, and its steps.
      fit_: the `vijax.Fit`, for columns divided by their spread.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 1)) * np.array([1.0, -1.0, 2.0]) + 0.1 * rng.normal(size=(100, 3))
    >>> fa = FactorAnalysis(n_components=1, random_state=0).fit(X)
    >>> (fa.components_ / fa.components_[0, 0]).round(1).tolist()
    [[1.0, -1.0, 2.0]]
    """

    n_components: Size | None = None
    _: dataclasses.KW_ONLY
    noise: Literal["diagonal", "isotropic"] = "diagonal"
    inference: Literal["em", "variational"] = "em"
    loading_precision: Positive = 1.0
    tol: NotNegative = 1e-5
    max_iter: Size = 1000
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Finds loadings and noise of the rows of X, (rows, features); y is ignored. A
        `ConvergenceWarning` says that the bound had not converged after `max_iter` steps.

        Raises:
          ValueError: an argument out of its range, numbers that are missing or not finite.
        """
        self._check_settings()
        X = self._check_rows(X, reset=True)
        self.mean_ = X.mean(axis=0)
        self._scale: Any = _usual_spread(X.std(axis=0))
        if self.noise == "diagonal":
            self._scale = _spreads(X, self.mean_)
        size = or_default(self.n_components, X.shape[1])
        with enable_x64(True):
            model = factor_analysis(
                X.shape[1],
                size,
                self.noise,
                intercept=False,
                loading_precision=self.loading_precision,
                rate=1e-3,
            )
            alg = em(model) if self.inference == "em" else cavi(model)
            key = to_key(self.random_state)
            row_fit = fit_rows(alg, self._rescale(X), key, self.max_iter, self.tol)
            estimates = row_fit.fit.estimates
            self.components_ = np.array(estimates["loadings"].mean()).T * self._scale
            variance = self._scale**2 / np.array(estimates["noise"].mean())
            self.noise_variance_ = np.broadcast_to(variance, X.shape[1:])
        log_scale = np.log(np.broadcast_to(self._scale, X.shape[1:])).sum()
        self.loglike_ = list(row_fit.bounds / len(X) - log_scale)
        self._keep(row_fit.fit, row_fit.converged, row_fit.n_iter)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "rows K"]:
        """Posterior means of the factors of rows."""

        def factors(x: Any) -> Any:
            return self.fit_.locals(self._rescale(x), key=jax.random.key(0))["x"].mean()

        return self._apply_by_row(X, factors)

    def get_covariance(self) -> Float[np.ndarray, "D D"]:
        """The covariance of the model at its point estimates."""
        check_is_fitted(self)
        return self.components_.T @ self.components_ + np.diag(self.noise_variance_)

    def get_precision(self) -> Float[np.ndarray, "D D"]:
        """The inverse of the covariance."""
        check_is_fitted(self)
        with enable_x64(True):
            return np.array(_precision(self._law()))

    def score_samples(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Log density of each row at the point estimates."""
        return self._apply_by_row(X, lambda x: _log_prob(self._law(), x - self.mean_))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def _law(self) -> LowRankNormal:
        """The law of a row less the means, in terms of its factors. For columns in very different
        units, or with little noise, float64 does not hold all eigenvalues of the dense
        covariance."""
        log_sd = 0.5 * np.log(self.noise_variance_)
        loadings = jnp.asarray(self.components_.T)
        return LowRankNormal(jnp.zeros_like(log_sd), jnp.asarray(log_sd), loadings)

    def _rescale(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mean_) / self._scale


_log_prob = quick_jit(lambda law, gap: law.log_prob(gap))
_precision = quick_jit(lambda law: law.precision)


def _spreads(X: np.ndarray, mean: np.ndarray) -> Float[np.ndarray, " D"]:
    """Standard deviations of columns; the usual one for columns constant up to rounding."""
    spread = X.std(axis=0)
    varies = spread > 16 * np.finfo(np.float64).eps * np.abs(mean)
    return np.where(varies, spread, _usual_spread(spread[varies]))


def _usual_spread(spread: np.ndarray) -> float:
    """The root of the mean square; 1 if nothing varies."""
    return float(np.sqrt(np.mean(spread**2))) if np.any(spread) else 1.0


@estimator
class GammaPoissonNMF(CountsMixin, PartialFitMixin, Transformer):
    """Counts as sums of a few parts, X ~ Poisson(W H), with gamma priors of both factors: a
    Bayesian Kullback-Leibler NMF, in which parts that are not needed tend to lose their weight
    (Hoffman and Blei 2015, section 4.3).

    The rates W H are posterior means, and the priors pull them away from the maximum of the
    likelihood: on the fitted data, scikit-learn's NMF has the smaller Kullback-Leibler divergence.
    On held-out counts the two are alike. Priors of 1 fit the data more closely, and predict worse.

    Args:
      n_components: number of parts, at most.
      activation_prior: shape and rate of the gamma prior of the activations W; below 1 they are
          sparse.
      dictionary_prior: shape and rate of the gamma prior of the entries of H.
      concentration: concentration of the gamma process of the parts' weights: smaller values use
          fewer parts.
      max_iter: most steps.
      tol: the bound has converged when it changes by less, per row.
      random_state: an integer for results that can be repeated.
      total_samples: for `partial_fit`, the number of rows in all; None is the number of rows seen
          so far.
      learning_decay, learning_offset: kappa and tau of its step sizes (tau + t)^-kappa, t = 1, 2,
          ...

    Attributes:
      components_: H times the parts' weights, posterior means, (n_components, features).
      gains_: the parts' weights.
      converged_, n_iter_, lower_bound_: whether the fit converged, its steps, and the bound on log
          p(X).
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
        """Finds the parts of counts X, (rows, features), none negative, dense or sparse (made
        dense); they need not be whole numbers, and y is ignored. A
        `ConvergenceWarning` says that the bound had not converged after `max_iter` steps.

        Raises:
          ValueError: an argument out of its range; negative or missing numbers; only zeros.
        """
        self._check_settings()
        X = self._check_rows(X, reset=True)
        require(X.any(), "X", "counts", "only zeros")
        with enable_x64(True):
            hyper = {"c": np.asarray(1.0 / X.mean())}
            alg = cavi(self._model(X.shape[1]))
            key = to_key(self.random_state)
            row_fit = fit_rows(alg, X, key, self.max_iter, self.tol, hyper=hyper)
            self._keep(row_fit.fit, row_fit.converged, row_fit.n_iter)
            self._describe()
        self.n_samples_seen_ = len(X)  # `partial_fit` continues from here
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continues the fit with a minibatch of counts, by one stochastic step. The first call
        starts the fit, with its minibatch as the start of the parts. Raises as `fit` does."""
        self._check_settings()
        is_first = not hasattr(self, "fit_")
        X = self._check_rows(X, reset=is_first)
        require(X.any() or not is_first, "X", "counts in the first minibatch", "only zeros")
        with enable_x64(True):
            alg = svi(self._model(X.shape[1]), step_size=self._steps())
            self.fit_ = self._fit_part(alg, X, lambda: {"c": np.asarray(1.0 / X.mean())}, is_first)
            self._describe()
        return self

    def _model(self, num_columns: int) -> Any:
        return gap_nmf(
            num_columns,
            self.n_components,
            a=self.dictionary_prior,
            b=self.activation_prior,
            alpha=self.concentration,
            estep=estep.mean_field(max_iters=50, tol=1e-4),
        )

    def _describe(self) -> None:
        q = self.fit_.posterior
        self.gains_ = np.array(q["gains"].mean())
        self.components_ = np.array(q["dictionary"].mean()).T * self.gains_[:, None]
        self.lower_bound_ = float(self.fit_.trace["elbo"][-1])

    def transform(self, X: Any) -> Float[np.ndarray, "rows K"]:
        """The activations W of rows: posterior means."""

        def activations(x: Any) -> Any:
            return self.fit_.locals(x, key=jax.random.key(0))["activations"].mean()

        return self._apply_by_row(X, activations)

    def inverse_transform(self, X: Any) -> Float[np.ndarray, "rows D"]:
        """The rates W H of given activations."""
        check_is_fitted(self)
        return np.asarray(X) @ self.components_
