"""Forward-backward in probabilities, for one sequence whose potentials have been checked: a product with a K x K matrix
per step and direction, where the recursions in log space (`vijax.families.chain.forward_backward`) take K^2
exponentials.

With w_t = exp(unary_t), P = exp(transition) and f_0 P = exp(initial), each over its largest entry, and messages that
sum to one,

    c_t f_t = (f_{t-1} P) * w_t + floor,    d_t b_t = P (w_{t+1} * b_{t+1}),    Z_t = c_t <f_t, b_t>,

A is the sum of log c_t and of what was divided out, f_t * b_t / <f_t, b_t> are the probabilities of z_t, and those of
(z_{t-1}, z_t) = (i, j) are f_{t-1}(i) P_ij w_t(j) b_t(j) / Z_t (Rabiner, 1989, section V.A).

Numbers below the least normal one, `tiny`, are lost, and with them paths that later steps could have made the
likeliest: no message would show it. So each step of the filter, the first included, is given floor = 4 K tiny, which is
more than it can have lost: f is nowhere too small, while b is nowhere too large. In units of likelihood <f_t, b_t>
would be p(y) at every t; now it starts no higher, ends no lower and never falls, and additions at a step or losses on
the way back make it grow by a factor of at most 1 + (K + 1) floor / Z_t. Where 2 K floor / Z_t <= eps / T at every
step, underflow has therefore changed p(y), and any marginal, by no more than a rounding error. `scaled_passes` says
whether this holds. It does not hold for NaN, for data without any path, and for sequences through states that the model
held to be all but impossible (odds of about 1e-23 in float32 at T = 10,000, K = 20).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float


class Smoothed(NamedTuple):
    """Results of the smoothing passes.

    Attributes:
      value: A.
      initial, transition, unary: the expected statistics.
    """

    value: Float[Array, ""]
    initial: Float[Array, " K"]
    transition: Float[Array, "*steps K K"]
    unary: Float[Array, "T K"]


def scaled_passes(initial: Array, transition: Array, unary: Array, mask: Array) -> tuple[Smoothed, Bool[Array, ""]]:
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
        raw = jnp.where(exists, _product("ij,j->i", moves if shared else into, later * message), message)
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
    reached = raw > floor  # the floor alone is no path: an impossible path has probability zero exactly
    states = jnp.where(mask[:, None] & reached, both / evidence[:, None], 0.0)
    ahead = jnp.where(mask[:, None], weights * future / (scales * evidence)[:, None], 0.0)[1:]
    before = jnp.where(reached, filtered, 0.0)[:-1]
    pairs = moves * _product("ti,tj->ij" if shared else "ti,tj->tij", before, ahead)
    levels = jnp.log(scales) + levels + jnp.concatenate([level[None], jnp.broadcast_to(shifts, steps - 1)])
    sound = jnp.where(mask, scales * evidence, 1.0) * (limits.eps / steps) >= 2 * k * floor
    return Smoothed(jnp.sum(jnp.where(mask, levels, 0.0)), states[0], pairs, states), jnp.all(sound)


def _exponentials(scores: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Exponentials, divided by the largest over these axes, and the logarithm of that largest; log 0 allowed."""
    top = jnp.maximum(jnp.max(scores, axes, keepdims=True), jnp.finfo(scores.dtype).min)
    return jnp.exp(scores - top), jnp.squeeze(top, axes)


def _product(subscripts: str, x: Array, y: Array) -> Array:
    return jnp.einsum(subscripts, x, y, precision="highest")
