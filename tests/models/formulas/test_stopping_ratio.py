"""Family "sratio" and `cs(x)`: against products of chances, and logistic regressions of the rows
that reach each step."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

import vijax as vi
from tests.models.formulas.test_flat_priors import mode
from tests.naming import naming
from vijax.app.cli import main
from vijax.models.formulas import modelled
from vijax.models.formulas.laws import LAWS

RNG = np.random.default_rng(2)
N = 300
X, Z = RNG.normal(size=(2, N))
G = np.arange(N) % 15
CUTS, OWN = np.array([-0.6, 0.4, -0.1]), np.array([0.8, 0.1, -0.5])


def draw_categories():
    y, goes_on = np.zeros(N), np.ones(N, bool)
    for cut, slope in zip(CUTS, OWN, strict=True):
        goes_on &= RNG.random(N) > special.expit(cut - 0.6 * Z - slope * X)
        y += goes_on
    return y


Y = draw_categories()
TABLE = {"y": Y, "x": X, "z": Z, "g": G}


def chances(cuts, eta):
    """P(y = k) by hand: stopped at no step before, and at this one."""
    rows = []
    for row in eta:
        left, row_chances = 1.0, []
        for cut in cuts:
            stop = 1 / (1 + np.exp(row - cut))
            row_chances.append(left * stop)
            left *= 1 - stop
        rows.append([*row_chances, left])
    return np.array(rows)


def test_the_law_is_a_product_of_steps():
    law, eta = LAWS["sratio"], np.array([-1.0, 0.2, 1.5])
    aux, by_hand = {"threshold": jnp.asarray(CUTS)}, chances(CUTS, eta)
    for k in range(4):
        found = jax.vmap(lambda z: law.log_prob(aux, 1.0, k, z))(eta)  # noqa: B023
        np.testing.assert_allclose(np.exp(found), by_hand[:, k], rtol=1e-5)
    by_draw = law.mean({"threshold": CUTS[None]}, eta[None])[0]
    np.testing.assert_allclose(by_draw, by_hand, rtol=1e-10)
    np.testing.assert_allclose(by_draw.sum(1), 1.0)
    draws = np.asarray(law.sample(aux, 1.0, jax.random.key(0), jnp.full(20_000, 0.2)))
    shares = np.bincount(draws.astype(int), minlength=4) / 20_000
    np.testing.assert_allclose(shares, by_hand[1], atol=4 * np.sqrt(0.25 / 20_000))


def logistic(columns, y):
    """Maximum likelihood of a logistic regression by SciPy."""

    def loss(b):
        eta = columns @ b
        return np.sum(np.logaddexp(0, eta) - y * eta)

    return optimize.minimize(loss, np.zeros(columns.shape[1]), method="BFGS").x


def test_effects_by_step_are_those_of_a_logistic_regression_of_each():
    """With flat priors, of the rows that reach the step."""
    top = mode(lambda: vi.glmm("y ~ cs(x) + cs(z)", TABLE, "sratio", priors="flat"))
    for k in range(3):
        reach = k <= Y
        columns = np.column_stack([np.ones(N), X, Z])[reach]
        intercept, *slopes = logistic(columns, (k < Y)[reach] * 1.0)
        found = [-top[f"threshold[{k}]"], top[f"x[{k}]"], top[f"z[{k}]"]]
        np.testing.assert_allclose(found, [intercept, *slopes], atol=2e-4)


def test_common_and_own_effects_are_those_of_one_regression_of_all_steps():
    """A row for each step that it reaches; x has a column for each step, z one."""
    top = mode(lambda: vi.glmm("y ~ z + cs(x)", TABLE, "sratio", priors="flat"))
    rows, goes_on = [], []
    for k in range(3):
        reach = np.flatnonzero(k <= Y)
        step = np.eye(3)[np.full(len(reach), k)]
        rows.append(np.column_stack([step, Z[reach], step * X[reach, None]]))
        goes_on.append(Y[reach] > k)
    best = logistic(np.concatenate(rows), np.concatenate(goes_on) * 1.0)
    names = [*(f"threshold[{k}]" for k in range(3)), "z", *(f"x[{k}]" for k in range(3))]
    signs = np.array([-1, -1, -1, 1, 1, 1, 1])
    np.testing.assert_allclose([top[name] for name in names], signs * best, atol=2e-4)


@pytest.mark.slow
def test_a_fit_with_groups_predicts_its_chances():
    model = vi.glmm("y ~ cs(x) + z + (1 | g)", TABLE, "sratio")
    fit = vi.auto(model, key=jax.random.key(0))
    assert "can be used" in fit.verdict
    rows = {"x": [0.5], "z": [1.0], "g": [3]}
    draws = model.draws(fit, jax.random.key(1))
    seen = fit.predict(rows, key=jax.random.key(1))
    eta = draws.named["z"] + draws.effects["g"][:, 3, 0]
    cuts = np.stack(
        [draws.named[f"threshold[{k}]"] - 0.5 * draws.named[f"x[{k}]"] for k in range(3)], 1
    )
    by_hand = np.mean([chances(c, [e])[0] for c, e in zip(cuts, eta, strict=True)], 0)
    np.testing.assert_allclose(seen.mean[0], by_hand, atol=0.01)
    logs = model.log_lik(fit, jax.random.key(1), 50)
    assert np.isfinite(logs).all()
    ratios = model.ratios(fit, jax.random.key(2))
    assert {"x[0]", "x[1]", "x[2]", "z"} == set(ratios.names)


WRONG = [
    ("y ~ cs(x)", "cumulative", ("cs(x)", "sratio")),
    ("y ~ cs(x)", "categorical", ("cs(x)", "sratio")),
    ("y ~ cs(x):z", "sratio", ("cs(x)", "term")),
    ("y ~ z + (cs(x) | g)", "sratio", ("cs(x)", "term")),
    ("y ~ cs(x, z)", "sratio", ("cs(x)", "cs(z)")),
    ("y ~ z - cs(x)", "sratio", ("cs(x)",)),
    ("y ~ x + cs(x)", "sratio", ("x", "both")),
    ("y ~ cs(1)", "sratio", ("column",)),
]


@pytest.mark.parametrize(("formula", "family", "names"), WRONG)
def test_other_places_of_effects_by_step_are_refused(formula, family, names):
    with pytest.raises(ValueError, match=naming("formula:", *names)):
        vi.glmm(formula, TABLE, family)


def test_improper_steps_are_refused():
    """Nobody with x > 0 stops at the first step."""
    y = np.where(X > 0, np.maximum(Y, 1), 0.0)
    with pytest.raises(ValueError, match=naming("priors:", "x[0]")):
        vi.glmm("y ~ cs(x) + z", {**TABLE, "y": y}, "sratio", priors="flat")


def test_a_run_of_steps_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = np.array(["none", "some", "more", "all"])[Y.astype(int)]
    rows = [f"{a},{b},{c}" for a, b, c in zip(words, X, Z, strict=True)]
    Path("d.csv").write_text("\n".join(["y,x,z", *rows]) + "\n")
    own = ["model.formula=y ~ cs(x) + z", "model.family=sratio", "model.num_draws=100"]
    order = 'model.order=["none","some","more","all"]'
    assert main(["fit", "glmm", "--data", "d.csv", "--out", "run", "--set", *own, order]) == 0
    results = vi.load("run").transform({"x": [0.0], "z": [0.0]})
    total = sum(float(results[f"mean[{name}]"][0]) for name in ("none", "some", "more", "all"))
    assert total == pytest.approx(1.0)
    page = Path("run/report.html").read_text()
    assert "of rows that reach it, in the order none, some, more, all" in page
    assert "x[0]" in page


def test_the_sentence_and_the_estimator():
    model = vi.glmm("y ~ cs(x) + z", TABLE, "sratio")
    assert "going on beyond each category" in modelled.sentence(model.design, model.law)
    pandas = pytest.importorskip("pandas")
    from vijax.sklearn import MixedModelClassifier

    words = np.array(["none", "some", "more", "all"])
    frame = pandas.DataFrame({"x": X, "z": Z})
    estimator = MixedModelClassifier("~ x + z", family="sratio", order=words.tolist())
    estimator.fit(frame, words[Y.astype(int)])
    chance = estimator.predict_proba(frame[:1])
    assert chance.shape == (1, 4)
    assert estimator.order_.tolist() == words.tolist()
