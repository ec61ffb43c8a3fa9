"""Laws of the groups of the data, on every row of the registry: their order, and their weights.

All are read off one step in float64 from a state that is given (`tests.models.one_step`), so that
no start tells."""

import jax
import numpy as np

from tests.models.one_step import algorithm, assert_near, begun, groups_taken, weighed, with_groups
from tests.models.registry import KEY, ROWS, on, that_hold
from vijax.fitting.result import Fit

SHUFFLE = np.random.default_rng(0)


@on(that_hold("permutes", ROWS))
def test_groups_in_another_order(case):
    """Globals and objective stay; bounds and locals of groups move with them."""
    one = begun(case)
    order = SHUFFLE.permutation(one.places)
    before = one.again()
    after = one.again(*with_groups(one, order))
    assert_near(after.globals(), before.globals())
    assert_near(after.per_group, groups_taken(before.per_group, order), what="bounds")
    assert_near(after.state.local, groups_taken(before.state.local, order), what="locals")


@on(that_hold("weighs", ROWS))
def test_a_group_of_weight_two_is_the_group_twice(case):
    one = begun(case)
    is_last = one.places == one.places[-1]
    twice = one.again(*with_groups(one, np.where(is_last, 0, one.places)))
    weights = np.where(one.places == 0, 2.0, np.where(is_last, 0.0, 1.0))
    heavy = one.again(*with_groups(one, one.places, weights))
    assert_near(heavy.globals(), twice.globals())


ON_A_RIDGE = ("stochastic_block_model_poisson",)
"""After two steps its blocks are so alike that rounding chooses which is which in a graph."""


@on([case for case in that_hold("weighs", ROWS) if case.asks and case.name not in ON_A_RIDGE])
def test_answers_and_scores_after_weights_are_those_after_copies(case):
    """Two steps on."""
    one = begun(case)
    is_last = one.places == one.places[-1]
    twice = with_groups(one, np.where(is_last, 0, one.places))
    heavy = with_groups(
        one, one.places, np.where(one.places == 0, 2.0, np.where(is_last, 0.0, 1.0))
    )
    assert_near(said_after(case, one, *heavy), said_after(case, one, *twice), 1e-6)


def said_after(case, one, batch, state):
    """What the fit says of the data, and their score, after two steps of this batch."""
    for _ in range(2):
        state = one.again(batch, state).state
    with jax.enable_x64(True):
        fit = Fit(algorithm(case, True), jax.tree.map(jax.numpy.asarray, state), {}, None)
        said = {name: ask(fit, case.data) for name, ask in case.asks.items()}
        if "score" in fit.alg.spec.model.queries:
            said["score"] = fit.score(case.data, key=KEY)[:2]
        return jax.tree.map(np.asarray, said)


@on(ROWS)
def test_a_group_of_weight_zero_counts_nowhere(case):
    """Whatever stands in it: numbers of another group, or none at all."""
    one = begun(case)
    weights = np.where(one.places == one.places[-1], 0.0, 1.0)
    without = one.again(*with_groups(one, one.places, weights))
    assert np.max(np.abs(without.elbo - one.again().elbo)) > 1e-6
    for filler in fillers(one):
        filled = one.again(weighed(one.batch._replace(data=filler), weights))
        assert_near(filled.globals(), without.globals())
        assert filled.result == 0


@on(ROWS)
def test_a_start_reads_no_group_of_weight_zero(case):
    """Nor does the first step from there."""
    one = begun(case)
    weights = np.where(one.places == one.places[-1], 0.0, 1.0)
    batch = weighed(one.batch, weights)
    start = one.start(batch)
    first = one.again(batch, start)
    for filler in fillers(one):
        filled = weighed(one.batch._replace(data=filler), weights)
        other = one.start(filled)
        assert_near(other.posterior, start.posterior)
        assert_near(one.again(filled, other).globals(), first.globals())


def fillers(one):
    """The data with another last group: that of a neighbour, and, where data are numbers, one of
    NaN."""
    yield groups_taken(one.batch.data, np.where(one.places == one.places[-1], 2, one.places))
    if one.batch.weights is not None:
        yield jax.tree.map(with_last_lost, one.batch.data)


def with_last_lost(x):
    """The array with NaN in the place of its last row, if it can hold it."""
    return np.concatenate([x[:-1], np.full_like(x[-1:], np.nan)]) if x.dtype.kind == "f" else x
