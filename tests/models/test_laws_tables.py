"""Laws of models that are made of a table, on every such row of the registry: the order of rows,
their weights, and the units of columns."""

import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.models.one_step import assert_near
from tests.models.registry import KEY, ROWS_OF_TABLE, TABLES, on, that_hold
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
    """And one of weight zero is left out: in the fit, in priors, predictions, what is left out one
    by one, and draws of the rows of training."""
    last = ROWS_OF_TABLE - 1
    rows = np.r_[0, np.arange(last)]
    twice = fit_of(case, taken_rows(case.table, rows))
    weights = np.r_[2.0, np.ones(last - 1), 0.0]
    model = case.make(case.table, weights)
    heavy = fit_of(case, model=model)
    kept = np.arange(last)
    assert_near(taken_rows(heavy.asked(), kept), taken_rows(twice.asked(), 1 + kept), NEAR)
    np.testing.assert_allclose(
        heavy.fit.trace["elbo"], twice.fit.trace["elbo"], rtol=NEAR, atol=NEAR
    )
    left_out, of_copies = (
        vi.trust.loo(one.model.log_lik(one.fit, KEY, 50)) for one in (heavy, twice)
    )
    assert_near(left_out.pointwise, of_copies.pointwise, 10 * NEAR)
    assert_near(
        [left_out.elpd, left_out.standard_error],
        [of_copies.elpd, of_copies.standard_error],
        10 * NEAR,
    )
    checks = [
        vi.evaluate.predictive_check(one.fit, jnp.mean, one.model.data, key=KEY, num_draws=20)
        for one in (heavy, twice)
    ]
    assert_near(checks[0].observed, checks[1].observed, 1e-6)
    assert_near(checks[0].replicated, checks[1].replicated, 0.1)


@on([case for case in that_hold("weighs", TABLES) if case.covers == "glmm"])
def test_what_cannot_be_said_of_half_a_row_is_refused(case):
    """Leaving out, and draws of the rows of training. Fits and predictions take any weight."""
    model = case.make(case.table, np.r_[1.5, np.ones(ROWS_OF_TABLE - 1)])
    one = fit_of(case, model=model, num_steps=1)
    said = r"^weights: expected whole numbers, .*got 1\.5 in row 0, counted from 0"
    with pytest.raises(ValueError, match=said):
        model.log_lik(one.fit, KEY, 2)
    with pytest.raises(ValueError, match=said):
        vi.evaluate.predictive_check(one.fit, jnp.mean, model.data, key=KEY, num_draws=2)
    assert model.log_lik(one.fit, KEY, 2, table=case.table).shape == (
        2,
        ROWS_OF_TABLE,
    )  # the remedy


@on([case for case in TABLES if not isinstance(case.stretches, str)])
@pytest.mark.parametrize("column", ["x", "y"])
def test_a_column_in_other_units(case, column):
    """Predictions are the same, or are in the new units."""
    if column not in case.stretches:
        pytest.skip("this column has no unit")
    one, a, b = fitted(case), 10.0, -7.0 * (case.moves or column == "y")
    other = fit_of(case, {**case.table, column: a * case.table[column] + b})
    assert_near(other.asked(), case.stretches[column](one.asked(), a, b), NEAR)
