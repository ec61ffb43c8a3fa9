"""Checks of data without a model: arrays of numbers, of one common length, finite."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree


def check_numbers(data: PyTree) -> None:
    """Raises ValueError unless every leaf is an array of numbers with rows; their lengths may
    differ."""
    leaves = list(_leaves_with_names(data))
    if not leaves:
        raise ValueError(
            f"data: expected an array of numbers, got {type(data).__name__} without any."
        )
    for name, x in leaves:
        kind = np.asarray(x).dtype
        if kind.kind not in "biufcV":  # V: types of JAX's own, such as bfloat16
            first = np.ravel(np.asarray(x))[0]
            remedy = "Code categories as integers: numpy.unique(x, return_inverse=True)[1]."
            if hasattr(x, "toarray"):
                remedy = f"Pass {name}.toarray()."
            elif hasattr(x, "collect"):
                remedy = f"Pass {name}.collect()."
            if isinstance(first, numbers.Number):  # such as Decimal, in an array of objects
                remedy = f"Pass numpy.asarray({name}, float)."
            raise ValueError(
                f"{name}: expected an array of numbers, got {kind} values such as {first!r}. "
                f"{remedy}"
            )
        if np.ndim(x) == 0:
            raise ValueError(f"data: expected arrays, got {_scalars_text(data)}")
        if np.shape(x)[0] == 0:
            raise ValueError(
                f"{name}: expected at least one row, got an array of shape {np.shape(x)}."
            )


def _scalars_text(data: PyTree) -> str:
    """A sentence on data that hold single numbers where arrays are expected, and what to do."""
    if isinstance(data, list | tuple):
        return "a list of numbers. Pass numpy.asarray(data)."
    lists = isinstance(data, Mapping) and [
        name for name, part in data.items() if isinstance(part, list | tuple)
    ]
    if lists:
        remedy = "Pass {name: numpy.asarray(values) for name, values in data.items()}."
        return f"a list of numbers in {lists[0]!r}. {remedy}"
    return "a single number. Pass numpy.asarray(data)."


def check_lengths(data: PyTree) -> int:
    """The common length of the leaves. ValueError if their lengths differ."""
    lengths = {name: int(np.shape(x)[0]) for name, x in _leaves_with_names(data)}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} of {length}" for name, length in lengths.items())
        raise ValueError(f"data: expected arrays of one common length, got {sizes} rows.")
    return next(iter(lengths.values()))


def check_arrays(data: PyTree) -> None:
    """Raises ValueError unless every leaf is an array of numbers, of one common length."""
    check_numbers(data)
    check_lengths(data)


def check_finite(data: PyTree) -> None:
    """Raises ValueError at the first number that is not finite, with its array, row and column."""
    for name, x in _leaves_with_names(data):
        x = np.asarray(x)
        if x.dtype.kind not in "fc" or np.isfinite(x).all():
            continue
        bad = np.argwhere(~np.isfinite(x))
        row, *columns = map(int, bad[0])
        place = f"row {row}"
        if columns:
            place += f", column {columns[0] if len(columns) == 1 else tuple(columns)}"
        raise ValueError(
            f"{name}: expected finite numbers, got {x[tuple(bad[0])]} in {place}, counted from 0 "
            f"({len(bad)} such values). Remove those rows, or fill in the values."
        )


def _leaves_with_names(data: PyTree) -> Iterator[tuple[str, Any]]:
    """Leaves with their names: data, data[0], data['y']."""
    for path, x in jax.tree_util.tree_leaves_with_path(data):
        yield f"data{jax.tree_util.keystr(path)}", x
