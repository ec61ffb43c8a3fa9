"""Rows that lack a cell of a formula: they are refused by name, or left out and counted."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming

RNG = np.random.default_rng(0)
X, G = RNG.normal(size=40), np.repeat(list("abcde"), 8)
TABLE = {"y": X + RNG.normal(size=40), "x": X, "g": G, "w": np.ones(40), "unread": [None] * 40}
WHOLE = np.r_[:2, 3:7, 8:40]


def with_gaps(**more):
    x, g = TABLE["x"].copy(), TABLE["g"].astype(object)
    x[2] = np.nan
    g[[2, 7]] = None
    return {**TABLE, "x": x, "g": g, **more}


def only(table, rows):
    return {name: np.asarray(column)[rows] for name, column in table.items()}


def test_rows_without_a_cell_are_refused_unless_they_may_be_left_out():
    said = r"none of 'x' in row 2 .* and none of 'g' in rows 2, 7.*Pass missing=\"drop\""
    with pytest.raises(ValueError, match=said):
        vi.glmm("y ~ x + (1 | g)", with_gaps())
    with pytest.raises(ValueError, match="missing"):
        vi.glmm("y ~ x", with_gaps(), missing="fill")
    nothing = {**TABLE, "x": np.full(40, np.nan)}
    with pytest.raises(ValueError, match="a row with all cells of the formula, got none of 40"):
        vi.glmm("y ~ x", nothing, missing="drop")


@pytest.mark.parametrize("weights", [None, "w", np.arange(40.0)])
def test_the_model_is_that_of_the_rows_with_all_cells(weights):
    """And the warning has their number and the columns."""
    said = r"2 of 40 rows lack a cell .* rows 2, 7.*: 'x' 1, 'g' 2\."
    with pytest.warns(UserWarning, match=said):
        model = vi.glmm("y ~ x + (1 | g)", with_gaps(), weights=weights, missing="drop")
    assert (model.left_out.num_rows, model.left_out.cells) == (2, (("x", 1), ("g", 2)))
    whole_weights = weights[WHOLE] if isinstance(weights, np.ndarray) else weights
    whole = vi.glmm("y ~ x + (1 | g)", only(TABLE, WHOLE), weights=whole_weights)
    assert model.priors == whole.priors
    assert whole.left_out is None
    for name, values in whole.data.items():
        np.testing.assert_array_equal(model.data[name], values)


def test_a_weight_that_is_missing_leaves_its_row_out():
    w = np.ones(40)
    w[5] = np.nan
    with pytest.warns(UserWarning, match="1 of 40 rows lack a cell"):
        model = vi.glmm("y ~ x", {**TABLE, "w": w}, weights="w", missing="drop")
    assert len(model.weights) == 39


def test_later_rows_without_a_cell_are_refused_by_name():
    with pytest.warns(UserWarning, match="2 of 40"):
        model = vi.glmm("y ~ x + (1 | g)", with_gaps(), missing="drop")
    fit = vi.auto(model, key=jax.random.key(0))
    for table, said in (
        ({"x": [0.0, np.nan], "g": ["a", "b"]}, r"none of 'x' in row 1"),
        ({"x": [0.0, 1.0], "g": ["a", None]}, r"none of 'g' in row 1"),
    ):
        with pytest.raises(ValueError, match=said):
            fit.predict(table, key=jax.random.key(1))
        with pytest.raises(ValueError, match=said):
            model.log_lik(fit, jax.random.key(1), table={**table, "y": [0.0, 0.0]})
    assert model.predict(fit, key=jax.random.key(1)).mean.shape == (38,)


def test_a_number_of_a_file_that_may_stand_for_a_missing_cell_is_told(tmp_path):
    """Among numbers of both signs too; and what the warning says to pass has the cell missing."""
    path = tmp_path / "rows.csv"
    path.write_text("y,x\n1.5,0.2\n2.5,-999\n0.5,-0.4\n1.0,0.9\n")
    with pytest.warns(UserWarning, match=naming("'x'", "-999", "1 cell", "na_values=['-999']")):
        vi.glmm("y ~ x", str(path))
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(path, na_values=["-999"])
    with pytest.warns(UserWarning, match="1 of 4"):
        model = vi.glmm("y ~ x", table, missing="drop")
    assert len(model.design.y) == 3
