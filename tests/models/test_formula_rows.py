"""Regressions by a formula: the same thing said differently, names that others have, groups that are new."""

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.models.formulas import coefficients as shown
from vijax.models.formulas import formula
from vijax.models.formulas.glmm import Draws
from vijax.models.formulas.laws import LAWS

RNG = np.random.default_rng(0)
N = 60
TABLE = {"x": RNG.normal(size=N), "g": np.arange(N) % 6, "y": RNG.normal(size=N) + np.arange(N) % 6}


@pytest.mark.parametrize(
    "later",
    [[0, 2, 5], [0.0, 2.0, 5.0], ["0", "2", "5"], np.array([0, 2, 5], np.int8), [np.float32(0), 2, "5.0"]],
)
def test_a_group_is_known_however_its_name_is_typed(later):
    design = formula.read("y ~ x + (x | g)", TABLE)
    rows = design.rows_of({"x": [0.0, 1.0, 2.0], "g": later})
    assert rows.groups[0].tolist() == [0, 2, 5]
    assert rows.new_levels == ()


def test_new_groups_are_said_and_can_be_refused():
    design = formula.read("y ~ x + (1 | g) + (1 | g:x)", {**TABLE, "x": np.arange(N) % 2})
    later = {"x": [0, 1, 0], "g": ["0", "G0", "7"]}
    rows = design.rows_of(later)
    said = {str(new) for new in rows.new_levels}
    assert said == {
        "2 rows of 2 groups of g that training does not have: 'G0', '7'",
        "2 rows of 2 groups of g:x that training does not have: 'G0:1', '7:0'",
    }
    with pytest.raises(ValueError, match="table: expected groups that training has, got 2 rows of 2 groups of g"):
        design.rows_of(later, "error")


def test_groups_of_several_columns_are_tuples():
    table = {"y": RNG.normal(size=4), "h": ["a", "a:b", "a", "a:b"], "k": ["b:c", "c", "b:c", "c"]}
    for text in ("y ~ (1 | h:k)", "y ~ (1 | h/k)"):
        factor = next(own for own in formula.read(text, table).factors if own.name == "h:k")
        assert factor.levels == ("a:'b:c'", "'a:b':c")
    quoted = {"y": RNG.normal(size=4), "h:k": ["1", "2", "1", "2"], "h": ["u"] * 2 + ["v"] * 2, "k": ["w"] * 4}
    names = [own.name for own in formula.read("y ~ (1 | `h:k`) + (1 | h:k)", quoted).factors]
    assert names == ["`h:k`", "h:k"]


def test_many_levels_of_several_columns_do_not_collide():
    names = [f"n{i}" for i in range(N)]
    columns = {f"c{j}": RNG.permutation(names) for j in range(15)}  # 60^15 pairs exceed 64 bits
    design = formula.read(f"y ~ (1 | {':'.join(columns)})", {"y": TABLE["y"], **columns})
    assert sorted(design.rows.groups[0].tolist()) == list(range(N))
    assert sorted(design.rows_of(columns).groups[0].tolist()) == list(range(N))


@pytest.mark.parametrize(("name", "family"), [("sigma", None), ("nu", "t"), ("alpha", "gamma"), ("Intercept", None)])
def test_a_column_with_the_name_of_a_parameter_keeps_its_coefficient_and_its_prior(name, family):
    table = {**TABLE, "y": np.exp(TABLE["y"]), name: TABLE["x"]}
    model = vi.glmm(f"y ~ `{name}`", table, family)
    assert len(model.names) == len(set(model.names))
    assert f"`{name}`" in model.names
    assert model.priors[f"`{name}`"][0] == "normal"
    other = vi.glmm("y ~ x", table, family)
    np.testing.assert_array_equal(model.design.rows.x, other.design.rows.x)
    assert len(model.names) == len(other.names)


def test_predictions_use_the_coefficient_of_a_column_called_sigma():
    """y = 3 sigma + noise: where the noise was taken for the coefficient, the prediction at 1 was .23."""
    sigma = np.linspace(-2, 2, 80)
    y = 3 * sigma + 0.2 * RNG.normal(size=80)
    model = vi.glmm("y ~ sigma", {"sigma": sigma, "y": y})
    draws = {"Intercept": np.zeros(2), "`sigma`": np.full(2, 3.0), "sigma": np.full(2, 0.2)}
    eta = model.predictors(Draws(draws, {}, {}), {"sigma": [1.0, -1.0]})
    np.testing.assert_allclose(eta, [[3.0, -3.0], [3.0, -3.0]])


def test_a_file_that_has_changed_is_read_again(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("y,x\n" + "\n".join(f"{i * i},{i}" for i in range(8)))
    one = vi.glmm("y ~ x", str(path))
    path.write_text("y,x\n" + "\n".join(f"{i},{i * i}" for i in range(8)))
    other = vi.glmm("y ~ x", str(path))
    assert one.design.y.tolist() == [i * i for i in range(8)]
    assert other.design.y.tolist() == list(range(8))


def test_names_of_groups_in_a_file_are_exact(tmp_path):
    ids = ["007", "7", "1e3", "1000", "90071992547409931", "90071992547409932"]
    path = tmp_path / "t.csv"
    path.write_text("y,id\n" + "\n".join(f"{i * i},{name}" for i, name in enumerate(ids * 2)))
    design = formula.read("y ~ (1 | id)", str(path))
    assert sorted(design.factors[0].levels) == sorted(ids)
    (tmp_path / "new.csv").write_text("id\n7\n007\n")
    levels = design.factors[0].levels
    assert [levels[g] for g in design.rows_of(str(tmp_path / "new.csv")).groups[0]] == ["7", "007"]


RESPONSES = [
    ("y", {}, "gaussian"),
    ("u", {"u": ["N", "Y"] * 30}, "bernoulli"),
    ("u", {"u": [True, False] * 30}, "bernoulli"),
    ("u['N']", {"u": ["N", "Y"] * 30}, "bernoulli"),
    ("u", {"u": ["a", "b", "c"] * 20}, "categorical"),
    ("p(s, 5)", {"s": np.arange(N) % 5}, "binomial"),
    ("np.exp(y)", {}, "gaussian"),
]


@pytest.mark.parametrize(("response", "more", "family"), RESPONSES)
def test_the_family_follows_the_response(response, more, family):
    assert vi.glmm(f"{response} ~ x", {**TABLE, **more}).law.name == family


def test_a_law_of_numbers_is_refused_for_text():
    with pytest.raises(ValueError, match="family: expected a law of categories, got 'gaussian' for a column of two"):
        vi.glmm("u ~ x", {**TABLE, "u": ["N", "Y"] * 30}, "gaussian")


def test_the_level_that_counts_is_kept_for_later_rows():
    """Of a response of two texts the second counts as one; `seen` reads later rows by the same levels."""
    table = {**TABLE, "u": np.where(TABLE["y"] > 2, "yes", "no")}
    design = formula.read("u ~ x", table, LAWS["bernoulli"])
    y, trials = design.seen(table)
    np.testing.assert_array_equal(y, design.y)
    np.testing.assert_array_equal(y, (table["u"] == "yes").astype(float))
    assert trials.sum() == N
    assert design.seen({"u": ["yes", "yes"]})[0].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"categories of u that training has: \['no', 'yes'\], got 'maybe' in row 1"):
        design.seen({"u": ["yes", "maybe"]})


@pytest.mark.parametrize("text", ["c ~ x + h", "c ~ 0 + h:x + (x | g)"])
def test_ordered_categories_read_the_training_table_again_as_it_was(text):
    """Columns are chosen by their names: the intercept, which the law leaves out, is none of them."""
    table = {**TABLE, "c": np.arange(N) % 3, "h": np.array(list("uvw"))[np.arange(N) // 20]}
    design = formula.read(text, table, LAWS["cumulative"])
    rows = design.rows_of(table)
    np.testing.assert_array_equal(rows.x, design.rows.x)
    assert rows.x.shape[1] == len(design.labels)


def test_far_responses_keep_their_digits():
    """y near 2,020,000: float32 has steps of 1/8 there."""
    model = vi.glmm("y ~ x", {**TABLE, "y": TABLE["y"] + 2_020_000})
    values = {name: np.array([0.0, 1e-3], np.float32) for name in ("_orthogonal.Intercept", "_orthogonal.x")}
    coefficients = model._coefficients(values)
    units = model.density_form.units
    step = units.size * np.array(units.turn) @ np.full(2, float(np.float32(1e-3)))
    np.testing.assert_allclose([c[0] for c in coefficients.values()], units.location, rtol=1e-15)
    np.testing.assert_allclose([c[1] - c[0] for c in coefficients.values()], step, atol=1e-9)
    eta = model.predictors(Draws({**coefficients, "sigma": np.ones(2)}, {}, values))
    np.testing.assert_allclose(eta[1] - eta[0], model.design.rows.x @ step, atol=1e-8)


def test_standardised_effects_count_weights():
    """A row of weight 2 is two rows: in the spread of the column and of the response."""
    weights = 1 + np.arange(N) % 3
    twice = {name: np.repeat(column, weights) for name, column in TABLE.items()}
    one, other = vi.glmm("y ~ x", TABLE, weights=weights), vi.glmm("y ~ x", twice)
    draws = type("Draws", (), {"named": {"Intercept": np.zeros(2), "x": np.ones(2)}})
    found = [shown.standardised(model, draws)["x"] for model in (one, other)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    alone = shown.standardised(vi.glmm("y ~ x", TABLE), draws)["x"]
    assert abs(found[0][0] - alone[0]) > 1e-3


def test_the_schema_says_what_each_column_was_taken_for():
    schema = vi.glmm("y ~ x + (1 | g)", TABLE).schema
    assert [(column.name, column.roles, column.kind) for column in schema.columns] == [
        ("y", ("response",), "number"),
        ("x", ("term",), "number"),
        ("g", ("group",), "label"),
    ]
    assert schema["g"].levels.names == ("0", "1", "2", "3", "4", "5")


@pytest.mark.parametrize(
    ("text", "family"),
    [("y ~ x * h + (x | g)", "gaussian"), ("c ~ x + h + (1 | g)", "negativebinomial"), ("h ~ x", "categorical")],
)
def test_a_row_is_predicted_alike_alone_and_among_others(text, family):
    """To the last bit, of groups that are new too; rows of one new group share its effects."""
    table = {**TABLE, "h": np.array(list("uvw"))[np.arange(N) // 20], "c": RNG.poisson(3.0, N)}
    model = vi.glmm(text, table, family)
    fit = vi.fit(vi.ngvi(model), model.data, num_steps=2, key=jax.random.key(0))
    rows = {"x": np.linspace(-1, 1, 9), "h": ["u", "v", "w"] * 3, "g": [0, 5, 77, "A", 2, 77, "A", 1, "B"]}
    whole = model.predict(fit, rows, key=jax.random.key(1), num_draws=20)
    for order in ([4], [2], [8, 7, 6, 5, 4, 3, 2, 1, 0], [5, 2]):
        part = {name: [column[i] for i in order] for name, column in rows.items()}
        some = model.predict(fit, part, key=jax.random.key(1), num_draws=20)
        for name in ("mean", "sd", "low", "high", "lowest", "highest", "response_sd"):
            if getattr(whole, name) is not None:
                np.testing.assert_array_equal(getattr(some, name), getattr(whole, name)[order])
