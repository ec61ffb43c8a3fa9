"""What keeps a step inside the domain and, if asked for, from lowering the bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from vijax import tree
from vijax.sites import Prior, Sites
from vijax.step_size import Backtracking, scale_beta


class Trial(NamedTuple):
    """Sites that a step of size rho proposes, after retraction, with the number of sites retracted."""

    sites: Sites
    rho: Float[Array, ""]
    retractions: Int[Array, ""]


def retract(proposal: Sites, current: Sites, target: Sites, prior: Prior, rho: Float[Array, ""]) -> Trial:
    """The proposal or, where it left the domain, the KL step with messages of negative precision left out.

    That step is (1 - rho) current + rho (messages of precision >= 0), a convex combination of a point of the domain
    with points of its recession cone added to the prior: it is in the domain, and needs no magic number. Non-finite
    proposals pass, to be skipped and reported.
    """
    ok = prior.in_domain(proposal) | ~tree.all_finite(proposal)
    out = target.precision < 0
    kept = Sites(jnp.where(out, 0.0, target.linear), jnp.where(out, 0.0, target.precision))
    safe = tree.mix(jnp.minimum(rho, 1.0), current, kept)  # a beta may exceed 1: see `vijax.geometry.retract`
    return Trial(tree.select(ok, proposal, safe), rho, jnp.where(ok, 0, jnp.sum(out)))


def backtrack(
    step: Callable[[Float[Array, ""]], Trial],
    objective: Callable[[Sites], Float[Array, ""]],
    current: Sites,
    rho: Float[Array, ""],
    rule: Backtracking,
) -> tuple[Trial, Int[Array, ""]]:
    """Shrinks the step until the objective does not fall by more than rounding; in the end, no step.

    Returns:
      The trial accepted, and how many were refused.
    """
    start = objective(current)
    slack = 8 * jnp.finfo(start.dtype).eps * jnp.abs(start)

    def refused(trial: Trial) -> Bool[Array, ""]:
        return ~(objective(trial.sites) >= start - slack)  # also where it is NaN

    def shrink(carry: tuple) -> tuple:
        trial, _, count = carry
        smaller = step(scale_beta(trial.rho, rule.shrink))
        return smaller, refused(smaller), count + 1

    first = step(rho)
    carry = (first, refused(first), jnp.int32(0))
    trial, still, count = jax.lax.while_loop(lambda c: c[1] & (c[2] < rule.max_trials), shrink, carry)
    stay = Trial(current, trial.rho, jnp.zeros_like(trial.retractions))
    return tree.select(still, stay, trial), count


def first_rho(rule: Backtracking, last: Float[Array, ""], step: Int[Array, ""]) -> Float[Array, ""]:
    """The first trial's size: the rule's own at step 0, then the last one's with beta enlarged.

    `last` carries the growth only where the last step's first trial served: see `next_rho`."""
    return jnp.where(step == 0, jnp.asarray(rule.initial, last.dtype), last)


def next_rho(rule: Backtracking, used: Float[Array, ""], backtracks: Int[Array, ""]) -> Float[Array, ""]:
    """Where the next search starts."""
    return jnp.where(backtracks == 0, jnp.minimum(scale_beta(used, rule.grow), 1.0 - 1e-6), used)
