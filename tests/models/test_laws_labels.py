"""Laws of names without a meaning, on every row of the registry: the order of columns and words,
and the numbers of components, states, topics and factors.

All are read off one step in float64 from a state that is given (`tests.models.one_step`), whose
axes of the length in question are put into another order. What a model says of one column, or of
one component, must move with it."""

import jax
import numpy as np

from tests.models.one_step import assert_near, begun, in_words_order, relabelled
from tests.models.registry import ROWS, on, that_hold


def another_order(size):
    """An order that moves every entry, and is not its own inverse where there are more than two."""
    return np.roll(np.arange(size), 1)


def known_of(state):
    return state.posterior, state.local


def moved(state, order):
    posterior, local = relabelled(known_of(state), order)
    return state._replace(posterior=posterior, local=local)


@on(that_hold("columns", ROWS))
def test_columns_in_another_order(case):
    """Or words, or items: globals move with them, and locals that have such an axis; objective and
    bounds stay."""
    one, order = begun(case), another_order(case.columns)
    before = one.again()
    after = one.again(
        one.batch._replace(data=in_words_order(one.batch.data, order)), moved(one.state, order)
    )
    assert_near(known_of(after.state), relabelled(known_of(before.state), order))
    assert_near((after.elbo, after.per_group), (before.elbo, before.per_group), what="bounds")


@on(that_hold("components", ROWS))
def test_components_in_another_order(case):
    """Globals and locals move with them; objective and bounds stay."""
    one, order = begun(case), another_order(case.components)
    before = one.again()
    after = one.again(state=moved(one.state, order))
    assert_near(known_of(after.state), relabelled(known_of(before.state), order))
    assert_near((after.elbo, after.per_group), (before.elbo, before.per_group), what="bounds")


@on([case for case in ROWS if isinstance(case.columns, int) or isinstance(case.components, int)])
def test_each_order_moves_the_state(case):
    """The law of a row that names an axis which no global has would hold by itself."""
    posterior = begun(case).state.posterior
    for size in (case.columns, case.components):
        if isinstance(size, int):
            other = relabelled(posterior, another_order(size))
            pairs = zip(jax.tree.leaves(other), jax.tree.leaves(posterior), strict=True)
            assert any(not np.allclose(a, b) for a, b in pairs)
