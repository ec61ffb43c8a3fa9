"""The words of a column's name, and those that name counts, times, steps or parts of a date."""

from __future__ import annotations

import re

WORD = re.compile(r"[A-Z]+(?![a-z])|[^\W\d_A-Z]+|[A-Z][^\W\d_A-Z]+")
COUNTS = (
    "count",
    "counts",
    "plays",
    "playcount",
    "quantity",
    "qty",
    "purchases",
    "clicks",
    "views",
    "listens",
)
"""Names of columns of counts, without spaces, the likeliest first."""


def words_of_name(name: str) -> list[str]:
    """The words of a column's name, in small letters.

    >>> words_of_name("Sample Number"), words_of_name("userId"), words_of_name("is_churned")
    (['sample', 'number'], ['user', 'id'], ['is', 'churned'])
    """
    return [word.lower() for word in WORD.findall(name)]


# --- times ---------------------------------------------------------------------------------------
CLOCKS = frozenset(
    {
        "time", "times", "date", "dates", "datetime", "timestamp", "when", "zeit", "datum", "zeitpunkt", "temps",
        "fecha", "tiempo",
    }
)  # fmt: skip
"""Names of columns that hold only times, whatever their numbers are."""
STEPS = frozenset(
    {
        "t", "step", "steps", "timestep", "tick", "ticks", "frame", "epoch", "period", "wave", "visit", "days", "hours",
    }
)  # fmt: skip
"""Names of times if the numbers are whole, or rise from row to row."""
COUNTERS = frozenset(
    {
        "index", "idx", "row", "rows", "rownames", "rowname", "seq", "nr", "no", "obs", "observation", "unnamed",
    }
)  # fmt: skip
"""Names of columns that number rows."""
PARTS = {
    "year": ("year", "years", "yr", "yyyy", "jahr", "ano", "annee"),
    "quarter": ("quarter", "qtr", "quartal"),
    "month": ("month", "months", "mon", "monat", "mois", "mes"),
    "week": ("week", "weeks", "kw", "woche", "semaine", "semana"),
    "day": ("day", "dayofmonth", "tag", "jour", "dia"),
    "hour": ("hour", "hr", "stunde", "heure", "hora"),
    "minute": ("minute", "min", "minutes"),
    "second": ("second", "sec", "seconds"),
}
"""Names of the parts of a date, the coarsest first."""
UNITS = re.compile(
    r"[ "
    r"_.\-(\[/]+(?:s|secs?|seconds?|ms|us|ns|mins?|minutes?|h|hrs?|hours?|d|days?|weeks?|months?|years?|yrs?|utc|gmt"
    r"|index|idx|stamp|no|nr|num|number|id)[)\]]?$"
)
"""The end of a name that is a unit: time (s), time_ms, step_number."""
WORDS_WITH_DIGITS = re.compile(r"[A-Z]?[^\W_A-Z]+|[A-Z]+(?![^\W_A-Z])", re.UNICODE)


def plain_name(name: str) -> str:
    """The name in lower case, without a unit.

    >>> plain_name("Time (s)"), plain_name("time_ms"), plain_name("TimeStamp"), plain_name("Unnamed: 0")
    ('time', 'time', 'timestamp', 'unnamed')
    """
    plain = name.strip().lower().removesuffix(": 0")
    plain = UNITS.sub("", plain) or plain
    return plain.replace("_", "").replace(" ", "")


def part_of_date(name: str) -> str:
    """The part of a date that a column is named after; "" for other columns."""
    return next((part for part, names in PARTS.items() if plain_name(name) in names), "")


def is_called_a_time(name: str) -> bool:
    """True if a column has a name for times, for steps or for a part of a date.

    >>> is_called_a_time("Time (s)"), is_called_a_time("month"), is_called_a_time("animal")
    (True, True, False)
    """
    return plain_name(name) in CLOCKS | STEPS or bool(part_of_date(name))


def sounds_of_time(name: str) -> bool:
    """True if a word of the name is one of time, as in visit_date."""
    words = {word.lower() for word in WORDS_WITH_DIGITS.findall(name)}
    return bool(words & (CLOCKS | PARTS.keys()))
