"""Distributions of means and one precision matrix: the normal-Wishart, for one mean or several.

    L ~ Wishart(n, P),     mu_j | L ~ N(m_j, (kappa_j L)^-1), independent given L,     j = 1..J

    q(mu, L) = |L|^{(J-D-1)/2} exp{sum_j [<kappa_j m_j, L mu_j> - kappa_j / 2 (mu_j' L mu_j)]
               + <-(P + sum_j kappa_j m_j m_j' / 2), L> + n log|L| - A},
    A = A_Wishart(n, P) + sum_j [D log(2 pi) - D log(kappa_j)] / 2

With J = 1 it is the conjugate prior of the two parameters of a multivariate normal, with J > 1 of
Gaussian components with one covariance ("tied"): an observation y of component j adds y to the j-th
location, -1/2 to its strength, and (-y y' / 2, 1/2) to the shared parameters. With D = 1 it is one
gamma for J means, the coordinates of a component whose covariance is a multiple of the identity
("spherical"). In the coordinates (m, kappa, (P, n)) the Fisher matrix is block diagonal, so
`fisher_solve` and V have closed forms of O(D^3).

P is a difference of natural parameters: float32 loses 3e-8 of sum_j kappa_j m_j m_j' / 2 in it, and
the law amplifies this by sqrt(degrees). With c the condition number of the scale's correlations
times sqrt(degrees), divergences, entropies and densities are right to 1e-3 for c up to 1e3 and |m|
up to 50 / sqrt(c) standard deviations of N(0, (kappa P)^-1). The constructors raise if rounding
changes P by more than 1e-3; then centre the data.

The normal-inverse-Wishart, a law of (mu, L^-1), has the same statistics and parameters, so it needs
no class."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.checks import require
from vijax.families.base import as_floats, family, finite, positive_and_finite
from vijax.families.construction import (
    CENTRE,
    constructor,
    numpy_or_jax,
    require_accuracy,
    spread_error,
)
from vijax.families.laws import StudentLaw
from vijax.families.numeric.excess import less_half_product
from vijax.families.vector.matrices import inverse, outer, symmetric
from vijax.families.vector.means_and_precision import MeansAndPrecision, sum_of_products
from vijax.families.vector.wishart import Wishart, check_degrees


class NormalWishartStats(NamedTuple):
    """t(mu, L) = (L mu, L, mu' L mu, log|L|)."""

    precision_times_mean: Float[Array, "*batch D"]
    precision: Float[Array, "*batch D D"]
    quadratic: Float[Array, "*batch"]
    log_det: Float[Array, "*batch"]


@family
class NormalWishart(MeansAndPrecision):
    """A normal-Wishart distribution over (mean, precision matrix) of a multivariate normal.

    log h(mean, precision) = -dim / 2 * logdet(precision);
    t = (precision @ mean, precision, mean @ precision @ mean, logdet(precision));
    natural parameters (strength * location, -inv(scale) / 2 - strength * outer(location, location) / 2,
    -strength / 2, degrees / 2).

    >>> q = NormalWishart.from_parameters(
    ...     location=[1.0, 0.0], strength=2.0, degrees=4.0, scale=[[0.5, 0.0], [0.0, 1.0]]
    ... )
    >>> print(q.mean().mean, q.mean().precision.round(3).tolist())
    [1. 0.] [[2.0, 0.0], [0.0, 4.0]]
    """

    strength_times_location: Float[Array, "*batch D"]
    negative_raw_rate: Float[Array, "*batch D D"]
    negative_half_strength: Float[Array, "*batch"]
    half_degrees: Float[Array, "*batch"]

    Stats: ClassVar = NormalWishartStats
    event_ndims: ClassVar = (1, 2, 0, 0)

    @classmethod
    @constructor
    def from_parameters(cls, location: Any, strength: Any, degrees: Any, scale: Any) -> Self:
        """Normal-Wisharts from m (*batch, D), kappa (*batch,), and a Wishart's degrees (*batch,),
        scale (*batch, D, D).

        Raises:
          ValueError: a location that is not finite or does not fit, a strength that is not positive
            and finite, degrees that do not exceed D - 1, a scale that is not symmetric positive
            definite, or whose inverse rounding removes beside strength * location location'.
        """
        xp, m, kappa, scale, rate, half_degrees = _check_parameters(
            location, strength, degrees, scale, 1
        )
        linear = kappa[..., None] * m
        raw = rate + 0.5 * kappa[..., None, None] * outer(m, m)
        raw = raw + (rate - _rate(raw, linear, kappa))  # undo rounding of `linear`
        scale = xp.broadcast_to(scale, raw.shape)
        arrays = scale, raw, linear[..., None, :], kappa[..., None]
        require_accuracy("scale", _scale_error, *arrays, remedy=CENTRE)
        return cls(linear, -raw, -0.5 * kappa, half_degrees)

    def precision_law(self) -> Wishart:
        rate = _rate(-self.negative_raw_rate, self.strength_times_location, self.strength)
        return Wishart(-rate, self.half_degrees)

    def mean_law(self) -> StudentLaw:
        """The marginal laws of the numbers of mu: Student's t of degrees - D + 1 degrees."""
        freedom = self.degrees - self.dim + 1.0
        spread = jnp.diagonal(inverse(jnp.linalg.cholesky(self.scale)), axis1=-2, axis2=-1)
        scale = jnp.sqrt(spread / (self.strength * freedom)[..., None])
        return StudentLaw(jnp.broadcast_to(freedom[..., None], scale.shape), self.location, scale)


def _rate(raw: Array, linear: Array, strength: Array) -> Array:
    """P from the raw rate P + kappa m m' / 2."""
    column, row = linear[..., :, None], linear[..., None, :]
    return less_half_product(raw, column, row, strength[..., None, None])


class NormalsWishartStats(NamedTuple):
    """t(mu, L) = (L mu_j, L, mu_j' L mu_j, log|L|)."""

    precision_times_mean: Float[Array, "*batch J D"]
    precision: Float[Array, "*batch D D"]
    quadratic: Float[Array, "*batch J"]
    log_det: Float[Array, "*batch"]


@family
class NormalsWishart(MeansAndPrecision):
    """A law of J means and one precision matrix.

    log h(mean, precision) = (num_means - dim - 1) / 2 * logdet(precision);
    t = (mean @ precision, precision, sum((mean @ precision) * mean, 1), logdet(precision));
    natural parameters (strength[:, None] * location, -inv(scale) / 2 - (strength * location.T) @ location / 2,
    -strength / 2, degrees / 2).

    >>> q = NormalsWishart.from_parameters(
    ...     location=[[1.0, 0.0], [0.0, 3.0]], strength=2.0, degrees=4.0, scale=[[0.5, 0.0], [0.0, 1.0]]
    ... )
    >>> print(q.mean().mean.tolist(), q.mean().precision.round(3).tolist())
    [[1.0, 0.0], [0.0, 3.0]] [[2.0, 0.0], [0.0, 4.0]]
    """

    strength_times_location: Float[Array, "*batch J D"]
    negative_raw_rate: Float[Array, "*batch D D"]
    negative_half_strength: Float[Array, "*batch J"]
    half_degrees: Float[Array, "*batch"]

    Stats: ClassVar[type[tuple]] = NormalsWishartStats
    event_ndims: ClassVar[tuple[int, ...]] = (2, 2, 1, 0)

    @classmethod
    @constructor
    def from_parameters(cls, location: Any, strength: Any, degrees: Any, scale: Any) -> Self:
        """Laws from m (*batch, J, D), kappa (*batch, J) or one for all, and the Wishart's degrees
        (*batch,) and scale (*batch, D, D). Raises as `NormalWishart.from_parameters` does."""
        xp, m, kappa, scale, rate, half_degrees = _check_parameters(
            location, strength, degrees, scale, 2
        )
        linear = kappa[..., None] * m
        raw = rate + 0.5 * xp.einsum("...ji,...jk->...ik", linear, m)
        scale = xp.broadcast_to(scale, raw.shape)
        require_accuracy("scale", _scale_error, scale, raw, linear, kappa, remedy=CENTRE)
        return cls(linear, -raw, -0.5 * kappa, half_degrees)

    @property
    def num_means(self) -> int:
        """J."""
        return self.strength_times_location.shape[-2]

    def precision_law(self) -> Wishart:
        raw = 0.5 * sum_of_products(self.strength_times_location, self.location)
        return Wishart(symmetric(self.negative_raw_rate + raw), self.half_degrees)

    def each(self) -> NormalWishart:
        """The marginal laws of (mu_j, L), with a batch axis of J."""
        law = self.precision_law()
        linear = self.strength_times_location
        squares = jnp.einsum("...ji,...jk->...jik", linear, self.location)
        raw = law.negative_rate[..., None, :, :] - 0.5 * squares
        half_degrees = jnp.broadcast_to(self.half_degrees[..., None], self.strength.shape)
        return NormalWishart(linear, raw, self.negative_half_strength, half_degrees)

    def mean_law(self) -> StudentLaw:
        return self.each().mean_law()


def _check_parameters(location: Any, strength: Any, degrees: Any, scale: Any, ndim: int) -> tuple:
    """NumPy or jax.numpy, m with its `ndim` event axes, kappa, the scale, P and n, broadcast;
    ValueError naming the argument that does not fit."""
    xp, m, kappa, degrees, scale = numpy_or_jax(*as_floats(location, strength, degrees, scale))
    fits = m.ndim >= ndim and m.shape[-1:] == scale.shape[-1:]
    require(fits, "location", f"{'J ' * (ndim - 1)}vectors of {scale.shape[-1:]}", m.shape)
    require(finite(m), "location", "finite numbers", m)
    require(positive_and_finite(kappa), "strength", "positive finite numbers", kappa)
    degrees, scale = check_degrees(degrees, scale, "scale")
    kappa_batch = kappa.shape[: kappa.ndim + 1 - ndim]
    batch = jnp.broadcast_shapes(m.shape[:-ndim], kappa_batch, degrees.shape)
    event = m.shape[-ndim:]
    m = xp.broadcast_to(m, batch + event)
    kappa = xp.broadcast_to(kappa, batch + event[:-1])
    wishart = Wishart.from_degrees_scale(xp.broadcast_to(degrees, batch), scale)
    _, minus_rate, half_degrees = numpy_or_jax(wishart.negative_rate, wishart.half_degrees)
    return xp, m, kappa, scale, -symmetric(minus_rate), half_degrees


def _scale_error(
    scale: np.ndarray, raw: np.ndarray, linear: np.ndarray, strength: np.ndarray
) -> np.ndarray:
    squares = np.einsum("...ji,...jk->...ik", linear, linear / strength[..., None])
    return spread_error(scale, 2.0 * raw - squares)
