"""Factor analysis as a transformer."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted, validate_data

from vijax.algorithms import cavi, em
from vijax.arguments import NotNegative, Positive, Size
from vijax.families.vector.free_normals import LowRankNormal
from vijax.models.factors.factor_analysis import factor_analysis
from vijax.sklearn.parts.base import Transformer, estimator, key_of, warn_unless_converged
from vijax.sklearn.parts.rows import by_row, fit_rows
from vijax.xla.compiler import quick_jit


@estimator
class FactorAnalysis(Transformer):
    """Factor analysis: rows are linear in a few normal factors, plus noise with a variance for each column.

    Args:
      n_components: number of factors; None is the number of columns.
      noise: "diagonal", or "isotropic": one variance for all columns of X as they are (probabilistic principal
        components).
      inference: "em" (maximum likelihood, as scikit-learn's) or "variational" (posteriors of loadings and noise).
      loading_precision: precision of the prior of the loadings, the columns in units of their spread; EM does not read
        it.
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
        """Finds loadings and noise of rows.

        Args:
          X: observations, (rows, features).
          y: ignored.

        Raises:
          ValueError: an argument out of its range, numbers that are missing or not finite.

        Warns:
          ConvergenceWarning: the bound had not converged after `max_iter` steps.
        """
        del y
        self._check_settings()
        X = self._checked(X, reset=True)
        self.mean_ = X.mean(axis=0)
        self._scale = _spreads(X, self.mean_) if self.noise == "diagonal" else _usual(X.std(axis=0))
        size = X.shape[1] if self.n_components is None else self.n_components
        with jax.enable_x64(True):
            model = factor_analysis(
                X.shape[1], size, self.noise, intercept=False, loading_precision=self.loading_precision, rate=1e-3
            )
            alg = em(model) if self.inference == "em" else cavi(model)
            found = fit_rows(alg, self._scaled(X), key_of(self.random_state), self.max_iter, self.tol)
            estimates = found.fit.estimates
            self.components_ = np.array(estimates["loadings"].mean()).T * self._scale
            self.noise_variance_ = np.broadcast_to(self._scale**2 / np.array(estimates["noise"].mean()), X.shape[1:])
        self.loglike_ = list(found.bounds / len(X) - np.log(np.broadcast_to(self._scale, X.shape[1:])).sum())
        self.fit_, self.converged_, self.n_iter_ = found.fit, found.converged, found.n_iter
        warn_unless_converged(self)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "rows K"]:
        """Posterior means of the factors of rows."""
        check_is_fitted(self)
        X = self._scaled(self._checked(X, reset=False))
        with jax.enable_x64(True):
            return by_row(lambda x: self.fit_.locals(x, key=jax.random.key(0))["x"].mean(), X)

    def get_covariance(self) -> Float[np.ndarray, "D D"]:
        """The covariance of the model at its point estimates."""
        check_is_fitted(self)
        return self.components_.T @ self.components_ + np.diag(self.noise_variance_)

    def get_precision(self) -> Float[np.ndarray, "D D"]:
        """The inverse of the covariance."""
        check_is_fitted(self)
        with jax.enable_x64(True):
            return np.array(_precision(self._law()))

    def score_samples(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Log density of each row at the point estimates."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        with jax.enable_x64(True):
            return by_row(lambda gap: _log_prob(self._law(), gap), X - self.mean_)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        del y
        return float(self.score_samples(X).mean())

    def _law(self) -> LowRankNormal:
        """The law of a row less the means, by its factors: float64 does not hold all eigenvalues of the dense
        covariance of columns in very different units, or with little noise."""
        log_sd = 0.5 * np.log(self.noise_variance_)
        return LowRankNormal(jnp.zeros_like(log_sd), jnp.asarray(log_sd), jnp.asarray(self.components_.T))

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mean_) / self._scale

    def _checked(self, X: Any, reset: bool) -> np.ndarray:
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=reset).astype(np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


_log_prob = quick_jit(lambda law, gap: law.log_prob(gap))
_precision = quick_jit(lambda law: law.precision)


def _spreads(X: np.ndarray, mean: np.ndarray) -> Float[np.ndarray, " D"]:
    """Standard deviations of columns, each judged in its own units; a column that is constant but for rounding gets the
    usual one."""
    spread = X.std(axis=0)
    varies = spread > 16 * np.finfo(np.float64).eps * np.abs(mean)
    return np.where(varies, spread, _usual(spread[varies]))


def _usual(spread: np.ndarray) -> float:
    """The root of the mean square; 1 where nothing varies."""
    return float(np.sqrt(np.mean(spread**2))) if np.any(spread) else 1.0
