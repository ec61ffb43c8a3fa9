"""Answers of a regression at given draws, against arithmetic on the columns written out by hand,
and against quadrature."""

import jax
import numpy as np
import pytest
from scipy import integrate, special, stats

import vijax as vi
from tests.models.formulas.answers.made import drawn
from tests.naming import naming
from vijax.models.formulas.answers import means, questions
from vijax.models.formulas.answers.questions import Request

RNG = np.random.default_rng(0)
N, S = 60, 7
TABLE = {
    "y": RNG.normal(size=N),
    "count": RNG.poisson(3.0, N),
    "yes": RNG.integers(0, 2, N),
    "k": RNG.integers(0, 5, N),
    "n": np.full(N, 6),
    "grade": RNG.integers(0, 3, N),
    "kind": RNG.choice(["red", "green", "blue"], N),
    "x": RNG.uniform(0.5, 3.0, N),
    "z": RNG.normal(size=N),
    "one": RNG.integers(0, 2, N),
    "t": RNG.uniform(1.0, 9.0, N),
    "h": RNG.choice(["a", "b", "c"], N),
    "g": RNG.permutation(np.repeat([f"g{i}" for i in range(6)], 10)),
    "w": RNG.integers(1, 4, N).astype(float),
}
KEY = jax.random.key(0)


def ask(model, draws, what=None, kind="difference", slope=False, **request):
    request = Request(**request)
    if slope:
        return questions.slopes(model, draws, KEY, request, what)
    if what is None:
        return questions.predictions(model, draws, KEY, request)
    return questions.comparisons(model, draws, KEY, request, what, kind)


def column(draws, name):
    return draws.named[name][:, None]


def test_a_difference_of_probabilities_is_averaged_over_rows_by_their_weights():
    model = vi.glmm("yes ~ x * h + (1 | g)", TABLE, family="bernoulli", weights="w")
    draws = drawn(model)
    group = np.searchsorted(model.design.factors[0].levels, TABLE["g"])
    u = draws.effects["g"][:, group, 0]

    def chance(x, h):
        eta = column(draws, "Intercept") + column(draws, "x") * x + u
        for level in "bc":
            slope = column(draws, f"h[{level}]") + column(draws, f"x:h[{level}]") * x
            eta = eta + slope * (h == level)
        return 1 / (1 + np.exp(-eta))

    x, h, w = TABLE["x"], TABLE["h"], TABLE["w"]
    mean = lambda p, rows=slice(None): (p[:, rows] * w[rows]).sum(1) / w[rows].sum()
    found = ask(model, draws, {"h": None, "x": 2})
    expected = [chance(x, level) - chance(x, "a") for level in "bc"]
    expected = np.stack([mean(p) for p in [*expected, chance(x + 2, h) - chance(x, h)]], 1)
    np.testing.assert_allclose(found.draws, expected, rtol=1e-5)
    assert found.labels["contrast"].tolist() == ["b - a", "c - a", "+2"]
    np.testing.assert_allclose(found.mean, expected.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.above, (expected > 0).mean(0))
    # ratios of averages, within the levels of another column, and odds ratios
    found = ask(model, draws, {"x": (1, 2)}, "ratio", by="h")
    parts = [h == level for level in "abc"]
    ratio = [mean(chance(2, h), rows) / mean(chance(1, h), rows) for rows in parts]
    np.testing.assert_allclose(found.draws, np.stack(ratio, 1), rtol=1e-5)
    odds = lambda p: p / (1 - p)
    found = ask(model, draws, {"h": ("c", "b")}, "odds_ratio")
    ratio = odds(mean(chance(x, "b"))) / odds(mean(chance(x, "c")))
    np.testing.assert_allclose(found.draws[:, 0], ratio, rtol=1e-5)
    # at each row, and of a typical group
    found = ask(model, draws, {"h": ("c", "b")}, average=False)
    np.testing.assert_allclose(found.draws, chance(x, "b") - chance(x, "c"), rtol=1e-4, atol=1e-7)
    u = 0 * u
    found = ask(model, draws, {"h": "sequential"}, groups="zero")
    pairs = [mean(chance(x, j) - chance(x, i)) for i, j in ("ab", "bc")]
    np.testing.assert_allclose(found.draws, np.stack(pairs, 1), rtol=1e-5)
    assert "left out" in found.notes[0]
    assert "by their weights" in found.notes[0]


def test_transformed_columns_are_moved_in_their_own_units():
    model = vi.glmm(
        "count ~ np.log(x) * z + poly(x, 2, raw=True) + offset(log(t))", TABLE, "poisson"
    )
    draws = drawn(model)
    names = ["Intercept", "log(x)", "z", "poly(x, 2, raw=True)[0]", "poly(x, 2, raw=True)[1]"]
    labels = list(model.density_form.labels)
    interaction = next(name for name in labels if ":" in name)
    first, second = (name for name in labels if name.startswith("poly"))
    log_x = next(name for name in labels if "log" in name and ":" not in name)
    assert len(labels) == len(names) + 1

    def mean(x, z):
        b = {name: column(draws, name) for name in labels}
        eta = b["Intercept"] + b[log_x] * np.log(x) + b["z"] * z
        eta = eta + b[interaction] * np.log(x) * z + b[first] * x + b[second] * x**2
        return TABLE["t"] * np.exp(eta)

    x, z = TABLE["x"], TABLE["z"]
    found = ask(model, draws, {"x": 0.5, "z": "sd"})
    up = [mean(x + 0.5, z) - mean(x, z), mean(x, z + z.std()) - mean(x, z)]
    np.testing.assert_allclose(found.draws, np.stack([y.mean(1) for y in up], 1), rtol=1e-9)
    # the derivative by x, written out
    b = {name: column(draws, name) for name in labels}
    slope = (b[log_x] + b[interaction] * z) / x + b[first] + 2 * b[second] * x
    found = ask(model, draws, "x", slope=True)
    np.testing.assert_allclose(found.draws[:, 0], (slope * mean(x, z)).mean(1), rtol=1e-6)
    found = ask(model, draws, "x", slope=True, average=False)
    np.testing.assert_allclose(found.draws, slope * mean(x, z), rtol=1e-5)
    found = ask(model, draws, ["t"], slope=True, at={"t": [2, 4], "x": 1, "z": 0})
    by_t = np.exp(b["Intercept"] + b[first] + b[second])
    np.testing.assert_allclose(found.draws, np.repeat(by_t, 2, 1), rtol=1e-6)


def test_effects_of_groups_are_integrated_over_their_law():
    model = vi.glmm("yes ~ x + (x || g)", TABLE, family="bernoulli")
    for sds in (0.3, 1.0, 6.0):
        draws = drawn(model, sds=sds)
        found = ask(model, draws, at={"x": [0.5, 3.0]})
        assert "integrated over their law" in found.notes[0]
        for s in range(S):
            for i, x in enumerate((0.5, 3.0)):
                eta = draws.named["Intercept"][s] + draws.named["x"][s] * x
                sd = np.hypot(draws.named["1|g_sigma"][s], x * draws.named["x|g_sigma"][s])
                law = lambda v, eta=eta, sd=sd: special.expit(eta + sd * v) * stats.norm.pdf(v)
                exact = integrate.quad(law, -12, 12, epsabs=1e-12, limit=200)[0]
                assert found.draws[s, i] == pytest.approx(exact, abs=1e-8)


def test_a_parameter_without_effects_adds_no_dimension():
    """Behind a logit with a wide law of groups, where few nodes are not enough."""
    table = {**TABLE, "share": 0.1 + 0.8 * TABLE["yes"]}
    model = vi.glmm("share ~ x + (1 | g)", table, "beta", formulas="kappa ~ x")
    draws = drawn(model, sds=4.0)
    answer = ask(model, draws, at={"x": 0.5})
    eta = draws.named["Intercept"] + 0.5 * draws.named["x"]
    law = lambda v, e, sd: special.expit(e + sd * v) * stats.norm.pdf(v)
    pairs = zip(eta, draws.named["1|g_sigma"], strict=True)
    exact = [integrate.quad(law, -12, 12, pair, epsabs=1e-12, limit=200)[0] for pair in pairs]
    np.testing.assert_allclose(answer.draws[:, 0], exact, atol=1e-8)


def test_groups_that_rows_do_not_name_have_no_means():
    """The cells that stood in for them were shown as one group, with the mean of groups at large."""
    model = vi.glmm("y ~ x + (1 | k)", TABLE)
    draws = drawn(model)
    with pytest.raises(ValueError, match=naming("by:", "['k']", "at=", 'newdata="rows"')):
        ask(model, draws, newdata="balanced", by="k")
    means_of_groups = ask(model, draws, newdata="balanced", by="k", at={"k": [0, 2]})
    assert list(map(str, means_of_groups.labels["k"])) == ["0", "2"]
    named_by_at = ask(model, draws, newdata={"x": [1.0]}, at={"k": [2]})
    expected = draws.named["Intercept"] + draws.named["x"] + draws.effects["k"][:, 2, 0]
    np.testing.assert_allclose(named_by_at.draws[:, 0], expected, rtol=1e-6)
    assert "of the group of each row" in named_by_at.notes[0]


def test_the_base_of_pairs_is_a_number_of_any_type():
    model = vi.glmm("y ~ x", TABLE)
    pairs = ask(model, drawn(model), at={"x": [0, 1, 2]}).pairwise(base=1)
    assert pairs.labels["contrast"].tolist() == ["0 - 1", "2 - 1"]


@pytest.mark.parametrize("family", ["poisson", "hurdle_poisson", "lognormal"])
def test_integrals_of_means_behind_a_logarithm(family):
    table = {**TABLE, "count": TABLE["count"] + (family == "lognormal")}
    model = vi.glmm("count ~ x + (1 | g)", table, family=family)
    more = {"psi": np.full(S, 0.7), "sigma": np.full(S, 0.4)}
    draws = drawn(model, {name: more[name] for name in model.law.aux}, 2.0)
    found = ask(model, draws, at={"x": 1.0})
    eta = draws.named["Intercept"] + draws.named["x"]
    sd = draws.named["1|g_sigma"]
    if family != "hurdle_poisson":
        exact = np.exp(eta + 0.5 * sd**2 + 0.08 * (family == "lognormal"))
    else:
        mean = lambda x: 0.7 * np.exp(x) / -np.expm1(-np.exp(x))
        law = lambda v, e, sd: mean(e + sd * v) * stats.norm.pdf(v)
        exact = [
            integrate.quad(law, -9, 18, (e, s), limit=400)[0] for e, s in zip(eta, sd, strict=True)
        ]
    np.testing.assert_allclose(found.draws[:, 0], exact, rtol=2e-5)


def test_categories_are_answered_one_by_one():
    model = vi.glmm("grade ~ x + (1 | g)", TABLE, family="cumulative")
    cuts = {f"threshold[{i}]": np.linspace(-1, 0, S) + i for i in range(2)}
    draws = drawn(model, cuts)
    below = [special.expit(cuts[name] - draws.named["x"] * 2.0) for name in cuts]
    expected = np.stack([below[0], below[1] - below[0], 1 - below[1]], 1)
    found = ask(model, draws, at={"x": 2.0}, groups="zero")
    np.testing.assert_allclose(found.draws, expected, rtol=1e-6)
    assert found.labels["category"].tolist() == ["0", "1", "2"]
    found = ask(model, draws, {"x": (1, 2)}, groups="zero", newdata="typical")
    np.testing.assert_allclose(found.draws.sum(1), 0, atol=1e-12)
    found = ask(model, draws, {"x": (1, 2)}, scale="link")
    np.testing.assert_allclose(found.draws[:, 0], draws.named["x"], rtol=1e-9)


def test_named_categories_with_effects_of_groups_integrated_in_two_dimensions():
    model = vi.glmm("kind ~ x + (1 | g)", TABLE, family="categorical")
    draws = drawn(model)
    assert model.design.levels == ("blue", "green", "red")
    found = ask(model, draws, at={"x": 1.5})
    eta = [draws.named[f"Intercept[{c}]"] + 1.5 * draws.named[f"x[{c}]"] for c in ("green", "red")]
    sds = [draws.named[f"1|g_sigma[{c}]"] for c in ("green", "red")]
    nodes = np.linspace(-8, 8, 401)
    weight = stats.norm.pdf(nodes) * (nodes[1] - nodes[0])
    for s in range(S):
        first = eta[0][s] + sds[0][s] * nodes[:, None] + 0 * nodes
        second = eta[1][s] + sds[1][s] * nodes + 0 * nodes[:, None]
        p = special.softmax(np.stack([0 * first, first, second]), 0)
        exact = np.einsum("kij,i,j->k", p, weight, weight)
        np.testing.assert_allclose(found.draws[s], exact, atol=2e-5)
    found = ask(model, draws, {"x": 1}, scale="link", newdata="typical")
    assert found.labels["category"].tolist() == ["green", "red"]
    np.testing.assert_allclose(found.draws[:, 1], draws.named["x[red]"], rtol=1e-9)


def test_sobol_points_integrate_many_dimensions():
    nodes, weights = means.many_dimensions(5)
    assert weights.sum() == pytest.approx(1)
    assert nodes.shape == (512, 5)
    np.testing.assert_allclose(weights @ nodes**2, 1, atol=0.05)


def test_successes_are_answered_as_probabilities_and_binary_numbers_from_0_to_1():
    model = vi.glmm("p(k, n) ~ one + x", TABLE)
    draws = drawn(model)
    expit = lambda one, x: special.expit(
        column(draws, "Intercept") + column(draws, "one") * one + column(draws, "x") * x
    )
    found = ask(model, draws, "one")
    assert found.labels["contrast"].tolist() == ["1 - 0"]
    expected = (expit(1, TABLE["x"]) - expit(0, TABLE["x"])).mean(1)
    np.testing.assert_allclose(found.draws[:, 0], expected, rtol=1e-9)
    found = ask(model, draws, newdata="balanced")
    typical = np.hstack([expit(one, TABLE["x"].mean()) for one in (0, 1)])
    np.testing.assert_allclose(found.draws, typical, rtol=1e-9)


def test_marginal_means_are_over_a_balanced_grid_and_have_contrasts():
    model = vi.glmm("y ~ x + h * kind", TABLE)
    draws = drawn(model)
    named = draws.named

    def cell(h, kind):
        names = ["Intercept", f"h[{h}]", f"kind[{kind}]", f"h[{h}]:kind[{kind}]"]
        return sum(named[name] for name in names if name in named) + named["x"] * TABLE["x"].mean()

    found = ask(model, draws, newdata="balanced", by="h")
    expected = [np.mean([cell(h, kind) for kind in ("blue", "green", "red")], 0) for h in "abc"]
    np.testing.assert_allclose(found.draws, np.stack(expected, 1), rtol=1e-9)
    pairs = found.pairwise()
    assert pairs.labels["contrast"].tolist() == ["b - a", "c - a", "c - b"]
    np.testing.assert_allclose(pairs.draws[:, 2], expected[2] - expected[1], rtol=1e-6)
    against = found.pairwise("ratio", base="b")
    assert against.labels["contrast"].tolist() == ["a / b", "c / b"]
    both = ask(model, draws, newdata="balanced", by=["h", "kind"]).pairwise(by="kind")
    assert len(both) == 9
    difference = cell("c", "red") - cell("a", "red")
    place = np.flatnonzero((both.labels["kind"] == "red") & (both.labels["contrast"] == "c - a"))
    np.testing.assert_allclose(both.draws[:, place[0]], difference, rtol=1e-6)


def test_rows_of_another_table_by_a_column_that_the_formula_does_not_read():
    model = vi.glmm("y ~ x + C(one) + (1 | g)", TABLE)
    draws = drawn(model)
    new = {"x": [1.0, 2.0, 3.0], "one": [0, 1, 1], "site": ["v", "u", "v"]}
    found = ask(model, draws, newdata=new, by="site")
    assert found.labels["site"].tolist() == ["u", "v"]
    assert "integrated" in found.notes[0]  # the table names no groups
    b = draws.named
    eta = [b["Intercept"] + b["x"] * x + b["C(one)[1]"] * (x > 1) for x in (1.0, 2.0, 3.0)]
    np.testing.assert_allclose(found.draws, np.stack([eta[1], (eta[0] + eta[2]) / 2], 1))
    found = ask(model, draws, newdata={**new, "g": ["g0", "g1", "new"]})
    assert "1 row of 1 group of g" in found.notes[1]
    found = ask(model, draws, "one", newdata=new, at={"x": [5.0, 6.0]})
    assert found.labels["x"].tolist() == [5.0, 6.0]
    np.testing.assert_allclose(found.draws, np.repeat(column(draws, "C(one)[1]"), 2, 1))


def test_parts_of_rows_give_the_answers_of_all(monkeypatch):
    from vijax.models.formulas import glmm_model

    model = vi.glmm("yes ~ x * h + (1 | g)", TABLE, family="bernoulli")
    draws = drawn(model)
    asked = [
        ("h", {"by": "kind", "newdata": TABLE}),
        ("x", {"average": False}),
        (None, {"groups": "new", "average": False}),
    ]
    together = [ask(model, draws, what, **request) for what, request in asked]
    monkeypatch.setattr(glmm_model, "AT_ONCE", S * 7)
    for (what, request), table in zip(asked, together, strict=True):
        by_parts = ask(model, draws, what, **request)
        np.testing.assert_allclose(by_parts.draws, table.draws, rtol=1e-10)
        for name, x in table.labels.items():
            np.testing.assert_array_equal(by_parts.labels[name], x)


@pytest.mark.parametrize(
    ("what", "request_", "said"),
    [
        ("xx", {}, r"columns: expected columns of the terms, of \['x', 'h', 'g'\], got 'xx'"),
        ({"h": "pairs"}, {}, "columns: expected for 'h' \"base\""),
        ({"x": "big"}, {}, "columns: expected for 'x' a number"),
        ({"h": ("a", "q")}, {}, r"levels of 'h', \['a', 'b', 'c'\], got 'q'"),
        ("h", {"by": "site"}, "by: expected a column of the table.*newdata=table"),
        ("h", {"at": {"h": "q"}}, "at: expected levels of 'h'"),
        ("h", {"newdata": "typical", "groups": "same"}, "groups: expected rows with the groups"),
        ("h", {"groups": "all"}, "groups: expected one of"),
        ("h", {"scale": "odds"}, "scale: expected one of"),
        ("h", {"level": 1.5}, "level: expected a probability"),
        ("h", {"by": "x", "average": False}, "average: expected True"),
    ],
)
def test_questions_that_have_no_answer_say_what_was_expected(what, request_, said):
    model = vi.glmm("y ~ x + h + (1 | g)", TABLE)
    with pytest.raises(ValueError, match=said):
        ask(model, drawn(model), what, **request_)
    if what == "h" and not request_:
        with pytest.raises(ValueError, match="columns of numbers, got 'h' of levels"):
            ask(model, drawn(model), "h", slope=True)


def test_odds_and_ratios_are_of_probabilities_and_means():
    model = vi.glmm("y ~ x", TABLE)
    with pytest.raises(ValueError, match="means, which are no probabilities"):
        ask(model, drawn(model), "x", "odds_ratio")
    with pytest.raises(ValueError, match='"difference" of predictors'):
        ask(model, drawn(model), "x", "ratio", scale="link")


def test_values_of_monotone_terms_are_levels_as_they_rise():
    table = {**TABLE, "size": RNG.choice(["small", "big", "huge"], N)}
    model = vi.glmm("y ~ mo(size, levels=['small', 'big', 'huge']) + mo(grade) + x", table)
    shares = np.linspace(0.2, 0.6, S)
    names = ["simo_mo(size)", "simo_mo(grade)"]
    more = {f"{name}[{k}]": (shares, 1 - shares)[k - 1] for name in names for k in (1, 2)}
    draws = drawn(model, more)
    found = ask(model, draws, {"size": None, "grade": "sequential"})
    b, grade = draws.named["mo(size)"], draws.named["mo(grade)"]
    steps = [2 * b * shares, 2 * b, 2 * grade * shares, 2 * grade * (1 - shares)]
    np.testing.assert_allclose(found.draws, np.stack(steps, 1), rtol=1e-6, atol=1e-9)
    contrasts = ["big - small", "huge - small", "1 - 0", "2 - 1"]
    assert found.labels["contrast"].tolist() == contrasts


def test_steps_of_slopes_stay_within_the_values_of_training():
    model = vi.glmm("y ~ h + bs(x, df=5)", TABLE)
    draws = drawn(model)
    ends = {name: TABLE[name][[TABLE["x"].argmin(), TABLE["x"].argmax()]] for name in "hx"}
    slopes = ask(model, draws, "x", slope=True, newdata=ends, average=False)
    assert not any("beyond" in note for note in slopes.notes)
    step = 1e-4 * np.array([1, -1])
    inwards = {**ends, "x": ends["x"] + step}
    here, near = (
        ask(model, draws, newdata=rows, average=False).draws.reshape(7, 2)
        for rows in (ends, inwards)
    )
    np.testing.assert_allclose(slopes.draws, (near - here) / step, rtol=2e-3, atol=1e-3)
    outside = {**ends, "x": ends["x"] + np.array([-0.2, 0.2])}
    slopes = ask(model, draws, "x", slope=True, newdata=outside, average=False)
    assert any("beyond" in note for note in slopes.notes)


def test_marginal_means_over_rows_set_all_rows_to_each_level():
    model = vi.glmm("y ~ x + h + one", TABLE)
    draws = drawn(model)
    rows = {name: TABLE[name][TABLE["h"] != "c"] for name in ("x", "h", "one")}
    for newdata, table in ((rows, rows), ("rows", TABLE), (None, TABLE)):
        answer = model.marginal_means(draws, "one", key=KEY, newdata=newdata)
        column = lambda name: draws.named[name][:, None]
        eta = column("Intercept") + column("x") * table["x"]
        for level in "bc":
            eta = eta + column(f"h[{level}]") * (table["h"] == level)
        expected = np.stack([(eta + value * column("one")).mean(1) for value in (0, 1)], 1)
        np.testing.assert_allclose(answer.draws, expected, rtol=1e-5)
        difference = model.comparisons(draws, "one", key=KEY, newdata=newdata)
        np.testing.assert_allclose(answer.pairwise().draws, difference.draws, rtol=1e-4)
    by_h = model.marginal_means(draws, ["h", "x"], key=KEY, newdata=rows, at={"x": [1, 2]})
    assert len(by_h.mean) == 6
    with pytest.raises(ValueError, match=r"columns: .*Pass at="):
        model.marginal_means(draws, "x", key=KEY, newdata=rows)
    with pytest.raises(ValueError, match=r"predictions\(by=\)"):
        model.marginal_means(draws, "z", key=KEY, newdata=TABLE)


OWN_NAMES = ("mean", "sd", "row", "category", "term", "contrast", "P(h)", "50 %")


@pytest.mark.parametrize("name", OWN_NAMES)
@pytest.mark.parametrize("family", ["gaussian", "categorical"])
def test_a_column_may_have_the_name_of_a_column_of_answers(family, name):
    """Beside the same table with another name: all numbers and labels stay."""
    response = {"gaussian": "y", "categorical": "kind"}[family]
    tables = []
    for column_name in ("h", name):
        table = {response: TABLE[response], "z": TABLE["z"], column_name: TABLE["h"]}
        model = vi.glmm(f"{response} ~ z + `{column_name}`", table, family=family)
        draws = drawn(model)
        means_table = ask(model, draws, by=[column_name])
        tables.append(
            [
                means_table,
                ask(model, draws, column_name),
                ask(model, draws, ["z"], by=[column_name], slope=True),
                ask(model, draws, newdata={"z": [0.0, 1.0], column_name: ["a", "b"]}),
                means_table.pairwise(),
            ]
        )
    for plain, same in zip(*tables, strict=True):
        plain_columns, columns = plain.columns(), same.columns()
        assert len(columns) == len(plain_columns)
        for cells, own_cells in zip(plain_columns.values(), columns.values(), strict=True):
            if cells.dtype != object or "term" not in same.labels:
                np.testing.assert_array_equal(own_cells, cells)
        lengths = {len(row) for row in same._cells()}
        assert lengths == {len(row) for row in plain._cells()}


@pytest.mark.parametrize(
    "newdata", [{"x": [], "h": []}, {"x": np.zeros(0), "h": np.array([], str)}]
)
@pytest.mark.parametrize("at", [None, {"x": [1.0]}])
def test_no_rows_are_an_error(newdata, at):
    model = vi.glmm("y ~ x + h", TABLE)
    draws = drawn(model)
    for options in ({}, {"what": "h"}, {"what": ["x"], "slope": True}):
        with pytest.raises(ValueError, match="newdata: expected a row or more"):
            ask(model, draws, newdata=newdata, at=at, **options)
