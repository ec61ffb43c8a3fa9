"""The upper tail of the normal distribution by the continued fraction of Mills' ratio.

    R(a) = (1 - Phi(a)) / phi(a) = 1 / (a + T_1),     T_k(a) = k / (a + T_{k+1}),

and T_1 T_2 ... T_k is E[y^k] of y = z - a where z is standard normal, given z > a. For a > 1 the fraction is summed
from its end: positive terms only, so that no digit is lost however far the tail. For a <= 1 it starts from
T_1 = 1 / R - a and goes forward, which loses none to speak of.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float

SWITCH = 1.0


def mills_tails(a: Float[Array, "*shape"]) -> tuple[Array, Array, Array, Array]:
    """T_1(a), ..., T_4(a).

    >>> [round(float(t), 4) for t in mills_tails(jnp.float32(40.0))]
    [0.025, 0.0499, 0.0748, 0.0997]
    """
    far = jnp.maximum(a, SWITCH)
    num_terms = 180 if a.dtype == jnp.float64 else 50

    def step(i: Array, tail: Array) -> Array:
        return (num_terms - i).astype(far.dtype) / (far + tail)

    fifth = lax.fori_loop(0, num_terms - 4, step, jnp.sqrt(far * far / 4 + num_terms + 1) - far / 2)
    backward = [fifth]
    for k in (4.0, 3.0, 2.0, 1.0):
        backward.insert(0, k / (far + backward[0]))
    near = jnp.minimum(a, SWITCH)
    forward = [jnp.exp(-0.5 * near * near - 0.5 * math.log(2 * math.pi) - log_ndtr(-near)) - near]
    for k in (1.0, 2.0, 3.0):
        forward.append(k / forward[-1] - near)
    t1, t2, t3, t4 = (jnp.where(a > SWITCH, b, f) for b, f in zip(backward[:4], forward, strict=True))
    return t1, t2, t3, t4


def log_mills(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log R(a)."""
    near = jnp.minimum(a, SWITCH)
    body = log_ndtr(-near) + 0.5 * near * near + 0.5 * math.log(2 * math.pi)
    far = jnp.maximum(a, SWITCH)
    return jnp.where(a > SWITCH, -jnp.log(far + mills_tails(far)[0]), body)
