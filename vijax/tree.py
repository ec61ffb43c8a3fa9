"""Arithmetic on pytrees, leaf by leaf."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree


def add(a: PyTree, b: PyTree) -> PyTree:
    """a + b; both of the same structure (natural and mean parameters differ in it, and do not add)."""
    return jax.tree.map(jnp.add, a, b)


def subtract(a: PyTree, b: PyTree) -> PyTree:
    """a - b; both of the same structure."""
    return jax.tree.map(jnp.subtract, a, b)


def scale(c: Float[Array, ""] | float, a: PyTree) -> PyTree:
    """c a."""
    return jax.tree.map(lambda x: c * x, a)


def mix(weight: Float[Array, ""] | float, a: PyTree, b: PyTree) -> PyTree:
    """(1 - weight) a + weight b, exactly `a` at weight 0 and `b` at weight 1.

    >>> float(mix(0.25, jnp.float32(1.0), jnp.float32(3.0)))
    1.5
    """
    return jax.tree.map(lambda x, y: (1 - weight) * x + weight * y, a, b)


def select(condition: Bool[Array, ...], a: PyTree, b: PyTree) -> PyTree:
    """`a` where the condition, a scalar or of the shape of every leaf, holds, else `b`."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def all_finite(a: PyTree) -> Bool[Array, ""]:
    """Whether every entry of every floating leaf is finite."""
    checks = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(a) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]
    return jnp.all(jnp.array(checks)) if checks else jnp.array(True)
