"""The law of a regression without its columns, against arithmetic by hand and SciPy's densities."""

import numpy as np
import pytest
from scipy import optimize, special, stats

import vijax as vi
from tests.naming import naming
from vijax.data.schema.typed_columns import typed_table
from vijax.models.formulas import formula, without_columns
from vijax.models.formulas.laws import LAWS
from vijax.models.formulas.without_columns import KnownRows, fit_without_columns

RNG = np.random.default_rng(5)
N = 120
TRIALS = RNG.integers(1, 60, N).astype(float)
SHOWN = RNG.random(N) < 0.7
AMOUNTS = RNG.gamma(2.0, 1.5, N)
SHARES = RNG.beta(2.0, 3.0, N)
COUNTS = RNG.negative_binomial(2, 0.3, N).astype(float)


def mixed(y, psi, log_density):
    """Zeros beside a density of other numbers."""
    is_zero = y == 0
    return np.where(is_zero, np.log1p(-psi), np.log(psi) + log_density(np.where(is_zero, 1, y)))


def inflated(y, psi, log_mass):
    return np.where(
        y == 0, np.log(1 - psi + psi * np.exp(log_mass(0 * y))), np.log(psi) + log_mass(y)
    )


def cut(y, log_mass):
    """Counts above zero."""
    return log_mass(y) - np.log1p(-np.exp(log_mass(0 * y)))


poisson = lambda eta: lambda y: stats.poisson.logpmf(y, np.exp(eta))
negative = lambda eta, a: lambda y: stats.nbinom.logpmf(y, np.exp(a), 1 / (1 + np.exp(eta - a)))
gamma = lambda eta, a: lambda y: stats.gamma.logpdf(y, np.exp(a), scale=np.exp(eta - a))
normal_log = lambda eta, s: lambda y: stats.lognorm.logpdf(y, np.exp(s), scale=np.exp(eta))
pair = lambda eta, k: (special.expit(eta) * np.exp(k), special.expit(-eta) * np.exp(k))
beta = lambda eta, k: lambda y: stats.beta.logpdf(y, *pair(eta, k))
share = special.expit


def weibull(eta, a):
    scale = np.exp(eta) / special.gamma(1 + np.exp(-a))
    return lambda y: stats.weibull_min.logpdf(y, np.exp(a), scale=scale)


# Each law: responses, and its density in the words of SciPy at the numbers (predictor, then the
# logarithms of its parameters, log odds of psi).
CASES = {
    "gaussian": (RNG.normal(5e3, 2, N), lambda y, m, s: stats.norm.logpdf(y, m, np.exp(s))),
    "t": (
        RNG.standard_t(3, N),
        lambda y, m, s, nu: stats.t.logpdf(y, np.exp(nu), m, np.exp(s)),
    ),
    "bernoulli": (1.0 * SHOWN, lambda y, z: stats.bernoulli.logpmf(y, share(z))),
    "binomial": (
        RNG.binomial(TRIALS.astype(int), 0.4),
        lambda y, z: stats.binom.logpmf(y, TRIALS, share(z)),
    ),
    "poisson": (RNG.poisson(3.0, N), lambda y, z: poisson(z)(y)),
    "negativebinomial": (COUNTS, lambda y, z, a: negative(z, a)(y)),
    "zero_inflated_poisson": (
        RNG.poisson(3.0, N) * SHOWN,
        lambda y, z, p: inflated(y, share(p), poisson(z)),
    ),
    "zero_inflated_negativebinomial": (
        COUNTS * SHOWN,
        lambda y, z, a, p: inflated(y, share(p), negative(z, a)),
    ),
    "hurdle_poisson": (
        RNG.poisson(3.0, N) * SHOWN,
        lambda y, z, p: mixed(y, share(p), lambda y: cut(y, poisson(z))),
    ),
    "hurdle_negativebinomial": (
        COUNTS * SHOWN,
        lambda y, z, a, p: mixed(y, share(p), lambda y: cut(y, negative(z, a))),
    ),
    "gamma": (AMOUNTS, lambda y, z, a: gamma(z, a)(y)),
    "beta": (SHARES, lambda y, z, k: beta(z, k)(y)),
    "beta_binomial": (
        RNG.binomial(TRIALS.astype(int), SHARES),
        lambda y, z, k: stats.betabinom.logpmf(y, TRIALS, *pair(z, k)),
    ),
    "zero_inflated_binomial": (
        RNG.binomial(TRIALS.astype(int), 0.4) * SHOWN,
        lambda y, z, p: inflated(y, share(p), lambda y: stats.binom.logpmf(y, TRIALS, share(z))),
    ),
    "zero_inflated_beta": (
        SHARES * SHOWN,
        lambda y, z, k, p: np.where(
            y == 0, np.log1p(-share(p)), np.log(share(p)) + beta(z, k)(np.where(y == 0, 0.5, y))
        ),
    ),
    "exponential": (AMOUNTS, lambda y, z: stats.expon.logpdf(y, scale=np.exp(z))),
    "weibull": (AMOUNTS, lambda y, z, a: weibull(z, a)(y)),
    "wald": (
        AMOUNTS,
        lambda y, z, lam: stats.invgauss.logpdf(y, np.exp(z - lam), scale=np.exp(lam)),
    ),
    "vonmises": (
        RNG.vonmises(0.8, 2.0, N),
        lambda y, z, k: stats.vonmises.logpdf(y, np.exp(k), 2 * np.arctan(z)),
    ),
    "asymmetriclaplace": (
        AMOUNTS,
        lambda y, m, s: stats.laplace_asymmetric.logpdf(y, 1.0, m, 2 * np.exp(s)),
    ),
    "lognormal": (np.exp(AMOUNTS), lambda y, z, s: normal_log(z, s)(y)),
    "hurdle_gamma": (AMOUNTS * SHOWN, lambda y, z, a, p: mixed(y, share(p), gamma(z, a))),
    "hurdle_lognormal": (
        np.exp(AMOUNTS) * SHOWN,
        lambda y, z, s, p: mixed(y, share(p), normal_log(z, s)),
    ),
}


def known(y, trials=None, **more):
    rows = KnownRows.from_numbers(y)
    if trials is not None:
        rows = rows._replace(trials=np.asarray(trials, float))
    return rows._replace(**more)


def test_every_law_without_a_likelihood_by_frequencies_has_a_case():
    assert {*CASES, "cumulative", "sratio", "categorical", "multinomial"} == set(LAWS)


@pytest.mark.parametrize("name", CASES)
def test_every_law_has_its_largest_likelihood(name):
    """The density is SciPy's, and no numbers nearby have a larger one."""
    y, density = CASES[name]
    rows = known(y, TRIALS if LAWS[name].takes_trials else None)
    plain = fit_without_columns(LAWS[name], rows)
    point = plain.centre + plain.unit * plain.point
    y = np.asarray(y, float)
    np.testing.assert_allclose(plain.log_lik(rows), density(y, *point), rtol=1e-6, atol=1e-6)
    loss = lambda numbers: -np.mean(density(y, *numbers))
    best = optimize.minimize(loss, point, method="Nelder-Mead", options={"maxiter": 300})
    assert loss(point) - best.fun < 1e-4


@pytest.mark.parametrize("name", ["cumulative", "sratio", "categorical"])
def test_categories_have_their_frequencies(name):
    y = RNG.choice(4, N, p=[0.45, 0.05, 0.05, 0.45])
    frequencies = np.bincount(y, minlength=4) / N
    rows = known(y)
    plain = fit_without_columns(LAWS[name], rows, categories=4)
    np.testing.assert_allclose(plain.mean(rows)[7], frequencies, atol=1e-4)
    np.testing.assert_allclose(plain.log_lik(rows), np.log(frequencies)[y], atol=1e-3)


def test_counts_by_category_have_their_pooled_shares():
    rng = np.random.default_rng(3)
    y = rng.multinomial(6, [0.2, 0.5, 0.3], 20)
    weights = rng.integers(1, 4, 20)
    table = {"a": y[:, 0], "b": y[:, 1], "k": y[:, 2], "x": np.arange(20.0)}
    model = vi.glmm("c(a, b, k) ~ x", table, weights=weights)
    rows = KnownRows.from_design(model.design, weights)
    plain = fit_without_columns(model.law, rows, categories=3)
    totals = weights @ y
    np.testing.assert_allclose(plain.mean(rows)[0], totals / totals.sum(), atol=2e-3)
    share = plain.mean(rows)[0]
    exact = stats.multinomial(6, share / share.sum()).logpmf(y)
    np.testing.assert_allclose(plain.log_lik(rows), exact, rtol=1e-5)


def test_successes_have_the_pooled_share_of_their_trials():
    y = RNG.binomial(TRIALS.astype(int), 0.4)
    rows = known(y, TRIALS)
    plain = fit_without_columns(LAWS["binomial"], rows)
    pooled = y.sum() / TRIALS.sum()
    np.testing.assert_allclose(
        plain.log_lik(rows), stats.binom.logpmf(y, TRIALS, pooled), atol=1e-4
    )
    np.testing.assert_allclose(plain.mean(rows), pooled, rtol=1e-5)


def test_exposure_is_kept():
    """The rate is the sum of counts over the sum of exposures, also for other rows."""
    exposure = RNG.uniform(0.1, 20.0, N)
    y = RNG.poisson(3.0 * exposure)
    plain = fit_without_columns(LAWS["poisson"], known(y, offset=np.log(exposure)))
    rate = y.sum() / exposure.sum()
    rows = known([2.0, 9.0], offset=np.log([1.0, 5.0]))
    np.testing.assert_allclose(plain.mean(rows), rate * np.array([1.0, 5.0]), rtol=1e-5)
    np.testing.assert_allclose(
        plain.log_lik(rows), stats.poisson.logpmf([2, 9], [rate, 5 * rate]), rtol=1e-4
    )


def test_a_row_of_weight_two_is_the_row_twice_and_one_of_weight_zero_is_none():
    y = np.array([1.0, 2.0, 9.0])
    weighted = fit_without_columns(LAWS["gaussian"], known(y, weights=np.array([2.0, 1.0, 0.0])))
    assert weighted.mean(known(y)) == pytest.approx(4 / 3)
    found = weighted.log_lik(known(y))
    np.testing.assert_allclose(found, stats.norm.logpdf(y, 4 / 3, np.sqrt(2 / 9)), rtol=1e-6)


def test_known_standard_errors_are_kept():
    se = RNG.uniform(0.2, 3.0, N)
    y = 4.0 + se * RNG.normal(size=N)
    rows = known(y, facts={"se": se})
    plain = fit_without_columns(LAWS["gaussian"], rows, names=())
    mean = np.sum(y / se**2) / np.sum(1 / se**2)
    np.testing.assert_allclose(plain.log_lik(rows), stats.norm.logpdf(y, mean, se), rtol=1e-5)


def test_censoring_and_bounds_are_kept():
    """Exponential times: events over the sum of all times. Counts above zero: the equation of
    their mean."""
    ends = np.minimum(AMOUNTS, 3.0)
    is_seen = AMOUNTS < 3.0
    facts = {"status": np.where(is_seen, 0.0, 1.0), "end": ends + 1}
    rows = known(ends, facts=facts)
    plain = fit_without_columns(LAWS["exponential"], rows)
    mean = ends.sum() / is_seen.sum()
    np.testing.assert_allclose(plain.mean(rows), mean, rtol=1e-5)
    by_hand = np.where(is_seen, -np.log(mean), 0.0) - ends / mean
    np.testing.assert_allclose(plain.log_lik(rows), by_hand, atol=1e-4)
    counts = COUNTS[COUNTS > 0]
    rows = known(counts, facts={"lowest": np.ones(len(counts))})
    rate = fit_without_columns(LAWS["poisson"], rows).mean(rows)[0]
    assert rate / (1 - np.exp(-rate)) == pytest.approx(counts.mean(), rel=1e-5)


def test_parameters_with_formulas_are_constant_but_keep_their_offsets():
    """sigma ~ z + offset(log_scale): the normal law of y / scale, with one sigma."""
    scale = RNG.uniform(0.5, 4.0, N)
    y = 2.0 + 3.0 * scale * RNG.normal(size=N)
    table = typed_table({"y": y, "x": AMOUNTS, "log_scale": np.log(scale)})
    further = ("sigma ~ x + offset(log_scale)",)
    design = formula.read("y ~ x", table, LAWS["gaussian"], further=further)
    rows = KnownRows.from_design(design, None)
    plain = fit_without_columns(LAWS["gaussian"], rows, ("sigma",))
    mean = np.sum(y / scale**2) / np.sum(1 / scale**2)
    sigma = np.sqrt(np.mean(((y - mean) / scale) ** 2))
    by_hand = stats.norm.logpdf(y, mean, sigma * scale)
    np.testing.assert_allclose(plain.log_lik(rows), by_hand, atol=1e-4)
    again = KnownRows.from_design(design, None, table)
    np.testing.assert_allclose(plain.log_lik(again), by_hand, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "y"), [("bernoulli", np.zeros(9)), ("poisson", np.zeros(9)), ("t", np.arange(9.0))]
)
def test_responses_without_a_largest_likelihood_have_a_finite_one(name, y):
    plain = fit_without_columns(LAWS[name], known(y))
    assert np.isfinite(plain.log_lik(known(np.array([0.0, 1.0])))).all()


def test_rows_without_weight_and_responses_that_the_law_forbids_are_refused():
    with pytest.raises(ValueError, match=naming("rows:", "weight")):
        fit_without_columns(LAWS["poisson"], known(COUNTS, weights=np.zeros(N)))
    with pytest.raises(ValueError, match=naming("rows:", "offsets")):
        fit_without_columns(LAWS["poisson"], known(COUNTS, offset=np.full(N, np.nan)))


def test_a_law_is_compiled_once_and_its_search_ends_by_itself(monkeypatch):
    """Other rows of equal number are arguments; the search went on below rounding."""
    traces, searches = [], []
    row_log_prob, minimize = without_columns._row_log_prob, optimize.minimize
    monkeypatch.setattr(
        without_columns, "_row_log_prob", lambda *args: traces.append(1) or row_log_prob(*args)
    )
    monkeypatch.setattr(
        optimize,
        "minimize",
        lambda *args, **more: searches.append(minimize(*args, **more)) or searches[-1],
    )
    rng = np.random.default_rng(1)
    for _ in range(3):
        rows = known(rng.negative_binomial(2, 0.3, 777))
        fit_without_columns(LAWS["negativebinomial"], rows)
    assert len(traces) <= 1
    assert all(search.success and search.nfev < 20 for search in searches)
