"""Cells of a table as numbers or as text, and which of the two a column is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "?"])
"""What stands for a missing value, in small letters."""
MISSING_NAMES = MISSING - {"none"}
"""The same of a class or a group, of which one may well be called "none"."""


class FileColumns(dict[str, np.ndarray]):
    """Columns of a file by name.

    Attributes:
      lines: the line on which each row ends; None of files that have no lines.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], lines: Sequence[int] | None = None):
        super().__init__(columns)
        self.lines = lines

    def first(self, number: int | None) -> FileColumns:
        """The first rows."""
        return FileColumns({name: values[:number] for name, values in self.items()}, self.lines)


class Origin(NamedTuple):
    """Where rows come from.

    Attributes:
      where: the file.
      called: what a row is called there.
      numbers: of the rows, as a person counts.
    """

    where: str
    called: str
    numbers: Int[np.ndarray, " N"]


def origin_of(found: Mapping[str, np.ndarray], where: str) -> Origin | None:
    """Of the columns of a file; None of those in memory."""
    if not isinstance(found, FileColumns):
        return None
    size = len(next(iter(found.values()), ()))
    if found.lines is None:
        return Origin(where, "row", np.arange(1, size + 1))
    return Origin(where, "line", np.array(found.lines[:size], int))


RowName = Callable[[Any], str]
"""The number of a row, from 0 -> what a person calls it."""


def row_name(found: Mapping[str, np.ndarray]) -> RowName:
    """How the rows of a table are called: of a text file by their lines, of other files counted from 1, of a table in
    memory as Python counts them.

    >>> x = {"x": np.zeros(3)}
    >>> row_name(FileColumns(x, [2, 3, 5]))(2), row_name(FileColumns(x))(2), row_name(x)(2)
    ('line 5', 'row 3', 'row 2, counted from 0,')
    """
    origin = origin_of(found, "")
    if origin is None:
        return lambda row: f"row {row}, counted from 0,"
    return lambda row: f"{origin.called} {origin.numbers[row]}"


def number(cell: object) -> float:
    """A cell as a number, NaN where it is missing.

    Raises:
      ValueError: it is neither; 1_000 is a number to Python only.
    """
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
    """Which entries are neither numbers nor missing."""
    if values.dtype != object:
        return np.zeros(len(values), bool)
    return np.array([not _is_number(value) for value in values], bool)


def as_numbers(values: np.ndarray) -> Float[np.ndarray, " N"]:
    """Entries that are all numbers or missing, as floats."""
    return np.array([number(value) for value in values], float) if values.dtype == object else values.astype(float)


def are_missing(values: np.ndarray) -> Bool[np.ndarray, " N"]:
    """Which of the names of classes or groups are missing."""
    if values.dtype != object:
        return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    return np.array([str(value).strip().lower() in MISSING_NAMES for value in values], bool)


def name_of(value: object) -> str:
    """A class or group as text; whole numbers without a point.

    >>> name_of(7.0), name_of("007")
    ('7', '007')
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _is_number(value: object) -> bool:
    try:
        number(value)
    except ValueError:
        return False
    return True
