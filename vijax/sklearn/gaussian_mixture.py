"""Gaussian mixtures as estimators: by EM, and by variational inference."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import jax
import numpy as np

from vijax.algorithms import cavi, em, svi
from vijax.arguments import NotNegative, Positive, Size
from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.families import Dirichlet, Product
from vijax.families.discrete import stick_breaking
from vijax.inference.compose import Algorithm
from vijax.inference.update import kl
from vijax.models.emission import Emission, around, blurred
from vijax.models.mixtures.mixture import dp_mixture, mixture
from vijax.sklearn.mixtures import MixtureEstimator, PartialFitMixture
from vijax.sklearn.parts import covariances as kinds
from vijax.sklearn.parts.base import apply_by_row, estimator, or_default
from vijax.sklearn.parts.far import (
    ROUNDS,
    choose_centre,
    is_lost,
    may_lose,
    moments,
    start_from_classes,
)
from vijax.sklearn.parts.rows import RowFit

CovarianceType = Literal["full", "tied", "diag", "spherical"]


@estimator
class GaussianComponents:
    """The components of a Gaussian mixture."""

    _: dataclasses.KW_ONLY
    covariance_type: CovarianceType = "full"
    reg_covar: NotNegative = 1e-6
    centre_ = 0.0

    def _check_rows(self, X: Any, reset: bool) -> np.ndarray:
        """X less the centre of the first rows, if they are far from zero, so that no digits of
        their spread are lost."""
        X = super()._check_rows(X, reset)  # type: ignore[misc]
        is_resumed = getattr(self, "warm_start", False) and hasattr(self, "fit_")
        if reset and not is_resumed:
            self.centre_ = choose_centre(X)
        return X - self.centre_

    def _components(self, size: int, dim: int, prior: kinds.Settings | None = None) -> Emission:
        """The observation model with `size` components."""
        emission = kinds.make_emission(self.covariance_type, size, dim, prior)
        return blurred(emission, float(self.reg_covar))

    def _emission(self, dim: int) -> Emission:
        mixture: Any = self
        return self._components(mixture.n_components, dim)

    def _places(self) -> Any:
        """The places from which `fit_` counts the means."""
        return 0.0

    def _describe(self, bounds: np.ndarray) -> None:
        super()._describe(bounds)  # type: ignore[misc]
        mixture: Any = self
        kind = self.covariance_type
        point = mixture.fit_.estimates["components"].mean()
        self.means_ = kinds.read_means(kind, point) + self._places() + self.centre_
        self.precisions_ = kinds.read_precisions(kind, point)
        self.covariances_ = kinds.invert_precisions(kind, self.precisions_)
        self.precisions_cholesky_ = kinds.factor_precisions(kind, self.precisions_)

    def _draws(self, rng: Any, component: int, size: int) -> np.ndarray:
        mean = self.means_[component]
        covariance = kinds.covariance_matrix(
            self.covariance_type, self.covariances_, component, len(mean)
        )
        return rng.multivariate_normal(mean, covariance, size)


@estimator
class GaussianPrior:
    """The prior of the components of a Gaussian mixture."""

    _: dataclasses.KW_ONLY
    mean_precision_prior: Positive | None = None
    mean_prior: Any = None
    degrees_of_freedom_prior: float | None = None
    covariance_prior: Any = None

    def _settings(self, X: np.ndarray, weights: np.ndarray) -> kinds.Settings:
        """The prior for these rows and weights; sets it as attributes."""
        mixture: Any = self
        kind = mixture.covariance_type
        dim = X.shape[1]
        self.mean_precision_prior_ = or_default(self.mean_precision_prior, 1.0)
        mean = mean_and_spread(X, weights)[0] + mixture.centre_
        self.mean_prior_ = np.asarray(or_default(self.mean_prior, mean), np.float64)
        self.degrees_of_freedom_prior_ = or_default(self.degrees_of_freedom_prior, float(dim))
        covariance = kinds.covariance_of_data(kind, X, weights)
        covariance = covariance + mixture.reg_covar * kinds.identity(kind, dim)
        self.covariance_prior_ = np.asarray(
            or_default(self.covariance_prior, covariance), np.float64
        )
        settings = kinds.Settings(
            self.mean_prior_ - mixture.centre_,
            self.mean_precision_prior_,
            self.degrees_of_freedom_prior_,
            self.covariance_prior_,
        )
        kinds.check_prior(kind, settings, dim)
        return settings


@estimator
class GaussianMixture(GaussianComponents, MixtureEstimator):
    """A Gaussian mixture by EM, with the arguments of scikit-learn's estimator of this name.

    Args:
      n_components: K.
      covariance_type: "full", "tied" (one for all), "diag" or "spherical" (one variance for each
          component).
      tol: the bound has converged when it changes by less, per row, from one step to the next.
      reg_covar: number added to the diagonal of covariances, as the variance of noise about every
          observation.
      max_iter: most steps.
      n_init: number of starts, side by side; the best is kept.
      init_params: "kmeans", "k-means++" (its seeds alone) or "random" (random classes).
      means_init: (K, D): each row starts in the class of the nearest of these.
      random_state: an integer for results that can be repeated.
      warm_start: `fit` goes on from the end of the last fit.

    Attributes:
      weights_, means_, covariances_, precisions_, precisions_cholesky_: the estimates.
      converged_, n_iter_: whether the fit converged, and its steps.
      lower_bound_, lower_bounds_: mean log likelihood of a row, at the last step and at each.
      places_: None; or (K, D), if a component is so far from zero that rounding would hide its
        spread: then the means in `fit_` are differences from these places.
      centre_: 0; or (D,), if all rows are far from zero, compared with their extent: then `fit_`
        and `places_` are for rows less this centre.
      fit_: the `vijax.Fit`.

    >>> X = np.array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> gm = GaussianMixture(n_components=2, random_state=0).fit(X)
    >>> gm.means_[gm.means_[:, 0].argsort()].round(2).tolist()
    [[1.0, 2.0], [10.0, 2.0]]
    """

    _: dataclasses.KW_ONLY
    means_init: Any = None
    _classes = None  # probabilities of classes from which a fit starts again
    places_ = None

    def bic(self, X: Any) -> float:
        """Bayesian information criterion: lower is better."""
        return -2 * self.score(X) * len(X) + self._n_parameters() * np.log(len(X))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion: lower is better."""
        return -2 * self.score(X) * len(X) + 2 * self._n_parameters()

    def _n_parameters(self) -> int:
        return kinds.num_parameters(self.covariance_type, *self.means_.shape)

    def _algorithm(self) -> Algorithm:
        start = self._start()
        if self._classes is not None:
            start = start_from_classes(self._classes)
        return em(mixture(self.emission_, init=start, prior_as_point=True), update=kl())

    def _emission(self, dim: int) -> Emission:
        emission = super()._emission(dim)
        return emission if self.places_ is None else around(emission, self.places_)

    def _places(self) -> Any:
        return or_default(self.places_, 0.0)

    def _begin(self, X: np.ndarray) -> None:
        self.places_ = None
        self._classes = None

    def _improve(self, row_fit: RowFit, X: np.ndarray, weights: np.ndarray) -> RowFit:
        """The fit, or one from places near the components if one is too far from zero for its
        spread: see `vijax.models.emission.around`. A tied covariance is that of all rows, and needs
        none."""
        noise = float(self.reg_covar)
        if self.covariance_type == "tied" or not may_lose(X, noise):
            return row_fit
        steps = row_fit.n_iter
        for _ in range(ROUNDS):
            probs = apply_by_row(functools.partial(_class_probabilities, row_fit.fit), X)
            components = moments(X, probs, weights, self.covariance_type, noise)
            if not is_lost(components, self._places()):
                break
            self.places_ = components.mean
            self._classes = probs
            row_fit = self._fit_from(X, weights, None, 1)
            steps += row_fit.n_iter
        self._classes = None
        return row_fit._replace(n_iter=steps)

    def _prior(self, X: np.ndarray, weights: np.ndarray) -> Product:
        """The prior; EM reads it only if a start leaves a component without rows."""
        dim = X.shape[1]
        kind = self.covariance_type
        mean, sd = mean_and_spread(X, weights)
        spread = kinds.identity(kind, dim) * max(float((sd**2).mean()), 1e-12)
        settings = kinds.Settings(mean - self._places(), 0.01, dim + 2.0, (dim + 2.0) * spread)
        components = kinds.make_emission(kind, self.n_components, dim, settings).prior
        shares = Dirichlet.from_concentration(np.ones(self.n_components))
        return Product({"components": components, "weights": shares})

    def _describe(self, bounds: np.ndarray) -> None:
        super()._describe(bounds / self.fit_.trace["num_groups"][-1])


def _class_probabilities(fit: Any, rows: Any) -> Any:
    """Probabilities of the components, given rows."""
    return fit.locals(rows, key=jax.random.key(0))["z"].probs


@estimator
class BayesianGaussianMixture(GaussianPrior, GaussianComponents, PartialFitMixture):
    """A Gaussian mixture by variational inference, with the arguments of scikit-learn's estimator
    of this name.

    Args:
      n_components: number of components at most; components that are not needed lose their weight.
      covariance_type, reg_covar, max_iter, n_init, init_params, random_state, warm_start: as in
          `GaussianMixture`.
      tol: the bound of all rows together has converged when it changes by less from one step to the
          next.
      weight_concentration_prior_type: "dirichlet_process" (stick breaking, truncated at
        `n_components`) or "dirichlet_distribution".
      weight_concentration_prior: concentration of this prior; None is 1 / n_components.
      mean_precision_prior: number of rows that the prior of the means is worth; None is 1.
      mean_prior: prior mean of the means; None is the mean of X.
      degrees_of_freedom_prior: degrees of freedom of the prior of the precisions, above n_features
        - 1; None is n_features.
      covariance_prior: prior covariance times the degrees of freedom; None takes the covariance of
        X. Its shape is (D, D) for full and tied, (D,) for diag, a number for spherical. For tied,
        the prior counts once for each component.
      total_samples, learning_decay, learning_offset: for `partial_fit`, as in `PoissonMixture`.

    Attributes:
      weights_, means_: posterior means.
      covariances_, precisions_, precisions_cholesky_: from the posterior means of the precisions.
      weight_concentration_: concentration of the weights' posterior; for the process a pair, for
          the first n_components - 1 sticks.
      mean_precision_, degrees_of_freedom_: parameters of the posterior.
      mean_prior_, covariance_prior_, mean_precision_prior_, degrees_of_freedom_prior_,
        weight_concentration_prior_: the priors that were used.
      converged_, n_iter_, lower_bounds_: whether the fit converged, its steps and bounds;
        `lower_bound_` is the bound on log p(X).
      centre_: as in `GaussianMixture`.
      fit_: the `vijax.Fit`, with the whole posterior.

    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [9.0, 9.0]], 30, axis=0)
    >>> gm = BayesianGaussianMixture(n_components=2, random_state=42).fit(X)
    >>> bool(gm.predict([[0, 0]])[0] != gm.predict([[9, 9]])[0])
    True
    """

    _: dataclasses.KW_ONLY
    n_components: Size = 1
    weight_concentration_prior_type: Literal["dirichlet_process", "dirichlet_distribution"] = (
        "dirichlet_process"
    )
    weight_concentration_prior: Positive | None = None

    @property
    def _is_process(self) -> bool:
        return self.weight_concentration_prior_type == "dirichlet_process" and self.n_components > 1

    def _tol_per_row(self, rows: float) -> float:
        """`tol` per row: here, as in scikit-learn, `tol` is for all rows together."""
        return self.tol / rows

    def _algorithm(self) -> Algorithm:
        return cavi(self._mixture())

    def _stochastic(self) -> Algorithm:
        return svi(self._mixture(), step_size=self._steps())

    def _mixture(self) -> Any:
        make = dp_mixture if self._is_process else mixture
        return make(self.emission_, init=self._start(), prior_as_point=True)

    def _prior(self, X: np.ndarray, weights: np.ndarray) -> Product:
        kind = self.covariance_type
        size = self.n_components
        self.weight_concentration_prior_ = or_default(self.weight_concentration_prior, 1.0 / size)
        settings = self._settings(X, weights)
        if kind == "tied":
            settings = settings.times(size)
        components = kinds.make_emission(kind, size, X.shape[1], settings).prior
        concentration = np.float64(self.weight_concentration_prior_)
        if self._is_process:
            sticks = stick_breaking.dirichlet_process(concentration, size - 1)
            return Product({"components": components, "sticks": sticks})
        shares = Dirichlet.from_concentration(np.full(size, concentration))
        return Product({"components": components, "weights": shares})

    def _describe(self, bounds: np.ndarray) -> None:
        super()._describe(bounds)
        q: Any = self.fit_.posterior
        self.weight_concentration_: Any
        if self._is_process:
            sticks = q["sticks"]
            self.weight_concentration_ = np.array(sticks.alpha), np.array(sticks.beta)
        else:
            self.weight_concentration_ = np.array(q["weights"].concentration)
        self.mean_precision_, self.degrees_of_freedom_ = _strengths(
            self.covariance_type, q["components"], self.n_components
        )


def _strengths(kind: str, q: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """kappa and nu of each component, (K,); for tied nu is one number, the share of a component."""
    strength = np.array(q.strength)
    if kind == "diag":
        return strength[:, 0], 2.0 * np.array(q.shape)[:, 0]
    if kind == "spherical":
        return strength[:, 0], np.array(q.degrees) / q.num_means
    return strength, np.array(q.degrees) / (size if kind == "tied" else 1)
