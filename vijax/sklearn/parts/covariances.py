"""The four kinds of covariances in scikit-learn's terms: emissions, their priors, and their
estimates."""

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
    strength: float  # the number of observations that this is worth
    degrees: float  # nu, degrees of freedom of the precisions
    # The inverse scale of the Wishart: (D, D) for full and tied, (D,) for diag, one number for
    # spherical
    covariance: np.ndarray

    def times(self, times: int) -> Settings:
        """The prior of the one precision that components share, where each of them brings it
        once."""
        return self._replace(degrees=times * self.degrees, covariance=times * self.covariance)


def make_emission(
    kind: str, num_components: int, dim: int, given: Settings | None = None
) -> Emission:
    """The observation model of the components under this prior, or under any prior where there is
    none."""
    given = given or Settings(np.zeros(dim), 1.0, float(dim), identity(kind, dim))
    names = {"location": given.mean, "strength": given.strength}
    if kind in ("full", "tied"):
        make = emission.full_gaussian if kind == "full" else emission.tied_gaussian
        scale = np.linalg.inv(given.covariance)
        return make(
            num_components, dim, degrees=given.degrees, scale=0.5 * (scale + scale.T), **names
        )
    half, half_scale = 0.5 * given.degrees, 0.5 * given.covariance
    if kind == "diag":
        return emission.diagonal_gaussian(num_components, dim, shape=half, rate=half_scale, **names)
    return emission.spherical_gaussian(
        num_components, dim, shape=dim * half, rate=dim * half_scale, **names
    )


def identity(kind: str, dim: int) -> np.ndarray:
    """The unit covariance of this kind."""
    return (
        np.eye(dim) if kind in ("full", "tied") else np.ones(dim) if kind == "diag" else np.ones(())
    )


def covariance_of_data(kind: str, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The covariance of all rows, each as often as its weight says, as a prior; the identity for
    one row."""
    if len(X) < 2:
        return identity(kind, X.shape[1])
    if np.all(weights == 1):
        matrix, variance = np.atleast_2d(np.cov(X.T)), X.var(axis=0, ddof=1)
    else:
        count = max(
            float(weights.sum()), 2.0
        )  # weights may be small: they still say what rows count for
        matrix = np.atleast_2d(np.cov(X.T, aweights=weights, ddof=0)) * count / (count - 1)
        variance = np.diag(matrix)
    if kind in ("full", "tied"):
        return matrix
    return variance if kind == "diag" else variance.mean()


def check_prior(kind: str, settings: Settings, dim: int) -> None:
    """Raises ValueError naming scikit-learn's argument."""
    shape = identity(kind, dim).shape
    got = np.shape(settings.covariance)
    require(got == shape, "covariance_prior", f"shape {shape} for covariance_type={kind!r}", got)
    require(
        np.shape(settings.mean) == (dim,), "mean_prior", f"shape ({dim},)", np.shape(settings.mean)
    )
    enough = settings.degrees > dim - 1
    require(
        enough,
        "degrees_of_freedom_prior",
        f"a number above n_features - 1 = {dim - 1}",
        settings.degrees,
    )
    matrix = (
        settings.covariance
        if np.ndim(settings.covariance) == 2
        else np.diag(np.atleast_1d(settings.covariance))
    )
    definite = bool(np.all(np.isfinite(matrix)) and np.all(is_definite(matrix)))
    require(definite, "covariance_prior", "a positive definite covariance", settings.covariance)


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
    """C with C C' the precision, upper triangular as in scikit-learn; for the diagonal kinds square
    roots."""
    if kind not in ("full", "tied"):
        return np.sqrt(precisions)
    inverse = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(precisions)))
    return inverse.swapaxes(-1, -2)


def covariance_matrix(kind: str, covariances: np.ndarray, component: int, dim: int) -> np.ndarray:
    """The covariance (D, D) of one component."""
    if kind == "tied":
        return covariances
    own = covariances[component]
    return own if kind == "full" else np.diag(np.broadcast_to(own, (dim,)))


def num_parameters(kind: str, num_components: int, dim: int) -> int:
    """Free parameters of a mixture: covariances, means, weights."""
    matrix = dim * (dim + 1) // 2
    sizes = {
        "full": num_components * matrix,
        "tied": matrix,
        "diag": num_components * dim,
        "spherical": num_components,
    }
    return sizes[kind] + num_components * dim + num_components - 1
