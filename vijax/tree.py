"""Dataclasses as pytrees, and arithmetic on pytrees, leaf by leaf."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

T = TypeVar("T", bound=type)


def register(cls: T) -> T:
    """Registers a dataclass as a pytree of its fields; those with metadata `static` are part of its structure.

    Not by `jax.tree_util.register_dataclass`: under it (jax 0.10) tree structures of two classes with equally many
    fields compare equal, and once in a while `jit` hands a normal the function that it compiled for a beta.

    >>> @register
    ... @dataclasses.dataclass(frozen=True)
    ... class Line:
    ...     points: list
    ...     name: str = dataclasses.field(metadata={"static": True})
    >>> jax.tree.map(lambda x: 2 * x, Line([1, 2], "a"))
    Line(points=[2, 4], name='a')
    """
    fields = dataclasses.fields(cls)
    names = tuple(field.name for field in fields if not field.metadata.get("static"))
    static = tuple(field.name for field in fields if field.metadata.get("static"))
    keys = tuple(map(jax.tree_util.GetAttrKey, names))

    def flatten(x: Any) -> tuple[tuple, tuple]:
        return tuple(getattr(x, name) for name in names), tuple(getattr(x, name) for name in static)

    def flatten_with_keys(x: Any) -> tuple[tuple, tuple]:
        children, structure = flatten(x)
        return tuple(zip(keys, children, strict=True)), structure

    def unflatten(structure: tuple, children: Any) -> Any:
        return cls(**dict(zip(names, children, strict=True)), **dict(zip(static, structure, strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


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


def count_non_finite(a: PyTree) -> Int[Array, ""]:
    """How many entries of the floating leaves are infinite or no number.

    >>> int(count_non_finite({"x": jnp.array([1.0, jnp.nan, jnp.inf]), "n": jnp.arange(3)}))
    2
    """
    floats = [x for x in jax.tree.leaves(a) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]
    return sum((jnp.sum(~jnp.isfinite(x), dtype=jnp.int32) for x in floats), jnp.zeros((), jnp.int32))


def all_finite(a: PyTree) -> Bool[Array, ""]:
    """Whether every entry of every floating leaf is finite."""
    checks = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(a) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]
    return jnp.all(jnp.array(checks)) if checks else jnp.array(True)
