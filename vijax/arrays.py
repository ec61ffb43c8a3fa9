"""Arrays as users have them: cells that are masked, and columns of times, which are no numbers.

NumPy takes both in silence: `numpy.asarray` of a masked array has the hidden values, and that of a
table of polars has dates as counts of days. Every door by which arrays come in passes here."""

from __future__ import annotations

from typing import Any

import numpy as np

TIMES = {
    "dates": (
        "Make them numbers yourself, in a unit that later rows have too: (dates - start) / "
        "numpy.timedelta64(1, 'D')."
    ),
    "durations": (
        "Make them numbers yourself, in a unit that later rows have too: durations / "
        "numpy.timedelta64(1, 'h')."
    ),
    "times of day": "Make them numbers: hours or seconds since midnight.",
}
"""Columns of times that are no numbers, with what to do."""
LIBRARIES = ("numpy", "pandas", "polars", "pyarrow")
"""Libraries whose arrays and columns say of what type they are."""


def unmasked(values: Any) -> Any:
    """A masked array as a plain one, with NaN in masked cells; integers with masked cells become
    floats. Anything else is unchanged.

    >>> unmasked(np.ma.array([1, 2, 3], mask=[False, True, False]))
    array([ 1., nan,  3.])
    >>> unmasked(np.ma.array([1, 2, 3]))
    array([1, 2, 3])
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.getmaskarray(values).any():
        return values.data
    wide = values if values.dtype.kind == "f" else values.astype(float)
    return np.ma.filled(wide, np.nan)


def to_array(values: Any, name: str = "data") -> np.ndarray:
    """A NumPy array of an array, a table or a column of pandas, polars or pyarrow, or nested lists.

    Raises:
      ValueError: a column of a table has dates, times or durations.

    >>> to_array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if not isinstance(values, np.ndarray):  # whoever takes numbers names the place in an array
        require_no_times(values, name)
    if has_masked_rows(values):
        values = [unmasked(row) for row in values]
    return np.asarray(unmasked(values))


def has_masked_rows(values: Any) -> bool:
    """True for a list of arrays some of which are masked: NumPy would take the hidden values.

    >>> has_masked_rows([np.ma.array([1.0], mask=[True])]), has_masked_rows([[1.0]])
    (True, False)
    """
    is_list = isinstance(values, list | tuple)
    return is_list and any(isinstance(row, np.ma.MaskedArray) for row in values)


def require_no_times(table: Any, name: str = "data") -> None:
    """Raises ValueError for an array, a table or a column of NumPy, pandas, polars or pyarrow with
    a column of times."""
    for column, kind in _time_columns(table):
        where = "" if column is None else f" in column {column!r}"
        raise ValueError(f"{name}: expected numbers, got {kind}{where}. {TIMES[kind]}")


def _time_columns(table: Any) -> list[tuple[str | None, str]]:
    """The name, None for an array or a single column, and the kind of time of each column of
    times."""
    if type(table).__module__.partition(".")[0] not in LIBRARIES:
        return []
    kinds = [(name, _time_kind(str(dtype).lower())) for name, dtype in _types(table)]
    return [(name, kind) for name, kind in kinds if kind]


def _types(table: Any) -> list[tuple[str | None, Any]]:
    """The name and the type of each column; an array or a single column has the name None."""
    if hasattr(table, "schema") and hasattr(table.schema, "types"):  # pyarrow
        return [(field.name, field.type) for field in table.schema]
    types = getattr(table, "dtypes", None)
    if types is not None and hasattr(table, "columns"):  # pandas and polars
        return list(zip(map(str, table.columns), types, strict=True))
    return [(None, getattr(table, "dtype", getattr(table, "type", None)))]


def _time_kind(dtype: str) -> str:
    """The kind of time that the name of a type says, in words; "" for another type.

    >>> [_time_kind(dtype) for dtype in ("datetime64[ns]", "duration[us]", "time", "int64")]
    ['dates', 'durations', 'times of day', '']
    """
    if dtype.startswith(("timedelta", "duration")):
        return "durations"
    if dtype.startswith(("date", "timestamp", "period")):
        return "dates"
    return "times of day" if dtype.startswith("time") else ""
