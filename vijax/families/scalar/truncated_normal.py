"""The normal distribution on the positive half-line: q(x) = exp{lambda_1 x + lambda_2 x^2 - A} for
x > 0, h = 1.

With m the mean of the whole normal and s its standard deviation, x = s y, y = z - a, a = -m / s, z
a standard normal given z > a (`vijax.families.numeric.normal_tails`)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr, ndtri
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
from vijax.families.laws import TruncatedNormalLaw
from vijax.families.numeric.excess import clip_rounding, product_difference
from vijax.families.numeric.normal_tails import SWITCH, hazard, log_mills, mills_tails

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class TruncatedNormalStats(NamedTuple):
    """t(x) = (x, x^2)."""

    value: Float[Array, "*batch"]
    square: Float[Array, "*batch"]


@family
class TruncatedNormal(Family):
    """A normal distribution given x > 0, natural parameters those of the whole normal, (m / v, -1 /
    (2 v)).

    log h(x) = 0;  t = (x, x**2);  natural parameters (location / spread, -1 / (2 * spread)).

    In probit models (Albert and Chib, 1993) the sign y = +1 or -1 is data and belongs in the
    energy: with x = y z > 0, log N(z; f, 1) has the natural parameters (y f, -1/2) in (x, x^2), and
    E[z] = y E[x]. Moments, quantiles, entropy, divergence and density are right in float32 for m
    from -1e4 s to 1e4 s.

    >>> q = TruncatedNormal.from_mean_variance([1.0, -40.0], 1.0)  # of the whole normal
    >>> print(*(f"{x:.4f}" for x in (*q.mean(), *q.log_prob(jnp.array([-0.1, 0.1])))))
    1.2876 0.0250 -inf -0.3155
    """

    precision_times_mean: Float[Array, "*batch"]
    negative_half_precision: Float[Array, "*batch"]

    Stats: ClassVar = TruncatedNormalStats
    event_ndims: ClassVar = (0, 0)

    @classmethod
    @constructor
    def from_mean_variance(cls, location: Any, spread: Any) -> Self:
        """Truncated normals of the mean and variance before truncation, broadcast; ValueError
        unless both are finite, and the variance positive."""
        xp, *values = numpy_or_jax(*as_floats(location, spread))
        location, spread = xp.broadcast_arrays(*values)
        require(finite(location), "location", "finite numbers", location)
        require(positive_and_finite(spread), "spread", "positive finite numbers", spread)
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
        x = as_float(x)
        return TruncatedNormalStats(x, x**2)

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch"]:
        """Draws by the inverse distribution function, pathwise differentiable."""
        dtype = self.precision_times_mean.dtype
        least = 0.5 * float(
            jnp.finfo(dtype).eps
        )  # keeps 1 - u below one, where the normal quantile is infinite
        u = jax.random.uniform(key, shape + self.batch_shape, dtype, least)
        cut = jnp.broadcast_to(self._cut(), u.shape)
        return jnp.sqrt(self.spread) * _excess(cut, 1.0 - u)

    def mean(self) -> Float[Array, "*batch"]:
        return self.expected_stats().value

    def marginal_laws(self) -> TruncatedNormalLaw:
        return TruncatedNormalLaw(
            self.location, jnp.sqrt(self.spread), self.mean(), self.variance()
        )

    def variance(self) -> Float[Array, "*batch"]:
        """s^2 T_1 (T_2 - T_1), for a <= 0.4 as s^2 (1 - h T_1), h the hazard phi(a) / Phi(-a)."""
        return self.spread * _central_moments(self._cut())[0]

    def mode(self) -> Float[Array, "*batch"]:
        return jnp.maximum(self.location, 0.0)

    def in_domain(self) -> Self:
        ok = (self.negative_half_precision < 0) & jnp.isfinite(self.negative_half_precision)
        return domain_mask(ok & jnp.isfinite(self.precision_times_mean), self)

    def expected_stats(self) -> TruncatedNormalStats:
        """(s T_1, s^2 T_1 T_2)."""
        t1, t2, _, _ = mills_tails(self._cut())
        return TruncatedNormalStats(jnp.sqrt(self.spread) * t1, self.spread * t1 * t2)

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), minus infinity where x is negative: for a <= 0.4 by the normal's density, its
        residual (x - m) / s from lambda_1 + 2 lambda_2 x without cancellation; in the tail by that
        of the excess over the cut."""
        x, a, s = as_float(x), self._cut(), jnp.sqrt(self.spread)
        inside = (x >= 0) & jnp.isfinite(x)
        x_in = jnp.where(inside, x, 0.0)
        ones, precision = jnp.ones_like(a), -2.0 * self.negative_half_precision
        residual = s * product_difference(precision, x_in, self.precision_times_mean, ones)
        kept = -0.5 * residual**2 - _HALF_LOG_TWO_PI - log_ndtr(-jnp.minimum(a, SWITCH))
        y = x_in / s
        tail = -y * (jnp.maximum(a, SWITCH) + 0.5 * y) - log_mills(jnp.maximum(a, SWITCH))
        density = jnp.where(a > SWITCH, tail, kept) - jnp.log(s)
        return jnp.where(inside, density, jnp.where(jnp.isnan(x), jnp.nan, -jnp.inf))

    def entropy(self) -> Float[Array, "*batch"]:
        """log s + log(2 pi e) / 2 + log Phi(-a) + a h / 2 for a <= 0.4, h the hazard phi(a) /
        Phi(-a); in the tail log s + log R(a) + a T_1 + T_1 T_2 / 2."""
        a = self._cut()
        near, (t1, t2) = jnp.minimum(a, SWITCH), mills_tails(jnp.maximum(a, SWITCH))[:2]
        kept = _HALF_LOG_TWO_PI + 0.5 + log_ndtr(-near) + 0.5 * near * hazard(near)
        tail = -jnp.log(jnp.maximum(a, SWITCH) + t1) + t1 * (jnp.maximum(a, SWITCH) + 0.5 * t2)
        return jnp.where(a > SWITCH, tail, kept) + 0.5 * jnp.log(self.spread)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """The cross entropy less the entropy, each in the form of its law, for a <= 0.4 or in the
        tail: no term is larger than these. A result below zero by rounding counts as zero."""
        return clip_rounding(self._cross_entropy(other) - self.entropy())

    def _cross_entropy(self, other: Self) -> Float[Array, "*batch"]:
        """-E_q[log p]: E[(x - m')^2] = Var x + (E x - m')^2, with E x - m' = s T_1 + s' a', which
        for a <= 0.4 is m - m' + s h."""
        a, s, s2, cut2 = self._cut(), jnp.sqrt(self.spread), jnp.sqrt(other.spread), other._cut()
        in_tail, near = a > SWITCH, jnp.minimum(a, SWITCH)
        t1 = mills_tails(jnp.maximum(a, SWITCH))[0]
        h = hazard(near)
        first = jnp.where(in_tail, t1, h - near)
        variance = _central_moments(a)[0]
        own, their = self.negative_half_precision, other.negative_half_precision
        crossed = product_difference(
            self.precision_times_mean, their, other.precision_times_mean, own
        )
        locations = -0.5 * crossed / (own * their)  # m - m'
        distance = jnp.where(in_tail, s * t1 + s2 * cut2, locations + s * h)
        kept2, far2 = jnp.minimum(cut2, SWITCH), jnp.maximum(cut2, SWITCH)
        k = s / s2
        kept = _HALF_LOG_TWO_PI + log_ndtr(-kept2) + 0.5 * (k * k * variance + (distance / s2) ** 2)
        tail = far2 * k * first + 0.5 * k * k * (variance + first**2) + log_mills(far2)
        return jnp.where(cut2 > SWITCH, tail, kept) + jnp.log(s2)

    def fisher_solve(self, cotangent: TruncatedNormalStats) -> Self:
        """F^-1 g, in the centred statistics (y, (y - c)^2), c = E[y]: a system of two by two."""
        s, a = jnp.sqrt(self.spread), self._cut()
        t1 = mills_tails(a)[0]
        variance, third, fourth = _central_moments(a)
        g1 = cotangent.value / s
        g2 = cotangent.square / self.spread - 2 * t1 * g1
        determinant = variance * (fourth - variance**2) - third**2
        first = ((fourth - variance**2) * g1 - third * g2) / determinant
        second = (variance * g2 - third * g1) / determinant
        return type(self)((first - 2 * t1 * second) / s, second / self.spread)

    def _cut(self) -> Float[Array, "*batch"]:
        """a = -m / s."""
        return -self.precision_times_mean * jnp.sqrt(self.spread)


def _central_moments(a: Float[Array, "*shape"]) -> tuple[Array, Array, Array]:
    """The second to fourth central moments of a standard normal z given z > a: for a <= 0.4 by the
    hazard, in the tail by the T_k, which are of one size there."""
    near = jnp.minimum(a, SWITCH)
    h = hazard(near)
    kept = (
        1.0 - h * (h - near),
        h * (near**2 - 1.0 - h * (3.0 * near - 2.0 * h)),
        3.0 + h * (near * (3.0 + near**2) - h * (2.0 + 4.0 * near**2 - h * (6.0 * near - 3.0 * h))),
    )
    t1, t2, t3, t4 = mills_tails(jnp.maximum(a, SWITCH))
    tail = (
        t1 * (t2 - t1),
        t1 * (t2 * t3 - 3 * t1 * t2 + 2 * t1**2),
        t1 * (t2 * t3 * t4 - 4 * t1 * t2 * t3 + 6 * t1**2 * t2 - 3 * t1**3),
    )
    second, third, fourth = (jnp.where(a > SWITCH, t, k) for t, k in zip(tail, kept, strict=True))
    return second, third, fourth


@jax.custom_jvp
def _excess(a: Float[Array, "*shape"], u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The y with P(z > a + y | z > a) = u: by the normal quantile near the middle, by Newton's
    steps in the tail. There -log u = a y + y^2 / 2 + log R(a) - log R(a + y), convex in y, is
    solved from the right, where steps come nearer."""
    near = jnp.minimum(a, 1.0)
    tail = u * ndtr(-near)
    middle = jnp.maximum(-ndtri(tail) - near, 0.0)
    far, target = jnp.maximum(a, 1.0), -jnp.log(u)
    first = mills_tails(far)[0]
    y = 2 * target / (far + jnp.sqrt(far**2 + 2 * target))
    for _ in range(4):
        slope = far + y + mills_tails(far + y)[0]
        gap = y * (far + 0.5 * y) + jnp.log(slope / (far + first)) - target
        y = jnp.maximum(y - gap / slope, 0.0)
    return jnp.where(a > 1.0, y, middle)


@_excess.defjvp
def _excess_jvp(primals: tuple, tangents: tuple) -> tuple:
    """dz / da = R(z) / R(a) at a fixed quantile, so that dy / da = (a + T(a)) / (z + T(z)) - 1; for
    a <= 0.4 that is h(a) / h(z) - 1."""
    a, u = primals
    y = _excess(a, u)
    far = jnp.maximum(a, SWITCH)
    at_cut, at_draw = mills_tails(far)[0], mills_tails(far + y)[0]
    tail = (at_cut - at_draw - y) / (far + y + at_draw)
    kept = hazard(jnp.minimum(a, SWITCH)) / hazard(jnp.minimum(a, SWITCH) + y) - 1.0
    return y, jnp.where(a > SWITCH, tail, kept) * tangents[0]
