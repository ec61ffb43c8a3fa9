"""Autoregressive hidden Markov models against the sum over all paths of states, written here in
NumPy."""

import functools
import itertools

import jax
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from vijax.data.tables.synthetic_tables import laps
from vijax.families.vector.matrix_normal_wishart import MatrixPrecision

D, K, P, M, A = 2, 2, 2, 1, 0.7
LENGTHS = np.array([6, 4, 1, 0])
RNG = np.random.default_rng(0)
NOISE = np.array([[[3.0, 0.5], [0.5, 2.0]], [[1.0, -0.3], [-0.3, 4.0]]])
THETA = {
    "initial": np.array([0.3, 0.7]),
    "transition": np.array([[0.8, 0.2], [0.4, 0.6]]),
    "dynamics": MatrixPrecision(0.5 * RNG.normal(size=(K, D * P + M + 1, D)), NOISE),
}
Y = RNG.normal(size=(4, 6, D + M))
Y[0, 2, 0] = np.nan  # one column of one step
DATA = vi.models.pad([row[:n] for row, n in zip(Y, LENGTHS, strict=True)])
KEY = jax.random.key(0)


def densities(y, density):
    """log density of each step (T, K) by `density(k, change, features)`; zero without two whole
    steps before it."""
    found = np.zeros((len(y), K))
    for t in range(P, len(y)):
        if np.isfinite(y[t - P : t + 1]).all():
            features = np.concatenate(
                [*(y[t - lag, :D] for lag in range(1, P + 1)), y[t, D:], [1.0]]
            )
            for k in range(K):
                found[t, k] = density(k, y[t, :D] - A * y[t - 1, :D], features)
    return found


def normal(k, change, features):
    g, precision = THETA["dynamics"]
    return stats.multivariate_normal(features @ g[k], np.linalg.inv(precision[k])).logpdf(change)


def summed(fits, initial, transition):
    """log p(y) and the smoothed probabilities, by all paths."""
    if not len(fits):
        return 0.0, np.zeros((0, K))
    paths = np.array(list(itertools.product(range(K), repeat=len(fits))))
    logs = np.log(initial)[paths[:, 0]] + np.log(transition)[paths[:, :-1], paths[:, 1:]].sum(1)
    logs = logs + fits[np.arange(len(fits)), paths].sum(1)
    value = special.logsumexp(logs)
    return value, np.stack([np.exp(logs - value) @ (paths == k) for k in range(K)], 1)


@functools.cache
def model():
    """In float64. Made where it is used: every test process imports this file."""
    with jax.enable_x64(True):
        return vi.models.arhmm(D, K, num_lags=P, num_inputs=M, persistence=A, strength=1.0)


def test_the_e_step_is_the_sum_over_all_paths():
    """Sequences of 6, 4, 1 and 0 steps, an entry missing, nonsense in padding."""
    with jax.enable_x64(True):
        y, mask = DATA
        spoilt = np.where(mask[..., None], y, 1e3)
        batch, prior = vi.Minibatch((spoilt, mask), None), model().prior({})
        said = jax.jit(
            lambda prior: model().local_elbo({}, prior.stats(THETA), batch, KEY, model().estep)
        )(prior)
        probs = np.asarray(said.local["z"].probs)
    for n, steps in enumerate(LENGTHS):
        fits = densities(Y[n, :steps], normal)
        value, smoothed = summed(fits, THETA["initial"], THETA["transition"])
        np.testing.assert_allclose(said.per_group[n], value, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(probs[n, :steps], smoothed, rtol=1e-9, atol=1e-12)
    assert (
        np.count_nonzero(densities(Y[0], normal)[:, 0]) == 1
    )  # of the first sequence one step is explained


def test_the_score_is_of_student_laws():
    """At the prior in the place of a posterior: y - M' f over the scale is Student's t."""
    with jax.enable_x64(True):
        q = model().prior({})
        law = q["dynamics"]
        degrees, scale = float(law.degrees[0]), np.asarray(law.scale[0])
        found = model().queries["score"]({}, dict(q), DATA, KEY)

    def student(k, change, features):
        freedom = degrees - D + 1
        shape = np.linalg.inv(scale) * (1 + features @ features) / freedom
        return stats.multivariate_t(np.zeros(D), shape, freedom).logpdf(change)

    even = np.full((K, K), 1 / K)
    values = [
        summed(densities(Y[n, :steps], student), even[0], even)[0]
        for n, steps in enumerate(LENGTHS)
    ]
    np.testing.assert_allclose(found.log_probs, values, rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(found.num_tokens, [1, 2, 0, 0])


def test_coordinate_ascent_never_loses_ground():
    """Entries missing, sequences short; and degenerate data: constant columns, nothing observed but
    one sequence."""
    full, same = np.ones((4, 6), bool), np.full((4, 6, D + M), 5.0)
    unseen = np.where((np.arange(D + M) < D) & (np.arange(4) > 0)[:, None, None], np.nan, same)
    with jax.enable_x64(True):
        alg = vi.cavi(model())
        for data in (DATA, (same, full), (unseen, full)):
            fit = vi.fit(alg, data, num_steps=20, key=KEY)
            assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))
            assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(fit.posterior))


@functools.cache
def on_the_track():
    """Laps, their parts, and a fit in float32."""
    columns = laps(np.random.default_rng(0), 3000)
    number, y = (
        columns["sequence"].astype(int),
        np.stack([columns["x1"], columns["x2"]], 1).astype(np.float32),
    )
    split = lambda x: [x[number == n] for n in range(number.max() + 1)]
    data = vi.models.pad(split(y))
    alg = vi.cavi(vi.models.arhmm(2, 4, stickiness=5.0, variance=1e-3))
    return data, split(columns["part"]), vi.fit(alg, data, num_steps=30, restarts=4, key=KEY)


def test_parts_of_a_track_are_found_and_forecasts_cover():
    """The segmentation; float32 keeps the bound within a tenth of a nat; 90 % bands, ten steps
    ahead, of the last ten steps of sequences."""
    (y, mask), parts, fit = on_the_track()
    paths = np.asarray(fit.locals((y, mask), key=KEY)["z"].mode())
    found = np.concatenate([path[: len(part)] for path, part in zip(paths, parts, strict=True)])
    metrics = pytest.importorskip("sklearn.metrics")
    assert metrics.adjusted_rand_score(np.concatenate(parts).astype(int), found) > 0.97
    assert np.diff(fit.trace["elbo"]).min() > -0.1
    cut = mask & (np.cumsum(mask, 1) <= mask.sum(1, keepdims=True) - 10)
    draws = np.asarray(fit.forecast(KEY, 200, (y, cut), 10))
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    ends = cut.sum(1)[:, None] + np.arange(10)
    truth = np.take_along_axis(y, ends[..., None], 1)
    assert 0.8 < np.mean((truth >= low) & (truth <= high)) < 0.99


def test_draws_keep_the_first_steps_and_the_inputs():
    with jax.enable_x64(True):
        data = (np.nan_to_num(Y), np.ones((4, 6), bool))
        fit = vi.fit(vi.cavi(model()), data, num_steps=1, key=KEY)
        draws = np.asarray(fit.predictive(KEY, 2, data))
        ahead = np.asarray(fit.forecast(KEY, 2, data, 3))
    np.testing.assert_array_equal(
        draws[:, :, :P], np.broadcast_to(data[0][:, :P], draws[:, :, :P].shape)
    )
    np.testing.assert_array_equal(
        draws[..., D], np.broadcast_to(data[0][..., D], draws[..., D].shape)
    )
    assert np.all(draws[0, :, P:, :D] != draws[1, :, P:, :D])
    np.testing.assert_array_equal(
        ahead[..., D], np.broadcast_to(data[0][:, -1:, D], ahead[..., D].shape)
    )


def test_gaps_are_drawn_before_a_forecast():
    """Certain dynamics, a step of one each time: the last three steps are not known."""
    y = np.arange(30.0)[None, :, None] + 0.01 * np.random.default_rng(0).normal(size=(1, 30, 1))
    y[:, 27:] = np.nan
    fit = vi.fit(
        vi.cavi(vi.models.arhmm(1, 1, variance=1e-4)),
        (y, np.ones((1, 30), bool)),
        num_steps=2,
        key=KEY,
    )
    ahead = np.asarray(fit.forecast(KEY, 50, (y, np.ones((1, 30), bool)), 2))
    np.testing.assert_allclose(ahead.mean(0)[0, :, 0], [30, 31], atol=0.3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            (np.zeros((1, 4, D)), np.ones((1, 4), bool)),
            r"y of shape \(N, T, 3\), got shape \(1, 4, 2\)",
        ),
        (
            (np.where([[[0, 0, 1]]], np.nan, np.zeros((1, 4, 3))), np.ones((1, 4), bool)),
            "inputs .* that are all known",
        ),
        (
            (np.where([[[0], [1]]], np.inf, np.zeros((1, 2, 3))), np.ones((1, 2), bool)),
            "got inf in sequence 0, step 1",
        ),
        (
            (np.zeros((2, 3, 3)), np.array([3 * [True], 3 * [False]]) & [True, True, False]),
            "3 steps in a row .* none",
        ),
        (
            (
                np.where(np.arange(5)[:, None] == [2, 2, 9], np.nan, np.zeros((1, 5, 3))),
                np.ones((1, 5), bool),
            ),
            "in a row",
        ),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        vi.fit(vi.cavi(model()), data, num_steps=1, key=KEY)


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ([4, 4], r"expected data \(y, mask\), whose first 2 steps"),
        (DATA, "first 2 steps are known.* got sequence 2"),
    ],
)
def test_draws_need_first_steps(like, message):
    with jax.enable_x64(True), pytest.raises(ValueError, match=message):
        model().queries["predictive"].layout(like)
