"""Regressions by a formula: the same thing said differently, names that others have, groups that
are new."""

import datetime
import decimal
import unicodedata

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.models.formulas import coefficients as shown
from vijax.models.formulas import formula
from vijax.models.formulas.draws import Draws
from vijax.models.formulas.laws import LAWS
from vijax.models.structural.covariates import read_terms

RNG = np.random.default_rng(0)
N = 60
TABLE = {"x": RNG.normal(size=N), "g": np.arange(N) % 6, "y": RNG.normal(size=N) + np.arange(N) % 6}


@pytest.mark.parametrize(
    "later",
    [
        [0, 2, 5],
        [0.0, 2.0, 5.0],
        ["0", "2", "5"],
        np.array([0, 2, 5], np.int8),
        [np.float32(0), 2, "5.0"],
    ],
)
def test_a_group_is_known_however_its_name_is_typed(later):
    design = formula.read("y ~ x + (x | g)", TABLE)
    rows = design.read_rows({"x": [0.0, 1.0, 2.0], "g": later})
    assert rows.groups[0].tolist() == [0, 2, 5]
    assert rows.new_levels == ()


def test_new_groups_are_said_and_can_be_refused():
    design = formula.read("y ~ x + (1 | g) + (1 | g:x)", {**TABLE, "x": np.arange(N) % 2})
    later = {"x": [0, 1, 0], "g": ["0", "G0", "7"]}
    rows = design.read_rows(later)
    said = {str(new) for new in rows.new_levels}
    assert said == {
        "2 rows of 2 groups of g that training does not have: 'G0', '7'",
        "2 rows of 2 groups of g:x that training does not have: 'G0:1', '7:0'",
    }
    with pytest.raises(ValueError, match=naming("table:", "2 rows", "2 groups")):
        design.read_rows(later, "error")


def test_groups_of_several_columns_are_tuples():
    table = {"y": RNG.normal(size=4), "h": ["a", "a:b", "a", "a:b"], "k": ["b:c", "c", "b:c", "c"]}
    for text in ("y ~ (1 | h:k)", "y ~ (1 | h/k)"):
        factor = next(own for own in formula.read(text, table).factors if own.name == "h:k")
        assert factor.levels == ("a:'b:c'", "'a:b':c")
    quoted = {
        "y": RNG.normal(size=4),
        "h:k": ["1", "2", "1", "2"],
        "h": ["u"] * 2 + ["v"] * 2,
        "k": ["w"] * 4,
    }
    names = [own.name for own in formula.read("y ~ (1 | `h:k`) + (1 | h:k)", quoted).factors]
    assert names == ["`h:k`", "h:k"]


def test_many_levels_of_several_columns_do_not_collide():
    names = [f"n{i}" for i in range(N)]
    columns = {f"c{j}": RNG.permutation(names) for j in range(15)}  # 60^15 pairs exceed 64 bits
    design = formula.read(f"y ~ (1 | {':'.join(columns)})", {"y": TABLE["y"], **columns})
    assert sorted(design.rows.groups[0].tolist()) == list(range(N))
    assert sorted(design.read_rows(columns).groups[0].tolist()) == list(range(N))


@pytest.mark.parametrize(
    ("name", "family"), [("sigma", None), ("nu", "t"), ("alpha", "gamma"), ("Intercept", None)]
)
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
    """y = 3 sigma + noise: where the noise was taken for the coefficient, the prediction at 1 was
    .23."""
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
    assert [levels[g] for g in design.read_rows(str(tmp_path / "new.csv")).groups[0]] == [
        "7",
        "007",
    ]


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
    with pytest.raises(ValueError, match=naming("family:", "'gaussian'")):
        vi.glmm("u ~ x", {**TABLE, "u": ["N", "Y"] * 30}, "gaussian")


def test_the_level_that_counts_is_kept_for_later_rows():
    """Of a response of two texts the second counts as one; `seen` reads later rows by the same
    levels."""
    table = {**TABLE, "u": np.where(TABLE["y"] > 2, "yes", "no")}
    design = formula.read("u ~ x", table, LAWS["bernoulli"])
    y, trials = design.response_and_trials(table)
    np.testing.assert_array_equal(y, design.y)
    np.testing.assert_array_equal(y, (table["u"] == "yes").astype(float))
    assert trials.sum() == N
    assert design.response_and_trials({"u": ["yes", "yes"]})[0].tolist() == [1.0, 1.0]
    with pytest.raises(
        ValueError,
        match=naming("'no'", "'yes'", "'maybe'", "1"),
    ):
        design.response_and_trials({"u": ["yes", "maybe"]})


@pytest.mark.parametrize("text", ["c ~ x + h", "c ~ 0 + h:x + (x | g)"])
def test_ordered_categories_read_the_training_table_again_as_it_was(text):
    """Columns are chosen by their names: the intercept, which the law leaves out, is none of
    them."""
    table = {**TABLE, "c": np.arange(N) % 3, "h": np.array(list("uvw"))[np.arange(N) // 20]}
    design = formula.read(text, table, LAWS["cumulative"])
    rows = design.read_rows(table)
    np.testing.assert_array_equal(rows.x, design.rows.x)
    assert rows.x.shape[1] == len(design.labels)


def test_far_responses_keep_their_digits():
    """y near 2,020,000: float32 has steps of 1/8 there."""
    model = vi.glmm("y ~ x", {**TABLE, "y": TABLE["y"] + 2_020_000})
    values = {
        name: np.array([0.0, 1e-3], np.float32)
        for name in ("_orthogonal.Intercept", "_orthogonal.x")
    }
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
    found = [shown.standardise(model, draws)["x"] for model in (one, other)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    alone = shown.standardise(vi.glmm("y ~ x", TABLE), draws)["x"]
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
    [
        ("y ~ x * h + (x | g)", "gaussian"),
        ("c ~ x + h + (1 | g)", "negativebinomial"),
        ("h ~ x", "categorical"),
    ],
)
def test_a_row_is_predicted_alike_alone_and_among_others(text, family):
    """To the last bit, of groups that are new too; rows of one new group share its effects."""
    table = {**TABLE, "h": np.array(list("uvw"))[np.arange(N) // 20], "c": RNG.poisson(3.0, N)}
    model = vi.glmm(text, table, family)
    fit = vi.fit(vi.ngvi(model), model.data, num_steps=2, key=jax.random.key(0))
    rows = {
        "x": np.linspace(-1, 1, 9),
        "h": ["u", "v", "w"] * 3,
        "g": [0, 5, 77, "A", 2, 77, "A", 1, "B"],
    }
    whole = model.predict(fit, rows, key=jax.random.key(1), num_draws=20)
    for order in ([4], [2], [8, 7, 6, 5, 4, 3, 2, 1, 0], [5, 2]):
        part = {name: [column[i] for i in order] for name, column in rows.items()}
        some = model.predict(fit, part, key=jax.random.key(1), num_draws=20)
        for name in ("mean", "sd", "low", "high", "lowest", "highest", "response_sd"):
            if getattr(whole, name) is not None:
                np.testing.assert_array_equal(getattr(some, name), getattr(whole, name)[order])


# --- what an attack found -------------------------------------------------------------------------
def test_categories_of_a_file_are_exact_wherever_they_are_named(tmp_path):
    """C(g), h['007'], I(g == '007') and a response of categories; the same with numbers of the
    column beside it."""
    (path := tmp_path / "z.csv").write_text(
        "y,g\n" + "\n".join(f"{i * i},{['007', '7', '8'][i % 3]}" for i in range(12))
    )
    assert formula.read("y ~ C(g)", str(path)).labels == ("Intercept", "C(g)[7]", "C(g)[8]")
    both = formula.read("y ~ C(g) + g + (1 | g)", str(path))
    assert both.labels == ("Intercept", "C(g)[7]", "C(g)[8]", "g")
    assert both.rows.x[:3, 3].tolist() == [7.0, 7.0, 8.0]
    assert both.factors[0].levels == ("007", "7", "8")
    assert both.read_rows(str(path)).groups[0][:3].tolist() == [0, 1, 2]
    assert formula.read("y ~ I(g == '007')", str(path)).rows.x[:3, 1].tolist() == [1.0, 0.0, 0.0]
    assert vi.glmm("g['007'] ~ y", str(path)).design.y[:3].tolist() == [1.0, 0.0, 0.0]
    assert vi.glmm("g ~ y", str(path), "categorical").design.levels == ("007", "7", "8")
    ids = [1234567890123456789, 1234567890123456790, 3]
    (path := tmp_path / "i.csv").write_text(
        "y,g\n" + "\n".join(f"{i * i},{ids[i % 3]}" for i in range(12))
    )
    assert len(formula.read("y ~ C(g)", str(path)).labels) == 3


@pytest.mark.parametrize(
    ("text", "training", "later", "expected"),
    [
        ("I(b == 'True')", [True, False] * 30, [1, 0], [1.0, 0.0]),
        ("I(g == '1')", np.arange(N) % 3, ["1.0", "2"], [1.0, 0.0]),
        ("I(h == 'a')", ["a", "b"] * 30, ["b", "c"], [0.0, 0.0]),
        ("I(h != 'a')", ["a", "b"] * 30, ["a"], [0.0]),
    ],
)
def test_a_comparison_with_a_level_knows_its_equals_in_later_rows(text, training, later, expected):
    name = text[2]
    design = formula.read(f"y ~ {text}", {"y": TABLE["y"], name: training})
    assert design.read_rows({name: later}).x[:, 1].tolist() == expected


@pytest.mark.parametrize(
    ("more", "text", "said"),
    [
        (
            {"x": np.where(np.arange(N) == 3, np.inf, 1.0)},
            "y ~ x",
            "finite values of x, got inf in row 3",
        ),
        (
            {"x": np.where(np.arange(N) == 3, np.inf, 1.0)},
            "y ~ offset(x)",
            "finite values of x, got inf in row 3",
        ),
        (
            {"x": np.ma.array(np.ones(N), mask=np.arange(N) == 4)},
            "y ~ x",
            r"none of 'x' in row 4 \(1 such\)",
        ),
        ({"s": np.full(N, 0.1)}, "y ~ scale(s)", "a column with more than one value"),
        ({"k": [f"v{i}" for i in range(N)]}, "y ~ C(k, Poly):x", None),
        (
            {"k": np.arange(N) % 5, "n": np.full(N, 2.5)},
            "p(k, n) ~ x",
            "whole numbers of successes",
        ),
        ({"d": np.zeros(N, "timedelta64[s]")}, "y ~ d", "durations in"),
        ({}, "y ~ (1 | g:x) + (1 | x:g)", "each effect of g:x once"),
        ({}, "y ~ (x + y - (x + g)):x", "terms that are there, to the right of a minus, got 'g'"),
        ({}, "~ x", "formula: expected response ~ terms"),
        (
            {"u": [str(i % 3) for i in range(N)]},
            "u ~ x",
            "a response of numbers, or a family, for .u., got text",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::vijax.models.formulas.terms.by_prior.OnlyPriorWarning")
def test_bad_cells_and_terms_are_refused_by_place(more, text, said):
    table = {**TABLE, **more}
    if said is None:
        assert np.isfinite(vi.glmm(text, table).design.rows.x).all()
        return
    with pytest.raises(ValueError, match=said):
        vi.glmm(text, table)


@pytest.mark.parametrize(
    "bad", [[""], ["nan"], ["NA"], [np.inf], [np.nan], [None], ["abc"], np.array([1], "m8[ns]")]
)
def test_later_rows_without_a_number_are_refused(bad):
    design = formula.read("y ~ x", TABLE)
    with pytest.raises(
        ValueError, match=r"table: expected (finite values|numbers, as training has|values in all)"
    ):
        design.read_rows({"x": bad})
    with pytest.raises(ValueError, match=r"none of 'g' in row 0 \(1 such\)"):
        formula.read("y ~ (1 | g)", TABLE).read_rows({"g": [None]})


def test_polynomial_contrasts_are_orthogonal_of_any_number_of_levels():
    for size in (5, 60, 95):
        table = {"y": RNG.normal(size=2 * size), "k": np.tile(np.arange(size), 2)}
        x = formula.read("y ~ C(k, Poly)", table).rows.x[:size, 1:]
        np.testing.assert_allclose(x.T @ x, np.eye(size - 1), atol=1e-12)
        np.testing.assert_allclose(x.sum(0), 0, atol=1e-10)
        assert (np.diff(x[:, 0]) > 0).all()
    many = {"y": RNG.normal(size=200), "k": np.arange(200) // 2}
    with pytest.raises(ValueError, match="at most 95 levels for polynomials, got 100"):
        formula.read("y ~ C(k, Poly)", many)


def test_many_levels_are_refused_before_they_take_memory():
    table = {"y": RNG.normal(size=20_000), "k": [f"v{i}" for i in range(20_000)]}
    with pytest.raises(
        ValueError,
        match=naming("2,000", "'k'", "20,000"),
    ):
        formula.read("y ~ k", table)


def test_coefficients_that_read_alike_are_refused():
    table = {"r": ["a", "b, q", "q"] * 20, "h": ["p", "v", "v, b", "p"] * 15}
    with pytest.raises(
        ValueError, match=r"coefficients of distinct names, got several called 'h\[v, b, q\]'"
    ):
        vi.glmm("r ~ h", table, "categorical")


def test_two_spellings_of_a_function_are_one_column():
    table = {**TABLE, "w": np.exp(TABLE["x"])}
    assert formula.read("y ~ log(w) + np.log(w)", table).labels == ("Intercept", "log(w)")


@pytest.mark.parametrize(
    "text", ["h == 'yes' ~ x", "I(h == 'yes') ~ x", "y > 1 ~ x", "h['yes'] ~ x"]
)
def test_a_comparison_as_response_has_odds(text):
    table = {**TABLE, "h": ["yes", "no", "no"] * 20}
    assert vi.glmm(text, table).law.name == "bernoulli"


def test_responses_of_later_rows_are_those_of_the_law():
    table = {**TABLE, "c": (TABLE["y"] > 2).astype(float)}
    model = vi.glmm("c ~ x", table, "bernoulli")
    with pytest.raises(ValueError, match='for "bernoulli", got 2 in row 0'):
        model.log_lik(object(), jax.random.key(0), table={"x": [0.0], "c": [2.0]})


def test_levels_in_a_formula_are_known_by_every_name():
    table = {**TABLE, "k": np.arange(N) % 3}
    assert formula.read("y ~ C(k, Treatment(1.0))", table).labels[1:] == (
        "C(k, Treatment(1.0))[0]",
        "C(k, Treatment(1.0))[2]",
    )
    assert formula.read("y ~ C(k, levels=[2.0, 0, 1])", table).labels[1].endswith("[0]")
    assert (
        formula.read("k[1.0] ~ x", table, LAWS["bernoulli"]).y.tolist()
        == (np.arange(N) % 3 == 1).tolist()
    )
    assert vi.glmm("k ~ x", table, "categorical", base="2.0").design.levels == ("2", "0", "1")


def test_a_new_pair_of_known_levels_is_new():
    table = {"y": RNG.normal(size=4), "g": ["a", "a", "b", "b"], "k": ["u", "v", "u", "v"]}
    design = formula.read("y ~ (1 | g:k)", table)
    assert design.read_rows({"g": ["b", "b"], "k": ["NEW", "v"]}).groups[0].tolist() == [-1, 3]


def test_topics_have_no_offset():
    with pytest.raises(ValueError, match="prevalence: expected no offset"):
        read_terms("~ x + offset(y)", TABLE)


def test_no_row_is_predicted_as_no_row():
    model = vi.glmm("y ~ x + (x | g)", TABLE)
    draws = {name: np.zeros(3) for name in model.names}
    eta = model.predictors(Draws(draws, {"g": np.zeros((3, 6, 2))}, {}), {"x": [], "g": []})
    assert eta.shape == (3, 0)


def test_a_response_of_one_kind_of_text_has_odds():
    table = formula.read_table("u ~ x", {**TABLE, "u": ["N"] * N})
    assert formula.usual_family("u ~ x", table) == "bernoulli"
    with pytest.raises(
        ValueError, match="a response of numbers or of two categories, got one category, 'N'"
    ):
        vi.glmm("u ~ x", {**TABLE, "u": ["N"] * N})


def test_names_of_groups_read_differently():
    table = {"y": RNG.normal(size=4), "g": ["'a:b'", "a:b"] * 2, "k": ["c"] * 4}
    assert len(set(formula.read("y ~ (1 | g:k)", table).factors[0].levels)) == 2


def test_a_column_called_threshold_keeps_its_coefficient():
    model = vi.glmm(
        "c ~ threshold + x", {**TABLE, "c": np.arange(N) % 3, "threshold": TABLE["y"]}, "cumulative"
    )
    assert {"`threshold`", "x", "threshold[0]", "threshold[1]"} <= set(model.names)


# --- files that have types, and memory ------------------------------------------------------------
def test_a_parquet_file_is_read_as_the_same_table_in_memory(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pandas = pytest.importorskip("pandas")
    columns = {
        "y": [i * i % 7 for i in range(20)],
        "b": [i % 3 == 0 for i in range(20)],
        "zip": [f"0{i % 3}138" for i in range(20)],
        "f": [1.0, 2.5, 3.0, 2.5] * 5,
        "d": [decimal.Decimal("1.10"), decimal.Decimal("2.00")] * 10,
        "t": [pandas.Timestamp("2020-01-02"), pandas.Timestamp("2020-01-03 05:00")] * 10,
    }
    table = arrow.table(columns)
    parquet.write_table(table, path := str(tmp_path / "t.parquet"))
    assert vi.glmm("b ~ y", path).law.name == vi.glmm("b ~ y", table).law.name == "bernoulli"
    for text in ("y ~ zip", "zip ~ y"):
        for source in (path, table):
            with pytest.raises(
                ValueError, match=r"text, all of which says numbers|two categories|none of"
            ):
                formula.read(text, source)
    for name in ("zip", "f", "d", "t", "b"):
        text = f"y ~ (1 | {name})"
        from_file, in_memory = formula.read(text, path), formula.read(text, table)
        assert from_file.factors[0].levels == in_memory.factors[0].levels
        for later in (path, table, table.to_pandas(), columns):
            assert (from_file.read_rows(later).groups[0] == in_memory.rows.groups[0]).all()
            assert (in_memory.read_rows(later).groups[0] == in_memory.rows.groups[0]).all()
    csv = tmp_path / "t.csv"
    table.to_pandas().to_csv(csv, index=False)
    for name in ("zip", "f", "t", "b"):
        design = formula.read(f"y ~ (1 | {name})", path)
        assert (design.read_rows(str(csv)).groups[0] == design.rows.groups[0]).all()


def test_one_number_of_two_decimal_types_is_one_group(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for place, digits in enumerate((2, 3)):
        values = [decimal.Decimal(f"{x:.{digits}f}") for x in (1.1, 2.0)] * 5
        parquet.write_table(
            arrow.table({"y": list(range(10)), "g": values}), tmp_path / f"{place}.parquet"
        )
    assert formula.read("y ~ (1 | g)", str(tmp_path)).factors[0].levels == ("1.1", "2")


def test_a_fit_of_another_table_is_refused():
    model = vi.glmm("y ~ x + (1 | g)", TABLE)
    other = vi.glmm("y ~ x + (1 | g)", {**TABLE, "y": 1000 * TABLE["y"], "g": 5 - TABLE["g"]})
    fit = vi.fit(vi.ngvi(model), model.data, num_steps=1, key=jax.random.key(0))
    again = vi.glmm("y ~ x + (1 | g)", TABLE)
    assert again.draws(fit, jax.random.key(1), 3).named["x"].shape == (3,)
    with pytest.raises(
        ValueError, match="fit: expected a fit of this model, got one of another formula or table"
    ):
        other.draws(fit, jax.random.key(1), 3)


def test_pairs_of_more_levels_than_64_bits_hold_stay_apart():
    """64 levels of 11 columns are 2^66 combinations: in 64 bits, rows that differ by 16 in the
    first would be one."""
    levels = np.arange(64)
    columns = {f"c{j}": np.r_[levels, 0, 0] for j in range(1, 11)}
    first = np.r_[levels, 0, 16]
    table = {"y": RNG.normal(size=66), "first": first, **columns}
    design = formula.read(f"y ~ (1 | first:{':'.join(columns)})", table)
    groups = design.rows.groups[0]
    assert groups[-1] != groups[-2]
    assert groups[0] == groups[-2]
    assert len(design.factors[0].levels) == 65


def test_new_groups_of_one_name_have_effects_of_their_own_in_each_factor():
    table = {**TABLE, "h": np.arange(N) % 3}
    model = vi.glmm("y ~ (1 | g) + (1 | h)", table)
    values = {"_sds.g": np.ones((50, 1)), "_sds.h": np.ones((50, 1))}
    effects = {"g": np.zeros((50, 6, 1)), "h": np.zeros((50, 3, 1))}
    draws = Draws({"Intercept": np.zeros(50)}, effects, values)
    new_g, new_h, again = (
        model.predictors(draws, {"g": [g], "h": [h]}, jax.random.key(0))[:, 0]
        for g, h in (("new", 0), (0, "new"), ("new", 1))
    )
    np.testing.assert_array_equal(new_g, again)
    assert abs(np.corrcoef(new_g, new_h)[0, 1]) < 0.5


@pytest.mark.parametrize(
    ("successes", "trials", "said"),
    [
        (
            np.zeros(N),
            np.full(N, 2.5),
            "whole numbers of successes, 0 to the number of trials, got 0 of 2.5 in row 0",
        ),
        (
            np.zeros(N),
            np.arange(N) % 3,
            r"a trial or more in each row, got none in row 0, counted from 0 \(20 such\)",
        ),
    ],
)
def test_trials_are_whole_and_there(successes, trials, said):
    with pytest.raises(ValueError, match=said):
        vi.glmm("p(k, n) ~ x", {**TABLE, "k": successes, "n": trials})


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda v: v.astype(str), "numbers from f, got an array of <U"),
        (lambda v: v + 1j, "numbers from f, got an array of complex128"),
        (
            lambda v: np.ma.array(v, mask=v > 0),
            "an array of the 60 rows from f, got one with masked cells",
        ),
        (lambda v: v - v.mean(), "the same value in a row from f, whatever other rows there are"),
        (
            lambda v: np.r_[0.0, v[:-1]],
            "the same value in a row from f, whatever other rows there are",
        ),
        (lambda v: np.argsort(v), "the same value in a row from f"),
        (lambda v: 3.0, r"an array of the 60 rows from f, got shape \(\)"),
    ],
)
def test_functions_of_ones_own_are_of_numbers_row_by_row(function, said):
    with pytest.raises(ValueError, match=said):
        vi.glmm("y ~ f(x)", TABLE, functions={"f": function})


def test_functions_of_ones_own_cannot_change_the_table():
    table = {**TABLE, "x": TABLE["x"].copy()}
    design = formula.read("y ~ f(x) + x", table, functions={"f": lambda v: np.square(v, out=v)})
    np.testing.assert_array_equal(table["x"], TABLE["x"])
    np.testing.assert_array_equal(design.rows.x[:, 1:], np.c_[TABLE["x"] ** 2, TABLE["x"]])


@pytest.mark.parametrize(
    ("more", "settings", "said"),
    [
        ({"u": ["a"] * N}, {}, "got one category, 'a', in all rows. Nothing is left to model"),
        (
            {"u": ["a"] * N},
            {"family": "categorical"},
            "two categories or more of 'u', got one, 'a'",
        ),
        (
            {"u": np.ones(N)},
            {"family": "cumulative"},
            "two categories or more of 'u', got one, '1'",
        ),
        (
            {"u": [str(0.5 * i) for i in range(N)]},
            {},
            r"asarray\(table\['u'\], float\), or write family=.categorical",
        ),
        ({"u": np.ones(N)}, {"family": 3}, "family: expected None or one of"),
        (
            {"u": TABLE["y"]},
            {"priors": {"x": ("student_t", 0, 0, 1)}},
            "priors: expected finite positive numbers",
        ),
    ],
)
def test_responses_and_settings_that_say_nothing_are_refused(more, settings, said):
    with pytest.raises(ValueError, match=said):
        vi.glmm("u ~ x", {**TABLE, **more}, **settings)


def test_a_prior_of_student_may_have_a_negative_mean():
    model = vi.glmm("y ~ x", TABLE, priors={"x": ("student_t", 3, -1, 2)})
    assert model.priors["x"] == ("student_t", 3.0, -1.0, 2.0)


def test_a_table_without_rows_is_refused():
    with pytest.raises(ValueError, match="table: expected a row or more, got none"):
        vi.glmm("y ~ x", {"y": [], "x": []})


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_that_read_alike_are_one(form, tmp_path):
    """Accents in either of Unicode's forms, in the formula, a table, a file and new rows."""
    pandas = pytest.importorskip("pandas")
    name, other = (unicodedata.normalize(which, "caf\u00e9") for which in ("NFC", "NFD"))
    written = unicodedata.normalize(form, name)
    table = {"y": TABLE["y"], written: TABLE["x"]}
    pandas.DataFrame(table).to_csv(tmp_path / "a.csv", index=False)
    for source in (table, pandas.DataFrame(table), str(tmp_path / "a.csv")):
        for asked in (name, other):
            model = vi.glmm(f"y ~ {asked}", source)
            assert name in model.priors
    with pytest.raises(ValueError, match="one column of each name in the formula"):
        vi.glmm(f"y ~ {name}", {"y": TABLE["y"], name: TABLE["x"], other: TABLE["x"]})


@pytest.mark.parametrize(
    "name",
    [
        "\u0928\u093e\u092e",
        "\u0baa\u0bc6\u0baf\u0bb0\u0bcd",
        "\u0e0a\u0e37\u0e48\u0e2d",
    ],
    ids=["hindi", "tamil", "thai"],
)
def test_names_of_scripts_whose_letters_carry_marks_need_no_quotes(name):
    """Hindi, Tamil and Thai for "name"."""
    model = vi.glmm(f"y ~ {name} + g", {**TABLE, name: TABLE["x"]})
    assert name in model.priors


def test_predictions_are_not_traced():
    model = vi.glmm("y ~ x", TABLE)
    with pytest.raises(ValueError, match=naming("key:", "JAX")):
        jax.eval_shape(lambda key: model.predict(None, key=key).mean, jax.random.key(0))


@pytest.mark.parametrize(
    ("cells", "called"),
    [
        ([datetime.date(2024, 1, 1 + k) for k in range(6)], "dates"),
        ([datetime.timedelta(hours=k) for k in range(6)], "durations"),
        ([np.timedelta64(k, "h") for k in range(6)], "durations"),
        ([datetime.time(k) for k in range(6)], "times of day"),
    ],
    ids=["dates", "durations", "durations of NumPy", "times of day"],
)
def test_times_are_no_categories_unless_asked(cells, called):
    table = {"y": RNG.normal(size=60), "d": cells * 10}
    with pytest.raises(ValueError, match=rf"got {called} in \['d'\]. Make them numbers"):
        vi.glmm("y ~ d", table)
    assert sum(name.startswith("C(d)") for name in vi.glmm("y ~ C(d)", table).names) == 5
    assert "1|d_sigma" in vi.glmm("y ~ (1 | d)", table).names
