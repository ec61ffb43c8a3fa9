"""The normal distribution: q(x) = exp{precision_times_mean x + negative_half_precision x^2 - A}, h
= 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import (
    Family,
    as_float,
    as_floats,
    domain_mask,
    family,
    finite,
    positive_and_finite,
)
from vijax.families.construction import constructor, numpy_or_jax
from vijax.families.laws import NormalLaw
from vijax.families.numeric.excess import log_excess


class NormalStats(NamedTuple):
    """t(x) = (x, x^2)."""

    value: Float[Array, "*batch"]
    square: Float[Array, "*batch"]


@family
class Normal(Family):
    """Normal(mean m, variance v), natural parameters (m / v, -1 / (2 v)).

    log h(x) = 0;  t = (x, x**2);  natural parameters (precision * mean, -precision / 2).

    >>> q = Normal.from_mean_variance(3.0, 4.0)
    >>> print(q.precision_times_mean, q.negative_half_precision, q.mean(), q.variance())
    0.75 -0.125 3.0 4.0
    """

    precision_times_mean: Float[Array, "*batch"]
    negative_half_precision: Float[Array, "*batch"]

    Stats: ClassVar = NormalStats
    event_ndims: ClassVar = (0, 0)

    @classmethod
    @constructor
    def from_mean_variance(cls, mean: Any, variance: Any) -> Self:
        """Normals of this mean and variance, broadcast.

        Raises:
          ValueError: a mean that is not finite, or a variance that is not positive and finite.
        """
        xp, *values = numpy_or_jax(*as_floats(mean, variance))
        mean, variance = xp.broadcast_arrays(*values)
        require(finite(mean), "mean", "finite numbers", mean)
        require(positive_and_finite(variance), "variance", "positive finite numbers", variance)
        return cls(mean / variance, -0.5 / variance)

    def variance(self) -> Float[Array, "*batch"]:
        return -0.5 / self.negative_half_precision

    def marginal_laws(self) -> NormalLaw:
        return NormalLaw(self.mean(), self.std())

    @property
    def precision(self) -> Float[Array, "*batch"]:
        """1 / variance."""
        return -2 * self.negative_half_precision

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = m^2 / (2 v) + log(2 pi v) / 2."""
        square = self.precision_times_mean * self.mean()
        return 0.5 * (square + math.log(2 * math.pi) - jnp.log(self.precision))

    def stats(self, x: Any) -> NormalStats:
        x = as_float(x)
        return NormalStats(x, x**2)

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch"]:
        dtype = jnp.result_type(self.precision_times_mean)
        noise = jax.random.normal(key, shape + self.batch_shape, dtype)
        return self.mean() + jnp.sqrt(self.variance()) * noise

    @property
    def noise_size(self) -> int:
        return math.prod(self.batch_shape)

    def from_noise(self, noise: Float[Array, " noise"]) -> Float[Array, "*batch"]:
        return self.mean() + jnp.sqrt(self.variance()) * jnp.reshape(noise, self.batch_shape)

    def mean(self) -> Float[Array, "*batch"]:
        return self.precision_times_mean * self.variance()

    def mode(self) -> Float[Array, "*batch"]:
        return self.mean()

    def in_domain(self) -> Self:
        ok = (self.negative_half_precision < 0) & jnp.isfinite(self.negative_half_precision)
        return domain_mask(ok & jnp.isfinite(self.precision_times_mean), self)

    def expected_stats(self) -> NormalStats:
        return NormalStats(self.mean(), self.mean() ** 2 + self.variance())

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), without a difference of large numbers."""
        square = self.precision * (x - self.mean()) ** 2
        return -0.5 * (square + math.log(2 * math.pi) - jnp.log(self.precision))

    def entropy(self) -> Float[Array, "*batch"]:
        return 0.5 * (1 + math.log(2 * math.pi) - jnp.log(self.precision))

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """(r - 1 - log r + (m - m')^2 / v') / 2 with r = v / v'; both terms are not negative."""
        gap = other.precision * (self.mean() - other.mean()) ** 2
        excess = (other.precision - self.precision) / self.precision
        return 0.5 * (log_excess(excess, jnp.log(other.precision) - jnp.log(self.precision)) + gap)

    def fisher_product(self, tangent: Self) -> NormalStats:
        """(dm, 2 m dm + dv), the differential of the mean parameters."""
        dp = -2 * tangent.negative_half_precision
        dm = self.variance() * (tangent.precision_times_mean - dp * self.mean())
        dv = -dp * self.variance() ** 2
        return NormalStats(dm, 2 * self.mean() * dm + dv)

    def fisher_solve(self, cotangent: NormalStats) -> Self:
        """The inverse of `fisher_product`: dm = g_1, dv = g_2 - 2 m g_1."""
        dm = cotangent.value
        dv = cotangent.square - 2 * self.mean() * cotangent.value
        dp = -dv * self.precision**2
        return type(self)(dm * self.precision + dp * self.mean(), -0.5 * dp)

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[NormalStats, Callable[[NormalStats], Self]]:
        """A draw's statistics and V. With a = eta_1 + 2 x eta_2 the slope at the draw, d/dm = a and
        d/dv = a (x - m) / (2 v) =: c, so V eta = (a - 2 m c, c). Nothing cancels, however far m is
        from zero."""
        x = self.sample(key)

        def v_product(eta: NormalStats) -> Any:
            slope = eta.value + 2 * x * eta.square
            curvature = 0.5 * slope * self.precision * (x - self.mean())
            return type(self)(slope - 2 * self.mean() * curvature, curvature)

        return self.stats(x), v_product
