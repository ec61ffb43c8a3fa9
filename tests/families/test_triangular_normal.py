"""The normal by its triangle against SciPy and the multivariate normal of natural parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax.families import MultivariateNormal
from vijax.families.vector.free_normals import TriangularNormal


def made(seed, dim=4):
    rng = np.random.default_rng(seed)
    return TriangularNormal(
        jnp.asarray(rng.normal(size=dim), jnp.float32),
        jnp.asarray(0.5 * rng.normal(size=(dim, dim)), jnp.float32),
    )


def cov_of(q):
    triangle = np.asarray(q.triangle, np.float64)
    factor = np.exp(np.diag(triangle))[:, None] * (np.tril(triangle, -1) + np.eye(len(triangle)))
    return factor @ factor.T


def test_density_entropy_and_divergence():
    p, q, x = made(1), made(2), np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    exact = stats.multivariate_normal(np.asarray(q.center, np.float64), cov_of(q))
    density, entropy, ours = jax.jit(lambda p, q, x: (q.log_prob(x), q.entropy(), p.kl(q)))(p, q, x)
    np.testing.assert_allclose(density, exact.logpdf(x), rtol=1e-4)
    assert float(entropy) == pytest.approx(exact.entropy(), rel=1e-5)
    same = [
        MultivariateNormal.from_mean_cov(np.asarray(r.center), cov_of(r).astype(np.float32))
        for r in (p, q)
    ]
    assert float(ours) == pytest.approx(float(same[0].kl(same[1])), rel=1e-3)


def test_moments_slopes_and_stationary_message():
    q, x = made(3), np.arange(4.0)
    draws = np.asarray(q.sample(jax.random.key(0), (200_000,)), np.float64)
    np.testing.assert_allclose(draws.mean(0), q.mean(), atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), cov_of(q), atol=0.03 * np.abs(cov_of(q)).max())
    np.testing.assert_allclose(q.cov, cov_of(q), rtol=1e-4, atol=1e-5)
    slope = q.slope(q.stats(jnp.asarray(x, jnp.float32)), q).value
    np.testing.assert_allclose(
        slope, -np.linalg.solve(cov_of(q), x - np.asarray(q.center)), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_array_equal(q.stationary().triangle, -np.eye(4))


def test_advi_finds_a_correlated_normal_and_the_same_as_in_the_chart():
    precision = np.array([[2.0, 0.9], [0.9, 1.0]])
    model = vi.density({"x": vi.free(2)}, lambda v: -0.5 * (v["x"] - 1) @ precision @ (v["x"] - 1))
    fit = vi.fit(
        vi.advi(model, guide=vi.guides.full_rank(), num_samples=16),
        num_steps=2000,
        key=jax.random.key(0),
    )
    assert isinstance(fit.posterior["free"], TriangularNormal)
    np.testing.assert_allclose(fit.posterior["free"].mean(), [1, 1], atol=0.05)
    np.testing.assert_allclose(fit.posterior["free"].cov, np.linalg.inv(precision), atol=0.12)


def test_natural_gradients_of_it_are_refused():
    with pytest.raises(ValueError, match="no exponential family"):
        vi.ngvi(
            vi.density({"x": vi.free(2)}, lambda v: -jnp.sum(v["x"] ** 2)),
            guide=vi.guides.triangular(),
        )
