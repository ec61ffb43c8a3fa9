"""Flows of flowjax as guides: against quadrature, derivatives by differences, and an exact log
evidence."""

import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.scipy.stats import norm

import vijax as vi
from tests.naming import naming
from vijax import extras
from vijax.families.vector import coupling_flow

KEY = jax.random.key(0)


def made(sd=0.7):
    return vi.guides.flow(layers=3, width=8, depth=1).member(jnp.array([0.5, -1.0]), sd)


def test_the_density_is_that_of_the_draws():
    """It integrates to one on a grid, and its means over the grid are those of draws."""
    pytest.importorskip("flowjax")
    q = made()
    axis = np.linspace(-7, 7, 281)
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)
    density, draws = jax.jit(lambda q: (jnp.exp(q.log_prob(x)), q.sample(KEY, (20_000,))))(q)
    density = np.asarray(density, np.float64) * (axis[1] - axis[0]) ** 2
    assert density.sum() == pytest.approx(1.0, abs=2e-3)
    mean, draws = density @ x, np.asarray(draws, np.float64)
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.03)
    np.testing.assert_allclose(draws.var(0), density @ x**2 - mean**2, rtol=0.05)
    np.testing.assert_allclose(q.mean(), mean, atol=0.02)
    np.testing.assert_allclose(q.variance(), density @ x**2 - mean**2, rtol=0.05)
    entropy = -np.sum(density * np.log(density / (axis[1] - axis[0]) ** 2 + 1e-30))
    assert float(q.entropy()) == pytest.approx(entropy, abs=0.1)
    assert float(q.kl(q)) == pytest.approx(0.0, abs=1e-4)
    assert float(q.kl(made(1.0))) > 0.05


def test_slopes_and_moves_by_differences():
    pytest.importorskip("flowjax")
    q, x = made(), jnp.array([0.2, 0.3])
    slope = jax.grad(q.log_prob)(x)
    np.testing.assert_allclose(q.slope(q.stats(x), q).value, slope)
    draw, pull = q.pathwise_sample(KEY)
    moved = pull(q.stats(jnp.array([1.0, 0.0])))
    np.testing.assert_allclose(moved.center, [1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(moved.log_sd[0], draw.value[0] - q.center[0], rtol=1e-4)


def bent(v):
    return norm.logpdf(v["x"]) + norm.logpdf(v["y"], v["x"] ** 2, 0.5)


def test_it_bends_where_no_normal_does():
    """y = x^2 + noise: log evidence 0, of which a normal misses 0.57 nats; E[y] = 1."""
    pytest.importorskip("flowjax")
    model = vi.density({"x": vi.free(), "y": vi.free()}, bent)
    guide = vi.guides.flow(layers=6, width=16, depth=1)
    alg = vi.advi(model, guide=guide, num_samples=32, optimizer=optax.adam(3e-3))
    q = vi.fit(alg, num_steps=1500, key=KEY).posterior["free"]
    x = q.sample(jax.random.key(1), (4000,))
    elbo = float(jnp.mean(jax.vmap(model.free.log_prior_at)(x) - q.log_prob(x)))
    assert elbo > -0.25
    assert float(q.mean()[1]) == pytest.approx(1.0, abs=0.25)
    plain = vi.advi(model, guide=guide)  # optimisers of optax do not pickle
    assert pickle.loads(pickle.dumps(plain)).step == plain.step


def test_what_it_cannot_have_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="layers"):
        vi.guides.flow(layers=0)
    with pytest.raises(ValueError, match=naming("guide:", "guides.mixture")):
        vi.guides.flow().member(jnp.zeros(1), 1.0)
    monkeypatch.setitem(sys.modules, "flowjax", None)
    monkeypatch.setitem(sys.modules, "flowjax.flows", None)
    coupling_flow.parts.cache_clear()
    with pytest.raises(
        ImportError, match=r"flowjax is needed for this and is not installed: pip install flowjax"
    ):
        vi.guides.flow().member(jnp.zeros(2), 1.0)
    assert "flows" in extras.missing("flowjax", "flowjax", "flows")
