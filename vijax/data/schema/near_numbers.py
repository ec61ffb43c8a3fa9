"""Texts that mean numbers with something beside them: signs, units, commas, brackets. Their meaning
is not guessed."""

from __future__ import annotations

import collections
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vijax.data.reading.checks import says_number

MOST = 0.5
"""A column means numbers if more than this share of its cells are numbers, or mean them."""
FEW_LEVELS = (20, 3), (50, 20)
"""The most distinct texts of categories, say doses, and the least number of rows for each."""
MINUS = "-\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"
"""Signs that people write for a minus."""
MONEY = "$\u20ac\u00a3\u00a5\u20b9\u20a9\u20bd\u20ba\u20bf"
CODES = "USD|EUR|GBP|JPY|CHF|CAD|AUD|INR|CNY|US\\$|Rs\\.?"
GAPS = " '\u2019\u00a0\u2009\u202f_"
"""Signs between thousands that are never decimal signs."""
SIGN = rf"[+{re.escape(MINUS)}]?"
ORDINALS = ("st", "nd", "rd", "th")
BEFORE = rf"(?P<sign>{SIGN})\s*(?P<before>(?:[{MONEY}]|{CODES})?)\s*(?P<inner>{SIGN})"
BODY = rf"(?P<body>\d(?:[\d.,{GAPS}]*\d)?\.?|[.,]\d+)(?P<power>(?:[eE][+-]?\d+)?)"
AFTER = r"[\s\u00a0]*(?P<after>(?:[^\W\d_]|[%\u2030\u00b0*\u2020\u2021\u00a7#+\u00b2\u00b3"
AFTER += rf"{MONEY}])(?:[^\W\d_]|[%\u00b0./\u00b7\u00b2\u00b3*])"
AFTER += r"{0,11}[23]?)?"
PATTERN = re.compile(rf"(?P<open>\()?{BEFORE}{BODY}{AFTER}(?P<close>\))?")
OF_GAPS = re.compile(rf"\d{{1,3}}(?:[{GAPS}]\d{{3}})+(?:[.,]\d+)?")
OF_COMMAS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
OF_POINTS = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?")
WITH_COMMA = re.compile(r"\d*,\d+")
WITH_POINT = re.compile(r"\d*\.\d*|\d+")
MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "Mio": 1e6, "mn": 1e6, "bn": 1e9, "B": 1e9}
"""Letters behind a number that may mean thousands and more."""
BY_POINTS = ("$", "US$", "USD", "\u00a3", "GBP")
"""Currencies whose amounts have a decimal point."""


class _Read(NamedTuple):
    """A text as a number with something beside it."""

    text: str
    is_negative: bool
    in_brackets: bool
    body: str
    power: str
    unit: str

    def values(self, are_commas_decimal: bool | None) -> list[str]:
        """The numbers that it may mean, as programs write them."""
        bodies = _plain(self.body, are_commas_decimal)
        fraction = unicodedata.numeric(self.unit[0], 0.0) if self.unit else 0.0
        if self.unit in MULTIPLES:
            bodies = [*(_times(body, MULTIPLES[self.unit]) for body in bodies), *bodies]
        elif fraction > 0:
            bodies = [f"{float(body) + fraction:g}" for body in bodies]
        signs = ["-"] if self.is_negative else [""]
        if self.in_brackets and not self.is_negative:
            signs = ["-", ""]
        return [f"{sign}{body}{self.power}" for sign in signs for body in bodies]


class NearNumbers(NamedTuple):
    """The first cell of a column that means a number and does not say one.

    Attributes:
      place: its place.
      cell: its text.
      values: the numbers that it may mean.
      are_few: True if few texts are repeated by many rows, as of categories.
      are_named: True if there are very few, and letters stand beside the numbers.
    """

    place: int
    cell: str
    values: tuple[str, ...]
    are_few: bool
    are_named: bool

    @property
    def advice(self) -> str:
        """The text that tells what to write instead.

        >>> near_numbers(["0,126", "1,5"]).advice, near_numbers(["1,234", "5,678"]).advice
        ("0.126 for '0,126'", "1.234 or 1234, whichever is meant, for '1,234'")
        """
        which = ", whichever is meant," if len(self.values) > 1 else ""
        return f"{' or '.join(self.values)}{which} for {self.cell[:40]!r}"


def near_numbers(cells: Sequence[str]) -> NearNumbers | None:
    """The first cell that is no number, in a column that means numbers; None for other columns.

    Args:
      cells: texts without missing ones.

    >>> near_numbers(["12.9%", "7%"]).values, near_numbers(["red", "5"]), near_numbers(["10-20", "20-30"])
    (('12.9',), None, None)
    """
    stripped = [cell.strip() for cell in cells]
    distinct = dict.fromkeys(stripped)
    readings = {cell: _read(cell) for cell in distinct if not says_number(cell)}
    near_readings = {cell: reading for cell, reading in readings.items() if reading is not None}
    unit = _commonest(near_readings[cell].unit for cell in stripped if cell in near_readings)
    near_readings = {
        cell: reading for cell, reading in near_readings.items() if reading.unit in (unit, "")
    }
    if not near_readings:
        return None
    num_meant = sum(cell in near_readings or cell not in readings for cell in stripped)
    if num_meant <= MOST * len(stripped):
        return None
    place = next(place for place, cell in enumerate(stripped) if cell in near_readings)
    number = len(distinct)
    are_few = any(
        number <= most and len(stripped) >= repeats * number for most, repeats in FEW_LEVELS
    )
    are_named = number <= FEW_LEVELS[0][0] and any(map(str.isalpha, unit))
    numbers = [cell for cell in distinct if cell not in readings]
    are_commas_decimal = _are_commas_decimal(list(near_readings.values()), numbers)
    values = near_readings[stripped[place]].values(are_commas_decimal)
    return NearNumbers(place, cells[place], tuple(dict.fromkeys(values)), are_few, are_named)


def _read(text: str) -> _Read | None:
    match = PATTERN.fullmatch(text)
    if match is None or bool(match["open"]) != bool(match["close"]):
        return None
    body = match["body"]
    after = match["after"] or ""
    forms = (OF_GAPS, OF_COMMAS, OF_POINTS, WITH_COMMA, WITH_POINT)
    if after.lower() in ORDINALS or not any(form.fullmatch(body) for form in forms):
        return None
    is_negative = any(sign in MINUS for sign in match["sign"] + match["inner"])
    unit = after or match["before"]
    return _Read(text, is_negative, bool(match["open"]), body, match["power"], unit)


def _times(body: str, multiple: float) -> str:
    """The text of a number times a multiple, without an exponent below 1e12."""
    product = float(body) * multiple
    return f"{product:.12g}" if product < 1e12 else f"{product:g}"


def _commonest(units: Iterable[str]) -> str:
    """The unit that most cells with a unit have; "" if none has one."""
    counts = collections.Counter(filter(None, units))
    return counts.most_common(1)[0][0] if counts else ""


def _are_commas_decimal(near: Sequence[_Read], numbers: Sequence[str]) -> bool | None:
    """True if commas are decimal signs, judged by all cells; None if they do not show it."""
    if any(map(_has_decimal_comma, near)):
        return True
    for reading in near:
        if reading.unit in BY_POINTS:
            return False
        if "." in reading.body and not OF_POINTS.fullmatch(reading.body):
            return False
    if not any("." in cell for cell in numbers):
        return None
    return False


def _has_decimal_comma(reading: _Read) -> bool:
    """True if a comma cannot separate thousands."""
    last = reading.body.rpartition(",")[2]
    if "," not in reading.body or "." in last:
        return False
    separates = OF_COMMAS.fullmatch(reading.body) is not None and not reading.body.startswith("0")
    return not separates


def _plain(body: str, are_commas_decimal: bool | None) -> list[str]:
    """The numbers that digits with signs among them may mean."""
    if OF_GAPS.fullmatch(body):
        return [re.sub(f"[{GAPS}]", "", body).replace(",", ".")]
    as_decimal = body.replace(".", "").replace(",", ".")
    as_thousands = body.replace(",", "")
    if "," not in body:
        could_divide = OF_POINTS.fullmatch(body) is not None
        is_doubtful = could_divide and body.count(".") == 1
        if could_divide and (body.count(".") > 1 or (are_commas_decimal and is_doubtful)):
            return [as_decimal]
        return [body.rstrip(".")]
    if OF_COMMAS.fullmatch(body) is None or body.startswith("0") or are_commas_decimal:
        return [as_decimal]
    is_doubtful = body.count(",") == 1 and "." not in body and are_commas_decimal is None
    return [as_decimal, as_thousands] if is_doubtful else [as_thousands]
