"""Names of durations: one for all types and units that a length of time may have."""

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
"""Digits behind the point, at most: an attosecond is NumPy's smallest unit."""
NAME = re.compile(r"(-?)(\d+) days?(?: (\d\d):(\d\d):(\d\d(?:\.\d+)?))?")


def duration_name(value: np.timedelta64 | datetime.timedelta) -> str:
    """Days, and the time beside them where there is some.

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
        whole = value.days * 86_400 + value.seconds
        nanoseconds = value.microseconds * 1000 + getattr(
            value, "nanoseconds", 0
        )  # pandas has these
        length = whole + fractions.Fraction(nanoseconds, 10**9)
    sign = "-" if length < 0 else ""
    days, rest = divmod(abs(length), 86_400)
    said = f"{sign}{days} day{'s' * (days != 1)}"
    if not rest:
        return said
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    seconds, part = divmod(rest, 1)
    digits = str(int(part * 10**MOST_DIGITS)).rjust(MOST_DIGITS, "0").rstrip("0")
    return f"{said} {hours:02d}:{minutes:02d}:{seconds:02d}{'.' * bool(digits)}{digits}"


def is_duration(name: str) -> bool:
    """True for a name that `duration_name` gives."""
    return NAME.fullmatch(name) is not None


def duration_seconds(name: str) -> fractions.Fraction:
    """The length that a name says.

    >>> float(duration_seconds("1 day 00:00:01.5")), float(duration_seconds("-2 days"))
    (86401.5, -172800.0)
    """
    match = NAME.fullmatch(name)
    assert match is not None, name
    sign, days, hours, minutes, seconds = match.groups(default="0")
    length = (
        86_400 * int(days) + 3_600 * int(hours) + 60 * int(minutes) + fractions.Fraction(seconds)
    )
    return -length if sign == "-" else length
