"""The mixture of normals against SciPy's densities, and against quadrature of what its parameters
do to means."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.families.vector.normal_mixture import NormalMixture

KEY = jax.random.key(0)
GRID = np.linspace(-9, 9, 361)
PLANE = np.stack(np.meshgrid(GRID, GRID, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)
CELL = (GRID[1] - GRID[0]) ** 2


@functools.lru_cache
def made(dim=2, size=3):
    rng = np.random.default_rng(0)
    arrays = (
        rng.normal(size=size),
        rng.normal(size=(size, dim)),
        0.4 * rng.normal(size=(size, dim, dim)),
    )
    return NormalMixture(*(jnp.asarray(a, jnp.float32) for a in arrays))


def exact(q, x):
    """The density by SciPy, in float64."""
    weights = np.exp(np.asarray(q.logits, np.float64))
    total = 0.0
    for w, center, triangle in zip(
        weights / weights.sum(), q.center, np.asarray(q.triangle, np.float64), strict=True
    ):
        factor = np.exp(np.diag(triangle))[:, None] * (
            np.tril(triangle, -1) + np.eye(len(triangle))
        )
        total = total + w * stats.multivariate_normal(
            np.asarray(center, np.float64), factor @ factor.T
        ).pdf(x)
    return total


def test_density_slope_and_entropy():
    q = made()
    density = exact(q, PLANE.astype(np.float64))
    ours = np.asarray(jax.jit(lambda q: q.log_prob(PLANE))(q), np.float64)
    np.testing.assert_allclose(np.exp(ours), density, rtol=2e-3, atol=1e-7)
    entropy = -np.sum(density * np.log(np.maximum(density, 1e-300))) * CELL
    assert float(q.entropy()) == pytest.approx(entropy, abs=0.03)
    x, step = np.array([0.3, -0.7]), 1e-5
    moved = [np.log(exact(q, x + e) / exact(q, x - e)) / (2 * step) for e in step * np.eye(2)]
    np.testing.assert_allclose(
        q.slope(q.stats(jnp.asarray(x, jnp.float32)), q).value, moved, rtol=1e-3
    )


def test_moments_and_marginals():
    q = made()
    density = exact(q, PLANE.astype(np.float64)) * CELL
    mean = density @ PLANE
    gap = PLANE - mean
    cov = (gap * density[:, None]).T @ gap
    said = jax.jit(
        lambda q: (q.mean(), q.cov, q.variance(), q.quantile(0.2), q.cdf(q.quantile(0.2)))
    )(q)
    np.testing.assert_allclose(said[0], mean, atol=1e-4)
    np.testing.assert_allclose(said[1], cov, rtol=1e-3)
    np.testing.assert_allclose(said[2], np.diag(cov), rtol=1e-3)
    table = np.cumsum(density.reshape(len(GRID), -1).sum(1))
    at = np.asarray(said[3])[0]
    assert np.interp(at, GRID + (GRID[1] - GRID[0]) / 2, table) == pytest.approx(0.2, abs=1e-3)
    np.testing.assert_allclose(said[4], 0.2, atol=1e-5)
    draws = np.asarray(jax.jit(lambda q: q.sample(KEY, (40_000,)))(q), np.float64)
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * np.sqrt(cov.diagonal() / 40_000))
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.06)


def test_draws_move_with_every_parameter_as_means_do():
    """The derivative of E[f] by quadrature, within 5 standard errors of the mean over draws."""
    q = made()
    f = lambda x: jnp.sin(x[..., 0]) * x[..., 1] + x[..., 0] ** 2
    size, parts = 20_000, 20
    mean = lambda q, key: jnp.mean(f(q.sample(key, (size // parts,))))
    found = jax.jit(jax.vmap(jax.grad(mean), (None, 0)))(q, jax.random.split(KEY, parts))
    right = jax.jit(jax.grad(lambda q: CELL * jnp.sum(jnp.exp(q.log_prob(PLANE)) * f(PLANE))))(q)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(right), strict=True):
        ours = np.asarray(ours, np.float64)
        error = ours.std(0) / np.sqrt(parts)
        assert np.all(np.abs(ours.mean(0) - theirs) < 5 * error + 1e-3)
        assert np.abs(theirs).max() > 0.05


def test_derivatives_are_finite_far_out_in_float32():
    q = NormalMixture(jnp.zeros(2), jnp.array([[-30.0], [30.0]]), jnp.full((2, 1, 1), -3.0))
    total = lambda q: jnp.sum(q.sample(KEY, (200,)))
    slopes = jax.jit(jax.grad(total))(q)
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(slopes))
    np.testing.assert_allclose(
        jnp.sum(slopes.center), 200.0, rtol=1e-3
    )  # what both centres move, all draws do


def test_the_divergence_is_bounded_from_above_and_exact_of_one_component():
    p, q = made(), made().with_naturals([0.8 * x for x in jax.tree.leaves(made())])
    densities = [exact(r, PLANE.astype(np.float64)) for r in (p, q)]
    divergence = np.sum(densities[0] * np.log(densities[0] / densities[1])) * CELL
    kl = jax.jit(lambda p, q: p.kl(q))
    bound, nothing = float(kl(p, q)), float(kl(p, p))
    assert divergence <= bound < divergence + 1.0
    assert nothing == pytest.approx(0.0, abs=1e-5)
    one, two = (jax.tree.map(lambda x: x[:1], r) for r in (p, q))
    parts = (jax.tree.map(lambda x: x[0], r.components) for r in (one, two))
    assert float(kl(one, two)) == pytest.approx(float(kl(*parts)), rel=1e-5)


def humps(v):
    return jnp.logaddexp(
        jnp.log(0.3) - 0.5 * (v["x"] - 2) ** 2, jnp.log(0.7) - 0.5 * (v["x"] + 2) ** 2
    )


def test_advi_finds_weights_and_places_of_two_modes():
    alg = vi.advi(
        vi.density({"x": vi.free()}, humps),
        guide=vi.guides.mixture(2),
        num_samples=8,
        optimizer=optax.adam(optax.cosine_decay_schedule(0.05, 1500)),
    )
    fit = vi.fit(alg, num_steps=1500, key=KEY)
    q = fit.posterior["free"]
    order = np.argsort(np.asarray(q.center[:, 0]))
    np.testing.assert_allclose(q.center[order, 0], [-2.0, 2.0], atol=0.02)
    np.testing.assert_allclose(q.weights[order], [0.7, 0.3], atol=0.01)
    np.testing.assert_allclose(jnp.exp(q.triangle[:, 0, 0]), 1.0, atol=0.02)
    assert float(q.mean()[0]) == pytest.approx(-0.8, abs=0.05)
    inside = vi.fit(alg, num_steps=5, key=KEY, state=fit.state)
    assert float(inside.posterior["free"].mean()[0]) == pytest.approx(-0.8, abs=0.1)


def test_what_it_cannot_have_is_refused():
    model = vi.density({"x": vi.free()}, humps)
    with pytest.raises(ValueError, match="components: expected an integer >= 1"):
        vi.guides.mixture(0)
    with pytest.raises(
        ValueError,
        match=naming("estimator:", "sticking=True", "'free'", "NormalMixture"),
    ):
        vi.advi(model, guide=vi.guides.mixture(2), estimator=vi.estimator.reparameterised(4))
    with pytest.raises(ValueError, match="no exponential family"):
        vi.ngvi(model, guide=vi.guides.mixture(2))
