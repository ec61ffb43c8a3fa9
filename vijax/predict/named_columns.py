"""Names of columns: a fit of a table in memory reads later tables by them, in whatever order they come."""

from __future__ import annotations

import warnings
from typing import Any

import jax
from jaxtyping import PyTree

from vijax.checks import require
from vijax.data.schema.cells import column_names

Names = tuple[tuple[str, ...] | None, ...]
"""The names of the columns of each leaf of the data; None where it has none."""
MOST_SAID = 5
"""Columns that a message names."""


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
    """Data whose tables have their columns in the order of the fit; arrays without names are taken as they come. A
    column that the fit does not have is left out, with a warning.

    Raises:
      ValueError: a table that lacks a column of the fit.
    """
    if known is None or isinstance(data, list):
        return data
    leaves, structure = jax.tree.flatten(data)
    if len(leaves) != len(known):  # a table alone, where the fit had responses beside it
        known = _of_tables_alone(known, len(leaves))
    placed = [_placed(names, leaf, argument) for names, leaf in zip(known, leaves, strict=True)]
    return jax.tree.unflatten(structure, placed)


def _of_tables_alone(known: Names, number: int) -> Names:
    """The names of the one table of a fit, for each of a number of tables; none where it had several."""
    tables = {names for names in known if names is not None}
    return (tables.pop() if len(tables) == 1 else None,) * number


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
    _say_what_is_left([name for name in names if name not in known], argument)
    return _chosen(leaf, names, known)


def _chosen(leaf: Any, names: tuple[str, ...], known: tuple[str, ...]) -> Any:
    """These columns of a table, by their places: the labels of pandas need not be texts."""
    places = [names.index(name) for name in known]
    if hasattr(leaf, "iloc"):
        return leaf.iloc[:, places]
    return leaf.select(list(known))


def _say_what_is_left(more: list[str], argument: str) -> None:
    if not more:
        return
    rest = f" and {len(more) - MOST_SAID} more" if len(more) > MOST_SAID else ""
    warnings.warn(
        f"{argument}: {', '.join(more[:MOST_SAID])}{rest}: no such column was in the table of the fit, and none of "
        "them is read.",
        UserWarning,
        stacklevel=5,
    )
