"""The verdict on integrals over effects: against fits with more nodes, and a sum over a grid of all
effects."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, logsumexp

import vijax as vi
from vijax.models.formulas.form import log_lik
from vijax.models.formulas.form.finer_integrals import FinerIntegrals, shift_sentence

KEY = jax.random.key(0)
RNG = np.random.default_rng(5)
GROUPS = np.repeat(np.arange(60), 4)
X = RNG.normal(size=240)
Y = (RNG.random(240) < expit(0.3 + X + 2 * RNG.normal(size=60)[GROUPS])).astype(float)
TABLE = {"y": Y, "x": X, "g": GROUPS}


@pytest.mark.slow
def test_the_verdict_says_what_more_nodes_give():
    rough = vi.auto(vi.glmm("y ~ x + (1 | g)", TABLE, "bernoulli", nodes=1), key=KEY)
    assert "Integrals over effects of groups are Laplace's approximation" in rough.verdict
    assert "nodes=25 takes these." in rough.verdict
    said = re.search(r"1\|g_sigma is ([\d.]+), not ([\d.]+)", rough.verdict)
    fine = vi.auto(vi.glmm("y ~ x + (1 | g)", TABLE, "bernoulli", nodes=25), key=KEY)
    summary = fine.summary()
    place = summary.names.index("1|g_sigma")
    beyond, before = map(float, said.groups())
    actual = summary.mean[place] - before
    assert abs(beyond - summary.mean[place]) < 0.12 * summary.sd[place]
    assert actual > 0.2 * summary.sd[place]
    assert "Integrals over effects" not in fine.verdict


def test_laplace_with_many_rows_is_called_fine():
    """Counts of a mean of forty: the integrand is a normal."""
    g = np.repeat(np.arange(8), 6)
    y = RNG.poisson(np.exp(3.7 + 0.3 * RNG.normal(size=8)[g]))
    model = vi.glmm("y ~ 1 + (1 | g)", {"y": y, "g": g}, "poisson", nodes=1)
    fit = vi.auto(model, key=KEY)
    assert "by quadrature with 25 nodes no estimate moves by more than 0.0" in fit.verdict


def values_at(model, coordinates):
    return jax.vmap(model.log_density.values_at)(jnp.asarray(coordinates, jnp.result_type(float)))


def test_integrals_along_each_effect_are_near_the_sum_over_a_grid():
    """Five effects of two crossed factors: 13^5 places, each with the law of 24 rows, in parts of
    13^4 that share the first effect, so that the sum is small in memory."""
    g, k = np.repeat(np.arange(3), 8), np.tile(np.arange(2), 12)
    y = (RNG.random(24) < 0.7).astype(float)
    model = vi.glmm("y ~ 1 + (1 | g) + (1 | k)", {"y": y, "g": g, "k": k}, "bernoulli")
    form = model.density_form
    coordinates = np.zeros((2, 3))
    coordinates[1] = 0.6
    values = values_at(model, coordinates)
    errors = FinerIntegrals(form, model.data).errors(values)
    t, w = np.polynomial.hermite_e.hermegauss(13)
    others = np.array(list(itertools.product(t, repeat=4)))
    log_weights = np.array(list(itertools.product(np.log(w), repeat=4))).sum(1)
    log_weights -= 2.5 * np.log(2 * np.pi)
    for s in range(2):
        at = {name: x[s] for name, x in values.items()}
        named = form.named(at)
        parts = []
        for first, log_weight in zip(t, np.log(w), strict=True):
            places = np.column_stack([np.full(len(others), first), others])
            eta = float(named["Intercept"]) + (
                float(named["1|g_sigma"]) * places[:, g]
                + float(named["1|k_sigma"]) * places[:, 3 + k]
            )
            # The response is zero or one: log p = y eta - log(1 + e^eta).
            log_liks = (y * eta - np.logaddexp(0, eta)).sum(1)
            parts.append(log_weight + logsumexp(log_liks + log_weights))
        exact = logsumexp(parts)
        rows = {name: jnp.asarray(x[0]) for name, x in model.data.items()}
        rough = float(log_lik(form, at, rows))
        assert abs(exact - rough) > 0.01
        assert abs(errors[s] - (exact - rough)) < 0.4 * abs(exact - rough)


def laplace_error(y, a, sd):
    """The log integral over one effect by SciPy, less Laplace's approximation by Newton's method."""
    log_joint = lambda v: (
        np.sum(y * (a + sd * v) - np.logaddexp(0, a + sd * v)) + stats.norm.logpdf(v)
    )
    exact, _ = integrate.quad(lambda v: np.exp(log_joint(v)), -9, 9, epsabs=1e-13)
    v = 0.0
    for _ in range(50):
        p = expit(a + sd * v)
        curvature = 1 + sd**2 * len(y) * p * (1 - p)
        v += (sd * np.sum(y - p) - v) / curvature
    return np.log(exact) - log_joint(v) - 0.5 * np.log(2 * np.pi / curvature)


def test_effects_beyond_quadrature_are_integrated_along_axes():
    """Of independent effects the sum is exact: five a group, each with rows of its own."""
    g, kind = np.repeat(np.arange(4), 15), np.tile(np.repeat(np.arange(5), 3), 4)
    y = (RNG.random(60) < 0.6).astype(float)
    codes = {f"is_{i}": 1.0 * (kind == i) for i in range(5)}
    effects = " + ".join(codes)
    table = {"y": y, "g": g, **codes}
    model = vi.glmm(f"y ~ 1 + (0 + {effects} || g)", table, "bernoulli")
    finer = model.form.roughness
    assert finer.finer_nodes == 0
    assert finer.num_draws == 128
    coordinates = np.full((1, model.log_density.variables.dim), 0.7)
    values = values_at(model, coordinates)
    named = {name: float(x[0]) for name, x in jax.vmap(finer.form.named)(values).items()}
    expected = sum(
        laplace_error(y[(g == j) & (kind == i)], named["Intercept"], named[f"is_{i}|g_sigma"])
        for j in range(4)
        for i in range(5)
    )
    assert abs(expected) > 0.1
    assert finer.errors(values)[0] == pytest.approx(expected, rel=0.02)


def test_errors_are_of_the_density_that_is_fitted_where_sigma_has_effects():
    """Far from a mode Newton's steps need the curvature of the density, or end elsewhere."""
    table = {"y": RNG.normal(size=24), "x": X[:24], "g": np.arange(24) % 4}
    texts = ["sigma ~ x + (1 | g)"]
    rough = vi.glmm("y ~ x + (1 | g)", table, formulas=texts, nodes=1)
    fine = vi.glmm("y ~ x + (1 | g)", table, formulas=texts, nodes=11)
    rng = np.random.default_rng(0)
    values = values_at(rough, rng.normal(size=(200, rough.log_density.variables.dim)))
    total = lambda form: (
        lambda v: jnp.sum(jax.vmap(lambda rows: log_lik(form, v, rows))(dict(rough.data)))
    )
    by_nodes = [jax.jit(jax.vmap(total(model.density_form)))(values) for model in (rough, fine)]
    expected = np.asarray(by_nodes[1] - by_nodes[0])
    errors = rough.form.roughness.errors(values)
    assert rough.form.roughness.finer_nodes == 11
    np.testing.assert_allclose(errors, expected, atol=0.02, rtol=1e-3)


def test_programs_are_compiled_once_for_equal_densities():
    model = vi.glmm("y ~ x + (1 | g)", TABLE, "bernoulli", nodes=1)
    finer = model.form.roughness
    values = values_at(model, np.zeros((2, 3)))
    finer.errors(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.lax, "map", None)  # a program that is traced again would fail
        finer.errors(values)


def test_too_few_draws_for_the_work_are_none():
    """One draw has no sd: it was said that no estimate moves."""
    model = vi.glmm("y ~ x + (1 | g)", TABLE, "bernoulli", nodes=1)
    for rows, number in ((1_000_000, 0), (400_000, 26), (10_000, 128)):
        data = {**model.data, "weight": np.broadcast_to(1.0, rows)}
        assert FinerIntegrals(model.density_form, data).num_draws == number


def test_integrals_that_are_no_numbers_are_told():
    model = vi.glmm("y ~ x + (1 | g)", TABLE, "bernoulli", nodes=1)
    errors = np.array([0.1, np.nan, -np.inf])
    said = shift_sentence(model.form.roughness, errors, {"x": np.arange(3.0)})
    assert "no numbers at 2 of 3 draws" in said


@pytest.mark.parametrize(
    ("formula", "family", "nodes"),
    [
        ("y ~ x + (1 | g)", "gaussian", None),
        ("y ~ x + (1 | g)", "bernoulli", None),
        ("y ~ x", "bernoulli", None),
    ],
)
def test_nothing_is_said_of_integrals_that_are_fine(formula, family, nodes):
    model = vi.glmm(formula, TABLE, family, nodes=nodes)
    assert model.form.roughness.num_draws == 0


def test_many_moves_are_counted_and_weights_that_fail_are_told():
    model = vi.glmm("y ~ x + (1 | g)", TABLE, "bernoulli", nodes=1)
    draws = RNG.normal(size=(128, 4))
    named = {f"b{i}": draws[:, 0] + 0.1 * draws[:, i] for i in range(4)}
    said = shift_sentence(model.form.roughness, 12 * draws[:, 0], named)
    assert "(1 other estimates move too), or further off: few draws" in said
