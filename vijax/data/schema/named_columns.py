"""Names of columns: a fit of a table reads later tables by them, whatever their order of
columns."""

from __future__ import annotations

import warnings
from typing import Any

import jax
from jaxtyping import PyTree

from vijax.data.schema.by_name import matrix_names, order_columns, table_names
from vijax.data.schema.same_rows import require_one_index

Names = tuple[tuple[str, ...] | None, ...]
"""The column names of each leaf of the data; None for a leaf without."""
MOST_SAID = 5
"""The most columns that a message names."""


def find_names(data: PyTree, loader: Any = None) -> Names | None:
    """The column names in the data of a fit; None if no part of the data is a table with names.

    Args:
      data: the data.
      loader: their loader, which knows the names if the data are read batch by batch.

    Raises:
      ValueError: a table with two columns of one name.

    >>> import pandas, numpy
    >>> find_names(pandas.DataFrame({"a": [1.0], "b": [2.0]})), find_names(numpy.zeros((1, 2)))
    ((('a', 'b'),), None)
    """
    names = getattr(loader, "leaf_columns", None)
    if names is None:
        # A list holds texts, perhaps millions.
        leaves = () if isinstance(data, list) else jax.tree.leaves(data)
        for leaf in leaves:
            _check_distinct(leaf)
        names = tuple(map(matrix_names, leaves))
    if not any(leaf_names is not None for leaf_names in names):
        return None
    return names


def _check_distinct(table: Any) -> None:
    """Raises ValueError if two columns have one name: a later table in another order could not be
    read."""
    names = table_names(table) or ()
    if len(set(names)) == len(names):
        return
    repeated = next(name for name in names if names.count(name) > 1)
    raise ValueError(
        f"data: expected columns of distinct names, got {names.count(repeated)} of {repeated!r}. "
        "Rename them, or pass an array of the values, whose columns are taken by place."
    )


def order_by_names(known: Names | None, data: PyTree, argument: str = "data") -> PyTree:
    """Data whose tables have their columns in the order of the fit; arrays without names are
    unchanged. A column that the fit does not have is left out, with a warning.

    Raises:
      ValueError: a table lacks a column of the fit, or has two of one name; or the rows of several
        tables or series of pandas are in different orders.
    """
    check_rows(data, argument)
    if known is None or isinstance(data, list):
        return data
    leaves, structure = jax.tree.flatten(data)
    if len(leaves) != len(known):  # a table alone, and the fit had responses beside it
        known = _names_for_tables(known, len(leaves))
    pairs = zip(known, leaves, strict=True)
    ordered = [_order_leaf(names, leaf, argument) for names, leaf in pairs]
    return jax.tree.unflatten(structure, ordered)


def check_rows(data: PyTree, argument: str = "data") -> None:
    """Raises ValueError if tables or series of pandas in the data have other row labels, or in
    another order."""
    if isinstance(data, list):
        return
    leaves = jax.tree_util.tree_leaves_with_path(data)
    require_one_index({f"{argument}{jax.tree_util.keystr(path)}": leaf for path, leaf in leaves})


def _names_for_tables(known: Names, number: int) -> Names:
    """The names of the one table of a fit, for each of `number` tables; None if it had several."""
    tables = {names for names in known if names is not None}
    names = tables.pop() if len(tables) == 1 else None
    return (names,) * number


REMEDY = (
    "Give the table with the columns of training, in any order; or an array, whose columns are "
    "taken by place."
)


def _order_leaf(known: tuple[str, ...] | None, leaf: Any, argument: str) -> Any:
    if known is None:
        return leaf
    ordered = order_columns(known, leaf, argument, "the fit", REMEDY)
    if ordered is not leaf:
        extra = [name for name in table_names(leaf) or () if name not in known]
        _warn_of_extra_columns(extra, argument)
    return ordered


def _warn_of_extra_columns(extra: list[str], argument: str) -> None:
    if not extra:
        return
    names = ", ".join(extra[:MOST_SAID])
    if len(extra) > MOST_SAID:
        names = f"{names} and {len(extra) - MOST_SAID} more"
    warnings.warn(
        f"{argument}: {names}: no such column was in the table of the fit, and none of them is "
        "read.",
        UserWarning,
        stacklevel=5,
    )
