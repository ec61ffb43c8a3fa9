"""The passes over a discrete chain, for one sequence with checked potentials: in probabilities,
which is four times faster, and in log space, which is right for all potentials.

In probabilities each step of a pass is a product with a K x K matrix; in log space it takes K^2
exponentials. With w_t = exp(unary_t), P = exp(transition) and f_0 P = exp(initial), each divided by
its largest entry, and messages that sum to one,

    c_t f_t = (f_{t-1} P) * w_t + floor,    d_t b_t = P (w_{t+1} * b_{t+1}),    Z_t = c_t <f_t, b_t>,

A is the sum of log c_t and of the logarithms of the largest entries, the probabilities of z_t are
f_t * b_t / <f_t, b_t>, and the probability of (z_{t-1}, z_t) = (i, j) is f_{t-1}(i) P_ij w_t(j)
b_t(j) / Z_t (Rabiner, 1989, section V.A).

Underflow removes numbers below the smallest normal one, `tiny`, and with them paths that later
steps could have made the likeliest. So each step of the filter adds floor = 4 K tiny, more than it
can have lost: no entry of f is too small, and no entry of b too large. In units of likelihood,
exact <f_t, b_t> would be p(y) at every t. With the floor it starts no higher, ends no lower and
never falls, and the additions at a step or the losses of the backward pass make it grow by a factor
of at most 1 + (K + 1) floor / Z_t. If 2 K floor / Z_t <= eps / T at every step, underflow has
changed p(y), and any marginal, by no more than a rounding error, and `scaled_passes` returns True.
It returns False for NaN, for data without any path, and for sequences through all but impossible
states (odds of 1e-23 in float32 at T = 10,000, K = 20)."""

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

    messages: Float[Array, "T K"]  # log p(z_t, y_1..t) less a shift; each has the maximum zero
    last: Float[Array, " K"]  # the message of the last step that exists
    levels: Float[Array, " T"]  # the shifts
    predicted: Float[Array, "S K"]  # log p(z_t, y_1..t-1) for t = 2..T, less the shift of step t-1

    def total(self, mask: Array) -> Float[Array, ""]:
        """A."""
        return jnp.where(mask[0], jnp.sum(self.levels) + logsumexp(self.last), 0.0)


def largest(scores: Array) -> Array:
    """The maximum over the first axis; finite even if all entries are log 0, so that differences
    from it are not NaN."""
    return jnp.maximum(jnp.max(scores, 0), jnp.finfo(scores.dtype).min)


def log_sum(scores: Array) -> Array:
    """logsumexp over the first axis; entries may be log 0."""
    top = largest(scores)
    return top + jnp.log(jnp.sum(jnp.exp(scores - top[None]), 0))


def forward_pass(
    initial: Array, transition: Array, unary: Array, mask: Array, reduce: Callable = log_sum
) -> Forward:
    """The forward recursion. Messages are shifted, because unshifted ones grow with A and lose
    float32 digits. A padded step passes its message on. The loop does only the work that depends on
    the step before."""

    @jax.checkpoint
    def step(message: Array, inputs: Any) -> tuple[Array, Array]:
        exists, step_unary, step_transition = inputs
        if step_transition is None:
            step_transition = transition
        predicted = reduce(message[:, None] + step_transition)
        filtered = predicted + step_unary
        return jnp.where(exists, filtered - largest(filtered), message), predicted

    start = initial + unary[0]
    per_step = None if transition.ndim == 2 else transition
    last, predicted = lax.scan(step, start - largest(start), (mask[1:], unary[1:], per_step))
    raw = jnp.concatenate([start[None], predicted + unary[1:]])
    levels = largest(raw.T)
    return Forward(raw - levels[:, None], last, jnp.where(mask, levels, 0.0), predicted)


def backward_pass(transition: Array, forward: Forward, mask: Array) -> tuple[Array, Array, Array]:
    """Marginals by a backward pass: p(z_t = i, z_{t+1} = j | y) is p(z_{t+1} = j | y) times p(z_t =
    i | z_{t+1} = j, y_1..t), the share of i in the prediction of j."""
    is_shared = transition.ndim == 2

    def back(carry: tuple[Array, Array], inputs: Any) -> tuple[tuple[Array, Array], Any]:
        next_probs, counts = carry
        message, predicted, exists, step_transition = inputs
        if is_shared:
            step_transition = transition
        share = message[:, None] + step_transition - predicted[None]
        share = jnp.exp(jnp.where(exists, share, 0.0))  # the entry of a padded step might overflow
        probs = jnp.einsum("ij,j->i", share, next_probs, precision="highest")
        # The probabilities sum to one, but for rounding.
        probs = jnp.where(exists, probs / jnp.sum(probs), next_probs)
        pairs = share * jnp.where(exists, next_probs, 0.0)[None]
        if is_shared:
            return (probs, counts + pairs), (probs, None)
        return (probs, counts), (probs, pairs)

    end = jax.nn.softmax(forward.last)
    zero = jnp.zeros_like(transition if is_shared else forward.messages[:0])
    # log 0 - log 0 would be NaN.
    predicted = jnp.maximum(forward.predicted, jnp.finfo(end.dtype).min)
    steps = forward.messages[:-1], predicted, mask[1:], None if is_shared else transition
    (first, counts), (states, pairs) = lax.scan(back, (end, zero), steps, reverse=True)
    states = jnp.where(mask[:, None], jnp.concatenate([states, end[None]]), 0.0)
    return jnp.where(mask[0], first, 0.0), counts if is_shared else pairs, states


class Marginals(NamedTuple):
    """A and the expected statistics."""

    value: Float[Array, ""]
    initial: Float[Array, " K"]
    transition: Float[Array, "*steps K K"]
    unary: Float[Array, "T K"]


def scaled_passes(
    initial: Array, transition: Array, unary: Array, mask: Array
) -> tuple[Marginals, Bool[Array, ""]]:
    """A and the expected statistics, and True if underflow has not changed them."""
    steps, k = unary.shape
    limits = jnp.finfo(unary.dtype)
    floor = 4 * k * limits.tiny
    first, level = _exponentials(initial, (-1,))
    weights, levels = _exponentials(unary, (-1,))
    moves, shifts = _exponentials(transition, (-2, -1))
    is_shared = transition.ndim == 2
    inputs = mask[1:], weights[1:], None if is_shared else moves
    start = first * weights[0] + floor
    raw = _filter(start, moves, inputs, floor)
    future = _smooth(jnp.ones(k, unary.dtype), moves, inputs)
    scales = jnp.sum(raw, 1)
    filtered = raw / scales[:, None]
    future = future / jnp.sum(future, 1, keepdims=True)
    product = filtered * future
    evidence = jnp.sum(product, 1)
    # The floor alone is no path: the probability of an impossible path is exactly zero.
    is_reachable = raw > floor
    states = jnp.where(mask[:, None] & is_reachable, product / evidence[:, None], 0.0)
    after = jnp.where(mask[:, None], weights * future / (scales * evidence)[:, None], 0.0)[1:]
    before = jnp.where(is_reachable, filtered, 0.0)[:-1]
    pairs = moves * _product("ti,tj->ij" if is_shared else "ti,tj->tij", before, after)
    shifts = jnp.concatenate([level[None], jnp.broadcast_to(shifts, steps - 1)])
    value = jnp.sum(jnp.where(mask, jnp.log(scales) + levels + shifts, 0.0))
    is_exact = jnp.where(mask, scales * evidence, 1.0) * (limits.eps / steps) >= 2 * k * floor
    return Marginals(value, states[0], pairs, states), jnp.all(is_exact)


def _filter(start: Array, moves: Array, inputs: tuple, floor: Any) -> Float[Array, "T K"]:
    """The messages c_t f_t of the forward pass."""

    def step(raw: Array, inputs: Any) -> tuple[Array, Array]:
        exists, weights, step_moves = inputs
        message = raw / jnp.sum(raw)
        predicted = _product("i,ij->j", message, moves if step_moves is None else step_moves)
        raw = jnp.where(exists, predicted * weights + floor, message)
        return raw, raw

    return jnp.concatenate([start[None], lax.scan(step, start, inputs)[1]])


def _smooth(end: Array, moves: Array, inputs: tuple) -> Float[Array, "T K"]:
    """The messages d_t b_t of the backward pass."""

    def step(raw: Array, inputs: Any) -> tuple[Array, Array]:
        exists, weights, step_moves = inputs
        message = raw / jnp.sum(raw)
        if step_moves is None:
            step_moves = moves
        raw = jnp.where(exists, _product("ij,j->i", step_moves, weights * message), message)
        return raw, raw

    return jnp.concatenate([lax.scan(step, end, inputs, reverse=True)[1], end[None]])


def _exponentials(scores: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Exponentials divided by the largest over these axes, and the logarithm of the largest; scores
    may be log 0."""
    top = jnp.maximum(jnp.max(scores, axes, keepdims=True), jnp.finfo(scores.dtype).min)
    return jnp.exp(scores - top), jnp.squeeze(top, axes)


def _product(subscripts: str, x: Array, y: Array) -> Array:
    return jnp.einsum(subscripts, x, y, precision="highest")
