"""Normals beyond the laws: float32 where differences of large numbers would lose it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from vijax.families import Normal, NormalStats


def test_a_small_divergence_keeps_its_digits() -> None:
    """KL ~ (dv / v)^2 / 4 + dm^2 / (2 v), of order 1e-9, between normals with log-normalisers of
    order one."""
    q = Normal(jnp.float32(0.5), jnp.float32(-0.5))
    p = Normal(jnp.float32(0.5), jnp.float32(-0.5) * (1 + 2**-14))
    r = 2.0**-14
    expected = 0.5 * (r - np.log1p(r) + (1 + r) * (0.5 - 0.5 / (1 + r)) ** 2)
    np.testing.assert_allclose(q.kl(p), expected, rtol=1e-3)


def test_divergence_of_very_different_scales() -> None:
    q, p = Normal.from_mean_variance(0.0, 1e-8), Normal.from_mean_variance(0.0, 1e8)
    np.testing.assert_allclose(q.kl(p), 0.5 * (1e-16 - 1 + 16 * np.log(10)), rtol=1e-6)
    np.testing.assert_allclose(p.kl(q), 0.5 * (1e16 - 1 - 16 * np.log(10)), rtol=1e-6)


def test_v_far_from_the_origin() -> None:
    """V eta in float32 at mean 1e3, variance 1, against the generic route in float64 from the same
    draw."""
    eta = NormalStats(jnp.float32(0.3), jnp.float32(1e-3))
    q = Normal.from_mean_variance(jnp.float32(1e3), 1.0)
    t, v_product = q.pathwise_sample(jax.random.key(0))
    ours = v_product(eta)
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda x: x.astype(jnp.float64), q)
        x, mean, variance = (
            jnp.asarray(a, jnp.float64) for a in (t.value, exact.mean(), exact.variance())
        )
        noise = (x - mean) / jnp.sqrt(variance)
        draw = lambda q: q.stats(q.mean() + jnp.sqrt(q.variance()) * noise)
        eta64 = jax.tree.map(lambda a: a.astype(jnp.float64), eta)
        generic = exact.fisher_solve(exact.as_stats(jax.vjp(draw, exact)[1](eta64)[0]))
    np.testing.assert_allclose(
        ours.negative_half_precision, generic.negative_half_precision, rtol=2e-4
    )
    np.testing.assert_allclose(ours.precision_times_mean, generic.precision_times_mean, rtol=2e-4)


def test_conjugate_update_of_a_mean() -> None:
    """Prior N(0, 4), three observations of variance 2: precision 1/4 + 3/2."""
    y = jnp.array([1.0, 2.0, 4.5])
    prior = Normal.from_mean_variance(0.0, 4.0)
    likelihood = lambda s: jnp.sum(y * s.value - 0.5 * s.square) / 2
    message = prior.with_naturals(jax.grad(likelihood)(prior.expected_stats()))
    posterior = jax.tree.map(jnp.add, prior, message)
    np.testing.assert_allclose(posterior.precision, 1 / 4 + 3 / 2, rtol=1e-6)
    np.testing.assert_allclose(posterior.mean(), 7.5 / 2 / (1 / 4 + 3 / 2), rtol=1e-6)
