"""Dates in text columns: the ways in which they are written, and cells as seconds or months since 1970."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

EPOCH = datetime.datetime(1970, 1, 1)
DAY = 86400.0
"""Seconds of a day."""
CLOCK = r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?)?"
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
NAME = r"([A-Za-z]{3,9})\.?"


def _moment(year: str, month: int, day: str | int, clock: Sequence[str | None] = ()) -> float:
    """Seconds since 1970."""
    seconds = (datetime.datetime(int(year), month, int(day)) - EPOCH).total_seconds()
    hours, minutes, rest = (float(part or 0) for part in (clock or (None, None, None)))
    if hours > 24 or minutes > 59 or rest >= 61:
        raise ValueError("no time of day")
    return seconds + 3600 * hours + 60 * minutes + rest


def _iso(cell: str) -> float:
    moment = datetime.datetime.fromisoformat(cell)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return (moment - EPOCH).total_seconds()


def _month_of(name: str) -> int:
    """The number of a month, by its English name or the first three or four letters of it; ValueError for others."""
    name = name.lower()
    known = [place for place, month in enumerate(MONTHS, 1) if name in (month, month[:3], month[:4])]
    if not known:
        raise ValueError(name)
    return known[0]


def _by(pattern: str, read: Callable[..., float]) -> Callable[[str], float]:
    """A reader of the cells that a pattern describes; ValueError for others."""
    compiled = re.compile(pattern)

    def reader(cell: str) -> float:
        match = compiled.fullmatch(cell)
        if match is None:
            raise ValueError(cell)
        return read(*match.groups())

    return reader


MONTH, TIME_OF_DAY = "month", "hour:minute"
"""Formats of parts of a date."""
SLASH = rf"(\d{{1,2}})[/-](\d{{1,2}})[/-](\d{{4}}){CLOCK}"
IN_MONTHS = ("year-month", "year-quarter", "month year")
"""Formats whose unit is the month."""
FORMATS: dict[str, Callable[[str], float]] = {
    "year-month": _by(r"(\d{4})[-/M](\d{1,2})", lambda year, month: _months(year, int(month))),
    "year-quarter": _by(r"(\d{4})[- ]?[Qq]([1-4])", lambda year, quarter: _months(year, 3 * int(quarter) - 2)),
    "month year": _by(rf"{NAME}[- ]+(\d{{4}})", lambda name, year: _months(year, _month_of(name))),
    "year-month-day": _iso,
    "year/month/day": _by(
        rf"(\d{{4}})[/.](\d{{1,2}})[/.](\d{{1,2}}){CLOCK}",
        lambda year, month, day, *clock: _moment(year, int(month), day, clock),
    ),
    "day.month.year": _by(
        rf"(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}}){CLOCK}",
        lambda day, month, year, *clock: _moment(year, int(month), day, clock),
    ),
    "day/month/year": _by(SLASH, lambda day, month, year, *clock: _moment(year, int(month), day, clock)),
    "month/day/year": _by(SLASH, lambda month, day, year, *clock: _moment(year, int(month), day, clock)),
    "day month year": _by(
        rf"(\d{{1,2}})[- ]*{NAME}[-, ]*(\d{{4}}){CLOCK}",
        lambda day, name, year, *clock: _moment(year, _month_of(name), day, clock),
    ),
    "month day, year": _by(
        rf"{NAME} (\d{{1,2}}),? (\d{{4}}){CLOCK}",
        lambda name, day, year, *clock: _moment(year, _month_of(name), day, clock),
    ),
    MONTH: _by(NAME, lambda name: float(_month_of(name))),
    TIME_OF_DAY: _by(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?", lambda *clock: _moment("1970", 1, 1, clock)),
}
"""Readers of a cell by the name of the format: seconds since 1970, or months since year 0."""
OF_DAYS = tuple(name for name in FORMATS if name not in (*IN_MONTHS, MONTH, TIME_OF_DAY))
"""Formats whose numbers are seconds since 1970."""
SLASHES = ("day/month/year", "month/day/year")
"""Formats that the cells alone may not tell apart."""


def _months(year: str, month: int) -> float:
    if not 1 <= month <= 12:
        raise ValueError("no month")
    return 12.0 * int(year) + month - 1


def formats_of(cells: Sequence[str]) -> list[str]:
    """The formats that fit all cells, the first and the last of which are tried first.

    >>> formats_of(["2024-05-31", "2024-06-01"]), formats_of(["13/05/2024"]), formats_of(["5/6/2024"])
    (['year-month-day'], ['day/month/year'], ['day/month/year', 'month/day/year'])
    >>> formats_of(["2016Q1", "2016Q2"]), formats_of(["May", "June"])
    (['year-quarter'], ['month'])
    """
    if not len(cells):
        return []
    return [name for name in FORMATS if _fits(name, (cells[0], cells[-1])) and _fits(name, cells)]


def _fits(name: str, cells: Sequence[str]) -> bool:
    read = FORMATS[name]
    try:
        for cell in cells:
            read(cell)
    except (ValueError, OverflowError):
        return False
    return True


def read_dates(cells: Sequence[str], name: str) -> Float[np.ndarray, " N"]:
    """The cells as numbers, NaN where one is not written in this format."""

    def number(cell: str) -> float:
        try:
            return FORMATS[name](cell)
        except (ValueError, OverflowError):
            return np.nan

    return np.array([number(cell) for cell in cells], float)


def written(number: float, name: str) -> str:
    """A number of `read_dates` as text that `read_dates` of "year-month-day" or "year-month" reads.

    >>> written(FORMATS["day.month.year"]("31.05.2024"), "day.month.year"), written(24192.0, "year-quarter")
    ('2024-05-31', '2016Q1')
    """
    if name in IN_MONTHS:
        year, month = divmod(int(number), 12)
        return f"{year:04d}Q{month // 3 + 1}" if name == "year-quarter" else f"{year:04d}-{month + 1:02d}"
    moment = EPOCH + datetime.timedelta(seconds=float(number))
    if name == TIME_OF_DAY:
        return moment.strftime("%H:%M:%S")
    return str(moment.date()) if moment.time() == datetime.time(0) else moment.isoformat(" ", "seconds")
