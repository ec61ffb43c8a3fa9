import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln

from vijax import estep
from vijax.estep.mean_field import ascend


def documents(seed=0, docs=5, slots=12, topics=7):
    rng = np.random.default_rng(seed)
    likelihood = rng.gamma(0.3, size=(docs, slots, topics)) + 1e-6
    likelihood /= likelihood.max(axis=-1, keepdims=True)
    return likelihood, rng.integers(1, 6, size=(docs, slots)).astype(float), rng.gamma(1.0, size=topics)


def reference(likelihood, counts, alpha, max_iters, tol):
    """The textbook loop of one document in float64, responsibilities and all."""
    gamma = alpha + counts.sum() / len(alpha)
    for _ in range(max_iters):
        resp = np.exp(digamma(gamma) - digamma(gamma.sum())) * likelihood
        resp /= resp.sum(axis=1, keepdims=True)
        gamma, old = alpha + counts @ resp, gamma
        if np.mean(np.abs(gamma - old)) <= tol:
            break
    return gamma


def bound(gamma, likelihood, counts, alpha):
    """log p(w | beta) >= this, q(z) optimal: E log p(w, theta) - E log q(theta), up to nothing."""
    log_theta = digamma(gamma) - digamma(gamma.sum())
    normalizer = lambda a: gammaln(a).sum() - gammaln(a.sum())
    fit = counts @ np.log(likelihood @ np.exp(log_theta))
    return fit + (alpha - gamma) @ log_theta - normalizer(alpha) + normalizer(gamma)


@pytest.mark.parametrize(("max_iters", "tol"), [(1, 1e-3), (7, 1e-9), (100, 1e-3), (2000, 1e-10)])
def test_equals_a_plain_loop_over_documents(max_iters, tol):
    likelihood, counts, alpha = documents()
    with jax.enable_x64(True):
        step = estep.mean_field(max_iters, tol)
        gamma = step.mixed_membership(*map(jnp.asarray, (likelihood, counts, alpha)), jax.random.key(0), 60).gamma
        assert gamma.dtype == jnp.float64
        expected = [reference(p, c, alpha, max_iters, tol) for p, c in zip(likelihood, counts, strict=True)]
        np.testing.assert_allclose(gamma, expected, rtol=1e-9)


def test_converged_gamma_satisfies_its_own_equation():
    likelihood, counts, alpha = documents(1)
    with jax.enable_x64(True):
        arrays = tuple(map(jnp.asarray, (likelihood, counts, alpha)))
        gamma = estep.mean_field(20000, 1e-12).mixed_membership(*arrays, jax.random.key(0), 60).gamma
        np.testing.assert_allclose(ascend(gamma, *arrays), gamma, atol=1e-8)


def test_every_iteration_raises_the_bound():
    likelihood, counts, alpha = documents(2)
    with jax.enable_x64(True):
        gamma = jnp.asarray(np.random.default_rng(3).gamma(1.0, size=(5, 7)) + 0.1)
        bounds = []
        for _ in range(30):
            gamma = ascend(gamma, *map(jnp.asarray, (likelihood, counts, alpha)))
            rows = zip(np.asarray(gamma), likelihood, counts, strict=True)
            bounds.append([bound(g, p, c, alpha) for g, p, c in rows])
    assert np.all(np.diff(bounds, axis=0) > -1e-10)


def test_float32_is_right_to_float32():
    likelihood, counts, alpha = documents(4)
    single = [jnp.asarray(x, jnp.float32) for x in (likelihood, counts, alpha)]
    gamma = estep.mean_field(50, 1e-9).mixed_membership(*single, jax.random.key(0), 60).gamma
    expected = [reference(p, c, alpha, 50, 1e-9) for p, c in zip(likelihood, counts, strict=True)]
    np.testing.assert_allclose(gamma, expected, rtol=2e-4, atol=2e-4)
