"""Laws of (mean, precision): conjugate updates by a gradient of the energy, and one dimension."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.families import (
    Family,
    Gamma,
    MatrixNormalWishart,
    MultivariateNormalGamma,
    NormalGamma,
    NormalWishart,
    Wishart,
)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def updated(prior: Family, energy) -> Family:
    message = prior.with_naturals(jax.grad(energy)(prior.expected_stats()))
    return jax.tree.map(jnp.add, prior, message)


def test_normal_gamma_posterior_is_the_textbooks(x64) -> None:
    """kappa' = kappa + N, m' = (kappa m + N ybar) / kappa', a' = a + N / 2, b' = b + S / 2 + kappa
    N (ybar - m)^2 / 2 kappa'."""
    y, n = np.random.default_rng(0).normal(2.0, 3.0, 12), 12
    prior = NormalGamma.from_parameters(0.5, 2.0, 3.0, 1.5)
    energy = lambda t: jnp.sum(
        t.precision_times_mean * y
        - 0.5
        * (t.precision_times_square + y**2 * t.precision - t.log_precision + np.log(2 * np.pi))
    )
    q = updated(prior, energy)
    np.testing.assert_allclose((q.strength, q.shape), (2.0 + n, 3.0 + n / 2))
    np.testing.assert_allclose(q.location, (2.0 * 0.5 + y.sum()) / (2.0 + n))
    rate = (
        1.5 + 0.5 * np.sum((y - y.mean()) ** 2) + 0.5 * 2.0 * n * (y.mean() - 0.5) ** 2 / (2.0 + n)
    )
    np.testing.assert_allclose(q.rate, rate)


def test_normal_wishart_posterior_is_the_textbooks(x64) -> None:
    """scale'^-1 = scale^-1 + S + kappa N (ybar - m)(ybar - m)' / kappa' (Murphy, 2012, section
    4.6.3)."""
    y, n, m = np.random.default_rng(0).normal(size=(12, 3)) + 1.0, 12, np.array([0.5, 0.0, -1.0])
    prior = NormalWishart.from_parameters(m, 2.0, 5.0, np.diag([1.0, 2.0, 0.5]))
    energy = lambda t: (
        y.sum(0) @ t.precision_times_mean
        - 0.5 * (n * t.quadratic + jnp.einsum("ni,nj,ij->", y, y, t.precision) - n * t.log_det)
    )
    q = updated(prior, energy)
    centred, shift = y - y.mean(0), y.mean(0) - m
    inverse = (
        np.diag([1.0, 0.5, 2.0])
        + centred.T @ centred
        + 2.0 * n / (2.0 + n) * np.outer(shift, shift)
    )
    np.testing.assert_allclose(np.linalg.inv(q.scale), inverse)
    np.testing.assert_allclose((q.strength, q.degrees), (2.0 + n, 5.0 + n))
    np.testing.assert_allclose(q.location, (2.0 * m + y.sum(0)) / (2.0 + n))


def test_matrix_normal_wishart_posterior_is_the_textbooks(x64) -> None:
    """U' = U + X'X, M' = U'^-1 (U M + X'Y), scale'^-1 = scale^-1 + Y'Y + M'UM - M''U'M', degrees' =
    degrees + N (Rowe, 2003, section 8.4)."""
    rng = np.random.default_rng(0)
    x, y, m = rng.normal(size=(12, 2)), rng.normal(size=(12, 3)) + 1.0, rng.normal(size=(2, 3))
    u, scale = np.array([[2.0, 0.3], [0.3, 1.0]]), np.diag([1.0, 2.0, 0.5])
    prior = MatrixNormalWishart.from_parameters(m, u, 5.0, scale)
    energy = lambda t: (
        jnp.einsum("nj,nd,jd->", x, y, t.coefficients_times_precision)
        - 0.5 * jnp.einsum("nj,ni,ij->", x, x, t.quadratic)
        - 0.5 * (jnp.einsum("ni,nj,ij->", y, y, t.precision) - len(y) * t.log_det)
    )
    q = updated(prior, energy)
    strength = u + x.T @ x
    location = np.linalg.solve(strength, u @ m + x.T @ y)
    rate = np.linalg.inv(scale) + y.T @ y + m.T @ u @ m - location.T @ strength @ location
    np.testing.assert_allclose(q.strength, strength)
    np.testing.assert_allclose(q.location, location)
    np.testing.assert_allclose(np.linalg.inv(q.scale), rate)
    np.testing.assert_allclose(q.degrees, 5.0 + len(y))


def facts(q: Family, p: Family) -> list[np.ndarray]:
    leaves = jax.tree.leaves(
        (q.expected_stats(), q.fisher_solve(p.expected_stats()), q.flat(), tuple(q.mode()))
    )
    return [np.squeeze(x) for x in (q.log_normalizer(), q.entropy(), q.kl(p), *leaves)]


def test_one_dimension(x64) -> None:
    """A Wishart over 1 x 1 matrices is a gamma, and a normal-Wishart over them a normal-gamma."""
    wisharts = [
        Wishart(jnp.full((1, 1, 1), -p), jnp.array([n])) for n, p in ((1.3, 0.7), (4.0, 2.0))
    ]
    gammas = [Gamma.from_shape_rate([n], [p]) for n, p in ((1.3, 0.7), (4.0, 2.0))]
    a, b = facts(*wisharts), facts(*gammas)
    np.testing.assert_allclose(sorted(np.hstack(a)), sorted(np.hstack(b)), rtol=1e-12, atol=1e-14)
    matrix = [
        NormalWishart.from_parameters([m], 0.3 + m, 2 * n, [[0.5 / p]])
        for m, n, p in ((1.0, 1.3, 0.7), (2, 4, 2))
    ]
    scalar = [
        NormalGamma.from_parameters(m, 0.3 + m, n, p) for m, n, p in ((1.0, 1.3, 0.7), (2, 4, 2))
    ]
    a, b = facts(*matrix), facts(*scalar)
    np.testing.assert_allclose(sorted(np.hstack(a)), sorted(np.hstack(b)), rtol=1e-12, atol=1e-14)


@jax.jit
def facts_of_two(q: Family) -> tuple[tuple, list]:
    """The divergence is from the other member of the batch."""
    numbers = (q.log_normalizer(), q.entropy(), q.kl(jax.tree.map(lambda leaf: leaf[::-1], q)))
    return numbers, jax.tree.leaves(
        (q.expected_stats(), q.fisher_solve(q.expected_stats()), tuple(q.mode()))
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_row_and_one_column(dtype: type) -> None:
    """A matrix-normal-Wishart of one row is a normal-Wishart, and of one column a normal-gamma."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(dtype is np.float64):
        m, scale = rng.normal(size=(2, 3)).astype(dtype), np.diag([1.0, 2.0, 0.5]).astype(dtype)
        strength = np.array([[[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 3.0]]] * 2, dtype)
        k, n = np.array([2.0, 0.7], dtype), np.array([5.0, 4.0], dtype)
        one = MatrixNormalWishart.from_parameters(m[:, None], k[:, None, None], n, scale)
        row = NormalWishart.from_parameters(m, k, n, scale)
        pairs = [(one, row)]
        one = MatrixNormalWishart.from_parameters(m[..., None], strength, n, k[:, None, None])
        pairs += [(one, MultivariateNormalGamma.from_parameters(m, strength, n / 2, 0.5 / k))]
        for one, known in pairs:
            for got, wanted in zip(facts_of_two(one), facts_of_two(known), strict=True):
                a, b = (np.sort(np.hstack([np.ravel(x) for x in found])) for found in (got, wanted))
                np.testing.assert_allclose(
                    a, b, rtol=2e-5 if dtype is np.float32 else 1e-12, atol=1e-5
                )


def test_large_degrees_in_float32() -> None:
    """V and the Fisher solve at 1e5 degrees, where terms of size 1e5 cancel: within 1e-3 of float64
    on one draw."""

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
