"""Normal regressions with crossed factors: against SciPy's dense normal law in float64, and lme4's
estimates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax.automatic import auto as automatic
from vijax.models.formulas import form as forms
from vijax.models.formulas import nearby
from vijax.models.formulas.effects import interpolated
from vijax.models.formulas.form import AUX, COEFFICIENTS, SDS
from vijax.models.formulas.nearby import NearMode, to_unknowns
from vijax.models.formulas.rows_by_group import rows_in_units
from vijax.xla.precision import enable_x64

KEY = jax.random.key(0)
TWO, THREE, SLOPES = (
    "y ~ x + (1 | g) + (1 | h)",
    "y ~ x + (1 | g) + (1 | h) + (1 | k)",
    "y ~ x + (x || g) + (x || h)",
)
CORRELATED = "y ~ x + (x | g) + (1 | h)"


def table_of(groups, items, rows, seed=0):
    rng = np.random.default_rng(seed)
    g, h, x = rng.integers(groups, size=rows), rng.integers(items, size=rows), rng.normal(size=rows)
    k = h % 3
    effects = (
        0.8 * rng.normal(size=groups)[g]
        + 0.5 * rng.normal(size=items)[h]
        + 0.3 * x * rng.normal(size=groups)[g]
    )
    y = 3 + 0.5 * x + effects + 0.3 * rng.normal(size=3)[k] + rng.normal(size=rows)
    return {"y": y, "x": x, "g": g, "h": h, "k": k}


TABLE = table_of(9, 6, 60)
WEIGHTS = 1.0 + np.arange(60) % 2


def values_of(model, seed=0):
    """Values of the variables, not far from the mode, in float64."""
    dim = model.log_density.variables.dim
    with enable_x64(True):
        at = jax.jit(model.log_density.values_at)(
            0.3 * np.random.default_rng(seed).normal(size=dim)
        )
        return {name: np.asarray(x) for name, x in at.items()}


def dense(model, values):
    """Columns of effects times the factor of their covariance, residuals, and sigma; a row for each
    of its weight."""
    form = model.density_form
    rows = rows_in_units(model.design, model.law, form, model.weights)
    copies = np.repeat(np.arange(len(rows["y"])), model.weights.astype(int))
    columns = []
    for i, own in enumerate(form.effects):
        with enable_x64(True):
            z = rows[f"z{i}"] @ np.asarray(form.factor(values, i))
        columns.append(
            (np.eye(own.groups)[rows[f"group{i}"]][:, :, None] * z[:, None]).reshape(len(z), -1)
        )
    b = np.array([values[COEFFICIENTS + label] for label in form.labels])
    sigma = float(values[AUX + "sigma"])
    return np.concatenate(columns, 1)[copies], (rows["y"] - rows["x"] @ b)[copies], sigma


def call_scipy(model, values):
    """The log likelihood by a dense covariance."""
    z, r, sigma = dense(model, values)
    return stats.multivariate_normal.logpdf(r, cov=z @ z.T + sigma**2 * np.eye(len(r)))


def by_host(model, values):
    one = {name: np.asarray(x)[None] for name, x in values.items()}
    (b,), (sigma,), (ratios,) = to_unknowns(model.density_form, one)
    sums = NearMode(model.density_form).host_sums(model.data)
    return interpolated.Profile.from_sums(sums, ratios).log_lik(b, sigma, sums.count)


@pytest.mark.parametrize("formula", [TWO, THREE, SLOPES, "y ~ x + (x || g)"])
def test_sums_on_the_host_are_the_dense_normal_law(formula):
    model = vi.glmm(formula, TABLE, weights=WEIGHTS)
    values = values_of(model)
    assert by_host(model, values) == pytest.approx(call_scipy(model, values), rel=1e-11)


@pytest.mark.parametrize("formula", [TWO, CORRELATED])
def test_the_density_is_the_dense_normal_law(formula):
    """In float32; its sums are those of SciPy's float64."""
    model = vi.glmm(formula, TABLE, weights=WEIGHTS)
    values = values_of(model)
    sums = {
        name: x[0] if x.dtype.kind == "i" else x[0].astype(np.float32)
        for name, x in model.data.items()
    }
    narrow = {name: np.asarray(x, np.float32) for name, x in values.items()}
    assert float(
        jax.jit(lambda v, r: forms.log_lik(model.density_form, v, r))(narrow, sums)
    ) == pytest.approx(call_scipy(model, values), rel=1e-6)


def test_the_gradient_is_that_of_the_dense_normal_law():
    """In float64, of correlated effects: against differences of SciPy's values."""
    model = vi.glmm(CORRELATED, TABLE, weights=WEIGHTS)
    free = model.log_density
    with enable_x64(True):
        x = 0.3 * np.random.default_rng(1).normal(size=free.variables.dim)
        sums = {name: np.asarray(values[0]) for name, values in model.data.items()}
        slope = jax.jit(
            jax.grad(lambda x: forms.log_lik(model.density_form, free.values_at(x), sums))
        )(x)
        at = jax.jit(free.values_at)
        moved = [(at(x + 1e-5 * e), at(x - 1e-5 * e)) for e in np.eye(len(x))]
        moved = [
            [{name: np.asarray(v) for name, v in values.items()} for values in pair]
            for pair in moved
        ]
    differences = [(call_scipy(model, up) - call_scipy(model, down)) / 2e-5 for up, down in moved]
    np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-5 * np.abs(differences).max())


def test_effects_are_drawn_from_their_conditional_law():
    """On the host, at draws of the unknowns that differ: against dense algebra, at six standard
    errors."""
    model = vi.glmm(SLOPES, TABLE, weights=WEIGHTS)
    count, form = 2000, model.density_form
    each = [values_of(model, seed) for seed in (0, 1)]
    stacked = {name: np.repeat(np.stack([one[name] for one in each]), count, 0) for name in each[0]}
    effects = NearMode(form).draw_effects(model.data, model.design.rows, model.weights, stacked, 3)
    for i, values in enumerate(each):
        z, r, sigma = dense(model, values)
        covariance = np.linalg.inv(np.eye(z.shape[1]) + z.T @ z / sigma**2)
        mean = covariance @ z.T @ r / sigma**2
        units = [
            form.units.size / np.array(own.sizes) * values[SDS + own.name] for own in form.effects
        ]
        own = slice(i * count, (i + 1) * count)
        parts = [(u[own] / unit).reshape(count, -1) for u, unit in zip(effects, units, strict=True)]
        drawn = np.concatenate(parts, 1)
        sds = np.sqrt(np.diag(covariance))
        assert np.abs((drawn.mean(0) - mean) / sds).max() < 6 / np.sqrt(count)
        assert np.abs(drawn.std(0) / sds - 1).max() < 6 / np.sqrt(2 * count)
        apart = np.corrcoef(drawn.T) - covariance / np.outer(sds, sds)
        assert np.abs(apart).max() < 6 / np.sqrt(count)


def test_draws_that_conjugate_gradients_do_not_reach_have_a_factor_of_their_own(monkeypatch):
    from vijax.models.formulas.effects import drawn_on_host

    model = vi.glmm(TWO, TABLE)
    stacked = {name: np.stack([x, x]) for name, x in values_of(model).items()}
    draw = lambda: NearMode(model.density_form).draw_effects(
        model.data, model.design.rows, model.weights, stacked, 3
    )
    usual = draw()
    monkeypatch.setattr(drawn_on_host, "MOST_PASSES", 0)
    for one, other in zip(usual, draw(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# --- the likelihood between points ----------------------------------------------------------------
def test_the_mode_is_that_of_lme4():
    """lme4 1.1.31, `lmer(diameter ~ 1 + (1 | plate) + (1 | sample), Penicillin)`: under flat priors
    the mode of ratios is that of the restricted likelihood."""
    plate, sample = np.repeat(np.arange(24), 6), np.tile(np.arange(6), 24)
    sums = host_sums(
        {"y": PENICILLIN, "plate": plate, "sample": sample}, "y ~ 1 + (1 | plate) + (1 | sample)"
    )
    marginal = interpolated._Marginal(interpolated.NormalSums(sums), lambda b, sigma, ratios: 0.0)
    mode, _ = marginal.mode(np.full(2, interpolated.START))
    np.testing.assert_allclose(np.exp(mode), [1.539675554, 3.512518860], rtol=2e-3)
    profile = interpolated.Profile.from_sums(sums, np.array([1.539675554, 3.512518860]))
    model = vi.glmm(
        "y ~ 1 + (1 | plate) + (1 | sample)", {"y": PENICILLIN, "plate": plate, "sample": sample}
    )
    assert profile.sigma(sums.count) * model.density_form.units.size == pytest.approx(
        0.5499226821, rel=1e-6
    )


def host_sums(table, formula, **more):
    model = vi.glmm(formula, table, **more)
    return NearMode(model.density_form).host_sums(model.data)


NO_EFFECTS = {**table_of(120, 60, 2400), "y": np.random.default_rng(1).normal(size=2400)}
"""Effects of sd zero: the likelihood goes on to there."""


@pytest.mark.parametrize(
    ("formula", "table", "begin_at_zero"),
    [
        (TWO, table_of(120, 60, 2400), [False, False]),
        ("y ~ x + (x || g) + (1 | h)", table_of(120, 60, 2400), [False, False, False]),
        (
            THREE,
            table_of(120, 60, 2400),
            [False, False, True],
        ),  # three groups: their sd is hardly known
        (TWO, NO_EFFECTS, [True, True]),
    ],
)
def test_between_its_points_the_likelihood_is_exact(formula, table, begin_at_zero):
    """Within 1e-3 nats where the posterior is; beyond the box it falls as a normal law does."""
    model = vi.glmm(formula, table)
    near_mode = NearMode(model.density_form)
    sums, size = near_mode.host_sums(model.data), len(begin_at_zero)
    near = interpolated.near_mode(interpolated.NormalSums(sums), near_mode.log_prior(), size)
    rows = {name: x[0] for name, x in near.rows.items()}
    assert rows["is_even"].astype(bool).tolist() == begin_at_zero
    narrow = {name: jnp.asarray(x, jnp.float32) for name, x in rows.items()}
    rng, seen = np.random.default_rng(0), 0
    of_floats = jax.jit(lambda *given: interpolated.log_lik(*given))
    b = rows["best"].reshape(-1, 2)[0]
    ratios_at = lambda u: np.where(
        begin_at_zero,
        rows["centre"] * np.sinh(rows["reach"] * u),
        np.exp(rows["centre"] + rows["reach"] * (2 * u - 1)),
    )
    for u in rng.uniform(0.2, 0.8, (30, size)):
        profile = interpolated.Profile.from_sums(sums, ratios_at(u))
        sigma, b = 1.02 * float(rows["sigma"]), profile.best + 0.02 * rng.normal(size=2)
        exact = profile.log_lik(b, sigma, sums.count) - near.level
        if exact > -12:
            seen += 1
            assert interpolated.log_lik(rows, b, sigma, ratios_at(u), np) == pytest.approx(
                exact, abs=1e-3
            )
            given = (np.float32(x) for x in (b, sigma, ratios_at(u)))
            assert float(of_floats(narrow, *given)) == pytest.approx(exact, abs=2e-3)
    assert seen >= 3
    at = [float(interpolated.log_lik(rows, b, 1.0, ratios_at(u), np)) for u in (1.0, 1.5, 2.0)]
    assert at[2] < at[1] < at[0]


def test_points_are_taken_where_they_are_worth_it():
    few, many = vi.glmm(TWO, TABLE), vi.glmm(TWO, table_of(150, 60, 1500))
    correlated = vi.glmm(CORRELATED, table_of(150, 60, 1500))
    assert [NearMode(m.density_form).is_worth for m in (few, many, correlated)] == [
        False,
        True,
        False,
    ]
    assert few.form.nearby(few.data) is None


def test_the_posterior_between_points_is_that_of_the_density(monkeypatch):
    """The same means, sds and bound by both; with points the verdict says so. Where they are not
    close enough at draws of the fit, the density itself is fitted."""
    model = vi.glmm(TWO, table_of(60, 40, 600))
    monkeypatch.setattr(nearby, "FEWEST_EFFECTS", 50)
    within = vi.auto(model, key=KEY, richer=False)
    monkeypatch.setattr(automatic, "NEARBY", 0.0)
    without = vi.auto(model, key=KEY, richer=False)
    assert "interpolated" in within.verdict
    assert "interpolated" not in without.verdict
    one, other = (fit.summary(num_draws=20_000) for fit in (within, without))
    assert one.names == other.names
    assert np.abs((np.array(one.mean) - other.mean) / other.sd).max() < 0.05
    assert np.abs(np.log(np.array(one.sd) / other.sd)).max() < 0.05
    assert within.elbo.value == pytest.approx(without.elbo.value, abs=0.1)


def interrupt(*given):
    raise KeyboardInterrupt


def test_ctrl_c_before_the_fit_says_that_nothing_is_fitted(monkeypatch):
    model = vi.glmm(TWO, table_of(150, 60, 1510))
    monkeypatch.setattr(interpolated, "_through_points", interrupt)
    with pytest.raises(KeyboardInterrupt, match="nothing is fitted yet"):
        vi.auto(model, key=KEY)


@pytest.mark.slow
def test_ctrl_c_after_the_fit_does_not_lose_it(monkeypatch):
    """It comes while the fit is compared with the likelihood itself."""
    model = vi.glmm(TWO, table_of(150, 60, 1520))
    monkeypatch.setattr(interpolated.NormalSums, "exact", interrupt)
    fit = vi.auto(model, key=KEY, richer=False)
    assert fit.verdict.endswith("it is off by a part that was not computed, after Ctrl-C.")
    assert fit.summary().names[:2] == ("Intercept", "x")


def test_other_data_are_not_read_by_points_of_these():
    """A fit of other sums takes the density itself, or refuses them, as it did."""
    model = vi.glmm(TWO, table_of(150, 60, 1500))
    other = {name: np.array(x) for name, x in model.data.items()}
    assert model.form.given is model.data
    assert automatic._nearby(model, other, automatic._Options(1, 32, None, None, None)) is None


# fmt: off
PENICILLIN = np.array([
    27, 23, 26, 23, 23, 21, 27, 23, 26, 23, 23, 21, 25, 21, 25, 24, 24, 20, 26, 23, 25, 23, 23, 20, 25, 22, 26, 22, 23,
    20, 24, 22, 25, 23, 22, 19, 24, 20, 23, 21, 22, 19, 26, 22, 26, 24, 24, 21, 24, 21, 24, 22, 22, 20, 24, 21, 24, 23,
    22, 19, 26, 23, 26, 24, 24, 21, 25, 22, 26, 24, 24, 20, 26, 24, 26, 24, 25, 22, 26, 23, 26, 23, 23, 20, 26, 23, 25,
    24, 24, 22, 25, 22, 25, 23, 23, 20, 25, 21, 24, 23, 23, 20, 25, 22, 24, 23, 23, 19, 24, 21, 23, 21, 21, 19, 26, 23,
    26, 24, 24, 21, 25, 21, 24, 22, 22, 18, 25, 22, 25, 22, 22, 20, 24, 21, 24, 22, 24, 19, 24, 21, 24, 22, 21, 18,
], float)
# fmt: on
