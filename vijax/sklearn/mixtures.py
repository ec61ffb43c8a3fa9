"""Mixtures as estimators: classes of rows, densities, draws."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Literal, Self

import jax
import numpy as np
from jaxtyping import Float, Int
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vijax.algorithms import cavi, em, svi
from vijax.arguments import NotNegative, Positive, Size
from vijax.checks import require_integers
from vijax.contract import init
from vijax.evaluate.score import log_predictive_density
from vijax.families import Dirichlet, Product
from vijax.families.discrete import stick_breaking
from vijax.inference.compose import Algorithm
from vijax.models.emission import Emission, poisson
from vijax.models.mixtures.mixture import mixture
from vijax.sklearn.parts.base import VijaxEstimator, estimator, or_default, to_key
from vijax.sklearn.parts.rows import (
    CountsMixin,
    PartialFitMixin,
    RowFit,
    allow_weights,
    fit_rows,
    prior_of_rates,
    weigh_rows,
)
from vijax.xla.precision import enable_x64

Start = Literal["kmeans", "k-means++", "random"]


@estimator
class MixtureSettings:
    """Settings of every mixture."""

    n_components: Size = 1
    _: dataclasses.KW_ONLY
    tol: NotNegative = 1e-3
    max_iter: Size = 100
    n_init: Size = 1
    init_params: Start = "kmeans"
    random_state: Any = None
    warm_start: bool = False


class FittedMixture(DensityMixin, VijaxEstimator, abc.ABC):
    """An abstract mixture with the methods of a fitted one."""

    random_state: Any
    emission_: Emission
    fit_: Any
    weights_: np.ndarray

    @abc.abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fits the mixture."""

    def fit_predict(self, X: Any, y: Any = None) -> Int[np.ndarray, " rows"]:
        """Fits the mixture and returns the component of each row."""
        return self.fit(X, y).predict(X)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows K"]:
        """Probability of each component, given a row: for variational estimators, as in the last
        step."""
        return self._apply_by_row(
            X, lambda x: self.fit_.locals(x, key=jax.random.key(0))["z"].probs
        )

    def predict(self, X: Any) -> Int[np.ndarray, " rows"]:
        """The most probable component of each row."""
        return self.predict_proba(X).argmax(axis=1)

    def score_samples(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Log density of each row: for variational estimators the exact predictive density, all
        parameters integrated over their posterior."""

        def density(x: Any) -> Any:
            components: Any = self.fit_.estimates["components"]
            weights: Any = self.weights_
            return log_predictive_density(self.emission_, components, weights, x).log_densities

        return self._apply_by_row(X, density)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def sample(
        self, n_samples: int = 1
    ) -> tuple[Float[np.ndarray, "draws D"], Int[np.ndarray, " draws"]]:
        """Draws from the fitted mixture at its point estimates, and the component of each."""
        check_is_fitted(self)
        require_integers(n_samples=n_samples)
        rng = check_random_state(self.random_state)
        sizes = rng.multinomial(n_samples, self.weights_ / self.weights_.sum())
        draws = [self._draws(rng, k, size) for k, size in enumerate(sizes)]
        return np.concatenate(draws), np.repeat(np.arange(len(sizes)), sizes)

    def _weights(self) -> np.ndarray:
        estimates = self.fit_.estimates
        if "sticks" in estimates:
            return np.array(stick_breaking.mean_weights(estimates["sticks"]))
        return np.array(estimates["weights"].mean()) if "weights" in estimates else np.ones(1)

    def _describe(self, bounds: np.ndarray) -> None:
        """Sets the fitted attributes."""
        self.weights_ = self._weights()
        self.lower_bounds_ = [float(x) for x in bounds]
        self.lower_bound_ = self.lower_bounds_[-1]

    @abc.abstractmethod
    def _draws(self, rng: Any, component: int, size: int) -> np.ndarray:
        """Draws from one component, (size, D)."""


class MixtureEstimator(MixtureSettings, FittedMixture):
    """An abstract mixture with a given number of components."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fits the mixture. A `ConvergenceWarning` says that the bound still changed by more than
        `tol` after `max_iter` steps.

        Args:
          X: observations, (rows, features).
          y: ignored.
          sample_weight: how often each row counts, (rows,), zero or more: a row of weight 2 is the
              same as two rows.

        Raises:
          ValueError: an argument out of its range, numbers that are missing or not finite, fewer
              rows than components.
        """
        self._check_settings()
        X, weights = weigh_rows(self._check_rows(X, reset=True), sample_weight)
        rows, size = len(X), self.n_components
        if rows < size:
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {size}, n_samples = "
                f"{rows}"
            )
        state = self.fit_.state if self.warm_start and hasattr(self, "fit_") else None
        if state is None:
            self._begin(X)
        with enable_x64(True):
            starts = self.n_init if state is None else 1
            row_fit = self._improve(self._fit_from(X, weights, state, starts), X, weights)
            self.fit_ = row_fit.fit
            self._describe(row_fit.bounds)
        self._keep(row_fit.fit, row_fit.converged, row_fit.n_iter)
        self.n_samples_seen_ = float(weights.sum())  # `partial_fit` continues from here
        return self

    def _fit_from(self, X: np.ndarray, weights: np.ndarray, state: Any, starts: int) -> RowFit:
        """A fit from a state, or from several starts."""
        self.emission_ = self._emission(X.shape[1])
        return fit_rows(
            self._algorithm(),
            X,
            to_key(self.random_state),
            self.max_iter,
            self._tol_per_row(weights.sum()),
            starts,
            {"prior": self._prior(X, weights)},
            state,
            weights=weights,
        )

    def _begin(self, X: np.ndarray) -> None:
        """Resets what an earlier fit has left, before a fit from new starts."""

    def _improve(self, row_fit: RowFit, X: np.ndarray, weights: np.ndarray) -> RowFit:
        """The fit, or a better one of the same rows from its end."""
        return row_fit

    def _tol_per_row(self, rows: float) -> float:
        """`tol` as a change of the bound per row, for this number of rows."""
        return self.tol

    def _start(self) -> init.Init:
        centres = getattr(self, "means_init", None)
        if centres is not None:
            return init.nearest(np.asarray(centres, np.float64) - getattr(self, "centre_", 0.0))
        if self.init_params == "kmeans":
            return init.kmeans_plus_plus()
        if self.init_params == "k-means++":
            return init.kmeans_plus_plus(num_iters=0)
        return init.random_responsibilities()

    @abc.abstractmethod
    def _emission(self, dim: int) -> Emission:
        """The observation model of the components."""

    @abc.abstractmethod
    def _algorithm(self) -> Algorithm:
        """The algorithm for the mixture of `emission_`."""

    @abc.abstractmethod
    def _prior(self, X: np.ndarray, weights: np.ndarray) -> Any:
        """The prior for these rows and weights."""


class PartialFitMixture(PartialFitMixin, MixtureEstimator):
    """An abstract mixture with a posterior that can be fitted to minibatches one by one."""

    @available_if(PartialFitMixin._has_posterior)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continues the fit with a minibatch of rows, by one stochastic step. The first call starts
        the fit and sets the prior: its minibatch should have many rows a component. Raises as `fit`
        does. EM has no such method."""
        self._check_settings()
        is_first = not hasattr(self, "fit_")
        X = self._check_rows(X, reset=is_first)
        if is_first and len(X) < self.n_components:
            raise ValueError(
                f"X: expected {self.n_components} rows or more in the first minibatch, got "
                f"{len(X)}."
            )
        with enable_x64(True):
            self.emission_ = self._emission(X.shape[1])
            alg = self._stochastic()
            hyper = lambda: {"prior": self._prior(X, np.ones(len(X)))}
            self.fit_ = self._fit_part(alg, X, hyper, is_first)
            self._describe(self.fit_.trace["elbo"])
        return self

    @abc.abstractmethod
    def _stochastic(self) -> Algorithm:
        """The algorithm of minibatches for the mixture of `emission_`."""


@estimator
class PoissonMixture(CountsMixin, PartialFitMixture):
    """A mixture of rows of independent counts, dense or sparse (made dense).

    Args:
      n_components: K.
      inference: "variational" (a posterior of weights and rates) or "em" (maximum likelihood).
      weight_concentration_prior: concentration of the Dirichlet prior of the weights; None is 1 /
          n_components.
      rate_shape_prior: shape of the gamma prior of the rates.
      rate_prior: rate of this gamma prior; None makes the prior mean the mean of X, column by
          column.
      tol, max_iter, n_init, init_params, random_state, warm_start: as in `GaussianMixture`.
      total_samples: for `partial_fit`, the number of rows in all; None is the number of rows seen
          so far.
      learning_decay, learning_offset: kappa and tau of its step sizes (tau + t)^-kappa, t = 1, 2,
          ...

    Attributes:
      weights_, rates_: posterior means, (K,) and (K, D).
      converged_, n_iter_, lower_bound_, lower_bounds_: whether the fit converged, its steps, and
          the bound on log p(X).
      fit_: the `vijax.Fit`.

    >>> X = np.random.default_rng(0).poisson(np.repeat([[1.0, 9.0], [9.0, 1.0]], 30, axis=0))
    >>> mixture = PoissonMixture(n_components=2, random_state=0).fit(X)
    >>> mixture.rates_[mixture.rates_[:, 0].argsort()].round().tolist()
    [[1.0, 10.0], [10.0, 1.0]]
    """

    _: dataclasses.KW_ONLY
    inference: Literal["variational", "em"] = "variational"
    weight_concentration_prior: Positive | None = None
    rate_shape_prior: Positive = 1.0
    rate_prior: Positive | None = None

    def _emission(self, dim: int) -> Emission:
        return allow_weights(poisson(self.n_components, dim))

    def _algorithm(self) -> Algorithm:
        model = self._mixture()
        return em(model) if self.inference == "em" else cavi(model)

    def _stochastic(self) -> Algorithm:
        return svi(self._mixture(), step_size=self._steps())

    def _mixture(self) -> Any:
        return mixture(self.emission_, init=self._start(), prior_as_point=True)

    def _prior(self, X: np.ndarray, weights: np.ndarray) -> Product:
        size = self.n_components
        concentration = float(or_default(self.weight_concentration_prior, 1.0 / size))
        shares = Dirichlet.from_concentration(np.full(size, concentration))
        rates = prior_of_rates(size, X, self.rate_shape_prior, self.rate_prior, weights)
        return Product({"components": rates, "weights": shares})

    def _describe(self, bounds: np.ndarray) -> None:
        super()._describe(bounds)
        self.rates_ = np.array(self.fit_.estimates["components"].mean())

    def _draws(self, rng: Any, component: int, size: int) -> np.ndarray:
        return rng.poisson(self.rates_[component], (size, self.rates_.shape[1])).astype(float)
