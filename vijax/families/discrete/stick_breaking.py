"""Stick-breaking weights as linear functions of the statistics of their sticks.

    pi_k = v_k prod_{j<k} (1 - v_j),     log pi_k = log v_k + sum_{j<k} log(1 - v_j),     v_k ~ Beta

T sticks are a batch of `Beta`, on its last axis. log pi is linear in their statistics, so
`log_weights` takes the statistics of draws and mean statistics. Its gradient gives the counts of
Blei and Jordan (2006, equations 18 and 19): component k counts in log v_k, and in log(1 - v_j) of
all earlier sticks j."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.checks import require
from vijax.families.base import as_float, positive_and_finite
from vijax.families.construction import numpy_or_jax
from vijax.families.point import Point
from vijax.families.scalar.beta import Beta, BetaStats

TABLES = 10.0
"""Tables of each component at the start; they make the weights nearly even."""


def log_weights(sticks: BetaStats) -> Float[Array, "*batch T1"]:
    """log pi_1, ..., log pi_{T+1} from the statistics of T sticks; the last is the remainder of the
    stick, sum_{j<=T} log(1 - v_j). There are two truncations (Pei 2019):

    - Blei and Jordan: T + 1 components, v_{T+1} = 1. Take all of them: they sum to one.
    - Kurihara et al.: infinitely many components, those after T under the prior. Component k > T
      has E[log pi_k] = the last entry + E_p log v + (k - T - 1) E_p log(1 - v);
      `log_weight_of_the_rest` sums over them.

    >>> log = jnp.log(jnp.array([0.5, 0.5]))
    >>> print(jnp.exp(log_weights(BetaStats(log, log))).round(4))
    [0.5  0.25 0.25]
    """
    log_remainder = jnp.cumsum(sticks.log1m, -1)
    before = jnp.concatenate([jnp.zeros_like(log_remainder[..., :1]), log_remainder], -1)
    return before + jnp.concatenate([sticks.log, jnp.zeros_like(log_remainder[..., :1])], -1)


def log_weight_of_the_rest(
    log_remainder: Float[Array, "*batch"], stick: BetaStats
) -> Float[Array, "*batch"]:
    """log sum_{k>T} exp E[log pi_k], a geometric series (Kurihara et al., 2006; Pei 2019):
    log_remainder + E_p log v - log(1 - exp E_p log(1 - v)).

    Args:
      log_remainder: the last entry of `log_weights`.
      stick: mean statistics of one stick under the prior, broadcast against `log_remainder`.
    """
    return log_remainder + stick.log - jnp.log(-jnp.expm1(stick.log1m))


def weights(sticks: Float[Array, "*batch T"]) -> Float[Array, "*batch T1"]:
    """pi_1, ..., pi_{T+1} at values of the sticks; the last is the remainder of the stick.

    >>> print(weights(jnp.array([0.5, 1.0])))
    [0.5 0.5 0. ]
    """
    remainder = jnp.cumprod(1.0 - sticks, -1)
    ones = jnp.ones_like(sticks[..., :1])
    return jnp.concatenate([sticks, ones], -1) * jnp.concatenate([ones, remainder], -1)


def mean_weights(sticks: Any) -> Float[Array, "*batch T1"]:
    """E[pi_1], ..., E[pi_{T+1}], the last for the remainder of the stick: means of independent
    sticks multiply. For a `Point` its weights.

    >>> print(mean_weights(dirichlet_process(1.0, 2)))
    [0.5  0.25 0.25]
    """
    if isinstance(sticks, Point):
        return jnp.exp(log_weights(sticks.expected_stats()))
    total = sticks.alpha + sticks.beta
    means = BetaStats(jnp.log(sticks.alpha / total), jnp.log(sticks.beta / total))
    return jnp.exp(log_weights(means))


def nearly_even(prior: Beta, num_weights: int) -> Beta:
    """A start: sticks whose first `num_weights` weights are nearly even, as if each component had
    `TABLES` tables.

    >>> print((100 * mean_weights(nearly_even(dirichlet_process(1.0, 2), 3))).round())
    [34. 33. 33.]
    """
    after = num_weights - 1 - jnp.arange(prior.alpha.shape[-1], dtype=prior.alpha.dtype)
    return Beta(prior.alpha + TABLES, prior.beta + TABLES * after)


def dirichlet_process(concentration: Any, num_sticks: int) -> Beta:
    """The prior of the first T sticks of a Dirichlet process: Beta(1, concentration), of shape
    (*batch, T). ValueError unless the concentration is positive and finite and T >= 1."""
    require(num_sticks >= 1, "num_sticks", "a positive integer", num_sticks)
    xp, alpha = numpy_or_jax(as_float(concentration))
    require(positive_and_finite(alpha), "concentration", "positive finite numbers", alpha)
    shape = (*alpha.shape, num_sticks)
    ones = xp.ones(shape, alpha.dtype)
    return Beta.from_alpha_beta(ones, xp.broadcast_to(alpha[..., None], shape))
