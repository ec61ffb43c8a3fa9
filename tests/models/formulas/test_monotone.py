"""Monotone effects `mo(x)`: against quadrature of a posterior that is written here, and densities by
SciPy at the named unknowns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from tests.naming import naming
from vijax.models.formulas import form as forms
from vijax.models.formulas import formula
from vijax.models.formulas.form.log_prior import intercepts_at_centre
from vijax.models.structural.covariates import read_terms

RNG = np.random.default_rng(4)
SIZE = 60
K = RNG.integers(2, 6, SIZE)  # four values, three steps
X = RNG.normal(size=SIZE)
RISE = np.array([0.0, 1.5, 1.6, 2.0])[K - 2]
TABLE = {
    "y": RISE + 0.5 * X + 0.7 * RNG.normal(size=SIZE),
    "k": K,
    "x": X,
    "h": np.array(list("ab"))[np.arange(SIZE) % 2],
    "g": np.array(list("pqrst"))[np.arange(SIZE) % 5],
    "word": np.array(["none", "few", "many", "all"])[K - 2],
    "count": RNG.poisson(np.exp(0.5 * RISE)),
}
ORDER = "['none', 'few', 'many', 'all']"


def risen(shares, codes):
    """D times the sum of shares up to a code."""
    return len(shares) * np.concatenate([[0.0], np.cumsum(shares)])[codes]


# --- the posterior --------------------------------------------------------------------------------
def posterior_by_quadrature(priors):
    """Means of b, of the shares and sigma by a grid of shares and sigma; coefficients, normal given
    these, are integrated by their formula."""
    y, x = TABLE["y"], X - X.mean()
    _, centre, sd_0 = priors["Intercept"]
    sds = np.array([sd_0, priors["mo(k)"][2], priors["x"][2]])
    steps = (np.arange(40) + 0.5) / 40
    sigmas = np.geomspace(0.45, 1.1, 30)
    logs, means = [], []
    for first in steps:
        for second in steps[steps < 1 - first]:
            shares = np.array([first, second, 1 - first - second])
            column = risen(shares, K - 2)
            design = np.c_[np.ones(SIZE), column - column.mean(), x]
            for sigma in sigmas:
                precision = design.T @ design / sigma**2 + np.diag(1 / sds**2)
                right = design.T @ (y - centre) / sigma**2
                beta = np.linalg.solve(precision, right)
                log_lik = -SIZE * np.log(sigma) - 0.5 * np.sum((y - centre) ** 2) / sigma**2
                log_lik += 0.5 * right @ beta - 0.5 * np.linalg.slogdet(precision)[1]
                log_prior = stats.t.logpdf(sigma / priors["sigma"][2], priors["sigma"][1])
                logs.append(log_lik + log_prior + np.log(sigma))  # by log sigma
                means.append([beta[1], *shares, sigma])
    weights = np.exp(np.array(logs) - max(logs))
    return weights @ np.array(means) / weights.sum()


def test_the_posterior_is_that_of_quadrature():
    model = vi.glmm("y ~ mo(k) + x", TABLE)
    names = ["mo(k)", *(f"simo_mo(k)[{i}]" for i in (1, 2, 3)), "sigma"]
    assert model.names == ["Intercept", "mo(k)", "x", *names[1:]]
    assert model.priors["simo_mo(k)"] == ("dirichlet", 1.0)
    fit = vi.auto(model, key=jax.random.key(0), richer=True)
    draws = model.draws(fit, jax.random.key(1), 4000).named
    expected = posterior_by_quadrature(model.priors)
    for name, mean in zip(names, expected, strict=True):
        assert abs(draws[name].mean() - mean) < 0.15 * draws[name].std(), name


# --- the density ----------------------------------------------------------------------------------
def named_and_log_lik(model, seed=0):
    values = jax.jit(model.free.values_at)(
        jnp.asarray(np.random.default_rng(seed).normal(size=model.free.variables.dim) * 0.3)
    )
    form = model.density_form
    program = lambda v, d: (
        form.named(v),
        jnp.sum(jax.vmap(lambda r: forms.log_lik(form, v, r))(d)),
    )
    named, log_lik = jax.jit(program)(values, model.data)
    return values, {name: float(x) for name, x in named.items()}, float(log_lik)


def shares_of(named, label, size=3):
    return np.array([named[f"simo_{label}[{i + 1}]"] for i in range(size)])


def test_densities_are_those_of_scipy_at_the_named_unknowns():
    """Counts with an interaction; each column of mo(k):h has steps of its own, as in brms."""
    model = vi.glmm("count ~ mo(k) * h + x", TABLE, "poisson")
    labels = ["mo(k)", "mo(k):h[b]"]
    assert [term.label for term in model.density_form.monotone] == labels
    _, named, log_lik = named_and_log_lik(model)
    eta = named["Intercept"] + named["x"] * X + named["h[b]"] * (TABLE["h"] == "b")
    eta = eta + named["mo(k)"] * risen(shares_of(named, "mo(k)"), K - 2)
    steps = risen(shares_of(named, "mo(k):h[b]"), K - 2)
    eta = eta + named["mo(k):h[b]"] * steps * (TABLE["h"] == "b")
    expected = stats.poisson.logpmf(TABLE["count"], np.exp(eta)).sum()
    np.testing.assert_allclose(log_lik, expected, rtol=1e-5)


def test_groups_and_numbers_beside_them():
    """A normal law of two factors, whose rows are summed up; mo(k):x has its steps times x."""
    model = vi.glmm("y ~ mo(k):x + (1 | g) + (1 | h)", TABLE)
    _, named, log_lik = named_and_log_lik(model)
    steps = risen(shares_of(named, "mo(k):x"), K - 2)
    mean = named["Intercept"] + named["mo(k):x"] * steps * X
    cov = named["sigma"] ** 2 * np.eye(SIZE)
    for name in ("g", "h"):
        same = TABLE[name][:, None] == TABLE[name]
        cov = cov + named[f"1|{name}_sigma"] ** 2 * same
    expected = stats.multivariate_normal(mean, cov).logpdf(TABLE["y"])
    form = model.density_form
    constant = -SIZE * np.log(form.units.size)  # the density is in units of size one
    np.testing.assert_allclose(log_lik + constant, expected, rtol=1e-4)


def test_cutpoints_are_at_the_means_of_steps():
    model = vi.glmm("k ~ mo(c) + x", {**TABLE, "c": TABLE["count"].clip(0, 3)}, "cumulative")
    _, named, log_lik = named_and_log_lik(model)
    codes = TABLE["count"].clip(0, 3)
    eta = named["x"] * X + named["mo(c)"] * risen(shares_of(named, "mo(c)"), codes)
    cuts = np.array([-np.inf, *(named[f"threshold[{i}]"] for i in range(3)), np.inf])
    each = np.diff(special.expit(cuts - eta[:, None]))
    np.testing.assert_allclose(log_lik, np.log(each[np.arange(SIZE), K - 2]).sum(), rtol=1e-5)


def test_the_intercept_has_its_prior_at_the_means_of_steps():
    """And the shares have theirs: the log prior in the units of the data, against SciPy."""
    model = vi.glmm("y ~ mo(k) + x", TABLE, priors={"simo_mo(k)": ("dirichlet", 2.5)})
    values, named, _ = named_and_log_lik(model)
    form, priors = model.density_form, model.priors
    shares = shares_of(named, "mo(k)")
    at_centre = named["Intercept"] + named["x"] * X.mean()
    at_centre += named["mo(k)"] * risen(shares, K - 2).mean()
    expected = stats.norm(*priors["Intercept"][1:]).logpdf(at_centre)
    for name in ("x", "mo(k)"):
        expected += stats.norm(*priors[name][1:]).logpdf(named[name])
    expected += stats.dirichlet(np.full(3, 2.5)).logpdf(shares / shares.sum())
    _, degrees, scale = priors["sigma"]
    expected += stats.t.logpdf(named["sigma"] / scale, degrees) + np.log(2 / scale)
    np.testing.assert_allclose(forms.log_prior(form, values) - form.constant, expected, rtol=1e-4)


# --- rows -----------------------------------------------------------------------------------------
def test_text_in_an_order_has_the_steps_of_its_numbers():
    numbers = formula.read("y ~ mo(k) * h", TABLE)
    named = formula.read(f"y ~ mo(word, levels={ORDER}) * h", TABLE)
    np.testing.assert_array_equal(named.rows.steps, numbers.rows.steps)
    np.testing.assert_array_equal(named.rows.x, numbers.rows.x)
    assert named.labels == ("Intercept", "mo(word)", "h[b]", "mo(word):h[b]")
    later = named.read_rows({"word": ["all", "none"], "h": ["a", "b"]})
    np.testing.assert_array_equal(later.steps, [[1, 1, 1, 0, 0, 0], [0] * 6])
    pandas = pytest.importorskip("pandas")
    column = pandas.Categorical(TABLE["word"], ["none", "few", "many", "all"], ordered=True)
    frame = pandas.DataFrame({"y": TABLE["y"], "w": column})
    ordered = formula.read("y ~ mo(w)", frame)
    np.testing.assert_array_equal(ordered.rows.x[:, 1], K - 2)


def test_two_values_are_a_column():
    design = formula.read("y ~ mo(b)", {**TABLE, "b": K > 3})
    assert design.rows.steps.shape == (SIZE, 0)
    np.testing.assert_array_equal(design.rows.x[:, 1], K > 3)


def test_predictions_of_other_rows_are_by_their_steps():
    model = vi.glmm("y ~ mo(k) + (1 | g)", TABLE)
    fit = vi.auto(model, key=jax.random.key(0), max_gradients=400)
    draws = model.draws(fit, jax.random.key(1), 50)
    eta = model.predictors(draws, {"k": [2, 3, 5], "g": ["p"] * 3})
    shares = np.stack([draws.named[f"simo_mo(k)[{i}]"] for i in (1, 2, 3)], 1)
    rises = 3 * draws.named["mo(k)"][:, None] * shares.cumsum(1)[:, [0, 2]]
    np.testing.assert_allclose(eta[:, 1:] - eta[:, :1], rises, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y ~ mo(word)", r"values of 'word' in an order, got text, .*Write mo\(word, levels="),
        ("y ~ mo(x)", "whole numbers in 'x'"),
        ("y ~ mo(far)", "2 to 101 values of 'far'"),
        ("y ~ mo(one)", "2 to 101 values of 'one', in steps of one, got 1"),
        ("y ~ mo(word, levels=['none', 'all'])", "each level once"),
        ("y ~ mo(k + x)", r"mo\(column\)"),
        ("y ~ mo(k, 3, 4)", r"mo\(x, levels\)"),
        ("y ~ mo(k):mo(count)", r"one mo\(...\) in a term"),
        ("y ~ (mo(k) | g)", "columns to the left of a bar, got 'mo"),
        ("y ~ I(mo(k))", "functions of numbers inside of arithmetic"),
    ],
)
def test_other_columns_and_places_are_refused(text, said):
    table = {**TABLE, "far": 1000 * K, "one": np.ones(SIZE)}
    with pytest.raises(ValueError, match=said):
        vi.glmm(text, table)


def test_values_and_laws_that_cannot_be_are_refused():
    design = formula.read("y ~ mo(k)", TABLE)
    with pytest.raises(ValueError, match=naming("'k'", "2", "5", "6")):
        design.read_rows({"k": [6]})
    with pytest.raises(ValueError, match=naming("prevalence:", "columns")):
        read_terms("~ mo(k)", TABLE)


def test_the_arguments_of_priors_are_at_the_means_of_steps_and_of_each_predictor():
    """They are the numbers of which the density takes the prior."""
    model = vi.glmm("y ~ mo(k) + x", TABLE, formulas=["sigma ~ x + mo(k)"])
    fit = vi.fit(vi.ngvi(model), model.data, num_steps=2, key=jax.random.key(0))
    draws = model.draw_unknowns(fit, jax.random.key(1), 5)
    form = model.density_form
    expected = jax.vmap(lambda v: intercepts_at_centre(form, v))(draws.values)
    arguments = model.prior_arguments(draws)
    assert set(expected) == {"Intercept", "sigma_Intercept"}
    for name, x in expected.items():
        np.testing.assert_allclose(arguments[name], x, rtol=1e-4, atol=1e-4)


# --- categories -----------------------------------------------------------------------------------
KIND = np.array(list("abc"))[(RISE + RNG.gumbel(size=(3, SIZE)) * [[1], [0.7], [0.7]]).argmax(0)]
KINDS = {**TABLE, "kind": KIND, "m": np.arange(SIZE) % 3}


def log_odds_by_hand(named, level, codes, other_codes, x):
    """Of one category against the base: each term has its own mean step and shares there."""
    shares = lambda label, size: [named[f"simo_{label}[{level}][{k + 1}]"] for k in range(size)]
    eta = named[f"Intercept[{level}]"] + named[f"x[{level}]"] * x
    eta = eta + named[f"mo(k)[{level}]"] * risen(shares("mo(k)", 3), codes)
    return eta + named[f"mo(m)[{level}]"] * risen(shares("mo(m)", 2), other_codes)


def test_categories_have_steps_of_their_own():
    """The density of rows of training, with prior, and predictors of other rows, against softmax by
    NumPy."""
    model = vi.glmm("kind ~ mo(k) + x + mo(m)", KINDS, "categorical")
    form = model.density_form
    rng = np.random.default_rng(0)
    values = {}
    for name, space in form.variables().items():
        values[name] = jnp.asarray(rng.normal(0.3, 0.5, space.shape), jnp.float32)
        if name.startswith("_steps."):
            values[name] = jnp.asarray(rng.dirichlet(np.ones(space.shape[0])), jnp.float32)
    named = {name: float(x) for name, x in form.named(values).items()}
    eta = [log_odds_by_hand(named, level, K - 2, KINDS["m"], X) for level in model.design.against]
    logs = np.stack([np.zeros(SIZE), *eta], 1)
    logs = logs - special.logsumexp(logs, axis=1, keepdims=True)
    exact = logs[np.arange(SIZE), model.design.y.astype(int)].sum()
    rows = {name: jnp.asarray(x) for name, x in model.data.items()}
    found = jax.vmap(lambda rows: forms.log_lik(form, values, rows))(rows).sum()
    np.testing.assert_allclose(found, exact, rtol=1e-5)
    at_centre = intercepts_at_centre(form, values)
    for place, level in enumerate(model.design.against):
        name = f"Intercept[{level}]"
        np.testing.assert_allclose(at_centre[name], eta[place].mean(), rtol=1e-4)
    assert model.priors["simo_mo(k)[b]"] == ("dirichlet", 1.0)


@pytest.mark.slow
def test_a_fit_of_categories_predicts_by_its_steps():
    model = vi.glmm("kind ~ mo(k) + x + mo(m)", KINDS, "categorical")
    fit = vi.auto(model, key=jax.random.key(0))
    assert "can be used" in fit.verdict
    draws = model.draws(fit, jax.random.key(1), 6)
    new = {"k": [2, 5], "m": [2, 0], "x": [0.3, -1.0]}
    eta = model.predictors(draws, new)
    for s in range(6):
        named = {name: float(x[s]) for name, x in draws.named.items()}
        for place, level in enumerate(model.design.against):
            by_hand = log_odds_by_hand(
                named, level, np.array([0, 3]), np.array([2, 0]), np.array([0.3, -1.0])
            )
            np.testing.assert_allclose(eta[s, :, place], by_hand, rtol=1e-4, atol=1e-4)
    seen = fit.predict(new, key=jax.random.key(2))
    np.testing.assert_allclose(seen.mean.sum(1), 1.0, rtol=1e-6)


def test_the_remedy_of_a_smooth_term_in_a_product_works():
    """s(x):z of mgcv is s(x, by=z)."""
    with pytest.raises(ValueError, match=naming("formula:", "s(x, by=z)")):
        vi.glmm("y ~ s(x):k", TABLE)
    model = vi.glmm("y ~ s(x, by=k)", TABLE)
    new = {"x": [0.4, 0.4], "k": [1.0, 3.0]}
    rows = model.design.read_rows(new)
    for block in rows.smooths:
        np.testing.assert_allclose(block[1], 3 * block[0], rtol=1e-6)
