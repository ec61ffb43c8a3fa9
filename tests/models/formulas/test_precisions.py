"""`precisions=` of `vi.glmm`: against weighted least squares, lme4's `weights=`, dense normal
densities, and the same law written as a formula of sigma."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.models.formulas.test_flat_priors import by_values, mode
from tests.naming import naming
from vijax.app.cli import main
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.models.formulas.form import log_lik
from vijax.models.formulas.without_columns import KnownRows, fit_without_columns
from vijax.xla.precision import enable_x64

RNG = np.random.default_rng(7)
N = 60
X = RNG.normal(size=N)
G, H = np.arange(N) % 6, RNG.integers(0, 4, N)
W = RNG.gamma(2.0, 1.0, N) + 0.1
Y = 1 + 2 * X + RNG.normal(size=6)[G] + RNG.normal(size=4)[H] + RNG.normal(size=N) / np.sqrt(W)
TABLE = {"y": Y, "x": X, "g": G, "h": H, "w": W}
FORMULAS = ("y ~ x", "y ~ x + (1 | g)", "y ~ x + (x | g)", "y ~ x + (1 | g) + (1 | h)")


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_likelihood_is_a_dense_normal_density(formula):
    """Of y ~ N(X b, sum of Z S Z' + sigma^2 / W)."""
    weights = RNG.integers(1, 3, N).astype(float)
    with enable_x64(True):
        model = vi.glmm(formula, TABLE, precisions="w", weights=weights)
        form = model.density_form
        values, named = by_values(form)
        data = {name: jnp.asarray(x) for name, x in model.data.items()}
        found = float(jnp.sum(jax.vmap(lambda rows: log_lik(form, values, rows))(data)))
    assert form.is_plain_normal
    size = np.log(form.units.size) * weights.sum()
    constant = 0.5 * weights @ np.log(W)
    rows = np.repeat(np.arange(N), weights.astype(int))
    covariance = np.diag(named["sigma"] ** 2 / W[rows])
    for factor, groups in (("g", G), ("h", H)):
        z = np.eye(6)[groups[rows]]
        if f"1|{factor}_sigma" in named:
            covariance += named[f"1|{factor}_sigma"] ** 2 * z @ z.T
        if f"x|{factor}_sigma" in named:
            slopes = z * X[rows, None]
            covariance += named[f"x|{factor}_sigma"] ** 2 * slopes @ slopes.T
            both = named[f"1|{factor}_sigma"] * named[f"x|{factor}_sigma"]
            cross = named[f"corr(1, x|{factor})"] * both * z @ slopes.T
            covariance += cross + cross.T
    mean = (named["Intercept"] + named["x"] * X)[rows]
    exact = stats.multivariate_normal.logpdf(Y[rows], mean, covariance)
    np.testing.assert_allclose(found - size + constant, exact, rtol=1e-9)


def test_flat_priors_give_weighted_least_squares():
    top = mode(lambda: vi.glmm("y ~ x", TABLE, precisions="w", priors="flat"))
    columns = np.column_stack([np.ones(N), X])
    beta = np.linalg.solve(columns.T @ (W[:, None] * columns), columns.T @ (W * Y))
    sigma = np.sqrt(np.mean(W * (Y - columns @ beta) ** 2))
    found = [top["Intercept"], top["x"], top["sigma"]]
    np.testing.assert_allclose(found, [*beta, sigma], rtol=1e-5)


@pytest.mark.parametrize("family", ["gaussian", "t"])
def test_precisions_are_an_offset_of_sigma(family):
    """The log likelihoods of rows, of training and of other tables, at the same draws."""
    model = vi.glmm("y ~ x + (1 | g)", TABLE, family, precisions="w")
    fit = vi.auto(model, key=jax.random.key(0))
    logs = model.log_lik(fit, jax.random.key(1), 20)
    again = model.log_lik(fit, jax.random.key(1), 20, table=TABLE)
    np.testing.assert_allclose(logs, again, atol=1e-4)
    draws = model.draws(fit, jax.random.split(jax.random.key(1))[0], 20)
    assert "can be used" in fit.verdict
    other = vi.glmm(
        "y ~ x + (1 | g)", TABLE, family, formulas=["sigma ~ 1 + offset(-0.5 * log(w))"]
    )
    second = vi.auto(other, key=jax.random.key(0)).summary()
    first = fit.summary()
    for name in ("Intercept", "x", "1|g_sigma"):
        i, j = first.names.index(name), second.names.index(name)
        assert abs(first.mean[i] - second.mean[j]) < 0.1 * second.sd[j]
    assert draws.named["sigma"].min() > 0


def test_intervals_of_rows_have_their_precisions():
    """Of training; of new rows with the column; those without it have precision one."""
    model = vi.glmm("y ~ x", TABLE, precisions="w")
    fit = vi.auto(model, key=jax.random.key(0))
    sigma = fit.summary().mean[2]
    key = jax.random.key(2)
    seen = model.predict(fit, key=key)
    np.testing.assert_allclose(seen.response_sd, np.hypot(seen.sd, sigma / np.sqrt(W)), rtol=0.1)
    new = fit.predict({"x": [0.0, 0.0], "w": [1.0, 25.0]}, key=key)
    np.testing.assert_allclose(new.response_sd[0] / sigma, 1.0, rtol=0.1)
    assert new.response_sd[1] < 0.35 * new.response_sd[0]
    bare = fit.predict({"x": [0.0]}, key=key)
    np.testing.assert_allclose(bare.response_sd[0], new.response_sd[0], rtol=1e-6)
    copies = model.replicated(fit, key, 400)
    np.testing.assert_allclose((copies - Y).std(0).mean(), (sigma / np.sqrt(W)).mean(), rtol=0.1)


def test_the_law_without_columns_has_weighted_means():
    model = vi.glmm("y ~ x", TABLE, precisions="w")
    plain = fit_without_columns(model.law, KnownRows.from_design(model.design, model.weights))
    mean = W @ Y / W.sum()
    sigma = np.sqrt(np.mean(W * (Y - mean) ** 2))
    rows = KnownRows.from_design(model.design, None, TABLE)
    exact = stats.norm.logpdf(Y, mean, sigma / np.sqrt(W))
    np.testing.assert_allclose(plain.log_lik(rows), exact, atol=1e-4)


def test_rows_left_out_take_their_precisions_along():
    table = {**TABLE, "x": np.where(np.arange(N) == 3, np.nan, X)}
    for precisions in ("w", W):
        with pytest.warns(UserWarning, match="'x' 1"):
            model = vi.glmm("y ~ x", table, precisions=precisions, missing="drop")
        np.testing.assert_array_equal(model.design.facts["precision"], np.delete(W, 3))
    weights = np.where(np.arange(N) < 5, 0.0, 1.0)
    model = vi.glmm("y ~ x", TABLE, precisions=W, weights=weights)
    np.testing.assert_array_equal(model.design.facts["precision"], W[5:])
    fit = vi.auto(model, key=jax.random.key(0))
    with pytest.raises(ValueError, match=naming("precisions:", "column", "array")):
        model.log_lik(fit, jax.random.key(1), table=TABLE)


WRONG = [
    ("y ~ x", {"precisions": np.zeros(N)}, ("0", "weights=")),
    ("y ~ x", {"precisions": W[1:]}, ("60", "shape")),
    ("y ~ x", {"precisions": "none"}, ("none",)),
    ("h ~ x", {"precisions": "w", "family": "poisson"}, ("gaussian", "poisson", "weights=")),
    ("se(y, w) ~ x", {"precisions": "w"}, ("se(y, s)",)),
]


@pytest.mark.parametrize(("formula", "options", "names"), WRONG)
def test_wrong_precisions_are_told(formula, options, names):
    with pytest.raises(ValueError, match=naming("precisions:", *names)):
        vi.glmm(formula, TABLE, **options)


def test_precisions_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{a},{b},{c}" for a, b, c in zip(Y, X, W, strict=True)]
    Path("d.csv").write_text("\n".join(["y,x,w", *rows]) + "\n")
    own = ["model.formula=y ~ x", "model.precisions=w", "model.num_draws=400"]
    assert main(["fit", "glmm", "--data", "d.csv", "--out", "run", "--set", *own]) == 0
    run = vi.load("run")
    results = run.transform({"x": [0.0, 0.0], "w": [1.0, 25.0]})
    widths = np.asarray(results["highest"], float) - np.asarray(results["lowest"], float)
    assert widths[1] < 0.35 * widths[0]
    page = Path("run/report.html").read_text()
    assert "with its precisions" in page
    assert main(["effects", "run", "--ask", "variance"]) == 0


def test_rows_of_a_file_that_lack_a_weight_or_a_precision(tmp_path):
    """They are refused, or left out, as `vijax.glmm` does it. A group for each row is told from
    sigma by precisions that differ."""
    path = tmp_path / "d.csv"
    cells = zip(Y, X, W, strict=True)
    rows = ["y,x,g,w,n", *(f"{y},{x},g{i},{w},2" for i, (y, x, w) in enumerate(cells))]
    rows[3] = "1.5,0.1,g2,,2"
    rows[5] = "1.5,0.1,g4,1.0,"
    path.write_text("\n".join(rows) + "\n")
    own = ["model.formula=y ~ x + (1 | g)", "model.precisions=w", "model.weights=n"]
    own.append("data.held_out=0")
    with pytest.raises(ValueError, match=naming("w", "line 4", "n", "line 6", "data.missing")):
        load_data(load_config("glmm", own, str(path)))
    train = load_data(load_config("glmm", [*own, "data.missing=drop"], str(path))).train
    assert (train.num_rows, train.num_dropped) == (len(Y) - 2, 2)
    own.remove("model.weights=n")
    train = load_data(load_config("glmm", [*own, "data.missing=drop"], str(path))).train
    assert train.num_dropped == 1
    assert not [note for note in train.notes if "1|g_sigma" in note]


def test_the_estimator_reads_precisions():
    pandas = pytest.importorskip("pandas")
    from vijax.sklearn import MixedModelRegressor

    frame = pandas.DataFrame({"x": X, "w": W})
    model = MixedModelRegressor(precisions="w", random_state=0).fit(frame, Y)
    assert model.model_.design.labels == ("Intercept", "x")
    low, high = model.predict_interval(pandas.DataFrame({"x": [0.0, 0.0], "w": [1.0, 25.0]}))
    assert (high - low)[1] < 0.35 * (high - low)[0]
    with pytest.raises(ValueError, match=naming("X:", "w")):
        model.predict(frame[["x"]])
