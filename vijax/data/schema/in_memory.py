"""Tables in memory as plain columns, numbers or text, for the readers of tables, series and
ratings."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from vijax.data.reading.checks import DataError, fail, listed
from vijax.data.schema.cells import are_records, columns_of_records, is_library_table
from vijax.data.schema.typed_columns import TypedColumn, typed_table
from vijax.data.tables.columns import Columns, NamedColumns, parse_column

EXPECTED = (
    "a table of pandas, Arrow or polars, a mapping of columns by name, a list of dicts, or a "
    "matrix (rows, columns)"
)


def memory_columns(
    source: Any, names: Sequence[str] = (), exact: Container[str] = ()
) -> NamedColumns:
    """Every column of a table in memory by name; True and False are 1 and 0.

    Args:
      source: a table of pandas, Arrow or polars, a mapping of columns, a structured array, a list
        of dicts, or a matrix.
      names: names of the columns of a matrix.
      exact: columns with names, say of groups, whose text is unchanged: 007 is not 7.

    Raises:
      DataError: another object; columns of different lengths or of one name; cells other than
        numbers, text, dates and categories.

    >>> memory_columns([[1.0, 2.0], [3.0, 4.0]], ["a", "b"])["b"].tolist()
    [2.0, 4.0]
    >>> memory_columns({"g": ["007", "7"]}, exact=["g"])["g"].tolist()
    ['007', '7']
    """
    dtype = getattr(source, "dtype", None)
    has_names = isinstance(source, Mapping) or bool(getattr(dtype, "names", None))
    if are_records(source):
        source = columns_of_records(source)
        has_names = True
    if not is_library_table(source) and not has_names:
        source = _columns_of_matrix(source, names)
    elif is_library_table(source) and getattr(source, "columns", None) is None:
        actual = f"a single {type(source).__name__}"
        raise fail("data", EXPECTED, actual, "give the table, not one column of it")
    try:
        table = typed_table(source)
    except ValueError as error:
        raise DataError(_about_data(str(error))) from error
    if table.repeated:
        actual = f"several {listed(table.repeated)}"
        raise fail("data", "columns of distinct names", actual, "rename them")
    if not table.columns:
        raise fail("data", "one column or more", "none", "give the table with its columns")
    return NamedColumns(
        {name: plain_column(column, name in exact) for name, column in table.columns.items()},
        table.row_names,
    )


def _about_data(message: str) -> str:
    """A message about a table, as one about the data."""
    if message.startswith("table["):
        return message.replace("table[", "data[")
    return f"data: {message.removeprefix('table: ')}"


def plain_column(column: TypedColumn, exact: bool = False) -> np.ndarray:
    """Numbers with NaN for missing ones, or text with "" for missing ones.

    Whole numbers stay whole, so that ids of many digits stay distinct. Text of numbers is read as
    numbers unless the column is `exact`."""
    if column.values.dtype.kind in "iu":
        return column.values
    if column.values.dtype.kind in "fb":
        return column.values.astype(float)
    if not exact and column.kind in ("number", "truth"):
        return column.numbers()
    texts = column.labels().texts()
    return texts if exact else parse_column(texts.tolist())


def _columns_of_matrix(source: Any, names: Sequence[str]) -> Columns:
    array = np.asarray(source)
    if array.ndim != 2 or array.dtype.kind not in "iufbO":
        actual = type(source).__name__
        if array.ndim:
            actual = f"{actual} of shape {array.shape}"
        raise fail("data", EXPECTED, actual, "convert it to one of these")
    if array.shape[1] != len(names):
        expected = f"a matrix of {len(names)} columns"
        raise fail("data", expected, f"{array.shape[1]}", "give the columns of the run")
    cells = source if isinstance(source, np.ma.MaskedArray) else array
    return dict(zip(names, [cells[:, place] for place in range(len(names))], strict=True))
