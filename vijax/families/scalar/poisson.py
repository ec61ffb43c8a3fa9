"""The Poisson distribution: q(x) = 1 / x! exp{log_rate x - e^log_rate} for x = 0, 1, 2, ...

`jax.random.poisson` compares a uniform number with exp(k log m - m - log k!), three terms of size m
log m. In float32 rounding decides from a rate of 1e5 on (the variance of 200,000 draws is 2 % off
at 1e6, 9 % at 3e6, 46 % at 1e8), and counts stop at 2^31 - 1. From a rate of `SWITCH` on, this
module does the same rejection (Hoermann 1993, PTRS) for the deviation from the rate rounded down,
with log p(k) by Stirling's formula, which has no large term."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import as_float, family, finite, positive_and_finite, ratio_or_zero
from vijax.families.construction import constructor, numpy_or_jax
from vijax.families.discrete.categorical import Discrete
from vijax.families.laws import PoissonLaw
from vijax.families.numeric.excess import log_excess
from vijax.families.numeric.log_factorial import deviance, is_count, log_factorial_gap, poisson_gap
from vijax.families.numeric.special import expm1_minus_identity, log_gamma

SWITCH = 1000.0
LARGEST = 2.146e9
"""The largest rate: 25 standard deviations above it are still below 2^31."""


class PoissonStats(NamedTuple):
    """t(x) = x."""

    value: Float[Array, "*batch"]


@family
class Poisson(Discrete):
    """Poisson(rate), natural parameter log rate.

    log h(x) = -gammaln(x + 1);  t = (x,);  natural parameters (log(rate),).

    log h(x) = -log x! is not linear in x, so E[log h] is not log h at E[x]: it is an integral over
    one variable, exact at any rate (`vijax.families.numeric.log_factorial`). For the same reason no
    Poisson is constant in x, and `flat` raises an error.

    >>> q = Poisson.from_rate(3.0)
    >>> print(q.log_rate.round(4), q.mode(), q.log_prob(2).round(3), q.entropy().round(4))
    1.0986 3 -1.496 1.9315
    """

    log_rate: Float[Array, "*batch"]

    Stats: ClassVar = PoissonStats
    event_ndims: ClassVar = (0,)

    @classmethod
    @constructor
    def from_rate(cls, rate: Any) -> Self:
        """Poisson laws of this mean; ValueError unless it is positive and finite."""
        xp, rate = numpy_or_jax(as_float(rate))
        require(positive_and_finite(rate), "rate", "positive finite numbers", rate)
        return cls(xp.log(rate))

    @classmethod
    @constructor
    def from_log_rate(cls, log_rate: Any) -> Self:
        """Poisson laws of this log mean; ValueError unless it is finite."""
        log_rate = as_float(log_rate)
        require(finite(log_rate), "log_rate", "finite numbers", log_rate)
        return cls(log_rate)

    @property
    def rate(self) -> Float[Array, "*batch"]:
        """E[x] = Var[x]."""
        return jnp.exp(self.log_rate)

    def log_normalizer(self) -> Float[Array, "*batch"]:
        return self.rate

    def log_base_measure(self, stats: PoissonStats) -> Float[Array, "*batch"]:
        return -log_gamma(1.0 + stats.value)

    def expected_log_base_measure(self) -> Float[Array, "*batch"]:
        """-E[log x!]."""
        return -poisson_gap(self.rate) - self.rate * (self.log_rate - 1.0)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Int[Array, "*shape_batch"]:
        """Counts, int32.

        Raises:
          ValueError: a rate above 2.146e9, whose counts do not fit int32; if that rate is traced,
              the draws are -1 instead.
        """
        return poisson_counts(key, self.rate, shape + self.batch_shape)

    def mean(self) -> Float[Array, "*batch"]:
        return self.rate

    def marginal_laws(self) -> PoissonLaw:
        return PoissonLaw(self.rate)

    def mode(self) -> Int[Array, "*batch"]:
        """The rate rounded down; a whole rate is as likely as the count below it. Raises as
        `sample` does."""
        return jnp.where(_fits_int32(self.rate), jnp.floor(self.rate), -1.0).astype(jnp.int32)

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), without a difference of large numbers; -inf if x is not a count."""
        (x,) = self.stats(x)
        return jnp.where(is_count(x), -deviance(x, self.log_rate) - log_factorial_gap(x), -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """log(2 pi e rate) / 2 + O(1 / rate), in nats."""
        return poisson_gap(self.rate)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        return self.rate * expm1_minus_identity(other.log_rate - self.log_rate)

    def fisher_product(self, tangent: Self) -> PoissonStats:
        return PoissonStats(self.rate * tangent.log_rate)

    def fisher_solve(self, cotangent: PoissonStats) -> Self:
        """g / rate; 0 if the rate, and so F, underflows."""
        return type(self)(ratio_or_zero(cotangent.value, self.rate))


def poisson_counts(
    key: PRNGKeyArray, rate: Float[Array, "*batch"], shape: tuple[int, ...]
) -> Int[Array, "*shape"]:
    """Counts, int32; -1, which is not a count, if a traced rate is above `LARGEST` or not finite.
    Raises ValueError if a rate is above `LARGEST`: its counts do not fit int32.

    >>> abs(int(poisson_counts(jax.random.key(0), jnp.float32(1e8), ())) - 10**8) < 50_000
    True
    """
    fits = jnp.broadcast_to(_fits_int32(rate), shape)
    rate = jnp.broadcast_to(rate, shape)
    start, deviation = _large(key, jnp.where(fits, rate, SWITCH))
    large = start.astype(jnp.int32) + deviation.astype(jnp.int32)
    return jnp.where(rate < SWITCH, _small(key, rate), jnp.where(fits, large, -1))


def _fits_int32(rate: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """True where the counts fit int32. Raises ValueError if a concrete rate has larger counts."""
    fits = rate <= LARGEST
    expected = f"at most {LARGEST:.4g}, as counts are int32"
    remedy = "Divide counts by a unit, such as 1000."
    require(fits | ~finite(rate), "rate", expected, rate, remedy)
    return fits


def poisson_values(key: PRNGKeyArray, rate: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Counts as floats, for any rate.

    >>> 3.999e9 < poisson_values(jax.random.key(0), jnp.float32(4e9)) < 4.001e9
    Array(True, dtype=bool)
    """
    start, deviation = _large(key, rate)
    return jnp.where(rate < SWITCH, _small(key, rate).astype(rate.dtype), start + deviation)


def _small(key: PRNGKeyArray, rate: Float[Array, "*shape"]) -> Int[Array, "*shape"]:
    return jax.random.poisson(key, jnp.where(rate < SWITCH, rate, 1.0), dtype=jnp.int32)


def _large(
    key: PRNGKeyArray, rate: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """The rate rounded down and a draw's deviation from it, whole numbers; arbitrary numbers for a
    rate below `SWITCH`."""
    is_large = (rate >= SWITCH) & jnp.isfinite(rate)
    mean = jnp.where(is_large, rate, SWITCH)
    start = jnp.floor(mean)
    fraction = mean - start
    b = 0.931 + 2.53 * jnp.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2.0)

    def propose(carry: tuple) -> tuple:
        deviations, accepted, i = carry
        u, v = jax.random.uniform(jax.random.fold_in(key, i), (2, *mean.shape), mean.dtype)
        u = u - 0.5
        edge = 0.5 - jnp.abs(u)
        deviation = jnp.floor((2.0 * a / edge + b) * u + fraction + 0.43)
        log_height = jnp.log(v * inverse_alpha / (a / edge**2 + b))
        log_p = _log_probability(mean, start + deviation, (deviation - fraction) / mean)
        below = log_height <= log_p
        keep = ((edge >= 0.07) & (v <= squeeze)) | (below & ((edge >= 0.013) | (v <= edge)))
        return jnp.where(accepted, deviations, deviation), accepted | keep, i + 1

    carry = jnp.zeros_like(mean), ~is_large, 0
    return start, jax.lax.while_loop(lambda carry: ~jnp.all(carry[1]), propose, carry)[0]


def _log_probability(mean: Array, count: Array, relative: Array) -> Array:
    """log p(k) for k = m (1 + e), e `relative`: -m ((1 + e) log(1 + e) - e) - log(2 pi k) / 2 - 1 /
    (12 k)."""
    is_possible = relative > -0.9  # further deviations are never accepted
    e = jnp.where(is_possible, relative, 0.0)
    k = jnp.where(is_possible, count, 1.0)
    rate_function = e**2 - (1.0 + e) * log_excess(e, jnp.log1p(e))
    log_p = -mean * rate_function - 0.5 * jnp.log(2.0 * math.pi * k) - 1.0 / (12.0 * k)
    return jnp.where(is_possible, log_p, -jnp.inf)
