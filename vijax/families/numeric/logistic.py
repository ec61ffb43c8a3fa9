"""log(1 + e^z) and log sigma(z), whose derivatives are sigma.

`jax.nn.softplus` asks whether its argument is a number, which XLA's CPU compiler does one element
at a time where the last axis is short: 35 ns an element on an axis of 12, for 4 of the plain
formula, and 4 for 2.4 on an axis of 32."""

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
