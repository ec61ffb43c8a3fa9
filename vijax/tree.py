"""Dataclasses as pytrees, and arithmetic on pytrees, leaf by leaf."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

T = TypeVar("T", bound=type)
Tree = TypeVar("Tree")


def register(cls: T) -> T:
    """Registers a dataclass as a pytree of its fields. Fields with metadata `static` are part of
    its structure.

    `jax.tree_util.register_dataclass` would not do: under it (jax 0.10) tree structures of two
    classes with equally many fields compare equal, and now and then `jit` uses for a normal the
    function that it compiled for a beta.

    >>> @register
    ... @dataclasses.dataclass(frozen=True)
    ... class Line:
    ...     points: list
    ...     name: str = dataclasses.field(metadata={"static": True})
    >>> jax.tree.map(lambda x: 2 * x, Line([1, 2], "a"))
    Line(points=[2, 4], name='a')

    Fields with metadata `context` are children too, and come last. No arithmetic of this module
    changes them."""
    fields = dataclasses.fields(cls)
    static = tuple(field.name for field in fields if field.metadata.get("static"))
    context = tuple(field.name for field in fields if field.metadata.get("context"))
    parameters = tuple(field.name for field in fields if field.name not in (*static, *context))
    names = (*parameters, *context)
    keys = tuple(map(jax.tree_util.GetAttrKey, names))

    def flatten(x: Any) -> tuple[tuple, tuple]:
        values = [getattr(x, name) for name in parameters]
        contexts = [Context(getattr(x, name)) for name in context]
        return (*values, *contexts), tuple(getattr(x, name) for name in static)

    def flatten_with_keys(x: Any) -> tuple[tuple, tuple]:
        children, structure = flatten(x)
        return tuple(zip(keys, children, strict=True)), structure

    def unflatten(structure: tuple, children: Any) -> Any:
        values = (child.value if isinstance(child, Context) else child for child in children)
        fields = dict(zip(names, values, strict=True))
        return cls(**fields, **dict(zip(static, structure, strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True)
class Context:
    """An array beside the parameters, such as a kernel or a mask. Arithmetic takes it unchanged
    from its first operand; `jit`, `vmap` and checkpoints treat it like other arrays."""

    value: Any

    def tree_flatten_with_keys(self) -> tuple[tuple, None]:
        """The value as the only child."""
        return ((jax.tree_util.GetAttrKey("value"), self.value),), None

    @classmethod
    def tree_unflatten(cls, static: None, children: Any) -> Context:
        """The context of this child."""
        return cls(*children)


def is_context(x: Any) -> bool:
    """True for a `Context`."""
    return isinstance(x, Context)


def apply(f: Callable, a: PyTree, *others: PyTree) -> PyTree:
    """Applies f leaf by leaf; contexts stay those of `a`.

    >>> @register
    ... @dataclasses.dataclass(frozen=True)
    ... class Masked:
    ...     x: float
    ...     mask: bool = dataclasses.field(metadata={"context": True})
    >>> apply(lambda x, y: x + y, Masked(1.0, True), Masked(2.0, None))
    Masked(x=3.0, mask=True)
    """

    def apply_to_leaf(x: Any, *ys: Any) -> Any:
        return x if is_context(x) else f(x, *ys)

    return jax.tree.map(apply_to_leaf, a, *others, is_leaf=is_context)


def parameters(a: PyTree) -> list[Any]:
    """The leaves outside contexts."""
    return [x for x in jax.tree.leaves(a, is_leaf=is_context) if not is_context(x)]


def with_parameters(a: Tree, leaves: Sequence[Any]) -> Tree:
    """`a` with other parameters (`leaves`) and its own contexts."""
    flat, structure = jax.tree.flatten(a, is_leaf=is_context)
    remaining = iter(leaves)
    replaced = [x if is_context(x) else next(remaining) for x in flat]
    expected = len(flat) - sum(map(is_context, flat))
    if len(leaves) != expected:
        raise ValueError(f"expected {expected} parameters, got {len(leaves)}.")
    return jax.tree.unflatten(structure, replaced)


def add(a: PyTree, b: PyTree) -> PyTree:
    """a + b, both of the same structure. (Natural and mean parameters differ in structure, so they
    cannot be added.)"""
    return apply(jnp.add, a, b)


def subtract(a: PyTree, b: PyTree) -> PyTree:
    """a - b; both of the same structure."""
    return apply(jnp.subtract, a, b)


def scale(c: Float[Array, ""] | float, a: PyTree) -> PyTree:
    """c a."""
    return apply(lambda x: c * x, a)


def mix(weight: Float[Array, ""] | float, a: PyTree, b: PyTree) -> PyTree:
    """(1 - weight) a + weight b, exactly `a` at weight 0 and `b` at weight 1.

    >>> float(mix(0.25, jnp.float32(1.0), jnp.float32(3.0)))
    1.5
    """
    return apply(lambda x, y: (1 - weight) * x + weight * y, a, b)


def to_device(x: Any) -> Any:
    """x as a JAX array. `jnp.asarray` would compile a program for each shape of a NumPy array (jax
    0.10.2).

    >>> to_device(np.ones(2))
    Array([1., 1.], dtype=float32)
    """
    is_on_host = isinstance(x, np.ndarray | np.generic | int | float)
    return jax.device_put(x) if is_on_host else jnp.asarray(x)


def as_arrays(values: Mapping[str, Any]) -> dict[str, Any]:
    """Named values, or trees of them, as JAX arrays."""
    return {name: jax.tree.map(to_device, value) for name, value in values.items()}


def select(condition: Bool[Array, ...], a: PyTree, b: PyTree) -> PyTree:
    """`a` where the condition, a scalar or of the shape of every leaf, holds, else `b`."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def count_non_finite(a: PyTree) -> Int[Array, ""]:
    """The number of entries of floating leaves that are infinite or NaN.

    >>> int(count_non_finite({"x": jnp.array([1.0, jnp.nan, jnp.inf]), "n": jnp.arange(3)}))
    2
    """
    zero = jnp.zeros((), jnp.int32)

    def count(xs: list[Array]) -> Array:
        return sum((jnp.sum(~jnp.isfinite(x), dtype=jnp.int32) for x in xs), zero)

    small, large = _floats(a)
    return count(small) + _unless_finite(large, zero, count)


def all_finite(a: PyTree) -> Bool[Array, ""]:
    """True if every entry of every floating leaf is finite."""

    def are_finite(xs: list[Array]) -> Array:
        if not xs:
            return jnp.array(True)
        return jnp.all(jnp.array([jnp.all(jnp.isfinite(x)) for x in xs]))

    small, large = _floats(a)
    return are_finite(small) & _unless_finite(large, jnp.array(True), are_finite)


LARGE = 1 << 14
"""Size of a matrix from which its sums are examined first."""


def _floats(a: PyTree) -> tuple[list[Array], list[Array]]:
    """The floating leaves: small ones and vectors, and large matrices."""
    floats = [x for x in jax.tree.leaves(a) if jnp.issubdtype(jnp.result_type(x), jnp.inexact)]
    on_cpu = jax.default_backend() == "cpu"  # elsewhere the look is part of other passes
    is_large = lambda x: on_cpu and jnp.ndim(x) > 1 and jnp.size(x) >= LARGE
    return [x for x in floats if not is_large(x)], [x for x in floats if is_large(x)]


def _unless_finite(
    xs: list[Array], otherwise: Array, look: Callable[[list[Array]], Array]
) -> Array:
    """`otherwise` if all entries are finite, else `look(xs)`. Sums over rows mostly suffice: a sum
    with an entry that is not finite is not finite. They are a product with ones, four times as fast
    on a CPU as a look at each entry."""
    if not xs:
        return otherwise
    sums = [jnp.ones(x.size // x.shape[-1], x.dtype) @ x.reshape(-1, x.shape[-1]) for x in xs]
    finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(x)) for x in sums]))
    return jax.lax.cond(finite, lambda xs: otherwise, look, xs)
