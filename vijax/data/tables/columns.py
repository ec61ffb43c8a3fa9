"""Columns of a table in a file, by name: cells as numbers or as text, and the places of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from vijax.data.reading.checks import fail
from vijax.data.reading.parquet_values import EXACT
from vijax.data.schema.cells import column_name
from vijax.data.schema.missing_words import (
    IF_NAMES,
    TRUTHS,
    is_missing,
    said_of_words,
    with_known_names,
)
from vijax.data.schema.row_names import FROM_ZERO, RowNames, memory_row_names, rows_of_file

Columns = Mapping[str, np.ndarray]


class NamedColumns(dict[str, np.ndarray]):
    """Columns by name, with the names of their rows.

    Attributes:
      rows: the names of the rows in messages.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], rows: RowNames):
        super().__init__(columns)
        self.rows = rows

    def take(self, rows: Int[np.ndarray, " n"]) -> NamedColumns:
        """Some of the rows, with their names."""
        columns = {name: values[rows] for name, values in self.items()}
        return NamedColumns(columns, self.rows.take(rows))


class FileColumns(NamedColumns):
    """Columns of a file by name.

    Attributes:
      decimal: the decimal sign of a text file; None if no number in it has one.
      declared: categories in the order that the file declares, by column.
      cells: the cells with the types that the file gives them, for columns that are not of plain
        numbers; for a text file only columns of True and False.
      written: the original cells, for columns of names in which words were read as missing.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], rows: RowNames | None = None):
        size = len(next(iter(columns.values()), ()))
        super().__init__(columns, rows_of_file(size) if rows is None else rows)
        self.decimal: str | None = None
        self.declared: dict[str, tuple[str, ...]] = {}
        self.cells: dict[str, np.ndarray] = {}
        self.written: dict[str, np.ndarray] = {}

    def keep_names(self, name: str, known: Container[str]) -> None:
        """Restores words that were read as missing in a column if they are names in the training
        data."""
        if name not in self.written:
            return
        self[name] = with_known_names(self[name], self.written[name], known)
        if name in self.cells:
            self.cells[name] = with_known_names(self.cells[name], self.written[name], known)

    def first(self, number: int | None) -> FileColumns:
        """The first rows."""
        return self.take(np.arange(len(self.rows.labels))[:number])

    def take(self, rows: Int[np.ndarray, " n"]) -> FileColumns:
        """Some of the rows, with their names."""
        columns = {name: values[rows] for name, values in self.items()}
        part = FileColumns(columns, self.rows.take(rows))
        part.decimal = self.decimal
        part.declared = self.declared
        part.cells = {name: cells[rows] for name, cells in self.cells.items()}
        part.written = {name: cells[rows] for name, cells in self.written.items()}
        return part


class Origin(NamedTuple):
    """The file of some rows, or "data" for columns in memory, and the names of the rows there."""

    where: str
    rows: RowNames

    def take(self, rows: Int[np.ndarray, " n"]) -> Origin:
        """Some of the rows."""
        return self._replace(rows=self.rows.take(rows))


def find_origin(columns: Mapping[str, np.ndarray], where: str) -> Origin | None:
    """The origin of columns whose rows have names; None for other columns."""
    if not isinstance(columns, NamedColumns):
        return None
    return Origin(where, columns.rows)


RowName = Callable[[Any], str]
"""From the number of a row, counted from 0, to its name in a message."""


def row_name(columns: Mapping[str, np.ndarray]) -> RowName:
    """Names of rows in the middle of a message; see `vijax.data.schema.row_names`.

    >>> x, lines = {"x": np.zeros(3)}, RowNames(np.array([2, 3, 5]), "line")
    >>> row_name(FileColumns(x, lines))(2), row_name(FileColumns(x))(2), row_name(x)(2)
    ('line 5', 'row 3', 'row 2, counted from 0,')
    """
    return row_names(columns).mid_sentence


def row_names(columns: Mapping[str, np.ndarray]) -> RowNames:
    """The names of the rows of columns."""
    if isinstance(columns, NamedColumns):
        return columns.rows
    return memory_row_names(len(next(iter(columns.values()), ())))


def number(cell: object) -> float:
    """A cell as a number, NaN for a missing cell; ValueError for all else, also for Python's
    1_000."""
    if is_missing(cell):
        return np.nan
    text = str(cell)
    value = np.nan if "_" in text else float(text)
    if value != value:
        raise ValueError(text)
    return value


LONGEST_TRUTH = 20
"""The most letters of a cell of True and False, with its blanks."""
WHOLE = re.compile(r"[+-]?\d+")


def parse_column(cells: Sequence[str]) -> np.ndarray:
    """The cells as numbers, with NaN for an empty text, or else as texts. A column of only True and
    False becomes 1 and 0, as in files with types. Whole numbers that floats do not hold stay whole,
    if none is missing.

    >>> parse_column(["1", "", "2.5"]), parse_column(["1", "two"]), parse_column(["TRUE", "false", ""])
    (array([1. , nan, 2.5]), array(['1', 'two'], dtype=object), array([ 1.,  0., nan]))
    >>> parse_column(["9007199254740993", "1"])
    array([9007199254740993,                1])
    """
    if are_truths(cells):
        return np.array(
            [np.nan if truth is None else float(truth) for truth in parse_truths(cells)]
        )
    try:
        # `number` decides about a text of blanks, which is missing, and "nan", which is no number.
        numbers = np.array([float(cell) if cell else np.nan for cell in cells])
        num_empty = sum(not cell for cell in cells)
        is_plain = np.isnan(numbers).sum() == num_empty and not any("_" in cell for cell in cells)
    except ValueError:
        is_plain = False
    try:
        if not is_plain:
            numbers = np.array([number(cell) for cell in cells], float)
    except ValueError:
        return np.array(cells, object)
    integers = exact_integers(numbers, cells)
    return numbers if integers is None else integers


def are_truths(cells: Sequence[str]) -> bool:
    """True if each cell is True, False or empty, and not all are empty. The search ends at the
    first other cell."""
    is_truth = lambda cell: (
        len(cell) <= LONGEST_TRUTH and (not cell.strip() or cell.strip().lower() in TRUTHS)
    )
    return all(map(is_truth, cells)) and any(cell.strip() for cell in cells)


def parse_truths(cells: Sequence[str]) -> np.ndarray:
    """Cells of True and False as truth values, None for missing ones."""
    return np.array([TRUTHS.get(cell.strip().lower()) for cell in cells], object)


def exact_integers(numbers: np.ndarray, cells: Sequence[str]) -> np.ndarray | None:
    """The cells as integers, if all are whole and floats do not hold some of them; else None."""
    has_large = np.any(np.abs(numbers) >= EXACT)
    if not has_large or not all(WHOLE.fullmatch(cell.strip()) for cell in cells):
        return None
    return smallest_integers([int(cell) for cell in cells])


def smallest_integers(whole: Sequence[int]) -> np.ndarray | None:
    """Whole numbers as int64, or else as uint64; None if neither holds them."""
    minimum = min(whole)
    maximum = max(whole)
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= minimum and maximum <= np.iinfo(dtype).max:
            return np.array(whole, dtype)
    return None


def strip_blanks(cells: Sequence[Any]) -> list[Any]:
    """The cells of a column without the blanks around texts, which mean nothing in any format.
    Texts that are one object stay one: a file of 1 MB can repeat a text of 20 MB ten thousand
    times."""
    stripped = {cell: cell.strip() for cell in {cell for cell in cells if isinstance(cell, str)}}
    return [stripped[cell] if isinstance(cell, str) else cell for cell in cells]


def columns_without_blanks(columns: Columns, where: str) -> NamedColumns:
    """Columns in memory, read like those of a file: without the blanks around names and texts.

    Raises:
      DataError: two names differ only by blanks.

    >>> columns_without_blanks({" g ": np.array([" b"], object)}, "data")
    {'g': array(['b'], dtype=object)}
    """
    if len({column_name(name.strip()) for name in columns}) < len(columns):
        actual = "names that differ by blanks alone"
        raise fail(where, "columns of distinct names", actual, "rename those columns")
    short = {column_name(name.strip()): values for name, values in columns.items()}
    for name, values in short.items():
        if values.dtype == object:
            short[name] = np.array(strip_blanks(values.tolist()), object)
    return NamedColumns(short, row_names(columns))


def not_numbers(values: np.ndarray) -> Bool[np.ndarray, " N"]:
    """A mask of the entries that are neither numbers nor missing."""
    if values.dtype != object:
        return np.zeros(len(values), bool)
    return np.array([not _is_number(value) for value in values], bool)


def as_numbers(
    values: np.ndarray, where: str = "", at: RowName = str, remedy: str = "correct it"
) -> Float[np.ndarray, " N"]:
    """Entries as floats, NaN for missing ones. Raises a DataError for text."""
    if (bad := not_numbers(values)).any():
        row = int(np.argmax(bad))
        actual = f"{str(values[row])[:40]!r} in {at(row)} ({int(bad.sum())} such)"
        raise fail(where, "numbers", actual, remedy)
    if values.dtype == object:
        return np.array([number(value) for value in values], float)
    return values.astype(float)


def are_missing(values: np.ndarray) -> Bool[np.ndarray, " N"]:
    """A mask of the missing cells."""
    if values.dtype != object:
        if values.dtype.kind == "f":
            return np.isnan(values)
        return np.zeros(len(values), bool)
    return np.array([is_missing(value) for value in values], bool)


def original_cells(columns: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """The cells of a column as its file has them, also words that were read as missing."""
    if isinstance(columns, FileColumns):
        return columns.written.get(name, columns[name])
    return columns[name]


def words_as_missing(columns: Mapping[str, np.ndarray], name: str) -> tuple[str, ...]:
    """The words among the names of a column that were read as missing."""
    if not isinstance(columns, FileColumns) or name not in columns.written:
        return ()
    cells = columns.written[name][are_missing(columns[name])].tolist()
    return tuple(dict.fromkeys(filter(None, cells)))


def said_missing(columns: Mapping[str, np.ndarray], name: str, remedy: str = IF_NAMES) -> str:
    """Sentences about the words of a column that were read as missing, and a remedy; "" without
    such words."""
    written = columns.written.get(name) if isinstance(columns, FileColumns) else None
    text = said_of_words(name, written, are_missing(columns[name]))
    return f"{text}{remedy}" if text else ""


REMOVE = "remove those rows or fill them in"


def check_present(
    values: np.ndarray,
    expected: str,
    where: str,
    at: RowName,
    remedy: str = REMOVE,
    words: str = "",
) -> None:
    """Raises a DataError if the names of classes, groups or nodes are missing in some rows.

    Args:
      values: the cells.
      expected: the content that every row should have.
      where: the file and the column.
      at: the names of rows.
      remedy: what to do.
      words: the sentences of `said_missing` about the column.
    """
    missing = np.flatnonzero(are_missing(values))
    if len(missing):
        rows = _join_names([at(row) for row in missing[:5].tolist()], len(missing) > 5)
        actual = f"a missing value in {rows} ({len(missing)} such)"
        raise fail(where, expected, actual, f"{remedy}. {words.rstrip('.')}" if words else remedy)


def _join_names(names: Sequence[str], are_more: bool) -> str:
    """Names of rows in one list, with "counted from 0" once at its end."""
    clause = f"{FROM_ZERO},"  # the form within a sentence
    end = clause if all(name.endswith(clause) for name in names) else ""
    return ", ".join(name.removesuffix(end) for name in names) + ", ..." * are_more + end


def check_parts(number: int, total: int, held_out: float, noun: str) -> None:
    """Raises a DataError unless `number` of `total` held out leaves some on both sides."""
    if not 0 < number < total:
        actual = f"{held_out}, {number} of {total} {noun}"
        remedy = "choose another share, or 0 to hold none out"
        raise fail("data.held_out", "a share that leaves some on either side", actual, remedy)


def _is_number(value: object) -> bool:
    try:
        number(value)
    except ValueError:
        return False
    return True
