"""Multivariate normals beyond the laws: symmetry, conjugacy, and one dimension."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from tests.rounding import rounding
from vijax.families import MultivariateNormal, MultivariateNormalStats, Normal


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def example(dim: int = 3) -> MultivariateNormal:
    root = np.random.default_rng(0).normal(size=(dim, dim))
    return MultivariateNormal.from_mean_cov(np.arange(dim) - 0.5, root @ root.T + np.eye(dim))


def test_only_the_symmetric_part_of_a_message_matters(x64) -> None:
    """x' B x has gradient B in x x'; B and its symmetric part give one posterior."""
    q = example()
    b = jnp.array([[-1.0, 0.8, 0.0], [-0.2, -2.0, 0.0], [0.4, 0.0, -1.0]])
    skew, plain = (
        MultivariateNormal(q.precision_times_mean, q.negative_half_precision + m)
        for m in (b, (b + b.T) / 2)
    )
    x = jnp.array([0.3, -1.0, 2.0])
    for f in (
        lambda q: q.log_prob(x),
        lambda q: q.entropy(),
        lambda q: q.mean(),
        lambda q: q.cov,
        lambda q: q.kl(q),
    ):
        np.testing.assert_allclose(f(skew), f(plain), rtol=1e-12, atol=1e-14)
    g = q.as_stats(MultivariateNormal(x, b))
    solved = q.fisher_solve(g).negative_half_precision
    np.testing.assert_allclose(solved, solved.T, rtol=1e-12, atol=rounding(solved))


def test_linear_regression_by_a_gradient_of_the_energy(x64) -> None:
    """w ~ N(0, I), y = X w + noise of variance s: the textbook posterior from the gradient in (w, w
    w')."""
    rng = np.random.default_rng(1)
    x, y, s = rng.normal(size=(20, 3)), rng.normal(size=20), 0.5
    prior = MultivariateNormal.from_mean_cov(np.zeros(3), np.eye(3))
    energy = lambda t: (y @ x @ t.value - 0.5 * jnp.einsum("ni,nj,ij->", x, x, t.outer)) / s
    message = prior.with_naturals(jax.grad(energy)(prior.expected_stats()))
    posterior = jax.tree.map(jnp.add, prior, message)
    precision = np.eye(3) + x.T @ x / s
    np.testing.assert_allclose(posterior.precision, precision, rtol=1e-12, atol=rounding(precision))
    mean = np.linalg.solve(precision, x.T @ y / s)
    np.testing.assert_allclose(posterior.mean(), mean, rtol=1e-10, atol=rounding(mean))


def test_one_dimension_is_the_normal(x64) -> None:
    q, p = (MultivariateNormal.from_mean_cov([m], [[v]]) for m, v in [(1.5, 2.0), (0.5, 3.0)])
    q1, p1 = (Normal.from_mean_variance(m, v) for m, v in [(1.5, 2.0), (0.5, 3.0)])
    for f in (
        lambda q, p: q.log_normalizer(),
        lambda q, p: q.entropy(),
        lambda q, p: q.kl(p),
        lambda q, p: jax.tree.leaves(q.expected_stats()),
        lambda q, p: jax.tree.leaves(q.fisher_product(p)),
        lambda q, p: jax.tree.leaves(q.fisher_solve(p.expected_stats())),
    ):
        for a, b in zip(jax.tree.leaves(f(q, p)), jax.tree.leaves(f(q1, p1)), strict=True):
            np.testing.assert_allclose(np.squeeze(a), b, rtol=1e-12)


def test_draws_have_the_covariance_and_batch_axes_lead() -> None:
    """Covariances of 20,000 draws at 6 standard errors, var = cov_ij^2 + cov_ii cov_jj: 18
    comparisons, 4e-8."""
    cov = np.stack([np.array(example().cov), np.diag([1.0, 4.0, 0.1])])
    q = MultivariateNormal.from_mean_cov(np.zeros((2, 3)), cov)
    x = np.asarray(q.sample(jax.random.key(0), (200, 100)), np.float64)
    assert x.shape == (200, 100, 2, 3)
    estimate = np.einsum("stbi,stbj->bij", x, x) / 20_000
    variances = np.einsum("bii->bi", cov)
    error = np.sqrt((cov**2 + variances[:, :, None] * variances[:, None, :]) / 20_000)
    assert np.all(np.abs(estimate - cov) < 6 * error)


def test_transport_and_reparameterised_derivatives_differ_by_mean_zero() -> None:
    """V along the transport and F^-1 J' by differentiating the sampler agree on average (4000
    draws, 6 s.e.)."""
    q = example(2)
    eta = q.as_stats(
        MultivariateNormal(jnp.array([0.3, -0.1]), jnp.array([[0.2, 0.05], [0.05, -0.3]]))
    )

    def gap(key):
        ours = q.pathwise_sample(key)[1](eta)
        pullback = jax.vjp(lambda q: q.sample_stats(key), q)[1](eta)[0]
        return ravel_pytree(ours)[0] - ravel_pytree(q.fisher_solve(q.as_stats(pullback)))[0]

    draws = np.asarray(
        jax.jit(jax.vmap(gap))(jax.random.split(jax.random.key(2), 4000)), np.float64
    )
    assert np.all(np.abs(draws.mean(0)) < 6 * draws.std(0) / np.sqrt(4000) + 1e-6)


def test_the_gradient_of_the_statistics_is_right_under_vmap() -> None:
    """In float32: x x' as a product of broadcast arrays has a gradient that XLA's CPU backend
    miscompiles."""
    rng = np.random.default_rng(0)
    x, a, b = rng.normal(size=(5000, 4, 2)), rng.normal(size=(4, 2)), rng.normal(size=(4, 2, 2))
    q = MultivariateNormal(jnp.zeros((4, 2)), -0.5 * jnp.broadcast_to(jnp.eye(2), (4, 2, 2)))
    eta = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), MultivariateNormalStats(a, b))
    pullback = jax.jit(jax.vmap(lambda x: jax.vjp(q.stats, x)[1](eta)[0]))
    want = a + np.einsum("kij,nkj->nki", b + b.swapaxes(-1, -2), x)
    np.testing.assert_allclose(pullback(jnp.asarray(x, jnp.float32)), want, rtol=1e-4, atol=1e-4)


def test_the_dot_product_of_many_draws_is_right() -> None:
    """In float32, 5000 draws: a sum of products of broadcast arrays is miscompiled there too."""
    rng = np.random.default_rng(0)
    x, q = (
        rng.normal(size=(5000, 4, 2)),
        MultivariateNormal.from_mean_cov(rng.normal(size=(4, 2)), np.eye(2)),
    )
    dot = jax.jit(lambda q, x: q.dot(q.stats(x)))(q, jnp.asarray(x, jnp.float32))
    want = np.sum(x * np.asarray(q.mean()), -1) - 0.5 * np.sum(x * x, -1)
    np.testing.assert_allclose(dot, want, rtol=1e-4, atol=1e-4)


def test_a_second_derivative_exists(x64) -> None:
    q = example(2)
    hessian = jax.hessian(
        lambda m: MultivariateNormal(m, q.negative_half_precision).log_normalizer()
    )
    np.testing.assert_allclose(
        hessian(q.precision_times_mean), q.cov, rtol=1e-10, atol=rounding(q.cov)
    )
