"""Columns of times: their formats, their numbers, and the meaning of their names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Real

from vijax.data.reading.checks import fail
from vijax.data.reading.parquet_values import EXACT
from vijax.data.schema.name_words import (
    CLOCKS,
    COUNTERS,
    PARTS,
    STEPS,
    is_called_a_time,
    part_of_date,
    plain_name,
    sounds_of_time,
)
from vijax.data.tables import dates
from vijax.data.tables.columns import RowName, are_missing, as_numbers, not_numbers
from vijax.data.tables.rows_in_time import NUMBER, GroupedRows

LEAST_USUAL = 0.5
"""Least share of cells of one format by which the other cells are taken for mistakes."""
WRITE_DATES = (
    "write dates as 2024-05-31, with a time as 2024-05-31 14:30:00, to the microsecond at most"
)


class TimeColumn(NamedTuple):
    """A column that may order rows.

    Attributes:
      name: its name.
      format: its format.
      numbers: its times as numbers, NaN for missing ones.
      kind: "date", "clock", "step", "part", "counter", "word" (its name has a word of time), or ""
        (only numbers).
    """

    name: str
    format: str
    numbers: Real[np.ndarray, " N"]
    kind: str

    @property
    def coarseness(self) -> int:
        """The place of a part of a date among all parts, coarsest first; dates come first, times of
        a day go with hours."""
        if self.kind == "date":
            return -1
        part = "hour"
        if self.format != dates.TIME_OF_DAY and self.kind != "clock":
            part = part_of_date(self.name) or "hour"
        return list(PARTS).index(part)

    @property
    def is_whole(self) -> bool:
        """True for whole numbers, or dates."""
        finite = self.numbers[np.isfinite(self.numbers)]
        return self.format != NUMBER or bool(np.all(finite == np.floor(finite)))


def _numbers(values: np.ndarray) -> np.ndarray | None:
    """The values as numbers, as integers if floats do not hold them; None if one is text, or none
    is a number."""
    if values.dtype == object and not_numbers(values).any():
        return None
    if (integers := _long_integers(values)) is not None:
        return integers
    numbers = as_numbers(values)
    if not np.isfinite(numbers).any():
        return None
    return numbers


def _long_integers(values: np.ndarray) -> np.ndarray | None:
    """Whole numbers as integers, if floats do not hold all of them; else None."""
    if values.dtype.kind not in "iu" or not len(values):
        return None
    if max(abs(int(values.min())), int(values.max())) < EXACT:
        return None
    if int(values.max()) >= 2**63:
        return None
    return values.astype(np.int64)


def are_numbers(values: np.ndarray) -> bool:
    """True for a column of numbers that are not all missing."""
    return _numbers(values) is not None


def as_time_column(name: str, values: np.ndarray, rows: GroupedRows) -> TimeColumn | None:
    """The column as one that may order rows; None if it cannot."""
    numbers = _numbers(values)
    if numbers is not None:
        kind = _kind(name, numbers, rows)
        if kind == "clock" and (seconds := _compact_dates(numbers)) is not None:
            return TimeColumn(name, dates.COMPACT, seconds, "date")
        return TimeColumn(name, NUMBER, numbers, kind)
    missing = are_missing(values)
    texts = [str(value) for value in values]
    cells = [str(value) for value in values[~missing]]
    fitting = _fitting_formats(name, cells)
    if not fitting:
        return None
    by_format = {form: dates.read_dates(texts, form) for form in fitting}
    if len(fitting) > 1 and not missing.any():
        fitting = [form for form in fitting if rows.never_falls(by_format[form])] or fitting
    if tuple(fitting) in dates.SLASHES:
        return None  # `unclear_day` reports that the day or the month may be first
    form = fitting[0]
    kind = "part" if form in (dates.MONTH, dates.TIME_OF_DAY) else "date"
    return TimeColumn(name, form, by_format[form], kind)


def _fitting_formats(name: str, cells: list[str]) -> list[str]:
    """The formats that fit all cells. Years of two digits count only if the name is one of times:
    1.2.10 may be a version, or a section."""
    fitting = dates.fitting_formats(cells)
    if is_called_a_time(name) or sounds_of_time(name):
        return fitting
    return [form for form in fitting if not dates.have_short_years(cells, form)]


def _compact_dates(numbers: np.ndarray) -> np.ndarray | None:
    """Numbers such as 20240531 as seconds since 1970; None if one is no date."""
    if numbers.dtype.kind != "f" or np.any(numbers != np.floor(numbers)):
        return None
    seconds = dates.read_dates([f"{number:.0f}" for number in numbers], dates.COMPACT)
    if not np.isfinite(seconds).all():
        return None
    return seconds


class UnreadTimes(NamedTuple):
    """A column of times, by its name or by most of its cells, with cells that cannot be read.

    Attributes:
      name: its name.
      row: the first row whose cell is not read.
      cell: that cell.
      num_cells: number of such cells.
      is_certain: whether it surely holds times: its name is one of times, and its cells have
        digits.
    """

    name: str
    row: int
    cell: str
    num_cells: int
    is_certain: bool

    def cells_text(self, at: RowName) -> str:
        """The cells, as the text of an error."""
        return f"{self.cell[:40]!r} in {at(self.row)} ({self.num_cells:,} such)"


def unread_times(name: str, values: np.ndarray) -> UnreadTimes | None:
    """The part of a column of times that cannot be read; None for other columns, and for times that
    can be read or are unclear."""
    if _numbers(values) is not None or values.dtype != object or unclear_day(values) is not None:
        return None
    missing = are_missing(values)
    cells = [str(value) for value in values]
    present = [cell for cell, is_empty in zip(cells, missing, strict=True) if not is_empty]
    form, share = dates.nearest_format(present)
    is_usual = share >= LEAST_USUAL
    is_clock = plain_name(name) in CLOCKS
    if not (is_usual or is_clock):
        return None
    seconds = dates.read_dates(cells, form)
    unread = np.flatnonzero(~np.isfinite(seconds) & ~missing)
    if not len(unread):
        return None
    with_digits = sum(any(letter.isdigit() for letter in cell) for cell in present)
    has_a_name = is_clock or is_called_a_time(name) or sounds_of_time(name)
    is_certain = has_a_name and (is_usual or 2 * with_digits >= len(present))
    return UnreadTimes(name, int(unread[0]), cells[unread[0]], len(unread), is_certain)


def unclear_day(values: np.ndarray) -> str | None:
    """The first of dates whose day cannot be told from the month; None for other columns."""
    if values.dtype != object:
        return None
    cells = [str(value) for value in values[~are_missing(values)]]
    if tuple(dates.fitting_formats(cells)) not in dates.SLASHES:
        return None
    return cells[0]


def _kind(name: str, numbers: np.ndarray, rows: GroupedRows) -> str:
    """The kind of time that a column of numbers has by its name, unless its numbers contradict
    it."""
    plain = plain_name(name)
    finite = numbers[np.isfinite(numbers)]
    is_whole = bool(np.all(finite == np.floor(finite)))
    is_complete = len(finite) == len(numbers)
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
    """The format of a column that orders rows. Raises DataError if it is not one of times."""
    if _numbers(values) is not None:
        return NUMBER
    place = f"{where}, data.order {name!r}"
    cells = [str(value) for value in values[~are_missing(values)]]
    fitting = dates.fitting_formats(cells)
    if not fitting:
        unread = unread_times(name, values)
        actual = repr(next(iter(cells), "")) + ", among others"
        if unread is not None:
            actual = unread.cells_text(at)
        expected = "numbers, or dates of one format, such as 2024-05-31, 31.05.2024 or 2024Q2"
        raise fail(place, expected, actual, "correct the cells, or name another column")
    if tuple(fitting) in dates.SLASHES:
        actual = f"{cells[0]!r}, whose day may come first or second"
        raise fail(place, "dates of one meaning", actual, "write them as 2024-05-31")
    return fitting[0]


def read_times(values: np.ndarray, name: str, form: str, where: str, at: RowName) -> TimeColumn:
    """A column of times in a known format. Raises DataError if a cell is missing, or has another
    format."""
    place = f"{where}, data.order {name!r}"
    kind = "date"
    if form == NUMBER:
        kind = ""
        expected = "a number in every row"
        numbers = _long_integers(values)
        if numbers is None:
            numbers = as_numbers(values, place, at, "write it as a number")
    else:
        if form in (dates.MONTH, dates.TIME_OF_DAY):
            kind = "part"
        expected = f"a date in every row, written as {form}"
        cells = [str(value).strip() for value in values]
        numbers = dates.read_dates(cells, form)
        if form in dates.OF_DAYS and form != dates.WITH_ZONE:
            # Dates with a type are written as ISO dates, which leave no doubt.
            numbers = np.where(np.isfinite(numbers), numbers, dates.read_dates(cells, dates.ISO))
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        row = int(bad[0])
        actual = f"{str(values[row])[:40]!r} in {at(row)} ({len(bad)} such)"
        raise fail(place, expected, actual, "correct or remove those rows")
    return TimeColumn(name, form, numbers, kind)
