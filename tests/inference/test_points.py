"""Points beside the globals: constraints, networks, and what learns them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vijax as vi
from tests.bent_clusters import bent_clusters, network, perceptron
from tests.naming import naming
from vijax import constrain

KEY = jax.random.key(0)


def coin(**points):
    return vi.model(
        prior=lambda hyper: {"bias": vi.Beta.from_alpha_beta(hyper["a"], 1.0)},
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
        hyper={"a": 2.0},
        **points,
    )


def test_a_point_between_bounds_ends_at_the_one_that_the_evidence_wants():
    """One success: p(1 | a) = a / (a + 1) grows with a, up to the bound."""
    model = coin(constraints={"a": constrain.interval(0.5, 4.0)})
    alg = vi.cavi(model, learn=vi.learn("a", optimizer=optax.adam(0.3)))
    fit = vi.fit(alg, np.ones(1, np.float32), key=KEY, num_steps=200)
    assert 3.9 < float(fit.state.hyper["a"]) < 4.0


def test_a_module_with_functions_is_refused_with_the_remedy():
    """As an `equinox.nn.MLP` with its activation."""
    module = {"weights": np.ones(2), "activation": jax.nn.relu}
    words = (
        r"expected a tree of arrays, got one with the function relu\. Equinox: params, static = "
        r"eqx\.partition"
    )
    energy = lambda s, y, h: s["tau"].log - s["tau"].value * y
    globals_ = {"tau": vi.Gamma.from_shape_rate(1.0, 1.0)}
    with pytest.raises(ValueError, match=r"^points\['net'\]: " + words):
        vi.energy_model(globals=globals_, energy=energy, points={"net": module}, example=1.0)
    with pytest.raises(ValueError, match=r"^hyper\['net'\]: " + words):
        vi.model(globals_, lambda s, y, key: (y, None), hyper={"net": module})
    with pytest.raises(ValueError, match=r"^params of encoder: " + words):
        vi.models.vae(
            (jnp.dot, module), (jnp.dot, 1.0), vi.models.observed.gaussian(), latent_dim=1
        )


def test_points_outside_their_constraint_are_refused():
    with pytest.raises(
        ValueError,
        match=naming("hyper['a']:", "low=3.0", "high=4.0", "2.0"),
    ):
        vi.cavi(coin(constraints={"a": constrain.interval(3.0, 4.0)}), learn=("a",))
    with pytest.raises(ValueError, match=naming("learn:", "'a'", "'b'")):
        vi.cavi(coin(), learn=("b",))


# --- networks beside conjugate globals: a structured variational autoencoder ----------------------
def autoencoder_bound(stats, y, key, points):
    """q(z, x) = r_z N(x; m_z, v_z), conjugate given the encoder's site (Johnson et al. 2016); the
    decoder's term by one draw a class."""
    s = stats["parts"]
    h, log_j = jnp.moveaxis(network(points["encoder"], y), -1, 0)
    precision = s.precision + jnp.exp(log_j)[:, None]
    pull = s.precision_times_mean + h[:, None]
    m, v = pull / precision, 1 / precision
    base = 0.5 * (s.log_precision - s.precision_times_square) - 0.5 * jnp.log(2 * jnp.pi)
    log_r = jax.nn.log_softmax(stats["weights"].log + base + 0.5 * pull * m + 0.5 * jnp.log(v), -1)
    log_px = base + s.precision_times_mean * m - 0.5 * s.precision * (m**2 + v)
    draw = m + jnp.sqrt(v) * jax.random.normal(key, m.shape)
    miss = (y[:, None, :] - network(points["decoder"], draw[..., None])) / points["sd"]
    log_py = jnp.sum(-0.5 * miss**2 - jnp.log(points["sd"]) - 0.5 * jnp.log(2 * jnp.pi), -1)
    entropy = 0.5 * jnp.log(2 * jnp.pi * jnp.e * v) - log_r
    return jnp.sum(
        jnp.exp(log_r) * (stats["weights"].log + log_px + log_py + entropy), -1
    ), jnp.exp(log_r)


@pytest.mark.slow
def test_networks_learn_beside_conjugate_globals_in_one_step():
    """Three clusters bent by a sine: natural gradients for weights and components, Adam by name for
    the networks."""
    y, z = bent_clusters()
    num = len(y)
    start = vi.NormalGamma.from_parameters(jnp.array([-2.0, 0.0, 2.0]), 5.0, 5.0, 3.0)
    model = vi.model(
        prior={
            "weights": vi.Dirichlet.from_concentration(jnp.ones(3)),
            "parts": vi.NormalGamma.from_parameters(jnp.zeros(3), 0.1, 2.0, 1.0),
        },
        local_elbo=autoencoder_bound,
        init=lambda key, prior: prior.replace({"parts": start}),
        hyper={
            "encoder": perceptron(jax.random.key(1), [2, 32, 2]),
            "decoder": perceptron(jax.random.key(2), [1, 32, 2]),
            "sd": 1.0,
        },
        constraints={"encoder": constrain.real(), "decoder": constrain.real()},
    )
    assert "decoder of 130 numbers" in repr(model)
    labels = {"encoder": "network", "decoder": "network", "sd": "noise"}
    optimizer = optax.multi_transform(
        {"network": optax.adam(3e-3), "noise": optax.adam(1e-2)}, labels
    )
    steps = vi.step_size.robbins_monro(0.2 * 50**0.6, 50, 0.6)
    alg = vi.svi(
        model, learn=vi.learn("encoder", "decoder", "sd", optimizer=optimizer), step_size=steps
    )
    fit = vi.fit(alg, y, num_steps=4000, batch_size=100, key=KEY)
    found = np.asarray(fit.locals(y, key=KEY)).argmax(1)
    assert (
        max(np.mean(np.array(order)[found] == z) for order in itertools.permutations(range(3)))
        > 0.98
    )
    assert np.mean(fit.trace["elbo"][-200:]) / num > -2.3  # measured: -2.06, from -4.8
    np.testing.assert_allclose(fit.posterior["weights"].concentration.sum(), 3 + num, rtol=1e-4)
    assert 0.08 < float(fit.state.hyper["sd"]) < 0.25  # .1 is true


def test_gradients_of_networks_are_those_of_the_bound():
    """One step of plain gradient descent moves a network's weight along the derivative of the
    bound, by differences."""
    bound = lambda s, y, key, points: (-0.5 * (y - s["z"].value * points["w"]) ** 2, None)
    prior = {"z": vi.Normal.from_mean_variance(1.5, 0.2)}
    model = vi.model(prior, bound, hyper={"w": jnp.array(0.7)}, constraints={"w": constrain.real()})
    alg = vi.svi(model, learn=vi.learn("w", optimizer=optax.sgd(1e-3)), num_groups=30)
    state = alg.init(KEY)
    y = jnp.array([0.3, 2.0, -1.0])
    new, _ = jax.jit(alg.step)(KEY, state, y)
    slope = 30 / 3 * jnp.sum((y - 1.5 * 0.7) * 1.5)
    np.testing.assert_allclose(float(new.hyper["w"]) - 0.7, 1e-3 * slope, rtol=1e-4)
