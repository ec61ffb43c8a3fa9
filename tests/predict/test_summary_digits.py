"""A printed summary shows as many digits as the intervals need."""

import numpy as np
import pytest

from vijax.numerals import count_digits, format_number
from vijax.predict.summary import summarise_draws


def cells(draws):
    """The numbers of the one row."""
    return repr(summarise_draws({"x": draws}, 0.9)).splitlines()[1].split()[1:]


@pytest.mark.parametrize(
    ("place", "sd"), [(2_020_000.0, 0.097), (1001.0, 0.05), (-5e8, 3.0), (0.0, 1e-3)]
)
def test_an_interval_can_be_read_back(place, sd):
    """Mean, low and high differ by what they differ, to a tenth of the deviation; four digits
    printed one number."""
    draws = place + sd * np.linspace(-2, 2, 401)
    found = summarise_draws({"x": draws}, 0.9)
    mean, spread, low, high = map(float, cells(draws))
    for shown, exact in (
        (mean, found.mean[0]),
        (spread, found.sd[0]),
        (low, found.low[0]),
        (high, found.high[0]),
    ):
        assert abs(shown - exact) <= 0.1 * sd
    assert low < mean < high


def test_other_numbers_are_as_they_were():
    assert cells(np.arange(5.0)) == ["2", "1.581", "0.2", "3.8"]
    assert cells(np.full(5, 2_020_123.0)) == ["2020123", "0", "2020123", "2020123"]
    # A tail without a variance: the interval says what is known.
    assert cells(np.append(1000 + np.linspace(-0.01, 0.01, 99), 1e12))[2].startswith("999.99")


def test_digits_at_the_edges():
    assert [format_number(x) for x in (np.inf, -np.inf, 0.0, 9.99996, 1e15, 1e-5)] == [
        "inf",
        "-inf",
        "0",
        "10",
        "1e+15",
        "1e-05",
    ]
    assert format_number(np.nan) == "nan"
    assert count_digits(1.0, 1e-30) == 15
    assert count_digits(0.0, 1.0) == count_digits(1.0, np.nan) == count_digits(1.0, -1.0) == 4
