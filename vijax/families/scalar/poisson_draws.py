"""Draws of counts from Poisson laws of any rate.

`jax.random.poisson` compares a uniform number with exp(k log m - m - log k!), three terms of size m log m: in float32
rounding decides from a rate of 1e5 on (of 200,000 draws the variance is 2 % off at 1e6, 9 % at 3e6, 46 % at 1e8), and
counts stop at 2^31 - 1. From `SWITCH` on the same rejection (Hoermann 1993, PTRS) is done here with the deviation from
the rate rounded down, and with log p(k) as Stirling's formula leaves it, in which no term is large.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import finite
from vijax.families.numeric.excess import log_excess

SWITCH = 1000.0
LARGEST = 2.146e9
"""The largest rate: 25 standard deviations beyond it are below 2^31."""


def poisson_counts(key: PRNGKeyArray, rate: Float[Array, "*batch"], shape: tuple[int, ...]) -> Int[Array, "*shape"]:
    """Counts, int32; -1, which is no count, where a traced rate is above `LARGEST` or not finite.

    Raises:
      ValueError: a rate above `LARGEST`, whose counts int32 does not hold.

    >>> abs(int(poisson_counts(jax.random.key(0), jnp.float32(1e8), ())) - 10**8) < 50_000
    True
    """
    known, rate = jnp.broadcast_to(held(rate), shape), jnp.broadcast_to(rate, shape)
    start, deviation = _large(key, jnp.where(known, rate, SWITCH))
    large = start.astype(jnp.int32) + deviation.astype(jnp.int32)
    return jnp.where(rate < SWITCH, _small(key, rate), jnp.where(known, large, -1))


def held(rate: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """True where int32 holds the counts. Raises ValueError on a rate, not traced, whose counts do not fit."""
    known = rate <= LARGEST
    remedy = "Divide counts by a unit, such as 1000."
    require(known | ~finite(rate), "rate", f"at most {LARGEST:.4g}, as counts are int32", rate, remedy)
    return known


def poisson_values(key: PRNGKeyArray, rate: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Counts as floats, which hold any rate.

    >>> 3.999e9 < poisson_values(jax.random.key(0), jnp.float32(4e9)) < 4.001e9
    Array(True, dtype=bool)
    """
    start, deviation = _large(key, rate)
    return jnp.where(rate < SWITCH, _small(key, rate).astype(rate.dtype), start + deviation)


def _small(key: PRNGKeyArray, rate: Float[Array, "*shape"]) -> Int[Array, "*shape"]:
    return jax.random.poisson(key, jnp.where(rate < SWITCH, rate, 1.0), dtype=jnp.int32)


def _large(key: PRNGKeyArray, rate: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """The rate rounded down and a draw's distance from it, whole numbers; for a rate below `SWITCH` any numbers."""
    asked = (rate >= SWITCH) & jnp.isfinite(rate)
    mean = jnp.where(asked, rate, SWITCH)
    start = jnp.floor(mean)
    rest = mean - start
    b = 0.931 + 2.53 * jnp.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha, inside = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0)

    def propose(carry: tuple) -> tuple:
        old, accepted, i = carry
        u, v = jax.random.uniform(jax.random.fold_in(key, i), (2, *mean.shape), mean.dtype)
        u = u - 0.5
        edge = 0.5 - jnp.abs(u)
        deviation = jnp.floor((2.0 * a / edge + b) * u + rest + 0.43)
        log_height = jnp.log(v * inverse_alpha / (a / edge**2 + b))
        below = log_height <= _log_probability(mean, start + deviation, (deviation - rest) / mean)
        keep = ((edge >= 0.07) & (v <= inside)) | (below & ((edge >= 0.013) | (v <= edge)))
        return jnp.where(accepted, old, deviation), accepted | keep, i + 1

    carry = jnp.zeros_like(mean), ~asked, 0
    return start, jax.lax.while_loop(lambda carry: ~jnp.all(carry[1]), propose, carry)[0]


def _log_probability(mean: Array, count: Array, relative: Array) -> Array:
    """log p(k) for k = m (1 + e), e `relative`: -m ((1 + e) log(1 + e) - e) - log(2 pi k) / 2 - 1 / (12 k)."""
    known = relative > -0.9  # acceptable proposals are not further off
    e, k = jnp.where(known, relative, 0.0), jnp.where(known, count, 1.0)
    rate_function = e**2 - (1.0 + e) * log_excess(e, jnp.log1p(e))
    log_p = -mean * rate_function - 0.5 * jnp.log(2.0 * math.pi * k) - 1.0 / (12.0 * k)
    return jnp.where(known, log_p, -jnp.inf)
