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
from vijax.data.schema.row_names import FROM_ZERO, RowNames, in_memory, rows_of_file

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
        """Some of the rows, which keep their names."""
        return NamedColumns(
            {name: values[rows] for name, values in self.items()}, self.rows.take(rows)
        )


class FileColumns(NamedColumns):
    """Columns of a file by name.

    Attributes:
      decimal: the decimal sign of a text file; None where no number of it has one.
      declared: categories in the order that the file declares, by column.
      cells: the cells with the types that the file gives them, of columns that are not of plain
        numbers; of a text file True and False alone.
      written: the cells as the file has them, of columns of names in which words were read as
          missing.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], rows: RowNames | None = None):
        size = len(next(iter(columns.values()), ()))
        super().__init__(columns, rows_of_file(size) if rows is None else rows)
        self.decimal: str | None = None
        self.declared: dict[str, tuple[str, ...]] = {}
        self.cells: dict[str, np.ndarray] = {}
        self.written: dict[str, np.ndarray] = {}

    def keep_names(self, name: str, known: Container[str]) -> None:
        """Puts words that were read as missing back into a column where they are names in the data
        of training."""
        if name not in self.written:
            return
        self[name] = with_known_names(self[name], self.written[name], known)
        if name in self.cells:
            self.cells[name] = with_known_names(self.cells[name], self.written[name], known)

    def first(self, number: int | None) -> FileColumns:
        """The first rows."""
        return self.take(np.arange(len(self.rows.labels))[:number])

    def take(self, rows: Int[np.ndarray, " n"]) -> FileColumns:
        """Some of the rows, which keep their names."""
        part = FileColumns(
            {name: values[rows] for name, values in self.items()}, self.rows.take(rows)
        )
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


def find_origin(found: Mapping[str, np.ndarray], where: str) -> Origin | None:
    """The origin of columns whose rows have names; None for others."""
    return Origin(where, found.rows) if isinstance(found, NamedColumns) else None


RowName = Callable[[Any], str]
"""From the number of a row, counted from 0, to its name in a message."""


def row_name(found: Mapping[str, np.ndarray]) -> RowName:
    """Names of rows in the middle of a message; see `vijax.data.schema.row_names`.

    >>> x, lines = {"x": np.zeros(3)}, RowNames(np.array([2, 3, 5]), "line")
    >>> row_name(FileColumns(x, lines))(2), row_name(FileColumns(x))(2), row_name(x)(2)
    ('line 5', 'row 3', 'row 2, counted from 0,')
    """
    return row_names(found).within


def row_names(found: Mapping[str, np.ndarray]) -> RowNames:
    """The names of the rows of columns."""
    if isinstance(found, NamedColumns):
        return found.rows
    return in_memory(len(next(iter(found.values()), ())))


def number(cell: object) -> float:
    """A cell as a number, NaN where it is missing; ValueError for all else, also for Python's
    1_000."""
    if is_missing(cell):
        return np.nan
    text = str(cell)
    value = np.nan if "_" in text else float(text)
    if value != value:
        raise ValueError(text)
    return value


LONGEST_TRUTH = 20
"""Letters of a cell of True and False at most, blanks among them."""
WHOLE = re.compile(r"[+-]?\d+")


def parse_column(cells: Sequence[str]) -> np.ndarray:
    """Numbers, with NaN where a text is empty, or else the strings themselves. A column of True and
    False alone is of 1 and 0, as in files with types; whole numbers that floats do not hold stay
    whole, where none is missing.

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
        # A text of blanks alone, which is missing, or "nan", which is no number, are left to
        # `number`.
        numbers = np.array([float(cell) if cell else np.nan for cell in cells])
        is_plain = np.isnan(numbers).sum() == sum(not cell for cell in cells) and not any(
            "_" in cell for cell in cells
        )
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
    """True where each cell is True, False or empty, and not all are empty. A cell of another kind
    ends the look."""
    is_one = lambda cell: (
        len(cell) <= LONGEST_TRUTH and (not cell.strip() or cell.strip().lower() in TRUTHS)
    )
    return all(map(is_one, cells)) and any(cell.strip() for cell in cells)


def parse_truths(cells: Sequence[str]) -> np.ndarray:
    """Cells of True and False as such, None where one is missing."""
    return np.array([TRUTHS.get(cell.strip().lower()) for cell in cells], object)


def exact_integers(numbers: np.ndarray, cells: Sequence[str]) -> np.ndarray | None:
    """The cells as integers, where all of them are whole and floats do not hold some of them; else
    None."""
    if not np.any(np.abs(numbers) >= EXACT) or not all(
        WHOLE.fullmatch(cell.strip()) for cell in cells
    ):
        return None
    return smallest_integers([int(cell) for cell in cells])


def smallest_integers(whole: Sequence[int]) -> np.ndarray | None:
    """Whole numbers as int64, or uint64 where that does not hold them; None where neither does."""
    least = min(whole)
    most = max(whole)
    kinds = (np.int64, np.uint64)
    dtype = next(
        (kind for kind in kinds if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max), None
    )
    return None if dtype is None else np.array(whole, dtype)


def strip_blanks(cells: Sequence[Any]) -> list[Any]:
    """The cells of a column without the blanks around texts, which say nothing in any format. Texts
    that are one object stay one: a file of 1 MB can say a text of 20 MB ten thousand times."""
    short = {cell: cell.strip() for cell in {cell for cell in cells if isinstance(cell, str)}}
    return [short[cell] if isinstance(cell, str) else cell for cell in cells]


def columns_without_blanks(columns: Columns, where: str) -> NamedColumns:
    """Columns in memory as those of a file are read: without the blanks around names and texts.

    Raises:
      DataError: two names are one without them.

    >>> columns_without_blanks({" g ": np.array([" b"], object)}, "data")
    {'g': array(['b'], dtype=object)}
    """
    if len({column_name(name.strip()) for name in columns}) < len(columns):
        raise fail(
            where,
            "columns of distinct names",
            "names that differ by blanks alone",
            "rename those columns",
        )
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
    """Entries as floats, NaN where they are missing; DataError where one is text."""
    if (bad := not_numbers(values)).any():
        row = int(np.argmax(bad))
        got = f"{str(values[row])[:40]!r} in {at(row)} ({int(bad.sum())} such)"
        raise fail(where, "numbers", got, remedy)
    if values.dtype == object:
        return np.array([number(value) for value in values], float)
    return values.astype(float)


def are_missing(values: np.ndarray) -> Bool[np.ndarray, " N"]:
    """A mask of the missing cells."""
    if values.dtype != object:
        return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    return np.array([is_missing(value) for value in values], bool)


def original_cells(found: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """A column as its file has it, words for missing cells among its names."""
    return found.written.get(name, found[name]) if isinstance(found, FileColumns) else found[name]


def words_as_missing(found: Mapping[str, np.ndarray], name: str) -> tuple[str, ...]:
    """The words among the names of a column that were read as missing."""
    if not isinstance(found, FileColumns) or name not in found.written:
        return ()
    return tuple(
        dict.fromkeys(filter(None, found.written[name][are_missing(found[name])].tolist()))
    )


def said_missing(found: Mapping[str, np.ndarray], name: str, remedy: str = IF_NAMES) -> str:
    """Sentences on the words of a column that were read as missing, and what to do; "" where there
    are none."""
    written = found.written.get(name) if isinstance(found, FileColumns) else None
    said = said_of_words(name, written, are_missing(found[name]))
    return f"{said}{remedy}" if said else ""


REMOVE = "remove those rows or fill them in"


def check_present(
    values: np.ndarray,
    expected: str,
    where: str,
    at: RowName,
    remedy: str = REMOVE,
    words: str = "",
) -> None:
    """Raises a DataError where the names of classes, groups or nodes are missing in some rows.

    Args:
      values: the cells.
      expected: what should be in every row.
      where: the file and the column.
      at: the names of rows.
      remedy: what to do.
      words: what `said_missing` says of the column.
    """
    missing = np.flatnonzero(are_missing(values))
    if len(missing):
        rows = _join_names([at(row) for row in missing[:5].tolist()], len(missing) > 5)
        got = f"a missing value in {rows} ({len(missing)} such)"
        raise fail(where, expected, got, f"{remedy}. {words.rstrip('.')}" if words else remedy)


def _join_names(names: Sequence[str], are_more: bool) -> str:
    """Names of rows in one list; where they are counted from is said once."""
    clause = f"{FROM_ZERO},"  # as it is within a sentence
    end = clause if all(name.endswith(clause) for name in names) else ""
    return ", ".join(name.removesuffix(end) for name in names) + ", ..." * are_more + end


def check_parts(number: int, total: int, held_out: float, what: str) -> None:
    """Raises a DataError unless `number` of `total` held out leaves some on both sides."""
    if not 0 < number < total:
        got = f"{held_out}, {number} of {total} {what}"
        remedy = "choose another share, or 0 to hold none out"
        raise fail("data.held_out", "a share that leaves some on either side", got, remedy)


def _is_number(value: object) -> bool:
    try:
        number(value)
    except ValueError:
        return False
    return True
