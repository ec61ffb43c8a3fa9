"""Regressions of categories without an order: against sums of NumPy, grids, dense Hessians and
scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import vijax as vi
from vijax.app.cli import main
from vijax.models.formulas import form as forms
from vijax.models.formulas import formula

RNG = np.random.default_rng(4)
TABLE = {
    "y": RNG.choice(["low", "mid", "top"], 24),
    "x": 3 + 2 * RNG.normal(size=24),
    "h": RNG.choice(["u", "v"], 24),
    "g": np.repeat(["a", "b", "c", "d"], 6),
    "k": np.tile(["p", "q", "r"], 8),
}
LEVELS = "mid", "low", "top"


def chosen(eta, y):
    """Log probabilities of categories, (..., N), from predictors of all but the base, (..., N,
    2)."""
    whole = np.concatenate([np.zeros((*eta.shape[:-1], 1)), eta], -1)
    own = np.take_along_axis(whole, np.broadcast_to(y[:, None], (*whole.shape[:-1], 1)), -1)[..., 0]
    return own - special.logsumexp(whole, -1)


def numbers(table=TABLE):
    return np.array([LEVELS.index(level) for level in table["y"]])


def common(named, table=TABLE):
    """Predictors without effects of groups, from coefficients by their names: (N, 2)."""
    columns = {
        "Intercept[{}]": np.ones(len(table["x"])),
        "x[{}]": table["x"],
        "h[v, {}]": table["h"] == "v",
    }
    of = lambda level: sum(
        named[name.format(level)] * x for name, x in columns.items() if name.format(level) in named
    )
    return np.stack([of("low"), of("top")], -1)


def at_random(text, **how):
    """In float64: the model, its log likelihood, and the unknowns by name at random values."""
    model = vi.glmm(text, TABLE, family="categorical", base="mid", **how)
    form, data = model.density_form, {name: jnp.asarray(x) for name, x in model.data.items()}
    x = RNG.normal(size=model.free.variables.dim) * 0.5

    def whole(x):
        values = model.free.values_at(x)
        return jnp.sum(jax.vmap(lambda rows: forms.log_lik(form, values, rows))(data)), form.named(
            values
        )

    of = jax.jit(jax.value_and_grad(whole, has_aux=True))
    return (
        model,
        x,
        lambda x: (lambda got: (float(got[0][0]), _floats(got[0][1]), np.asarray(got[1])))(
            of(jnp.asarray(x))
        ),
    )


def _floats(named):
    return {name: float(x) for name, x in named.items()}


def test_names_and_priors_are_those_of_bambi():
    """Of Bambi 0.17.2: names of coefficients; half-normal priors of scale 2.5 / sd(x), N(0, (2.5 /
    sd(x))^2)."""
    model = vi.glmm("y ~ x * h + (x | g)", TABLE, family="categorical")
    both = lambda *names: [
        formula.name_at_level(name, level) for name in names for level in ("mid", "top")
    ]
    corr = "corr(1, x|g)"
    spreads = [f"{name}|g_sigma[{level}]" for level in ("mid", "top") for name in ("1", "x")]
    assert model.names == [*both("Intercept", "x", "h[v]", "x:h[v]"), *spreads, *both(corr)]
    assert "h[v, top]" in model.names
    assert list(model.priors) == [*model.names[:12], "corr|g"]
    sd = 2.5 / TABLE["x"].std()
    assert model.priors["x[top]"] == ("normal", 0.0, pytest.approx(sd))
    assert model.priors["x|g_sigma[mid]"] == ("half_normal", pytest.approx(sd))
    assert model.design.levels == ("low", "mid", "top")
    assert vi.glmm("h ~ x", TABLE, family="categorical").names == ["Intercept[v]", "x[v]"]


def test_the_density_is_the_integral_over_effects_of_all_categories():
    """Two effects of a group, one of each category: a grid, at the named unknowns. And the gradient
    that of differences, the intercepts' prior at the means of columns."""
    with jax.enable_x64(True):
        model, x, of = at_random("y ~ x + h + (1 | g)", nodes=9)
        value, named, slope = of(x)
        along = RNG.normal(size=x.size)
        difference = (of(x + 1e-5 * along)[0] - of(x - 1e-5 * along)[0]) / 2e-5
        np.testing.assert_allclose(slope @ along, difference, rtol=1e-6)
    t = np.linspace(-7, 7, 141)
    v = np.stack(np.meshgrid(t, t), -1).reshape(-1, 2)
    u = v * [named["1|g_sigma[low]"], named["1|g_sigma[top]"]]
    total = 0.0
    for group in "abcd":
        own = TABLE["g"] == group
        inside = chosen(common(named)[own] + u[:, None], numbers()[own]).sum(1) + stats.norm.logpdf(
            v
        ).sum(1)
        total += special.logsumexp(inside) + 2 * np.log(t[1] - t[0])
    np.testing.assert_allclose(value, total, atol=1e-3)
    aux, eta = {}, common(named)
    shares = model.law.mean(aux, eta[None])[0]
    np.testing.assert_allclose(
        np.log(shares[np.arange(24), numbers()]), chosen(eta, numbers()), rtol=1e-9
    )


def test_the_prior_of_intercepts_is_at_the_means_of_columns():
    model = vi.glmm("y ~ x", TABLE, family="categorical", base="mid")
    form = model.density_form
    values = model.free.values_at(jnp.asarray(RNG.normal(size=4), jnp.float32))
    both = jax.jit(lambda v: (forms.log_prior(form, v), form.named(v)))(values)
    named, laws, total = _floats(both[1]), model.priors, form.constant
    for level in ("low", "top"):
        centre = named[f"Intercept[{level}]"] + named[f"x[{level}]"] * TABLE["x"].mean()
        total += stats.norm(*laws[f"Intercept[{level}]"][1:]).logpdf(centre)
        total += stats.norm(*laws[f"x[{level}]"][1:]).logpdf(named[f"x[{level}]"])
    np.testing.assert_allclose(both[0], total, rtol=1e-5)
    turn = np.array(form.units.turn)
    np.testing.assert_allclose(form.constant, np.linalg.slogdet(turn)[1], rtol=1e-6)


def test_several_factors_of_categories_are_laplace():
    """Against SciPy's search for the mode and a dense Hessian; crossed, with slopes."""
    with jax.enable_x64(True):
        _, at, of = at_random("y ~ x + (x || g) + (1 | k)")
        value, _, slope = of(at)
    columns = {
        f"{name}|{g}_sigma": (TABLE[g][:, None] == np.unique(TABLE[g]))
        * (TABLE["x"][:, None] if name == "x" else 1.0)
        for name, g in (("1", "g"), ("x", "g"), ("1", "k"))
    }

    def dense(x):
        with jax.enable_x64(True):
            named = of(x)[1]
        parts = []
        for i, level in enumerate(("low", "top")):  # rows of one category after those of the other
            z = np.concatenate([named[f"{name}[{level}]"] * z for name, z in columns.items()], 1)
            parts.append(
                np.concatenate([np.zeros_like(z)] * i + [z] + [np.zeros_like(z)] * (1 - i), 1)
            )
        z = np.stack(parts, 1)  # (N, 2, effects)
        eta = lambda v: common(named) + z @ v
        log_p = lambda v: chosen(eta(v), numbers()).sum() + stats.norm.logpdf(v).sum()
        shares = lambda v: special.softmax(np.concatenate([np.zeros((24, 1)), eta(v)], 1), 1)[:, 1:]
        up = lambda v: np.einsum("ncd,nc->d", z, (numbers()[:, None] == [1, 2]) - shares(v)) - v
        v = optimize.minimize(
            lambda v: -log_p(v), np.zeros(z.shape[2]), jac=lambda v: -up(v), tol=1e-12
        ).x
        p = shares(v)
        weights = p[:, :, None] * np.eye(2) - p[:, :, None] * p[:, None]
        precision = np.eye(v.size) + np.einsum("ncd,nce,nef->df", z, weights, z)
        return log_p(v) + 0.5 * v.size * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]

    np.testing.assert_allclose(value, dense(at), rtol=1e-8)
    along = RNG.normal(size=at.size)
    difference = (dense(at + 1e-4 * along) - dense(at - 1e-4 * along)) / 2e-4
    np.testing.assert_allclose(slope @ along, difference, rtol=1e-5)


def test_draws_of_categories_have_their_shares():
    law = vi.glmm("y ~ 1", TABLE, family="categorical").law
    eta = jnp.tile(jnp.array([0.5, -1.0]), (20_000, 1))
    drawn = np.asarray(jax.jit(law.likelihood({}, 1.0).sample)(jax.random.key(0), eta))
    shares = np.bincount(drawn.astype(int), minlength=3) / 20_000
    wanted = special.softmax([0.0, 0.5, -1.0])
    assert np.all(np.abs(shares - wanted) < 5 * np.sqrt(wanted / 20_000))


# --- fits: dear by compilation --------------------------------------------------------------------
def made(rows, groups, sd):
    """Categories of which "mid" is the base, with effects of groups."""
    rng = np.random.default_rng(1)
    g, x = np.arange(rows) % groups, rng.normal(size=rows)
    table = {"x": x, "h": rng.choice(["u", "v"], rows), "g": g}
    eta = common(
        {
            "Intercept[low]": 0.5,
            "x[low]": 1.0,
            "Intercept[top]": -0.3,
            "x[top]": -0.7,
            "h[v, top]": 0.5,
        },
        table,
    )
    eta = np.concatenate([np.zeros((rows, 1)), eta + sd * rng.normal(size=(groups, 2))[g]], 1)
    return table | {"y": np.array(LEVELS)[(eta + rng.gumbel(size=eta.shape)).argmax(1)]}


def test_without_groups_it_is_the_estimate_of_scikit_learn():
    """Flat priors and many rows: means near the maximum of the likelihood, sds those of its Fisher
    information."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    table = made(2000, 1, 0.0)
    flat = {
        f"{name}[{level}]": ("normal", 0, 50)
        for name in ("Intercept", "x")
        for level in ("low", "top")
    }
    model = vi.glmm("y ~ x", table, family="categorical", base="mid", priors=flat)
    fit = vi.auto(model, model.data, key=jax.random.key(0))
    said = fit.summary()
    found = dict(zip(said.names, zip(said.mean, said.sd, strict=True), strict=True))
    x = np.stack([np.ones(2000), table["x"]], 1)
    other = linear_model.LogisticRegression(
        C=np.inf, fit_intercept=False, tol=1e-8, max_iter=1000
    ).fit(x, table["y"])
    low, mid, top = other.coef_  # in the order of the alphabet
    p = other.predict_proba(x)[:, [0, 2]]
    weights = p[:, :, None] * np.eye(2) - p[:, :, None] * p[:, None]
    sds = np.sqrt(
        np.diag(
            np.linalg.inv(
                np.einsum("np,nce,nq->pceq", x, weights, x).transpose(0, 1, 3, 2).reshape(4, 4)
            )
        )
    )
    for i, name in enumerate(("Intercept", "x")):
        for c, (level, own) in enumerate((("low", low), ("top", top))):
            mean, sd = found[f"{name}[{level}]"]
            assert abs(mean - (own - mid)[i]) < 0.15 * sd, (name, level)
            np.testing.assert_allclose(sd, sds[2 * i + c], rtol=0.06)


def test_predictions_are_probabilities_of_levels():
    table = made(240, 12, 0.8)
    model = vi.glmm("y ~ x + h + (1 | g)", table, family="categorical", base="mid", nodes=3)
    fit = vi.auto(model, model.data, key=jax.random.key(0))
    assert fit.usable
    seen = fit.predict({"x": [-3.0, 3.0], "h": ["v", "u"], "g": [0, 99]}, key=jax.random.key(1))
    np.testing.assert_allclose(seen.mean.sum(1), 1, rtol=1e-5)
    assert seen.mean.argmax(1).tolist() == [2, 1]  # top, low
    assert np.all(seen.low < seen.mean)
    assert np.all(seen.mean < seen.high)
    assert seen.lowest is None
    drawn, shares = (
        model.replicated(fit, jax.random.key(2)),
        np.bincount(model.design.y.astype(int)) / 240,
    )
    np.testing.assert_allclose([np.mean(drawn == k) for k in range(3)], shares, atol=0.03)
    elpd = vi.trust.loo(model.log_lik(fit, jax.random.key(3)))
    assert -240 * np.log(3) < elpd.elpd < 0
    assert 6 < elpd.p_eff < 30
    pytest.importorskip("arviz")
    effects = fit.to_arviz(jax.random.key(4))["posterior"]["1|g"]
    assert effects.dims == ("chain", "draw", "g__factor_dim", "y_reduced_dim")
    assert effects["y_reduced_dim"].values.tolist() == ["low", "top"]


def test_the_command_line_fits_categories(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = made(240, 12, 0.8)
    lines = [
        "x,h,g,y",
        *(",".join(map(str, row)) for row in zip(*(table[k] for k in "xhgy"), strict=True)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    settings = [
        "model.formula=y ~ x + (1 | g)",
        "model.family=categorical",
        "model.base=mid",
        "model.nodes=3",
        "data.held_out=0.2",
    ]
    assert main(["fit", "glmm", "--data", "t.csv", "--set", *settings, "--out", "run"]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Ratios of odds against mid" in page
    assert "x[top]" in page
    assert "Intercept[low], by g" in page
    assert main(["transform", "run", "--data", "t.csv", "--out", "p.csv"]) == 0
    assert {"mean[mid]", "low[top]"} <= set(
        (tmp_path / "p.csv").read_text().splitlines()[0].split(",")
    )
