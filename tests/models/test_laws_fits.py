"""Laws of fits, on every row of the registry: what is made again, gone on with, sent or stored is
the same fit.

The fits are in the precision that users have, and share their programs by row.
"""

import pickle

import jax
import numpy as np

import vijax as vi
from tests.models.registry import ROWS, TABLES, on, that_hold
from tests.models.short_fits import assert_same, fit_of, fitted
from tests.programs import compiled, names_since

ALL = [*ROWS, *TABLES]


@on(ALL)
def test_a_run_in_two_parts_is_a_run_in_one(case):
    whole = fitted(case)
    half = fit_of(case, model=whole.model, num_steps=case.steps // 2)
    rest = fit_of(case, model=whole.model, state=half.fit.state)
    assert_same(rest.fit.state, whole.fit.state)
    assert int(half.fit.state.step) == case.steps // 2


@on(ALL)
def test_what_is_made_again_is_the_same_and_compiles_nothing(case):
    """Model, algorithm and fit; and answers."""
    one = fit_of(case)  # not the one that is kept: its programs may have been let go of
    said, before = one.asked(), compiled()
    again = fit_of(case)
    assert_same(again.fit.state, one.fit.state)
    assert_same(again.asked(), said)
    assert not names_since(before)


@on(that_hold("pickles", ALL))
def test_a_fit_that_was_pickled_says_the_same(case):
    """And goes on as it would have."""
    one = fitted(case)
    model, fit = pickle.loads(pickle.dumps((one.model, one.fit)))
    other = one._replace(model=model, fit=fit)
    assert_same(other.fit.posterior, one.fit.posterior)
    assert_same(other.asked(), one.asked())
    further = {"num_steps": case.steps + 1, "state": one.fit.state}
    assert_same(
        fit_of(case, model=other.model, **further).fit.state,
        fit_of(case, model=one.model, **further).fit.state,
    )


@on(ALL)
def test_a_fit_from_a_checkpoint_says_the_same(case, tmp_path):
    """Of a model that was made anew, as another process would make it."""
    one = fitted(case)
    vi.checkpoint.save(tmp_path, case.steps, one.fit.state)
    again = fit_of(case, num_steps=1)
    found = vi.checkpoint.latest(tmp_path, like=again.fit.state)
    read = again._replace(fit=again.fit._replace(state=found.tree))
    assert_same(read.fit.state, one.fit.state)
    assert_same(read.asked(), one.asked())


@on(ALL)
def test_another_key_is_another_start_of_a_fit_as_good(case):
    """It does not end below its beginning. Where a fit has no chance in it, another key changes
    nothing at all."""
    one = fitted(case)
    other = fit_of(case, model=one.model, key=jax.random.key(2))
    assert np.all(np.isfinite(other.fit.trace["elbo"]))
    assert np.all(other.fit.trace["result"] == 0)
    first, *_, last = other.fit.trace["elbo"]
    assert last >= first - 1e-5 * abs(first)
    ends = [(fitted.fit.state.posterior, fitted.fit.state.hyper) for fitted in (other, one)]
    pairs = zip(*map(jax.tree.leaves, ends), strict=True)
    assert any(not np.array_equal(a, b) for a, b in pairs) == case.chance
