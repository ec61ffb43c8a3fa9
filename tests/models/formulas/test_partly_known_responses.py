"""Responses with known standard errors, censored and truncated ones: densities against SciPy's and
dense normal algebra, fits against maximum likelihood by SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import vijax as vi
from tests.models.formulas.answers.made import drawn
from vijax.app.cli import main
from vijax.data.formulas.parser import parse
from vijax.models.formulas import form as forms
from vijax.models.formulas.answers import variance
from vijax.models.formulas.formula import column_roles
from vijax.models.formulas.laws import LAWS, partly_known

RNG = np.random.default_rng(4)
EFFECTS = {
    "y": np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
    "s": np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
    "school": np.array(list("ABCDEFGH")),
    "x": RNG.normal(size=8),
}
"""Eight schools (Rubin 1981, table 1)."""
MEANS = np.array([-2.0, 0.0, 1.5])
LAWS_OF_SCIPY = {
    "gaussian": ({"sigma": 0.7}, lambda z, a: stats.norm(z, a["sigma"])),
    "t": (
        {"sigma": 0.7, "nu": 3.0},
        lambda z, a: stats.t(a["nu"], z, a["sigma"]),
    ),
    "lognormal": ({"sigma": 0.7}, lambda z, a: stats.lognorm(a["sigma"], scale=np.exp(z))),
    "exponential": ({}, lambda z, a: stats.expon(scale=np.exp(z))),
    "weibull": (
        {"alpha": 1.6},
        lambda z, a: stats.weibull_min(
            a["alpha"], scale=np.exp(z) / special.gamma(1 + 1 / a["alpha"])
        ),
    ),
    "gamma": (
        {"alpha": 1.6},
        lambda z, a: stats.gamma(a["alpha"], scale=np.exp(z) / a["alpha"]),
    ),
    "poisson": ({}, lambda z, a: stats.poisson(np.exp(z))),
    "negativebinomial": (
        {"alpha": 1.6},
        lambda z, a: stats.nbinom(a["alpha"], a["alpha"] / (a["alpha"] + np.exp(z))),
    ),
}
COUNTS = ("poisson", "negativebinomial")


def places(name):
    if name in COUNTS:
        return np.arange(0.0, 60.0, 3.0)
    if name in ("gaussian", "t"):
        return np.linspace(-9.0, 9.0, 37)
    return np.exp(np.linspace(-6.0, 4.0, 41))


@pytest.mark.parametrize("name", LAWS_OF_SCIPY)
def test_tails_are_those_of_scipy_in_float32(name):
    """Up to 1e-5 of the logarithms, which go to -1,000."""
    aux, law = LAWS_OF_SCIPY[name]
    y = places(name)[:, None]
    tails = jax.jit(lambda y, z: LAWS[name].find_tails(aux, y, z))(
        y.astype(np.float32), MEANS.astype(np.float32)
    )
    exact = law(MEANS, aux)
    for ours, theirs in ((tails.log_cdf, exact.logcdf(y)), (tails.log_sf, exact.logsf(y))):
        whole = (theirs > -1e3) & (theirs < -1e-6)
        assert whole.sum() > 10
        np.testing.assert_allclose(np.asarray(ours)[whole], theirs[whole], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["gamma", "t", "negativebinomial"])
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0, 3e3])
def test_tails_at_other_shapes(name, size):
    """And their derivatives in the shape, against differences of SciPy's."""
    aux, law = LAWS_OF_SCIPY[name]
    shape = "nu" if name == "t" else "alpha"
    y = places(name)[2::4]
    at = lambda s, y: LAWS[name].find_tails({**aux, shape: s}, y, 0.4).log_sf
    with jax.enable_x64(True):
        ours, slopes = jax.jit(jax.vmap(jax.value_and_grad(at), (None, 0)))(size, jnp.asarray(y))
    of_scipy = lambda s: law(0.4, {**aux, shape: s}).logsf(y)
    theirs = of_scipy(size)
    whole = (theirs > -300) & (theirs < -1e-3)
    np.testing.assert_allclose(np.asarray(ours)[whole], theirs[whole], rtol=1e-4)
    with np.errstate(invalid="ignore"):  # of infinities in far tails
        differences = (of_scipy(size * 1.001) - of_scipy(size / 1.001)) / (size * 0.002)
    scale = np.abs(differences[whole]).max()
    np.testing.assert_allclose(np.asarray(slopes)[whole], differences[whole], atol=0.01 * scale)


def row_density(name, rows, z):
    aux, _ = LAWS_OF_SCIPY[name]
    rows = {key: np.asarray(value, np.float32) for key, value in rows.items()}
    at_row = lambda row, z: partly_known.log_prob(LAWS[name], aux, {**row, "trials": 1.0}, z)
    slopes = jax.jit(jax.vmap(jax.value_and_grad(at_row, 1)))
    return slopes(rows, np.asarray(z, np.float32))


@pytest.mark.parametrize("name", [name for name in LAWS_OF_SCIPY if name not in COUNTS])
def test_what_is_known_of_censored_rows_has_its_probability(name):
    """Left, exact, right, and in an interval; and slopes are finite."""
    aux, law = LAWS_OF_SCIPY[name]
    status = np.array([-1.0, 0.0, 1.0, 2.0] * 6)
    y = np.repeat(places(name)[[6, 14, 18, 22, 26, 30]], 4)
    end = y + np.where(status == 2, 0.3 * np.abs(y) + 0.01, np.abs(y) + 1)
    z = np.full(len(y), 0.4)
    exact = law(0.4, aux)
    between = np.log(
        np.where(exact.cdf(y) > 0.5, exact.sf(y) - exact.sf(end), exact.cdf(end) - exact.cdf(y))
    )
    choices = [exact.logcdf(y), exact.logpdf(y), exact.logsf(y), between]
    expected = np.choose(status.astype(int) + 1, choices)
    log_probs, slopes = row_density(name, {"y": y, "status": status, "end": end}, z)
    seen = expected > -200
    np.testing.assert_allclose(np.asarray(log_probs)[seen], expected[seen], rtol=2e-4, atol=2e-4)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("name", LAWS_OF_SCIPY)
@pytest.mark.parametrize("sides", ["lb", "ub", "both"])
def test_truncated_laws_sum_to_one(name, sides):
    """Over a grid, by SciPy's densities between the bounds."""
    aux, law = LAWS_OF_SCIPY[name]
    low, high = (2.0, 9.0) if name in COUNTS else (0.5, 2.5)
    y = np.arange(low, high + 1) if name in COUNTS else np.linspace(low, high, 9)
    rows = {"y": y}
    below, above = 0.0, 0.0
    exact = law(1.1, aux)
    if sides != "ub":
        rows["lowest"] = np.full(len(y), low)
        below = exact.cdf(low - (name in COUNTS))
    if sides != "lb":
        rows["highest"] = np.full(len(y), high)
        above = exact.sf(high)
    log_density = exact.logpmf if name in COUNTS else exact.logpdf
    expected = log_density(y) - np.log1p(-below - above)
    log_probs, slopes = row_density(name, rows, np.full(len(y), 1.1))
    np.testing.assert_allclose(log_probs, expected, rtol=1e-4, atol=1e-4)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("name", ["lognormal", "exponential", "weibull", "gamma"])
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_a_bound_below_all_responses_leaves_the_law_as_it_is(name, low):
    aux, law = LAWS_OF_SCIPY[name]
    rows = {"y": np.array([0.5, 2.0]), "lowest": np.full(2, low), "highest": np.full(2, 3.0)}
    expected = law(0.4, aux).logpdf(rows["y"]) - law(0.4, aux).logcdf(3.0)
    log_probs, slopes = row_density(name, rows, np.full(2, 0.4))
    np.testing.assert_allclose(log_probs, expected, rtol=1e-4)
    assert np.isfinite(slopes).all()
    shape = next(iter(aux), None)
    for bounds in (("lowest",), ("lowest", "highest")):
        row = {key: rows[key][0] for key in ("y", *bounds)} | {"trials": 1.0}
        at = lambda x, row=row: partly_known.log_prob(LAWS[name], {shape: x}, row, 0.4)
        assert shape is None or np.isfinite(jax.grad(at)(aux[shape]))


@pytest.mark.parametrize("name", COUNTS)
def test_a_bound_of_counts_between_two_of_them_is_the_one_inside(name):
    aux, law = LAWS_OF_SCIPY[name]
    exact = law(1.1, aux)
    rows = {"y": np.array([3.0]), "lowest": np.array([1.5]), "highest": np.array([4.5])}
    log_probs, _ = row_density(name, rows, np.array([1.1]))
    expected = exact.logpmf(3) - np.log(exact.pmf([2, 3, 4]).sum())
    np.testing.assert_allclose(log_probs, expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["gaussian", "gamma", "poisson"])
def test_draws_of_truncated_laws_are_between_their_bounds(name):
    """Kolmogorov and Smirnov's distance, or that of frequencies."""
    aux, law = LAWS_OF_SCIPY[name]
    low, high = (1.0, 4.0) if name in COUNTS else (0.5, 2.5)
    likelihood = LAWS[name].likelihood(aux, 1.0)
    z = jnp.full(4000, 0.4, jnp.float32)
    sample = lambda key: likelihood.sample(key, z)
    rows = {"lowest": jnp.full(4000, low), "highest": jnp.full(4000, high)}
    draws = np.asarray(partly_known.draw(sample, rows, jax.random.key(0)))
    exact = law(0.4, aux)
    below = exact.cdf(low - (name in COUNTS))
    share = lambda y: (exact.cdf(y) - below) / (exact.cdf(high) - below)
    if name in COUNTS:
        values = np.arange(low, high + 1)
        frequencies = (draws[:, None] <= values).mean(0)
        assert np.abs(frequencies - share(values)).max() < 1.95 / np.sqrt(4000)
    else:
        assert stats.kstest(draws, share).statistic < 1.95 / np.sqrt(4000)


# --- models ---------------------------------------------------------------------------------------
def log_lik_at(model, seed=0):
    form = model.density_form
    x = 0.3 * np.random.default_rng(seed).normal(size=model.free.variables.dim)
    values = jax.jit(model.free.values_at)(jnp.asarray(x))
    total = lambda v, d: jnp.sum(jax.vmap(lambda rows: forms.log_lik(form, v, rows))(d))
    log_lik = float(jax.jit(total)(values, model.data))
    named = {name: float(value) for name, value in jax.jit(form.named)(values).items()}
    size = form.units.size
    return log_lik - len(model.design.y) * np.log(size), named


@pytest.mark.parametrize("response", ["se(y, s)", "se(y, s, sigma=True)"])
@pytest.mark.parametrize("groups", ["", " + (1 | school)"])
def test_a_meta_analysis_has_the_density_of_its_variances(response, groups):
    with jax.enable_x64(True):
        model = vi.glmm(f"{response} ~ x{groups}", EFFECTS)
        log_lik, named = log_lik_at(model)
    assert ("sigma" in named) == ("True" in response)
    variance = EFFECTS["s"] ** 2 + named.get("sigma", 0.0) ** 2
    variance = variance + named.get("1|school_sigma", 0.0) ** 2
    mean = named["Intercept"] + named["x"] * EFFECTS["x"]
    expected = stats.norm(mean, np.sqrt(variance)).logpdf(EFFECTS["y"]).sum()
    np.testing.assert_allclose(log_lik, expected, rtol=1e-9)


def test_errors_of_known_size_between_crossed_groups():
    table = {**EFFECTS, "h": np.tile(["u", "v"], 4), "k": np.repeat(["p", "q", "r", "s"], 2)}
    with jax.enable_x64(True):
        model = vi.glmm("se(y, s) ~ 1 + (1 | h) + (1 | k)", table)
        log_lik, named = log_lik_at(model)
    same = lambda name: (table[name][:, None] == table[name]).astype(float)
    cov = np.diag(table["s"] ** 2) + named["1|h_sigma"] ** 2 * same("h")
    cov += named["1|k_sigma"] ** 2 * same("k")
    expected = stats.multivariate_normal(np.full(8, named["Intercept"]), cov).logpdf(table["y"])
    np.testing.assert_allclose(log_lik, expected, rtol=1e-9)


def test_the_eight_schools():
    """Posterior mean and sd of the mean effect and of tau, by quadrature under the same priors."""
    model = vi.glmm("se(y, s) ~ 1 + (1 | school)", EFFECTS)
    fit = vi.auto(model, key=jax.random.key(0), richer=True)
    assert "can be used" in fit.verdict
    _, centre, spread = model.priors["Intercept"]
    _, width = model.priors["1|school_sigma"]
    mu = np.linspace(-40, 60, 801)[:, None, None]
    tau = np.linspace(1e-3, 80, 800)[:, None]
    scale = np.sqrt(EFFECTS["s"] ** 2 + tau**2)
    log_joint = stats.norm(mu, scale).logpdf(EFFECTS["y"]).sum(-1)
    log_joint += stats.norm(centre, spread).logpdf(mu[..., 0])
    log_joint += stats.halfnorm(scale=width).logpdf(tau[:, 0])
    weight = np.exp(log_joint - log_joint.max())
    weight /= weight.sum()
    summary = fit.summary()
    for name, x, axis in (("Intercept", mu[:, 0, 0], 1), ("1|school_sigma", tau[:, 0], 0)):
        share = weight.sum(axis)
        mean = share @ x
        sd = np.sqrt(share @ (x - mean) ** 2)
        place = summary.names.index(name)
        assert abs(summary.mean[place] - mean) < 0.06 * sd
        np.testing.assert_allclose(summary.sd[place], sd, rtol=0.06)
    seen = fit.predict({"school": ["I"]}, key=jax.random.key(1))
    assert seen.response_sd[0] == pytest.approx(seen.sd[0], rel=1e-6)  # before errors


N = 300
X = np.random.default_rng(6).normal(size=N)


def censored_times():
    times = stats.weibull_min(1.6, scale=np.exp(0.5 + 0.6 * X)).rvs(random_state=1)
    ends = np.exp(0.4 + 0.8 * np.random.default_rng(7).normal(size=N))
    status = np.where(times > ends, "right", "none")
    return {"t": np.minimum(times, ends), "status": status, "x": X}


def by_maximum_likelihood(loss, start):
    top = optimize.minimize(loss, start, method="BFGS").x
    steps = 1e-3 * np.eye(len(start))
    second = lambda a, b: (
        loss(top + a + b) - loss(top + a - b) - loss(top - a + b) + loss(top - a - b)
    )
    hessian = np.array([[second(a, b) for b in steps] for a in steps]) / 4e-6
    return top, np.sqrt(np.diag(np.linalg.inv(hessian)))


def check_fit(model, names, loss, start):
    """Within .2 of a standard error, sds within 12 %."""
    fit = vi.auto(model, key=jax.random.key(0))
    assert "can be used" in fit.verdict
    summary = fit.summary()
    means, sds = by_maximum_likelihood(loss, start)
    for name, mean, sd in zip(names, means, sds, strict=False):
        place = summary.names.index(name)
        assert abs(summary.mean[place] - mean) < 0.2 * sd + 0.01
        np.testing.assert_allclose(summary.sd[place], sd, rtol=0.12)
    return fit


def test_censored_times_are_fitted_as_by_maximum_likelihood():
    table = censored_times()
    is_censored = table["status"] == "right"
    assert 0.2 < is_censored.mean() < 0.8

    def loss(v):
        alpha = np.exp(v[2])
        law = stats.weibull_min(alpha, scale=np.exp(v[0] + v[1] * X) / special.gamma(1 + 1 / alpha))
        return -np.where(is_censored, law.logsf(table["t"]), law.logpdf(table["t"])).sum()

    model = vi.glmm("censored(t, status) ~ x", table, "weibull")
    assert model.design.response == "t"
    fit = check_fit(model, ("Intercept", "x"), loss, [0.3, 0.3, 0.3])
    draws = model.draws(fit, jax.random.key(1), 50)
    with pytest.raises(ValueError, match="not censored, for draws of the rows of training"):
        model.replicated(fit, jax.random.key(1), 5)
    log_liks = model.log_lik(fit, jax.random.key(2), 20, table=table)
    again = model.log_lik(fit, jax.random.key(2), 20)
    np.testing.assert_allclose(log_liks, again, rtol=1e-5, atol=1e-5)
    seen = fit.predict({"x": [0.0]}, key=jax.random.key(3))
    mean = np.exp(draws.named["Intercept"]).mean()
    np.testing.assert_allclose(seen.mean, mean, rtol=0.1)


def test_truncated_numbers_are_fitted_as_by_maximum_likelihood():
    rng = np.random.default_rng(8)
    x = rng.normal(size=4000)  # of fewer rows the posterior is skewed
    y = 1 + 0.8 * x + rng.normal(size=4000)
    table = {"y": y[y > 0.5], "x": x[y > 0.5]}

    def loss(v):
        law = stats.norm(v[0] + v[1] * table["x"], np.exp(v[2]))
        return -(law.logpdf(table["y"]) - law.logsf(0.5)).sum()

    model = vi.glmm("truncated(y, lb=0.5) ~ x", table)
    fit = check_fit(model, ("Intercept", "x"), loss, [1.0, 0.5, 0.0])
    replicated = model.replicated(fit, jax.random.key(1), 100)
    assert replicated.min() >= 0.5
    check = vi.evaluate.predictive_check(fit, jnp.mean, model.data, key=jax.random.key(2))
    assert abs(check.observed - np.mean(check.replicated)) < 4 * np.std(check.replicated)


@pytest.mark.slow
def test_truncated_counts_are_fitted_as_by_maximum_likelihood():
    y = np.random.default_rng(9).poisson(np.exp(0.4 + 0.4 * X)).astype(float)
    table = {"y": y[y > 0], "x": X[y > 0]}

    def loss(v):
        law = stats.poisson(np.exp(v[0] + v[1] * table["x"]))
        return -(law.logpmf(table["y"]) - law.logsf(0)).sum()

    model = vi.glmm("truncated(y, lb=1) ~ x", table, "poisson")
    check_fit(model, ("Intercept", "x"), loss, [0.3, 0.3])


@pytest.mark.parametrize(
    ("formula", "family", "message"),
    [
        ("se(y) ~ x", None, r"expected se\(y, s\) or se\(y, s, sigma=True\)"),
        ("se(y, x) ~ 1", None, "positive standard errors"),
        ("se(y, s) ~ x", "gamma", '"gaussian" or "t", for standard errors'),
        ("censored(y, x) ~ 1", None, "'right' where the response is known to be larger"),
        ("censored(y, school) ~ 1", None, "the words 'left', 'none', 'right', 'interval'"),
        ("censored(y, school) ~ 1", "bernoulli", "a law of numbers with a distribution function"),
        ("truncated(y) ~ 1", None, r"expected truncated\(y, lb, ub\)"),
        ("truncated(y, lb=0) ~ 1", None, "a response of lb or more, got -3 in row 2"),
        ("truncated(y, 0, lb=1) ~ 1", None, r"expected truncated\(y, lb, ub\)"),
        ("y ~ se(x, s)", None, "It is for a response"),
    ],
)
def test_what_cannot_be_read_is_told(formula, family, message):
    with pytest.raises(ValueError, match=message):
        vi.glmm(formula, EFFECTS, family)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("cbind(y, s) ~ x", r"Write p\(k, n\), with n trials"),
        ("y | trials(s) ~ x", r"Write p\(k, n\) ~ terms"),
        ("y | se(s) ~ x", r"Write se\(y, s\) ~ terms"),
        ("y | cens(s) ~ x", r"Write censored\(y, status\) ~ terms"),
        ("y | trunc(lb=0) ~ x", r"Write truncated\(y, lb=0, ub=10\) ~ terms"),
        ("y | weights(s) ~ x", r'weights="w"'),
    ],
)
def test_spellings_of_r_are_told_in_these(formula, message):
    with pytest.raises(ValueError, match=message):
        vi.glmm(formula, EFFECTS)


def test_weights_that_are_precisions():
    """Of a normal law: variances divided by them."""
    with jax.enable_x64(True):
        model = vi.glmm("y ~ x", EFFECTS, formulas="sigma ~ 1 + offset(-0.5 * log(s))")
        log_lik, named = log_lik_at(model)
    mean = named["Intercept"] + named["x"] * EFFECTS["x"]
    sd = np.exp(named["sigma_Intercept"]) / np.sqrt(EFFECTS["s"])
    expected = stats.norm(mean, sd).logpdf(EFFECTS["y"]).sum()
    np.testing.assert_allclose(log_lik, expected, rtol=1e-9)


def test_a_formula_of_sigma_beside_known_errors():
    with pytest.raises(ValueError, match=r"Write se\(y, s, sigma=True\) for both"):
        vi.glmm("se(y, s) ~ 1", EFFECTS, formulas="sigma ~ x")
    model = vi.glmm("se(y, s, sigma=True) ~ 1", EFFECTS, formulas="sigma ~ x")
    assert list(model.priors) == ["Intercept", "sigma_Intercept", "sigma_x"]


def test_bounds_of_later_rows_are_those_of_training():
    model = vi.glmm("truncated(y, lb=min(y) - 1) ~ x", EFFECTS)
    later = {"y": [12.0, 20.0], "x": [0.0, 1.0]}
    np.testing.assert_array_equal(model.design.read_facts(later)["lowest"], [-4.0, -4.0])


def test_columns_of_bounds_by_name_are_read_as_numbers():
    roles = column_roles(parse("truncated(y, lb=low, ub=high) ~ x"))
    assert set(roles.numbers) == {"y", "low", "high", "x"}


def test_known_errors_alone_have_no_variance_to_explain():
    model = vi.glmm("se(y, s) ~ 1", EFFECTS)
    with pytest.raises(ValueError, match=r"Write se\(y, s, sigma=True\)"):
        variance.explain(model, drawn(model), 0.9)


def test_a_run_of_censored_times(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(censored_times()).to_csv("d.csv", index=False)
    settings = [
        "model.formula=censored(t, status) ~ x",
        "model.family=weibull",
        "data.held_out=0.2",
        "model.num_draws=100",
        "algorithm.max_gradients=300",
    ]
    assert main(["fit", "glmm", "--data", "d.csv", "--out", "run", "--set", *settings]) == 0
    run = vi.load("run")
    seen = run.transform({"x": [0.0, 1.0]})
    assert float(seen["mean"][1]) > float(seen["mean"][0])
