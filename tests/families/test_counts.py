"""Counts: log-factorials and their expectations against mpmath, large counts in float32,
allocations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import stats

from tests.naming import naming
from vijax.families import Bernoulli, Categorical, MarkovChain, Multinomial, Poisson
from vijax.families.numeric.log_factorial import binomial_gap, log_factorial_gap, poisson_gap
from vijax.families.scalar.poisson import poisson_values

mpmath.mp.dps = 30
MEANS = np.float32([1e-6, 0.03, 0.9, 1.0, 7.5, 120.0, 3e3, 1e6])


def gap(x: float) -> mpmath.mpf:
    x = mpmath.mpf(float(x))
    return mpmath.loggamma(1 + x) - x * mpmath.log(x) + x


def expected_gap(mean: float, log_pmf) -> float:
    """E[log x!] - m log m + m by summing x within twelve standard deviations or so."""
    m = mpmath.mpf(float(mean))
    radius = 12 * float(mean) ** 0.5 + 25
    xs = range(max(0, int(mean - radius)), int(mean + radius))
    total = sum(mpmath.exp(log_pmf(x)) * mpmath.loggamma(x + 1) for x in xs if x > 1)
    return float(total - m * mpmath.log(m) + m)


def log_poisson(m):
    m = mpmath.mpf(float(m))
    return lambda x: x * mpmath.log(m) - m - mpmath.loggamma(x + 1)


def log_binomial(n, p):
    p, g = mpmath.mpf(float(p)), mpmath.loggamma
    return lambda x: (
        g(n + 1) - g(x + 1) - g(n - x + 1) + x * mpmath.log(p) + (n - x) * mpmath.log(1 - p)
        if x <= n
        else mpmath.mpf("-inf")
    )


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
def test_gaps(double: bool) -> None:
    """Absolute errors: 3e-7 in float32, 1e-9 in float64, at means from 1e-6 to 3000."""
    means, tolerance = MEANS[:-1], (1e-9 if double else 2e-6)
    with jax.enable_x64(double):
        got = jax.jit(lambda m: (log_factorial_gap(m), poisson_gap(m)))(jnp.asarray(means, float))
        np.testing.assert_allclose(
            got[0], [float(gap(m)) for m in means], rtol=tolerance, atol=tolerance
        )
        want = [expected_gap(m, log_poisson(m)) for m in means]
        np.testing.assert_allclose(got[1], want, rtol=tolerance, atol=tolerance)
        for n, p in ((1, 0.3), (7, 0.999), (2000, 0.5), (2000, 1e-4), (2000, 0.9)):
            want = expected_gap(n * p, log_binomial(n, p))
            np.testing.assert_allclose(
                binomial_gap(float(n), jnp.asarray(p)), want, rtol=tolerance, atol=tolerance
            )


def test_large_counts_in_float32() -> None:
    """At mean 1e6 the terms of log q(x) are of size 1e7; what is left of them is right to 1e-4."""
    q = Poisson.from_rate(1e6)
    assert abs(float(q.entropy()) - 0.5 * np.log(2 * np.pi * np.e * 1e6)) < 1e-5
    log_rate = float(q.log_rate)
    for x in (999_000, 1_000_000, 1_003_000):
        exact = x * mpmath.mpf(log_rate) - mpmath.exp(log_rate) - mpmath.loggamma(x + 1)
        np.testing.assert_allclose(float(q.log_prob(x)), float(exact), rtol=1e-4)


RATES = np.float32([999.0, 1000.0, 1003.6, 1e4, 1e5, 1e6, 3e6, 1e7, 1e8, 1e9, 2.1e9])


@jax.jit
def drawn(log_rate):
    return Poisson(log_rate).sample(jax.random.key(3), (40_000,))


def test_draws_of_large_rates_are_poisson() -> None:
    """Rates as float32 logarithms: Kolmogorov-Smirnov, at 1e-6, on 40,000 draws each, uniform
    within their steps; their first four moments at six standard errors; and not all of them
    multiples of what float32 holds."""
    log_rate = np.log(RATES)
    draws = np.asarray(drawn(log_rate)).astype(np.float64)
    rates = np.asarray(jnp.exp(log_rate), np.float64)
    within = np.random.default_rng(0).uniform(size=draws.shape)
    uniform = stats.poisson.cdf(draws - 1, rates) + within * stats.poisson.pmf(draws, rates)
    assert min(stats.kstest(u, "uniform").pvalue for u in uniform.T) > 1e-6
    z = (draws - rates) / np.sqrt(rates)
    for power, moment, variance in (
        (1, 0.0, 1.0),
        (2, 1.0, 2.0),
        (3, rates**-0.5, 15.0),
        (4, 3.0, 96.0),
    ):
        assert np.all(
            np.abs((z**power).mean(0) - moment) < 6 * np.sqrt(variance / len(z)) + 10 / rates
        )
    assert np.all(np.abs(np.mean(draws % 2, 0) - 0.5) < 0.02)


def test_counts_that_int32_does_not_hold_are_refused() -> None:
    """Or, of a rate that is traced, are no counts; as floats they are drawn."""
    q = Poisson.from_rate([3.0, 4e9])
    for ask in (lambda q: q.sample(jax.random.key(0), (2,)), lambda q: q.mode()):
        with pytest.raises(ValueError, match=naming("rate:", "2.146e+09", "int32")):
            ask(q)
        got = np.asarray(jax.jit(ask)(q))
        assert np.all(got[..., 0] >= 0)
        assert np.all(got[..., 1] == -1)
    assert q.log_prob(jnp.array([3, -1]))[1] == -jnp.inf
    rates = jnp.full(2000, 4e9)
    z = (np.asarray(jax.jit(poisson_values)(jax.random.key(0), rates), np.float64) - 4e9) / 4e9**0.5
    assert abs(z.mean()) < 0.15
    assert abs(z.std() - 1) < 0.1


def test_the_mode_of_a_multinomial_is_the_likeliest_of_all() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    q = Multinomial.from_probs(probs, 11)
    counts = np.stack(np.meshgrid(*[np.arange(12)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    counts = counts[counts.sum((1, 2)) == 11]
    best = np.max(q.log_prob(jnp.asarray(counts)), axis=0)
    np.testing.assert_allclose(q.log_prob(q.mode()), best, rtol=1e-5)


def test_draws_of_large_totals_are_binomial() -> None:
    """Moments at six standard errors; every draw adds up, and counts are not all even, as floats
    would be; a total that int32 does not hold is refused."""
    probs, total = np.array([0.1, 0.01, 0.89]), 30_000_000
    q = Multinomial.from_probs(probs, total)
    draws = np.asarray(jax.jit(lambda q: q.sample(jax.random.key(0), (500,)))(q))
    assert np.all(draws.sum(-1) == total)
    assert np.all(np.abs(np.mean(draws % 2, 0) - 0.5) < 0.2)
    p = np.asarray(q.probs, np.float64) / np.sum(q.probs)
    z = (draws - total * p) / np.sqrt(total * p * (1 - p))
    slack = 2e-7 * total * p / np.sqrt(total * p * (1 - p))  # probabilities are float32
    assert np.all(np.abs(z.mean(0)) < 6 / np.sqrt(len(z)) + slack)
    assert np.all(np.abs(z.var(0) - 1) < 6 * np.sqrt(2 / len(z)))
    assert np.all(np.isfinite(q.log_prob(jnp.asarray(draws))))
    with pytest.raises(ValueError, match=naming("total:", "31", "int32", "3000000000")):
        Multinomial.from_probs(probs, 3_000_000_000).sample(jax.random.key(0))


def test_what_is_nearly_certain_keeps_the_digits_of_what_is_left() -> None:
    """Variances, log probabilities and entropies where the largest probability rounds to one."""
    rest = float(np.exp(np.float64(np.float32(-30.0))))
    one, three = Bernoulli.from_logit(30.0), Categorical.from_logits([30.0, 0.0, -5.0])
    left = rest * (1 + np.exp(-5.0))
    np.testing.assert_allclose(
        [one.variance(), Bernoulli.from_logit(-30.0).variance()], rest, rtol=1e-6
    )
    np.testing.assert_allclose(one.std(), rest**0.5, rtol=1e-6)
    np.testing.assert_allclose(three.variance(), [left, rest, rest * np.exp(-5.0)], rtol=1e-6)
    np.testing.assert_allclose(three.log_prob(jnp.array(0)), -left, rtol=1e-6)
    entropy = left + rest * 30 + rest * np.exp(-5.0) * 35
    np.testing.assert_allclose(three.entropy(), entropy, rtol=1e-6)
    many = Multinomial.from_logits(three.logits, 1000)
    np.testing.assert_allclose(many.variance(), 1000 * np.asarray(three.variance()), rtol=1e-6)
    assert many.quantile(1e-12)[0] == 1000 - 1  # P(x < 1000) is 9.4e-11
    assert many.quantile(1e-10)[0] == 1000
    chain = MarkovChain.from_potentials(three.logits, jnp.zeros((3, 3)), jnp.zeros((1, 3)))
    np.testing.assert_allclose(chain.variance()[0], three.variance(), rtol=1e-5)


def test_counts_that_miss_the_total_are_impossible() -> None:
    assert Multinomial.from_probs([0.5, 0.5], 3).log_prob(jnp.array([1, 1])) == -jnp.inf


def test_allocations_of_a_count_need_only_a_categorical() -> None:
    """E[sum_k z_k log r_k - log z_k!] + H[z] at its maximum is Y logsumexp(log r) - log Y! (Poisson
    components)."""
    log_rates, y = jnp.array([0.3, -1.0, 1.2]), 4
    z = Multinomial.from_logits(log_rates, y)
    energy = z.dot(z.expected_stats()) + z.expected_log_base_measure()
    log_y_factorial = jax.scipy.special.gammaln(y + 1.0)
    bound = energy - log_y_factorial + z.entropy()
    np.testing.assert_allclose(
        bound, y * Categorical(log_rates).log_normalizer() - log_y_factorial, rtol=1e-5
    )
