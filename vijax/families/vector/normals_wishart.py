"""Several means and the one precision matrix that they share: L ~ Wishart(n, P), mu_j | L ~ N(m_j, (kappa_j L)^-1), J
of them, independent given L.

    q(mu, L) = |L|^{(J-D-1)/2} exp{sum_j [<kappa_j m_j, L mu_j> - kappa_j / 2 (mu_j' L mu_j)]
               + <-(P + sum_j kappa_j m_j m_j' / 2), L> + n log|L| - A},
    A = A_Wishart(n, P) + sum_j [D log(2 pi) - D log(kappa_j)] / 2

The conjugate prior of Gaussian components of one covariance ("tied"): an observation y of component j adds y to the
j-th location, -1/2 to its strength, and (-y y' / 2, 1/2) to the shared two. With D = 1 it is one gamma for J means: a
component whose covariance is a multiple of the identity ("spherical"), its coordinates the means. With J = 1 it is the
normal-Wishart (`normal_wishart.py`), whose closed forms these are, summed over the means; its remarks on float32 hold
for sum_j kappa_j m_j m_j' / 2 here.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.checks import require
from vijax.families.base import as_floats, family, finite, positive_and_finite
from vijax.families.construction import constructor, on_host
from vijax.families.held import CENTRE, lost_spread, require_held
from vijax.families.means_and_precision import MeansAndPrecision, sum_of_products
from vijax.families.univariate import StudentLaw
from vijax.families.vector.matrices import symmetric
from vijax.families.vector.normal_wishart import NormalWishart
from vijax.families.vector.wishart import Wishart, checked_degrees


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
        """Laws from m (*batch, J, D), kappa (*batch, J) or one for all, and the Wishart's degrees (*batch,) and scale
        (*batch, D, D).

        Raises:
          ValueError: as `NormalWishart.from_parameters`.
        """
        xp, m, kappa, degrees, scale = on_host(*as_floats(location, strength, degrees, scale))
        fits = m.ndim >= 2 and m.shape[-1:] == scale.shape[-1:]
        require(fits, "location", f"J vectors of {scale.shape[-1:]}", m.shape)
        require(finite(m), "location", "finite numbers", m)
        require(positive_and_finite(kappa), "strength", "positive finite numbers", kappa)
        degrees, scale = checked_degrees(degrees, scale, "scale")
        batch = jnp.broadcast_shapes(m.shape[:-2], kappa.shape[:-1], degrees.shape)
        m, kappa = xp.broadcast_to(m, batch + m.shape[-2:]), xp.broadcast_to(kappa, batch + m.shape[-2:-1])
        wishart = Wishart.from_degrees_scale(xp.broadcast_to(degrees, batch), scale)
        _, minus_rate, half_degrees = on_host(wishart.negative_rate, wishart.half_degrees)
        rate = -symmetric(minus_rate)
        linear = kappa[..., None] * m
        raw = rate + 0.5 * xp.einsum("...ji,...jk->...ik", linear, m)
        require_held("scale", _lost_scale, xp.broadcast_to(scale, raw.shape), raw, linear, kappa, remedy=CENTRE)
        return cls(linear, -raw, -0.5 * kappa, half_degrees)

    @property
    def num_means(self) -> int:
        """J."""
        return self.strength_times_location.shape[-2]

    def precision_law(self) -> Wishart:
        """The marginal law of the precision matrix."""
        raw = 0.5 * sum_of_products(self.strength_times_location, self.location)
        return Wishart(symmetric(self.negative_raw_rate + raw), self.half_degrees)

    def each(self) -> NormalWishart:
        """The marginal laws of (mu_j, L), with a batch axis of J."""
        law, shape = self.precision_law(), self.strength.shape
        outer = jnp.einsum("...ji,...jk->...jik", self.strength_times_location, self.location)
        raw = law.negative_rate[..., None, :, :] - 0.5 * outer
        half_degrees = jnp.broadcast_to(self.half_degrees[..., None], shape)
        return NormalWishart(self.strength_times_location, raw, self.negative_half_strength, half_degrees)

    def mean_law(self) -> StudentLaw:
        """The marginal laws of the numbers of mu, as for the normal-Wishart."""
        return self.each().mean_law()


def _lost_scale(scale: np.ndarray, raw: np.ndarray, linear: np.ndarray, strength: np.ndarray) -> np.ndarray:
    squares = np.einsum("...ji,...jk->...ik", linear, linear / strength[..., None])
    return lost_spread(scale, 2.0 * raw - squares)
