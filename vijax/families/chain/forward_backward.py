"""The two passes over a discrete chain in log space, for one sequence whose potentials have been checked: forward
filtering, and smoothing by a pass back over its messages. Accurate for all potentials. `vijax.families.chain.chains`
takes the filter from here, and the smoothing where `vijax.families.chain.scaled_passes`, which is four times faster,
would underflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from jaxtyping import Array, Float


class Forward(NamedTuple):
    """The results of the forward recursion.

    Attributes:
      messages: log p(z_t, y_1..t) up to a shift, such that the largest entry of each is zero.
      last: the message of the last step that exists.
      levels: the shifts.
      predicted: log p(z_t, y_1..t-1) for t = 2..T, up to the shift of step t-1.
    """

    messages: Float[Array, "T K"]
    last: Float[Array, " K"]
    levels: Float[Array, " T"]
    predicted: Float[Array, "S K"]

    def total(self, mask: Array) -> Float[Array, ""]:
        """A."""
        return jnp.where(mask[0], jnp.sum(self.levels) + logsumexp(self.last), 0.0)


def largest(scores: Array) -> Array:
    """The maximum over the first axis; finite where all entries are log 0, so that differences from it are not NaN."""
    return jnp.maximum(jnp.max(scores, 0), jnp.finfo(scores.dtype).min)


def log_sum(scores: Array) -> Array:
    """logsumexp over the first axis, log 0 allowed."""
    top = largest(scores)
    return top + jnp.log(jnp.sum(jnp.exp(scores - top), 0))


def forward_pass(initial: Array, transition: Array, unary: Array, mask: Array, reduce: Callable = log_sum) -> Forward:
    """The forward recursion with shifts: without them a float32 message would lose, at step t, the digits that A has
    reached by then. A padded step hands its message on. The loop does only what depends on the step before."""

    @jax.checkpoint
    def step(message: Array, inputs: Any) -> tuple[Array, Array]:
        exists, here, into = inputs
        predicted = reduce(message[:, None] + (transition if into is None else into))
        moved = predicted + here
        return jnp.where(exists, moved - largest(moved), message), predicted

    start = initial + unary[0]
    per_step = None if transition.ndim == 2 else transition
    last, predicted = lax.scan(step, start - largest(start), (mask[1:], unary[1:], per_step))
    raw = jnp.concatenate([start[None], predicted + unary[1:]])
    levels = largest(raw.T)
    return Forward(raw - levels[:, None], last, jnp.where(mask, levels, 0.0), predicted)


def backward_pass(transition: Array, forward: Forward, mask: Array) -> tuple[Array, Array, Array]:
    """Marginals by a pass back: p(z_t = i, z_{t+1} = j | y) is p(z_{t+1} = j | y) times p(z_t = i | z_{t+1} = j,
    y_1..t), the share of i in the prediction of j; nothing overflows or underflows."""
    shared = transition.ndim == 2

    def back(carry: tuple[Array, Array], inputs: Any) -> tuple[tuple[Array, Array], Any]:
        (later, counts), (message, predicted, exists, into) = carry, inputs
        share = message[:, None] + (transition if shared else into) - predicted
        share = jnp.exp(jnp.where(exists, share, 0.0))  # the entry of a padded step might overflow
        here = jnp.einsum("ij,j->i", share, later, precision="highest")
        here = jnp.where(exists, here / jnp.sum(here), later)  # they sum to one but for rounding
        pairs = share * jnp.where(exists, later, 0.0)
        return (here, counts + pairs if shared else counts), (here, None if shared else pairs)

    end, zero = jax.nn.softmax(forward.last), jnp.zeros_like(transition if shared else forward.messages[:0])
    predicted = jnp.maximum(forward.predicted, jnp.finfo(end.dtype).min)  # log 0 - log 0 would be NaN
    steps = forward.messages[:-1], predicted, mask[1:], None if shared else transition
    (first, counts), (states, pairs) = lax.scan(back, (end, zero), steps, reverse=True)
    states = jnp.where(mask[:, None], jnp.concatenate([states, end[None]]), 0.0)
    return jnp.where(mask[0], first, 0.0), counts if shared else pairs, states
