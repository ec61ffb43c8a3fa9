"""The passes over a discrete chain, for one sequence whose potentials have been checked: in
probabilities, which is four times faster, and in log space, which is right for all potentials.

In probabilities a step and direction is a product with a K x K matrix, where log space takes K^2
exponentials. With w_t = exp(unary_t), P = exp(transition) and f_0 P = exp(initial), each over its
largest entry, and messages that sum to one,

    c_t f_t = (f_{t-1} P) * w_t + floor,    d_t b_t = P (w_{t+1} * b_{t+1}),    Z_t = c_t <f_t, b_t>,

A is the sum of log c_t and of the logarithms of the largest entries, f_t * b_t / <f_t, b_t> are the
probabilities of z_t, and those of (z_{t-1}, z_t) = (i, j) are f_{t-1}(i) P_ij w_t(j) b_t(j) / Z_t
(Rabiner, 1989, section V.A).

Numbers below the least normal one, `tiny`, are lost, and with them paths that later steps could
have made the likeliest. So each step of the filter is given floor = 4 K tiny, which is more than it
can have lost: f is nowhere too small, while b is nowhere too large. In units of likelihood <f_t,
b_t> would be p(y) at every t; now it starts no higher, ends no lower and never falls, and additions
at a step or losses on the way back make it grow by a factor of at most 1 + (K + 1) floor / Z_t.
Where 2 K floor / Z_t <= eps / T at every step, underflow has changed p(y), and any marginal, by no
more than a rounding error: `scaled_passes` returns True. It returns False for NaN, for data without
any path, and for sequences through all but impossible states (odds of 1e-23 in float32 at T =
10,000, K = 20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float


class Forward(NamedTuple):
    """Results of the forward recursion in log space."""

    messages: Float[
        Array, "T K"
    ]  # log p(z_t, y_1..t) less a shift that makes the largest entry of each zero
    last: Float[Array, " K"]  # the message of the last step that exists
    levels: Float[Array, " T"]  # the shifts
    predicted: Float[Array, "S K"]  # log p(z_t, y_1..t-1) for t = 2..T, less the shift of step t-1

    def total(self, mask: Array) -> Float[Array, ""]:
        """A."""
        return jnp.where(mask[0], jnp.sum(self.levels) + logsumexp(self.last), 0.0)


def largest(scores: Array) -> Array:
    """The maximum over the first axis; finite where all entries are log 0, so that differences from
    it are not NaN."""
    return jnp.maximum(jnp.max(scores, 0), jnp.finfo(scores.dtype).min)


def log_sum(scores: Array) -> Array:
    """logsumexp over the first axis, log 0 allowed."""
    top = largest(scores)
    return top + jnp.log(jnp.sum(jnp.exp(scores - top[None]), 0))


def forward_pass(
    initial: Array, transition: Array, unary: Array, mask: Array, reduce: Callable = log_sum
) -> Forward:
    """The forward recursion with shifts, without which a float32 message would lose the digits that
    A has reached. A padded step hands its message on. The loop does only the work that depends on
    the step before."""

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
    """Marginals by a pass back: p(z_t = i, z_{t+1} = j | y) is p(z_{t+1} = j | y) times p(z_t = i |
    z_{t+1} = j, y_1..t), the share of i in the prediction of j."""
    shared = transition.ndim == 2

    def back(carry: tuple[Array, Array], inputs: Any) -> tuple[tuple[Array, Array], Any]:
        (later, counts), (message, predicted, exists, into) = carry, inputs
        share = message[:, None] + (transition if shared else into) - predicted[None]
        share = jnp.exp(jnp.where(exists, share, 0.0))  # the entry of a padded step might overflow
        here = jnp.einsum("ij,j->i", share, later, precision="highest")
        here = jnp.where(exists, here / jnp.sum(here), later)  # they sum to one but for rounding
        pairs = share * jnp.where(exists, later, 0.0)[None]
        return (here, counts + pairs if shared else counts), (here, None if shared else pairs)

    end, zero = (
        jax.nn.softmax(forward.last),
        jnp.zeros_like(transition if shared else forward.messages[:0]),
    )
    predicted = jnp.maximum(
        forward.predicted, jnp.finfo(end.dtype).min
    )  # log 0 - log 0 would be NaN
    steps = forward.messages[:-1], predicted, mask[1:], None if shared else transition
    (first, counts), (states, pairs) = lax.scan(back, (end, zero), steps, reverse=True)
    states = jnp.where(mask[:, None], jnp.concatenate([states, end[None]]), 0.0)
    return jnp.where(mask[0], first, 0.0), counts if shared else pairs, states


class Smoothed(NamedTuple):
    """A, and the expected statistics."""

    value: Float[Array, ""]
    initial: Float[Array, " K"]
    transition: Float[Array, "*steps K K"]
    unary: Float[Array, "T K"]


def scaled_passes(
    initial: Array, transition: Array, unary: Array, mask: Array
) -> tuple[Smoothed, Bool[Array, ""]]:
    """A, the expected statistics, and True where no underflow has touched them."""
    steps, k = unary.shape
    limits = jnp.finfo(unary.dtype)
    floor = 4 * k * limits.tiny
    first, level = _exponentials(initial, (-1,))
    weights, levels = _exponentials(unary, (-1,))
    moves, shifts = _exponentials(transition, (-2, -1))
    shared = transition.ndim == 2

    def forward(raw: Array, inputs: Any) -> tuple[Array, Array]:
        (exists, here, into), message = inputs, raw / jnp.sum(raw)
        moved = _product("i,ij->j", message, moves if shared else into)
        raw = jnp.where(exists, moved * here + floor, message)
        return raw, raw

    def backward(raw: Array, inputs: Any) -> tuple[Array, Array]:
        (exists, later, into), message = inputs, raw / jnp.sum(raw)
        raw = jnp.where(
            exists, _product("ij,j->i", moves if shared else into, later * message), message
        )
        return raw, raw

    inputs = mask[1:], weights[1:], None if shared else moves
    start = first * weights[0] + floor
    raw = jnp.concatenate([start[None], lax.scan(forward, start, inputs)[1]])
    end = jnp.ones(k, unary.dtype)
    future = jnp.concatenate([lax.scan(backward, end, inputs, reverse=True)[1], end[None]])
    scales = jnp.sum(raw, 1)
    filtered, future = raw / scales[:, None], future / jnp.sum(future, 1, keepdims=True)
    both = filtered * future
    evidence = jnp.sum(both, 1)
    reached = (
        raw > floor
    )  # the floor alone is no path: an impossible path has probability zero exactly
    states = jnp.where(mask[:, None] & reached, both / evidence[:, None], 0.0)
    ahead = jnp.where(mask[:, None], weights * future / (scales * evidence)[:, None], 0.0)[1:]
    before = jnp.where(reached, filtered, 0.0)[:-1]
    pairs = moves * _product("ti,tj->ij" if shared else "ti,tj->tij", before, ahead)
    levels = (
        jnp.log(scales)
        + levels
        + jnp.concatenate([level[None], jnp.broadcast_to(shifts, steps - 1)])
    )
    sound = jnp.where(mask, scales * evidence, 1.0) * (limits.eps / steps) >= 2 * k * floor
    return Smoothed(jnp.sum(jnp.where(mask, levels, 0.0)), states[0], pairs, states), jnp.all(sound)


def _exponentials(scores: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Exponentials, divided by the largest over these axes, and the logarithm of that largest; log
    0 allowed."""
    top = jnp.maximum(jnp.max(scores, axes, keepdims=True), jnp.finfo(scores.dtype).min)
    return jnp.exp(scores - top), jnp.squeeze(top, axes)


def _product(subscripts: str, x: Array, y: Array) -> Array:
    return jnp.einsum(subscripts, x, y, precision="highest")
