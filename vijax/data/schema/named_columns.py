"""Names of columns: a fit of a table reads later tables by them, in whatever order they come."""

from __future__ import annotations

import warnings
from typing import Any

import jax
from jaxtyping import PyTree

from vijax.data.schema.by_name import matrix_names, order_columns, table_names
from vijax.data.schema.same_rows import require_one_index

Names = tuple[tuple[str, ...] | None, ...]
"""The names of the columns of each leaf of the data; None where it has none."""
MOST_SAID = 5
"""Columns that a message names."""


def find_names(data: PyTree, loader: Any = None) -> Names | None:
    """The names of columns in the data of a fit; None where no part of them is a table with names.

    Args:
      data: the data.
      loader: their loader, which knows the names where the data are read batch by batch.

    Raises:
      ValueError: a table with two columns of one name.

    >>> import pandas, numpy
    >>> find_names(pandas.DataFrame({"a": [1.0], "b": [2.0]})), find_names(numpy.zeros((1, 2)))
    ((('a', 'b'),), None)
    """
    names = getattr(loader, "leaf_columns", None)
    if names is None:
        leaves = (
            () if isinstance(data, list) else jax.tree.leaves(data)
        )  # texts are perhaps millions
        for leaf in leaves:
            _check_distinct(leaf)
        names = tuple(map(matrix_names, leaves))
    return names if any(own is not None for own in names) else None


def _check_distinct(table: Any) -> None:
    """Raises ValueError where two columns have one name: a later table in another order could not
    be read."""
    names = table_names(table) or ()
    if len(set(names)) == len(names):
        return
    repeated = next(name for name in names if names.count(name) > 1)
    raise ValueError(
        f"data: expected columns of distinct names, got {names.count(repeated)} of {repeated!r}. "
        "Rename them, or pass "
        "an array of the values, whose columns are taken by place."
    )


def order_by_names(known: Names | None, data: PyTree, argument: str = "data") -> PyTree:
    """Data whose tables have their columns in the order of the fit; arrays without names are taken
    as they come. A column that the fit does not have is left out, with a warning.

    Raises:
      ValueError: a table that lacks a column of the fit, or has two of one name; rows of several
        tables or series of pandas in several orders.
    """
    check_rows(data, argument)
    if known is None or isinstance(data, list):
        return data
    leaves, structure = jax.tree.flatten(data)
    if len(leaves) != len(known):  # a table alone, where the fit had responses beside it
        known = _names_for_tables(known, len(leaves))
    placed = [_order_leaf(names, leaf, argument) for names, leaf in zip(known, leaves, strict=True)]
    return jax.tree.unflatten(structure, placed)


def check_rows(data: PyTree, argument: str = "data") -> None:
    """Raises ValueError where tables or series of pandas in the data have rows of other labels, or
    in another order."""
    if isinstance(data, list):
        return
    leaves = jax.tree_util.tree_leaves_with_path(data)
    require_one_index({f"{argument}{jax.tree_util.keystr(path)}": leaf for path, leaf in leaves})


def _names_for_tables(known: Names, number: int) -> Names:
    """The names of the one table of a fit, for each of a number of tables; none where it had
    several."""
    tables = {names for names in known if names is not None}
    return (tables.pop() if len(tables) == 1 else None,) * number


REMEDY = (
    "Give the table with the columns of training, in any order; or an array, whose columns are "
    "taken by place."
)


def _order_leaf(known: tuple[str, ...] | None, leaf: Any, argument: str) -> Any:
    if known is None:
        return leaf
    placed = order_columns(known, leaf, argument, "the fit", REMEDY)
    if placed is not leaf:
        _warn_of_extra_columns(
            [name for name in table_names(leaf) or () if name not in known], argument
        )
    return placed


def _warn_of_extra_columns(more: list[str], argument: str) -> None:
    if not more:
        return
    rest = f" and {len(more) - MOST_SAID} more" if len(more) > MOST_SAID else ""
    warnings.warn(
        f"{argument}: {', '.join(more[:MOST_SAID])}{rest}: no such column was in the table of the "
        "fit, and none of "
        "them is read.",
        UserWarning,
        stacklevel=5,
    )
