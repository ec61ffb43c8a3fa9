"""The normal distribution on the positive half-line: q(x) = exp{lambda_1 x + lambda_2 x^2 - A} for x > 0, h = 1.

With m the mean of the whole normal and s its standard deviation, x = s y, y = z - a, a = -m / s, z a standard normal
given z > a; see `vijax.families.mills`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import Family, as_float, as_floats, domain_mask, family, require
from vijax.families.mills import log_mills, mills_tails


class TruncatedNormalStats(NamedTuple):
    """t(x) = (x, x^2)."""

    value: Float[Array, "*batch"]
    square: Float[Array, "*batch"]


@family
class TruncatedNormal(Family):
    """A normal distribution given x > 0, natural parameters those of the whole normal, (m / v, -1 / (2 v)).

    For probit models (Albert and Chib, 1993) the sign y = +1 or -1 is data, and belongs in the energy, not in the
    family: let x = y z > 0, so that log N(z; f, 1) has the natural parameters (y f, -1/2) in (x, x^2), and E[z] = y
    E[x]. All is exact in float32 far into the tails, to m = -40 s and beyond.

    >>> q = TruncatedNormal.from_mean_variance([1.0, -40.0], 1.0)  # of the whole normal
    >>> print(*(f"{x:.4f}" for x in (*q.mean(), *q.log_prob(jnp.array([-0.1, 0.1])))))
    1.2876 0.0250 -inf -0.3155
    """

    precision_times_mean: Float[Array, "*batch"]
    negative_half_precision: Float[Array, "*batch"]

    Stats: ClassVar = TruncatedNormalStats
    event_ndims: ClassVar = (0, 0)

    @classmethod
    def from_mean_variance(cls, location: Any, spread: Any) -> Self:
        """From the mean and the variance that the normal had before it was cut off, broadcast together.

        Raises:
          ValueError: a location that is not finite, or a spread that is not positive and finite.
        """
        location, spread = jnp.broadcast_arrays(*as_floats(location, spread))
        require(jnp.isfinite(location), "location", "finite numbers", location)
        require((spread > 0) & jnp.isfinite(spread), "spread", "positive finite numbers", spread)
        return cls(location / spread, -0.5 / spread)

    @property
    def spread(self) -> Float[Array, "*batch"]:
        """The variance of the whole normal."""
        return -0.5 / self.negative_half_precision

    @property
    def location(self) -> Float[Array, "*batch"]:
        """The mean of the whole normal."""
        return self.precision_times_mean * self.spread

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = log s + log R(a), R being Mills' ratio."""
        return 0.5 * jnp.log(self.spread) + log_mills(self._cut())

    def stats(self, x: Any) -> TruncatedNormalStats:
        """(x, x^2)."""
        x = as_float(x)
        return TruncatedNormalStats(x, x**2)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape *batch"]:
        """Draws by the inverse distribution function, pathwise differentiable."""
        u = jax.random.uniform(key, shape + self.batch_shape, self.precision_times_mean.dtype)
        cut = jnp.broadcast_to(self._cut(), u.shape)
        return jnp.sqrt(self.spread) * _excess(cut, 1.0 - u)

    def mean(self) -> Float[Array, "*batch"]:
        """E[x] = s T_1(a)."""
        return self.expected_stats().value

    def mode(self) -> Float[Array, "*batch"]:
        """max(m, 0)."""
        return jnp.maximum(self.location, 0.0)

    def in_domain(self) -> Self:
        """A finite positive precision, a finite location."""
        ok = (self.negative_half_precision < 0) & jnp.isfinite(self.negative_half_precision)
        return domain_mask(ok & jnp.isfinite(self.precision_times_mean), self)

    def flat(self) -> Self:
        """Zero precision."""
        return jax.tree.map(jnp.zeros_like, self)

    def expected_stats(self) -> TruncatedNormalStats:
        """(s T_1, s^2 T_1 T_2)."""
        t1, t2, _, _ = mills_tails(self._cut())
        return TruncatedNormalStats(jnp.sqrt(self.spread) * t1, self.spread * t1 * t2)

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), minus infinity where x is negative."""
        y, a = x / jnp.sqrt(self.spread), self._cut()
        inside = -y * (a + 0.5 * y) - self.log_normalizer()
        # For a < 0 the terms are those of a normal far from zero, completed to a square.
        near_mode = -0.5 * (y + a) ** 2 + 0.5 * a * a - self.log_normalizer()
        return jnp.where(x >= 0, jnp.where(a > 0, inside, near_mode), -jnp.inf)

    def fisher_solve(self, cotangent: TruncatedNormalStats) -> Self:
        """F^-1 g, in the centred statistics (y, (y - c)^2), c = E[y]: a system of two by two."""
        s, a = jnp.sqrt(self.spread), self._cut()
        t1, t2, t3, t4 = mills_tails(a)
        variance = t1 * (t2 - t1)
        third = t1 * (t2 * t3 - 3 * t1 * t2 + 2 * t1**2)
        fourth = t1 * (t2 * t3 * t4 - 4 * t1 * t2 * t3 + 6 * t1**2 * t2 - 3 * t1**3)
        g1 = cotangent.value / s
        g2 = cotangent.square / self.spread - 2 * t1 * g1
        determinant = variance * (fourth - variance**2) - third**2
        first = ((fourth - variance**2) * g1 - third * g2) / determinant
        second = (variance * g2 - third * g1) / determinant
        return type(self)((first - 2 * t1 * second) / s, second / self.spread)

    def _cut(self) -> Float[Array, "*batch"]:
        """a = -m / s."""
        return -self.precision_times_mean * jnp.sqrt(self.spread)


@jax.custom_jvp
def _excess(a: Float[Array, "*shape"], u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """y with P(z > a + y | z > a) = u: by the normal quantile near the middle, by Newton's steps in the tail.

    There -log u = a y + y^2 / 2 + log R(a) - log R(a + y), convex in y, is solved from the right, whence every step
    comes nearer.
    """
    near = jnp.minimum(a, 1.0)
    tail = u * jnp.exp(log_mills(near) - 0.5 * near**2 - 0.5 * math.log(2 * math.pi))
    middle = jnp.maximum(-ndtri(tail) - near, 0.0)
    far, target = jnp.maximum(a, 1.0), -jnp.log(u)
    first = mills_tails(far)[0]
    y = 2 * target / (far + jnp.sqrt(far**2 + 2 * target))
    for _ in range(4):
        hazard = far + y + mills_tails(far + y)[0]
        gap = y * (far + 0.5 * y) + jnp.log(hazard / (far + first)) - target
        y = jnp.maximum(y - gap / hazard, 0.0)
    return jnp.where(a > 1.0, y, middle)


@_excess.defjvp
def _excess_jvp(primals: tuple, tangents: tuple) -> tuple:
    """dz / da = R(z) / R(a) at a fixed quantile, so that dy / da = (a + T(a)) / (z + T(z)) - 1."""
    a, u = primals
    y = _excess(a, u)
    at_cut, at_draw = mills_tails(a)[0], mills_tails(a + y)[0]
    slope = (at_cut - at_draw - y) / (a + y + at_draw)
    return y, slope * tangents[0]
