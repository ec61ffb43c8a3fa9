"""Polynomials by Horner's rule, and their divided differences."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float


def horner(coefficients: Sequence[float], x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The polynomial with these coefficients, constant first, in the dtype of `x`."""
    total = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + jnp.asarray(c, x.dtype)
    return total


def horner_slope(coefficients: Sequence[float], x: Float[Array, "*shape"], x2: Float[Array, "*shape"]) -> Array:
    """(p(x) - p(x')) / (x - x') of the polynomial with these coefficients."""
    value, slope = jnp.full_like(x, coefficients[-1]), jnp.zeros_like(x)
    for c in reversed(coefficients[:-1]):
        slope, value = slope * x2 + value, value * x + jnp.asarray(c, x.dtype)
    return slope
