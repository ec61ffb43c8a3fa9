"""The names of the rows of a table in messages: one rule for tables of all sources.

A row is named as the user's own program shows it: a line by its number in an editor, a row by its
number in a spreadsheet, a row of a data frame by its index. Rows keep their names when others are
left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from vijax.data.schema.cells import column_names

FROM_ZERO = ", counted from 0"
OF_INDEX = " of the index"
MOST_NAMED = 5
"""The most rows that a message names."""


@dataclasses.dataclass(frozen=True, eq=False)
class RowNames:
    """The names of the rows of a table.

    Attributes:
      labels: the number of each row, or its label in an index, (N,).
      called: the word before it.
      after: words behind it, which say how rows are numbered.
      files: the file of each row, for a table in several files whose rows are numbered in each;
        else None.

    >>> names = RowNames(np.array([2, 3, 5]), "line")
    >>> names.name(2), names.take([2]).name(0)
    ('line 5', 'line 5')
    >>> memory_row_names(9).list_rows(range(6)), memory_row_names(1).list_rows([0])
    ('rows 0, 1, 2, 3, 4, ... (6 such), counted from 0', 'row 0 (1 such), counted from 0')
    """

    labels: np.ndarray
    called: Literal["line", "row"] = "row"
    after: str = ""
    files: np.ndarray | None = None

    def name(self, row: Any) -> str:
        """The name of a row."""
        return f"{self.called} {self._label(int(row))}{self.after}"

    def _label(self, row: int) -> str:
        text = _label_text(self.labels[row])
        return text if self.files is None else f"{text} of {self.files[row]}"

    def mid_sentence(self, row: Any) -> str:
        """The name of a row for the middle of a sentence: with a comma behind a clause.

        >>> memory_row_names(3).mid_sentence(2)
        'row 2, counted from 0,'
        """
        return self.name(row) + "," * self.after.startswith(",")

    def list_rows(self, rows: Sequence[int]) -> str:
        """The names of some rows, the first five of them, and their number."""
        names = ", ".join(self._label(int(row)) for row in rows[:MOST_NAMED])
        ellipsis_text = ", ..." if len(rows) > MOST_NAMED else ""
        words = f"{self.called}{'s' * (len(rows) > 1)} {names}{ellipsis_text}"
        if self.after == FROM_ZERO:
            return f"{words} ({len(rows)} such){self.after}"
        return f"{words}{self.after} ({len(rows)} such)"

    def take(self, rows: Any) -> RowNames:
        """The names of some of the rows."""
        places = np.asarray(rows, int)
        files = None if self.files is None else self.files[places]
        return dataclasses.replace(self, labels=self.labels[places], files=files)


def lines(numbers: Sequence[int]) -> RowNames:
    """Rows of a text file, by the line on which each ends."""
    return RowNames(np.array(numbers, int), "line")


def rows_of_file(size: int) -> RowNames:
    """Rows of a file without lines, counted from 1."""
    return RowNames(np.arange(1, size + 1))


def rows_of_files(sizes: Mapping[str, int]) -> RowNames:
    """Rows of files by name, counted from 1 in each.

    >>> rows_of_files({"a.parquet": 2, "b.parquet": 2}).name(2), rows_of_files({"a.parquet": 2}).name(1)
    ('row 1 of b.parquet', 'row 2')
    """
    if len(sizes) == 1:
        return rows_of_file(*sizes.values())
    labels = [np.arange(1, size + 1) for size in sizes.values()]
    files = np.repeat(np.array(list(sizes), object), list(sizes.values()))
    return RowNames(np.concatenate(labels), files=files)


def memory_row_names(size: int) -> RowNames:
    """Rows of columns in memory, counted from 0 as in Python."""
    return RowNames(np.arange(size), after=FROM_ZERO)


def find_row_names(table: Any, size: int) -> RowNames:
    """The rows of a table in memory: by the index of a data frame of pandas, if that distinguishes
    the rows and is not 0, 1, 2, ..."""
    index = getattr(table, "index", None)
    is_frame = column_names(table) is not None and hasattr(table, "iloc")
    if not is_frame or index is None or len(index) != size or not index.is_unique:
        return memory_row_names(size)
    labels = np.empty(size, object)
    labels[:] = index.tolist()
    if all(type(label) is int and label == row for row, label in enumerate(labels)):
        return memory_row_names(size)
    return RowNames(labels, after=OF_INDEX)


def _label_text(label: Any) -> str:
    """A label in messages: numbers unchanged, other labels in quotes.

    >>> _label_text(7), _label_text("b"), _label_text(("a", 1))
    ('7', "'b'", "('a', 1)")
    """
    if isinstance(label, int | np.integer | tuple):
        return str(label)
    return repr(str(label)[:40])
