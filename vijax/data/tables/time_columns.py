"""Columns of times: how they are written, their numbers, and what their names say of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Real

from vijax.data.reading.checks import fail
from vijax.data.reading.parquet_values import EXACT
from vijax.data.tables import dates
from vijax.data.tables.columns import RowName, are_missing, as_numbers, not_numbers
from vijax.data.tables.rows_in_time import NUMBER, GroupedRows
from vijax.data.tables.time_names import (
    CLOCKS,
    COUNTERS,
    PARTS,
    STEPS,
    is_called_a_time,
    part_of_date,
    plain_name,
    sounds_of_time,
)

LEAST_USUAL = 0.5
"""The share of cells of one format from which on the others are mistakes."""
WRITE_DATES = (
    "write dates as 2024-05-31, with a time as 2024-05-31 14:30:00, to the microsecond at most"
)


class TimeColumn(NamedTuple):
    """A column that may order rows.

    Attributes:
      name: its name.
      format: how it is written.
      numbers: its times as numbers, NaN where one is missing.
      kind: "date", "clock", "step", "part", "counter", "word" (its name sounds of time), or ""
          (numbers alone).
    """

    name: str
    format: str
    numbers: Real[np.ndarray, " N"]
    kind: str

    @property
    def coarseness(self) -> int:
        """The place of a part of a date among all parts; dates come first, times of a day beside
        hours."""
        if self.kind == "date":
            return -1
        part = (
            "hour"
            if self.format == dates.TIME_OF_DAY or self.kind == "clock"
            else part_of_date(self.name)
        )
        return list(PARTS).index(part or "hour")

    @property
    def is_whole(self) -> bool:
        """True of whole numbers, or dates."""
        there = self.numbers[np.isfinite(self.numbers)]
        return self.format != NUMBER or bool(np.all(there == np.floor(there)))


def _numbers(values: np.ndarray) -> np.ndarray | None:
    """The values as numbers, whole ones that floats do not hold as integers; None where one is
    text, or none is a number."""
    if values.dtype == object and not_numbers(values).any():
        return None
    if (integers := _long_integers(values)) is not None:
        return integers
    numbers = as_numbers(values)
    return numbers if np.isfinite(numbers).any() else None


def _long_integers(values: np.ndarray) -> np.ndarray | None:
    """Whole numbers of which floats do not hold all, as integers; None of others."""
    if (
        values.dtype.kind not in "iu"
        or not len(values)
        or max(abs(int(values.min())), int(values.max())) < EXACT
    ):
        return None
    return values.astype(np.int64) if int(values.max()) < 2**63 else None


def are_numbers(values: np.ndarray) -> bool:
    """True of a column of numbers, some of which are there."""
    return _numbers(values) is not None


def as_time_column(name: str, values: np.ndarray, rows: GroupedRows) -> TimeColumn | None:
    """The column as one that may order rows; None where it cannot."""
    numbers = _numbers(values)
    if numbers is not None:
        kind = _kind(name, numbers, rows)
        if kind == "clock" and (seconds := _compact_dates(numbers)) is not None:
            return TimeColumn(name, dates.COMPACT, seconds, "date")
        return TimeColumn(name, NUMBER, numbers, kind)
    missing = are_missing(values)
    cells = [str(value) for value in values[~missing]]
    fitting = _fitting_formats(name, cells)
    if not fitting:
        return None
    numbers_of = {
        form: dates.read_dates([str(value) for value in values], form) for form in fitting
    }
    if len(fitting) > 1:
        fitting = [
            form for form in fitting if not missing.any() and rows.never_falls(numbers_of[form])
        ] or fitting
    if tuple(fitting) in dates.SLASHES:
        return None  # day or month first? `unclear_day` says so
    kind = "part" if fitting[0] in (dates.MONTH, dates.TIME_OF_DAY) else "date"
    return TimeColumn(name, fitting[0], numbers_of[fitting[0]], kind)


def _fitting_formats(name: str, cells: list[str]) -> list[str]:
    """The formats that fit all cells. Years of two digits count where the name says that these are
    times: 1.2.10 may be a version, or a section."""
    fitting = dates.fitting_formats(cells)
    if is_called_a_time(name) or sounds_of_time(name):
        return fitting
    return [form for form in fitting if not dates.have_short_years(cells, form)]


def _compact_dates(numbers: np.ndarray) -> np.ndarray | None:
    """Numbers such as 20240531 as seconds since 1970; None where one is no date."""
    if numbers.dtype.kind != "f" or np.any(numbers != np.floor(numbers)):
        return None
    seconds = dates.read_dates([f"{number:.0f}" for number in numbers], dates.COMPACT)
    return seconds if np.isfinite(seconds).all() else None


class UnreadTimes(NamedTuple):
    """A column that should be one of times by its name or by most of its cells, and cannot be read
    as such.

    Attributes:
      name: its name.
      row: the first row whose cell is not read.
      cell: that cell.
      num_cells: how many such cells there are.
      is_certain: whether it holds times without doubt: its name is one of times, and its cells have
          digits.
    """

    name: str
    row: int
    cell: str
    num_cells: int
    is_certain: bool

    def cells_text(self, at: RowName) -> str:
        """The cells in the words of an error."""
        return f"{self.cell[:40]!r} in {at(self.row)} ({self.num_cells:,} such)"


def unread_times(name: str, values: np.ndarray) -> UnreadTimes | None:
    """The part of a column of times that cannot be read; None of others, and of those that can be
    or are unclear."""
    if _numbers(values) is not None or values.dtype != object or unclear_day(values) is not None:
        return None
    missing = are_missing(values)
    cells = [str(value) for value in values]
    there = [cell for cell, gap in zip(cells, missing, strict=True) if not gap]
    form, share = dates.nearest_format(there)
    is_usual = share >= LEAST_USUAL
    is_clock = plain_name(name) in CLOCKS
    if not (is_usual or is_clock):
        return None
    seconds = dates.read_dates(cells, form)
    unread = np.flatnonzero(~np.isfinite(seconds) & ~missing)
    if not len(unread):
        return None
    with_digits = sum(any(letter.isdigit() for letter in cell) for cell in there)
    has_a_name = is_clock or is_called_a_time(name) or sounds_of_time(name)
    is_certain = has_a_name and (is_usual or 2 * with_digits >= len(there))
    return UnreadTimes(name, int(unread[0]), cells[unread[0]], len(unread), is_certain)


def unclear_day(values: np.ndarray) -> str | None:
    """The first of dates of which nobody can tell the day from the month; None of other columns."""
    if values.dtype != object:
        return None
    cells = [str(value) for value in values[~are_missing(values)]]
    return cells[0] if tuple(dates.fitting_formats(cells)) in dates.SLASHES else None


def _kind(name: str, numbers: np.ndarray, rows: GroupedRows) -> str:
    """The part of time that the name of a column of numbers says, where the numbers do not belie
    it."""
    plain = plain_name(name)
    there = numbers[np.isfinite(numbers)]
    is_whole = bool(np.all(there == np.floor(there)))
    is_complete = len(there) == len(numbers)
    if plain in CLOCKS:
        return "clock"
    if part_of_date(name):
        if is_whole or part_of_date(name) == "year" or (is_complete and rows.rises(numbers)):
            return "part"
        return ""
    if plain in STEPS:
        return "step" if is_whole or (is_complete and rows.rises(numbers)) else ""
    if plain in COUNTERS:
        return "counter" if is_whole else ""
    return "word" if sounds_of_time(name) else ""


def find_format(values: np.ndarray, name: str, where: str, at: RowName) -> str:
    """The way in which a column that orders rows is written. Raises DataError: it is not one of
    times."""
    if _numbers(values) is not None:
        return NUMBER
    place = f"{where}, data.order {name!r}"
    cells = [str(value) for value in values[~are_missing(values)]]
    fitting = dates.fitting_formats(cells)
    if not fitting:
        unread = unread_times(name, values)
        got = (
            repr(next(iter(cells), "")) + ", among others"
            if unread is None
            else unread.cells_text(at)
        )
        expected = "numbers, or dates of one format, such as 2024-05-31, 31.05.2024 or 2024Q2"
        raise fail(place, expected, got, "correct the cells, or name another column")
    if tuple(fitting) in dates.SLASHES:
        got = f"{cells[0]!r}, whose day may come first or second"
        raise fail(place, "dates of one meaning", got, "write them as 2024-05-31")
    return fitting[0]


def read_times(values: np.ndarray, name: str, form: str, where: str, at: RowName) -> TimeColumn:
    """A column of times in a known format. Raises DataError: a cell is missing, or is not written
    in it."""
    place = f"{where}, data.order {name!r}"
    if form == NUMBER:
        integers = _long_integers(values)
        numbers = (
            as_numbers(values, place, at, "write it as a number") if integers is None else integers
        )
    else:
        cells = [str(value).strip() for value in values]
        numbers = dates.read_dates(cells, form)
        if (
            form in dates.OF_DAYS and form != dates.WITH_ZONE
        ):  # dates with a type are written so, and leave no doubt
            numbers = np.where(np.isfinite(numbers), numbers, dates.read_dates(cells, dates.ISO))
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        row = int(bad[0])
        got = f"{str(values[row])[:40]!r} in {at(row)} ({len(bad)} such)"
        expected = (
            "a number in every row" if form == NUMBER else f"a date in every row, written as {form}"
        )
        raise fail(place, expected, got, "correct or remove those rows")
    if form == NUMBER:
        kind = ""
    elif form in (dates.MONTH, dates.TIME_OF_DAY):
        kind = "part"
    else:
        kind = "date"
    return TimeColumn(name, form, numbers, kind)
