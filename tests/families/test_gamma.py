"""Gamma and beta: V, extreme parameters, edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from tests.rounding import rounding
from vijax.families import Beta, BetaStats, Gamma, GammaStats
from vijax.families.base import Family

GAMMA = ([0.01, 0.5, 3.0, 1e3], [2.0, 0.1, 5.0, 30.0])
BETA = ([0.01, 0.5, 3.0, 200.0], [2.0, 0.1, 5.0, 30.0])


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def gamma() -> Gamma:
    return Gamma.from_shape_rate(*(jnp.array(x) for x in GAMMA))


def beta() -> Beta:
    return Beta.from_alpha_beta(*(jnp.array(x) for x in BETA))


def cotangents(q: Family) -> tuple:
    return q.Stats(jnp.arange(1.0, 5.0), jnp.array([0.3, -1.0, 2.0, 0.7]))


@pytest.mark.parametrize("law", [gamma, beta])
def test_closed_forms_against_automatic_differentiation(x64, law) -> None:
    q, key = law(), jax.random.key(2)
    eta = cotangents(q)
    t, v = q.pathwise_sample(key)
    t_generic, v_generic = Family.pathwise_sample(q, key)
    pairs = [
        (t, t_generic),
        (v(eta), v_generic(eta)),
        (q.fisher_solve(eta), Family.fisher_solve(q, eta)),
        (q.expected_stats(), Family.expected_stats(q)),
        (q.entropy(), Family.entropy(q)),
    ]
    for got, want in pairs:
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-8, atol=rounding(y)), got, want
        )


def test_kl_against_the_definition(x64) -> None:
    for q in (gamma(), beta()):
        p = jax.tree.map(lambda x: 1.3 * x + 0.1 * jnp.sign(x), q)
        np.testing.assert_allclose(q.kl(p), Family.kl(q, p), rtol=1e-9)


@pytest.mark.parametrize("law", [gamma, beta])
def test_float32_closed_forms(law) -> None:
    q = law()
    eta, key = cotangents(q), jax.random.key(2)
    p = jax.tree.map(lambda x: 1.3 * x, q)
    small = (q.kl(p), q.entropy(), q.fisher_solve(eta), q.expected_stats(), q.log_normalizer())
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(q.pathwise_sample(key)[1](eta)))
    with jax.enable_x64(True):
        wide = lambda tree: jax.tree.map(lambda x: jnp.asarray(np.float64(x)), tree)
        q, p, eta = wide(q), wide(p), wide(eta)
        exact = (q.kl(p), q.entropy(), q.fisher_solve(eta), q.expected_stats(), q.log_normalizer())
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=3e-4), small, exact
        )


def test_gamma_kl_of_large_shapes_does_not_cancel() -> None:
    a, b = np.float32([1e4, 1e6, 1e8]), np.float32(3.0)
    got = Gamma(jnp.asarray(a), -jnp.full(3, b)).kl(
        Gamma(jnp.asarray(a * np.float32(1.5)), -jnp.full(3, b * 2))
    )
    with jax.enable_x64(True):
        a64 = jnp.asarray(np.float64(a))
        want = Gamma(a64, -jnp.full(3, 3.0)).kl(
            Gamma(jnp.asarray(np.float64(a * np.float32(1.5))), -jnp.full(3, 6.0))
        )
    np.testing.assert_allclose(got, want, rtol=2e-6)


@pytest.mark.parametrize("law", [gamma, beta])
def test_v_has_mean_identity(law) -> None:
    """Within 5 standard errors in each of 16 entries."""
    n = 200_000
    q = jax.tree.map(lambda x: jnp.broadcast_to(x, (n, 4)), law())

    def columns(q: Family) -> list:
        _, v = q.pathwise_sample(jax.random.key(1))
        return [v(q.Stats(jnp.full((n, 4), e[0]), jnp.full((n, 4), e[1]))) for e in np.eye(2)]

    for e, column in zip(np.eye(2), jax.jit(columns)(q), strict=True):
        for want, leaf in zip(e, jax.tree.leaves(column), strict=True):
            leaf = np.asarray(leaf, np.float64)
            assert np.all(np.abs(leaf.mean(0) - want) < 5 * leaf.std(0) / np.sqrt(n))


# --- draws ----------------------------------------------------------------------------------------
def test_draws_follow_scipy() -> None:
    n = 50_000
    for a, b, draws in zip(
        *GAMMA, np.asarray(gamma().sample(jax.random.key(0), (n,))).T, strict=True
    ):
        if a >= 0.1:  # the others underflow: their logarithms are tested in test_pathwise.py
            assert scipy.stats.kstest(draws, scipy.stats.gamma(a, scale=1 / b).cdf).pvalue > 1e-6
    for a, b, draws in zip(
        *BETA, np.asarray(beta().sample(jax.random.key(0), (n,))).T, strict=True
    ):
        if min(a, b) >= 0.2:
            assert scipy.stats.kstest(draws, scipy.stats.beta(a, b).cdf).pvalue > 1e-6


def test_both_logarithms_of_a_beta_survive_rounding() -> None:
    stats = Beta.from_alpha_beta(0.01, 0.01).sample_stats(jax.random.key(0), (100_000,))
    for log in stats:
        log = np.asarray(log, np.float64)
        want = scipy.special.digamma(0.01) - scipy.special.digamma(0.02)
        assert abs(log.mean() - want) < 6 * log.std() / np.sqrt(log.size)
        assert log.min() < -200


# --- edges ----------------------------------------------------------------------------------------
def test_gamma_mode_and_its_statistics() -> None:
    q = Gamma.from_shape_rate(jnp.array([0.5, 3.0]), 2.0)
    assert q.mode().tolist() == [0.0, 1.0]
    assert np.isfinite(q.stats(q.mode()).log).all()


def test_beta_mode_and_its_statistics() -> None:
    q = Beta.from_alpha_beta(jnp.array([0.5, 0.5, 3.0, 2.0]), jnp.array([0.7, 2.0, 2.0, 0.5]))
    np.testing.assert_allclose(q.mode(), [0.5, 0.0, 2 / 3, 1.0], rtol=1e-6)
    assert all(np.isfinite(x).all() for x in q.stats(q.mode()))


def test_flat_is_flat() -> None:
    x = jnp.array([0.2, 0.9])
    ungated = lambda q, x: q.dot(q.stats(x)) + q.log_base_measure(q.stats(x))
    flat_gamma = jax.tree.map(
        lambda y: jnp.broadcast_to(y, (2,)), Gamma.from_shape_rate(2.0, 3.0).flat()
    )
    flat_beta = jax.tree.map(
        lambda y: jnp.broadcast_to(y, (2,)), Beta.from_alpha_beta(2.0, 3.0).flat()
    )
    np.testing.assert_allclose(ungated(flat_gamma, x), 0.0, atol=1e-6)
    np.testing.assert_allclose(ungated(flat_beta, x), 0.0, atol=1e-6)


def test_domains() -> None:
    q = Gamma(jnp.array([1.0, 0.0, 2.0]), jnp.array([-1.0, -1.0, 0.0])).in_domain()
    assert (q.shape.tolist(), q.negative_rate.tolist()) == (
        [True, False, True],
        [True, True, False],
    )
    q = Beta(jnp.array([1.0, jnp.nan]), jnp.array([-1.0, 1.0])).in_domain()
    assert (q.alpha.tolist(), q.beta.tolist()) == ([True, False], [False, True])


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: Gamma.from_shape_rate(0.0, 1.0), "shape"),
        (lambda: Gamma.from_shape_rate(1.0, -1.0), "rate"),
        (lambda: Gamma.from_shape_rate(1.0, jnp.nan), "rate"),
        (lambda: Beta.from_alpha_beta(-1.0, 1.0), "alpha"),
        (lambda: Beta.from_alpha_beta(1.0, jnp.inf), "beta"),
    ],
)
def test_bad_parameters_are_refused_by_name(build, argument: str) -> None:
    with pytest.raises(ValueError, match=f"^{argument}: expected positive finite numbers, got"):
        build()


def test_statistics_are_named() -> None:
    assert GammaStats._fields == ("log", "value")
    assert BetaStats._fields == ("log", "log1m")
