"""Formulas of parameters of a law, as `sigma ~ x + (1 | g)`: densities against dense normal algebra
and integrals over effects, fits against maximum likelihood by SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import optimize, special, stats

import vijax as vi
from tests.naming import naming
from vijax.app.cli import main
from vijax.models.formulas import form as forms
from vijax.models.formulas import modelled
from vijax.verdict.target import Target

RNG = np.random.default_rng(3)
N = 24
TABLE = {
    "y": 50 + 7 * RNG.normal(size=N),
    "count": RNG.poisson(2.0, N).astype(float),
    "x": 3 + RNG.normal(size=N),
    "g": np.repeat(list("abcd"), 6),
    "h": np.tile(list("uvw"), 8),
}


def at_random_values(model, seed=0):
    """Log prior and log likelihood at random unknowns, the unknowns by name, and the log of the
    Jacobian of their units."""
    form = model.density_form
    x = 0.3 * np.random.default_rng(seed).normal(size=model.free.variables.dim)
    values = jax.jit(model.free.values_at)(jnp.asarray(x))
    log_liks = lambda values, data: jax.vmap(lambda rows: forms.log_lik(form, values, rows))(data)
    density = lambda values, data: (forms.log_prior(form, values), jnp.sum(log_liks(values, data)))
    log_prior, log_lik = jax.jit(density)(values, model.data)
    log_lik = log_lik - len(model.design.y) * np.log(form.units.size)  # in the units of the data
    log_prior = log_prior + len(model.design.y) * np.log(form.units.size)
    named = {name: float(value) for name, value in jax.jit(form.named)(values).items()}
    flat, back = ravel_pytree(values)
    whole = lambda flat: jnp.stack(list(form.named(back(flat)).values()))
    jacobian = np.linalg.slogdet(np.asarray(jax.jit(jax.jacobian(whole))(flat)))[1]
    return float(log_prior), float(log_lik), named, float(jacobian)


def log_of_priors(model, named, centre):
    """By SciPy; `centre` has the means of columns that enter with each intercept."""
    total = 0.0
    for name, (kind, *numbers) in model.priors.items():
        value = named[name] + sum(named[column] * mean for column, mean in centre.get(name, ()))
        if kind == "normal":
            total += stats.norm(*numbers).logpdf(value)
        elif kind == "half_normal":
            total += stats.halfnorm(scale=numbers[0]).logpdf(value)
        else:
            raise ValueError(kind)
    return total


def test_a_normal_law_with_sigmas_by_row_is_that_of_a_dense_covariance():
    """In the units of the data, with an offset of log sigma, and the Jacobian of the units."""
    with jax.enable_x64(True):
        model = vi.glmm("y ~ x + (1 | g)", TABLE, formulas=["sigma ~ x + offset(x)"])
        log_prior, log_lik, named, jacobian = at_random_values(model)
    x = TABLE["x"]
    sigma = np.exp(named["sigma_Intercept"] + named["sigma_x"] * x + x)
    total = 0.0
    for g in "abcd":
        rows = TABLE["g"] == g
        mean = named["Intercept"] + named["x"] * x[rows]
        cov = np.diag(sigma[rows] ** 2) + named["1|g_sigma"] ** 2
        total += stats.multivariate_normal(mean, cov).logpdf(TABLE["y"][rows])
    centre = {"Intercept": [("x", x.mean())], "sigma_Intercept": [("sigma_x", x.mean())]}
    expected = total + log_of_priors(model, named, centre) + jacobian
    np.testing.assert_allclose(log_prior + log_lik, expected, rtol=1e-9)


def over_effects(log_prob, first_sd, second_sd):
    """The log integral over two normal effects, u of the mean and v of the parameter, on a grid."""
    t = np.linspace(-8, 8, 321)
    u, v = (part.ravel() for part in np.meshgrid(first_sd * t, second_sd * t))
    log_joint = sum(log_prob(u[:, None], v[:, None]).T)
    log_joint += stats.norm.logpdf(u / first_sd) + stats.norm.logpdf(v / second_sd)
    return special.logsumexp(log_joint) + 2 * np.log(t[1] - t[0])


@pytest.mark.parametrize(
    "family",
    [
        pytest.param("gaussian", marks=pytest.mark.slow),
        pytest.param("negativebinomial", marks=pytest.mark.slow),
        "hurdle_poisson",
    ],
)
def test_effects_of_a_group_in_two_formulas_are_integrated_out(family):
    """With 15 nodes a dimension, against a grid."""
    parameter = {"gaussian": "sigma", "negativebinomial": "alpha", "hurdle_poisson": "psi"}[family]
    response = "y" if family == "gaussian" else "count"
    with jax.enable_x64(True):
        model = vi.glmm(
            f"{response} ~ x + (1 | g)",
            TABLE,
            family,
            formulas=f"{parameter} ~ h + (1 | g)",
            nodes=15,
        )
        _, log_lik, named, _ = at_random_values(model)
    shift = named[f"{parameter}_Intercept"]
    shift += sum(named[f"{parameter}_h[{h}]"] * (TABLE["h"] == h) for h in "vw")
    total = 0.0
    for g in "abcd":
        rows = TABLE["g"] == g
        y = TABLE[response][rows]
        eta = named["Intercept"] + named["x"] * TABLE["x"][rows]

        def log_prob(u, v, y=y, eta=eta, rows=rows):
            mean, other = eta + u, shift[rows] + v
            if family == "gaussian":
                return stats.norm(mean, np.exp(other)).logpdf(y)
            mean = np.exp(mean)
            if family == "negativebinomial":
                r = np.exp(other)
                return stats.nbinom(r, r / (r + mean)).logpmf(y)
            psi = special.expit(other)
            positive = stats.poisson(mean).logpmf(y) - np.log(-np.expm1(-mean))
            return np.where(y > 0, np.log(psi) + positive, np.log1p(-psi))

        sds = named["1|g_sigma"], named[f"{parameter}_1|g_sigma"]
        total += over_effects(log_prob, *sds)
    np.testing.assert_allclose(log_lik, total, atol=2e-3)


def test_effects_of_crossed_factors_and_their_curvature():
    """Laplace's approximation is exact where effects enter the mean of a normal law alone."""
    with jax.enable_x64(True):
        model = vi.glmm("y ~ x + (1 | g) + (1 | h)", TABLE, formulas="sigma ~ x")
        _, log_lik, named, _ = at_random_values(model)
    x = TABLE["x"]
    sigma = np.exp(named["sigma_Intercept"] + named["sigma_x"] * x)
    same = lambda name: (TABLE[name][:, None] == TABLE[name]).astype(float)
    cov = np.diag(sigma**2) + named["1|g_sigma"] ** 2 * same("g")
    cov += named["1|h_sigma"] ** 2 * same("h")
    law = stats.multivariate_normal(named["Intercept"] + named["x"] * x, cov)
    np.testing.assert_allclose(log_lik, law.logpdf(TABLE["y"]), rtol=1e-9)


# --- fits -----------------------------------------------------------------------------------------
SIZE = 400
WIDE = np.random.default_rng(5)
X, Z = WIDE.normal(size=(2, SIZE))
MEAN = 0.7 + 0.5 * X
LAWS_OF_FITS = {
    "gaussian": ("sigma", lambda m, s: stats.norm(m, np.exp(s))),
    "lognormal": ("sigma", lambda m, s: stats.lognorm(np.exp(s), scale=np.exp(m))),
    "gamma": ("alpha", lambda m, s: stats.gamma(np.exp(s), scale=np.exp(m - s))),
    "beta": (
        "kappa",
        lambda m, s: stats.beta(np.exp(s) * special.expit(m), np.exp(s) * special.expit(-m)),
    ),
    "negativebinomial": (
        "alpha",
        lambda m, s: stats.nbinom(np.exp(s), 1 / (1 + np.exp(m - s))),
    ),
}


def by_maximum_likelihood(law, y):
    """Means and sds of (Intercept, x, parameter_Intercept, parameter_z) in float64."""
    log_prob = lambda own: getattr(own, "logpmf" if hasattr(own.dist, "pmf") else "logpdf")(y)
    loss = lambda v: -log_prob(law(v[0] + v[1] * X, v[2] + v[3] * Z)).sum()
    top = optimize.minimize(loss, [0.5, 0.2, 0.5, 0.1], method="BFGS").x
    steps = 1e-3 * np.eye(4)
    second = lambda a, b: (
        loss(top + a + b) - loss(top + a - b) - loss(top - a + b) + loss(top - a - b)
    )
    hessian = np.array([[second(a, b) for b in steps] for a in steps]) / 4e-6
    return top, np.sqrt(np.diag(np.linalg.inv(hessian)))


def draw(family):
    _, law = LAWS_OF_FITS[family]
    y = law(MEAN, 0.8 + 0.4 * Z).rvs(random_state=7).astype(float)
    return y.clip(1e-4, 1 - 1e-4) if family == "beta" else y  # float32 would round some to one


@pytest.mark.slow
@pytest.mark.parametrize("family", LAWS_OF_FITS)
def test_a_fit_is_near_maximum_likelihood(family):
    """400 rows and weak priors: within .2 of a standard error, sds within 12 %."""
    parameter, law = LAWS_OF_FITS[family]
    y = draw(family)
    table = {"y": y, "x": X, "z": Z}
    model = vi.glmm("y ~ x", table, family, formulas=[f"{parameter} ~ z"])
    fit = vi.auto(model, key=jax.random.key(0))
    assert "can be used" in fit.verdict
    summary = fit.summary()
    by_name = {
        name: (mean, sd)
        for name, mean, sd in zip(summary.names, summary.mean, summary.sd, strict=True)
    }
    means, sds = by_maximum_likelihood(law, y)
    names = ("Intercept", "x", f"{parameter}_Intercept", f"{parameter}_z")
    for name, mean, sd in zip(names, means, sds, strict=True):
        assert abs(by_name[name][0] - mean) < 0.2 * sd + 0.01
        np.testing.assert_allclose(by_name[name][1], sd, rtol=0.12)


def over_the_effect_of_sigma(named, rows):
    """The log integral over both effects of a group: that of the mean by dense normal algebra, that
    of the logarithm of sigma on a grid."""
    x = TABLE["x"][rows]
    v = np.linspace(-20, 20, 2001)
    logs = named["sigma_Intercept"] + named["sigma_x"] * x + named["sigma_1|g_sigma"] * v[:, None]
    sigma = np.exp(np.clip(logs, -12, 14))
    r = (TABLE["y"][rows] - named["Intercept"] - named["x"] * x) / sigma
    effects = named["1|g_sigma"] / sigma
    precision = 1 + np.sum(effects**2, 1)
    squares = np.sum(r**2, 1) - np.sum(r * effects, 1) ** 2 / precision
    log_lik = -0.5 * (squares + np.log(2 * np.pi * sigma**2).sum(1) + np.log(precision))
    return special.logsumexp(log_lik + stats.norm.logpdf(v)) + np.log(v[1] - v[0])


def test_the_density_with_effects_of_a_group_in_mean_and_sigma_is_a_number_far_from_its_mode():
    """The log likelihood of a normal law is convex in mean and log sigma at large residuals, where
    whole Newton steps go astray: .8 % of these draws were NaN."""
    model = vi.glmm("y ~ x + (1 | g)", TABLE, formulas=["sigma ~ x + (1 | g)"])
    form = model.density_form
    x = np.random.default_rng(0).normal(size=(400, model.free.variables.dim))
    values = jax.vmap(model.free.values_at)(jnp.asarray(x, jnp.float32))
    by_group = lambda values, rows: forms.log_lik(form, values, rows)

    def of_all(values):
        log_liks = jax.vmap(lambda values: jax.vmap(by_group, (None, 0))(values, model.data))(
            values
        )
        return jnp.sum(log_liks), log_liks

    (_, log_liks), slopes = jax.jit(jax.value_and_grad(of_all, has_aux=True))(values)
    assert np.isfinite(log_liks).all()
    assert all(np.isfinite(slope).all() for slope in slopes.values())
    by_name = {name: np.asarray(part) for name, part in jax.vmap(form.named)(values).items()}
    errors = []
    for i in range(30):
        named = {name: float(part[i]) for name, part in by_name.items()}
        for j, g in enumerate("abcd"):
            expected = over_the_effect_of_sigma(named, TABLE["g"] == g)
            actual = log_liks[i, j] - 6 * np.log(form.units.size)
            errors.append(abs(actual - expected))
    assert np.median(errors) < 3e-3
    assert np.quantile(errors, 0.95) < 0.3


@pytest.fixture(scope="module")
def normal_fit():
    table = {"y": draw("gaussian"), "x": X, "z": Z, "g": np.arange(SIZE) % 20}
    model = vi.glmm("y ~ x", table, formulas=["sigma ~ z + (1 | g)"])
    return model, vi.auto(model, key=jax.random.key(0)), table


@pytest.mark.slow
def test_predictions_have_the_sigma_of_each_row(normal_fit):
    model, fit, _ = normal_fit
    assert list(model.priors) == ["Intercept", "x", "sigma_Intercept", "sigma_z", "sigma_1|g_sigma"]
    new = {"x": [0.0, 0.0], "z": [-2.0, 2.0], "g": [3, 3]}
    seen = fit.predict(new, key=jax.random.key(1), level=0.9)
    np.testing.assert_allclose(seen.mean, [0.7, 0.7], atol=0.5)
    np.testing.assert_allclose(seen.response_sd, np.exp(0.8 + 0.4 * np.array([-2, 2])), rtol=0.25)
    half = (seen.highest - seen.lowest) / 2
    np.testing.assert_allclose(half, 1.645 * seen.response_sd, rtol=0.1)
    draws = model.draws(fit, jax.random.key(2))
    sigma = model.parameters(draws, new)["sigma"]
    logs = draws.named["sigma_Intercept"][:, None] + draws.named["sigma_z"][:, None] * new["z"]
    logs = logs + draws.effects["g"][:, [3, 3], 0]
    np.testing.assert_allclose(sigma, np.exp(logs), rtol=1e-5)
    means = np.mean(model.predictors(draws, new), 0)
    np.testing.assert_allclose(seen.mean, means, atol=0.05)
    strangers = model.parameters(draws, {**new, "g": ["new", "new"]}, jax.random.key(3))["sigma"]
    spread = np.std(np.log(strangers[:, 0]) - np.log(sigma[:, 0]) + draws.effects["g"][:, 3, 0])
    expected = np.sqrt(np.mean(draws.named["sigma_1|g_sigma"] ** 2))
    np.testing.assert_allclose(spread, expected, rtol=0.1)


@pytest.mark.slow
def test_scores_are_those_of_scipy(normal_fit):
    """Log likelihoods at draws, in float32."""
    model, fit, table = normal_fit
    log_liks = model.log_lik(fit, jax.random.key(2), 50)
    draws = model.draws(fit, vi.xla.keys.split(jax.random.key(2))[0], 50)
    sigma = model.parameters(draws)["sigma"]
    expected = stats.norm(model.predictors(draws), sigma).logpdf(table["y"])
    np.testing.assert_allclose(log_liks, expected, rtol=1e-4, atol=1e-4)
    again = model.log_lik(fit, jax.random.key(2), 50, table=table)
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_draws_for_the_rows_of_training_have_their_sigmas(normal_fit):
    model, fit, table = normal_fit
    wide = table["z"] > 0.5
    replicated = model.replicated(fit, jax.random.key(4), 200)
    ratio = replicated[:, wide].std() / replicated[:, ~wide].std()
    expected = np.sqrt(np.mean(np.exp(2 * (0.8 + 0.4 * Z))[wide]))
    expected /= np.sqrt(np.mean(np.exp(2 * (0.8 + 0.4 * Z))[~wide]))
    np.testing.assert_allclose(ratio, expected, rtol=0.2)


def test_what_is_modelled_is_said():
    model = vi.glmm("y ~ x", TABLE, formulas="sigma ~ x + (1 | g)")
    sentence = modelled.sentence(model.design, model.law)
    assert "Modelled too is the logarithm of sigma, by sigma ~ x + (1 | g)." in sentence
    ratios = vi.glmm("count ~ x", TABLE, "hurdle_poisson", formulas="psi ~ x")
    assert "the log odds of psi, by psi ~ x" in modelled.sentence(ratios.design, ratios.law)


@pytest.mark.parametrize(
    ("family", "formulas", "message"),
    [
        (
            "gaussian",
            ["alpha ~ x"],
            r"parameters of \"gaussian\": \['sigma'\], got 'alpha'\. Write",
        ),
        ("poisson", ["alpha ~ x"], r"Its predictor is that of the formula\."),
        ("gaussian", ["~ x"], "none to the left of ~"),
        ("gaussian", ["sigma ~ x", "sigma ~ h"], "one for each parameter, got two of 'sigma'"),
        ("gaussian", ["sigma ~ zz"], "a column 'zz'"),
        ("cumulative", ["threshold ~ x"], r"parameters of \"cumulative\": \[\]"),
    ],
)
def test_formulas_of_other_parameters_are_refused(family, formulas, message):
    with pytest.raises(ValueError, match=message):
        vi.glmm("count ~ x", TABLE, family, formulas=formulas)


def test_formulas_are_texts():
    with pytest.raises(ValueError, match=naming("formulas:", "int")):
        vi.glmm("y ~ x", TABLE, formulas=3)


def test_priors_are_changed_by_name():
    priors = {"sigma_x": ("normal", 0, 0.3), "sigma_1|g_sigma": ("half_normal", 0.5)}
    model = vi.glmm("y ~ x", TABLE, formulas="sigma ~ x + (1 | g)", priors=priors)
    assert model.priors["sigma_x"] == ("normal", 0.0, 0.3)
    assert model.priors["sigma_1|g_sigma"] == ("half_normal", 0.5)
    assert model.priors["sigma_Intercept"] == ("normal", np.log(TABLE["y"].std()), 2.5)


def test_a_run_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"y": draw("gaussian"), "x": X, "z": Z})
    frame.to_csv("d.csv", index=False)
    settings = [
        "model.formula=y ~ x",
        'model.formulas=["sigma ~ z"]',
        'model.priors=["sigma_z: normal 0 1"]',
        "held_out=0",
        "model.num_draws=100",
        "algorithm.max_gradients=300",
    ]
    arguments = ["fit", "glmm", "--data", "d.csv", "--out", "run"]
    assert main([*arguments, "--set", *settings]) == 0
    run = vi.load("run")
    seen = run.transform({"x": [0.0, 0.0], "z": [-2.0, 2.0]})
    widths = np.asarray(seen["highest"], float) - np.asarray(seen["lowest"], float)
    np.testing.assert_allclose(widths[1] / widths[0], np.exp(1.6), rtol=0.4)
    assert "sigma_z" in (tmp_path / "run" / "tables" / "unknowns.csv").read_text()


def test_slopes_are_numbers_where_the_curvature_of_a_group_is_not_positive():
    """Far from the mode a t with a sigma of its own is convex in places; a factor that is not chosen
    made the slopes of one point in eighty no numbers."""
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=24), "g": np.arange(24) % 4}
    table["y"] = 1.0 + 0.5 * table["x"] + rng.normal(size=24)
    model = vi.glmm("y ~ x + (1 | g)", table, "t", formulas=["sigma ~ x"])
    target = Target.from_data(model, model.data)
    points = np.random.default_rng(1).uniform(-2.0, 2.0, (400, target.dim))
    values, slopes = target.raw_slopes(points)
    assert np.isfinite(values).all()
    assert np.isfinite(slopes).all()
