"""Dirichlets of which some entries are fixed: against SciPy's Dirichlet of the free entries, and
draws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from vijax.families import Dirichlet
from vijax.families.discrete.partial_dirichlet import FREE, PartialDirichlet

CONCENTRATION = np.array([[2.0, 0.4, 1.5, 3.0], [1.2, 5.0, 0.3, 2.2], [1.0, 2.0, 3.0, 4.0]])
FIXED = np.array([[FREE, 0.0, FREE, FREE], [0.2, FREE, 0.0, FREE], [0.1, 0.2, 0.0, 0.7]])
FREE_ENTRIES = [np.flatnonzero(row == FREE) for row in FIXED]
SHARES = [1.0, 0.8, 1.0]
OTHER = CONCENTRATION[:, ::-1] + 0.5


def law(concentration: np.ndarray = CONCENTRATION) -> PartialDirichlet:
    return PartialDirichlet.from_concentration(concentration, FIXED)


def free_laws(concentration: np.ndarray = CONCENTRATION) -> list:
    """SciPy's law of the free entries of each row, over their share."""
    pairs = zip(concentration, FREE_ENTRIES, strict=True)
    return [stats.dirichlet(row[free]) if len(free) else None for row, free in pairs]


def test_moments_entropy_and_divergence_are_those_of_the_free_entries():
    with jax.enable_x64(True):
        read = jax.jit(
            lambda q, p: (q.mean(), q.variance(), q.expected_stats().log, q.entropy(), q.kl(p))
        )
        mean, variance, log, entropy, divergence = map(np.asarray, read(law(), law(OTHER)))
    for i, (own, share) in enumerate(zip(free_laws(), SHARES, strict=True)):
        free, c = FREE_ENTRIES[i], CONCENTRATION[i]
        fixed = FIXED[i] != FREE
        np.testing.assert_allclose(mean[i][fixed], FIXED[i][fixed])
        assert np.all(np.asarray(variance[i])[fixed] == 0)
        if own is None:
            assert entropy[i] == divergence[i] == 0
            continue
        np.testing.assert_allclose(mean[i][free], share * own.mean(), rtol=1e-12)
        np.testing.assert_allclose(variance[i][free], share**2 * own.var(), rtol=1e-12)
        digamma = special.digamma(c[free]) - special.digamma(c[free].sum())
        np.testing.assert_allclose(log[i][free], digamma + np.log(share), rtol=1e-12)
        volume = (len(free) - 1) * np.log(share)
        np.testing.assert_allclose(entropy[i], own.entropy() + volume, rtol=1e-10)
        with jax.enable_x64(True):
            laws = (Dirichlet(jnp.asarray(x[i][free])) for x in (CONCENTRATION, OTHER))
            expected = jax.jit(Dirichlet.kl)(*laws)
        np.testing.assert_allclose(divergence[i], expected, rtol=1e-10)


def test_the_gradient_of_the_normaliser_is_the_expected_statistics():
    with jax.enable_x64(True):
        q = law()
        slope = jax.jit(jax.grad(lambda c: jnp.sum(q.with_naturals([c]).log_normalizer())))
        expected = jax.jit(PartialDirichlet.expected_stats)(q).log
        np.testing.assert_allclose(slope(q.concentration), expected, rtol=1e-10, atol=1e-12)


def test_densities_are_scipys_and_follow_from_the_statistics():
    with jax.enable_x64(True):
        q = law()
        log_prob = jax.jit(PartialDirichlet.log_prob)
        x = np.asarray(jax.jit(PartialDirichlet.sample)(q, jax.random.key(0)))
        by_stats = jax.jit(lambda q, x: q.log_prob_of_stats(q.stats(x)))
        values = [np.asarray(read(q, x)) for read in (log_prob, by_stats)]
        shifted = x.copy()
        shifted[:2, 0] += 0.01
        shifted[:2, 3] -= 0.01
        impossible = np.asarray(log_prob(q, shifted))
    for i in (0, 1):
        free, share = FREE_ENTRIES[i], SHARES[i]
        expected = free_laws()[i].logpdf(x[i][free] / share)
        expected -= (len(free) - 1) * np.log(share)
        np.testing.assert_allclose([value[i] for value in values], expected, rtol=1e-9)
    assert np.isfinite(impossible[0])
    assert impossible[1] == -np.inf


def test_draws_have_their_moments_and_exact_known_entries():
    q = law()
    x = np.asarray(jax.jit(lambda key: q.sample(key, (20_000,)))(jax.random.key(1)), float)
    np.testing.assert_allclose(x.sum(-1), 1.0, atol=1e-5)
    error = 6 * np.sqrt(np.asarray(q.variance()) / len(x))
    assert np.all(np.abs(x.mean(0) - np.asarray(q.mean())) <= error + 1e-6)
    fixed = FIXED != FREE
    assert np.all(x[:, fixed] == np.float32(FIXED[fixed]))


def test_the_mode_is_that_of_the_free_entries_and_uniform_without_counts():
    mode = np.asarray(law().mode())
    np.testing.assert_allclose(mode[0], [1 / 3.5, 0, 0.5 / 3.5, 2 / 3.5], rtol=1e-6)
    np.testing.assert_allclose(mode[1], [0.2, 0.8 * 4 / 5.2, 0.0, 0.8 * 1.2 / 5.2], rtol=1e-6)
    np.testing.assert_allclose(mode[2], FIXED[2], rtol=1e-6)
    uniform = np.asarray(law(np.ones((3, 4))).mode())
    np.testing.assert_allclose(uniform[:2], [[1 / 3, 0, 1 / 3, 1 / 3], [0.2, 0.4, 0, 0.4]])


def test_fisher_solves_and_draws_move_free_entries_alone():
    with jax.enable_x64(True):
        direction = jnp.where(law().is_free, jnp.asarray(OTHER), 0.0)

        @jax.jit
        def read(q):
            product = q.fisher_product(q.with_naturals([direction]))
            stats_of_draw, v = q.pathwise_sample(jax.random.key(2))
            moved = v(type(product)(jnp.asarray(OTHER))).concentration
            return q.fisher_solve(product).concentration, stats_of_draw, moved

        solved, stats_of_draw, moved = read(law())
    np.testing.assert_allclose(solved[:2], direction[:2], rtol=1e-8)
    assert np.all(np.asarray(moved)[FIXED != FREE] == 0)
    assert np.all(np.isfinite(moved))
    x = np.where(FIXED == FREE, np.exp(np.asarray(stats_of_draw.log)), FIXED)
    np.testing.assert_allclose(x.sum(-1), 1.0, rtol=1e-10)


def test_float32_is_finite_where_no_entry_is_free():
    q = PartialDirichlet.from_concentration(np.ones((2, 2)), np.eye(2))
    p = q.with_naturals([jnp.full((2, 2), 7.0)])
    read = jax.jit(lambda q, p, key: (q.entropy(), q.kl(p), q.log_normalizer(), q.sample(key)))
    for leaf in read(q, p, jax.random.key(0)):
        assert np.all(np.isfinite(leaf))
    np.testing.assert_array_equal(q.mean(), np.eye(2))


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ([0.5, 0.6, FREE], "leave a rest"),
        ([0.5, 0.5, FREE], "leave a rest"),
        ([0.5, 0.4, 0.0], "leave a rest"),
        ([1.5, FREE, FREE], "probabilities, or -1"),
        ([0.5, FREE], "the shape"),
    ],
)
def test_known_entries_must_be_probabilities_that_fit(fixed, message):
    with pytest.raises(ValueError, match=message):
        PartialDirichlet.from_concentration(np.ones(3), fixed)
