"""Example groups for `energy_model`: other values in the shapes of the example, and the check that
data have these shapes.

A term of an energy may vanish at the values of the example (any term times y does at y = 0), so the
energy is evaluated at several groups. Some of them keep the sign of the data, some the unit
interval, some whole numbers: if the energy is not finite at one of them, the others count."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vijax.checks import require
from vijax.contract.intake import Kind, trace_kinds
from vijax.families.base import as_array
from vijax.tree import to_device

POSITIVE = (1, 2, 3, 4)
"""Indices of the groups of `values_like` whose floats are positive if the example has no negative
ones."""


def values_like(example: PyTree) -> PyTree:
    """The example and seven other groups of its shapes, stacked along a leading axis. The result is
    deterministic.

    Floats: times a factor and further from 0; in the unit interval; whole numbers 1 or 2 further
    from 0, and 2 or 1; of the opposite sign; +1 and -1 at random, and their negatives.
    Integers: 0 to 2 further from 0; +1 and -1.
    Booleans: all true; at random; the negation.

    >>> values_like(jnp.zeros(3)).shape
    (8, 3)
    """
    rng = np.random.default_rng(1)
    stack = lambda leaf: np.stack(_values(np.asarray(leaf), rng))
    return jax.tree.map(stack, jax.tree.map(to_device, example))


def _values(x: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    direction, coin = np.where(x < 0, -1, 1), rng.choice([-1, 1], x.shape)
    if np.issubdtype(x.dtype, np.bool_):
        yes = np.ones(x.shape, bool)
        values = [yes, yes, yes, yes, yes, coin > 0, coin < 0]
    elif np.issubdtype(x.dtype, np.integer):
        offset = rng.integers(0, 3, x.shape)
        signs = [x, x] if np.issubdtype(x.dtype, np.unsignedinteger) else [coin, -coin]
        values = [
            x + direction,
            x + direction * offset,
            x + direction * (2 - offset),
            x + 2 * direction,
            x,
            *signs,
        ]
    elif np.issubdtype(x.dtype, np.floating):
        finite, offset = np.nan_to_num(x, posinf=0.0, neginf=0.0), rng.integers(1, 3, x.shape)
        real = finite * rng.uniform(0.5, 1.5, x.shape) + direction * rng.uniform(0.1, 0.6, x.shape)
        integers = [np.round(finite) + direction * k for k in (offset, 3 - offset)]
        values = [real, rng.uniform(0.05, 0.95, x.shape), *integers, -real, coin, -coin]
    else:
        values = [x] * 7
    return [np.asarray(value, x.dtype) for value in (x, *values)]


def array_kinds(example: PyTree, read: Any) -> list[Kind]:
    """The kind of each array of a group. Booleans are masks; integers are numbers, unless `read`, a
    function of a group, uses them as indices."""
    arrays = array_shapes(jax.tree.map(as_array, example))
    kinds = trace_kinds(arrays, read)
    return [
        "mask" if x.dtype == bool else kind
        for kind, x in zip(kinds, jax.tree.leaves(arrays), strict=True)
    ]


def array_shapes(group: PyTree) -> PyTree:
    """The arrays of a group as `jax.ShapeDtypeStruct`s."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), group)


def check_groups(
    example: PyTree, data: PyTree, evaluate: Any, locals_: Any, any_size: bool
) -> None:
    """Raises ValueError unless data have the structure of the example and an axis of groups in
    front of its axes.

    Sizes may differ from those of the example, as the lengths of sequences do, if locals have the
    same sizes as the group, or with `any_size`; the energy must accept them.

    `example` has the `jax.ShapeDtypeStruct`s of one group; `evaluate` is the energy of a group at
    arbitrary statistics."""
    structure: Any = jax.tree.structure(example)
    remedy = (
        "Data are the arrays of one group, as in `example`, each with one axis of groups in front."
    )
    if jax.tree.structure(data) != structure:
        raise ValueError(
            f"data: expected the structure of the example, {structure}, got "
            f"{jax.tree.structure(data)}. {remedy}"
        )
    pairs = list(zip(jax.tree.leaves(example), jax.tree.leaves(data), strict=True))
    expected = f"groups of {_shape_text([x for x, _ in pairs])}"
    actual = f"{_shape_text([y for _, y in pairs])} in all"
    has_axes = all(np.ndim(y) == len(x.shape) + 1 for x, y in pairs)
    fits = has_axes and len({np.shape(y)[:1] for _, y in pairs}) == 1
    require(fits, "data", expected, actual, remedy)
    _check_real(pairs)
    if all(np.shape(y)[1:] == x.shape for x, y in pairs):
        return
    group = jax.tree.map(lambda x, y: jax.ShapeDtypeStruct(np.shape(y)[1:], x.dtype), example, data)
    _check_sizes(example, group, evaluate, locals_, any_size, expected, actual)


def _check_real(pairs: list[tuple[Any, Any]]) -> None:
    """Raises ValueError for complex data where the example is real."""
    is_real = all(
        jnp.issubdtype(x.dtype, jnp.complexfloating) or not jnp.iscomplexobj(y) for x, y in pairs
    )
    expected = "real numbers, as in the example"
    require(is_real, "data", expected, "complex numbers", "Give real and imaginary parts.")


def _check_sizes(
    example: PyTree,
    group: PyTree,
    evaluate: Any,
    locals_: Any,
    any_size: bool,
    expected: str,
    actual: str,
) -> None:
    """Raises ValueError for a group of other sizes than the example that is not allowed, or that
    the energy does not accept."""
    changes = _changes(example, group)
    if not any_size and not changes <= _local_changes(locals_, example, group):
        sizes = ", ".join(f"{was} to {now}" for was, now in sorted(changes))
        remedy = (
            "Show energy_model an example of the shapes of a group; or say "
            "structure=vijax.Structure(any_size=True), if groups of other sizes than the example's are meant."
        )
        require(False, "data", expected, f"{actual}: {sizes}", remedy)
    try:
        shape = jax.eval_shape(evaluate, group).shape
    except (TypeError, ValueError) as error:
        text = str(error).splitlines()[0]
        raise ValueError(
            f"data: expected {expected}, got {actual}, which the energy does not take: {text}"
        ) from error
    remedy = f"There the energy is of shape {shape}, no scalar."
    require(shape == (), "data", expected, actual, remedy)


def _local_changes(locals_: Any, example: PyTree, group: PyTree) -> set[tuple[int, int]]:
    """Changes of size that locals make with the group."""
    try:
        return _changes(*(jax.eval_shape(locals_, x) for x in (example, group)))
    except (TypeError, ValueError):  # the function of locals refuses groups of these sizes
        return set()


def _changes(old: PyTree, new: PyTree) -> set[tuple[int, int]]:
    """(old size, new size) of the axes whose sizes differ."""
    pairs = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=False)
    return {(m, n) for x, y in pairs for m, n in zip(x.shape, y.shape, strict=False) if m != n}


def check_finite(data: PyTree, is_finite: Any) -> None:
    """Raises ValueError for the first group with a NaN or an infinity at which the energy is not
    finite; an energy may read NaN as a missing entry."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        values = np.asarray(leaf)
        if not np.issubdtype(values.dtype, np.floating) or np.isfinite(values).all():
            continue
        first = np.argwhere(~np.isfinite(values))[0]
        if not is_finite(jax.tree.map(lambda x: jnp.asarray(x[first[0]]), data)):  # noqa: B023
            column = f", column {', '.join(map(str, first[1:]))}" if len(first) > 1 else ""
            name = jax.tree_util.keystr(path)
            raise ValueError(
                f"data{name}: expected numbers at which the energy is finite, got "
                f"{values[tuple(first)]} in row "
                f"{first[0]}{column}, counted from 0. Remove or impute it, or have the energy "
                "leave it out."
            )


def _shape_text(leaves: list[Any]) -> str:
    return ("shape " if len(leaves) == 1 else "shapes ") + " and ".join(
        str(np.shape(leaf)) for leaf in leaves
    )
