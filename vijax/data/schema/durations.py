"""Names of durations: one name for all types and units of a length of time."""

from __future__ import annotations

import datetime
import fractions
import re

import numpy as np

SECONDS = {
    "W": fractions.Fraction(604_800),
    "D": fractions.Fraction(86_400),
    "h": fractions.Fraction(3_600),
    "m": fractions.Fraction(60),
    "s": fractions.Fraction(1),
    "ms": fractions.Fraction(1, 10**3),
    "us": fractions.Fraction(1, 10**6),
    "ns": fractions.Fraction(1, 10**9),
    "ps": fractions.Fraction(1, 10**12),
    "fs": fractions.Fraction(1, 10**15),
    "as": fractions.Fraction(1, 10**18),
}
"""Seconds of NumPy's units; months and years have no fixed number."""
MOST_DIGITS = 18
"""The most digits behind the point: an attosecond is NumPy's smallest unit."""
NAME = re.compile(r"(-?)(\d+) days?(?: (\d\d):(\d\d):(\d\d(?:\.\d+)?))?")


def duration_name(value: np.timedelta64 | datetime.timedelta) -> str:
    """Days, and the time beside them if there is some.

    >>> duration_name(datetime.timedelta(days=2)), duration_name(np.timedelta64(48, "h"))
    ('2 days', '2 days')
    >>> duration_name(np.timedelta64(90_061_500, "ms")), duration_name(datetime.timedelta(days=-1))
    ('1 day 01:01:01.5', '-1 day')
    """
    if isinstance(value, np.timedelta64):
        unit, count = np.datetime_data(value.dtype)
        if unit not in SECONDS:  # months, years
            return str(value)
        length = int(value.astype(np.int64)) * count * SECONDS[unit]
    else:
        seconds = value.days * 86_400 + value.seconds
        nanoseconds = value.microseconds * 1000 + getattr(value, "nanoseconds", 0)  # pandas' too
        length = seconds + fractions.Fraction(nanoseconds, 10**9)
    sign = "-" if length < 0 else ""
    days, of_day = divmod(abs(length), 86_400)
    text = f"{sign}{days} day{'s' * (days != 1)}"
    if not of_day:
        return text
    hours, of_hour = divmod(of_day, 3_600)
    minutes, of_minute = divmod(of_hour, 60)
    whole_seconds, part = divmod(of_minute, 1)
    digits = str(int(part * 10**MOST_DIGITS)).rjust(MOST_DIGITS, "0").rstrip("0")
    point = "." * bool(digits)
    return f"{text} {hours:02d}:{minutes:02d}:{whole_seconds:02d}{point}{digits}"


def is_duration(name: str) -> bool:
    """True for a name that `duration_name` gives."""
    return NAME.fullmatch(name) is not None


def duration_seconds(name: str) -> fractions.Fraction:
    """The length of a named duration in seconds.

    >>> float(duration_seconds("1 day 00:00:01.5")), float(duration_seconds("-2 days"))
    (86401.5, -172800.0)
    """
    match = NAME.fullmatch(name)
    assert match is not None, name
    sign, days, hours, minutes, seconds = match.groups(default="0")
    whole_minutes = 1_440 * int(days) + 60 * int(hours) + int(minutes)
    length = 60 * whole_minutes + fractions.Fraction(seconds)
    return -length if sign == "-" else length
