"""Numbers for reading, with as many digits as the spread beside them allows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

DIGITS = 4
"""Digits of a number without a spread."""
LEAST_DIGITS = 3
"""Digits of a small number in a column of larger ones."""
MOST_DIGITS = 15
"""Digits that float64 always holds."""
LARGE = 15
"""Power of ten from which a number is written with an exponent; small numbers are below 1e-4, as in
Python."""


def count_digits(value: float, spread: float = 0.0, least: int = DIGITS, of_spread: int = 2) -> int:
    """Significant digits of a value that show `of_spread` digits of a spread beside it; never fewer
    than `least`.

    >>> count_digits(2_020_000.012, 0.097), count_digits(0.5, 0.097), count_digits(7.0)
    (10, 4, 4)
    """
    has_value = math.isfinite(value) and value != 0
    has_spread = math.isfinite(spread) and spread > 0
    if not (has_value and has_spread):
        return least
    distance = _power(value) - _power(spread)
    return min(max(least, distance + of_spread), MOST_DIGITS)


def format_number(
    value: float, spread: float = 0.0, separator: str = "", least: int = DIGITS
) -> str:
    """A number for reading, with two digits or more of its spread (a standard deviation, or half of
    an interval).

    Args:
      value: the number.
      spread: a length on its scale that must be visible; 0: four digits.
      separator: the sign between thousands, from 10,000 on, so that years have none.
      least: digits at least.

    >>> format_number(2_020_000.0123, 0.097), format_number(1001.04, 0.05)
    ('2020000.012', '1001.04')
    >>> format_number(1.58114, 0.3), format_number(5.0)
    ('1.581', '5')
    >>> format_number(1234567.8, separator=","), format_number(2010.0, separator=",")
    ('1,234,568', '2010')
    >>> format_number(2e222), format_number(-0.0000123)
    ('2e+222', '-1.23e-05')
    """
    if not math.isfinite(value):
        return f"{value:g}"
    digits = count_digits(value, spread, least)
    power = _power(value) if value else 0
    if not -4 <= power < LARGE:
        return f"{value:.{digits}g}"
    decimals = max(digits - 1 - power, 0)
    separator = separator if power >= 4 else ""
    text = f"{value:{separator}.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def align_numbers(
    texts: Sequence[str], values: Sequence[Any], spreads: Sequence[float]
) -> list[str]:
    """The texts of a column (of `format_number`, or words) with numbers of as many decimals as its
    largest number has with `DIGITS` digits. A number keeps `LEAST_DIGITS` digits of its own, and
    two of its spread.

    >>> align_numbers(["2.495", "-0.004191", "0.5", "0"], [2.495, -0.004191, 0.5, 0.0], [0.0] * 4)
    ['2.495', '-0.00419', '0.500', '0']
    >>> align_numbers(["1001.04", "2000"], [1001.04, 2000.0], [0.05, 0.05])
    ['1001.040', '2000.000']
    >>> align_numbers(["1e-07"], [1e-7], [0.0])
    ['1e-07']
    """
    numbers = [abs(value) for value in values if _has_decimals(value)]
    if not numbers:
        return [*texts]
    longest = max((_count_decimals(text) for text in texts if "e" not in text), default=0)
    decimals = min(max(DIGITS - 1 - _power(max(numbers)), 0), longest)
    columns = zip(texts, values, spreads, strict=True)
    return [_with_decimals(text, value, spread, decimals) for text, value, spread in columns]


def _has_decimals(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value != 0


def _with_decimals(text: str, value: Any, spread: float, decimals: int) -> str:
    """The text of a number with these decimals, or more if its digits or those of its spread ask
    for them."""
    if not _has_decimals(value) or "e" in text:
        return text
    decimals = max(decimals, min(LEAST_DIGITS - 1 - _power(value), _count_decimals(text)))
    if spread > 0:
        decimals = max(decimals, 1 - _power(spread))
    decimals = min(decimals, max(MOST_DIGITS - 1 - _power(value), 0))
    separator = "," * ("," in text)
    return f"{value:{separator}.{decimals}f}"


def _count_decimals(text: str) -> int:
    """The digits of a number after its point."""
    return len(text.partition(".")[2])


def _power(value: float) -> int:
    """The power of ten of the first digit."""
    return math.floor(math.log10(abs(value)))


def natural_key(name: str) -> list[tuple[int, float, str]]:
    """A key that sorts names as people do: numbers within them by their size.

    >>> sorted(["clinic 10", "clinic 2", "clinic 1", "a"], key=natural_key)
    ['a', 'clinic 1', 'clinic 2', 'clinic 10']
    """
    text_parts = re.split(r"[0-9]+", name)
    numbers = re.findall(r"[0-9]+", name)
    key = [(1, 0.0, text_parts[0])]
    for number, text in zip(numbers, text_parts[1:], strict=True):
        key += [(0, float(number), number), (1, 0.0, text)]
    return key


def name_ends(level: float) -> tuple[str, str]:
    """Names of the ends of a central interval of this probability.

    >>> name_ends(0.9)
    ('5 %', '95 %')
    """
    return f"{50 * (1 - level):g} %", f"{50 * (1 + level):g} %"


def number_and_noun(number: int, noun: str) -> str:
    """A number of things in words.

    >>> number_and_noun(1, "sequence"), number_and_noun(5_000, "step"), number_and_noun(2, "entry")
    ('1 sequence', '5,000 steps', '2 entries')
    """
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("ry"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}s"


def with_error(mean: float, error: float) -> str:
    """A mean with its standard error, which one group alone does not have.

    >>> with_error(-1.25, 0.0625), with_error(-1.25, float("inf"))
    ('-1.250 ± 0.062', '-1.250')
    """
    if not math.isfinite(error):
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {error:.3f}"
