"""Linear-Gaussian state-space models against the dense joint normal of all steps, written here in
NumPy."""

import functools

import jax
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from tests.rounding import rounding
from vijax.families import CoefficientsPrecision
from vijax.families.scalar.normal_gamma import MeanPrecision

K, D = 2, 3
LENGTHS = np.array([6, 4, 1, 0])
RNG = np.random.default_rng(0)
THETA = {
    "initial": MeanPrecision(np.array([1.0, -0.5]), np.array([0.7, 2.0])),
    "dynamics": CoefficientsPrecision(np.array([[0.9, 0.3], [-0.2, 0.7]]), np.array([3.0, 5.0])),
    "observation": CoefficientsPrecision(RNG.normal(size=(D, K + 1)), np.array([2.0, 4.0, 8.0])),
}


def paths_law(theta, steps):
    """Mean (T, K) and covariance (T, K, T, K) of x."""
    (m, p), (a, q) = theta["initial"], theta["dynamics"]
    k = len(m)
    mean, cov = np.zeros((steps, k)), np.zeros((steps, k, steps, k))
    for t in range(steps):
        mean[t] = a @ mean[t - 1] if t else m
        cov[t, :, t] = a @ cov[t - 1, :, t - 1] @ a.T + np.diag(1 / q) if t else np.diag(1 / p)
        for s in range(t):
            cov[t, :, s] = a @ cov[t - 1, :, s]
            cov[s, :, t] = cov[t, :, s].T
    return mean, cov


def dense(theta, y):
    """log p of the observed entries of y (T, D), and mean and covariance of x given those."""
    steps, (c, r) = len(y), theta["observation"]
    mean, cov = paths_law(theta, steps)
    mean, cov = mean.ravel(), cov.reshape(mean.size, mean.size)
    big = np.kron(np.eye(steps), c[:, :-1])
    seen = ~np.isnan(y.ravel())
    big, noise = big[seen], np.tile(1 / r, steps)[seen]
    fitted, spread = big @ mean + np.tile(c[:, -1], steps)[seen], big @ cov @ big.T + np.diag(noise)
    gain = np.linalg.solve(spread, big @ cov).T
    residual = y.ravel()[seen] - fitted
    value = stats.multivariate_normal(fitted, spread).logpdf(y.ravel()[seen]) if seen.any() else 0.0
    return value, (mean + gain @ residual).reshape(steps, -1), cov - gain @ big @ cov


def series(count=4, steps=6, seed=1, theta=THETA, missing=0.125):
    """Draws from the model, some entries missing."""
    rng = np.random.default_rng(seed)
    (m, p), (a, q), (c, r) = theta["initial"], theta["dynamics"], theta["observation"]
    noise = lambda precision: rng.normal(size=(count, len(precision))) / np.sqrt(precision)
    x, y = m + noise(p), np.zeros((count, steps, len(r)))
    for t in range(steps):
        y[:, t] = x @ c[:, :-1].T + c[:, -1] + noise(r)
        x = x @ a.T + noise(q)
    y[rng.uniform(size=y.shape) < missing] = np.nan
    return y


Y = series()
DATA = vi.models.pad([row[:n] for row, n in zip(Y, LENGTHS, strict=True)])


@functools.cache
def model():
    """In float64. Made where it is used: every test process imports this file."""
    with jax.enable_x64(True):
        return vi.models.linear_gaussian_state_space(D, K, rate=0.5)


@functools.cache
def bound():
    """Compiled once: bounds, paths and messages at given statistics."""

    def f(s, data):
        said = lambda s: model().local_elbo(
            {}, s, vi.Minibatch(data, None), jax.random.key(0), model().estep
        )
        (_, aux), message = jax.value_and_grad(lambda s: (said(s).total, said(s)), has_aux=True)(s)
        x = aux.local["x"]
        return aux.per_group, x.mean(), x.expected_stats().outer, message

    return jax.jit(f)


def test_the_e_step_is_the_dense_normals():
    """Likelihoods and smoothed moments of sequences of 6, 4, 1 and 0 steps, entries missing,
    nonsense in padding."""
    with jax.enable_x64(True):
        y, mask = DATA
        spoilt = np.where(mask[..., None], y, 1e3)
        point = model().prior({}).stats(THETA)
        values, means, seconds, _ = bound()(point, (spoilt, mask))
        assert values[3] == 0.0
        for n, steps in enumerate(LENGTHS[:3]):
            value, mean, cov = dense(THETA, Y[n, :steps])
            np.testing.assert_allclose(values[n], value, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(means[n, :steps], mean, rtol=1e-9, atol=rounding(mean))
            blocks = (
                np.einsum("titj->tij", cov.reshape(steps, K, steps, K))
                + mean[:, :, None] * mean[:, None]
            )
            np.testing.assert_allclose(seconds[n, :steps], blocks, rtol=1e-9, atol=rounding(blocks))
            assert not np.any(means[n, steps:])


def test_messages_are_the_regressions_of_the_smoothed_path():
    """Counts of first steps, transitions and observed entries; sums of products by hand."""
    y, mask = DATA
    with jax.enable_x64(True):
        _, mean, second, message = jax.tree.map(
            np.asarray, bound()(model().prior({}).stats(THETA), DATA)
        )
    seen = mask[..., None] & ~np.isnan(y)
    np.testing.assert_allclose(message["initial"].log_precision, [1.5, 1.5])
    np.testing.assert_allclose(message["dynamics"].log_precision, [4.0, 4.0])
    np.testing.assert_allclose(message["observation"].log_precision, 0.5 * np.sum(seen, (0, 1)))
    before = np.sum(np.where(mask[:, 1:, None, None], second[:, :-1], 0.0), (0, 1))
    for row in message["dynamics"].precision_times_outer:
        np.testing.assert_allclose(row, -0.5 * before, rtol=1e-9, atol=1e-9)
    with_one = np.concatenate([mean, np.ones_like(mean[..., :1])], -1)
    pull = np.einsum("ntd,ntk->dk", np.where(seen, y, 0.0), with_one)
    np.testing.assert_allclose(
        message["observation"].precision_times_value, pull, rtol=1e-9, atol=1e-9
    )


def test_em_climbs_the_dense_likelihood():
    with jax.enable_x64(True):
        y, alg = series(60, 6), vi.em(model())
        data = y, np.ones(y.shape[:2], bool)
        fit = vi.fit(alg, data, num_steps=40, key=jax.random.key(0), steps_per_chunk=40)
        more = vi.fit(
            alg, data, num_steps=41, key=jax.random.key(0), steps_per_chunk=40, state=fit.state
        )
        theta = jax.tree.map(np.asarray, fit.posterior.mode())
    elbo = np.append(fit.trace["elbo"], more.trace["elbo"])
    assert np.all(np.diff(elbo) >= -1e-9 * np.abs(elbo[1:]))
    assert elbo[-1] - elbo[0] > 10
    np.testing.assert_allclose(elbo[-1], sum(dense(theta, row)[0] for row in y), rtol=1e-9)
    assert elbo[-1] > sum(dense(THETA, row)[0] for row in y)


def test_coordinate_ascent_never_loses_ground():
    """Entries missing, sequences short; and degenerate data: constant columns, nothing observed,
    fewer steps than states."""
    first = np.arange(6) < np.array([1, 0, 0, 0])[:, None]
    full, same = np.ones((4, 6), bool), np.full((4, 6, D), 5.0)
    with jax.enable_x64(True):
        alg = vi.cavi(model())
        for data in (DATA, (same, full), (np.full_like(same, np.nan), full), (same, first)):
            fit = vi.fit(alg, data, num_steps=40, key=jax.random.key(0))
            assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))
            assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(fit.posterior))


@pytest.mark.slow
def test_elbo_is_below_the_evidence():
    """One dimension, two steps; the evidence by 400,000 draws of the globals, at 6 standard errors
    of its logarithm."""
    y = np.array([[0.4], [1.1]], np.float32)
    model = vi.models.linear_gaussian_state_space(1, 1, strength=2.0, shape=3.0, rate=2.0)
    fit = vi.fit(
        vi.cavi(model), (y[None], np.ones((1, 2), bool)), num_steps=200, key=jax.random.key(0)
    )
    rng = np.random.default_rng(0)
    p, q, r = rng.gamma(3.0, 0.5, (3, 400_000))
    m, a, c, bias = rng.normal(size=(4, 400_000)) / np.sqrt(2.0 * np.stack([p, q, r, r]))
    u, v = y[0, 0] - c * m - bias, y[1, 0] - c * a * m - bias
    uu, uv, vv = c**2 / p + 1 / r, c**2 * a / p, c**2 * (a**2 / p + 1 / q) + 1 / r
    det = uu * vv - uv**2
    logs = (
        -np.log(2 * np.pi)
        - 0.5 * np.log(det)
        - 0.5 * (vv * u**2 - 2 * uv * u * v + uu * v**2) / det
    )
    evidence = special.logsumexp(logs) - np.log(len(logs))
    error = np.std(np.exp(logs - evidence)) / np.sqrt(len(logs))
    assert error < 0.005
    assert evidence - 1.0 < fit.trace["elbo"][-1] < evidence + 6 * error


SPIRAL = {
    "initial": MeanPrecision(np.zeros(2), np.ones(2)),
    "dynamics": CoefficientsPrecision(
        0.95 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]]),
        np.full(2, 1 / 0.09),
    ),
    "observation": CoefficientsPrecision(
        np.column_stack([np.random.default_rng(3).normal(size=(4, 2)), np.full(4, 2.0)]),
        np.full(4, 1 / 0.09),
    ),
}


@functools.cache
def spirals():
    """Sequences of a damped rotation seen through a random map; the last, without gaps, is to be
    held out."""
    y = series(41, 50, seed=4, theta=SPIRAL, missing=0.1).astype(np.float32)
    y[-1] = series(1, 50, seed=5, theta=SPIRAL, missing=0.0)[0]
    lengths = np.append(np.random.default_rng(0).integers(20, 51, 40), 50)
    return vi.models.pad([row[:n] for row, n in zip(y, lengths, strict=True)])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["em", "cavi", "svi", "ssvi_a"])
def test_dynamics_are_recovered(algorithm):
    """In float32: eigenvalues of the dynamics, which no change of coordinates moves, the density of
    a held-out sequence beside the truth's, and forecasts."""
    y, mask = spirals()
    train, held = (y[:40], mask[:40]), (y[40:], mask[40:])
    model = vi.models.linear_gaussian_state_space(4, 2, rate=0.1)
    whole = (
        {"num_steps": 40} if algorithm in ("em", "cavi") else {"num_epochs": 30, "batch_size": 10}
    )
    fit = vi.fit(getattr(vi, algorithm)(model), train, key=jax.random.key(0), **whole)
    coefficients = np.asarray(fit.posterior["dynamics"].mean().coefficients)
    values = np.linalg.eigvals(coefficients)
    np.testing.assert_allclose(np.abs(values), 0.95, atol=0.03)
    np.testing.assert_allclose(np.sort(np.angle(values)), [-0.3, 0.3], atol=0.05)
    theta = {name: q.mean() for name, q in fit.estimates.items()}
    theta = jax.tree.map(lambda x: np.asarray(x, np.float64), theta)
    found, exact = fit.score(held, key=jax.random.key(0)).mean, held[0][0].astype(np.float64)
    np.testing.assert_allclose(found, dense(theta, exact)[0] / 50, rtol=1e-5)
    assert abs(found - dense(SPIRAL, exact)[0] / 50) < 0.08
    cut = np.where(np.arange(50)[:, None] < 40, held[0], np.nan)
    x = np.asarray(fit.locals((cut, held[1]), key=jax.random.key(0))["x"].mean())[0]
    np.testing.assert_allclose(x[41:], x[40:-1] @ coefficients.T, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((1, 2, D)), r"a pair \(y, mask\), got ndarray"),
        (
            (np.zeros((1, 2, 2)), np.ones((1, 2), bool)),
            r"y of shape \(N, T, 3\), got shape \(1, 2, 2\)",
        ),
        ((np.zeros((2, 2, D)), np.array([[True, True], [False, True]])), "a gap in sequence 1"),
        (
            (np.where([[[0], [1]]], np.inf, np.zeros((1, 2, D))), np.ones((1, 2), bool)),
            "got inf in sequence 0, step 1",
        ),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        vi.fit(vi.cavi(model()), data, num_steps=1, key=jax.random.key(0))


def test_maximum_likelihood_leaves_a_column_never_observed_as_it_started():
    y = np.random.default_rng(0).normal(size=(1, 8, 2))
    y[..., 1] = np.nan
    model, data = vi.models.linear_gaussian_state_space(2, 1), (y, np.ones((1, 8), bool))
    fit = vi.fit(vi.em(model), data, num_steps=3, key=jax.random.key(0))
    assert np.all(fit.trace["retractions"] > 0)
    assert np.all(np.diff(fit.trace["elbo"]) > 0)
    unseen = fit.posterior["observation"].mode()
    np.testing.assert_array_equal(unseen.coefficients[1], 0.0)
    assert np.isfinite(unseen.precision[1])
