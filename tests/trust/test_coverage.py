"""Shares within predictive intervals: intervals of normals, and what exchangeability says of few draws."""

import numpy as np
import pytest
from scipy import stats

from vijax.trust import coverage


def test_intervals_are_those_of_the_law():
    """Draws at the quantiles k / 1000 of a normal: the interval of 80 % ends at 1.2816 deviations."""
    draws = 3.0 + 2.0 * stats.norm.ppf(np.arange(1, 1000) / 1000)
    ends = 3.0 + 2.0 * stats.norm.ppf([0.25, 0.75, 0.1, 0.9])
    observed = np.r_[ends + 1e-9, ends - 1e-9]
    found = coverage(np.tile(draws[:, None], 8), observed, levels=(0.5, 0.8))
    np.testing.assert_allclose(found.share, [2 / 8, 6 / 8])
    np.testing.assert_allclose(found.standard_error, np.sqrt([0.25 / 8, 0.16 / 8]))


@pytest.mark.parametrize(("num", "level"), [(19, 0.9), (19, 0.5), (3, 0.5)])
def test_few_draws_hold_what_they_should(num, level):
    """Of exchangeable draws and an observation, exactly: plain quantiles of 19 draws would hold 83 %, not 90 %."""
    rng = np.random.RandomState(0)
    found = coverage(rng.standard_normal((num, 100, 300)), rng.standard_normal((100, 300)), levels=[level])
    assert abs(found.share[0] - level) < 4 * found.standard_error[0] < 0.015


def test_predictions_too_narrow_hold_too_few():
    rng = np.random.RandomState(0)
    found = coverage(0.5 * rng.standard_normal((400, 1000)), rng.standard_normal(1000))
    assert np.all(found.share < found.levels - 5 * found.standard_error)
    assert str(found).startswith("0.2")


def test_arrays_that_do_not_fit():
    with pytest.raises(ValueError, match=r"draws: expected an axis of draws before \(3,\), not empty, got shape \(9,"):
        coverage(np.zeros((9, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="observed: expected finite numbers"):
        coverage(np.zeros((99, 2)), [0.0, np.nan])
    with pytest.raises(ValueError, match=r"levels: expected numbers between 0 and 1, got \(0.5, 1.0\)"):
        coverage(np.zeros((99, 2)), np.zeros(2), levels=(0.5, 1.0))
    with pytest.raises(ValueError, match=r"draws: expected 39 draws or more for level 0.95, got 20. Draw more"):
        coverage(np.zeros((20, 2)), np.zeros(2))
