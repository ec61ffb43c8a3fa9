"""Slots: sums of messages, and the number of observations of each, by hand."""

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax import tree
from vijax.growing.slots import STICKS, add_messages, count_observations, slot_axes
from vijax.models.emission import tied_gaussian


def priors(model):
    """Those of two numbers of slots."""
    one, other = model(3), model(4)
    return one.prior(one.hyper), other.prior(other.hyper)


def test_what_slots_share_is_counted_once():
    """A tied covariance has the rows of all slots already, when the rows of a new slot are added to
    the means."""
    prior, other = priors(lambda k: vi.models.dp_mixture(tied_gaussian(k, dim=2)))
    axes = slot_axes(prior, other)
    rng = np.random.default_rng(0)

    def with_message(seed):
        noise = np.random.default_rng(seed)
        leaves = [
            0.1 * noise.uniform(size=x.shape).astype(x.dtype)
            for x in tree.parameters(prior["components"])
        ]
        sticks = jax.tree.map(
            lambda x: x + jnp.asarray(rng.uniform(size=x.shape), x.dtype), prior[STICKS]
        )
        message = prior["components"].with_naturals(leaves)
        return prior.replace({STICKS: sticks, "components": tree.add(prior["components"], message)})

    a, b = with_message(1), with_message(2)
    both = add_messages(axes, a, b, prior)
    shared = 0
    (where,) = (along for name, along in axes if name == "components")
    each = (tree.parameters(q["components"]) for q in (both, a, b, prior))
    for along, total, one, two, before in zip(where, *each, strict=True):
        if along:
            np.testing.assert_allclose(total, one + two - before, rtol=1e-5, atol=1e-6)
        else:
            shared += 1
            assert np.max(np.abs(np.asarray(two) - before)) > 1e-3
            np.testing.assert_array_equal(total, one)
    assert shared > 0


def test_a_state_that_its_stick_leaves_out_counts_no_more_than_that():
    """Of a chain with a stick worth .3 of a step, whose transitions still hold 7; of the others
    transitions count."""
    prior, other = priors(lambda k: vi.models.hdp_hmm(vi.models.emission.unit_gaussian(k, dim=1)))
    axes = slot_axes(prior, other)
    counts = np.array([30.0, 0.3, 12.0])
    after = np.cumsum(counts[:0:-1])[::-1]
    sticks = type(prior[STICKS])(prior[STICKS].alpha + counts[:-1], prior[STICKS].beta + after)
    moved = {}
    for name, q in prior.items():
        if isinstance(q, vi.Dirichlet):
            moved[name] = type(q)(q.concentration + 7.0)
    counted = np.asarray(count_observations(axes, prior.replace({STICKS: sticks, **moved}), prior))
    np.testing.assert_allclose(counted[1], 0.3, rtol=1e-4)
    assert np.all(counted[[0, 2]] > 7)
