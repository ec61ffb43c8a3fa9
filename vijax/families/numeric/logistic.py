"""log(1 + e^z) and log sigma(z), whose derivatives are sigma.

`jax.nn.softplus` tests whether its argument is NaN, and for a short last axis XLA's CPU compiler
tests one element at a time: 35 ns an element on an axis of 12 where the plain formula takes 4, and
4 ns on an axis of 32 where it takes 2.4."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_jvp
@jax.jit
def softplus(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log(1 + e^z).

    >>> print(softplus(jnp.array([-200.0, 0.0, 200.0])).round(4))
    [  0.       0.6931 200.    ]
    """
    return jnp.maximum(z, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(z)))


@softplus.defjvp
def _softplus_jvp(primals: tuple, tangents: tuple) -> tuple:
    (z,), (dz,) = primals, tangents
    return softplus(z), jax.nn.sigmoid(z) * dz


def log_sigmoid(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log sigma(z) = -log(1 + e^-z)."""
    return -softplus(-z)
