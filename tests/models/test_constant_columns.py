"""Columns of one value that binary numbers cannot hold: their deviations are rounding, and nothing
is divided by it."""

import numpy as np
import pytest

from vijax.data.tables.table import Table
from vijax.models import emission
from vijax.models.series.state_space import window_scores
from vijax.spreads import spread_or_one

TENTHS = np.full(49, 0.1)
ROWS = np.column_stack([TENTHS, np.arange(49.0)])


def test_a_deviation_of_rounding_is_none():
    assert 0 < TENTHS.std() < 1e-15
    np.testing.assert_array_equal(spread_or_one(ROWS.std(0), ROWS.mean(0)), [1.0, ROWS[:, 1].std()])
    small = 1e-12 * np.arange(49.0)
    assert spread_or_one(small.std(), small.mean()) == small.std()  # small, and no rounding


def test_standardised_tables_keep_the_scale_of_such_a_column():
    """A new row of .1001 was 7 million million deviations away."""
    table = Table(("a", "b"), ROWS).standardise()
    assert table.scaling.deviation[0] == 1.0
    np.testing.assert_allclose(table.x[:, 0], 0.0, atol=1e-15)


def test_priors_are_placed_with_a_variance_of_one():
    prior = emission.placed(emission.diagonal_gaussian, 2, ROWS).prior
    np.testing.assert_allclose(-prior.negative_raw_rate[:, 0], 1.0, rtol=1e-3)


def test_windows_of_a_constant_column_have_no_component():
    """Their rounding was scaled to a variance of one."""
    paths = np.full((1, 49, 1), 0.1, np.float32)
    assert np.abs(window_scores(paths, np.ones((1, 49), bool), 1)).max() < 1e-5


def test_estimators_do_not_divide_by_it():
    pytest.importorskip("sklearn")
    from vijax.sklearn import BayesianGLM

    model = BayesianGLM()
    model._prepare(ROWS, np.ones(49))
    assert np.abs(model._features(ROWS + np.array([0.001, 0.0]))[:, 0]).max() < 0.01
