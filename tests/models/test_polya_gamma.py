"""Draws of PG(1, c) against its Laplace transform, at 6 standard errors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.models.polya_gamma import PolyaGamma, _proposal, sample

TILTS = np.array([0.0, 0.3, 2.0, 3.0, 3.2, 8.0, 40.0, 300.0])  # about the switch of proposals, c cut / 2 = 1, too


MANY = 100_000


@functools.cache
def draws(size):
    c = jnp.broadcast_to(jnp.asarray(TILTS, jnp.float32), (size, len(TILTS)))
    return np.asarray(jax.jit(sample)(jax.random.key(0), c), np.float64)


def log_cosh(x):
    return np.logaddexp(x, -x) - np.log(2)


@pytest.mark.parametrize(("share", "size"), [(0.0, MANY), (0.5, MANY), (2.0, MANY), (10.0, MANY), (2.0, MANY // 10)])
def test_laplace_transform(share, size):
    """E exp(-s w) = cosh(c / 2) / cosh(sqrt(c^2 / 4 + s / 2)), at s in proportion to the inverse mean; share 0 stands
    for the mean itself, tanh(c / 2) / (2 c)."""
    mean = np.where(TILTS > 0, np.tanh(TILTS / 2) / np.maximum(2 * TILTS, 1e-9), 0.25)
    s = share / mean
    values = np.exp(-s * draws(size)) if share else draws(size)
    exact = np.exp(log_cosh(TILTS / 2) - log_cosh(np.sqrt(TILTS**2 / 4 + s / 2))) if share else mean
    error = values.mean(0) - exact
    assert np.all(np.abs(error) < 6 * values.std(0) / np.sqrt(size) + 1e-6 * exact)


def test_most_proposals_are_accepted():
    keep = _proposal(jax.random.key(0), jnp.broadcast_to(jnp.linspace(0.0, 50.0, 200), (2000, 200)))[1]
    assert float(keep.mean(0).min()) > 0.55


def test_statistics_are_the_derivatives_of_the_normaliser():
    """By automatic differentiation of -log cosh(sqrt(-l / 2)), naively; and finite at 0, in both precisions."""
    with jax.enable_x64(True):
        at = jnp.array([-0.01, -2.0, -30.0])
        naive = lambda at: -jnp.log(jnp.cosh(jnp.sqrt(-at / 2)))
        q = PolyaGamma(at)
        np.testing.assert_allclose(q.log_normalizer(), naive(at), rtol=1e-12)
        np.testing.assert_allclose(q.expected_stats().value, jax.vmap(jax.grad(naive))(at), rtol=1e-12)
    own = jax.vmap(jax.grad(lambda at: PolyaGamma(at).log_normalizer()))
    np.testing.assert_allclose(own(jnp.array([0.0, -1e-9, -1e8])), [0.25, 0.25, 0.5 / np.sqrt(2e8)], rtol=1e-5)
