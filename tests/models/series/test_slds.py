"""Switching linear dynamical systems against the sum over all paths of states, each a dense normal,
in NumPy."""

import functools
import itertools

import jax
import numpy as np
import pytest
from scipy import special

import vijax as vi
from vijax.data.tables.synthetic_tables import laps
from vijax.families import CoefficientsPrecision
from vijax.families.scalar.normal_gamma import MeanPrecision
from vijax.families.vector.matrix_normal_wishart import MatrixPrecision

D, Q, K, M, A = 3, 2, 2, 1, 0.6
LENGTHS = np.array([3, 2, 1, 0])
RNG = np.random.default_rng(0)
THETA = {
    "initial": np.array([0.3, 0.7]),
    "transition": np.array([[0.8, 0.2], [0.4, 0.6]]),
    "start": MeanPrecision(np.array([1.0, -0.5]), np.array([0.7, 2.0])),
    "dynamics": MatrixPrecision(
        0.5 * RNG.normal(size=(K, Q + M + 1, Q)),
        np.array([[[3.0, 0.5], [0.5, 2.0]], [[9.0, -0.3], [-0.3, 4.0]]]),
    ),
    "observation": CoefficientsPrecision(RNG.normal(size=(D, Q + 1)), np.array([2.0, 4.0, 8.0])),
}
SAME = {**THETA, "dynamics": MatrixPrecision(*(np.stack([x[0]] * K) for x in THETA["dynamics"]))}
Y = RNG.normal(size=(4, 3, D + M))
Y[0, 1, 0] = Y[0, 2, 1] = Y[1, 1, 2] = np.nan
DATA = vi.models.pad([row[:n] for row, n in zip(Y, LENGTHS, strict=True)])
KEY = jax.random.key(0)


def log_joint(theta, y, path, x):
    """log p(y, x | path), the missing entries left out."""
    (m, p), (g, precision), (c, r) = theta["start"], theta["dynamics"], theta["observation"]
    x = x.reshape(len(y), Q)
    normal = lambda x, mean, precision: (
        0.5 * (np.log(precision / (2 * np.pi)) - precision * (x - mean) ** 2)
    )
    total = normal(x[0], m, p).sum()
    for t in range(1, len(y)):
        mean = A * x[t - 1] + np.concatenate([x[t - 1], y[t, D:], [1.0]]) @ g[path[t]]
        gap, at = x[t] - mean, precision[path[t]]
        total += 0.5 * (np.linalg.slogdet(at / (2 * np.pi))[1] - gap @ at @ gap)
    return total + np.nansum(normal(y[:, :D], x @ c[:, :-1].T + c[:, -1], r))


def quadratic(f, size):
    """Value and slope at zero, and the matrix of second derivatives, of a quadratic function."""
    eye = np.eye(size)
    at, plus, minus = (
        f(np.zeros(size)),
        np.array([f(e) for e in eye]),
        np.array([f(-e) for e in eye]),
    )
    both = np.array([[f(a + b) for b in eye] for a in eye])
    return at, 0.5 * (plus - minus), both - plus[:, None] - plus[None] + at


def dense(theta, y):
    """All paths, the log prior of each, and log p(y, x | path) as a quadratic in x."""
    paths = list(itertools.product(range(K), repeat=len(y)))
    initial, transition = theta["initial"], theta["transition"]
    prior = [
        np.log(initial[z[0]]) + sum(np.log(transition[a, b]) for a, b in itertools.pairwise(z))
        for z in paths
    ]
    return (
        np.array(paths),
        np.array(prior),
        [quadratic(lambda x, z=z: log_joint(theta, y, z, x), len(y) * Q) for z in paths],
    )


def evidence(prior, terms):
    """log p(y)."""
    logs = []
    for value, slope, second in terms:
        top = np.linalg.solve(-second, slope)
        logs.append(value + 0.5 * slope @ top - 0.5 * np.linalg.slogdet(-second / (2 * np.pi))[1])
    return special.logsumexp(prior + logs)


@functools.cache
def model():
    """In float64. Made where it is used: every test process imports this file."""
    with jax.enable_x64(True):
        return vi.models.slds(
            D, K, Q, M, persistence=A, rate=0.5, estep=vi.estep.mean_field(300, 1e-9)
        )


@jax.jit
def local_elbo(point, batch):
    return model().local_elbo({}, point, batch, KEY, model().estep)


@functools.cache
def found(same=False):
    """The bound of each sequence and the laws of its paths, nonsense in padding."""
    with jax.enable_x64(True):
        y, mask = DATA
        batch = vi.Minibatch((np.where(mask[..., None], y, 1e3), mask), None)
        said = local_elbo(model().prior({}).stats(SAME if same else THETA), batch)
        return (
            np.asarray(said.per_group),
            jax.tree.map(np.asarray, said.local),
            said.local["z"].probs,
        )


def normal_of(x, n, steps):
    """Mean and precision of q(x), from its potentials."""
    precision = np.zeros((steps, Q, steps, Q))
    for t in range(steps):
        precision[t, :, t] = -x.negative_half_precision[n, t] - x.negative_half_precision[n, t].T
        if t + 1 < steps:
            precision[t, :, t + 1], precision[t + 1, :, t] = -x.coupling[n, t], -x.coupling[n, t].T
    precision = precision.reshape(steps * Q, steps * Q)
    return np.linalg.solve(precision, x.linear[n, :steps].ravel()), precision


def test_the_bound_is_that_of_its_paths_and_below_the_evidence():
    """Sequences of 3, 2, 1 and 0 steps, entries missing: E[log p] + entropies summed over all
    paths, and the log evidence; each chain is the best given the other."""
    values, local, _ = found()
    assert values[3] == 0.0
    for n, steps in enumerate(LENGTHS[:3]):
        paths, prior, terms = dense(THETA, Y[n, :steps])
        mean, precision = normal_of(local["x"], n, steps)
        expected = [
            v + s @ mean + 0.5 * mean @ h @ mean + 0.5 * np.trace(h @ np.linalg.inv(precision))
            for v, s, h in terms
        ]
        weights = prior + expected
        logs = weights - special.logsumexp(weights)  # the best q(z) given q(x)
        entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * np.linalg.inv(precision))[1]
        np.testing.assert_allclose(values[n], np.exp(logs) @ (weights - logs) + entropy, rtol=1e-8)
        smoothed = np.stack([np.exp(logs) @ (paths == k) for k in range(K)], 1)
        np.testing.assert_allclose(found()[2][n, :steps], smoothed, rtol=1e-7)
        slope, second = (
            np.tensordot(np.exp(logs), np.array([term[i] for term in terms]), 1) for i in (1, 2)
        )
        np.testing.assert_allclose(precision, -second, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(mean, np.linalg.solve(-second, slope), rtol=1e-6)
        exact = evidence(prior, terms)
        assert exact - 1.0 < values[n] < exact + 1e-9
        assert steps == 1 or values[n] < exact - 1e-5


def test_the_bound_is_exact_where_the_states_move_alike():
    values = found(same=True)[0]
    for n, steps in enumerate(LENGTHS[:3]):
        _, prior, terms = dense(SAME, Y[n, :steps])
        np.testing.assert_allclose(values[n], evidence(prior, terms), rtol=1e-8)


def test_the_bound_of_single_steps_is_exact():
    """No sequence has a second step, and the arrays none for one."""
    with jax.enable_x64(True):
        batch = vi.Minibatch((Y[:, :1], np.ones((4, 1), bool)), None)
        values = local_elbo(model().prior({}).stats(THETA), batch).per_group
    for n, value in enumerate(values):
        _, prior, terms = dense(THETA, Y[n, :1])
        np.testing.assert_allclose(value, evidence(prior, terms), rtol=1e-8)


def test_coordinate_ascent_never_loses_ground():
    """Entries missing, sequences short; and degenerate data: constant columns, nothing observed."""
    full, same = np.ones((4, 3), bool), np.full((4, 3, D + M), 5.0)
    unseen = np.where(np.arange(D + M) < D, np.nan, same)
    with jax.enable_x64(True):
        alg = vi.cavi(vi.models.slds(D, K, Q, M, persistence=A, rate=0.5))
        for data in (DATA, (same, full), (unseen, full)):
            fit = vi.fit(alg, data, num_steps=20, key=KEY)
            assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))
            assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(fit.posterior))


@pytest.mark.slow
def test_parts_of_a_track_are_found_behind_noise_and_forecasts_cover():
    """Six columns that see laps with noise, a tenth missing, in float32: the segmentation, ten
    steps ahead, and 90 % bands of what was not seen."""
    metrics = pytest.importorskip("sklearn.metrics")
    columns, rng = laps(np.random.default_rng(0), 3000), np.random.default_rng(1)
    number, x = columns["sequence"].astype(int), np.stack([columns["x1"], columns["x2"]], 1)
    whole = (x @ rng.normal(size=(2, 6)) + 0.2 * rng.normal(size=(3000, 6))).astype(np.float32)
    split = lambda x: [x[number == n] for n in range(number.max() + 1)]
    y, mask = vi.models.pad(split(whole))
    hidden = (rng.random(y.shape) < 0.1) & mask[..., None]
    seen = np.where(hidden, np.nan, y)
    alg = vi.cavi(vi.models.slds(6, 4, 2, stickiness=5.0, variance=1e-3, rate=0.1))
    fit = vi.fit(alg, (seen, mask), num_steps=80, restarts=4, key=KEY)
    paths = np.asarray(fit.locals((seen, mask), key=KEY)["z"].mode())
    parts = split(columns["part"].astype(int))
    states = np.concatenate([path[: len(part)] for path, part in zip(paths, parts, strict=True)])
    assert metrics.adjusted_rand_score(np.concatenate(parts), states) > 0.9
    draws = np.asarray(fit.predictive(KEY, 200, (seen, mask), groups="same"))
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    assert 0.85 < np.mean(((y >= low) & (y <= high))[hidden]) < 0.95
    cut = mask & (np.cumsum(mask, 1) <= mask.sum(1, keepdims=True) - 10)
    low, high = np.quantile(
        np.asarray(fit.forecast(KEY, 400, (seen, cut), 10)), [0.05, 0.95], axis=0
    )
    truth = np.take_along_axis(y, (cut.sum(1)[:, None] + np.arange(10))[..., None], 1)
    assert 0.8 < np.mean((truth >= low) & (truth <= high)) < 0.98


def test_bad_data():
    data = (np.where([[[0, 0, 0, 1]]], np.nan, np.zeros((1, 4, 4))), np.ones((1, 4), bool))
    with pytest.raises(ValueError, match=r"inputs .* that are all known"):
        vi.fit(vi.cavi(model()), data, num_steps=1, key=KEY)
