"""Crossed factors of laws that are not normal, on the host: against dense Newton steps in NumPy,
maxima by SciPy, the density itself, and draws by the density."""

import jax
import numpy as np
import pytest
from scipy import optimize, special

import vijax as vi
from vijax.automatic import auto as automatic
from vijax.models.formulas import nearby
from vijax.models.formulas.effects import interpolated
from vijax.models.formulas.nearby import NearMode, to_unknowns
from vijax.models.formulas.rows_by_group import rows_in_units

KEY = jax.random.key(0)
TWO = "~ x + (1 | g) + (1 | h)"
THREE = "~ x + offset(x) + (1 | g) + (1 | h) + (1 | k)"
SLOPES = "~ x + (x || g) + (1 | h)"


def table_of(groups, items, rows, seed=0):
    rng = np.random.default_rng(seed)
    g, h, x = rng.integers(groups, size=rows), rng.integers(items, size=rows), rng.normal(size=rows)
    eta = 0.2 + 0.5 * x + 0.8 * rng.normal(size=groups)[g] + 0.6 * rng.normal(size=items)[h]
    trials = rng.integers(1, 6, size=rows)
    return {
        "zero": (rng.random(rows) < special.expit(eta)).astype(int),
        "some": rng.binomial(trials, special.expit(eta)),
        "of": trials,
        "count": rng.poisson(np.exp(eta)),
        "x": x,
        "g": g,
        "h": h,
        "k": h % 3,
    }


RESPONSES = {"bernoulli": "zero", "binomial": "p(some, of)", "poisson": "count"}
TABLE = table_of(9, 6, 80)
WEIGHTS = 1.0 + np.arange(80) % 2


def by_dense_newton(model, b, ratios):
    """Laplace's approximation by plain Newton steps with whole matrices."""
    form = model.density_form
    rows = rows_in_units(model.design, model.law, form, model.weights)
    columns = []
    for i, term in enumerate(form.effects):
        d = len(term.labels)
        sds = ratios[:d]
        ratios = ratios[d:]
        by_group = np.eye(term.groups)[rows[f"group{i}"]][:, :, None]
        columns.append((by_group * (rows[f"z{i}"] * sds)[:, None]).reshape(len(rows["y"]), -1))
    z = np.concatenate(columns, 1)
    fixed = rows["offset"] + rows["x"] @ (b + np.array(form.units.shift))
    y, n, w = rows["y"], rows["trials"], rows["weight"]
    is_count = form.law == "poisson"
    v = np.zeros(z.shape[1])
    for _ in range(60):
        eta = fixed + z @ v
        mean = np.exp(eta) if is_count else n * special.expit(eta)
        bends = mean if is_count else mean * (1 - mean / n)
        h = np.eye(len(v)) + z.T @ ((w * bends)[:, None] * z)
        v = v + np.linalg.solve(h, z.T @ (w * (y - mean)) - v)
    eta = fixed + z @ v
    if is_count:
        log_liks = y * eta - np.exp(eta) - special.gammaln(y + 1)
    else:
        log_liks = y * eta - n * np.logaddexp(0, eta)
        log_liks += special.gammaln(n + 1) - special.gammaln(y + 1) - special.gammaln(n - y + 1)
    return np.sum(w * log_liks) - 0.5 * v @ v - 0.5 * np.linalg.slogdet(h)[1]


@pytest.mark.parametrize(
    ("family", "right"),
    [("bernoulli", TWO), ("binomial", THREE), ("poisson", THREE), ("bernoulli", SLOPES)],
)
def test_the_integral_on_the_host_is_that_of_whole_matrices(family, right):
    model = vi.glmm(f"{RESPONSES[family]} {right}", TABLE, family, weights=WEIGHTS)
    laplace = NearMode(model.density_form).laplace_rows(model.data)
    rng = np.random.default_rng(0)
    for _ in range(3):
        b = 0.3 * rng.normal(size=2)
        ratios = rng.uniform(0.2, 2.0, len(laplace.groups))
        expected = by_dense_newton(model, b, ratios)
        assert laplace.log_lik(b, ratios) == pytest.approx(expected, abs=3e-5)


def test_as_a_function_of_coefficients_it_has_its_maximum_and_curvature():
    """By BFGS in SciPy; the mode of coefficients and effects lies elsewhere."""
    model = vi.glmm(f"zero {TWO}", table_of(60, 40, 1500), "bernoulli")
    laplace = NearMode(model.density_form).laplace_rows(model.data)
    ratios = np.array([0.7, 0.5])
    first = laplace.profile(ratios)
    best = optimize.minimize(lambda b: -laplace.log_lik(b, ratios), np.zeros(2))
    laplace.prepare(ratios)
    profile = laplace.profile(ratios)
    in_sds = lambda b: (b - best.x) @ profile.root
    assert np.abs(in_sds(first.best)).max() > 0.1
    assert np.abs(in_sds(profile.best)).max() < 0.03
    assert profile.log_lik(profile.best, 1.0, 0.0) == pytest.approx(-best.fun, abs=0.01)
    away = profile.best + np.linalg.solve(profile.root.T, [1.5, -1.0])
    exact = laplace.log_lik(away, ratios)
    assert profile.log_lik(away, 1.0, 0.0) == pytest.approx(exact, abs=0.03)


def test_a_mode_that_is_not_found_ends_no_fit(monkeypatch):
    model = vi.glmm(f"zero {TWO}", TABLE, "bernoulli")
    laplace = NearMode(model.density_form).laplace_rows(model.data)

    def fail(*given):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(laplace, "_search", fail)
    ratios = np.array([0.7, 0.5])
    laplace.prepare(ratios)
    assert laplace.profile(ratios) is None
    assert laplace.log_lik(np.zeros(2), ratios) == -np.inf


def test_products_by_blocks_are_those_of_sparse_matrices(monkeypatch):
    from vijax.models.formulas.effects import laplace_on_host

    model = vi.glmm(f"count {SLOPES}", TABLE, "poisson")
    values = []
    for dense in (1e-9, 1e9):
        monkeypatch.setattr(laplace_on_host, "DENSE", dense)
        laplace = NearMode(model.density_form).laplace_rows(model.data)
        values.append(laplace.log_lik(np.zeros(2), np.array([0.5, 0.2, 0.7])))
    assert values[0] == pytest.approx(values[1], abs=1e-9)


def test_laws_with_parameters_and_few_effects_are_fitted_by_their_density():
    large = table_of(150, 80, 900)
    families = [("bernoulli", "zero", True), ("negativebinomial", "count", False)]
    for family, response, is_worth in families:
        model = vi.glmm(f"{response} {TWO}", large, family)
        assert NearMode(model.density_form).is_worth == is_worth
    one = vi.glmm("zero ~ x + (1 | g)", large, "bernoulli")
    assert not NearMode(one.density_form).is_worth
    assert not NearMode(vi.glmm(f"zero {TWO}", TABLE, "bernoulli").density_form).is_worth


def test_where_the_prior_alone_ends_a_coefficient_the_points_are_not_believed():
    """Ones alone: the likelihood of the intercept has no maximum, and is nowhere quadratic."""
    table = {**table_of(150, 80, 900), "zero": np.ones(900, int)}
    model = vi.glmm(f"zero {TWO}", table, "bernoulli")
    near = model.form.nearby(model.data)
    if near is not None:
        x = np.random.default_rng(0).normal(size=(4, model.log_density.variables.dim))
        values = jax.vmap(model.log_density.values_at)(x)
        assert not automatic._is_near(near.errors(values))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_the_posterior_between_points_is_that_of_the_density(monkeypatch, family):
    """The same means, sds and bound by both, and the same effects."""
    model = vi.glmm(f"{RESPONSES[family]} {TWO}", table_of(60, 40, 1500), family)
    monkeypatch.setattr(nearby, "FEWEST_EFFECTS", 50)
    within = vi.auto(model, key=KEY, richer=False)
    monkeypatch.setattr(automatic, "NEARBY", 0.0)
    without = vi.auto(model, key=KEY, richer=False)
    assert "Laplace approximation of the likelihood was computed at" in within.verdict
    assert "interpolated" not in without.verdict
    one, other = (fit.summary(num_draws=20_000) for fit in (within, without))
    assert one.names == other.names
    assert np.abs((np.array(one.mean) - other.mean) / other.sd).max() < 0.06
    assert np.abs(np.log(np.array(one.sd) / other.sd)).max() < 0.05
    assert within.elbo.value == pytest.approx(without.elbo.value, abs=0.1)
    monkeypatch.setattr(nearby, "MANY_EFFECTS", 50)
    on_host = model.draws(within, KEY, 2000).effects
    monkeypatch.setattr(nearby, "MANY_EFFECTS", 5000)
    by_density = model.draws(within, KEY, 2000).effects
    for name in ("g", "h"):
        first, second = on_host[name], by_density[name]
        spread = second.std(0)
        assert np.abs((first.mean(0) - second.mean(0)) / spread).max() < 0.15
        assert np.abs(np.log(first.std(0) / spread)).max() < 0.12


def test_errors_are_near_where_they_move_no_mean():
    """A constant moves none; spread ones move means by as many sds at most, here to first order."""
    assert automatic._is_near(np.full(8, 0.3))
    assert not automatic._is_near(np.full(8, 0.6))
    assert not automatic._is_near(np.array([0.0, -np.inf]))
    assert not automatic._is_near(np.array([0.3, -0.1]))
    assert not automatic._is_near(np.array([0.0, np.nan]))
    x = np.random.default_rng(0).normal(size=200_000)
    errors = 0.09 * x
    assert automatic._is_near(errors)
    moved = np.sum(x * np.exp(errors)) / np.sum(np.exp(errors))
    assert moved == pytest.approx(0.09, abs=0.01)


def test_values_at_draws_are_compared_with_the_integral_itself():
    model = vi.glmm(f"zero {TWO}", table_of(150, 80, 2500), "bernoulli")
    near = model.form.nearby(model.data)
    rng = np.random.default_rng(1)
    dim = model.log_density.variables.dim
    values = jax.vmap(model.log_density.values_at)(0.1 * rng.normal(size=(2, dim)))
    rows = {name: x[0] for name, x in near.data.items()}
    laplace = NearMode(model.density_form).laplace_rows(model.data)
    unknowns = to_unknowns(model.density_form, values)
    errors = near.errors(values)
    for error, b, ratios in zip(errors, unknowns.coefficients, unknowns.ratios, strict=True):
        level = near.level - model.density_form.constant
        expected = laplace.log_lik(b, ratios) - level
        expected -= interpolated.log_lik(rows, b, 1.0, ratios, np)
        assert error == pytest.approx(expected, abs=1e-3)
