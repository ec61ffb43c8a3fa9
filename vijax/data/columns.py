"""Cells of a table as numbers or as text, and which of the two a column is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "?"])
"""What stands for a missing value, in small letters."""
MISSING_NAMES = MISSING - {"none"}
"""The same of a class or a group, of which one may well be called "none"."""


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
