"""Dates in text columns: their formats, and cells as seconds since 1970 or months since year 0."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

EPOCH = datetime.datetime(1970, 1, 1)
DAY = 86400.0
"""Seconds in a day."""
FIRST_OF_TWO_DIGITS = 69
"""Years of two digits are 1969 to 2068, as in POSIX."""
HALF = r"(?:\s?([AaPp])\.?[Mm]\.?)?"
"""The half of the day on a twelve-hour clock."""
OF_DAY = rf"(\d{{1,2}}):(\d{{2}})(?::(\d{{2}}(?:\.\d+)?))?{HALF}"
CLOCK = rf"(?:[T ]{OF_DAY})?"
WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +)?"
YEAR = r"(\d{4}|\d{2})"
TOO_FINE = re.compile(r"\.\d{6}\d*[1-9]")
"""Fractions of a second below the microsecond, which floats of seconds since 1970 do not hold."""
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
NAME = r"([A-Za-z]{3,9})\.?"


def _moment(year: str, month: int, day: str | int, clock: Sequence[str | None] = ()) -> float:
    """Seconds since 1970."""
    seconds = (datetime.datetime(_whole_year(year), month, int(day)) - EPOCH).total_seconds()
    return seconds + (_seconds_of_day(*clock) if clock else 0.0)


def _whole_year(year: str) -> int:
    """A year from four digits, or from its last two."""
    number = int(year)
    if len(year) > 2:
        return number
    return number + (1900 if number >= FIRST_OF_TWO_DIGITS else 2000)


def _seconds_of_day(
    hours: str | None, minutes: str | None, seconds: str | None, half: str | None
) -> float:
    """Seconds since midnight; `half` is "a" or "p" on a twelve-hour clock."""
    hour, minute, second = (float(part or 0) for part in (hours, minutes, seconds))
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError("no hour of a clock of twelve")
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    if hour > 24 or minute > 59 or second >= 61:
        raise ValueError("no time of day")
    return 3600 * hour + 60 * minute + second


def _iso(cell: str) -> float:
    """Seconds since 1970 of a date without a zone."""
    moment = datetime.datetime.fromisoformat(cell)
    if moment.tzinfo is not None:
        raise ValueError("a date with a zone")
    return (moment - EPOCH).total_seconds()


def _iso_with_zone(cell: str) -> float:
    """Seconds since 1970 of a date with a zone, in UTC."""
    moment = datetime.datetime.fromisoformat(cell)
    if moment.tzinfo is None:
        raise ValueError("a date without a zone")
    return (moment.astimezone(datetime.UTC).replace(tzinfo=None) - EPOCH).total_seconds()


def _compact(cell: str) -> float:
    """Seconds since 1970 of a date such as 20240531."""
    if re.fullmatch(r"(1[5-9]|2\d)\d{6}", cell) is None:
        raise ValueError(cell)
    return _moment(cell[:4], int(cell[4:6]), cell[6:])


def _month_number(name: str) -> int:
    """The number of a month, from its English name or the first three or four letters of it;
    ValueError for other names."""
    name = name.lower()
    for number, month in enumerate(MONTHS, 1):
        if name in (month, month[:3], month[:4]):
            return number
    raise ValueError(name)


def _pattern_reader(pattern: str, read: Callable[..., float]) -> Callable[[str], float]:
    """A reader of cells that match a pattern; ValueError for other cells."""
    compiled = re.compile(pattern)

    def reader(cell: str) -> float:
        match = compiled.fullmatch(cell)
        if match is None:
            raise ValueError(cell)
        return read(*match.groups())

    return reader


MONTH = "month"
TIME_OF_DAY = "hour:minute"
"""Formats of parts of a date."""
ISO = "year-month-day"
WITH_ZONE = "year-month-day with a zone"
COMPACT = "yearmonthday"
SLASH = rf"(\d{{1,2}})[/-](\d{{1,2}})[/-](\d{{4}})(?:,? {OF_DAY})?"
SHORT_SLASH = rf"(\d{{1,2}})/(\d{{1,2}})/(\d{{2}})(?:,? {OF_DAY})?"
IN_MONTHS = ("year-month", "month/year", "year-quarter", "quarter year", "month year")
"""Formats whose unit is the month."""


def _slash_reader(pattern: str, day_first: bool) -> Callable[[str], float]:
    """A reader of dates whose day and month are numbers before the year."""

    def read(first: str, second: str, year: str, *clock: str | None) -> float:
        day, month = (first, second) if day_first else (second, first)
        return _moment(year, int(month), day, clock)

    return _pattern_reader(pattern, read)


FORMATS: dict[str, Callable[[str], float]] = {
    "year-month": _pattern_reader(
        r"(\d{4})[-/M](\d{1,2})", lambda year, month: _months(year, int(month))
    ),
    "month/year": _pattern_reader(
        r"(\d{1,2})[/.](\d{4})", lambda month, year: _months(year, int(month))
    ),
    "year-quarter": _pattern_reader(
        r"(\d{4})[- ]?[Qq]([1-4])", lambda year, quarter: _months(year, 3 * int(quarter) - 2)
    ),
    "quarter year": _pattern_reader(
        r"[Qq]([1-4])[-/ ]?(\d{4})", lambda quarter, year: _months(year, 3 * int(quarter) - 2)
    ),
    "month year": _pattern_reader(
        rf"{NAME}[- ]+(\d{{4}})", lambda name, year: _months(year, _month_number(name))
    ),
    ISO: _iso,
    WITH_ZONE: _iso_with_zone,
    "year/month/day": _pattern_reader(
        rf"(\d{{4}})[/.](\d{{1,2}})[/.](\d{{1,2}}){CLOCK}",
        lambda year, month, day, *clock: _moment(year, int(month), day, clock),
    ),
    "year年month月day日": _pattern_reader(
        rf"(\d{{4}})\s?年\s?(\d{{1,2}})\s?月\s?(\d{{1,2}})\s?日{CLOCK}",
        lambda year, month, day, *clock: _moment(year, int(month), day, clock),
    ),
    "day.month.year": _pattern_reader(
        rf"(\d{{1,2}})\.\s?(\d{{1,2}})\.\s?{YEAR}(?:,?[T ]{OF_DAY})?",
        lambda day, month, year, *clock: _moment(year, int(month), day, clock),
    ),
    "day/month/year": _slash_reader(SLASH, day_first=True),
    "month/day/year": _slash_reader(SLASH, day_first=False),
    "day/month/yy": _slash_reader(SHORT_SLASH, day_first=True),
    "month/day/yy": _slash_reader(SHORT_SLASH, day_first=False),
    "day month year": _pattern_reader(
        rf"{WEEKDAY}(\d{{1,2}})[- .]*{NAME}[-, ]*{YEAR}{CLOCK}",
        lambda day, name, year, *clock: _moment(year, _month_number(name), day, clock),
    ),
    "month day, year": _pattern_reader(
        rf"{WEEKDAY}{NAME} (\d{{1,2}}),? (\d{{4}}){CLOCK}",
        lambda name, day, year, *clock: _moment(year, _month_number(name), day, clock),
    ),
    "month day time year": _pattern_reader(
        rf"{WEEKDAY}{NAME} +(\d{{1,2}}) {OF_DAY} (\d{{4}})",
        lambda name, day, *rest: _moment(rest[-1], _month_number(name), day, rest[:-1]),
    ),
    MONTH: _pattern_reader(NAME, lambda name: float(_month_number(name))),
    TIME_OF_DAY: _pattern_reader(OF_DAY, _seconds_of_day),
    COMPACT: _compact,
}
"""Readers of a cell by the name of the format: seconds since 1970, or months since year 0."""
OF_DAYS = tuple(name for name in FORMATS if name not in (*IN_MONTHS, MONTH, TIME_OF_DAY))
"""Formats whose numbers are seconds since 1970."""
SLASHES = (("day/month/year", "month/day/year"), ("day/month/yy", "month/day/yy"))
"""Formats that the cells alone may not distinguish."""
SHORT_YEARS = {
    "day.month.year": re.compile(r"\d{1,2}\.\s?\d{1,2}\.\s?\d{2}(?!\d)"),
    "day month year": re.compile(r"[^:]*[A-Za-z.][-, ]*\d{2}(?!\d)"),
    "day/month/yy": re.compile(""),
    "month/day/yy": re.compile(""),
}
"""Beginnings of cells whose year has two digits, by format."""


def _months(year: str, month: int) -> float:
    if not 1 <= month <= 12:
        raise ValueError("no month")
    return 12.0 * _whole_year(year) + month - 1


def fitting_formats(cells: Sequence[str]) -> list[str]:
    """The formats that fit all cells; the first and the last cell are tried first.

    >>> fitting_formats(["2024-05-31", "2024-06-01"]), fitting_formats(["13/05/2024"]), fitting_formats(["5/6/2024"])
    (['year-month-day'], ['day/month/year'], ['day/month/year', 'month/day/year'])
    >>> fitting_formats(["2016Q1"]), fitting_formats(["May"]), fitting_formats(["12/31/2023 11:40 PM"])
    (['year-quarter'], ['month'], ['month/day/year'])
    """
    if not len(cells):
        return []
    texts = [name for name in FORMATS if name != COMPACT]
    return [name for name in texts if _fits(name, (cells[0], cells[-1])) and _fits(name, cells)]


def nearest_format(cells: Sequence[str]) -> tuple[str, float]:
    """The format that fits most cells, and the share of cells that it fits.

    >>> nearest_format(["2024-05-30", "unknown", "2024-06-01", "2024-06-02"]), nearest_format(["red", "blue"])[1]
    (('year-month-day', 0.75), 0.0)
    """
    nearest = max(FORMATS, key=lambda name: np.isfinite(read_dates(cells[:MOST_TRIED], name)).sum())
    return nearest, float(np.isfinite(read_dates(cells, nearest)).mean()) if len(cells) else 0.0


MOST_TRIED = 200
"""The most cells on which every format is tried."""


def have_short_years(cells: Sequence[str], name: str) -> bool:
    """True if years of two digits are read with a guessed century.

    >>> have_short_years(["05.12.23"], "day.month.year"), have_short_years(["05.12.2023"], "day.month.year")
    (True, False)
    """
    return name in SHORT_YEARS and any(SHORT_YEARS[name].match(cell) for cell in cells)


def _fits(name: str, cells: Sequence[str]) -> bool:
    try:
        for cell in cells:
            _number(cell, name)
    except (ValueError, OverflowError):
        return False
    return True


def _number(cell: str, name: str) -> float:
    """A cell as a number; ValueError for a cell in another format."""
    if TOO_FINE.search(cell):
        raise ValueError("finer than a microsecond")
    return FORMATS[name](cell)


def read_dates(cells: Sequence[str], name: str) -> Float[np.ndarray, " N"]:
    """The cells as numbers, NaN for cells in another format."""

    def number(cell: str) -> float:
        try:
            return _number(cell, name)
        except (ValueError, OverflowError):
            return np.nan

    return np.array([number(cell) for cell in cells], float)


def format_date(number: float, name: str) -> str:
    """A number of `read_dates` as text that `read_dates` reads: for dates in ISO 8601, with the
    zone UTC if the format has zones.

    >>> format_date(FORMATS["day.month.year"]("31.05.2024"), "day.month.year"), format_date(24192.0, "year-quarter")
    ('2024-05-31', '2016Q1')
    >>> format_date(0.25, "year-month-day"), format_date(3600.0, "year-month-day with a zone")
    ('1970-01-01 00:00:00.250', '1970-01-01 01:00:00+00:00')
    """
    if name in IN_MONTHS:
        year, month = divmod(int(number), 12)
        if "quarter" in name:
            return f"{year:04d}Q{month // 3 + 1}"
        return f"{year:04d}-{month + 1:02d}"
    moment = EPOCH + datetime.timedelta(seconds=float(number))
    clock = moment.time().isoformat(_precision(moment))
    if name == TIME_OF_DAY:
        return clock
    if name == WITH_ZONE:
        return f"{moment.date()} {clock}+00:00"
    if moment.time() == datetime.time(0):
        return str(moment.date())
    return f"{moment.date()} {clock}"


def _precision(moment: datetime.datetime) -> str:
    """The unit to which a moment is written, for `isoformat`."""
    if moment.microsecond == 0:
        return "seconds"
    return "microseconds" if moment.microsecond % 1000 else "milliseconds"
