"""The normal-Wishart distribution of a mean and a precision matrix: L ~ Wishart(n, P), mu | L ~ N(m, (kappa L)^-1).

    q(mu, L) = |L|^{-D/2} exp{<kappa m, L mu> + <-(P + kappa m m' / 2), L> - kappa / 2 (mu' L mu) + n log|L| - A},
    A = A_Wishart(n, P) - D log(kappa) / 2 + D log(2 pi) / 2

The conjugate prior of a multivariate normal's two parameters: an observation y adds (y, -y y' / 2, -1/2, 1/2). In the
coordinates (m, kappa, (P, n)) the Fisher matrix is block diagonal, which makes `fisher_solve` and V closed forms of
O(D^3). P is a difference of natural parameters: float32 loses 3e-8 of kappa m m' / 2 in it, which the law shows
sqrt(degrees) times. With c the condition number of the scale's correlations times sqrt(degrees), divergences, entropies
and densities are right to 1e-3 where c is up to 1e3 and |m| up to 50 / sqrt(c) of its own spreads (of N(0, (kappa
P)^-1)); the constructor raises where more than 1e-3 of P goes. Centre the data then.

The normal-inverse-Wishart, a law of (mu, L^-1), has these statistics and parameters: it is this family relabelled,
and there is no class for it.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.checks import require
from vijax.families.base import as_floats, family, finite
from vijax.families.construction import constructor, on_host
from vijax.families.discrete.dirichlet import positive_and_finite
from vijax.families.held import CENTRE, lost_spread, require_held
from vijax.families.means_and_precision import MeansAndPrecision
from vijax.families.numeric.excess import less_half_product
from vijax.families.univariate import StudentLaw
from vijax.families.vector.matrices import inverse, outer, symmetric
from vijax.families.vector.wishart import Wishart, checked_degrees


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
        """Normal-Wisharts from m (*batch, D), kappa (*batch,), and a Wishart's degrees (*batch,), scale (*batch, D, D).

        Raises:
          ValueError: a location that is not finite or does not fit, a strength that is not positive and finite, degrees
            that do not exceed D - 1, a scale that is not symmetric positive definite, or whose inverse is lost beside
            strength * location location'.
        """
        xp, m, kappa, degrees, scale = on_host(*as_floats(location, strength, degrees, scale))
        require(m.ndim >= 1 and m.shape[-1:] == scale.shape[-1:], "location", f"vectors of {scale.shape[-1:]}", m.shape)
        require(finite(m), "location", "finite numbers", m)
        require(positive_and_finite(kappa), "strength", "positive finite numbers", kappa)
        degrees, scale = checked_degrees(degrees, scale, "scale")
        batch = jnp.broadcast_shapes(m.shape[:-1], kappa.shape, degrees.shape)
        m, kappa = xp.broadcast_to(m, batch + m.shape[-1:]), xp.broadcast_to(kappa, batch)
        wishart = Wishart.from_degrees_scale(xp.broadcast_to(degrees, batch), scale)
        _, minus_rate, half_degrees = on_host(wishart.negative_rate, wishart.half_degrees)
        rate = -symmetric(minus_rate)
        linear, raw = kappa[..., None] * m, rate + 0.5 * kappa[..., None, None] * outer(m, m)
        raw = raw + (rate - _rate(raw, linear, kappa))  # the effect of rounding `linear`
        require_held("scale", _lost_scale, xp.broadcast_to(scale, raw.shape), -raw, linear, kappa, remedy=CENTRE)
        return cls(linear, -raw, -0.5 * kappa, half_degrees)

    def precision_law(self) -> Wishart:
        """The marginal law of the precision matrix."""
        rate = _rate(-self.negative_raw_rate, self.strength_times_location, self.strength)
        return Wishart(-rate, self.half_degrees)

    def mean_law(self) -> StudentLaw:
        """The marginal laws of the numbers of mu: Student's t with f = degrees - D + 1 degrees of freedom."""
        freedom = self.degrees - self.dim + 1.0
        spread = jnp.diagonal(inverse(jnp.linalg.cholesky(self.scale)), axis1=-2, axis2=-1)
        scale = jnp.sqrt(spread / (self.strength * freedom)[..., None])
        return StudentLaw(jnp.broadcast_to(freedom[..., None], scale.shape), self.location, scale)


def _rate(raw: Array, linear: Array, strength: Array) -> Array:
    """P of the raw rate P + kappa m m' / 2."""
    return less_half_product(raw, linear[..., :, None], linear[..., None, :], strength[..., None, None])


def _lost_scale(scale: np.ndarray, raw: np.ndarray, linear: np.ndarray, strength: np.ndarray) -> np.ndarray:
    squares = linear[..., :, None] * linear[..., None, :] / strength[..., None, None]
    return lost_spread(scale, -2.0 * raw - squares)
