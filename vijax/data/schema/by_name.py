"""Columns of tables by their names, in one way for pandas, polars, Arrow, mappings and structured
arrays."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vijax.checks import require
from vijax.data.schema.cells import column_name, column_names


def table_names(table: Any) -> tuple[str, ...] | None:
    """The names of the columns of a table, as text; None for an object without such names.

    >>> table_names({"a": [1.0], "b": [2.0]}), table_names(np.zeros(1, [("a", float)])), table_names(np.zeros((1, 2)))
    (('a', 'b'), ('a',), None)
    """
    if isinstance(table, Mapping):
        return tuple(map(column_name, table))
    fields = table.dtype.names if isinstance(table, np.ndarray) else column_names(table)
    if fields is None:
        return None
    return tuple(map(column_name, fields))


def matrix_names(table: Any) -> tuple[str, ...] | None:
    """The names by which the columns of a matrix can be distinguished, also names that are numbers;
    None if two are equal.

    >>> import pandas
    >>> matrix_names(pandas.DataFrame({"a": [1.0], "b": [2.0]})), matrix_names(pandas.DataFrame([[1.0, 2.0]]))
    (('a', 'b'), ('0', '1'))
    """
    names = table_names(table)
    if names is None or len(set(names)) != len(names):
        return None
    return names


def are_places(names: Sequence[str]) -> bool:
    """True for the names that pandas gives to columns without one: their places, 0, 1, ...

    >>> are_places(["0", "1"]), are_places(["1", "0"])
    (True, False)
    """
    return list(names) == [str(place) for place in range(len(names))]


def columns_by_name(table: Any, names: Sequence[str]) -> Any:
    """A table of the same kind with only these columns, in this order; each is one of
    `table_names(table)`.

    >>> columns_by_name({"b": 2, "c": 3, "a": 1}, ["a", "b"])
    {'a': 1, 'b': 2}
    """
    all_names = table_names(table) or ()
    places = [all_names.index(name) for name in names]
    if isinstance(table, np.ndarray):
        fields = table.dtype.names
        return table[[fields[place] for place in places]]
    if isinstance(table, Mapping):
        keys = list(table)
        return _rebuild_mapping(table, {keys[place]: table[keys[place]] for place in places})
    if hasattr(table, "iloc"):  # pandas: its names may be numbers
        return table.iloc[:, places]
    is_arrow = hasattr(table, "num_rows")
    return table.select(places) if is_arrow else table[:, places]


def order_columns(
    known: tuple[str, ...], table: Any, argument: str, whose: str, remedy: str
) -> Any:
    """A table with the columns `known`, in their order. An object without names is unchanged, and
    so is a table whose columns are only numbered, if `known` has other names.

    Args:
      known: the names.
      table: the table, which may have more columns.
      argument: its name in messages.
      whose: the owner of the names, in messages.
      remedy: the sentence that tells the remedy.

    Raises:
      ValueError: the table lacks a column, or has two of one name.

    >>> order_columns(("a", "b"), {"b": 2, "a": 1}, "data", "the fit", "")
    {'a': 1, 'b': 2}
    """
    names = table_names(table)
    if names is None or names == known:
        return table
    expected = f"the columns of {whose}, {_join_names(known)}"
    repeated = [name for name in known if names.count(name) > 1]
    require(not repeated, argument, expected, f"several named {_join_names(repeated)}", remedy)
    is_numbered = not isinstance(table, Mapping) and are_places(names)
    if is_numbered and not set(names) & set(known):
        return table
    lacking = [name for name in known if name not in names]
    require(not lacking, argument, expected, f"none named {_join_names(lacking)}", remedy)
    return columns_by_name(table, known)


def _rebuild_mapping(table: Mapping, columns: dict) -> Mapping:
    """A mapping like another, with these columns: JAX distinguishes an ordered dict from a dict."""
    if not isinstance(table, dict):
        return columns
    new_table = copy.copy(table)
    new_table.clear()
    new_table.update(columns)
    return new_table


def _join_names(names: Sequence[str], most: int = 10) -> str:
    rest_text = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest_text
