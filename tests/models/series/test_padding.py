"""Padding and the scale N / S: what stands in rows of weight 0 counts nowhere, and minibatches add
up to the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi

Y = np.random.default_rng(0).gamma(2.0, 1.0, size=7).astype(np.float32)
KEY = jax.random.key(0)


def exponential_mixture():
    """y ~ weibull-like with rates of two classes: its energy has a log y, -inf at a padded zero."""

    def energy(s, y):
        return jnp.vdot(
            s["z"].one_hot, s["weights"].log + s["rate"].log - s["rate"].value * y
        ) + jnp.log(y)

    return vi.energy_model(
        globals={
            "rate": vi.Gamma.from_shape_rate(jnp.array([2.0, 3.0]), jnp.array([1.0, 4.0])),
            "weights": vi.Dirichlet.from_concentration([1.0, 2.0]),
        },
        locals={"z": vi.Categorical.from_probs([0.5, 0.5])},
        energy=energy,
        example=1.0,
    )


def coupled():
    """Two coupled locals beside a log y: the path of E-steps that iterate."""

    def energy(s, y):
        z1, z2, log_y = s["z1"].value, s["z2"].value, jnp.log(y)
        return s["rate"].log - s["rate"].value * y * (1 + z1 * z2) + z1 * log_y + 0.3 * z2

    half = vi.Bernoulli.from_probs(0.5)
    return vi.energy_model(
        globals={"rate": vi.Gamma.from_shape_rate(2.0, 1.0)},
        locals={"z1": half, "z2": half},
        energy=energy,
        example=1.0,
    )


def hand_written():
    def local_elbo(s, y, key):
        return s["rate"].log + jnp.log(y) * s["rate"].value - 2 * s["rate"].value * y, None

    return vi.model({"rate": vi.Gamma.from_shape_rate(2.0, 1.0)}, local_elbo)


MODELS = {"one block": exponential_mixture, "two blocks": coupled, "hand-written": hand_written}
each_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def said(model, data, weights, num_groups=7.0):
    """Bound, S, and message of a minibatch."""
    stats = model.prior({}).expected_stats()
    batch = vi.Minibatch(data, num_groups, weights)
    total = lambda s: (lambda out: (out.total, out.num_groups))(
        model.local_elbo({}, s, batch, KEY, model.estep)
    )
    (value, size), grad = jax.jit(jax.value_and_grad(total, has_aux=True))(stats)
    return value, size, grad


@each_model
def test_rows_of_weight_zero_count_nowhere_whatever_they_hold(make):
    model = make()
    alone = said(model, jnp.asarray(Y[:3]), None)
    for filler in (0.0, np.nan, 1e30):
        padded = np.concatenate([[filler], Y[:3], [filler, filler]]).astype(np.float32)
        weights = np.array([0, 1, 1, 1, 0, 0], np.float32)
        for got, expected in zip(
            *map(jax.tree.leaves, (said(model, padded, weights), alone)), strict=True
        ):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


@each_model
def test_messages_of_an_epoch_average_to_that_of_the_data(make):
    """N = 7 in batches of 3, the last of one row and two of padding: each scaled by N / S, and
    weighted by S."""
    model = make()
    alg = vi.svi(model, step_size=vi.step_size.constant(1.0))
    whole = jax.jit(vi.cavi(model).step)(KEY, alg.init(KEY), jnp.asarray(Y))[0].posterior
    step, prior = jax.jit(alg.step), model.prior({})
    message = jax.tree.map(jnp.zeros_like, prior)
    for rows, count in (([0, 1, 2], 3), ([3, 4, 5], 3), ([6, 0, 0], 1)):
        weights = np.float32(np.arange(3) < count)
        data = np.where(weights > 0, Y[rows], 0.0).astype(np.float32)
        state, info = step(KEY, alg.init(KEY), vi.Minibatch(data, np.float32(7.0), weights))
        assert info.num_groups == weights.sum()
        share = weights.sum() / 7.0
        message = jax.tree.map(
            lambda m, q, p, share=share: m + share * (q - p), message, state.posterior, prior
        )
    for got, q, p in zip(*map(jax.tree.leaves, (message, whole, prior)), strict=True):
        np.testing.assert_allclose(got, q - p, rtol=1e-5, atol=1e-5)


def test_starts_from_a_padded_minibatch_are_those_of_its_rows_scaled():
    """kmeans++ on 4 of 8 groups beside padding: each cluster counts for twice as many."""

    def energy(s, y):
        fit = y * s["mu"].value - 0.5 * s["mu"].square - 0.5 * y**2
        return jnp.vdot(s["z"].one_hot, s["weights"].log + fit)

    model = vi.energy_model(
        globals={
            "mu": vi.Normal.from_mean_variance(jnp.zeros(2), 100.0),
            "weights": vi.Dirichlet.from_concentration(jnp.ones(2)),
        },
        locals={"z": vi.Categorical.from_probs([0.5, 0.5])},
        energy=energy,
        example=0.0,
        init=vi.init.kmeans_plus_plus(),
    )
    data, weights = np.float32([-5.1, -4.9, 5.0, np.nan, -5.0, 1e6]), np.float32([1, 1, 1, 0, 1, 0])
    q = jax.jit(vi.svi(model).init)(KEY, vi.Minibatch(data, np.float32(8.0), weights)).posterior
    order = np.argsort(q["mu"].mean())
    np.testing.assert_allclose(
        np.asarray(q["weights"].concentration)[order], [1 + 6.0, 1 + 2.0], rtol=1e-5
    )
    np.testing.assert_allclose(
        np.asarray(q["mu"].mean())[order], [-30 / 6.01, 10 / 2.01], rtol=1e-5
    )


def test_rows_of_weight_zero_pull_no_centre():
    """With the two at 100 as members, their centre would leave 4 and 5 to the other one."""
    points = jnp.array([[-5.0], [-4.0], [4.0], [5.0], [100.0], [100.0]])
    labels = jax.jit(vi.init.nearest_labels, static_argnums=(3, 4))(
        KEY, points, jnp.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0]), 2, 5
    )
    left, right = int(labels[0]), int(labels[3])
    assert left != right
    assert labels[:4].tolist() == [left, left, right, right]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            lambda y: jnp.sum(y),
            r"^local_elbo: expected a pair \(bounds, locals\), got one array of shape \(\)\. "
            r"Return \(bounds, None\)",
        ),
        (lambda y: y, r"^local_elbo: expected a pair \(bounds, locals\)"),
        (
            lambda y: (jnp.sum(y), None),
            r"^local_elbo: expected bounds of shape \(groups,\), got shape \(\)",
        ),
    ],
)
def test_what_a_hand_written_bound_must_return(returned, message):
    model = vi.model(
        {"rate": vi.Gamma.from_shape_rate(2.0, 1.0)},
        lambda s, y, key: returned(y * s["rate"].value),
    )
    with pytest.raises(ValueError, match=message):
        vi.fit(vi.cavi(model), Y, num_steps=1, key=KEY)


STARTS = {
    "factor_analysis": (lambda: vi.models.factor_analysis(2, 1), lambda n: RNG.normal(size=(n, 2))),
    "hmm": (
        lambda: vi.models.hmm(vi.models.emission.unit_gaussian(2, 1)),
        lambda n: (RNG.normal(size=(n, 3, 1)), np.ones((n, 3), bool)),
    ),
    "state_space": (
        lambda: vi.models.linear_gaussian_state_space(2, 1),
        lambda n: (RNG.normal(size=(n, 4, 2)), np.ones((n, 4), bool)),
    ),
    "hierarchical": (
        lambda: vi.models.hierarchical_linear_regression(1),
        lambda n: (RNG.normal(size=(n, 3, 1)), RNG.normal(size=(n, 3)), np.ones((n, 3), bool)),
    ),
}
RNG = np.random.default_rng(5)


@pytest.mark.parametrize("name", STARTS)
def test_starts_of_ready_models_read_no_padding(name, monkeypatch):
    """Five groups, the first far out: padded with three more, the start is the same."""
    if name == "state_space":  # which draws a little noise for each group
        monkeypatch.setattr(jax.random, "normal", lambda key, shape, dtype: jnp.zeros(shape, dtype))
    make, draw = STARTS[name]
    data = jax.tree.map(lambda x: x if x.dtype == bool else np.float32(x), draw(5))
    far = jax.tree.map(lambda x: x if x.dtype == bool else np.concatenate([9 * x[:1], x[1:]]), data)
    padded = jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[:1], 3, axis=0)]), far)
    alg = vi.cavi(make())
    init = jax.jit(alg.init)
    alone = init(jax.random.key(0), vi.Minibatch(far, 5.0)).posterior
    weights = np.float32([1] * 5 + [0] * 3)
    other = init(jax.random.key(0), vi.Minibatch(padded, 5.0, weights)).posterior
    for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4)
