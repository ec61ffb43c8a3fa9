"""Example groups for `energy_model`: other values of the example's shapes, and the check that data
have these shapes.

A term of an energy may vanish at the values of the example (any term times y does where y = 0), so
the energy is evaluated at several groups. Some of these keep the sign of the data, some the unit
interval, some whole numbers: where the energy is not finite at one of them the others count."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vijax.checks import require
from vijax.contract.intake import Kind, found_kinds
from vijax.families.base import as_array
from vijax.tree import to_device

POSITIVE = (1, 2, 3, 4)
"""The places in the result of `values_like` at which every float is positive where the example's
are not negative."""


def values_like(example: PyTree) -> PyTree:
    """The example, and seven other groups of its shapes, stacked along a leading axis; always the
    same.

    Floats: times a factor and further from 0; in the unit interval; whole numbers 1 or 2 further
    from 0, and 2 or 1; of the opposite sign; +1 and -1 at random, and the other way round.
    Integers: 0 to 2 further from 0; +1 and -1.
    Booleans: all true; at random; the other way round.

    >>> values_like(jnp.zeros(3)).shape
    (8, 3)
    """
    rng = np.random.default_rng(1)
    return jax.tree.map(
        lambda leaf: np.stack(_values(np.asarray(leaf), rng)), jax.tree.map(to_device, example)
    )


def _values(x: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    away, coin = np.where(x < 0, -1, 1), rng.choice([-1, 1], x.shape)
    if np.issubdtype(x.dtype, np.bool_):
        yes = np.ones(x.shape, bool)
        others = [yes, yes, yes, yes, yes, coin > 0, coin < 0]
    elif np.issubdtype(x.dtype, np.integer):
        more = rng.integers(0, 3, x.shape)
        signs = [x, x] if np.issubdtype(x.dtype, np.unsignedinteger) else [coin, -coin]
        others = [x + away, x + away * more, x + away * (2 - more), x + 2 * away, x, *signs]
    elif np.issubdtype(x.dtype, np.floating):
        known, more = np.nan_to_num(x, posinf=0.0, neginf=0.0), rng.integers(1, 3, x.shape)
        real = known * rng.uniform(0.5, 1.5, x.shape) + away * rng.uniform(0.1, 0.6, x.shape)
        whole = [np.round(known) + away * k for k in (more, 3 - more)]
        others = [real, rng.uniform(0.05, 0.95, x.shape), *whole, -real, coin, -coin]
    else:
        others = [x] * 7
    return [np.asarray(value, x.dtype) for value in (x, *others)]


def array_kinds(example: PyTree, read: Any) -> list[Kind]:
    """The kind of each array of a group: booleans are a mask; integers are numbers, unless `read`,
    a function of a group, uses them as indices."""
    shown = array_shapes(jax.tree.map(as_array, example))
    found = found_kinds(shown, read)
    return [
        "mask" if x.dtype == bool else kind
        for kind, x in zip(found, jax.tree.leaves(shown), strict=True)
    ]


def array_shapes(group: PyTree) -> PyTree:
    """The arrays of a group as `jax.ShapeDtypeStruct`s."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), group)


def check_groups(
    example: PyTree, data: PyTree, evaluate: Any, locals_: Any, any_size: bool
) -> None:
    """Raises ValueError unless data have the structure of the example and, in front of its axes,
    one axis of groups.

    Sizes may differ from the example's, as the lengths of sequences do, where locals have the same
    sizes as the group, or with `any_size`; and the energy must accept them.

    `example` has the `jax.ShapeDtypeStruct`s of one group; `evaluate` is the energy of a group at
    any statistics."""
    known: Any = jax.tree.structure(example)
    remedy = (
        "Data are the arrays of one group, as in `example`, each with one axis of groups in front."
    )
    if jax.tree.structure(data) != known:
        raise ValueError(
            f"data: expected the structure of the example, {known}, got "
            f"{jax.tree.structure(data)}. {remedy}"
        )
    pairs = list(zip(jax.tree.leaves(example), jax.tree.leaves(data), strict=True))
    expected = f"groups of {_shape_text([x for x, _ in pairs])}"
    actual = f"{_shape_text([y for _, y in pairs])} in all"
    fits = (
        all(np.ndim(y) == len(x.shape) + 1 for x, y in pairs)
        and len({np.shape(y)[:1] for _, y in pairs}) == 1
    )
    require(fits, "data", expected, actual, remedy)
    real = all(
        jnp.issubdtype(x.dtype, jnp.complexfloating) or not jnp.iscomplexobj(y) for x, y in pairs
    )
    require(
        real,
        "data",
        "real numbers, as in the example",
        "complex numbers",
        "Give real and imaginary parts.",
    )
    if all(np.shape(y)[1:] == x.shape for x, y in pairs):
        return
    group = jax.tree.map(lambda x, y: jax.ShapeDtypeStruct(np.shape(y)[1:], x.dtype), example, data)
    changed = _changes(example, group)
    if not any_size and not changed <= _local_changes(locals_, example, group):
        sizes = ", ".join(f"{was} to {now}" for was, now in sorted(changed))
        require(
            False,
            "data",
            expected,
            f"{actual}: {sizes}",
            "Show energy_model an example of the shapes of a group; or say any_size=True, if "
            "groups of other sizes "
            "than the example's are meant.",
        )
    try:
        shape = jax.eval_shape(evaluate, group).shape
    except (TypeError, ValueError) as error:
        text = str(error).splitlines()[0]
        raise ValueError(
            f"data: expected {expected}, got {actual}, which the energy does not take: {text}"
        ) from error
    require(
        shape == (), "data", expected, actual, f"There the energy is of shape {shape}, no scalar."
    )


def _local_changes(locals_: Any, example: PyTree, group: PyTree) -> set[tuple[int, int]]:
    """Changes of size that the locals follow."""
    try:
        return _changes(*(jax.eval_shape(locals_, x) for x in (example, group)))
    except (TypeError, ValueError):  # the locals take no groups of these sizes
        return set()


def _changes(one: PyTree, other: PyTree) -> set[tuple[int, int]]:
    """Sizes of axes that differ, each with its new size."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=False)
    return {(m, n) for x, y in pairs for m, n in zip(x.shape, y.shape, strict=False) if m != n}


def check_finite(data: PyTree, is_finite: Any) -> None:
    """Raises ValueError at the first group that holds a NaN or an infinity and at which the energy
    is not finite; energies may take NaN for a missing entry."""
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
