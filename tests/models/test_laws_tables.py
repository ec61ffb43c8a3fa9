"""Laws of models that are made of a table, on every such row of the registry: the order of rows, their weights, and the
units of columns."""

import numpy as np
import pytest

from tests.models.one_step import assert_near
from tests.models.registry import ROWS_OF_TABLE, TABLES, on, that_hold
from tests.models.short_fits import fit_of, fitted, taken_rows

ORDER = np.random.default_rng(0).permutation(ROWS_OF_TABLE)
NEAR = 2e-3
"""Of fits in float32 after a few steps, whose sums are in another order."""


@on(that_hold("permutes", TABLES))
def test_rows_in_another_order(case):
    one = fitted(case)
    other = fit_of(case, taken_rows(case.table, ORDER))
    assert_near(other.asked(), taken_rows(one.asked(), ORDER), NEAR)
    assert_near(other.fit.trace["elbo"], one.fit.trace["elbo"], NEAR)


@on(that_hold("weighs", TABLES))
def test_a_row_of_weight_two_is_the_row_twice(case):
    """And one of weight zero is left out, in priors too."""
    last = ROWS_OF_TABLE - 1
    rows = np.r_[np.arange(last), 0]
    twice = fit_of(case, taken_rows(case.table, rows))
    weights = np.r_[2.0, np.ones(last - 1), 0.0]
    model = case.make(case.table, weights)
    heavy = fit_of(case, model=model)
    kept = np.arange(last)
    assert_near(taken_rows(heavy.asked(), kept), taken_rows(twice.asked(), kept), NEAR)
    np.testing.assert_allclose(heavy.fit.trace["elbo"], twice.fit.trace["elbo"], rtol=NEAR, atol=NEAR)


@on([case for case in TABLES if not isinstance(case.stretches, str)])
@pytest.mark.parametrize("column", ["x", "y"])
def test_a_column_in_other_units(case, column):
    """Predictions are the same, or are in the new units."""
    if column not in case.stretches:
        pytest.skip("this column has no unit")
    one, a, b = fitted(case), 10.0, -7.0 * (case.moves or column == "y")
    other = fit_of(case, {**case.table, column: a * case.table[column] + b})
    assert_near(other.asked(), case.stretches[column](one.asked(), a, b), NEAR)
