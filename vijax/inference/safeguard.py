"""A step size found by trying: steps that would lower the bound, or go too far, are made smaller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from vijax import tree
from vijax.inference.step_size import backtracking, scale_beta

T = TypeVar("T")


def backtrack(
    step: Callable[[Float[Array, ""]], T],
    serves: Callable[[T], Bool[Array, ""]],
    stay: T,
    rho: Float[Array, ""],
    rule: backtracking,
) -> tuple[T, Float[Array, ""], Int[Array, ""]]:
    """Shrinks the step until it serves; in the end, no step.

    Args:
      step: rho -> where a step of that size leads.
      serves: whether that may be accepted; false also where it is not finite.
      stay: what no step at all leads to.
      rho: size of the first trial.
      rule: how sizes shrink, and how often.

    Returns:
      Where the step accepted leads, its size, and how many trials were refused.
    """

    def shrink(carry: tuple) -> tuple:
        _, rho, _, count = carry
        smaller = scale_beta(rho, rule.shrink)
        trial = step(smaller)
        return trial, smaller, ~serves(trial), count + 1

    first = step(rho)
    carry = (first, rho, ~serves(first), jnp.int32(0))
    trial, rho, refused, count = jax.lax.while_loop(lambda c: c[2] & (c[3] < rule.max_trials), shrink, carry)
    return tree.select(refused, stay, trial), rho, count


def no_lower(value: Float[Array, ""], start: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether an objective is not below where it started by more than rounding; false where it is NaN."""
    return value >= start - 8 * jnp.finfo(start.dtype).eps * jnp.abs(start)


def first_rho(rule: backtracking, last: Float[Array, ""], step: Int[Array, ""]) -> Float[Array, ""]:
    """The first trial's size: the rule's own at step 0, then the last one's with beta enlarged.

    `last` carries the growth only where the last step's first trial served: see `next_rho`."""
    return jnp.where(step == 0, jnp.asarray(rule.initial, last.dtype), last)


def next_rho(rule: backtracking, used: Float[Array, ""], backtracks: Int[Array, ""]) -> Float[Array, ""]:
    """Where the next search starts."""
    return jnp.where(backtracks == 0, jnp.minimum(scale_beta(used, rule.grow), 1.0 - 1e-6), used)
