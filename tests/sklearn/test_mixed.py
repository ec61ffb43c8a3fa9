"""Regressions by a formula as estimators: against `vijax.glmm`, lme4's published fit and rows that
are repeated."""

import pickle

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vijax as vi
import vijax.sklearn as vs
from tests.models.mixed_tables import SLEEP
from tests.naming import naming
from vijax.sklearn.parts.tables import complete_formula, to_table

pandas = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
GROUPS = np.repeat(list("abcdef"), 10)
TABLE = pandas.DataFrame({"x": RNG.normal(size=60), "g": GROUPS, "a b": RNG.normal(size=60)})
Y = (
    2 * TABLE.x.to_numpy()
    + RNG.normal(size=6)[np.repeat(np.arange(6), 10)]
    + 0.3 * RNG.normal(size=60)
)
LABELS = np.where(Y > 0, "yes", "no")


def numbers_of(summary):
    return dict(zip(summary.names, zip(summary.mean, summary.sd, strict=True), strict=True))


# --- without a fit --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("formula", "groups", "columns", "expected"),
    [
        (None, None, ["x", "a b"], ("y ~ x + `a b`", "y")),
        (None, "g", ["x", "g", "y"], ("y_ ~ x + y + (1 | g)", "y_")),
        (None, ["g", "x"], ["g", "x"], ("y ~ (1 | g) + (1 | x)", "y")),
        (None, None, [], ("y ~ 1", "y")),
        ("~ x * g", None, ["x", "g"], ("y ~ x * g", "y")),
        ("z ~ x", None, ["x", "y"], ("z ~ x", "z")),
        ("`a b` ~ x", None, ["x"], ("`a b` ~ x", "a b")),
    ],
)
def test_formulas_have_a_response_that_is_no_column(formula, groups, columns, expected):
    assert complete_formula(formula, groups, pandas.DataFrame(columns=columns)) == expected


@pytest.mark.parametrize(
    ("settings", "y", "words"),
    [
        (
            {"formula": "~ xx"},
            Y,
            r"formula: expected a column 'xx' in the table.*Did you mean 'x'\?",
        ),
        (
            {"formula": "~ x", "groups": "g"},
            Y,
            r"groups: expected None where there is a formula, got 'g'",
        ),
        ({"groups": "h"}, Y, "groups: expected a column 'h' in the table"),
        (
            {"formula": "np.log(y) ~ x"},
            Y,
            "formula: expected a name to the left of ~.*Transform y before fit",
        ),
        ({"formula": "x"}, Y, "formula: expected response ~ terms, or ~ terms, got 'x'"),
        ({"family": "bernoulli"}, Y, "family: expected one of .* got 'bernoulli'"),
        ({"family": "poisson"}, Y, "family: expected counts"),
        ({}, LABELS, "y: expected numbers, got .*MixedModelClassifier takes classes"),
        ({}, np.where(Y > 0, np.nan, 1.0), "y: expected finite numbers"),
        ({"formula": "~ x"}, 3 * TABLE.x, "a response that columns do not give exactly"),
        ({}, None, "requires y to be passed, but the target y is None"),
    ],
)
def test_errors_of_regressions(settings, y, words):
    with pytest.raises(ValueError, match=words):
        vs.MixedModelRegressor(**settings).fit(TABLE, y)


def test_errors_of_classes():
    with pytest.raises(ValueError, match="only one class is present"):
        vs.MixedModelClassifier("~ x").fit(TABLE, np.ones(60))
    with pytest.raises(
        ValueError, match=naming("family:", '"categorical"', '"cumulative"', "'gaussian'")
    ):
        vs.MixedModelClassifier("~ x", family="gaussian").fit(TABLE, LABELS)


def test_tables_are_read_by_the_names_of_their_columns():
    model = vs.MixedModelRegressor()
    assert list(to_table(model, TABLE, True, "x")) == ["g", "a b"]
    assert list(to_table(model, TABLE[["a b", "x", "g"]], False)) == ["g", "a b"]
    with pytest.raises(ValueError, match=naming("X:", "'g'", "'a b'")):
        to_table(model, TABLE[["x", "g"]], False)
    with pytest.raises(ValueError, match="X: expected a row or more"):
        to_table(model, TABLE[:0], False)
    for X in (pandas.DataFrame({0: [1.0], 1: [2.0]}), np.ones((2, 2))):
        assert list(to_table(model, X, True)) == ["x0", "x1"]
        assert list(to_table(model, np.ones((2, 2)), False)) == ["x0", "x1"]
    arrow = pytest.importorskip("pyarrow").table({"x": [1.0], "g": ["a"]})
    assert to_table(model, arrow, True).to_dict("list") == {"x": [1.0], "g": ["a"]}


# --- fits -----------------------------------------------------------------------------------------
def test_a_regression_is_that_of_glmm_and_predicts():
    model = vs.MixedModelRegressor(groups="g", random_state=0, max_gradients=600).fit(TABLE, Y)
    with jax.enable_x64(True):
        same = vi.glmm("y ~ x + `a b` + (1 | g)", TABLE.assign(y=Y))
        fit = vi.auto(same, same.data, key=model._key, richer=True, max_gradients=600)
        right = fit.summary()
    assert model.summary_.names == ("Intercept", "x", "`a b`", "1|g_sigma", "sigma")
    assert numbers_of(model.summary_) == numbers_of(right)
    new = TABLE.iloc[[0, 30, 30]].assign(g=["a", "d", "not seen"])
    with pytest.warns(UserWarning, match=naming("1 row", "1 group", "'not seen'")):
        mean, sd = model.predict(new, return_std=True)
    low, high = model.predict_interval(new, 0.8)
    own = fit.predict(TABLE.iloc[[0, 30]], key=jax.random.key(1), num_draws=4000)
    np.testing.assert_allclose(mean[:2], own.mean, atol=5 * own.sd.max() / np.sqrt(1000))
    found = numbers_of(model.summary_)
    assert np.all(np.abs(sd[:2] / found["sigma"][0] - 1) < 0.2)
    assert sd[2] > found["1|g_sigma"][0]
    np.testing.assert_allclose((high - low)[:2] / sd[:2], 2 * stats.norm.ppf(0.9), rtol=0.1)
    density = model.log_predictive(new, mean)
    np.testing.assert_allclose(density[:2], stats.norm(0, sd[:2]).logpdf(0), atol=0.1)
    assert model.score(TABLE, Y) > 0.95
    every = model.predict(TABLE)
    np.testing.assert_array_equal(
        [model.predict(TABLE[row : row + 1])[0] for row in range(0, 60, 7)], every[::7]
    )
    again = pickle.loads(pickle.dumps(model))
    with pytest.warns(UserWarning, match="not seen"):
        np.testing.assert_array_equal(again.predict(new[["g", "a b", "x"]]), mean)


def test_classes_have_probabilities():
    y = pandas.Series(pandas.Categorical(np.where(Y > 1, "high", np.where(Y > -1, "mid", "low"))))
    order = ["low", "mid", "high"]
    ranked = vs.MixedModelClassifier("~ x", family="cumulative", random_state=0, max_gradients=600)
    ranked.fit(TABLE, y.cat.set_categories(order, ordered=True))
    assert (ranked.order_.tolist(), ranked.classes_.tolist()) == (order, sorted(order))
    p = ranked.predict_proba(TABLE)[:, [1, 2, 0]]
    np.testing.assert_allclose(p.sum(1), 1)
    assert np.all(np.diff(p[np.argsort(TABLE.x), 0]) <= 0)
    assert ranked.score(TABLE, y) > 0.7


def test_categories_without_an_order_are_named():
    y = np.array(["b", "c", "a"])[np.arange(60) % 3]
    model = vs.MixedModelClassifier("~ 1", random_state=0, max_gradients=600).fit(TABLE, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.summary_.names == ("Intercept[b]", "Intercept[c]")
    np.testing.assert_allclose(model.predict_proba(TABLE[:2]), 1 / 3, atol=0.02)


def test_a_weight_is_so_many_rows():
    weights = np.tile([0, 1, 2, 3], 15)
    model = vs.MixedModelRegressor("~ x + (1 | g)", random_state=0, max_gradients=600)
    one = clone(model).fit(TABLE, Y, sample_weight=weights)
    two = clone(model).fit(TABLE.loc[np.repeat(np.arange(60), weights)], np.repeat(Y, weights))
    np.testing.assert_allclose(one.summary_.mean, two.summary_.mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(one.summary_.sd, two.summary_.sd, rtol=1e-4)


@pytest.mark.slow
def test_searches_and_pipelines():
    X = RNG.normal(size=(60, 2))
    pipe = make_pipeline(
        StandardScaler().set_output(transform="pandas"), vs.MixedModelRegressor(random_state=0)
    )
    grid = {"mixedmodelregressor__formula": ["~ x0", "~ x0 + x1"]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, X @ [1.0, -1.0] + 0.1 * RNG.normal(size=60))
    assert search.best_params_ == {"mixedmodelregressor__formula": "~ x0 + x1"}


@pytest.mark.slow
def test_sleepstudy_is_as_lme4_publishes_it():
    """Bates et al. (2015), section 1.2: fixed effects 251.405 (6.825) and 10.467 (1.546), residual
    sd 25.592."""
    table = pandas.DataFrame(SLEEP)
    model = vs.MixedModelRegressor("reaction ~ days + (days | subject)", random_state=0).fit(
        table, table.reaction
    )
    found = numbers_of(model.summary_)
    for name, mean, sd in (("Intercept", 251.405, 6.825), ("days", 10.467, 1.546)):
        assert abs(found[name][0] - mean) < 0.15 * sd
        assert abs(found[name][1] / sd - 1) < 0.15
    assert abs(found["sigma"][0] / 25.592 - 1) < 0.03
    assert found["1|subject_sigma"][0] > 20
    assert model.score(table, table.reaction) > 0.75


def test_the_response_is_no_column_to_predict_by():
    with pytest.raises(ValueError, match=naming("formula:", "'y'", "'x'")):
        complete_formula("~ x + I(y > 2)", None, pandas.DataFrame({"x": [1.0]}))


def test_columns_that_the_formula_does_not_read_may_be_left_out():
    table = TABLE.assign(unread=1.0)
    model = vs.MixedModelRegressor("~ x + (1 | g)", random_state=0).fit(table, Y)
    expected = model.predict(table)
    np.testing.assert_array_equal(model.predict(TABLE[["g", "x"]]), expected)
    np.testing.assert_array_equal(model.predict(TABLE[["g", "x"]].assign(other="text")), expected)
    with pytest.raises(ValueError, match=naming("X:", "'x'", "'g'")):
        model.predict(TABLE[["g"]])


# --- missing cells --------------------------------------------------------------------------------
def test_rows_that_lack_a_cell_are_left_out_where_asked():
    """The fit is that of the other rows; a class that only such rows have is no class."""
    gaps = TABLE.assign(x=TABLE.x.where(TABLE.index != 3), g=TABLE.g.where(TABLE.index != 50))
    settings = {"random_state": 0, "max_gradients": 300, "missing": "drop"}
    whole = gaps.dropna()
    with pytest.raises(ValueError, match="none of 'x' in row 3"):
        vs.MixedModelRegressor("~ x + (1 | g)").fit(gaps, Y)
    with pytest.warns(UserWarning, match=naming("Regressor:", "2", "60 rows", "'x'", "1")):
        model = vs.MixedModelRegressor("~ x + (1 | g)", **settings).fit(gaps, Y, np.ones(60))
    alone = vs.MixedModelRegressor("~ x + (1 | g)", **settings).fit(whole, Y[whole.index])
    np.testing.assert_array_equal(model.summary_.mean, alone.summary_.mean)
    with pytest.raises(ValueError, match="none of 'x' in row 3"):
        model.predict(gaps)
    y = np.where(TABLE.index == 3, "rare", LABELS)
    with pytest.warns(UserWarning, match="Classifier: 1 of 60 rows"):
        classes = vs.MixedModelClassifier("~ x", **settings).fit(gaps, y)
    assert classes.classes_.tolist() == ["no", "yes"]


def test_ordered_classes_of_text_need_an_order():
    y = np.where(Y > 1, "high", np.where(Y > -1, "mid", "low"))
    settings = {"family": "cumulative", "random_state": 0, "max_gradients": 300}
    with pytest.raises(ValueError, match=naming("y:", "numbers", "text", "order=[")):
        vs.MixedModelClassifier("~ x", **settings).fit(TABLE, y)
    with pytest.raises(ValueError, match="order: expected each class once"):
        vs.MixedModelClassifier("~ x", **settings, order=["low", "high"]).fit(TABLE, y)
    with pytest.raises(ValueError, match="order: expected None, but for family"):
        vs.MixedModelClassifier("~ x", order=["low", "mid", "high"]).fit(TABLE, y)
    order = ["low", "mid", "high"]
    model = vs.MixedModelClassifier("~ x", **settings, order=order).fit(TABLE, y)
    assert model.order_.tolist() == order
    numbers = np.searchsorted([-1, 1], Y)
    by_number = vs.MixedModelClassifier("~ x", **settings).fit(TABLE, numbers)
    np.testing.assert_array_equal(
        model.predict_proba(TABLE)[:, [1, 2, 0]], by_number.predict_proba(TABLE)
    )
    np.testing.assert_array_equal(model.predict(TABLE), np.array(order)[by_number.predict(TABLE)])
    loss = get_scorer("neg_log_loss")  # reads the columns of sorted classes
    assert loss(model, TABLE, y) == pytest.approx(loss(by_number, TABLE, numbers))
