"""A Gaussian mixture that finds the number of its components, as an estimator."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Self

import numpy as np

from vijax.arguments import Positive, Size
from vijax.checks import require
from vijax.data.loader import ArrayLoader
from vijax.fitting.status import Status
from vijax.growing.grow import grow
from vijax.models.mixtures.mixture import dp_mixture
from vijax.sklearn.gaussian_mixture import GaussianComponents, GaussianPrior
from vijax.sklearn.mixtures import FittedMixture
from vijax.sklearn.parts.base import estimator, size_with_padding, to_key
from vijax.xla.precision import enable_x64


@estimator
class GrowingGaussianMixture(GaussianPrior, GaussianComponents, FittedMixture):
    """A Gaussian mixture that finds the number of its components: births, merges and deletes, each
    accepted by the exact bound of a Dirichlet process's mixture (Hughes and Sudderth 2013;
    `vijax.grow`).

    Args:
      max_components: number of components that is not exceeded, two or more.
      covariance_type: "full", "diag" or "spherical" (one variance for each component).
      patience: rounds without an accepted birth after which it ends; more rounds find smaller
          components.
      weight_concentration_prior: concentration of the process.
      reg_covar, mean_precision_prior, mean_prior, degrees_of_freedom_prior, covariance_prior: as in
        `BayesianGaussianMixture`.
      random_state: an integer for results that can be repeated.

    Attributes:
      n_components_: number of components that hold rows. If it equals max_components, raise that:
          births had no room.
      weights_, means_, covariances_, precisions_, precisions_cholesky_: as in
        `BayesianGaussianMixture`, for these components, the largest first (a single one is
        followed by an empty one).
      lower_bound_, lower_bounds_: bound on log p(X), at the end and after each move that was tried.
      n_iter_: passes over the data.
      centre_: as in `GaussianMixture`.
      fit_: the `vijax.Fit`; its trace names the moves.

    >>> X = np.random.default_rng(0).normal(size=(90, 2)) + np.repeat([[0.0, 0.0], [9.0, 9.0], [0.0, 9.0]], 30, axis=0)
    >>> gm = GrowingGaussianMixture(random_state=0).fit(X)
    >>> gm.n_components_, gm.weights_.round(1).tolist()
    (3, [0.3, 0.3, 0.3])
    """

    max_components: Size = 64
    _: dataclasses.KW_ONLY
    covariance_type: Literal["full", "diag", "spherical"] = "full"
    patience: Size = 2
    weight_concentration_prior: Positive = 1.0
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fits the mixture.

        Args:
          X: observations, (rows, features).
          y: ignored.

        Raises:
          ValueError: an argument out of its range, numbers that are missing or not finite.
        """
        self._check_settings()
        require(self.max_components > 1, "max_components", "two or more", self.max_components)
        X = self._check_rows(X, reset=True)
        rows, dim = X.shape
        with enable_x64(True):
            prior = self._settings(X, np.ones(rows))
            components = lambda size: self._components(size, dim, prior)
            self.fit_ = grow(
                lambda size: dp_mixture(components(size), self.weight_concentration_prior),
                ArrayLoader(X, size_with_padding(rows), 0),
                key=to_key(self.random_state),
                most=self.max_components,
                patience=self.patience,
                trim=True,
            )
            trace = self.fit_.trace
            self.n_components_ = int(trace["in_use"][-1])
            self.emission_ = components(int(trace["slots"][-1]))
            self._describe(trace["elbo"])
        self.n_iter_ = int(trace["step"][-1])
        self.converged_ = self.fit_.status is Status.CONVERGED
        return self
