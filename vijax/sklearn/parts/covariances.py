"""The four kinds of covariances in scikit-learn's terms: emissions, priors and estimates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vijax.checks import require
from vijax.families.vector.matrices import is_definite
from vijax.models import emission
from vijax.models.emission import Emission


class Settings(NamedTuple):
    """The prior in scikit-learn's terms."""

    mean: np.ndarray  # prior mean of the means, (D,)
    strength: float  # number of observations that the prior mean is worth
    degrees: float  # nu, degrees of freedom of the precisions
    # The inverse scale of the Wishart: (D, D) for full and tied, (D,) for diag, one number for
    # spherical
    covariance: np.ndarray

    def times(self, count: int) -> Settings:
        """The prior of a precision that components share, counted once for each component."""
        return self._replace(degrees=count * self.degrees, covariance=count * self.covariance)


def make_emission(
    kind: str, num_components: int, dim: int, settings: Settings | None = None
) -> Emission:
    """The observation model of the components under this prior; without one under some prior."""
    settings = settings or Settings(np.zeros(dim), 1.0, float(dim), identity(kind, dim))
    means = {"location": settings.mean, "strength": settings.strength}
    degrees = settings.degrees
    if kind in ("full", "tied"):
        make = emission.full_gaussian if kind == "full" else emission.tied_gaussian
        scale = np.linalg.inv(settings.covariance)
        return make(num_components, dim, degrees=degrees, scale=0.5 * (scale + scale.T), **means)
    shape = 0.5 * degrees
    rate = 0.5 * settings.covariance
    if kind == "diag":
        return emission.diagonal_gaussian(num_components, dim, shape=shape, rate=rate, **means)
    return emission.spherical_gaussian(
        num_components, dim, shape=dim * shape, rate=dim * rate, **means
    )


def identity(kind: str, dim: int) -> np.ndarray:
    """The unit covariance of this kind."""
    if kind in ("full", "tied"):
        return np.eye(dim)
    return np.ones(dim) if kind == "diag" else np.ones(())


def covariance_of_data(kind: str, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The covariance of weighted rows, for a prior; the identity for one row."""
    if len(X) < 2:
        return identity(kind, X.shape[1])
    if np.all(weights == 1):
        matrix = np.atleast_2d(np.cov(X.T))
        variance = X.var(axis=0, ddof=1)
    else:
        # Weights may be small: their ratios still matter
        count = max(float(weights.sum()), 2.0)
        matrix = np.atleast_2d(np.cov(X.T, aweights=weights, ddof=0)) * count / (count - 1)
        variance = np.diag(matrix)
    if kind in ("full", "tied"):
        return matrix
    return variance if kind == "diag" else variance.mean()


def check_prior(kind: str, settings: Settings, dim: int) -> None:
    """Raises ValueError naming scikit-learn's argument."""
    covariance = settings.covariance
    shape = identity(kind, dim).shape
    expected = f"shape {shape} for covariance_type={kind!r}"
    require(np.shape(covariance) == shape, "covariance_prior", expected, np.shape(covariance))
    mean_shape = np.shape(settings.mean)
    require(mean_shape == (dim,), "mean_prior", f"shape ({dim},)", mean_shape)
    degrees = settings.degrees
    expected = f"a number above n_features - 1 = {dim - 1}"
    require(degrees > dim - 1, "degrees_of_freedom_prior", expected, degrees)
    matrix = covariance if np.ndim(covariance) == 2 else np.diag(np.atleast_1d(covariance))
    is_valid = bool(np.all(np.isfinite(matrix)) and np.all(is_definite(matrix)))
    require(is_valid, "covariance_prior", "a positive definite covariance", covariance)


def read_means(kind: str, point: Any) -> np.ndarray:
    """The means (K, D) of a `MeanPrecision`."""
    mean = np.array(point.mean)
    return mean[..., 0] if kind == "spherical" else mean


def read_precisions(kind: str, point: Any) -> np.ndarray:
    """Precisions in scikit-learn's shapes: (K, D, D), (D, D), (K, D) or (K,)."""
    precision = np.array(point.precision)
    return precision[:, 0, 0] if kind == "spherical" else precision


def invert_precisions(kind: str, precisions: np.ndarray) -> np.ndarray:
    """The inverses of the precisions."""
    return np.linalg.inv(precisions) if kind in ("full", "tied") else 1.0 / precisions


def factor_precisions(kind: str, precisions: np.ndarray) -> np.ndarray:
    """C with C C' the precision, upper triangular as in scikit-learn; square roots for the diagonal
    kinds."""
    if kind not in ("full", "tied"):
        return np.sqrt(precisions)
    inverse = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(precisions)))
    return inverse.swapaxes(-1, -2)


def covariance_matrix(kind: str, covariances: np.ndarray, component: int, dim: int) -> np.ndarray:
    """The covariance (D, D) of one component."""
    if kind == "tied":
        return covariances
    covariance = covariances[component]
    return covariance if kind == "full" else np.diag(np.broadcast_to(covariance, (dim,)))


def num_parameters(kind: str, num_components: int, dim: int) -> int:
    """The number of free parameters of a mixture: covariances, means, weights."""
    matrix = dim * (dim + 1) // 2
    sizes = {
        "full": num_components * matrix,
        "tied": matrix,
        "diag": num_components * dim,
        "spherical": num_components,
    }
    return sizes[kind] + num_components * dim + num_components - 1
