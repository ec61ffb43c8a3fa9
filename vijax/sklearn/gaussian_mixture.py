"""Gaussian mixtures as estimators: by EM, and by variational inference."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import jax
import numpy as np

from vijax.algorithms import cavi, em, svi
from vijax.arguments import NotNegative, Positive, Size
from vijax.families import Dirichlet, Product
from vijax.families.discrete import stick_breaking
from vijax.inference.compose import Algorithm
from vijax.inference.update import kl
from vijax.models.emission import Emission, around, blurred
from vijax.models.formulas.weighted import mean_and_spread
from vijax.models.mixtures.mixture import dp_mixture, mixture
from vijax.sklearn.mixtures import MixtureEstimator, PartialFitMixture
from vijax.sklearn.parts import covariances as kinds
from vijax.sklearn.parts.base import apply_by_row, estimator
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
        """X less the centre of the first rows, where these are far from zero: no digits of their
        spread are lost."""
        X = super()._check_rows(X, reset)  # type: ignore[misc]
        goes_on = getattr(self, "warm_start", False) and hasattr(self, "fit_")
        if reset and not goes_on:
            self.centre_ = choose_centre(X)
        return X - self.centre_

    def _components(self, size: int, dim: int, prior: kinds.Settings | None = None) -> Emission:
        """The observation model of so many components."""
        return blurred(
            kinds.make_emission(self.covariance_type, size, dim, prior), float(self.reg_covar)
        )

    def _emission(self, dim: int) -> Emission:
        own: Any = self
        return self._components(own.n_components, dim)

    def _places(self) -> Any:
        """The places from which means are described."""
        return 0.0

    def _describe(self, bounds: np.ndarray) -> None:
        super()._describe(bounds)  # type: ignore[misc]
        own: Any = self
        kind, point = self.covariance_type, own.fit_.estimates["components"].mean()
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
    """The prior of Gaussian components with a posterior."""

    _: dataclasses.KW_ONLY
    mean_precision_prior: Positive | None = None
    mean_prior: Any = None
    degrees_of_freedom_prior: float | None = None
    covariance_prior: Any = None

    def _settings(self, X: np.ndarray, weights: np.ndarray) -> kinds.Settings:
        """The prior for these rows and weights, which it sets as attributes."""
        own: Any = self
        kind, dim = own.covariance_type, X.shape[1]
        chosen = lambda value, default: default if value is None else value
        self.mean_precision_prior_ = chosen(self.mean_precision_prior, 1.0)
        mean = mean_and_spread(X, weights)[0] + own.centre_
        self.mean_prior_ = np.asarray(chosen(self.mean_prior, mean), np.float64)
        self.degrees_of_freedom_prior_ = chosen(self.degrees_of_freedom_prior, float(dim))
        spread = kinds.covariance_of_data(kind, X, weights) + own.reg_covar * kinds.identity(
            kind, dim
        )
        self.covariance_prior_ = np.asarray(chosen(self.covariance_prior, spread), np.float64)
        settings = kinds.Settings(
            self.mean_prior_ - own.centre_,
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
      places_: None; or (K, D), where a component is so far from zero, for its spread, that rounding
        would hide it: then the means in `fit_` are differences from these places.
      centre_: 0; or (D,), where all rows are far from zero for their extent: `fit_` and `places_`
        then are of rows less this centre.
      fit_: the `vijax.Fit`.

    >>> X = np.array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> gm = GaussianMixture(n_components=2, random_state=0).fit(X)
    >>> gm.means_[gm.means_[:, 0].argsort()].round(2).tolist()
    [[1.0, 2.0], [10.0, 2.0]]
    """

    _: dataclasses.KW_ONLY
    means_init: Any = None
    _classes = None  # probabilities of classes from which a fit begins again
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
        start = self._start() if self._classes is None else start_from_classes(self._classes)
        return em(mixture(self.emission_, init=start, prior_as_point=True), update=kl())

    def _emission(self, dim: int) -> Emission:
        found = super()._emission(dim)
        return found if self.places_ is None else around(found, self.places_)

    def _places(self) -> Any:
        return 0.0 if self.places_ is None else self.places_

    def _begin(self, X: np.ndarray) -> None:
        self.places_ = self._classes = None

    def _improve(self, found: RowFit, X: np.ndarray, weights: np.ndarray) -> RowFit:
        """A component that is too far from zero for its spread is fitted again, from a place near
        it: see `vijax.models.emission.around`. A tied covariance is of all rows, and needs none."""
        noise = float(self.reg_covar)
        if self.covariance_type == "tied" or not may_lose(X, noise):
            return found
        steps = found.n_iter
        for _ in range(ROUNDS):
            probs = apply_by_row(functools.partial(_class_probabilities, found.fit), X)
            known = moments(X, probs, weights, self.covariance_type, noise)
            if not is_lost(known, self._places()):
                break
            self.places_, self._classes = known.mean, probs
            found = self._fit_from(X, weights, None, 1)
            steps += found.n_iter
        self._classes = None
        return found._replace(n_iter=steps)

    def _prior(self, X: np.ndarray, weights: np.ndarray) -> Product:
        """The prior, which EM reads only where a start leaves a component without rows."""
        dim, kind = X.shape[1], self.covariance_type
        mean, sd = mean_and_spread(X, weights)
        spread = kinds.identity(kind, dim) * max(float((sd**2).mean()), 1e-12)
        settings = kinds.Settings(mean - self._places(), 0.01, dim + 2.0, (dim + 2.0) * spread)
        components = kinds.make_emission(kind, self.n_components, dim, settings).prior
        return Product(
            {
                "components": components,
                "weights": Dirichlet.from_concentration(np.ones(self.n_components)),
            }
        )

    def _describe(self, bounds: np.ndarray) -> None:
        super()._describe(bounds / self.fit_.trace["num_groups"][-1])


def _class_probabilities(fit: Any, rows: Any) -> Any:
    """Probabilities of the components of rows."""
    return fit.locals(rows, key=jax.random.key(0))["z"].probs


@estimator
class BayesianGaussianMixture(GaussianPrior, GaussianComponents, PartialFitMixture):
    """A Gaussian mixture by variational inference, with the arguments of scikit-learn's estimator
    of this name.

    Args:
      n_components: most components; those that are not needed lose their weight.
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
          the first n_components
        - 1 sticks.
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
        kind, dim, size = self.covariance_type, X.shape[1], self.n_components
        given = self.weight_concentration_prior
        self.weight_concentration_prior_ = 1.0 / size if given is None else given
        settings = self._settings(X, weights)
        settings = settings.times(size) if kind == "tied" else settings
        components = kinds.make_emission(kind, size, dim, settings).prior
        concentration = np.float64(self.weight_concentration_prior_)
        if self._is_process:
            return Product(
                {
                    "components": components,
                    "sticks": stick_breaking.dirichlet_process(concentration, size - 1),
                }
            )
        return Product(
            {
                "components": components,
                "weights": Dirichlet.from_concentration(np.full(size, concentration)),
            }
        )

    def _describe(self, bounds: np.ndarray) -> None:
        super()._describe(bounds)
        q = self.fit_.posterior
        components = q["components"]
        if self._is_process:
            self.weight_concentration_: Any = (
                np.array(q["sticks"].alpha),
                np.array(q["sticks"].beta),
            )
        else:
            self.weight_concentration_ = np.array(q["weights"].concentration)
        self.mean_precision_, self.degrees_of_freedom_ = _strengths(
            self.covariance_type, components, self.n_components
        )


def _strengths(kind: str, q: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """kappa and nu of each component, (K,); for tied nu is one number, the share of one
    component."""
    strength = np.array(q.strength)
    if kind == "diag":
        return strength[:, 0], 2.0 * np.array(q.shape)[:, 0]
    if kind == "spherical":
        return strength[:, 0], np.array(q.degrees) / q.num_means
    return strength, np.array(q.degrees) / (size if kind == "tied" else 1)
