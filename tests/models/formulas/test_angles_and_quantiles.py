"""Laws "vonmises" and "asymmetriclaplace" of `vi.glmm`: densities and draws against SciPy's, fits
against maximum likelihood, a linear program, and integrals over effects by quadrature in SciPy."""

import dataclasses
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import vijax as vi
from tests.naming import naming
from vijax.app.cli import main
from vijax.models.formulas import modelled
from vijax.models.formulas.form import log_lik
from vijax.models.formulas.laws import LAWS, find_law
from vijax.models.formulas.laws.angles import wrap_angles
from vijax.xla.precision import enable_x64

N = 240
RNG = np.random.default_rng(4)
X = RNG.normal(size=N)
G = np.arange(N) % 12
KAPPA = 3.0
DIRECTIONS = 2 * np.arctan(0.3 + 0.5 * X + 0.4 * RNG.normal(size=12)[G])
ANGLES = wrap_angles(stats.vonmises(KAPPA, loc=DIRECTIONS).rvs(random_state=5))
AMOUNTS = 1 + 2 * X + (0.4 + 0.3 * np.abs(X)) * RNG.standard_t(3, N)


def quantile_law(q, sigma):
    """SciPy's law, with the parameters of Bambi: b = sqrt(q (1 - q)) / sigma, kappa = sqrt(q /
    (1 - q))."""
    b, kappa = np.sqrt(q * (1 - q)) / sigma, np.sqrt(q / (1 - q))
    return lambda eta: stats.laplace_asymmetric(kappa, loc=eta, scale=1 / b)


# --- densities ------------------------------------------------------------------------------------
@pytest.mark.parametrize("kappa", [1e-6, 0.4, 3.0, 29.0, 31.0, 4e3, 1e6])
def test_the_density_of_angles_is_that_of_scipy(kappa):
    """In float32, at any concentration; slopes by kappa are (cos - A(kappa)) in float64."""
    eta, size = np.array([-0.4, 2.0])[:, None], min(1.0, kappa**-0.5)
    y = 2 * np.arctan(eta) + size * np.array([-2.0, -0.3, 0.0, 1.0, 2.5])
    law = LAWS["vonmises"]
    density = jax.jit(lambda kappa, y, eta: law.log_prob({"kappa": kappa}, 1.0, y, eta))
    found = density(jnp.float32(kappa), jnp.asarray(y, jnp.float32), jnp.asarray(eta, jnp.float32))
    exact = stats.vonmises(kappa, loc=2 * np.arctan(eta)).logpdf(y)
    np.testing.assert_allclose(found, exact, rtol=3e-4, atol=3e-4 * (1 + kappa * size))
    with enable_x64(True):
        slope = jax.jit(jax.vmap(jax.grad(density), (None, 0, None)))(kappa, y[0], eta[0, 0])
    ratio = special.i1e(kappa) / special.i0e(kappa)
    by_hand = np.cos(y[0] - 2 * np.arctan(eta[0, 0])) - ratio
    np.testing.assert_allclose(slope, by_hand, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("q", [0.05, 0.5, 0.9])
def test_the_density_of_quantiles_and_its_tails_are_those_of_scipy(q):
    law, y = find_law("asymmetriclaplace", q), np.linspace(-3, 4, 29)
    scipy_law = quantile_law(q, 0.7)(0.4)
    aux = {"sigma": 0.7}
    np.testing.assert_allclose(
        law.log_prob(aux, 1.0, y, 0.4), scipy_law.logpdf(y), rtol=2e-5, atol=2e-5
    )
    log_cdf, log_sf = law.find_tails(aux, y, 0.4)
    np.testing.assert_allclose(log_cdf, scipy_law.logcdf(y), rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(log_sf, scipy_law.logsf(y), rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(np.exp(law.find_tails(aux, 0.4, 0.4).log_cdf), q, rtol=1e-5)


def test_first_derivatives_of_the_density_of_quantiles_are_its_own():
    """The second one in the predictor is that of the mean density."""
    q, sigma, y = 0.8, 0.7, np.array([-1.0, 0.3, 2.0])
    law = find_law("asymmetriclaplace", q)
    with enable_x64(True):
        density = jax.jit(lambda y, eta, sigma: law.log_prob({"sigma": sigma}, 1.0, y, eta))
        slopes = jax.jit(jax.vmap(jax.grad(density, (0, 1, 2)), (0, None, None)))(y, 0.4, sigma)
        numbers = [
            (density(*high) - density(*low)) / 2e-6
            for low, high in (
                ((y - 1e-6, 0.4, sigma), (y + 1e-6, 0.4, sigma)),
                ((y, 0.4 - 1e-6, sigma), (y, 0.4 + 1e-6, sigma)),
                ((y, 0.4, sigma - 1e-6), (y, 0.4, sigma + 1e-6)),
            )
        ]
        for slope, number in zip(slopes, numbers, strict=True):
            np.testing.assert_allclose(slope, number, rtol=1e-6)
        second = jax.jit(jax.hessian(lambda v: density(2.0, v[0], v[1])))(jnp.array([0.4, sigma]))
        np.testing.assert_allclose(second[0, 0], -q * (1 - q) / sigma**2, rtol=1e-9)
        np.testing.assert_allclose(second, second.T, rtol=1e-9)


@pytest.mark.parametrize("kappa", [1e-3, 0.7, 3.0, 80.0, 1e6])
def test_draws_of_angles_have_their_law(kappa):
    """Kolmogorov and Smirnov's distance of 4,000 draws: below 1.95 / sqrt(n) in 999 of 1,000."""
    eta = jnp.full(4000, 3.0)
    y = np.asarray(LAWS["vonmises"].sample({"kappa": kappa}, 1.0, jax.random.key(2), eta), float)
    assert np.abs(y).max() <= np.pi + 1e-5
    about = wrap_angles(y - 2 * np.arctan(3.0))
    cdf = stats.vonmises(kappa).cdf if kappa < 1e5 else stats.norm(scale=kappa**-0.5).cdf
    assert stats.kstest(about, cdf).statistic < 1.95 / np.sqrt(4000)


def test_draws_of_quantile_regressions_have_their_law():
    law = find_law("asymmetriclaplace", 0.2)
    y = law.sample({"sigma": 0.7}, 1.0, jax.random.key(2), jnp.full(4000, 0.4))
    assert stats.kstest(y, quantile_law(0.2, 0.7)(0.4).cdf).statistic < 1.95 / np.sqrt(4000)


# --- integrals over effects -----------------------------------------------------------------------
@pytest.mark.parametrize("family", ["vonmises", "asymmetriclaplace"])
def test_integrals_over_effects_are_those_of_scipy(family):
    """Of each group, at the density's own nodes; the kinks of quantiles cost a hundredth of a
    nat."""
    quantile = 0.7 if family == "asymmetriclaplace" else None
    y = ANGLES if family == "vonmises" else AMOUNTS
    table = {"y": y, "x": X, "g": G}
    with enable_x64(True):
        model = vi.glmm("y ~ x + (1 | g)", table, family, nodes=25, quantile=quantile)
        form = dataclasses.replace(model.density_form, priors=())
        free = {name: jnp.asarray(0.3) for name in form.variables()}
        free["_sds.g"] = jnp.array([0.6])
        named = {name: float(x) for name, x in form.named(free).items()}
        data = {name: jnp.asarray(x) for name, x in model.data.items()}
        found = np.asarray(jax.vmap(lambda rows: log_lik(form, free, rows))(data))
    if family == "asymmetriclaplace":
        found = found - np.bincount(G) * np.log(form.units.size)
    eta = named["Intercept"] + named["x"] * X

    def density(rows, u):
        if family == "vonmises":
            law = stats.vonmises(named["kappa"], loc=2 * np.arctan(eta[rows] + u))
        else:
            law = quantile_law(0.7, named["sigma"])(eta[rows] + u)
        return np.exp(law.logpdf(y[rows]).sum() - scale) * stats.norm.pdf(u, 0, named["1|g_sigma"])

    for g in range(3):
        rows = np.flatnonzero(g == G)
        scale = found[g]
        ends = np.linspace(-6, 6, 25) * named["1|g_sigma"]
        parts = [
            integrate.quad(lambda u: density(rows, u), a, b, limit=200)[0]  # noqa: B023
            for a, b in itertools.pairwise(ends)
        ]
        tolerance = 1e-5 if family == "vonmises" else 0.02
        assert abs(np.log(sum(parts))) < tolerance


# --- fits -----------------------------------------------------------------------------------------
def by_name(fit):
    table = fit.summary()
    return {key: (m, s) for key, m, s in zip(table.names, table.mean, table.sd, strict=True)}


@pytest.fixture(scope="module")
def turned():
    y = wrap_angles(stats.vonmises(KAPPA, loc=2 * np.arctan(0.3 + 0.5 * X)).rvs(random_state=6))
    model = vi.glmm("y ~ x", {"y": y, "x": X}, "vonmises")
    return y, model, vi.auto(model, key=jax.random.key(0))


def test_a_regression_of_angles_is_near_maximum_likelihood(turned):
    y, _, fit = turned

    def loss(v):
        kappa = np.exp(v[2])
        cosines = np.cos(y - 2 * np.arctan(v[0] + v[1] * X))
        return -np.sum(kappa * (cosines - 1) - np.log(2 * np.pi * special.i0e(kappa)))

    best = optimize.minimize(loss, [0.0, 0.0, 0.0], method="BFGS")
    sds = np.sqrt(np.diag(best.hess_inv))
    found = by_name(fit)
    assert "can be used" in fit.verdict
    for name, mean, sd in zip(("Intercept", "x"), best.x, sds, strict=False):
        assert abs(found[name][0] - mean) < 0.15 * sd
        np.testing.assert_allclose(found[name][1], sd, rtol=0.1)
    assert abs(np.log(found["kappa"][0]) - best.x[2]) < 0.3 * sds[2]


def test_predictions_of_angles_are_directions(turned):
    """Means are 2 arctan(eta); ends lie about them, also beyond pi; averages are of unit
    vectors."""
    _, model, fit = turned
    key = jax.random.key(3)
    rows = fit.predict({"x": [0.0, 40.0]}, key=key)
    found = by_name(fit)
    assert abs(rows.mean[0] - 2 * np.arctan(found["Intercept"][0])) < 0.01
    assert abs(rows.mean[1] - 2 * np.arctan(found["Intercept"][0] + 40 * found["x"][0])) < 0.01
    wide = stats.vonmises(found["kappa"][0]).ppf([0.05, 0.95])
    np.testing.assert_allclose(rows.lowest, rows.mean + wide[0], atol=0.12)
    np.testing.assert_allclose(rows.highest, rows.mean + wide[1], atol=0.12)
    assert rows.highest[1] > np.pi
    average = model.predictions(fit, key=key)
    draws = model.draws(fit, key)
    eta = draws.named["Intercept"][:, None] + draws.named["x"][:, None] * X
    length = special.i1e(found["kappa"][0]) / special.i0e(found["kappa"][0])
    by_hand = np.angle((length * np.exp(2j * np.arctan(eta))).mean(1))
    assert abs(average.mean[0] - by_hand.mean()) < 0.1 * by_hand.std()
    slope = model.slopes(fit, "x", key=key)
    by_hand = (2 * draws.named["x"][:, None] / (1 + eta**2)).mean(1)
    assert abs(slope.mean[0] - by_hand.mean()) < 0.1 * by_hand.std()


def test_differences_of_angles_turn_the_short_way(turned):
    _, model, fit = turned
    apart = model.comparisons(fit, {"x": (-60.0, 60.0)}, key=jax.random.key(3), at={"x": [0.0]})
    assert abs(apart.mean[0]) < 0.3  # 2 pi less a little: across pi
    two = model.predictions(fit, key=jax.random.key(3), at={"x": [-60.0, 60.0]})
    np.testing.assert_allclose(two.pairwise().mean, apart.mean, atol=1e-3)
    with pytest.raises(ValueError, match=naming("kind:", "difference")):
        model.comparisons(fit, "x", key=jax.random.key(3), kind="ratio")
    with pytest.raises(ValueError, match=naming("family:", "comparisons")):
        model.ratios(fit, jax.random.key(3))
    with pytest.raises(ValueError, match=naming("family:", "variance", "loo")):
        model.explained_variance(fit, key=jax.random.key(3))


@pytest.mark.parametrize("q", [0.5, 0.9])
def test_a_quantile_regression_is_that_of_a_linear_program(q):
    """Koenker and Bassett's estimate, within a third of an sd of the posterior; sigma is the mean
    loss."""
    model = vi.glmm("y ~ x", {"y": AMOUNTS, "x": X}, "asymmetriclaplace", quantile=q)
    fit = vi.auto(model, key=jax.random.key(0))
    columns = np.column_stack([np.ones(N), X])
    best = optimize.linprog(
        np.r_[np.zeros(4), np.full(N, q), np.full(N, 1 - q)],
        A_eq=np.c_[columns, -columns, np.eye(N), -np.eye(N)],
        b_eq=AMOUNTS,
    )
    found = by_name(fit)
    assert "can be used" in fit.verdict
    for name, value in zip(("Intercept", "x"), best.x[:2] - best.x[2:4], strict=True):
        assert abs(found[name][0] - value) < found[name][1] / 3 + 0.02
    assert abs(found["sigma"][0] - best.fun / N) < 0.05 * best.fun / N
    rows = fit.predict({"x": [0.0]}, key=jax.random.key(1))
    assert abs(rows.mean[0] - found["Intercept"][0]) < 0.02
    assert f"the {q:g} quantile of y" in modelled.sentence(model.design, model.law)


# --- saved fits, many responses, errors -----------------------------------------------------------
def run_of(family, y, *settings):
    """A run of the command line on rows of y and x in the folder of the test."""
    lines = [f"{a},{b}" for a, b in zip(y, X, strict=True)]
    Path("d.csv").write_text("\n".join(["y,x", *lines]) + "\n")
    own = ["model.formula=y ~ x", f"model.family={family}", "model.num_draws=200", *settings]
    assert main(["fit", "glmm", "--data", "d.csv", "--out", "run", "--set", *own]) == 0
    return vi.load("run")


def test_a_quantile_on_the_command_line(tmp_path, monkeypatch):
    """The run keeps its quantile; the page, effects and other rows have it."""
    monkeypatch.chdir(tmp_path)
    run = run_of("asymmetriclaplace", AMOUNTS, "model.quantile=0.9")
    model = vi.glmm("y ~ x", {"y": AMOUNTS, "x": X}, "asymmetriclaplace", quantile=0.9)
    fit = vi.auto(model, key=jax.random.key(0))
    exact = fit.predict({"x": [0.0, 1.0]}, key=jax.random.key(1))
    seen = np.asarray(run.transform({"x": [0.0, 1.0]})["mean"], float)
    np.testing.assert_allclose(seen, exact.mean, atol=2 * exact.sd.max())  # a tenth is held out
    assert "the 0.9 quantile of y" in Path("run/report.html").read_text()
    assert main(["effects", "run"]) == 0


def test_angles_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = run_of("vonmises", ANGLES, 'model.formulas=["kappa ~ x"]')
    results = run.transform({"x": [3.0]})
    names = ("lowest", "low", "mean", "high", "highest")
    seen = {name: float(results[name][0]) for name in names}
    assert seen["lowest"] < seen["low"] < seen["mean"] < seen["high"] < seen["highest"]
    assert abs(seen["mean"] - 2 * np.arctan(0.5 + 0.52 * 3)) < 0.2
    page = Path("run/report.html").read_text()
    assert "the mean direction of y (radians)" in page
    assert "share of variance explained" not in page
    assert main(["effects", "run", "--ask", "predictions"]) == 0
    assert "mean direction of y" in capsys.readouterr().out


def test_many_quantile_regressions_are_those_of_one(tmp_path):
    responses = {"a": AMOUNTS, "b": AMOUNTS[::-1]}
    options = {"family": "asymmetriclaplace", "quantile": 0.9}
    fits = vi.glmm.many("~ x", {"x": X}, responses, key=jax.random.key(0), **options)
    one = by_name(vi.auto(fits.model("a"), key=jax.random.key(0)))
    place = fits.names.index("x")
    assert abs(fits.mean[0, place] - one["x"][0]) < 0.1 * one["x"][1]
    fits.save(tmp_path / "fits.npz")
    assert vi.glmm.many.load(tmp_path / "fits.npz").quantile == 0.9
    assert "0.9 quantile" in repr(fits)


def test_wrong_angles_and_quantiles_are_refused():
    with pytest.raises(ValueError, match=naming("family:", "radians", "numpy.deg2rad", "90")):
        vi.glmm("y ~ x", {"y": [0.0, 90.0, 180.0], "x": [1.0, 2.0, 4.0]}, "vonmises")
    with pytest.raises(ValueError, match=naming("family:", "numpy.angle")):
        vi.glmm("y ~ x", {"y": ANGLES % (2 * np.pi), "x": X}, "vonmises")
    table = {"y": AMOUNTS, "x": X}
    for quantile in (0.0, 1.0, 90):
        with pytest.raises(ValueError, match=naming("quantile:", "(0, 1)")):
            vi.glmm("y ~ x", table, "asymmetriclaplace", quantile=quantile)
    with pytest.raises(ValueError, match=naming("quantile:", "asymmetriclaplace")):
        vi.glmm("y ~ x", table, "gaussian", quantile=0.5)
    with pytest.raises(ValueError, match=naming("family:", "gaussian")):
        vi.glmm("se(y, s) ~ x", {**table, "s": np.ones(N)}, "asymmetriclaplace")


def test_angles_about_the_end_of_the_link_are_told():
    y = wrap_angles(ANGLES + 2.4)
    with pytest.warns(UserWarning, match="tan"):
        vi.glmm("y ~ x", {"y": y, "x": X}, "vonmises")


def test_the_estimator_predicts_quantiles_and_refuses_angles():
    pandas = pytest.importorskip("pandas")
    from vijax.sklearn import MixedModelRegressor

    frame = pandas.DataFrame({"x": X})
    options = {"family": "asymmetriclaplace", "quantile": 0.9, "random_state": 0}
    predicted = MixedModelRegressor(**options).fit(frame, AMOUNTS).predict(frame)
    assert 0.84 < np.mean(predicted > AMOUNTS) < 0.95
    with pytest.raises(ValueError, match=naming("family:", "vonmises", "vijax.glmm")):
        MixedModelRegressor(family="vonmises").fit(frame, ANGLES)
