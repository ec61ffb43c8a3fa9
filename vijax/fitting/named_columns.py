"""Names of columns: a fit of a table in memory reads later tables by them, in whatever order they come."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import PyTree

from vijax.checks import require
from vijax.data.schema.cells import column_names

Names = tuple[tuple[str, ...] | None, ...]
"""The names of the columns of each leaf of the data; None where it has none."""


def names_of(data: PyTree) -> Names | None:
    """The names of columns in the data of a fit; None where no part of them is a table with names.

    >>> import pandas, numpy
    >>> names_of(pandas.DataFrame({"a": [1.0], "b": [2.0]})), names_of(numpy.zeros((1, 2)))
    ((('a', 'b'),), None)
    """
    if isinstance(data, list):  # of texts, perhaps millions
        return None
    names = tuple(map(_names, jax.tree.leaves(data)))
    return names if any(own is not None for own in names) else None


def in_order_of(known: Names | None, data: PyTree, argument: str = "data") -> PyTree:
    """Data whose tables have their columns in the order of the fit; arrays without names are taken as they come.

    Raises:
      ValueError: a table that lacks a column of the fit.
    """
    leaves, structure = jax.tree.flatten(data)
    if known is None or len(leaves) != len(known):
        return data
    placed = [_placed(names, leaf, argument) for names, leaf in zip(known, leaves, strict=True)]
    return jax.tree.unflatten(structure, placed)


def _names(leaf: Any) -> tuple[str, ...] | None:
    """The names of a table's columns; None where they are numbers by place, or not distinct."""
    names = column_names(leaf)
    if names is None or len(set(names)) != len(names):
        return None
    is_by_place = names == [str(place) for place in range(len(names))]
    return None if is_by_place else tuple(names)


def _placed(known: tuple[str, ...] | None, leaf: Any, argument: str) -> Any:
    names = _names(leaf)
    if known is None or names is None or names == known:
        return leaf
    lacking = [name for name in known if name not in names]
    expected = f"the columns of the fit, {', '.join(known)}"
    remedy = "Give the table with the columns of training, in any order; or an array, whose columns are taken by place."
    require(not lacking, argument, expected, f"none named {', '.join(lacking)}", remedy)
    return leaf[list(known)]
