"""Factorial hidden Markov models against sums over all joint paths, and against the model with one
chain."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import vijax as vi
from tests.naming import naming
from vijax.families import CoefficientsPrecision

RNG = np.random.default_rng(0)
INITIAL = np.array([[0.6, 0.4], [0.3, 0.7]])
TRANSITION = np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.5, 0.5], [0.1, 0.9]]])
COUPLED = CoefficientsPrecision(
    np.array([[1.0, -1.0, 0.5, 2.0], [0.3, 0.0, -1.5, 1.0]]), np.array([1.5, 0.7])
)
APART = CoefficientsPrecision(
    np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, -1.5, 1.0]]), np.array([1.5, 0.7])
)
LENGTHS = np.array([4, 2, 1, 0])
Y = RNG.normal(size=(4, 4, 2))
DATA = vi.models.pad([row[:n] for row, n in zip(Y, LENGTHS, strict=True)])


def paths_and_weights(contributions, y):
    """Every joint path (2, T), and log p(y, path)."""
    paths = np.array(list(itertools.product((0, 1), repeat=2 * len(y)))).reshape(-1, 2, len(y))
    weights = np.zeros(len(paths))
    for m in (0, 1):
        z = paths[:, m]
        weights += np.log(INITIAL[m, z[:, 0]]) + np.log(TRANSITION[m][z[:, :-1], z[:, 1:]]).sum(1)
    w, tau = contributions
    mean = w[:, 0:2].T[paths[:, 0]] + w[:, 2:4].T[paths[:, 1]]
    return paths, weights + 0.5 * np.sum(np.log(tau / (2 * np.pi)) - tau * (y - mean) ** 2, (1, 2))


@functools.cache
def bound():
    """Compiled once, in float64: bounds and smoothed probabilities at given contributions."""
    model = vi.models.factorial_hmm(2, 2, 2)
    estep = vi.estep.mean_field(max_iters=1000, tol=1e-12)

    def f(contributions, data):
        point = {"initial": INITIAL, "transition": TRANSITION, "contributions": contributions}
        batch = vi.Minibatch(data, None)
        said = model.local_elbo({}, model.prior({}).stats(point), batch, jax.random.key(0), estep)
        return said.per_group, [said.local[name].probs for name in ("z1", "z2")]

    return jax.jit(f)


def test_bound_is_exact_where_the_chains_are_apart_and_below_elsewhere():
    """Each chain in a column of its own: the posterior factorises. Sequences of 4, 2, 1 and 0
    steps."""
    with jax.enable_x64(True):
        apart, probs = jax.tree.map(np.asarray, bound()(APART, DATA))
        coupled, _ = jax.tree.map(np.asarray, bound()(COUPLED, DATA))
    assert apart[3] == coupled[3] == 0.0
    for n, steps in enumerate(LENGTHS[:3]):
        paths, weights = paths_and_weights(APART, Y[n, :steps])
        np.testing.assert_allclose(apart[n], special.logsumexp(weights), rtol=1e-10)
        posterior = special.softmax(weights)
        for m in (0, 1):
            np.testing.assert_allclose(probs[m][n, :steps, 1], posterior @ paths[:, m], rtol=1e-9)
            assert not np.any(probs[m][n, steps:])
        evidence = special.logsumexp(paths_and_weights(COUPLED, Y[n, :steps])[1])
        assert evidence - 1.0 < coupled[n] < evidence - 1e-6


def test_the_chains_go_through_steps_that_were_not_seen():
    """By enumeration, without what was observed at two steps of one sequence and at the only one of
    another; the whole table was refused."""
    y = np.array(DATA[0], float)
    y[0, 1, 0] = y[0, 3] = y[2, 0, 1] = np.nan
    with jax.enable_x64(True):
        apart, probs = jax.tree.map(np.asarray, bound()(APART, (y, DATA[1])))
    seen = [0, 2]
    paths, chain = paths_and_weights(APART, Y[0])
    w, tau = APART
    mean = w[:, 0:2].T[paths[:, 0]] + w[:, 2:4].T[paths[:, 1]]
    terms = 0.5 * (np.log(tau / (2 * np.pi)) - tau * (Y[0] - mean) ** 2).sum(axis=2)
    weights = chain - terms.sum(axis=1) + terms[:, seen].sum(axis=1)
    np.testing.assert_allclose(apart[0], special.logsumexp(weights), rtol=1e-10)
    for m in (0, 1):
        np.testing.assert_allclose(
            probs[m][0, :, 1], special.softmax(weights) @ paths[:, m], rtol=1e-9
        )
        np.testing.assert_allclose(probs[m][2, 0, 1], INITIAL[m, 1], rtol=1e-9)
    np.testing.assert_allclose(apart[2], 0.0, atol=1e-10)


def test_coordinate_ascent_of_a_chain_at_the_optimum():
    """At the fixed point each chain's marginals are those of its exact conditional at the other's,
    by enumeration."""
    with jax.enable_x64(True):
        _, (one, two) = jax.tree.map(np.asarray, bound()(COUPLED, DATA))
    w, tau = COUPLED
    other = two[0] @ w[:, 2:4].T
    paths = np.array(list(itertools.product((0, 1), repeat=4)))
    weights = np.log(INITIAL[0, paths[:, 0]]) + np.log(
        TRANSITION[0][paths[:, :-1], paths[:, 1:]]
    ).sum(1)
    weights -= 0.5 * np.sum(tau * (Y[0] - other - w[:, 0:2].T[paths]) ** 2, (1, 2))
    np.testing.assert_allclose(one[0, :, 1], special.softmax(weights) @ paths, atol=1e-8)


def test_one_chain_is_a_hidden_markov_model():
    """With unit noise: the bounds of `hmm` with the same parameters."""
    means = np.array([[0.5, -1.0], [2.0, 0.0], [-1.0, 1.0]])
    factorial, plain = (
        vi.models.factorial_hmm(2, 1, 3),
        vi.models.hmm(vi.models.emission.unit_gaussian(3, 2)),
    )
    first, moves = np.array([0.5, 0.3, 0.2]), RNG.dirichlet(np.ones(3), 3)
    contributions = CoefficientsPrecision(means.T, np.ones(2))
    values = []
    for m, point in (
        (
            factorial,
            {"initial": first[None], "transition": moves[None], "contributions": contributions},
        ),
        (plain, {"initial": first, "transition": moves, "components": means}),
    ):
        stats = m.prior({}).stats(jax.tree.map(jnp.float32, point))
        data = jax.tree.map(jnp.float32, DATA)
        bound = jax.jit(
            lambda stats, batch, m=m: (
                m.local_elbo({}, stats, batch, jax.random.key(0), m.estep).per_group
            )
        )
        values.append(bound(stats, vi.Minibatch(data, None)))
    np.testing.assert_allclose(values[0], values[1], rtol=1e-5, atol=1e-5)


def two_clocks():
    """Sums of a slow and a fast switch, noise 0.3; sequences of unequal length."""
    rng = np.random.default_rng(1)
    flips = rng.uniform(size=(2, 12, 40)) < np.array([0.05, 0.3])[:, None, None]
    z = np.cumsum(flips, -1) % 2
    y = np.stack([4.0 * z[0] + 1.5 * z[1], 1.0 * z[0] - 2.0 * z[1]], -1) + 0.3 * rng.normal(
        size=(12, 40, 2)
    )
    return vi.models.pad([row[: 40 - 2 * n] for n, row in enumerate(y)])


@pytest.mark.parametrize("algorithm", ["cavi", pytest.param("map", marks=pytest.mark.slow)])
def test_full_data_never_lose_ground_and_find_the_switches(algorithm):
    with jax.enable_x64(True):
        model = vi.models.factorial_hmm(2, 2, 2, rate=0.1)
        fit = vi.fit(
            getattr(vi, algorithm)(model),
            two_clocks(),
            num_steps=40,
            restarts=6,
            key=jax.random.key(0),
        )
        w = np.asarray(fit.posterior["contributions"].mean().coefficients).reshape(2, 2, 2)
    elbo = fit.trace["restart_elbo"]
    assert np.all(np.diff(elbo, axis=0) >= -1e-9 * np.abs(elbo[1:]))
    gaps = np.abs(w[:, :, 1] - w[:, :, 0]).T
    np.testing.assert_allclose(gaps[np.argsort(gaps[:, 0])], [[1.5, 2.0], [4.0, 1.0]], atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["svi", "ssvi_a"])
def test_minibatches_find_the_switches(algorithm):
    alg = getattr(vi, algorithm)(vi.models.factorial_hmm(2, 2, 2, rate=0.1))
    fit = vi.fit(alg, two_clocks(), num_epochs=40, batch_size=4, restarts=6, key=jax.random.key(0))
    w = np.asarray(fit.posterior["contributions"].mean().coefficients).reshape(2, 2, 2)
    gaps = np.abs(w[:, :, 1] - w[:, :, 0]).T
    np.testing.assert_allclose(gaps[np.argsort(gaps[:, 0])], [[1.5, 2.0], [4.0, 1.0]], atol=0.25)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((np.zeros((1, 2, 3)), np.ones((1, 2), bool)), r"y of shape \(N, T, 2\)"),
        (
            (np.array([[[0, 0], [0, np.inf]]]), np.ones((1, 2), bool)),
            "got inf in sequence 0, step 1, column 1",
        ),
        (
            (np.full((1, 2, 2), np.nan), np.ones((1, 2), bool)),
            "expected a step without NaN, got nan in sequence 0",
        ),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        vi.fit(vi.cavi(vi.models.factorial_hmm(2, 2, 2)), data, num_steps=1, key=jax.random.key(0))


def test_maximum_likelihood_is_refused_where_only_sums_of_contributions_are_known():
    with pytest.raises(ValueError, match=naming("'contributions'", "maximum_likelihood")):
        vi.em(vi.models.factorial_hmm(1, 2, 2))
    vi.em(vi.models.factorial_hmm(1, 1, 2))
    vi.cavi(
        vi.models.factorial_hmm(1, 2, 2), estimand={"initial": vi.estimand.maximum_likelihood()}
    )


@pytest.mark.slow
def test_degenerate_data():
    """In float32: constant columns, fewer points than states, one step and none."""
    alg = vi.cavi(vi.models.factorial_hmm(2, 2, 3))
    some = np.arange(4) < np.array([1, 0])[:, None]
    for y, mask in ((np.full((2, 4, 2), 3.0), np.ones((2, 4), bool)), (Y[:2], some)):
        fit = vi.fit(alg, (y.astype(np.float32), mask), num_steps=10, key=jax.random.key(0))
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(fit.posterior))
        assert np.all(np.diff(fit.trace["elbo"]) >= -1e-4 * np.abs(fit.trace["elbo"][1:]))
