"""The low-rank normal against the multivariate one, and against the derivatives of SciPy's density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vijax.families import MultivariateNormal
from vijax.families.low_rank_normal import LowRankNormal

RNG = np.random.default_rng(0)


def made(seed, dim=5, rank=2):
    rng = np.random.default_rng(seed)
    arrays = rng.normal(size=dim), 0.3 * rng.normal(size=dim), rng.normal(size=(dim, rank))
    return LowRankNormal(*(jnp.asarray(a, jnp.float32) for a in arrays))


def cov_of(q):
    factor = np.asarray(q.factor, np.float64)
    return np.diag(np.exp(2 * np.asarray(q.log_sd, np.float64))) + factor @ factor.T


def test_density_entropy_and_variance():
    q = made(1)
    exact = stats.multivariate_normal(np.asarray(q.center, np.float64), cov_of(q))
    x = RNG.normal(size=(7, 5))
    found = jax.jit(lambda q, x: (q.log_prob(x), q.log_prob(x[0]), q.entropy(), q.variance()))(q, x.astype(np.float32))
    np.testing.assert_allclose(found[0], exact.logpdf(x), rtol=1e-4, atol=1e-4)
    assert float(found[1]) == pytest.approx(exact.logpdf(x[0]), rel=1e-4)
    assert float(found[2]) == pytest.approx(exact.entropy(), rel=1e-5)
    np.testing.assert_allclose(found[3], np.diag(cov_of(q)), rtol=1e-5)


def test_divergence_is_that_of_the_multivariate_normals():
    p, q = made(1), made(2)
    same = [MultivariateNormal.from_mean_cov(np.asarray(r.center), cov_of(r).astype(np.float32)) for r in (p, q)]
    ours, exact, nothing = jax.jit(lambda p, q, a, b: (p.kl(q), a.kl(b), p.kl(p)))(p, q, *same)
    assert float(ours) == pytest.approx(float(exact), rel=1e-3)
    assert float(nothing) == pytest.approx(0, abs=1e-4)


def test_draws_have_its_moments():
    q = made(3)
    draws = np.asarray(jax.jit(lambda q: q.sample(jax.random.key(0), (200_000,)))(q), np.float64)
    np.testing.assert_allclose(draws.mean(0), q.center, atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), cov_of(q), atol=0.06)


def test_the_stationary_message_is_minus_the_gradient_of_the_entropy():
    """By differences of log det in float64."""
    q = made(4)
    flat = np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in (q.log_sd, q.factor)])

    def entropy(v):
        factor = v[5:].reshape(5, 2)
        return 0.5 * np.linalg.slogdet(np.diag(np.exp(2 * v[:5])) + factor @ factor.T)[1]

    exact = [(entropy(flat + 1e-5 * e) - entropy(flat - 1e-5 * e)) / 2e-5 for e in np.eye(len(flat))]
    ours = jax.jit(lambda q: q.stationary())(q)
    np.testing.assert_allclose(np.r_[np.ravel(ours.log_sd), np.ravel(ours.factor)], -np.array(exact), atol=1e-4)
    np.testing.assert_array_equal(ours.center, 0)


def test_slopes_of_its_density():
    q, x = made(5), RNG.normal(size=5)
    exact = -np.linalg.solve(cov_of(q), x - np.asarray(q.center, np.float64))
    ours = jax.jit(lambda q, x: q.slope(q.stats(x), q).value)(q, x.astype(np.float32))
    np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=1e-4)


def test_a_pathwise_draw_is_a_draw_and_its_derivative():
    q, key, eta = made(6), jax.random.key(1), jnp.arange(5.0)
    sample = jax.jit(lambda q: q.sample(key))

    @jax.jit
    def pathwise(q):
        drawn, v = q.pathwise_sample(key)
        return drawn.value, v(q.as_stats([eta]))

    drawn, got = pathwise(q)
    np.testing.assert_allclose(drawn, sample(q), rtol=1e-6)
    np.testing.assert_allclose(got.center, eta)
    bump = LowRankNormal(q.center, q.log_sd, q.factor + 0.01 * np.eye(5, 2, dtype=np.float32))
    change = float(eta @ (sample(bump) - sample(q)))
    assert np.sum(np.asarray(got.factor) * np.eye(5, 2)) * 0.01 == pytest.approx(change, rel=1e-3)


def test_natural_parameters_are_refused():
    for ask in (lambda q: q.log_normalizer(), lambda q: q.fisher_solve(q.stats(q.center))):
        with pytest.raises(NotImplementedError, match=r"no exponential family.*vijax\.advi"):
            ask(made(1))
