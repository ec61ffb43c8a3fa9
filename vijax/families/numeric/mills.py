"""The upper tail of the normal distribution by the continued fraction of Mills' ratio.

    R(a) = (1 - Phi(a)) / phi(a) = 1 / (a + T_1),     T_k(a) = k / (a + T_{k+1}),

and T_1 T_2 ... T_k is E[y^k] of y = z - a where z is standard normal, given z > a. For a > 0.4 the fraction is summed
from its end: positive terms only, so that no digit is lost however far the tail. For other a it starts from
T_1 = 1 / R - a and goes forward, which loses none to speak of.

The end is the solution of T(n) (a + T(n + 1)) = n for large n. With p = a / 2, w = sqrt(n + p^2) it is

    T(n) = (w - p) [1 - 1 / (4 w^2) + (w + 5 p) / (32 w^5) + O(n^-3)],

and its error shrinks on the way by about exp(-2 a sqrt(n)).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Float

SWITCH = 0.4


def mills_tails(a: Float[Array, "*shape"]) -> tuple[Array, Array, Array, Array]:
    """T_1(a), ..., T_4(a).

    >>> [round(float(t), 4) for t in mills_tails(jnp.float32(40.0))]
    [0.025, 0.0499, 0.0748, 0.0997]
    """
    far = jnp.maximum(a, SWITCH)
    num_terms = 180 if a.dtype == jnp.float64 else 40

    def step(i: Array, tail: Array) -> Array:
        return (num_terms - i).astype(far.dtype) / (far + tail)

    fifth = lax.fori_loop(0, num_terms - 4, step, _end(0.5 * far, num_terms + 1))
    backward = [fifth]
    for k in (4.0, 3.0, 2.0, 1.0):
        backward.insert(0, k / (far + backward[0]))
    near = jnp.minimum(a, SWITCH)
    forward = [hazard(near) - near]
    for k in (1.0, 2.0, 3.0):
        forward.append(k / forward[-1] - near)
    t1, t2, t3, t4 = (jnp.where(a > SWITCH, b, f) for b, f in zip(backward[:4], forward, strict=True))
    return t1, t2, t3, t4


def _end(p: Float[Array, "*shape"], n: int) -> Float[Array, "*shape"]:
    """T(n) by its expansion, with p = a / 2."""
    w2 = n + p * p
    w = jnp.sqrt(w2)
    return n / (w + p) * (1.0 - (1.0 - (w + 5.0 * p) / (8.0 * w * w2)) / (4.0 * w2))


def hazard(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """1 / R(a), for a that is not far in the upper tail."""
    return jnp.exp(-0.5 * a * a) / (math.sqrt(2 * math.pi) * ndtr(-a))


def log_mills(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log R(a)."""
    near = jnp.minimum(a, SWITCH)
    body = log_ndtr(-near) + 0.5 * near * near + 0.5 * math.log(2 * math.pi)
    far = jnp.maximum(a, SWITCH)
    return jnp.where(a > SWITCH, -jnp.log(far + mills_tails(far)[0]), body)
