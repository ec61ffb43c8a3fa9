"""Regressions of counts by category: against SciPy's law, `categorical` on a row for each count, and
statsmodels' MNLogit."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import vijax as vi
from tests.naming import naming
from vijax.models.formulas import form as forms

RNG = np.random.default_rng(8)
SIZE = 60
X = RNG.normal(size=SIZE)
G = np.array(list("pqrst"))[np.arange(SIZE) % 5]
CHANCES = special.softmax(np.c_[0 * X, 0.4 + 0.8 * X, -0.3 - 0.5 * X], 1)
COUNTS = np.array(
    [RNG.multinomial(n, p) for n, p in zip(1 + np.arange(SIZE) % 7, CHANCES, strict=True)]
)
NAMES = ("a", "b", "k")
TABLE = {**dict(zip(NAMES, COUNTS.T, strict=True)), "x": X, "g": G}
ROWS, KINDS = np.nonzero(COUNTS)
LONG = {
    "y": np.repeat(np.array(NAMES)[KINDS], COUNTS[ROWS, KINDS]),
    "x": np.repeat(X[ROWS], COUNTS[ROWS, KINDS]),
    "g": np.repeat(G[ROWS], COUNTS[ROWS, KINDS]),
}
WAYS = special.gammaln(COUNTS.sum(1) + 1) - special.gammaln(COUNTS + 1).sum(1)


def log_densities(model, seed=0):
    """The log likelihood, and the unknowns by name, at random values."""
    x = np.random.default_rng(seed).normal(size=model.free.variables.dim) * 0.4
    form = model.density_form
    values = model.free.values_at(jnp.asarray(x))
    program = jax.jit(
        lambda v, d: (jnp.sum(jax.vmap(lambda r: forms.log_lik(form, v, r))(d)), form.named(v))
    )
    log_lik, named = program(values, model.data)
    return float(log_lik), {name: float(value) for name, value in named.items()}


def test_the_density_is_the_multinomial_law():
    log_lik, named = log_densities(vi.glmm("c(a, b, k) ~ x", TABLE))
    eta = np.c_[
        0 * X,
        named["Intercept[b]"] + named["x[b]"] * X,
        named["Intercept[k]"] + named["x[k]"] * X,
    ]
    expected = stats.multinomial(COUNTS.sum(1), special.softmax(eta, 1)).logpmf(COUNTS).sum()
    np.testing.assert_allclose(log_lik, expected, rtol=1e-5)


@pytest.mark.slow
def test_it_is_that_of_categories_on_a_row_for_each_count():
    """But for the number of ways; so are names and, up to weights of rows, priors."""
    ours = vi.glmm("c(a, b, k) ~ x + (1 | g)", TABLE, weights=COUNTS.sum(1), nodes=11)
    theirs = vi.glmm("y ~ x + (1 | g)", LONG, "categorical", nodes=11)
    assert ours.names == theirs.names
    plain = vi.glmm("c(a, b, k) ~ x + (1 | g)", TABLE, nodes=11)
    for model in (ours, theirs):
        assert model.design.levels == NAMES
        assert model.priors.keys() == plain.priors.keys()
    np.testing.assert_allclose(  # weights of rows are those of counts
        [prior[-1] for prior in ours.priors.values()],
        [prior[-1] for prior in theirs.priors.values()],
    )
    values = theirs.free.values_at(jnp.asarray(RNG.normal(size=theirs.free.variables.dim) * 0.3))
    form = theirs.density_form
    named = {name: float(x) for name, x in form.named(values).items()}
    long_log_lik = jax.jit(lambda v, d: jnp.sum(jax.vmap(lambda r: forms.log_lik(form, v, r))(d)))(
        values, theirs.data
    )
    own = plain.density_form
    turn = np.array(own.units.turn)
    beta = np.array([named[label] for label in own.labels])
    b = np.linalg.solve(turn, (beta - own.units.location) / np.array(own.units.sizes))
    own_values = {
        forms.COEFFICIENTS + name: jnp.asarray(x) for name, x in zip(own.labels, b, strict=True)
    }
    own_values |= {name: x for name, x in values.items() if name.startswith(forms.SDS)}
    log_lik = jax.jit(lambda v, d: jnp.sum(jax.vmap(lambda r: forms.log_lik(own, v, r))(d)))(
        own_values, plain.data
    )
    np.testing.assert_allclose(float(log_lik), float(long_log_lik) + WAYS.sum(), rtol=1e-5)


@pytest.mark.slow
def test_flat_modes_and_curvatures_are_those_of_mnlogit():
    api = pytest.importorskip("statsmodels.api")
    model = vi.glmm("c(a, b, k) ~ x", TABLE, priors="flat")
    form = model.density_form
    with jax.enable_x64(True):
        data = {name: jnp.asarray(x, float) for name, x in model.data.items()}
        names = [forms.COEFFICIENTS + label for label in form.labels]
        loss = lambda b: (
            -jnp.sum(
                jax.vmap(lambda r: forms.log_lik(form, dict(zip(names, b, strict=True)), r))(data)
            )
        )
        best = optimize.minimize(
            jax.jit(loss), np.zeros(4), jac=jax.jit(jax.grad(loss)), method="BFGS"
        ).x
        hessian = np.asarray(jax.jit(jax.hessian(loss))(best))
    turn = np.array(form.units.turn)
    ours = np.array(form.units.location) + turn @ best
    theirs = api.MNLogit(
        np.searchsorted(NAMES, LONG["y"]), np.c_[np.ones(len(LONG["y"])), LONG["x"]]
    ).fit(disp=False)
    np.testing.assert_allclose(ours, np.asarray(theirs.params).ravel(), atol=2e-4)
    sds = np.sqrt(np.diag(turn @ np.linalg.inv(hessian) @ turn.T))
    np.testing.assert_allclose(sds, np.asarray(theirs.bse).ravel(), rtol=1e-3)


def test_another_base_turns_the_log_odds():
    first = vi.glmm("c(a, b, k) ~ x", TABLE, base="k")
    assert first.design.levels == ("k", "a", "b")
    np.testing.assert_array_equal(first.design.y, COUNTS[:, [2, 0, 1]])


@pytest.mark.slow
def test_fits_draw_counts_and_are_pickled():
    model = vi.glmm("c(a, b, k) ~ x + (1 | g)", TABLE)
    fit = vi.auto(model, key=jax.random.key(0), max_gradients=600)
    replicated = model.replicated(fit, jax.random.key(1), 2000)
    assert replicated.shape == (2000, SIZE, 3)
    np.testing.assert_array_equal(replicated.sum(2), np.tile(COUNTS.sum(1), (2000, 1)))
    draws = model.draws(fit, jax.random.key(2), 2000)
    shares = model.response_means(draws, model.design.rows, model.predictors(draws))
    expected = shares.mean(0) * COUNTS.sum(1)[:, None]
    error = (replicated.mean(0) - expected) / (replicated.std(0) / np.sqrt(2000) + 1e-9)
    assert np.sqrt(np.mean(error**2)) < 1.6
    np.testing.assert_allclose(shares.sum(2), 1, rtol=1e-6)
    log_lik = model.log_lik(fit, jax.random.key(2), 50)
    assert log_lik.shape == (50, SIZE)
    again = model.log_lik(fit, jax.random.key(2), 50, table=TABLE)
    np.testing.assert_allclose(again, log_lik, rtol=1e-5, atol=1e-5)
    loaded = pickle.loads(pickle.dumps(fit))
    rows = {"x": [0.3, 1.0], "g": ["p", "new"]}
    first, second = (one.predict(rows, key=jax.random.key(1)).mean for one in (fit, loaded))
    np.testing.assert_allclose(first, second, rtol=1e-6)


@pytest.mark.slow
def test_two_categories_are_drawn_row_by_row():
    """Counts, and a column of two categories."""
    both = TABLE | {"y": np.where(X + 0.5 * RNG.normal(size=SIZE) > 0, "v", "u")}
    for text, family in (("c(a, b) ~ x", None), ("y ~ x", "categorical")):
        table = both | {"a": COUNTS[:, 0] + 1}
        model = vi.glmm(text, table, family)
        fit = vi.auto(model, key=jax.random.key(0), max_gradients=200)
        replicated = model.replicated(fit, jax.random.key(1), 500).reshape(500, SIZE, -1)[..., -1]
        draws = model.draws(fit, jax.random.key(1), 500)
        shares = model.response_means(draws, model.design.rows, model.predictors(draws))
        expected = shares[..., 1].mean(0) * model.design.trials
        assert np.corrcoef(replicated.mean(0), expected)[0, 1] > 0.99


@pytest.mark.slow
def test_draws_have_the_frequencies_of_the_law():
    law = vi.glmm("c(a, b, k) ~ x", TABLE).law
    eta = jnp.tile(jnp.array([0.7, -0.4]), (40_000, 1))
    counts = np.asarray(law.sample({}, jnp.full(40_000, 4.0), jax.random.key(0), eta))
    p = special.softmax([0, 0.7, -0.4])
    for cell in ([4, 0, 0], [1, 2, 1], [0, 1, 3]):
        chance = stats.multinomial(4, p).pmf(cell)
        seen = np.mean(np.all(counts == cell, 1))
        assert abs(seen - chance) < 6 * np.sqrt(chance * (1 - chance) / 40_000)


@pytest.mark.parametrize(
    ("text", "family", "names"),
    [
        ("c(a, b, k) ~ x", "poisson", ("formula:", "'poisson'", "multinomial")),
        ("a ~ x", "multinomial", ("formula:", "'a'", "c(y1, y2, y3)")),
        ("p(a, b) ~ x", "multinomial", ("formula:", "'p(a, b)'", "c(y1, y2, y3)")),
        ("c(a) ~ x", None, ("formula:", "'c(a)'")),
        ("c(a, b, a) ~ x", None, ("formula:", "'c(a, b, a)'")),
        ("c(a, b + k) ~ x", None, ("formula:", "'c(a, b + k)'")),
        ("c(a, g) ~ x", None, ("table:", "'g'")),
        ("c(a, x) ~ x", None, ("table:", "x", "counts 0, 1, 2, ...")),
        ("c(zero, none) ~ x", None, ("table:", "c(zero, none)", "leave them out")),
        ("y ~ c(a, b)", None, ("formula:", "c(a, b)")),
    ],
)
def test_other_responses_are_refused(text, family, names):
    table = {**TABLE, "zero": 0 * X, "none": 0 * X, "y": X}
    with pytest.raises(ValueError, match=naming(*names)):
        vi.glmm(text, table, family)


def test_a_base_that_is_no_column_and_separated_counts_are_refused():
    with pytest.raises(ValueError, match=naming("base:", "'z'", "['a', 'b', 'k']")):
        vi.glmm("c(a, b, k) ~ x", TABLE, base="z")
    apart = {"a": 3 * (X < 0), "b": 2 * (X >= 0), "x": X}
    with pytest.raises(ValueError, match=naming("priors:", "x[b]")):
        vi.glmm("c(a, b) ~ x", apart, priors="flat")
