"""SSVI's expected message against the gradient of the ELBO, both by quadrature, on a model of two
parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax.families.scalar import gamma
from vijax.families.scalar.gamma import GammaStats
from vijax.inference import estimator
from vijax.inference.estimator.base import estimate

KEY = jax.random.key(0)
SHAPE, RATE = 1.3, 0.6
PRIOR = {"shape": 0.9, "rate": 0.4}


def local(s):
    """A bound that is not linear in the statistics of a gamma: a mixture of two Poisson-like
    terms."""
    return jnp.logaddexp(0.7 + 3 * s.log - s.value, -1.0 + 0.5 * s.log - 0.2 * s.value)


def nodes():
    """x and weights q(x) dx, by the trapezoidal rule in log x, which converges geometrically."""
    y = np.linspace(-30, 5, 3000)
    x = np.exp(y)
    return x, stats.gamma(SHAPE, scale=1 / RATE).pdf(x) * x * (y[1] - y[0])


def ascent_direction(x, w):
    """F^-1 grad_lambda ELBO: grad E_q[l] = Cov_q(t, l), no derivative of a draw in it; F =
    Cov_q(t); and the gap between prior and posterior."""
    t = np.stack([np.log(x), x])
    ell = np.asarray(local(GammaStats(*map(jnp.asarray, t))))
    centred = t - (t @ w)[:, None]
    gradient = centred @ (w * ell)
    fisher = (centred * w) @ centred.T
    return np.array([PRIOR["shape"] - SHAPE, RATE - PRIOR["rate"]]) + np.linalg.solve(
        fisher, gradient
    )


@pytest.mark.parametrize("control_variate", [True, False])
def test_expected_message_is_the_gradient_of_the_elbo(monkeypatch, control_variate):
    with jax.enable_x64(True):
        x, w = nodes()
        np.testing.assert_allclose(w.sum(), 1, rtol=1e-12)
        offset = jnp.asarray(np.log(RATE * x) - np.log(SHAPE + 2 / 3))
        monkeypatch.setattr(
            gamma, "sample_offset", lambda key, a, shape=(): offset
        )  # the draws are the nodes
        full = lambda shape, rate: vi.Product(
            {"x": vi.Gamma.from_shape_rate(jnp.full(len(x), shape), jnp.full(len(x), rate))}
        )
        q, prior = full(SHAPE, RATE), full(**PRIOR)
        rule = {"x": estimator.ssvi(damping=1.0, control_variate=control_variate)}
        bound = lambda s, theta: (jnp.sum(local(s["x"])), None)
        key = jax.random.key(0)
        message = jax.jit(
            lambda q, prior: estimate(rule, ["x"], key, q, prior, 0.0, bound, {}).natural
        )
        natural = message(q, prior)
        direction = jax.tree.map(lambda p, m, lam: (p + m - lam) @ w, prior, natural, q)
        rule = {"x": estimator.ssvi_a()}
        plain = jax.jit(
            lambda q, prior: estimate(rule, ["x"], key, q, prior, 0.0, bound, {}).natural
        )(q, prior)
        biased = jax.tree.map(lambda p, m, lam: (p + m - lam) @ w, prior, plain, q)
        expected = ascent_direction(x, w)
    np.testing.assert_allclose(jax.tree.leaves(direction), expected, rtol=1e-6)
    assert np.max(np.abs(np.array(jax.tree.leaves(biased)) - expected)) > 1e-2  # V is not idle


PROXIMAL = {"mirror": vi.update.mirror(), "euclidean": vi.update.euclidean()}


def stepped(name, size, **choices):
    """Natural parameters after a step of this beta, of one and the same draw: of SSVI-A, or of SSVI
    by its choices."""
    row, prior = vi.ssvi if choices else vi.ssvi_a, vi.Normal.from_mean_variance(0.3, 0.5)
    said = lambda s, y, key: (
        y * s["z"].value - jnp.logaddexp(0.0, s["z"].value) - 0.1 * s["z"].square,
        None,
    )
    model = vi.model({"z": prior}, said)
    alg = vi.whole(row(model, update=PROXIMAL[name], step_size=vi.step_size.beta(size), **choices))
    return np.array(
        jax.tree.leaves(jax.jit(alg.step)(KEY, alg.init(KEY), jnp.array([0.4, 1.3]))[0].posterior)
    )


@pytest.mark.parametrize("name", PROXIMAL)
def test_v_has_no_share_in_steps_of_beta_one_and_more(name):
    """tau_t = tau (1 - rho_t) lies between 0 and tau: a beta above one leaves nothing of the old
    posterior."""
    with jax.enable_x64(True):
        np.testing.assert_allclose(stepped(name, 1.7, damping=1.0), stepped(name, 1.7), rtol=1e-9)


def test_below_one_the_share_of_v_is_in_proportion_to_the_damping():
    """Of a step that is linear in the message."""
    with jax.enable_x64(True):
        plain, full, damped = (
            stepped("euclidean", 0.4, **more) for more in ({}, {"damping": 1.0}, {"damping": 0.3})
        )
        assert np.max(np.abs(full - plain)) > 1e-3
        np.testing.assert_allclose(damped - plain, 0.3 * (full - plain), rtol=1e-7)
