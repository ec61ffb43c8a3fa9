"""Reports as numbers: importance weights that are alike, and what is printed."""

import numpy as np
import pytest

import vijax as vi
from tests.naming import check_names
from vijax.verdict import report


def test_weights_that_are_all_alike_have_no_tail():
    """To rounding, or to a thousandth; others have the k-hat that they have."""
    rng = np.random.default_rng(0)
    for ratios in (
        np.zeros(1000),
        5 + 1e-14 * rng.standard_t(1, 1000),
        1e-3 * rng.normal(size=1000),
    ):
        zero, gap, khat = report.distance(ratios)
        assert (zero, khat) == (0.0, 0.0)
        assert gap == pytest.approx(0.0, abs=1e-5)
    assert report.distance(64 * rng.integers(0, 2, 1000) * 1.0, rounding=100.0)[2] == 0.0
    ratios = 0.3 * rng.standard_exponential(1000)
    assert report.distance(ratios)[2] == vi.trust.psis(ratios).khat != 0.0
    assert report.distance(np.where(np.arange(1000) < 990, 0.0, -np.inf))[2] == np.inf


def test_a_report_prints_modes_of_nested_variables():
    mode = report.FoundMode({"a": {"b": np.ones(2)}, "c": np.float64(0.5)}, -1.0, -2.0, 16)
    printed = repr(
        report.Report(report.Estimate(-2.0, 0.1), [mode], 0.0, 0.0, "converged", "Converged.")
    )
    check_names(printed, "mode 1:", "16", "-2.00", "a.b", "1.0")
