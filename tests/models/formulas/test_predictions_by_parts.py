"""Predictions of many rows are computed part by part, and are those of all rows together."""

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.models.formulas import glmm_model

RNG = np.random.default_rng(0)
TABLE = {
    "count": RNG.poisson(3.0, 24),
    "x": RNG.normal(size=24),
    "g": np.repeat(["a", "b", "c", "d"], 6),
    "h": np.tile(["u", "v", "w"], 8),
}
NEW = {
    "x": np.linspace(-1, 1, 7),
    "g": ["a", "new", "b", "newer", "new", "c", "d"],
    "h": ["u", "v", "w", "u", "v", "w", "u"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "family"), [("count ~ x + (x | g)", "poisson"), ("h ~ x + (1 | g)", "categorical")]
)
def test_predictions_by_parts_are_those_of_all_rows(formula, family, monkeypatch):
    model = vi.glmm(formula, TABLE, family=family)
    fit = vi.fit(vi.ngvi(model), model.data, num_steps=5, key=jax.random.key(0))
    together = fit.predict(NEW, key=jax.random.key(1), num_draws=50)
    monkeypatch.setattr(glmm_model, "AT_ONCE", 50 * max(len(model.design.levels), 1) * 2)
    assert len(model.row_parts(7, 50)) == 4
    by_parts = fit.predict(NEW, key=jax.random.key(1), num_draws=50)
    for name in glmm_model.OF_ROWS:
        value, part = getattr(together, name), getattr(by_parts, name)
        if value is None:
            assert part is None
        else:
            np.testing.assert_array_equal(value, part)
    assert [str(new) for new in by_parts.new_levels] == [str(new) for new in together.new_levels]
    assert "3 rows of 2 groups of g" in str(by_parts.new_levels[0])
