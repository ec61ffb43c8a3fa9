"""Convergence is judged at steps 50, 100, 150, ... by what the state holds: no cut into chunks or
parts moves it."""

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.inference.stopping import remaining_gain

KEY = jax.random.key(0)
COIN = vi.model(
    prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)
ALG = vi.cavi(COIN, step_size=vi.step_size.constant(0.03))
Y = (np.arange(40) % 4 == 0).astype(np.float32)


def run(**more):
    return vi.fit(ALG, Y, key=KEY, **{"num_steps": 1000, "tol": 1e-6, "steps_per_chunk": 20} | more)


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.fixture(scope="module")
def unbroken():
    fit = run()
    assert fit.status is vi.Status.CONVERGED
    assert 100 < int(fit.state.step) < 1000
    return fit


def test_it_stops_where_the_objective_of_two_checks_agrees(unbroken):
    ends = run(tol=None, num_steps=int(unbroken.state.step)).trace["elbo"][49::50]
    change = np.abs(np.diff(ends)) / np.abs(ends[1:])
    assert np.all(change[:-1] > 1e-6)
    assert change[-1] <= 1e-6


@pytest.mark.parametrize("chunk", [7, 50, 400])
def test_the_size_of_chunks_does_not_move_the_end(unbroken, chunk):
    same(unbroken.state, run(steps_per_chunk=chunk).state)


@pytest.mark.parametrize("cut", [10, 50, 110, 150])
def test_a_resumed_run_ends_where_the_unbroken_one_does(unbroken, cut):
    part = run(num_steps=cut)
    whole = run(state=part.state)
    same(unbroken.state, whole.state)
    assert whole.status is vi.Status.CONVERGED


def test_a_run_that_has_converged_takes_no_step_more(unbroken):
    again = run(state=unbroken.state)
    assert (again.status, again.trace) == (vi.Status.CONVERGED, {})
    same(unbroken.state, again.state)
    further = run(state=unbroken.state, tol=None, num_steps=int(unbroken.state.step) + 50)
    assert int(further.state.step) == int(unbroken.state.step) + 50


@pytest.mark.filterwarnings("ignore:restarts. all:vijax.fitting.restarts.EqualStartsWarning")
def test_the_same_holds_of_restarts():
    kept = {}
    keep = lambda seen: kept.update({seen.step: jax.tree.map(np.asarray, seen.whole)})
    whole = run(restarts=2, callbacks=[keep], steps_per_chunk=50)
    assert whole.status is vi.Status.CONVERGED
    end = int(whole.state.step)
    for step in (50, end):
        again = run(restarts=2, state=kept[step], steps_per_chunk=50)
        assert (again.status, int(again.state.step)) == (vi.Status.CONVERGED, end)
        same(whole.state, again.state)


def test_a_change_of_the_last_digit_is_none():
    """In float32 a tolerance that no change of an objective can meet but zero still ends a run that
    stands still."""
    fit = run(tol=1e-30, num_steps=3000, steps_per_chunk=50)
    assert fit.status is vi.Status.CONVERGED


def checks(objective):
    """The step at which an objective, a function of the step, is called converged at tol 1e-4; None
    within 5,000."""
    values = objective(np.arange(50.0, 5001.0, 50.0))
    gains = [remaining_gain(values[i - 3 : i]) for i in range(3, len(values) + 1)]
    met = [i for i, gain in enumerate(gains) if gain <= 1e-4]
    return 50 * (met[0] + 3) if met else None


@pytest.mark.parametrize("time", [5.0, 50.0, 500.0, 1000.0])
def test_of_a_slow_ascent_no_more_than_tol_is_left(time):
    """Its change over 50 steps alone would be within tol where up to 20 times that is left."""
    step = checks(lambda t: -1000 - 100 * np.exp(-t / time))
    assert step is None or 100 * np.exp(-step / time) <= 1.01 * 1e-4 * 1000
    assert step is not None or 100 * np.exp(-5000 / time) > 1e-4 * 1000


def test_an_ascent_that_speeds_up_again_is_not_converged():
    """A saddle: changes are within tol for 150 steps, and grow."""
    assert checks(lambda t: -1000 + 1e-3 * np.expm1(t / 100) / (1 + 1e-5 * np.exp(t / 100))) > 1500


def test_what_falls_is_not_converged_before_it_stands_still():
    assert checks(lambda t: -1000 - 0.09 * t / 50) is None
