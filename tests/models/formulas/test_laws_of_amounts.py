"""Laws of amounts, shares and successes of `vi.glmm`: densities against SciPy's, draws against
densities, fits against maximum likelihood by SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import vijax as vi
from vijax.models.formulas import modelled
from vijax.models.formulas.laws import LAWS

AUX = {"sigma": 0.7, "alpha": 1.6, "kappa": 3.0, "lam": 2.0, "psi": 0.4}
ETA = np.array([-1.5, -0.3, 0.4, 1.2])
TRIALS = 12.0


def weibull(mean, alpha):
    return stats.weibull_min(alpha, scale=mean / special.gamma(1 + 1 / alpha))


SCIPY = {
    "exponential": lambda z: stats.expon(scale=np.exp(z)),
    "gamma": lambda z: stats.gamma(AUX["alpha"], scale=np.exp(z) / AUX["alpha"]),
    "weibull": lambda z: weibull(np.exp(z), AUX["alpha"]),
    "wald": lambda z: stats.invgauss(np.exp(z) / AUX["lam"], scale=AUX["lam"]),
    "lognormal": lambda z: stats.lognorm(AUX["sigma"], scale=np.exp(z)),
}
"""Laws of positive amounts at predictors z, at the parameters above."""
WITH_ZEROS = {
    "hurdle_gamma": SCIPY["gamma"],
    "hurdle_lognormal": SCIPY["lognormal"],
    "zero_inflated_beta": lambda z: stats.beta(
        AUX["kappa"] * special.expit(z), AUX["kappa"] * special.expit(-z)
    ),
}
SUCCESSES = {
    "binomial": lambda z: stats.binom(TRIALS, special.expit(z)),
    "beta_binomial": lambda z: stats.betabinom(
        int(TRIALS), AUX["kappa"] * special.expit(z), AUX["kappa"] * special.expit(-z)
    ),
}


def own_aux(name):
    return {each: AUX[each] for each in LAWS[name].aux}


def log_prob(name, y, eta):
    law = LAWS[name]
    return np.asarray(jax.jit(lambda y, z: law.log_prob(own_aux(name), TRIALS, y, z))(y, eta))


@pytest.mark.parametrize("name", SCIPY)
def test_densities_of_amounts_are_those_of_scipy(name):
    y = np.array([1e-3, 0.3, 1.0, 7.0])[:, None]
    expected = SCIPY[name](ETA).logpdf(y)
    np.testing.assert_allclose(log_prob(name, y, ETA), expected, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", WITH_ZEROS)
def test_densities_with_zeros_are_those_of_scipy(name):
    y = np.array([0.0, 0.1, 0.6])[:, None]
    plain = np.where(y > 0, WITH_ZEROS[name](ETA).logpdf(np.where(y > 0, y, 0.5)), 0.0)
    expected = np.where(y > 0, np.log(AUX["psi"]) + plain, np.log1p(-AUX["psi"]))
    np.testing.assert_allclose(log_prob(name, y, ETA), expected, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", SUCCESSES)
def test_chances_of_successes_are_those_of_scipy(name):
    y = np.arange(TRIALS + 1)[:, None]
    expected = SUCCESSES[name](ETA).logpmf(y)
    np.testing.assert_allclose(log_prob(name, y, ETA), expected, rtol=3e-5, atol=3e-5)


def test_successes_with_zeros_are_those_of_scipy():
    y = np.arange(TRIALS + 1)[:, None]
    plain = SUCCESSES["binomial"](ETA).pmf(y)
    expected = np.log(AUX["psi"] * plain + (1 - AUX["psi"]) * (y == 0))
    np.testing.assert_allclose(
        log_prob("zero_inflated_binomial", y, ETA), expected, rtol=3e-5, atol=3e-5
    )


@pytest.mark.parametrize("kappa", [1e-2, 1e2, 1e5, 1e8])
def test_a_beta_binomial_law_of_any_precision(kappa):
    """In float32, up to the binomial law."""
    law = LAWS["beta_binomial"]
    y = np.array([0.0, 3.0, 12.0], np.float32)[:, None]
    z = ETA.astype(np.float32)
    found = jax.jit(lambda y, z: law.log_prob({"kappa": np.float32(kappa)}, TRIALS, y, z))(y, z)
    exact = stats.betabinom(12, kappa * special.expit(ETA), kappa * special.expit(-ETA)).logpmf(y)
    if kappa > 1e6:  # SciPy's difference of logarithms of gamma functions has lost its digits
        exact = stats.binom(12, special.expit(ETA)).logpmf(y)
    np.testing.assert_allclose(found, exact, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", [*WITH_ZEROS, "beta_binomial", "zero_inflated_binomial"])
def test_slopes_are_finite_at_zero(name):
    law = LAWS[name]
    slope = jax.grad(lambda aux, z: law.log_prob(aux, TRIALS, 0.0, z), argnums=(0, 1))
    aux = {key: jnp.float32(value) for key, value in own_aux(name).items()}
    for z in (-20.0, 0.0, 20.0):
        assert all(np.isfinite(x) for x in jax.tree.leaves(slope(aux, jnp.float32(z))))


@pytest.mark.parametrize("name", [*SCIPY, *WITH_ZEROS])
def test_draws_have_the_law_of_the_density(name):
    """Kolmogorov and Smirnov's distance of 4,000 draws: below 1.95 / sqrt(n) in 999 of 1,000."""
    law, number = LAWS[name], 4000
    z = jnp.full(number, 0.4)
    draws = np.asarray(law.likelihood(own_aux(name), 1.0).sample(jax.random.key(3), z))
    positive = draws[draws > 0]
    plain = {**SCIPY, **WITH_ZEROS}[name](0.4)
    assert stats.kstest(positive, plain.cdf).statistic < 1.95 / np.sqrt(len(positive))
    if name in WITH_ZEROS:
        share = len(positive) / number
        assert abs(share - AUX["psi"]) < 4 * np.sqrt(AUX["psi"] * (1 - AUX["psi"]) / number)


@pytest.mark.parametrize("name", SCIPY)
def test_means_are_integrals(name):
    """Of y times the density of SciPy."""
    law = LAWS[name]
    aux = {key: np.array([value]) for key, value in own_aux(name).items()}
    for z in ETA:
        exact = integrate.quad(lambda y: y * SCIPY[name](z).pdf(y), 0, np.inf, limit=200)[0]  # noqa: B023
        np.testing.assert_allclose(law.mean(aux, np.array([[z]]))[0, 0], exact, rtol=1e-5)


# --- fits -----------------------------------------------------------------------------------------
N = 400
RNG = np.random.default_rng(8)
X = RNG.normal(size=N)
PREDICTOR = 0.5 + 0.6 * X


def draw(name):
    law = LAWS[name]
    sample = law.likelihood(own_aux(name), TRIALS).sample
    return np.asarray(sample(jax.random.key(1), jnp.asarray(PREDICTOR, jnp.float32)), float)


def by_maximum_likelihood(name, y):
    """Intercept and slope by SciPy, float64, of densities written with SciPy's laws."""
    laws = {
        "exponential": lambda z, s: stats.expon(scale=np.exp(z)).logpdf(y),
        "weibull": lambda z, s: weibull(np.exp(z), s).logpdf(y),
        "wald": lambda z, s: stats.invgauss(np.exp(z) / s, scale=s).logpdf(y),
        "lognormal": lambda z, s: stats.lognorm(s, scale=np.exp(z)).logpdf(y),
        "beta_binomial": lambda z, s: stats.betabinom(
            int(TRIALS), s * special.expit(z), s * special.expit(-z)
        ).logpmf(y),
    }
    loss = lambda v: -laws[name](v[0] + v[1] * X, np.exp(v[2])).sum()
    top = optimize.minimize(loss, [0.0, 0.0, 0.0], method="BFGS").x
    used = 2 if name == "exponential" else 3
    steps = 1e-3 * np.eye(3)[:used]
    second = lambda a, b: (
        loss(top + a + b) - loss(top + a - b) - loss(top - a + b) + loss(top - a - b)
    )
    hessian = np.array([[second(a, b) for b in steps] for a in steps]) / 4e-6
    return top[:2], np.sqrt(np.diag(np.linalg.inv(hessian)))[:2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exponential", "weibull", "wald", "lognormal", "beta_binomial"])
def test_a_fit_is_near_maximum_likelihood(name):
    """400 rows and weak priors: within .15 of a standard error, sds within 10 %."""
    y = draw(name)
    table = {"y": y, "x": X, "n": np.full(N, TRIALS)}
    formula = "p(y, n) ~ x" if LAWS[name].takes_trials else "y ~ x"
    fit = vi.auto(vi.glmm(formula, table, name), key=jax.random.key(0))
    assert "can be used" in fit.verdict
    summary = fit.summary()
    found = {key: (m, s) for key, m, s in zip(summary.names, summary.mean, summary.sd, strict=True)}
    means, sds = by_maximum_likelihood(name, y)
    for key, mean, sd in zip(("Intercept", "x"), means, sds, strict=True):
        assert abs(found[key][0] - mean) < 0.15 * sd + 0.01
        np.testing.assert_allclose(found[key][1], sd, rtol=0.1)


@pytest.mark.parametrize(
    ("name", "response", "said"),
    [
        ("lognormal", [0.0, 1.0, 2.0], "positive numbers"),
        ("hurdle_gamma", [-1.0, 0.0, 2.0], "numbers that are not negative"),
        ("zero_inflated_beta", [0.0, 0.5, 1.0], "numbers from 0 to below 1"),
        ("beta_binomial", [0.0, 2.0, 1.0], "successes among trials"),
    ],
)
def test_responses_that_a_law_does_not_allow_are_refused(name, response, said):
    with pytest.raises(ValueError, match=said):
        vi.glmm("y ~ x", {"y": response, "x": [0.0, 1.0, 3.0]}, name)


def test_what_is_modelled_is_said():
    table = {"y": np.exp(X), "x": X}
    model = vi.glmm("y ~ x", table, "lognormal")
    assert "the log of the median of y" in modelled.sentence(model.design, model.law)
