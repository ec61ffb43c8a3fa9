"""Slices of time: the places of documents in time, cut into periods, and the gaps between them."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require
from vijax.data.tables.periods import Every, days_format, days_in_format, name_period

PERIODS: tuple[Every, ...] = ("year", "quarter", "month", "week", "day")
FEWEST = 5
"""Slices from which a period is fine enough, where none is asked for."""
NO_TIMES = {"None", "nan", "NaT", "<NA>", "True", "False"}
"""Values that stand for a missing time, as texts."""
MONDAY = datetime.date(1970, 1, 5)
"""The Monday from which weeks are counted."""


@dataclasses.dataclass(frozen=True, eq=False)
class Slices:
    """The slices of time of the documents of training, in order.

    Attributes:
      names: a name of each slice: "1994", "2024-Q2", "17".
      places: the place of each slice in time, in units of `period`: years, months, or as given.
      period: the period that makes a slice of dates; the width of a slice of numbers; None for a
        slice of each number.
      dates: the format of dates; "" for numbers.

    >>> slices = Slices.read(["2001-03-01", "2003-05-02", "2001-11-30"], "year")
    >>> slices.names, slices.gaps.tolist(), slices.find(["2003-12-31", "2002-01-01"]).tolist()
    (('2001', '2003'), [1.0], [1, -1])
    """

    names: tuple[str, ...]
    places: Float[np.ndarray, " T"]
    period: Every | float | None
    dates: str

    @classmethod
    def read(cls, times: Any, every: Any = None, argument: str = "times") -> Slices:
        """The slices of a column of dates or numbers.

        Raises:
          ValueError: a time that is missing or cannot be read, or a period that does not suit.
        """
        cells = _cells(times, argument)
        require(len(cells) > 0, argument, "a time for each document", "none")
        _require_no_blank(cells, argument)
        numbers = _numbers(cells)
        if numbers is not None:
            _require_no_days(cells, argument)
            years = every == "year" and np.all(numbers == np.floor(numbers))
            is_width = every is None or (_is_number(every) and 0 < every < np.inf)
            expected = (
                "None, or the width of a slice, a positive number, for times that are numbers"
            )
            remedy = "Write dates as 2024-05-31 for slices of years or months."
            require(is_width or years, "every", expected, repr(every), remedy)
            width = None
            if every is not None and not years:
                width = float(every)
            places = np.unique(_floor(numbers, width))
            return cls(tuple(map(_number_text, places)), places, width, "")
        name = days_format(cells)
        remedy = "Write dates as 2024-05-31."
        example = f"{len(set(cells)):,} different, such as {sorted(set(cells))[0]!r}"
        require(name is not None, argument, "numbers, or dates of one format", example, remedy)
        days = days_in_format(cells, name or "")
        _require_read(cells, days, argument)
        require(every is None or every in PERIODS, "every", f"one of {PERIODS}", repr(every))
        period = every or _suitable_period(days)
        pairs = sorted({(_place(day, period), name_period(day, period)) for day in days})
        places = np.array([place for place, _ in pairs], float)
        return cls(tuple(text for _, text in pairs), places, period, name or "")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def gaps(self) -> Float[np.ndarray, " S"]:
        """Gaps between slices, in units of their median."""
        return np.diff(self.places) / self.usual_gap

    @property
    def usual_gap(self) -> float:
        """The median gap between slices; 1 for a single slice."""
        return float(np.median([*np.diff(self.places)] or [1.0]))

    @functools.cached_property
    def mark(self) -> str:
        """A text that identifies these slices."""
        learnt = [self.names, self.places.tolist(), self.period, self.dates]
        return "slices " + hashlib.blake2b(repr(learnt).encode(), digest_size=16).hexdigest()

    def read_places(self, times: Any, argument: str = "times") -> Float[np.ndarray, " docs"]:
        """The places of other documents in time. ValueError at a time that cannot be read."""
        cells = _cells(times, argument)
        _require_no_blank(cells, argument)
        if self.dates:
            days = days_in_format(cells, self.dates)
            _require_read(cells, days, argument, self.dates)
            place: Any = functools.partial(_place, every=self.period)  # type: ignore[arg-type]
            return np.array([*map(place, days)], float)
        numbers = _numbers(cells)
        if numbers is None:
            bad = next(cell for cell in cells if _numbers([cell]) is None)
            raise ValueError(f"{argument}: expected numbers, as training has, got {bad!r}.")
        return _floor(numbers, self.period)

    def find(self, times: Any, argument: str = "times") -> Int[np.ndarray, " docs"]:
        """The slices of other documents; -1 for a time that is in none."""
        places = self.read_places(times, argument)
        index = np.searchsorted(self.places, places).clip(max=len(self) - 1)
        return np.where(self.places[index] == places, index, -1)

    def nearest(self, times: Any, argument: str = "times") -> Int[np.ndarray, " docs"]:
        """The slices of other documents, or the nearest one: of two the earlier."""
        places = self.read_places(times, argument)
        later = np.searchsorted(self.places, places).clip(max=len(self) - 1)
        earlier = (later - 1).clip(0)
        is_nearer = self.places[later] - places < places - self.places[earlier]
        return np.where(is_nearer, later, earlier)


def _cells(times: Any, argument: str) -> list[str]:
    """Times as texts; "" where one is missing."""
    is_text = isinstance(times, str)
    require(not is_text, argument, "a time for each document", repr(times))
    values = np.asarray(times)
    if isinstance(times, Sequence):
        values = np.asarray(times, object)
    require(values.ndim == 1, argument, "one axis", f"shape {values.shape}")
    if values.dtype.kind == "M":
        values = values.astype("datetime64[D]").astype(str)
    is_boolean = values.dtype.kind == "b" or any(isinstance(value, bool) for value in values)
    remedy = "Give the dates or numbers themselves."
    require(not is_boolean, argument, "dates or numbers", "booleans", remedy)
    return [_text(value) for value in values.tolist()]


def _text(value: Any) -> str:
    """A time as text."""
    if isinstance(value, float) and not np.isnan(value):
        return _number_text(value)
    if hasattr(value, "isoformat"):
        value = value.isoformat()
    text = str(value).strip()
    if text in NO_TIMES:
        return ""
    return text


def _number_text(number: float) -> str:
    """A number as it is usually written: 1994, not 1994.0."""
    return f"{float(number):.15g}"


def _require_no_blank(cells: Sequence[str], argument: str) -> None:
    blank = next((i for i, cell in enumerate(cells) if not cell), -1)
    remedy = "Leave out documents without a time."
    require(blank < 0, argument, "a time for each document", f"none in row {blank}", remedy)


def _require_read(cells: Sequence[str], days: Sequence[str], argument: str, name: str = "") -> None:
    bad = next((cell for cell, day in zip(cells, days, strict=True) if not day), "")
    expected = f"dates of the format {name or 'of the others'}"
    require(not bad, argument, expected, repr(bad), "Write dates as 2024-05-31.")


def _numbers(cells: Sequence[str]) -> Float[np.ndarray, " docs"] | None:
    """The numbers that all cells are; None if some are none."""
    try:
        numbers = np.array([float(cell) for cell in cells])
    except ValueError:
        return None
    if not np.isfinite(numbers).all():
        return None
    return numbers


def _require_no_days(cells: Sequence[str], argument: str) -> None:
    """ValueError at days such as 20240531, which are no numbers with even steps."""
    are_days = all(len(cell) == 8 and cell.isdecimal() for cell in cells)
    remedy = "Write days as 2024-05-31."
    actual = f"{cells[0]!r}, days without marks"
    require(not are_days, argument, "numbers, or dates", actual, remedy)


def _floor(numbers: Float[np.ndarray, " docs"], width: Any) -> Float[np.ndarray, " docs"]:
    """The lower ends of intervals of this width that hold numbers; None leaves them.

    >>> _floor(np.array([0.1, 0.3, 0.35]), 0.1).round(2).tolist()  # 0.3 / 0.1 is less than 3
    [0.1, 0.3, 0.3]
    """
    if width is None:
        return numbers
    ratio = numbers / width
    integer = np.round(ratio)
    is_integer = np.isclose(ratio, integer, rtol=1e-12, atol=0)
    return np.where(is_integer, integer, np.floor(ratio)) * width


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _suitable_period(days: Sequence[str]) -> Every:
    """The longest period with `FEWEST` slices or more; else days."""
    for period in PERIODS:
        if len({name_period(day, period) for day in days}) >= FEWEST:
            return period
    return PERIODS[-1]


def _place(day: str, every: Every) -> float:
    """The number of a period, from a day in it."""
    date = datetime.date.fromisoformat(day)
    if every == "year":
        return date.year
    if every == "quarter":
        return 4 * date.year + (date.month - 1) // 3
    if every == "month":
        return 12 * date.year + date.month - 1
    days = (date - MONDAY).days
    if every == "week":
        return days // 7
    return days
