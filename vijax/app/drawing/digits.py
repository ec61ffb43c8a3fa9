"""Digits of the numbers of a page: two digits of their standard deviation, or of the range of a
chart.

Six digits of 2,020,000.4 are only 2,020,000. A table of means and intervals would print one number
three times, and a curve would be a staircase.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from vijax.numerals import count_digits

KEPT = 6
"""Least number of digits of a number in files."""
KEPT_OF_SPREAD = 4
"""Number of digits of its spread that a number shows in files."""
SPREAD = re.compile(r"^(sd|deviation|standard deviation|error)$|^deviation of |deviation$")
"""Columns of standard deviations of numbers in the same row."""
RATIO = re.compile(r"ratio|% of it$")
"""Columns of exp(b) beside the deviation of b: their deviation is in proportion."""


def row_spreads(header: Sequence[str], row: Sequence[Any]) -> list[float]:
    """For each cell of a row the spread that decides its digits; 0 if unknown.

    >>> row_spreads(["", "mean", "sd", "5 %"], ["a", 2_020_000.0, 0.1, 2_019_999.9])
    [0.0, 0.1, 0.1, 0.1]
    >>> row_spreads(["", "mean"], ["a", 2_020_000.0])
    [0.0, 0.0]
    """
    pairs = zip(header, row, strict=False)
    deviations = [cell for name, cell in pairs if SPREAD.search(name) and is_number(cell)]
    positive = [float(deviation) for deviation in deviations if deviation > 0]
    if not positive:
        return [0.0] * len(row)
    spread = min(positive)
    return [_cell_spread(name, cell, spread) for name, cell in zip(header, row, strict=True)]


def _cell_spread(name: str, cell: Any, spread: float) -> float:
    if not isinstance(cell, float):
        return 0.0
    return abs(cell) * spread if RATIO.search(name) else spread


def value_range(values: Any) -> float:
    """The range of the finite numbers in nested lists, 0 without any."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        finite = values[np.isfinite(values)]
        return float(np.ptp(finite)) if finite.size else 0.0
    numbers = [x for x in _leaves(values) if is_number(x)]
    return float(max(numbers) - min(numbers)) if numbers else 0.0


def round_to_spread(value: float, spread: float) -> float:
    """A number as in files: six digits, or more if its spread needs them.

    >>> round_to_spread(0.12345678, 0.0), round_to_spread(2_020_000.123456, 0.1)
    (0.123457, 2020000.1235)
    """
    return float(f"{value:.{count_digits(value, spread, KEPT, KEPT_OF_SPREAD)}g}")


NUMBER = r"[-\u2212+]?[\d.,]+(?:e[-+]?\d+)?"


def is_number(x: Any) -> bool:
    """True for a finite number."""
    return isinstance(x, int | float | np.number) and not isinstance(x, bool) and math.isfinite(x)


def _leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, np.ndarray):
        yield from values.ravel().tolist()
    elif isinstance(values, Iterable) and not isinstance(values, str):
        for value in values:
            yield from _leaves(value)
    else:
        yield values
