"""Columns of a table by name: cells as numbers or as text, from files and from objects in memory."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from vijax.data.reading.checks import fail

Columns = Mapping[str, np.ndarray]

MISSING_NAMES = frozenset(["", "na", "n/a", "nan", "null", "?", "<na>"])
"""Names of a class or a group that stand for a missing value, in small letters: one may well be called "none"."""
CODES = frozenset([".", "-", "--", "n.a.", "#n/a"])
"""Cells that stand for a missing value where numbers are expected, and are told where they occur."""
TRUTHS = {"True": "1", "False": "0"}
"""Numbers for True and False of a column that has nothing else but missing cells."""
MISSING = MISSING_NAMES | CODES | {"none"}
"""Cells that stand for a missing value among numbers, in small letters."""


class FileColumns(dict[str, np.ndarray]):
    """Columns of a file by name.

    Attributes:
      lines: the line on which each row ends; None where a file has no lines.
      numbers: the numbers of the rows in a file without lines, counted from 1; None for all rows in turn.
      decimal: the decimal sign of a text file; None where no number of it has one.
      declared: categories in the order that the file declares, by column.
      cells: the cells with the types that the file gives them, of columns that are not of plain numbers; none of a text
        file.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], lines: Sequence[int] | None = None):
        super().__init__(columns)
        self.lines = lines
        self.numbers: Int[np.ndarray, " N"] | None = None
        self.declared: dict[str, tuple[str, ...]] = {}
        self.cells: dict[str, np.ndarray] = {}
        self.decimal: str | None = None

    def first(self, number: int | None) -> FileColumns:
        """The first rows."""
        part = FileColumns({name: values[:number] for name, values in self.items()}, self.lines)
        part.decimal = self.decimal
        part.declared = self.declared
        part.cells = {name: cells[:number] for name, cells in self.cells.items()}
        return part

    def take(self, rows: Int[np.ndarray, " n"]) -> FileColumns:
        """Some of the rows, which keep their lines; of a file without lines their numbers."""
        size = len(next(iter(self.values()), ()))
        lines = None if self.lines is None else [self.lines[row] for row in rows]
        part = FileColumns({name: values[rows] for name, values in self.items()}, lines)
        part.numbers = self.numbers_of(size)[rows]
        part.decimal = self.decimal
        part.declared = self.declared
        part.cells = {name: cells[rows] for name, cells in self.cells.items()}
        return part

    def numbers_of(self, size: int) -> Int[np.ndarray, " N"]:
        """The numbers of the rows, counted from 1."""
        return np.arange(1, size + 1) if self.numbers is None else self.numbers


class Origin(NamedTuple):
    """The file of some rows, and their places in it."""

    where: str  # the file
    called: str  # "line" in a text file, "row" in others
    numbers: Int[np.ndarray, " N"]  # the lines or rows, counted from 1


def origin_of(found: Mapping[str, np.ndarray], where: str) -> Origin | None:
    """The origin of the columns of a file; None for columns in memory."""
    if not isinstance(found, FileColumns):
        return None
    size = len(next(iter(found.values()), ()))
    if found.lines is None:
        return Origin(where, "row", found.numbers_of(size))
    return Origin(where, "line", np.array(found.lines[:size], int))


RowName = Callable[[Any], str]
"""From the number of a row, counted from 0, to its name in a message."""


def row_name(found: Mapping[str, np.ndarray]) -> RowName:
    """Names of rows for messages: lines of a text file, rows counted from 1 of other files, and rows counted from 0 of
    a table in memory.

    >>> x = {"x": np.zeros(3)}
    >>> row_name(FileColumns(x, [2, 3, 5]))(2), row_name(FileColumns(x))(2), row_name(x)(2)
    ('line 5', 'row 3', 'row 2, counted from 0,')
    """
    origin = origin_of(found, "")
    if origin is None:
        return lambda row: f"row {row}, counted from 0,"
    return lambda row: f"{origin.called} {origin.numbers[row]}"


def number(cell: object) -> float:
    """A cell as a number, NaN where it is missing; ValueError for all else, also for Python's 1_000."""
    text = str(cell).strip()
    if "_" in text:
        raise ValueError(text)
    return np.nan if text.lower() in MISSING else float(text)


def column_of(cells: Sequence[str]) -> np.ndarray:
    """Numbers, with NaN where they are missing, or else the strings themselves.

    >>> column_of(["1", "", "2.5"]), column_of(["1", "two"])
    (array([1. , nan, 2.5]), array(['1', 'two'], dtype=object))
    """
    try:
        return np.array([number(cell) for cell in cells], float)
    except ValueError:
        return np.array(cells, object)


def not_numbers(values: np.ndarray) -> Bool[np.ndarray, " N"]:
    """A mask of the entries that are neither numbers nor missing."""
    if values.dtype != object:
        return np.zeros(len(values), bool)
    return np.array([not _is_number(value) for value in values], bool)


def as_numbers(
    values: np.ndarray, where: str = "", at: RowName = str, remedy: str = "correct it"
) -> Float[np.ndarray, " N"]:
    """Entries as floats, NaN where they are missing; DataError where one is text."""
    if (bad := not_numbers(values)).any():
        row = int(np.argmax(bad))
        got = f"{str(values[row])[:40]!r} in {at(row)} ({int(bad.sum())} such)"
        raise fail(where, "numbers", got, remedy)
    return np.array([number(value) for value in values], float) if values.dtype == object else values.astype(float)


def are_missing(values: np.ndarray) -> Bool[np.ndarray, " N"]:
    """A mask of the names of classes or groups that are missing."""
    if values.dtype != object:
        return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    return np.array([str(value).strip().lower() in MISSING_NAMES for value in values], bool)


def name_of(value: object) -> str:
    """A class or group as text; a whole number is written without a point, a day without a time.

    >>> name_of(7.0), name_of("007"), name_of(datetime.datetime(2024, 5, 31))
    ('7', '007', '2024-05-31')
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime) and not _is_none(value):
        is_day = value.time() == datetime.time(0) and value.tzinfo is None
        return str(value.date()) if is_day else str(value)
    return str(value)


def check_present(values: np.ndarray, expected: str, where: str, at: RowName) -> None:
    """Raises a DataError where the names of classes, groups or nodes are missing in some rows."""
    missing = np.flatnonzero(are_missing(values))
    if len(missing):
        rows = ", ".join(map(at, missing[:5].tolist())) + (", ..." if len(missing) > 5 else "")
        got = f"a missing value in {rows} ({len(missing)} such)"
        raise fail(where, expected, got, "remove those rows or fill them in")


def check_parts(number: int, total: int, held_out: float, what: str) -> None:
    """Raises a DataError unless `number` of `total` held out leaves some on both sides."""
    if not 0 < number < total:
        got, remedy = f"{held_out}, {number} of {total} {what}", "choose another share, or 0 to hold none out"
        raise fail("data.held_out", "a share that leaves some on either side", got, remedy)


def _is_number(value: object) -> bool:
    try:
        number(value)
    except ValueError:
        return False
    return True


# --- from objects in memory ------------------------------------------------------------------------------------------
EXPECTED = "a table of pandas, Arrow or polars, a mapping of columns by name, or a matrix (rows, columns)"


def in_a_library(source: Any) -> bool:
    """Tells whether an object is a table or column of pandas, Arrow or polars."""
    return type(source).__module__.partition(".")[0] in ("pandas", "pyarrow", "polars")


def column_names(table: Any) -> list[str] | None:
    """The names of the columns of a pandas, Arrow or polars table; None for a single column, or another object."""
    found = getattr(table, "column_names", None) or getattr(table, "columns", None)
    return [str(name) for name in found] if in_a_library(table) and found is not None else None


def column_values(column: Any) -> list:
    """The values of a pandas, Arrow or polars column, as a list."""
    return (getattr(column, "to_pylist", None) or getattr(column, "to_list", None) or column.tolist)()


def columns_of(source: Any, names: Sequence[str] = (), exact: Container[str] = ()) -> Columns:
    """Every column of a table in memory by name; `names` are those of the columns of a matrix. Columns named in `exact`
    have names, of groups say, whose text stays as it is: 007 is not 7.

    >>> columns_of([[1.0, 2.0], [3.0, 4.0]], ["a", "b"])["b"].tolist()
    [2.0, 4.0]
    >>> columns_of({"g": ["007", "7"]}, exact=["g"])["g"].tolist()
    ['007', '7']
    """
    if isinstance(source, np.ndarray) and source.dtype.names:
        source = {name: source[name] for name in source.dtype.names}
    if in_a_library(source):
        found = getattr(source, "column_names", None) or getattr(source, "columns", None)
        if found is None:
            raise fail("data", EXPECTED, f"a single {type(source).__name__}", "give the table, not one column of it")
        columns: Columns = {str(name): _column(column_values(source[name]), str(name) in exact) for name in found}
    elif isinstance(source, Mapping):
        columns = {str(name): _column(values, str(name) in exact) for name, values in source.items()}
    else:
        columns = _of_matrix(source, names)
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise fail("data", "columns of one length", f"lengths {sorted(lengths)}", "give every column as many rows")
    return columns


def _column(values: Any, exact: bool = False) -> np.ndarray:
    """Numbers as they are, True and False as 1 and 0; anything else as text."""
    if in_a_library(values):
        values = column_values(values)
    elif isinstance(values, np.ma.MaskedArray):  # a masked cell is missing
        values = values.tolist()
    array = _vector(values)
    if array.ndim != 1:
        raise fail("data", "columns that are vectors", f"one of shape {array.shape}", "give a matrix as a whole")
    if array.dtype.kind in "iufb":
        return array.astype(float) if array.dtype.kind in "fb" else array
    cells = ["" if _is_none(value) else name_of(value) for value in array.tolist()]
    if exact:
        return np.array(cells, object)
    is_truth = all(isinstance(value, bool) or _is_none(value) for value in array.tolist())
    return column_of([TRUTHS.get(cell, cell) for cell in cells] if is_truth else cells)


def _vector(values: Any) -> np.ndarray:
    """The values as an array; mixed ones stay as they are, dates become Python's."""
    array = np.asarray(values)
    if array.dtype.kind in "US" and isinstance(values, list | tuple):
        array = np.empty(len(values), object)  # NumPy makes text of numbers that stand among text
        array[:] = values
    return array.astype("datetime64[us]").astype(object) if array.dtype.kind == "M" else array


def _is_none(value: object) -> bool:
    """True of None, NaN, NaT and the missing value of pandas, which equals nothing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _of_matrix(source: Any, names: Sequence[str]) -> Columns:
    array = np.asarray(source)
    if array.ndim != 2 or array.dtype.kind not in "iufbO":
        got = f"{type(source).__name__} of shape {array.shape}" if array.ndim else type(source).__name__
        raise fail("data", EXPECTED, got, "convert it to one of these")
    if array.shape[1] != len(names):
        raise fail("data", f"a matrix of {len(names)} columns", f"{array.shape[1]}", "give the columns of the run")
    if array.dtype.kind == "O":  # numbers of several types, or text that some of them are
        return {name: _column(column) for name, column in zip(names, array.T, strict=True)}
    return dict(zip(names, array.astype(float).T, strict=True))
