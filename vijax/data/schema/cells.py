"""Columns of objects in memory: their names, and their cells as an array without any cast."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vijax.checks import require


def is_library_table(source: Any) -> bool:
    """True for a table or column of pandas, Arrow or polars."""
    return type(source).__module__.partition(".")[0] in ("pandas", "pyarrow", "polars")


def column_name(name: object) -> str:
    """The name of a column as text, in Unicode's composed form (NFC): names that read alike are
    equal.

    >>> column_name("e\u0301") == "\u00e9", column_name(2)
    (True, '2')
    """
    return unicodedata.normalize("NFC", str(name))


def column_names(table: Any) -> list[str] | None:
    """The column names of a pandas, Arrow or polars table; None for a single column, or another
    object."""
    if not is_library_table(table):
        return None
    names = getattr(table, "column_names", None)
    if not isinstance(names, list):  # in pandas a column may have this name
        names = getattr(table, "columns", None)
    if names is None:
        return None
    return [column_name(name) for name in names]


def column_values(column: Any) -> list:
    """The values of a pandas, Arrow or polars column, as a list."""
    read = getattr(column, "to_pylist", None) or getattr(column, "to_list", None) or column.tolist
    return read()


def are_records(table: Any) -> bool:
    """True for a list of dicts, whose keys are the names of columns."""
    is_list = isinstance(table, list | tuple) or (
        isinstance(table, np.ndarray) and table.dtype == object
    )
    return is_list and len(table) > 0 and all(isinstance(row, Mapping) for row in table)


def columns_of_records(rows: Sequence[Mapping[Any, Any]]) -> dict[Any, list[Any]]:
    """The columns of rows that are dicts; None for a value that a row lacks.

    >>> columns_of_records([{"a": 1}, {"a": 2, "b": "x"}])
    {'a': [1, 2], 'b': [None, 'x']}
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


RowName = Callable[[int], str]
"""From the number of a row, counted from 0, to its name in the middle of a message."""


def array_of_cells(values: Any, column: str, row_name: RowName | None = None) -> np.ndarray:
    """The cells of a column as an array: of objects, so that no value is cast, if their types
    differ or some are missing; ValueError, with the name of the column, for a cell with several
    values."""
    if hasattr(values, "to_pylist"):  # pyarrow
        return array_of_list(values.to_pylist(), column, row_name)
    if type(values).__module__.partition(".")[0] == "polars":
        return array_of_list(values.to_list(), column, row_name)
    if isinstance(values, np.ma.MaskedArray):  # a masked cell is missing
        return array_of_list(values.tolist(), column, row_name)
    dtype = getattr(values, "dtype", None)
    if isinstance(values, np.ndarray) or isinstance(dtype, np.dtype):
        array = np.asarray(values)
        if array.dtype == object and array.ndim == 1:  # it may hold lists
            return array_of_list(list(array), column, row_name)
        return array
    # pandas' own types: nullable, categories, Arrow's, zones
    if dtype is not None and hasattr(values, "tolist"):
        return array_of_list(values.tolist(), column, row_name)
    return array_of_list(list(values), column, row_name)


def array_of_list(cells: list[Any], column: str, row_name: RowName | None = None) -> np.ndarray:
    """A list as an array of numbers if all its cells are Python's numbers or None, else of
    objects."""
    kinds = {type(cell) for cell in cells}
    if kinds and kinds <= {int, float, type(None)} and kinds & {int, float}:
        as_floats = kinds != {int} or max(map(abs, cells)) > 2**62
        if not as_floats:
            return np.array(cells, np.int64)
        integers = [cell for cell in cells if isinstance(cell, int)]
        if all(abs(cell) < 2**53 for cell in integers):
            return np.array([np.nan if cell is None else cell for cell in cells], float)
    if kinds == {bool}:
        return np.array(cells, bool)
    array = np.empty(len(cells), object)
    for row, cell in enumerate(cells):
        if isinstance(cell, list | dict | set | np.ndarray):
            place = f"row {row}, counted from 0," if row_name is None else row_name(row)
            expected = "columns that are vectors of numbers, text, dates or categories"
            actual = f"a {type(cell).__name__} in {place} of {column!r}"
            require(False, "table", expected, actual)
        if isinstance(cell, np.generic) and cell.dtype.kind in "USO":
            cell = cell.item()
        array[row] = cell
    return array


def declared_categories(values: Any) -> tuple[Any, ...] | None:
    """The categories that a column of pandas, polars or pyarrow declares, in their order."""
    if getattr(getattr(values, "type", None), "ordered", False):  # pyarrow
        chunks = values.unify_dictionaries() if hasattr(values, "unify_dictionaries") else values
        first = chunks.chunk(0) if hasattr(chunks, "chunk") else chunks
        return tuple(first.dictionary.to_pylist())
    dtype: Any = getattr(values, "dtype", None)
    if type(dtype).__name__ in ("CategoricalDtype", "Enum"):  # of pandas and of polars
        return tuple(dtype.categories)
    return None


def has_order(values: Any) -> bool:
    """True if a column of pandas, polars or pyarrow declares that its categories have an order.

    >>> has_order(["low", "high"])
    False
    """
    if getattr(getattr(values, "type", None), "ordered", False):  # pyarrow
        return True
    dtype: Any = getattr(values, "dtype", None)
    return type(dtype).__name__ == "Enum" or bool(getattr(dtype, "ordered", False))
