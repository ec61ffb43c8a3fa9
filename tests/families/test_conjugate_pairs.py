"""Laws of (mean, precision): conjugate updates by a gradient of the energy, and one dimension."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.families import Family, Gamma, NormalGamma, NormalWishart, Wishart


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def updated(prior: Family, energy) -> Family:
    message = prior.with_naturals(jax.grad(energy)(prior.expected_stats()))
    return jax.tree.map(jnp.add, prior, message)


def test_normal_gamma_posterior_is_the_textbooks(x64) -> None:
    """kappa' = kappa + N, m' = (kappa m + N ybar) / kappa', a' = a + N / 2, b' = b + S / 2 + kappa N (ybar - m)^2 / 2
    kappa'."""
    y, n = np.random.default_rng(0).normal(2.0, 3.0, 12), 12
    prior = NormalGamma.from_parameters(0.5, 2.0, 3.0, 1.5)
    energy = lambda t: jnp.sum(
        t.precision_times_mean * y
        - 0.5 * (t.precision_times_square + y**2 * t.precision - t.log_precision + np.log(2 * np.pi))
    )
    q = updated(prior, energy)
    np.testing.assert_allclose((q.strength, q.shape), (2.0 + n, 3.0 + n / 2))
    np.testing.assert_allclose(q.location, (2.0 * 0.5 + y.sum()) / (2.0 + n))
    rate = 1.5 + 0.5 * np.sum((y - y.mean()) ** 2) + 0.5 * 2.0 * n * (y.mean() - 0.5) ** 2 / (2.0 + n)
    np.testing.assert_allclose(q.rate, rate)


def test_normal_wishart_posterior_is_the_textbooks(x64) -> None:
    """scale'^-1 = scale^-1 + S + kappa N (ybar - m)(ybar - m)' / kappa' (Murphy, 2012, section 4.6.3)."""
    y, n, m = np.random.default_rng(0).normal(size=(12, 3)) + 1.0, 12, np.array([0.5, 0.0, -1.0])
    prior = NormalWishart.from_parameters(m, 2.0, 5.0, np.diag([1.0, 2.0, 0.5]))
    energy = lambda t: (
        y.sum(0) @ t.precision_times_mean
        - 0.5 * (n * t.quadratic + jnp.einsum("ni,nj,ij->", y, y, t.precision) - n * t.log_det)
    )
    q = updated(prior, energy)
    centred, shift = y - y.mean(0), y.mean(0) - m
    inverse = np.diag([1.0, 0.5, 2.0]) + centred.T @ centred + 2.0 * n / (2.0 + n) * np.outer(shift, shift)
    np.testing.assert_allclose(np.linalg.inv(q.scale), inverse)
    np.testing.assert_allclose((q.strength, q.degrees), (2.0 + n, 5.0 + n))
    np.testing.assert_allclose(q.location, (2.0 * m + y.sum(0)) / (2.0 + n))


def facts(q: Family, p: Family) -> list[np.ndarray]:
    leaves = jax.tree.leaves((q.expected_stats(), q.fisher_solve(p.expected_stats()), q.flat(), tuple(q.mode())))
    return [np.squeeze(x) for x in (q.log_normalizer(), q.entropy(), q.kl(p), *leaves)]


def test_one_dimension(x64) -> None:
    """A Wishart over 1 x 1 matrices is a gamma, and a normal-Wishart over them a normal-gamma."""
    wisharts = [Wishart(jnp.full((1, 1, 1), -p), jnp.array([n])) for n, p in ((1.3, 0.7), (4.0, 2.0))]
    gammas = [Gamma.from_shape_rate([n], [p]) for n, p in ((1.3, 0.7), (4.0, 2.0))]
    a, b = facts(*wisharts), facts(*gammas)
    np.testing.assert_allclose(sorted(np.hstack(a)), sorted(np.hstack(b)), rtol=1e-12, atol=1e-14)
    matrix = [
        NormalWishart.from_parameters([m], 0.3 + m, 2 * n, [[0.5 / p]]) for m, n, p in ((1.0, 1.3, 0.7), (2, 4, 2))
    ]
    scalar = [NormalGamma.from_parameters(m, 0.3 + m, n, p) for m, n, p in ((1.0, 1.3, 0.7), (2, 4, 2))]
    a, b = facts(*matrix), facts(*scalar)
    np.testing.assert_allclose(sorted(np.hstack(a)), sorted(np.hstack(b)), rtol=1e-12, atol=1e-14)


def test_large_degrees_in_float32() -> None:
    """V and the Fisher solve at 1e5 degrees, where terms of size 1e5 cancel: within 1e-3 of float64 on one draw."""

    def apply(dtype: type) -> list[np.ndarray]:
        q = Wishart(jnp.asarray(-np.diag([1e5, 3e5]) - 2e4, dtype), jnp.asarray(5e4, dtype))
        draw = jax.tree.map(lambda x: jnp.asarray(x, dtype), reference)
        eta = q.Stats(jnp.array([[0.3, -0.1], [-0.1, 0.5]], dtype), jnp.asarray(0.2, dtype))
        return jax.tree.leaves(q.bartlett_v(draw, eta))

    q32 = Wishart(jnp.asarray(-np.diag([1e5, 3e5]) - 2e4, jnp.float32), jnp.float32(5e4))
    reference = jax.tree.map(np.asarray, q32.bartlett(jax.random.key(0)))
    single = apply(jnp.float32)
    with jax.enable_x64(True):
        double = apply(jnp.float64)
    for a, b in zip(single, double, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * np.abs(b).max())
