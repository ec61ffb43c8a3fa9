"""Names of columns: a fit of a table reads later tables by them, in whatever order they come."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import PyTree

from vijax.data.schema.by_name import in_order, matrix_names

Names = tuple[tuple[str, ...] | None, ...]
"""The names of the columns of each leaf of the data; None where it has none."""


def names_of(data: PyTree, loader: Any = None) -> Names | None:
    """The names of columns in the data of a fit; None where no part of them is a table with names.

    Args:
      data: the data.
      loader: their loader, which knows the names where the data are read batch by batch.

    >>> import pandas, numpy
    >>> names_of(pandas.DataFrame({"a": [1.0], "b": [2.0]})), names_of(numpy.zeros((1, 2)))
    ((('a', 'b'),), None)
    """
    names = getattr(loader, "leaf_columns", None)
    if names is None:
        is_texts = isinstance(data, list)  # perhaps millions
        names = () if is_texts else tuple(map(matrix_names, jax.tree.leaves(data)))
    return names if any(own is not None for own in names) else None


def in_order_of(known: Names | None, data: PyTree, argument: str = "data") -> PyTree:
    """Data whose tables have their columns in the order of the fit; arrays without names are taken as they come.

    Raises:
      ValueError: a table that lacks a column of the fit, or has two of one name.
    """
    leaves, structure = jax.tree.flatten(data)
    if known is None or len(leaves) != len(known):
        return data
    placed = [_placed(names, leaf, argument) for names, leaf in zip(known, leaves, strict=True)]
    return jax.tree.unflatten(structure, placed)


REMEDY = "Give the table with the columns of training, in any order; or an array, whose columns are taken by place."


def _placed(known: tuple[str, ...] | None, leaf: Any, argument: str) -> Any:
    return leaf if known is None else in_order(known, leaf, argument, "the fit", REMEDY)
