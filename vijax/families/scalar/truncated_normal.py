"""The normal distribution on the positive half-line: q(x) = exp{lambda_1 x + lambda_2 x^2 - A} for
x > 0, h = 1.

With m and s the mean and standard deviation of the normal before truncation, x = s y, y = z - a, a
= -m / s, and z is a standard normal given z > a (`vijax.families.numeric.normal_tails`)."""

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
    """A normal distribution given x > 0. The natural parameters (m / v, -1 / (2 v)) belong to the
    normal before truncation.

    log h(x) = 0;  t = (x, x**2);  natural parameters (location / spread, -1 / (2 * spread)).

    In probit models (Albert and Chib, 1993) the sign y = +1 or -1 is data and belongs in the
    energy: with x = y z > 0, log N(z; f, 1) has the natural parameters (y f, -1/2) in (x, x^2), and
    E[z] = y E[x]. Moments, quantiles, entropy, divergence and density are right in float32 for m
    from -1e4 s to 1e4 s.

    >>> q = TruncatedNormal.from_mean_variance([1.0, -40.0], 1.0)  # before truncation
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
        """The variance before truncation."""
        return -0.5 / self.negative_half_precision

    @property
    def location(self) -> Float[Array, "*batch"]:
        """The mean before truncation."""
        return self.precision_times_mean * self.spread

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = log s + log R(a), R Mills' ratio."""
        return 0.5 * jnp.log(self.spread) + log_mills(self._cut())

    def stats(self, x: Any) -> TruncatedNormalStats:
        x = as_float(x)
        return TruncatedNormalStats(x, x**2)

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch"]:
        """Draws by the inverse distribution function, pathwise differentiable."""
        dtype = self.precision_times_mean.dtype
        # With u > 0, 1 - u is below one, where the normal quantile is infinite.
        smallest = 0.5 * float(jnp.finfo(dtype).eps)
        u = jax.random.uniform(key, shape + self.batch_shape, dtype, smallest)
        cut = jnp.broadcast_to(self._cut(), u.shape)
        return jnp.sqrt(self.spread) * _excess(cut, 1.0 - u)

    def mean(self) -> Float[Array, "*batch"]:
        return self.expected_stats().value

    def marginal_laws(self) -> TruncatedNormalLaw:
        scale = jnp.sqrt(self.spread)
        return TruncatedNormalLaw(self.location, scale, self.mean(), self.variance())

    def variance(self) -> Float[Array, "*batch"]:
        """s^2 T_1 (T_2 - T_1); for a <= 0.4 as s^2 (1 - h T_1), h the hazard phi(a) / Phi(-a)."""
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
        """log q(x); minus infinity if x is negative. For a <= 0.4 it is the normal density, with
        the residual (x - m) / s from lambda_1 + 2 lambda_2 x without cancellation; in the tail the
        density of the excess over the cut."""
        x = as_float(x)
        a = self._cut()
        s = jnp.sqrt(self.spread)
        is_valid = (x >= 0) & jnp.isfinite(x)
        safe = jnp.where(is_valid, x, 0.0)
        precision = -2.0 * self.negative_half_precision
        residual = s * product_difference(
            precision, safe, self.precision_times_mean, jnp.ones_like(a)
        )
        body = -0.5 * residual**2 - _HALF_LOG_TWO_PI - log_ndtr(-jnp.minimum(a, SWITCH))
        y = safe / s
        tail_a = jnp.maximum(a, SWITCH)
        tail = -y * (tail_a + 0.5 * y) - log_mills(tail_a)
        density = jnp.where(a > SWITCH, tail, body) - jnp.log(s)
        return jnp.where(is_valid, density, jnp.where(jnp.isnan(x), jnp.nan, -jnp.inf))

    def entropy(self) -> Float[Array, "*batch"]:
        """log s + log(2 pi e) / 2 + log Phi(-a) + a h / 2 for a <= 0.4, h the hazard phi(a) /
        Phi(-a); in the tail log s + log R(a) + a T_1 + T_1 T_2 / 2."""
        a = self._cut()
        body_a = jnp.minimum(a, SWITCH)
        body = _HALF_LOG_TWO_PI + 0.5 + log_ndtr(-body_a) + 0.5 * body_a * hazard(body_a)
        tail_a = jnp.maximum(a, SWITCH)
        t1, t2 = mills_tails(tail_a)[:2]
        tail = -jnp.log(tail_a + t1) + t1 * (tail_a + 0.5 * t2)
        return jnp.where(a > SWITCH, tail, body) + 0.5 * jnp.log(self.spread)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """The cross entropy less the entropy, each with the formula for a <= 0.4 or for the tail,
        so that no term is larger than the two. Results that rounding makes negative are zero."""
        return clip_rounding(self._cross_entropy(other) - self.entropy())

    def _cross_entropy(self, other: Self) -> Float[Array, "*batch"]:
        """-E_q[log p]: E[(x - m')^2] = Var x + (E x - m')^2, with E x - m' = s T_1 + s' a', which
        for a <= 0.4 is m - m' + s h."""
        a, s = self._cut(), jnp.sqrt(self.spread)
        a2, s2 = other._cut(), jnp.sqrt(other.spread)
        in_tail = a > SWITCH
        t1 = mills_tails(jnp.maximum(a, SWITCH))[0]
        body_a = jnp.minimum(a, SWITCH)
        h = hazard(body_a)
        mean = jnp.where(in_tail, t1, h - body_a)  # E[y]
        variance = _central_moments(a)[0]
        distance = jnp.where(in_tail, s * t1 + s2 * a2, self._location_gap(other) + s * h)
        k = s / s2
        body_a2, tail_a2 = jnp.minimum(a2, SWITCH), jnp.maximum(a2, SWITCH)
        squares = k * k * variance + (distance / s2) ** 2
        body = _HALF_LOG_TWO_PI + log_ndtr(-body_a2) + 0.5 * squares
        tail = tail_a2 * k * mean + 0.5 * k * k * (variance + mean**2) + log_mills(tail_a2)
        return jnp.where(a2 > SWITCH, tail, body) + jnp.log(s2)

    def _location_gap(self, other: Self) -> Float[Array, "*batch"]:
        """m - m' without cancellation."""
        half, half2 = self.negative_half_precision, other.negative_half_precision
        difference = product_difference(
            self.precision_times_mean, half2, other.precision_times_mean, half
        )
        return -0.5 * difference / (half * half2)

    def fisher_solve(self, cotangent: TruncatedNormalStats) -> Self:
        """F^-1 g in the centred statistics (y, (y - c)^2), c = E[y]: a system of two by two."""
        s = jnp.sqrt(self.spread)
        a = self._cut()
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
    hazard, in the tail by the T_k, which are all of one size there."""
    b = jnp.minimum(a, SWITCH)
    h = hazard(b)
    body = (
        1.0 - h * (h - b),
        h * (b**2 - 1.0 - h * (3.0 * b - 2.0 * h)),
        3.0 + h * (b * (3.0 + b**2) - h * (2.0 + 4.0 * b**2 - h * (6.0 * b - 3.0 * h))),
    )
    t1, t2, t3, t4 = mills_tails(jnp.maximum(a, SWITCH))
    tail = (
        t1 * (t2 - t1),
        t1 * (t2 * t3 - 3 * t1 * t2 + 2 * t1**2),
        t1 * (t2 * t3 * t4 - 4 * t1 * t2 * t3 + 6 * t1**2 * t2 - 3 * t1**3),
    )
    second, third, fourth = (jnp.where(a > SWITCH, t, b) for t, b in zip(tail, body, strict=True))
    return second, third, fourth


@jax.custom_jvp
def _excess(a: Float[Array, "*shape"], u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The y with P(z > a + y | z > a) = u: by the normal quantile for a <= 1, else by Newton's
    steps for -log u = a y + y^2 / 2 + log R(a) - log R(a + y). This is convex in y, and steps from
    the right of the root come nearer."""
    body_a = jnp.minimum(a, 1.0)
    body = jnp.maximum(-ndtri(u * ndtr(-body_a)) - body_a, 0.0)
    tail_a = jnp.maximum(a, 1.0)
    target = -jnp.log(u)
    t1 = mills_tails(tail_a)[0]
    y = 2 * target / (tail_a + jnp.sqrt(tail_a**2 + 2 * target))
    for _ in range(4):
        slope = tail_a + y + mills_tails(tail_a + y)[0]
        gap = y * (tail_a + 0.5 * y) + jnp.log(slope / (tail_a + t1)) - target
        y = jnp.maximum(y - gap / slope, 0.0)
    return jnp.where(a > 1.0, y, body)


@_excess.defjvp
def _excess_jvp(primals: tuple, tangents: tuple) -> tuple:
    """dz / da = R(z) / R(a) at a fixed quantile, so dy / da = (a + T(a)) / (z + T(z)) - 1; for a <=
    0.4 this is h(a) / h(z) - 1."""
    a, u = primals
    y = _excess(a, u)
    tail_a = jnp.maximum(a, SWITCH)
    t_cut = mills_tails(tail_a)[0]
    t_draw = mills_tails(tail_a + y)[0]
    tail = (t_cut - t_draw - y) / (tail_a + y + t_draw)
    body_a = jnp.minimum(a, SWITCH)
    body = hazard(body_a) / hazard(body_a + y) - 1.0
    return y, jnp.where(a > SWITCH, tail, body) * tangents[0]
