"""Gaussian chains against the dense joint normal; masks, short chains, long chains in float32."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import gaussian_potentials
from tests.rounding import rounding
from vijax.families import Family, LinearGaussianChain, MultivariateNormal
from vijax.families.chain import gaussian_chains as chains

T, D = 4, 2


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def one_chain(steps: int = T) -> tuple:
    q = LinearGaussianChain.from_potentials(**gaussian_potentials(0, 1, T, D))
    return q.linear[0][:steps], q.negative_half_precision[0][:steps], q.coupling[0][: steps - 1]


def dense(linear, square, cross) -> MultivariateNormal:
    """The joint normal of all steps, by its block-tridiagonal precision."""
    steps, d = linear.shape
    precision = np.zeros((steps, d, steps, d))
    for t in range(steps):
        precision[t, :, t, :] = -(square[t] + square[t].T)
    for t in range(steps - 1):
        precision[t, :, t + 1, :] = -cross[t]
        precision[t + 1, :, t, :] = -cross[t].T
    precision = precision.reshape(steps * d, steps * d)
    return MultivariateNormal.from_mean_precision(
        np.linalg.solve(precision, linear.reshape(-1)), precision
    )


def moments_of(joint: MultivariateNormal, steps: int) -> tuple:
    mean = np.asarray(joint.mean()).reshape(steps, D)
    second = np.asarray(joint.expected_stats().outer).reshape(steps, D, steps, D)
    pairs = [second[t, :, t + 1, :] for t in range(steps - 1)]
    return (
        mean,
        np.stack([second[t, :, t, :] for t in range(steps)]),
        np.reshape(pairs, (steps - 1, D, D)),
    )


@jax.jit
def bounds(mask, potentials):
    def log_normalizer(p):
        return chains.chain_log_normalizer(chains.eliminate(chains.mask_potentials(p, mask)))

    kept = chains.mask_potentials(potentials, mask)
    chain = chains.eliminate(kept)
    moments = chains.chain_moments(chain, kept[2])
    return (
        *jax.value_and_grad(log_normalizer)(potentials),
        chains.chain_entropy(chain, mask),
        moments,
    )


def test_masked_chains_are_the_dense_normals_of_their_length(x64) -> None:
    """Lengths 0 to T, with nonsense where padded: A and its gradient, moments and entropy."""
    for length in range(T + 1):
        mask = np.arange(T) < length
        linear, square, cross = one_chain()
        spoilt = (
            jnp.where(mask[:, None], linear, jnp.nan),
            jnp.where(mask[:, None, None], square, jnp.nan),
            jnp.where(mask[1:, None, None], cross, jnp.nan),
        )
        value, gradient, entropy, moments = bounds(jnp.asarray(mask), spoilt)
        if length == 0:
            np.testing.assert_allclose([value, entropy], 0.0, atol=1e-12)
            assert not any(np.any(g) for g in gradient)
            continue
        joint = dense(*map(np.asarray, one_chain(length)))
        np.testing.assert_allclose(
            [value, entropy], [joint.log_normalizer(), joint.entropy()], rtol=1e-10
        )
        for got, backward, want in zip(gradient, moments, moments_of(joint, length), strict=True):
            np.testing.assert_allclose(got[: len(want)], want, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(backward[: len(want)], want, rtol=1e-9, atol=1e-12)
            assert not np.any(got[len(want) :])


def test_densities_and_divergences_are_the_dense_normals(x64) -> None:
    q = LinearGaussianChain.from_potentials(**gaussian_potentials(0, 2, T, D))
    a, b = (jax.tree.map(lambda leaf, i=i: leaf[i], q) for i in range(2))
    dense_a, dense_b = (dense(*map(np.asarray, jax.tree.leaves(x))) for x in (a, b))
    x = np.random.default_rng(0).normal(size=(5, T, D))
    np.testing.assert_allclose(
        a.log_prob(x), [dense_a.log_prob(y.reshape(-1)) for y in x], rtol=1e-10
    )
    np.testing.assert_allclose(a.kl(b), dense_a.kl(dense_b), rtol=1e-9)
    same = chains.chain_from_moments(tuple(a.expected_stats()))
    for got, want in zip(same, jax.tree.leaves(a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_draws_have_the_joint_covariance() -> None:
    """36 entries over 20,000 draws at 6 standard errors."""
    q = LinearGaussianChain(*one_chain(3))
    joint = dense(*map(np.asarray, jax.tree.leaves(q)))
    x = np.asarray(q.sample(jax.random.key(0), (20_000,)), np.float64).reshape(
        -1, 3 * D
    ) - np.asarray(joint.mean())
    cov = np.asarray(joint.cov)
    error = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / len(x))
    assert np.all(np.abs(x.T @ x / len(x) - cov) < 6 * error)


def test_dynamics_are_what_they_say(x64) -> None:
    """x_{t+1} = A x_t + noise: means A^t m, covariances A V A' + Q, cross E[x_t x_{t+1}'] = (V + m
    m') A'; A equals that of normalised factors, whose product is a density."""
    a, m, v, noise = (
        np.array([[0.9, 0.2], [-0.3, 0.7]]),
        np.array([1.0, -2.0]),
        np.diag([1.0, 0.5]),
        np.diag([0.2, 0.4]),
    )
    q = LinearGaussianChain.from_dynamics(m, v, a, noise, num_steps=4)
    for t in range(4):
        np.testing.assert_allclose(q.mean()[t], m, rtol=1e-10, atol=rounding(m))
        np.testing.assert_allclose(q.cov[t], v, rtol=1e-10, atol=rounding(v))
        if t < 3:
            want = (v + np.outer(m, m)) @ a.T
            np.testing.assert_allclose(
                q.expected_stats().cross[t], want, rtol=1e-9, atol=rounding(want)
            )
        m, v = a @ m, a @ v @ a.T + noise


def test_one_step_is_a_normal() -> None:
    q = LinearGaussianChain(*one_chain(1))
    p = MultivariateNormal(q.linear[0], q.negative_half_precision[0])
    np.testing.assert_allclose(q.log_normalizer(), p.log_normalizer(), rtol=1e-6)
    assert q.sample(jax.random.key(0), (3,)).shape == (3, 1, D)
    g = q.expected_stats()
    solved = p.fisher_solve(p.expected_stats())
    np.testing.assert_allclose(
        q.fisher_solve(g).linear[0], solved.precision_times_mean, rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("num_steps", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_long_chains_in_float32(num_steps: int) -> None:
    """In 4 dimensions of a slow process: moments within 1e-4 of float64."""
    dynamics = {
        "initial_mean": np.ones(4),
        "initial_cov": np.eye(4),
        "transition": 0.99 * np.eye(4),
        "noise_cov": 0.1 * np.eye(4) + 0.02,
    }

    observed = np.random.default_rng(0).normal(size=(num_steps, 4))

    @jax.jit
    def facts(dynamics):
        q = LinearGaussianChain.from_dynamics(**dynamics, num_steps=num_steps)
        y, eye = (jnp.asarray(x, q.linear.dtype) for x in (observed, np.eye(4)))
        q = LinearGaussianChain(q.linear + y, q.negative_half_precision - 0.5 * eye, q.coupling)
        return q.log_normalizer(), q.entropy(), q.expected_stats()

    single = jax.tree.leaves(facts(jax.tree.map(jnp.asarray, dynamics)))
    with jax.enable_x64(True):
        double = jax.tree.leaves(facts(jax.tree.map(jnp.asarray, dynamics)))
    for a, b in zip(single, double, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_covariances_and_divergences_keep_their_digits_far_from_zero() -> None:
    """Means of 1,000 with standard deviations of 0.1, in float32: covariances and divergences of
    float64's parameters are within 1e-3, and no divergence is negative."""
    arguments = {
        "initial_cov": 0.01 * np.eye(2),
        "transition": 0.9 * np.eye(2),
        "noise_cov": 0.01 * np.eye(2),
    }
    means = np.full((3, 2), 1e3) + np.array([[0.0], [0.1], [0.0]])
    single = [LinearGaussianChain.from_dynamics(m, num_steps=3, **arguments) for m in means]
    single[2] = dataclasses.replace(
        single[2], negative_half_precision=1.5 * single[2].negative_half_precision
    )
    with jax.enable_x64(True):
        double = [jax.tree.map(lambda x: jnp.asarray(np.float64(x)), q) for q in single]
        cov, want = np.asarray(double[0].cov), [float(double[0].kl(p)) for p in double]
        dense_want = [float(Family.kl(double[0], p)) for p in double]
    np.testing.assert_allclose(want, dense_want, rtol=1e-6, atol=1e-4)  # A is of the order of 1e8
    np.testing.assert_allclose(single[0].cov, cov, rtol=1e-4, atol=1e-8)
    got = [float(single[0].kl(p)) for p in single]
    assert min(got) >= 0.0
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_the_conjugate_of_a_precise_path_keeps_its_digits() -> None:
    """A - <lambda, mu> of a path known to .01, which is 1 from zero, in float32: within .01 of
    float64, where the difference of the two is off by ten times that."""
    rng, steps = np.random.default_rng(0), 400
    coupling = np.broadcast_to(1e4 * np.eye(2), (steps - 1, 2, 2))
    square = np.broadcast_to(-2e4 * np.eye(2), (steps, 2, 2))
    linear = 2e4 * np.cos(np.arange(steps) / 9.0)[:, None] + rng.normal(size=(steps, 2))

    def both(dtype: type) -> tuple[float, float]:
        q = LinearGaussianChain(*(jnp.asarray(x, dtype) for x in (linear, square, coupling)))
        mean = q.expected_stats()
        return float(q.negative_conjugate(mean)), float(q.log_normalizer() - q.dot(mean))

    with jax.enable_x64(True):
        truth, same = both(np.float64)
    kept, lost = both(np.float32)
    assert abs(truth - same) < 1e-6
    assert abs(kept - truth) < 0.01
    assert abs(lost - truth) > 0.1
