"""Topics that move in time: the bound and its maximum against SciPy, dense matrices, quadrature and
draws, which share no code with it."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from vijax.families.chain import walks
from vijax.families.chain.word_walks import WordWalks, steps_precision, words_of_topics

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)
MANY = 400
"""Passes until nothing changes."""


def chain_precision(tau):
    """The precision matrix of a random walk of steps of precisions tau, which starts at zero."""
    steps = np.eye(len(tau)) - np.eye(len(tau), k=-1)
    return steps.T @ np.diag(tau) @ steps


def dense_objective(counts, tau, mean, site):
    """F of one topic, (T, V), by dense matrices, one word after the other."""
    precision = chain_precision(tau)
    variance, divergence = np.zeros_like(mean), 0.0
    for v in range(mean.shape[1]):
        cov = np.linalg.inv(precision + np.diag(site[:, v]))
        variance[:, v] = np.diag(cov)
        quadratic = np.trace(precision @ cov) + mean[:, v] @ precision @ mean[:, v]
        log_dets = -np.linalg.slogdet(precision @ cov)[1]
        divergence += 0.5 * (quadratic - len(tau) + log_dets)
    log_sums = special.logsumexp(mean + 0.5 * variance, axis=1)
    return np.sum(counts * (mean - log_sums[:, None])) - divergence


def small():
    """Counts of 3 slices and 4 words, one of them never seen, and precisions of unequal gaps."""
    counts = np.array([[9.0, 3.0, 0.0, 0.0], [4.0, 0.0, 0.0, 6.0], [1.0, 2.0, 0.0, 20.0]])
    return counts, np.array([0.4, 3.0, 1.5])


def solved(counts, tau, passes=MANY):
    """The walk of one topic, in float64."""
    with jax.enable_x64(True):
        walk = walks.solve_walks(
            jnp.asarray(counts)[:, None], jnp.asarray(tau)[:, None], None, 0, passes
        )
        return jax.tree.map(np.asarray, walk)


def test_the_objective_is_that_of_dense_matrices():
    counts, tau = small()
    walk = solved(counts, tau, 2)
    dense = dense_objective(counts, tau, walk.mean[:, 0], walk.site[:, 0])
    np.testing.assert_allclose(walk.objective, dense, rtol=1e-12)


def test_passes_end_at_the_maximum_that_scipy_finds():
    counts, tau = small()
    walk = solved(counts, tau)
    shape = counts.shape

    def loss(x):
        mean, log_site = x.reshape(2, *shape)
        return -dense_objective(counts, tau, mean, np.exp(log_site))

    found = optimize.minimize(loss, np.zeros(2 * counts.size), options={"gtol": 1e-7})
    mean, log_site = found.x.reshape(2, *shape)
    np.testing.assert_allclose(walk.objective[0], -found.fun, rtol=1e-9)
    np.testing.assert_allclose(walk.mean[:, 0], mean, atol=2e-4)
    np.testing.assert_allclose(walk.site[:, 0], np.exp(log_site), atol=2e-3)


def test_the_gradient_vanishes_at_the_fixed_point():
    """Of the objective in means and sites, by differentiation of dense matrices."""
    counts, tau = small()
    walk = solved(counts, tau)
    with jax.enable_x64(True):
        precision = jnp.asarray(chain_precision(tau))

        def objective(mean, site):
            cov = jnp.linalg.inv(precision[None] + jax.vmap(jnp.diag)(site.T))
            variance = jnp.diagonal(cov, axis1=1, axis2=2).T
            log_shares = mean - jax.nn.logsumexp(mean + 0.5 * variance, -1, keepdims=True)
            spread = jnp.einsum("st,vts->", precision, cov)
            quadratic = jnp.einsum("tv,ts,sv->", mean, precision, mean)
            log_dets = jnp.sum(jnp.linalg.slogdet(cov)[1])
            return jnp.sum(counts * log_shares) - 0.5 * (spread + quadratic - log_dets)

        slopes = jax.jit(jax.grad(objective, (0, 1)))(walk.mean[:, 0], walk.site[:, 0])
    for slope in slopes:
        np.testing.assert_allclose(slope, 0.0, atol=1e-6)


def test_the_bound_is_below_the_evidence_and_near_the_posterior():
    """Two words: the difference of their log weights is a random walk of twice the variance, and
    counts are binomial. The posterior of two slices is integrated on a grid."""
    counts, tau = np.array([[7.0, 3.0], [2.0, 9.0]]), np.array([0.5, 2.0])
    walk = solved(counts, tau)
    grid = np.linspace(-12, 12, 1201)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    log_prior = stats.norm.logpdf(first, 0, np.sqrt(2 / tau[0]))
    log_prior = log_prior + stats.norm.logpdf(second, first, np.sqrt(2 / tau[1]))
    log_lik = sum(
        n[0] * -np.logaddexp(0, -x) + n[1] * -np.logaddexp(0, x)
        for n, x in zip(counts, (first, second), strict=True)
    )
    weights = np.exp(log_prior + log_lik)
    integral = lambda f: integrate.simpson(integrate.simpson(f, x=grid), x=grid)
    evidence = integral(weights)
    gap = np.log(evidence) - walk.objective[0]
    # q makes words independent, though counts say nothing of their sum: some nats a slice.
    assert 0 < gap < 2.5
    shares = np.asarray(walks.mean_shares(walk))[:, 0, 0]
    for x, share in zip((first, second), shares, strict=True):
        exact = integral(weights * special.expit(x)) / evidence
        assert abs(exact - share) < 0.03


def test_the_gap_of_jensen_is_small_and_that_of_bohning_is_not():
    """Of E log sum exp, by Monte Carlo, with 300 words of which most are uncertain."""
    counts = RNG.multinomial(2000, RNG.dirichlet(np.full(300, 0.2)), 2).astype(float)
    walk = solved(counts, np.array([0.2, 20.0]))
    mean, variance = walk.mean[0, 0], walk.variance[0, 0]
    draws = mean + np.sqrt(variance) * RNG.normal(size=(20_000, 300))
    exact = special.logsumexp(draws, axis=1)
    error = exact.std() / np.sqrt(len(exact))
    gap = special.logsumexp(mean + 0.5 * variance) - exact.mean()
    shares = special.softmax(mean + 0.5 * variance)
    expected = 0.5 * np.sum(shares**2 * np.expm1(variance))
    assert expected < 0.01
    assert abs(gap - expected) < 6 * error + 0.2 * expected
    # Bohning: log sum exp is at most its expansion at the mean with the curvature (I - 11'/V) / 2.
    bohning = special.logsumexp(mean) + 0.25 * (1 - 1 / 300) * variance.sum() - exact.mean()
    assert bohning > 100 * gap


def test_steps_without_variance_are_one_slice():
    counts, _ = small()
    still = solved(counts, np.array([0.4, 1e8, 1e8]))
    pooled = solved(counts.sum(0, keepdims=True), np.array([0.4]))
    for shares in np.asarray(walks.mean_shares(still))[:, 0]:
        np.testing.assert_allclose(shares, np.asarray(walks.mean_shares(pooled))[0, 0], atol=1e-5)
    np.testing.assert_allclose(still.objective, pooled.objective, rtol=1e-5)


def test_many_counts_and_a_wide_prior_give_relative_frequencies():
    counts = np.array([[1e5, 3e5, 6e5]])
    shares = np.asarray(walks.mean_shares(solved(counts, np.array([1 / 30]))))
    np.testing.assert_allclose(shares[0, 0], [0.1, 0.3, 0.6], atol=1e-4)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_passes_in_float32_ascend_from_any_start(seed):
    """Counts of very unequal sizes, some slices without any, from the solution for other counts."""
    rng = np.random.default_rng(seed)
    tau = np.full((6, 3), 10 ** rng.uniform(0, 4))
    tau[0] = 10 ** rng.uniform(-1.3, 0.5)

    def counts():
        totals = rng.poisson(10 ** rng.uniform(-1, 5, (6, 3)))
        probabilities = rng.dirichlet(np.full(200, 0.05), (6, 3))
        return jnp.asarray(rng.multinomial(totals, probabilities), jnp.float32)

    tau = jnp.asarray(tau, jnp.float32)
    other = walks.solve_walks(counts(), tau, None, 0, 20)
    start, n = walks.Start(other.mean, other.site), counts()
    ends = [np.asarray(walks.solve_walks(n, tau, start, p, 0).objective) for p in (0, 1, 3, 200)]
    cold = np.asarray(walks.solve_walks(n, tau, None, 0, 200).objective)
    slack = 1e-5 * np.abs(ends[-1]) + 0.1
    assert np.isfinite(ends).all()
    for before, after in itertools.pairwise(ends):
        assert np.all(after >= before - slack)
    np.testing.assert_allclose(ends[-1], cold, rtol=1e-4, atol=0.5)


draw = jax.jit(WordWalks.sample, static_argnums=2)
stats_of = jax.jit(WordWalks.expected_stats)


def law(dtype=jnp.float32):
    """Two topics, three slices, four words; one slice without counts."""
    counts, tau = small()
    both = np.stack([counts, counts[::-1] * np.array([[2.0], [0.0], [5.0]])])
    return WordWalks(jnp.asarray(both, dtype), jnp.asarray(np.stack([tau, 2 * tau]), dtype))


def test_draws_have_the_moments_and_the_statistics_of_the_law():
    q = law()
    draws = draw(q, KEY, (40_000,))
    assert draws.shape == (40_000, 2, 3, 4)
    moments = jax.jit(lambda q: (q.mean(), q.variance(), q.expected_stats()))
    mean, variance, expected = jax.tree.map(np.asarray, moments(q))
    of_draws = jax.tree.map(np.asarray, jax.jit(WordWalks.stats)(q, draws))
    draws = np.asarray(draws)
    assert np.all(np.abs(draws.mean(0) - mean) < 6 * np.sqrt(variance) / 200)
    np.testing.assert_allclose(draws.var(0), variance, rtol=0.06)
    squares = of_draws.minus_half_squares
    tolerance = 6 * squares.std(0) / 200
    assert np.all(np.abs(squares.mean(0) - expected.minus_half_squares) < tolerance)
    # The statistics of words are a lower bound of their mean.
    log = of_draws.log
    below = log.mean(0) - expected.log
    assert np.all(below > -6 * log.std(0) / 200)


def test_bands_are_those_of_draws():
    counts = 50 * RNG.dirichlet(np.full(40, 0.5), (1, 3))
    q = WordWalks(jnp.asarray(counts, jnp.float32), jnp.array([[0.3, 3.0, 3.0]]))
    draws = np.asarray(jax.nn.softmax(draw(q, KEY, (20_000,))))
    bands = jax.jit(lambda q: q.bands(0.9))(q)
    for end, share in zip(bands, (0.05, 0.95), strict=True):
        exact = np.quantile(draws, share, axis=0)
        likely = np.asarray(q.probabilities()) > 0.02
        np.testing.assert_allclose(np.asarray(end)[likely], exact[likely], rtol=0.12)


def test_the_statistics_are_the_gradient_of_the_log_normaliser():
    """By differences, in float64: the Gaussian bound of A is convex, a maximum of linear
    functions."""
    with jax.enable_x64(True):
        q = law(jnp.float64)
        expected, log_normalizer = stats_of(q), jax.jit(WordWalks.log_normalizer)
        for at in ((0, 0, 1), (1, 2, 3)):
            size = 1e-4
            up, down = (
                log_normalizer(dataclasses.replace(q, counts=q.counts.at[at].add(sign * size)))
                for sign in (1, -1)
            )
            slope = (up - down)[at[0]] / (2 * size)
            np.testing.assert_allclose(slope, expected.log[at], rtol=2e-3)
        up, down = (
            log_normalizer(dataclasses.replace(q, precision=q.precision.at[0, 1].add(sign * 1e-4)))
            for sign in (1, -1)
        )
        slope = (up - down)[0] / 2e-4
        np.testing.assert_allclose(slope, expected.minus_half_squares[0, 1], rtol=2e-3)


def test_divergences():
    """From the prior, that of Gaussians; from itself zero; none is negative."""
    q = law()
    prior = dataclasses.replace(q, counts=jnp.zeros_like(q.counts))
    divergence = jax.jit(WordWalks.kl)
    to_prior = jax.jit(WordWalks.kl_to_prior)(q, prior)
    np.testing.assert_allclose(divergence(q, prior), to_prior, rtol=1e-6)
    np.testing.assert_allclose(divergence(q, q), 0.0, atol=0.05)
    more = dataclasses.replace(q, counts=q.counts + 3.0)
    assert np.all(np.asarray(divergence(q, more)) > 0)
    np.testing.assert_allclose(divergence(prior, prior), 0.0, atol=1e-3)


def test_a_forecast_has_the_means_of_the_last_slice_and_more_variance():
    q = law()
    drift = jnp.array([0.5, 0.25])
    ahead = q.beyond(drift, 3.0)
    walk, later = q.walk(), ahead.walk()
    np.testing.assert_allclose(later.mean[-1], walk.mean[-1], atol=2e-2)
    grown = np.asarray(walk.variance[-1]) + 3.0 * np.asarray(drift)[:, None]
    np.testing.assert_allclose(later.variance[-1], grown, rtol=2e-2)


def test_precisions_of_unequal_gaps():
    tau = steps_precision(4.0, jnp.array([0.5, 1.0]), np.array([1.0, 4.0]), 2)
    np.testing.assert_allclose(tau, [[0.25, 2.0, 0.5], [0.25, 1.0, 0.25]])


def test_words_of_all_slices_together_are_expected_counts():
    q = law()
    np.testing.assert_allclose(
        words_of_topics(q).concentration.sum(1), q.counts.sum((1, 2)), rtol=1e-5
    )
    assert words_of_topics(words_of_topics(q)).concentration.shape == (2, 4)


def test_single_precision_is_right():
    single = stats_of(law())
    with jax.enable_x64(True):
        double = stats_of(law(jnp.float64))
    np.testing.assert_allclose(single.log, double.log, rtol=1e-5)
    np.testing.assert_allclose(single.minus_half_squares, double.minus_half_squares, rtol=1e-4)
