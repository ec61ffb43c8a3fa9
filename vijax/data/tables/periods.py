"""Periods of time that columns of dates are cut into: years, quarters, months, weeks, days."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Literal

from vijax.data.tables import dates

Every = Literal["year", "quarter", "month", "week", "day"]
LENGTHS: dict[str, int] = {"year": 4, "month": 7, "day": 10}
"""Number of letters of an ISO date that name a day, month or year."""


def name_period(day: str, every: Every) -> str:
    """The time that holds a day, "" for none; weeks begin on Monday and are numbered by ISO 8601,
    so that the first days of January may be of the last week of the year before.

    >>> [name_period("2024-05-31", every) for every in ("year", "quarter", "month", "week", "day")]
    ['2024', '2024-Q2', '2024-05', '2024-W22', '2024-05-31']
    >>> name_period("2021-01-01", "week"), name_period("", "week")
    ('2020-W53', '')
    """
    if not day or every in LENGTHS:
        return day[: LENGTHS.get(every, 0)]
    if every == "quarter":
        return f"{day[:4]}-Q{(int(day[5:7]) + 2) // 3}"
    year, week, _ = datetime.date.fromisoformat(day).isocalendar()
    return f"{year:04d}-W{week:02d}"


def read_days(values: Sequence[Any]) -> list[str] | None:
    """The days of a column of dates, in one of the usual formats; for months their first day. A
    missing cell gives "", and so does one that is no date, of which there may be one in twenty.
    None for other columns, and if day and month cannot be told apart.

    >>> read_days(["2024-05-31T08:00", ""]), read_days(["20240531"]), read_days(["soon"])
    (['2024-05-31', ''], None, None)
    >>> read_days(["31.05.2024", "1.6.2024"]), read_days(["5/31/2024", "6/1/2024"])
    (['2024-05-31', '2024-06-01'], ['2024-05-31', '2024-06-01'])
    >>> read_days(["5/6/2024"])
    >>> read_days(["2024-05"] * 19 + ["n.d."])[-2:]
    ['2024-05-01', '']
    """
    name = days_format(values)
    return name and _readings(values)[name]  # type: ignore[return-value]


def days_format(values: Sequence[Any]) -> str | None:
    """The name of the format by which `read_days` reads a column; None for a column that it does
    not read."""
    names = list(_readings(values))
    if len(names) != 1:
        return None
    return names[0]


def days_in_format(values: Sequence[Any], name: str) -> list[str]:
    """The days of a column in a format; "" for cells that have another.

    >>> days_in_format(["5/6/2024", "x"], "day/month/year")
    ['2024-06-05', '']
    """
    return [(text and _day(text, name)) or "" for text in _texts(values)]


def _texts(values: Sequence[Any]) -> list[str]:
    """Cells as texts; "" where one is missing."""
    texts = []
    for value in values:
        if value is None:
            value = ""
        texts.append(str(value).strip())
    return texts


def _readings(values: Sequence[Any]) -> dict[str, list[str]]:
    """The days of a column by each format that reads it."""
    texts = _texts(values)
    cells = sorted(set(texts) - {""})
    number = sum(1 for text in texts if text)
    readings = {}
    if not cells:
        return {}
    for name in DAYS:
        tried = [_day(cell, name) for cell in cells[:TRIED]]
        if 2 * sum(day is None for day in tried) > len(tried):
            continue
        days = {cell: _day(cell, name) for cell in cells}
        unread = sum(1 for text in texts if text and days[text] is None)
        if unread <= UNREAD * number:
            readings[name] = [days.get(text) or "" for text in texts]
    return readings


NO_DAYS = (dates.MONTH, dates.TIME_OF_DAY, dates.WITH_ZONE, dates.COMPACT)
DAYS = tuple(name for name in dates.FORMATS if name not in NO_DAYS and "quarter" not in name)
"""Formats of a day, or a month."""
TRIED = 50
"""Number of cells on which a format is tried first."""
UNREAD = 0.05
"""Largest share of cells that may be no dates."""


def _day(cell: str, name: str) -> str | None:
    """The day of a cell, as 2024-05-31; None if it has another format."""
    if name == "year-month-day":
        return iso_day(cell)
    try:
        moment = dates.FORMATS[name](cell)
    except (ValueError, OverflowError):
        return None
    day = dates.format_date(moment, name)
    if name in dates.IN_MONTHS:
        return f"{day}-01"
    return day[:10]


def iso_day(cell: str) -> str | None:
    """The day of an ISO date, in its own time zone."""
    try:
        if cell[4:5] != "-":
            return None
        return datetime.datetime.fromisoformat(cell).date().isoformat()
    except ValueError:
        return None


def are_years(values: Sequence[Any]) -> bool:
    """True if all values are years.

    >>> are_years(["1999", "2001"]), are_years(["1", "2"])
    (True, False)
    """
    texts = {str(value).strip() for value in values if value is not None} - {""}
    return bool(texts) and all(
        len(text) == 4 and text.isdecimal() and 1000 <= int(text) < 2200 for text in texts
    )
