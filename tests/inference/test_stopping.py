"""The rule for noisy objectives: how often it errs on traces whose mean is known, and that a run
keeps to it."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.fitting import checkpoint
from vijax.inference.stopping import ROOM, next_look, observed, watch

KEY = jax.random.key(0)
WINDOWS, TRACES, LEVEL, TOL = 512, 500, -1000.0, 1e-3
ALLOWED = TOL * abs(LEVEL)
TIME = np.arange(3 * WINDOWS)
MEANS = {
    "flat": 0.0 * TIME,
    "fast": -100 * np.exp(-TIME / 20),
    "slow": -100 * np.exp(-TIME / 100),
    "power law": -300 / np.sqrt(TIME + 1),
    "line": 0.1 * TIME,
}


def noise(correlation, sd):
    rng = np.random.default_rng(0)
    fresh = rng.normal(size=(TRACES, WINDOWS))
    found = fresh.copy()
    for t in range(1, WINDOWS):
        found[:, t] = correlation * found[:, t - 1] + np.sqrt(1 - correlation**2) * fresh[:, t]
    return sd * ALLOWED * found


@jax.jit
def gains(traces):
    """What each trace's watch says after each of its steps."""

    def one(trace):
        step = lambda seen, x: ((seen := observed(seen, x)), seen.gain)
        return jax.lax.scan(step, watch(1), trace)[1]

    return jax.vmap(one)(traces)


def stops(name, correlation, sd):
    """After how many windows each trace is called converged (none: 0); and of those that are the
    true gain of as many windows more as the line was fitted to."""
    mean = MEANS[name]
    said = np.asarray(
        gains(jnp.asarray(LEVEL + mean[:WINDOWS] + noise(correlation, sd), jnp.float32))
    )
    met = said <= TOL
    ends = np.where(met.any(1), met.argmax(1) + 1, 0)
    half = ends // 2
    left = [
        mean[n : n + h].mean() - mean[n - h : n].mean()
        for n, h in zip(ends, half, strict=True)
        if n
    ]
    return ends, np.asarray(left)


@pytest.mark.parametrize(
    ("name", "correlation", "sd", "most_false", "most_missed"),
    [
        ("flat", 0.0, 0.3, 0.0, 0.0),
        ("flat", 0.5, 1.0, 0.0, 0.01),
        ("flat", 0.9, 1.0, 0.0, 0.02),
        ("flat", 0.0, 3.0, 0.0, 0.15),
        ("flat", 0.5, 3.0, 0.0, 0.2),
        ("fast", 0.0, 1.0, 0.0, 0.01),
        ("fast", 0.9, 3.0, 0.01, 1.0),
        ("slow", 0.0, 3.0, 0.01, 1.0),
        ("slow", 0.5, 3.0, 0.015, 1.0),
        ("slow", 0.9, 3.0, 0.015, 1.0),
        ("power law", 0.9, 3.0, 0.015, 1.0),
        ("line", 0.0, 3.0, 0.025, 1.0),
        ("line", 0.5, 3.0, 0.06, 1.0),
        ("line", 0.9, 3.0, 0.18, 1.0),
    ],
)
def test_how_often_it_errs(name, correlation, sd, most_false, most_missed):
    """Of stops, those that leave more than twice what is allowed; of traces, those not called
    converged in time."""
    ends, left = stops(name, correlation, sd)
    wrong, missed = np.sum(left > 2 * ALLOWED) / TRACES, np.mean(ends == 0)
    print(name, correlation, sd, "false", wrong, "missed", missed, "median", np.median(ends))
    assert wrong <= most_false
    assert missed <= most_missed


def test_windows_are_averages_and_pairs_of_them():
    """Also where they have no end in float32: sums of a million such terms are kept to the last
    digit."""
    x = np.float32(-1e6) + np.random.default_rng(0).normal(size=20 * 130).astype(np.float32)
    seen, _ = jax.lax.scan(lambda seen, x: (observed(seen, x), None), watch(20), jnp.asarray(x))
    assert (int(seen.merged), int(seen.filled), int(seen.observed)) == (4, 32, 20 * 130)
    want = x[: 20 * 128].astype(np.float64).reshape(32, -1).mean(1)
    np.testing.assert_allclose(np.asarray(seen.means[:32], np.float64), want, rtol=1.2e-7)
    assert np.all(np.asarray(seen.means[32:]) == 0)
    assert float(seen.total) == pytest.approx(x[20 * 128 :].astype(np.float64).sum(), rel=1e-7)


def test_looks_are_where_gains_change():
    said = np.asarray(gains(jnp.asarray(LEVEL + noise(0.0, 1.0)[:1], jnp.float32)))[0]
    looks = [n + 1 for n in range(1, WINDOWS) if said[n] != said[n - 1]]
    assert looks == [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]
    assert looks == list(dict.fromkeys(next_look(n, 1) for n in range(WINDOWS)))
    assert ROOM == 64


def test_the_gain_is_the_upper_end_of_a_line():
    """By SciPy's regression; of this noise neighbours are correlated a little, which widens it."""
    from scipy import stats

    y = LEVEL + np.random.default_rng(11).normal(size=48) + 0.05 * np.arange(48)
    seen, _ = jax.lax.scan(
        lambda seen, x: (observed(seen, x), None), watch(1), jnp.asarray(y, jnp.float32)
    )
    line = stats.linregress(np.arange(24), y[24:])
    left = y[24:] - line.intercept - line.slope * np.arange(24)
    like = left[1:] @ left[:-1] / (left @ left)
    like = np.clip(like + (1 + 4 * max(like, 0)) / 24, 0, 0.9)
    assert like > 0.2
    most = line.slope + stats.t.ppf(0.95, 22) * line.stderr * np.sqrt((1 + like) / (1 - like))
    assert float(seen.gain) == pytest.approx(24 * most / abs(y[24:].mean()), rel=1e-3)


def test_a_step_that_is_not_finite_is_no_convergence():
    flat = np.full(64, LEVEL, np.float32)
    flat[40] = np.nan
    said = np.asarray(gains(jnp.asarray(flat)[None]))[0]
    assert said[31] == 0
    assert not np.any(said[47:] <= TOL)


# --- runs -----------------------------------------------------------------------------------------
COIN = vi.model(
    prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)
Y = (np.arange(200) % 4 == 0).astype(np.float32)
ALGORITHMS = {
    "minibatches": vi.svi(COIN),
    "draws": vi.ssvi_a(COIN, step_size=vi.step_size.robbins_monro()),
}


def run(kind, **more):
    size = 20 if kind == "minibatches" else None
    usual = {"num_steps": 4000, "tol": 0.02, "steps_per_chunk": 30, "batch_size": size, "key": KEY}
    return vi.fit(ALGORITHMS[kind], Y, **usual | more)


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.fixture(scope="module", params=ALGORITHMS)
def unbroken(request):
    fit = run(request.param)
    assert fit.status is vi.Status.CONVERGED
    assert "below tol" in fit.outcome
    assert 160 <= int(fit.state.step) < 4000
    assert float(fit.state.watch.gain) <= 0.02
    return request.param, fit


@pytest.mark.parametrize("chunk", [7, 400])
def test_the_size_of_chunks_does_not_move_the_end(unbroken, chunk):
    kind, fit = unbroken
    same(fit.state, run(kind, steps_per_chunk=chunk).state)


@pytest.mark.parametrize("cut", [15, 160])
def test_a_resumed_run_ends_where_the_unbroken_one_does(unbroken, cut):
    kind, fit = unbroken
    whole = run(kind, state=run(kind, num_steps=cut).state)
    same(fit.state, whole.state)
    assert whole.status is vi.Status.CONVERGED
    again = run(kind, state=whole.state)
    assert (again.status, again.trace) == (vi.Status.CONVERGED, {})


def test_without_tol_nothing_is_watched_and_other_batches_begin_anew(unbroken):
    kind, fit = unbroken
    plain = run(kind, tol=None, num_steps=int(fit.state.step))
    same(plain.posterior, fit.posterior)
    assert int(plain.state.watch.observed) == 0
    if kind == "minibatches":
        other = run(kind, state=fit.state, batch_size=10, num_steps=int(fit.state.step) + 30)
        assert (int(other.state.watch.observed), int(other.state.watch.window)) == (30, 20)


@pytest.mark.filterwarnings("ignore:restarts")  # the start draws nothing
def test_restarts_stop_when_all_have_converged(unbroken):
    kind, _ = unbroken
    seen = []
    both = run(
        kind,
        restarts=2,
        callbacks=[lambda now: seen.append((now.step, now.gain, now.whole.watch.gain.max()))],
    )
    assert both.status is vi.Status.CONVERGED
    assert seen[-1][1] == pytest.approx(float(seen[-1][2]))
    assert all(gain > 0.02 for _, gain, _ in seen[:-1])
    assert both.trace["restart_elbo"].shape == (int(both.state.step), 2)


def test_noise_far_above_tol_is_not_taken_for_convergence():
    fit = run("minibatches", tol=1e-9, num_steps=500)
    assert fit.status is vi.Status.FINISHED


def test_a_checkpoint_of_another_version_is_refused_in_words(unbroken, tmp_path):
    """Such as one without a watch."""
    _, fit = unbroken
    before = collections.namedtuple(
        "Before", [name for name in fit.state._fields if name != "watch"]
    )
    checkpoint.save(
        tmp_path, 7, before(**{name: getattr(fit.state, name) for name in before._fields})
    )
    with pytest.raises(
        checkpoint.OtherTreeError, match=r"another version of vijax: \.watch.*absent\. Fit again"
    ):
        checkpoint.latest(tmp_path, fit.state)
