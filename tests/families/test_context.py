"""Families with a context: arrays that are no natural parameters, and that arithmetic on these
leaves alone."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax import tree
from vijax.inference.sites import FeatureForm, SitePosterior

RNG = np.random.default_rng(0)
T, LENGTH = 5, 3
MASK = jnp.arange(T) < LENGTH


def discrete(size, scale=1.0):
    rng = np.random.default_rng(1)
    first, step, unary = rng.normal(size=2), rng.normal(size=(2, 2)), rng.normal(size=(T, 2))
    return vi.MarkovChain.from_potentials(scale * first, scale * step, scale * unary[:size])


def gaussian(size, scale=1.0):
    rng = np.random.default_rng(2)
    linear, cross = rng.normal(size=(T, 2)), 0.3 * scale * rng.normal(size=(T - 1, 2, 2))
    square = jnp.broadcast_to(-scale * jnp.eye(2), (T, 2, 2))
    return vi.LinearGaussianChain.from_potentials(linear[:size], square[:size], cross[: size - 1])


@pytest.mark.parametrize("make", [discrete, gaussian])
def test_a_padded_chain_is_the_chain_of_its_length(make):
    long, short = make(T).with_context(MASK), make(LENGTH)
    other, short_other = make(T, 0.5), make(LENGTH, 0.5)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    close(long.log_normalizer(), short.log_normalizer())
    close(long.entropy(), short.entropy())
    close(long.kl(other), short.kl(short_other))  # other's own context does not count
    close(long.mean()[:LENGTH], short.mean())
    assert not np.any(long.mean()[LENGTH:])
    path = long.sample(jax.random.key(0))
    close(long.log_prob(path), short.log_prob(path[:LENGTH]))
    tangent = tree.subtract(other, long)
    product = long.fisher_product(tangent)
    exact = short.fisher_product(tree.subtract(short_other, short))
    for a, b in zip(product, exact, strict=True):
        rows = tuple(slice(size) for size in b.shape)
        close(a[rows], b)


def sites(size=4):
    form = FeatureForm(jnp.asarray(RNG.normal(size=(size, 3)), jnp.float32))
    return SitePosterior(jnp.ones(size), jnp.full(size, 2.0), form)


@pytest.mark.parametrize("q", [sites(), discrete(T).with_context(MASK)], ids=["sites", "chain"])
def test_arithmetic_takes_the_context_of_its_first_operand(q):
    bare = q.with_context(None)
    for result in (
        tree.add(q, bare),
        tree.mix(0.3, q, bare),
        tree.scale(2.0, q),
        q.with_naturals(bare),
        q.flat(),
        q.in_domain(),
    ):
        for a, b in zip(jax.tree.leaves(context(result)), jax.tree.leaves(context(q)), strict=True):
            assert a is b
    assert jax.tree.leaves(context(tree.add(bare, q))) == []
    for a, b in zip(tree.parameters(tree.subtract(q, bare)), tree.parameters(q), strict=True):
        np.testing.assert_array_equal(a, jnp.zeros_like(b))


def context(q):
    return [x for x in jax.tree.leaves(q, is_leaf=tree.is_context) if tree.is_context(x)]


def test_another_context_is_another_argument_and_compiles_nothing():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def mean(q):
        return q.mean()

    first, second = sites(), sites()
    assert not np.allclose(mean(first), mean(second))
    np.testing.assert_allclose(jax.vmap(mean)(stacked(first, second))[1], second.mean(), rtol=1e-5)


def stacked(*trees):
    return jax.tree.map(lambda *xs: jnp.stack(xs), *trees)


def test_a_product_hands_contexts_to_its_factors():
    q = vi.Product({"z": sites().with_context(None), "a": vi.Normal.from_mean_variance(0.0, 1.0)})
    form = sites().prior
    assert q.with_context({"z": form})["z"].prior is form
    with pytest.raises(ValueError, match=naming("context:", "'a'", "'z'", "'b'")):
        q.with_context({"b": form})
    vi.Product({"z": q["z"]})  # proper, though nothing is known of its prior


def test_what_a_step_prepares_answers_as_before():
    q = sites()
    ready = q.prepare()
    for ask in (
        lambda q: q.mean(),
        lambda q: q.marginals(),
        lambda q: q.kl_to_prior(q.flat()),
        lambda q: q.kl(q.flat()),
    ):
        for a, b in zip(jax.tree.leaves(ask(ready)), jax.tree.leaves(ask(q)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    moved = tree.scale(2.0, ready)  # nothing that was prepared comes along
    np.testing.assert_allclose(moved.mean(), tree.scale(2.0, q).mean(), rtol=1e-6)
    rows = jnp.array([2, 0, 1, 3])
    np.testing.assert_allclose(ready.entries(rows).mean, q.mean()[rows], rtol=1e-6)
