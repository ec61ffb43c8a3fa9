"""Dirichlets seen from some of their columns: the aggregation of the Dirichlet, and a store that it
lets be lazy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from vijax.families import Dirichlet
from vijax.families.discrete.by_word import DirichletByWord, TransposedDirichlet, prior_columns

KEY = jax.random.key(0)
CONCENTRATION = jnp.asarray(np.random.default_rng(0).gamma(0.7, 1.5, (3, 9)) + 0.05)
BASES = [jnp.asarray(0.05), jnp.linspace(0.02, 0.05, 9), jnp.linspace(0.02, 0.05, 27).reshape(3, 9)]
NAMES = ["scalar", "vector", "matrix"]
WORDS = [
    np.array([0, 4, 5, 9, 10]),
    np.array([2, 3]),
    np.arange(9),
    np.array([1, 3, 4, 5, 6, 7, 8, 9, 10]),
]
OK = jnp.array(True)


@pytest.mark.parametrize("base", BASES, ids=NAMES)
@pytest.mark.parametrize("words", WORDS, ids=["padded", "few", "all", "padded-to-all"])
def test_columns_are_the_aggregated_law(base, words):
    q = DirichletByWord.from_law(Dirichlet(CONCENTRATION), base)
    known = words < 9
    got = np.asarray(q.columns(jnp.asarray(words)).concentration.T)
    assert got.shape == (3, min(len(words) + 1, 9))
    np.testing.assert_allclose(
        got[:, : len(words)][:, known], CONCENTRATION[:, words[known]], rtol=1e-5
    )
    np.testing.assert_allclose(got.sum(1), CONCENTRATION.sum(1), rtol=1e-6)
    rest = np.delete(got, np.flatnonzero(known), axis=1)
    assert np.all(rest > 0)
    assert np.all(rest == rest[:, :1])  # equal parts
    eta = np.broadcast_to(base, (3, 9)).T
    prior = np.asarray(prior_columns(q.base, jnp.asarray(words), 9, 3).concentration)
    assert prior.shape == got.T.shape
    np.testing.assert_allclose(prior[: len(words)][known], eta[words[known]], rtol=1e-6)
    np.testing.assert_allclose(prior.sum(0), eta.sum(0), rtol=1e-6)


def test_draws_of_columns_are_draws_of_all():
    """Each share of a draw from the columns is beta with the whole law's parameters, and so is the
    rest."""
    q = DirichletByWord.from_law(Dirichlet(CONCENTRATION), BASES[0])
    few = jnp.array([1, 6])
    draws = np.exp(q.columns(few).sample_stats(KEY, (4000,)).log)[:, 2]
    c, total = np.asarray(CONCENTRATION[2], float), float(CONCENTRATION[2].sum())
    for share, a in ((draws[:, 0], c[1]), (draws[:, 1], c[6]), (draws[:, 2], total - c[1] - c[6])):
        assert stats.kstest(share, stats.beta(a, total - a).cdf).pvalue > 1e-3


@pytest.mark.parametrize("rho", [0.3, 1.0, 1 - 1e-13])
@pytest.mark.parametrize("base", BASES, ids=NAMES)
def test_a_step_of_the_columns_is_one_of_all(rho, base):
    with jax.enable_x64(True):
        base, c, words = (
            jnp.asarray(base, float),
            jnp.asarray(CONCENTRATION, float),
            jnp.array([0, 4, 5, 9]),
        )
        q = DirichletByWord.from_law(Dirichlet(c), base)

        @jax.jit
        def step(q, c):
            message = jax.random.uniform(KEY, (3, 3), float) * 5
            seen = q.columns(words)
            target = prior_columns(q.base, words, 9, 3).concentration + jnp.pad(
                message.T, ((0, 2), (0, 0))
            )
            to = seen.with_naturals(((1 - rho) * seen.concentration + rho * target,))
            q = q.with_columns(words, to, jnp.asarray(1 - rho), OK)
            return q, (1 - rho) * c + rho * (base + jnp.zeros_like(c).at[:, words[:3]].add(message))

        for _ in range(3):
            q, c = step(q, c)
            np.testing.assert_allclose(q.concentration, c, rtol=1e-12)
            np.testing.assert_allclose(q.totals, c.sum(1), rtol=1e-12)
        assert q.scale >= 1e-12


def test_a_step_that_is_not_taken_changes_nothing():
    q = DirichletByWord.from_law(Dirichlet(CONCENTRATION), BASES[0])
    words = jnp.array([0, 4, 9])
    same = q.with_columns(words, q.columns(words), jnp.ones(()), jnp.array(False))
    for a, b in zip(jax.tree.leaves(q), jax.tree.leaves(same), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_array_equal(q.entries, same.entries)


def test_totals_drift_by_no_more_than_rounding_and_are_mended():
    """A thousand float32 steps of one word in nine, against float64."""
    with jax.enable_x64(False):
        q = DirichletByWord.from_law(
            Dirichlet(CONCENTRATION.astype(jnp.float32)), jnp.float32(0.05)
        )

        @jax.jit
        def run(q):
            def step(i, q):
                words = (i % 9)[None]
                seen, rho = q.columns(words), jnp.float32(0.02)
                target = prior_columns(q.base, words, 9, 3).concentration + jnp.array(
                    [[100.0], [0.0]], jnp.float32
                )
                return q.with_columns(
                    words,
                    seen.with_naturals(((1 - rho) * seen.concentration + rho * target,)),
                    1 - rho,
                    OK,
                )

            return jax.lax.fori_loop(0, 1000, step, q)

        q = run(q)
        exact = np.asarray(q.concentration, float).sum(1)
        np.testing.assert_allclose(q.totals, exact, rtol=1e-5)
        np.testing.assert_allclose(q.resum().totals, exact, rtol=3e-7)


def test_it_is_the_law_that_it_stores():
    dense = Dirichlet(CONCENTRATION)
    q = DirichletByWord.from_law(dense, BASES[1])
    other = Dirichlet(jnp.ones_like(CONCENTRATION))
    for ask in (
        lambda q: q.mean(),
        lambda q: q.mode(),
        lambda q: q.entropy(),
        lambda q: q.log_normalizer(),
        lambda q: q.expected_stats().log,
        lambda q: q.sample(KEY, (2,)),
        lambda q: q.sample_stats(KEY).log,
        lambda q: q.stats(dense.mean()).log,
        lambda q: q.kl(other),
        lambda q: q.log_prob(dense.mean()),
        lambda q: q.in_domain().concentration,
        lambda q: q.flat().concentration,
    ):
        np.testing.assert_allclose(ask(q), ask(dense), rtol=2e-5)
    assert q.batch_shape == (3,)


def test_columns_are_dirichlets_side_by_side():
    """What a step asks of them is what it would ask of the Dirichlets themselves."""
    q = TransposedDirichlet(CONCENTRATION.T)
    plain = q.plain()
    np.testing.assert_array_equal(plain.concentration, CONCENTRATION)
    np.testing.assert_allclose(q.log_normalizer(), plain.log_normalizer().sum(), rtol=1e-6)
    np.testing.assert_allclose(
        q.expected_stats().by_word, plain.expected_stats().log.T, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(q.expected_stats().log, q.expected_stats().by_word.T)
    np.testing.assert_array_equal(plain.expected_stats().by_word, plain.expected_stats().log.T)
    np.testing.assert_allclose(q.mean(), plain.mean().T, rtol=1e-6)
    np.testing.assert_allclose(q.mode(), plain.mode().T, rtol=1e-6)
    np.testing.assert_allclose(
        q.stats(q.mean()).by_word, plain.stats(plain.mean()).log.T, rtol=1e-6
    )
    np.testing.assert_array_equal(q.flat().concentration, 1.0)
    bad = (
        q.with_naturals((CONCENTRATION.T.at[2, 1].set(-1.0).at[0, 0].set(jnp.inf),))
        .in_domain()
        .concentration
    )
    assert int((~bad).sum()) == 2


def test_draws_of_columns_have_the_moments_of_dirichlets():
    """Means and variances of shares, and of their logarithms, at 5 standard errors."""
    q, draws = TransposedDirichlet(CONCENTRATION.T), 4000
    log_x = np.asarray(q.sample_stats(KEY, (draws,)).by_word, float)
    np.testing.assert_allclose(np.exp(log_x).sum(1), 1.0, rtol=1e-5)
    expected = np.asarray(q.expected_stats().by_word)
    assert np.all(np.abs(log_x.mean(0) - expected) < 5 * log_x.std(0) / draws**0.5)
    variance = special.polygamma(1, CONCENTRATION.T) - special.polygamma(1, CONCENTRATION.T.sum(0))
    spread = ((log_x - log_x.mean(0)) ** 2).std(0) / draws**0.5
    assert np.all(np.abs(log_x.var(0) - variance) < 5 * spread)
