"""Topics by group and over time, for the page: by the columns that a run's documents have beside their text."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from vijax.app.rows.shares import Every, Shares, shares_by
from vijax.app.settings.typed_toml import ConfigError

FEWEST, MOST_GROUPS = 2, 30
"""A column whose number of different values is in this range makes groups by itself."""
MOST_TIMES = 60
"""More days are put together to months, more months to years."""
MOST_COLUMNS = 4


class Grouped(NamedTuple):
    """Topics by one column.

    Attributes:
      by: the column.
      every: the length of time of a group, or None where equal values make one.
      in_time: True where the groups follow each other in time.
      shares: shares of topics in the groups.
    """

    by: str
    every: Every | None
    in_time: bool
    shares: Shares


def grouped(
    columns: Mapping[str, Sequence[Any]],
    beside: Sequence[str],
    by: Sequence[str] | None = None,
    every: Literal["auto"] | Every = "auto",
) -> list[Grouped]:
    """Topics by the columns asked for, or by suitable ones.

    Args:
      columns: see `vijax.app.rows.shares.shares_by`.
      beside: the columns that came with the documents.
      by: names of columns; None takes the first few with dates, or with few values.
      every: length of time for dates; "auto" takes days, months or years, by their number.

    Raises:
      ConfigError: an unknown column.
    """
    for name in by or ():
        if name not in beside:
            known = ", ".join(map(repr, beside)) or "none"
            raise ConfigError(f"page.by: expected columns of the documents, got {name!r}; known: {known}")
    wanted = [name for name in beside if suits(columns[name])][:MOST_COLUMNS] if by is None else by
    return [_by(columns, name, every) for name in wanted]


def _by(columns: Mapping[str, Sequence[Any]], name: str, every: Literal["auto"] | Every) -> Grouped:
    days = dates_of(columns[name])
    if days is None:
        return Grouped(name, None, are_years(columns[name]), shares_by(columns, name))
    stretch = stretch_of(days) if every == "auto" else every
    return Grouped(name, stretch, True, shares_by(columns, name, stretch))


def suits(values: Sequence[Any]) -> bool:
    """True where a column makes useful groups: dates, or a few values that repeat.

    >>> suits(["a", "b", "a", "b"]), suits(["a", "b", "c"]), suits(["2024-01-01", "2024-01-02"])
    (True, False, True)
    """
    texts = [str(value).strip() for value in values if value is not None]
    different = len({text for text in texts if text})
    if different < FEWEST:
        return False
    return dates_of(values) is not None or (different <= MOST_GROUPS and 2 * different <= len(texts))


def dates_of(values: Sequence[Any]) -> list[str] | None:
    """The days of a column of ISO dates, empty where one is missing; None for anything else.

    >>> dates_of(["2024-05-31T08:00", ""]), dates_of(["20240531"]), dates_of(["soon"])
    (['2024-05-31', ''], None, None)
    """
    texts = ["" if value is None else str(value).strip() for value in values]
    try:
        found = [datetime.datetime.fromisoformat(text).date().isoformat() if text else "" for text in texts]
    except ValueError:
        return None
    return found if any(found) and all(text[4:5] == "-" for text in texts if text) else None


def are_years(values: Sequence[Any]) -> bool:
    """True where all values are years.

    >>> are_years(["1999", "2001"]), are_years(["1", "2"])
    (True, False)
    """
    texts = {str(value).strip() for value in values if value is not None} - {""}
    return bool(texts) and all(len(text) == 4 and text.isdecimal() and 1000 <= int(text) < 2200 for text in texts)


def stretch_of(days: Sequence[str]) -> Every:
    """Days, months or years: the finest that makes no more points than can be read."""
    known = {day for day in days if day}
    if len(known) <= MOST_TIMES:
        return "day"
    return "month" if len({day[:7] for day in known}) <= MOST_TIMES else "year"
