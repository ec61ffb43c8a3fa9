"""Gibbs sweeps and coordinate ascent of locals that depend on each other, against enumeration."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi

A, B, C = 0.6, -0.8, 1.7  # log p(z1, z2) = A z1 + B z2 + C w z1 z2, the global w at 1
STATES = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
ENERGY = STATES @ [A, B] + C * STATES[:, 0] * STATES[:, 1]
EVIDENCE = np.log(np.sum(np.exp(ENERGY)))
JOINT = np.exp(ENERGY - EVIDENCE).reshape(2, 2)
START = 0.3  # probability of z = 1 where the chain starts


def coupled(order=("w", "z1", "z2")):
    def energy(s, y):
        z1, z2 = s["z1"].value, s["z2"].value
        return A * z1 + B * z2 + C * s["w"].value * z1 * z2 + 0.0 * y

    start = vi.Bernoulli.from_probs(START)
    return vi.energy_model(
        globals={"w": vi.Normal.from_mean_variance(1.0, 1.0)},
        locals={"z1": start, "z2": start},
        energy=energy,
        example=0.0,
        structure=vi.Structure(order=order),
    )


def messages_and_values(model, estep, num_keys, point):
    """For each key: the gradient of the bound of one group in the statistics of the globals, and
    its value."""
    stats = model.prior({}).stats(point)
    batch = vi.Minibatch(jnp.zeros(1), None)

    def one(key):
        bound = lambda s: model.local_elbo({}, s, batch, key, estep).total
        return jax.value_and_grad(bound)(stats)

    values, grads = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), num_keys))
    return np.asarray(values, np.float64), jax.tree.map(lambda g: np.asarray(g, np.float64), grads)


def transition():
    """K[z1', z2', z1, z2] of one sweep: z1 given z2', then z2 given z1."""
    one = JOINT / JOINT.sum(0, keepdims=True)  # p(z1 | z2)
    two = JOINT / JOINT.sum(1, keepdims=True)  # p(z2 | z1)
    return np.broadcast_to((one.T[:, :, None] * two[None])[None], (2, 2, 2, 2))


def law_of_the_chain(num_sweeps, burn_in):
    """Means of z1 z2 and of log p(y, z) - log K(z | z') over the sweeps that are kept, exactly."""
    kernel = transition()
    law = np.outer([1 - START, START], [1 - START, START])
    product = value = 0.0
    for sweep in range(burn_in + num_sweeps):
        pairs = law[:, :, None, None] * kernel
        if sweep >= burn_in:
            product += pairs.sum((0, 1))[1, 1] / num_sweeps
            value += np.sum(pairs * (ENERGY.reshape(2, 2) - np.log(kernel))) / num_sweeps
        law = pairs.sum((0, 1))
    return product, value


def entropy(p):
    return -np.sum(p * np.log(p))


@pytest.mark.parametrize(
    ("num_sweeps", "burn_in", "num_keys"), [(1, 0, 40_000), (1, 1, 40_000), (5, 0, 10_000)]
)
def test_gibbs_after_few_sweeps_follows_the_law_of_the_chain(num_sweeps, burn_in, num_keys):
    """Message and value against the chain enumerated from its start; the value is below the
    evidence on average."""
    estep = vi.estep.gibbs(num_sweeps, burn_in)
    values, grads = messages_and_values(coupled(), estep, num_keys, {"w": jnp.float32(1.0)})
    product, value = law_of_the_chain(num_sweeps, burn_in)
    assert value < EVIDENCE
    for got, expected in ((grads["w"].value / C, product), (values, value)):
        assert abs(got.mean() - expected) < 6 * got.std() / np.sqrt(num_keys) + 1e-6
        assert got.std() / np.sqrt(num_keys) < 5e-3


def test_gibbs_after_many_sweeps_is_the_expected_product_and_han_s_bound():
    values, grads = messages_and_values(
        coupled(), vi.estep.gibbs(2000, 20), 20, {"w": jnp.float32(1.0)}
    )
    erasure = entropy(JOINT) - entropy(JOINT.sum(0)), entropy(JOINT) - entropy(JOINT.sum(1))
    expected = EVIDENCE - entropy(JOINT) + sum(erasure)
    product, value = law_of_the_chain(1, 200)
    np.testing.assert_allclose([product, value], [JOINT[1, 1], expected], rtol=1e-12)
    marginals = JOINT[1].sum() * JOINT[:, 1].sum()
    for got, exact in ((grads["w"].value / C, product), (values, value)):
        error = got.std() / np.sqrt(len(got))
        assert abs(got.mean() - exact) < 6 * error
        assert error < 0.1 * (product - marginals)


def test_coordinate_ascent_visits_blocks_in_turn():
    """One sweep from the start, in the order asked for: the second block sees what the first has
    become."""
    sigmoid = lambda x: 1 / (1 + np.exp(-x))
    step = vi.estep.mean_field(max_iters=1)
    for order in (("w", "z1", "z2"), ("w", "z2", "z1")):
        model = coupled(order)
        batch = vi.Minibatch(jnp.zeros(1), None)
        stats = model.prior({}).stats({"w": jnp.float32(1.0)})
        local = model.local_elbo({}, stats, batch, jax.random.key(0), step).local
        own = {"z1": A, "z2": B}
        first, second = order[1:]
        p = sigmoid(own[first] + C * START)
        np.testing.assert_allclose(local[first].probs, [p], rtol=1e-5)
        np.testing.assert_allclose(local[second].probs, [sigmoid(own[second] + C * p)], rtol=1e-5)


# --- the models of the library whose locals are coupled -------------------------------------------
@functools.cache
def factorial():
    """Two chains of two states over two steps, and log p(y, path) of the sixteen joint paths, by
    the energy itself at one-hot statistics."""
    model = vi.models.factorial_hmm(1, 2, 2)
    point = {
        "initial": jnp.array([[0.6, 0.4], [0.3, 0.7]]),
        "transition": jnp.array([[[0.8, 0.2], [0.3, 0.7]], [[0.5, 0.5], [0.1, 0.9]]]),
        "contributions": vi.families.CoefficientsPrecision(
            jnp.array([[1.0, -0.5, 0.8, -0.9]]), jnp.array([1.5])
        ),
    }
    data = vi.models.pad([np.array([[0.4], [-0.7]])])
    return model, model.prior({}).stats(point), jax.tree.map(jnp.asarray, data)


def enumerated(model, stats, group, values):
    """Gradient of log p(y | globals) in their statistics, as posterior mean of the gradients of all
    joint values."""
    templates = model.queries["energy"].locals(group)

    def energy(stats, z):
        return model.queries["energy"].fn(
            {**stats, **{n: templates[n].stats(z[n]) for n in z}}, group, {}
        )

    logs, grads = jax.jit(jax.vmap(jax.value_and_grad(energy), (None, 0)))(stats, values)
    logs = np.asarray(logs, np.float64)
    posterior = np.exp(logs - np.logaddexp.reduce(logs))
    return jax.tree.map(lambda g: np.tensordot(posterior, np.asarray(g, np.float64), 1), grads)


def check_messages(model, stats, data, exact, num_keys=4000, estep=None):
    batch = vi.Minibatch(data, None)
    estep = estep or vi.estep.gibbs(num_sweeps=2, burn_in=12)
    grad = jax.grad(lambda s, key: model.local_elbo({}, s, batch, key, estep).total)
    draws = jax.jit(jax.vmap(grad, (None, 0)))(stats, jax.random.split(jax.random.key(2), num_keys))
    for got, expected in zip(jax.tree.leaves(draws), jax.tree.leaves(exact), strict=True):
        got = np.asarray(got, np.float64)
        error = got.std(0) / np.sqrt(num_keys)
        assert np.all(np.abs(got.mean(0) - expected) <= 6 * error + 1e-4 * np.max(np.abs(expected)))


def test_factorial_hidden_markov_model_under_gibbs():
    model, stats, data = factorial()
    paths = np.array(np.meshgrid(*[[0, 1]] * 4, indexing="ij")).reshape(4, -1).T.astype(np.int32)
    group = jax.tree.map(lambda x: x[0], data)
    exact = enumerated(model, stats, group, {"z1": paths[:, :2], "z2": paths[:, 2:]})
    check_messages(model, stats, data, exact)


def test_joint_groups_under_gibbs():
    """Two of three Bernoullis kept joint: two blocks, one of them a table."""

    def energy(s, y):
        u, v, x = s["u"].value, s["v"].value, s["x"].value
        return s["w"].value * (u * v + u * x - v * x) + y * (u + x) - 0.5 * v

    half, w = vi.Bernoulli.from_probs(0.5), {"w": jnp.float32(1.3)}
    make = lambda joint: vi.energy_model(
        globals={"w": vi.Normal.from_mean_variance(0.0, 1.0)},
        locals={"u": half, "v": half, "x": half},
        energy=energy,
        example=0.0,
        structure=vi.Structure(joint=joint),
    )
    y = jnp.array([0.4])
    every = (
        np.array(np.meshgrid(*[[0.0, 1.0]] * 3, indexing="ij")).reshape(3, -1).astype(np.float32)
    )
    plain, paired = make(()), make([("u", "v")])
    assert len(paired.queries["energy"].local_blocks) == 2
    stats = plain.prior({}).stats(w)
    exact = enumerated(plain, stats, y[0], dict(zip("uvx", every, strict=True)))
    check_messages(paired, stats, y, exact, estep=vi.estep.gibbs(num_sweeps=8, burn_in=8))


def test_gaussian_locals_under_gibbs():
    """y = a + b + c + e, all unit normals, at c = 0.5: E[(a + b)] and E[(a + b)^2] given y are
    those of the joint normal; the energy's gradient in c is y - a - b, in c^2 it is -1 / 2."""

    def energy(s, y):
        a, b, c = s["a"], s["b"], s["c"]
        squares = y**2 + a.square + b.square + c.square + 2 * a.value * b.value
        cross = -2 * y * (a.value + b.value + c.value) + 2 * c.value * (a.value + b.value)
        prior = -0.5 * (a.square + b.square)
        return (
            0.5 * (s["tau"].log - s["tau"].value * (squares + cross))
            + prior
            - 1.5 * jnp.log(2 * jnp.pi)
        )

    unit = vi.Normal.from_mean_variance(0.0, 1.0)
    model = vi.energy_model(
        globals={"c": unit, "tau": vi.Gamma.from_shape_rate(2.0, 2.0)},
        locals={"a": unit, "b": unit},
        energy=energy,
        example=0.0,
    )
    c, tau, y = 0.5, 1.5, 2.0
    precision = tau * np.ones((2, 2)) + np.eye(2)
    cov = np.linalg.inv(precision)
    total = np.sum(cov @ np.full(2, tau * (y - c)))
    square = np.sum(cov) + total**2
    residual = (y - c) ** 2 - 2 * (y - c) * total + square
    stats = model.prior({}).stats({"c": jnp.float32(c), "tau": jnp.float32(tau)})
    exact = {
        "c": vi.families.NormalStats(tau * (y - total), -0.5 * tau),
        "tau": vi.Gamma.Stats(0.5, -0.5 * residual),
    }
    estep = vi.estep.gibbs(num_sweeps=2, burn_in=40)
    check_messages(model, stats, jnp.array([y]), exact, estep=estep)
