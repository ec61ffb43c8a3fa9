"""Tables in memory as columns by name: a pandas, Arrow or polars table, a mapping of columns, a matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vijax.data.corpora.objects import TABLES, column_values
from vijax.data.reading.checks import fail
from vijax.data.tables.columns import column_of
from vijax.data.tables.table import Columns

EXPECTED = "a table of pandas, Arrow or polars, a mapping of columns by name, or a matrix (rows, columns)"


def columns_of(source: Any, names: Sequence[str] = ()) -> Columns:
    """Every column of a table in memory by name.

    Args:
      source: a table of pandas, Arrow or polars; a mapping of vectors of one length; or a matrix.
      names: what the columns of a matrix are called.

    Raises:
      DataError: it is none of these; a matrix of another width; columns that are not of one length.

    >>> columns_of([[1.0, 2.0], [3.0, 4.0]], ["a", "b"])["b"].tolist()
    [2.0, 4.0]
    """
    if type(source).__module__.partition(".")[0] in TABLES:
        found = getattr(source, "column_names", None) or getattr(source, "columns", None)
        if found is None:
            raise fail("data", EXPECTED, f"a single {type(source).__name__}", "give the table, not one column of it")
        columns: Columns = {str(name): _column(column_values(source[name])) for name in found}
    elif isinstance(source, Mapping):
        columns = {str(name): _column(values) for name, values in source.items()}
    else:
        columns = _of_matrix(source, names)
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise fail("data", "columns of one length", f"lengths {sorted(lengths)}", "give every column as many rows")
    return columns


def _column(values: Any) -> np.ndarray:
    """Numbers as they are, True and False as 1 and 0; anything else as the text it is."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise fail("data", "columns that are vectors", f"one of shape {array.shape}", "give a matrix as a whole")
    if array.dtype.kind in "iufb":
        return array.astype(float) if array.dtype.kind in "fb" else array
    return column_of(["" if value is None or value != value else str(value) for value in array.tolist()])


def _of_matrix(source: Any, names: Sequence[str]) -> Columns:
    array = np.asarray(source)
    if array.ndim != 2 or array.dtype.kind not in "iufb":
        got = f"{type(source).__name__} of shape {array.shape}" if array.ndim else type(source).__name__
        raise fail("data", EXPECTED, got, "convert it to one of these")
    if array.shape[1] != len(names):
        raise fail("data", f"a matrix of {len(names)} columns", f"{array.shape[1]}", "give the columns of the run")
    return dict(zip(names, array.astype(float).T, strict=True))
