"""Statistical checks are at 6 standard errors: one in 5e8 per number checked is a false alarm, and
seeds are fixed."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.inference import estep
from vijax.inference.estep.gibbs import (
    NO_TOPIC,
    draw_topics,
    pad_topics,
    sweep_tokens,
)
from vijax.inference.estep.token_draws import token_slots, uniform


@functools.partial(jax.jit, static_argnums=(0, 5))
def sample(step, *args):
    return step.mixed_membership(*args)


def exact_token_topics(likelihood, counts, alpha):
    """E[n_nk | w] of one document by summing over all K^N assignments of its tokens."""
    slot = np.repeat(np.arange(len(counts)), counts.astype(int))
    topics = len(alpha)
    total, expected = 0.0, np.zeros_like(likelihood)
    for z in itertools.product(range(topics), repeat=len(slot)):
        weight, seen = 1.0, alpha.copy()
        for n, k in zip(slot, z, strict=True):
            weight, seen[k] = weight * seen[k] * likelihood[n, k], seen[k] + 1
        total += weight
        np.add.at(expected, (slot, list(z)), weight)
    return expected / total


@pytest.mark.parametrize(
    ("num_sweeps", "burn_in", "alpha"),
    [(1, 40, [0.5, 1.0, 0.2]), (3, 40, [0.1] * 3), (2, 30, [5.0, 1.0, 1.0])],
)
def test_marginals_equal_enumeration(num_sweeps, burn_in, alpha):
    likelihood = np.array([[1.0, 0.3, 0.05], [0.2, 1.0, 0.6], [0.5, 0.5, 1.0]])
    counts, alpha, docs = np.array([2.0, 3.0, 1.0]), np.array(alpha), 8192
    rows = jnp.broadcast_to(likelihood, (docs, 3, 3)).astype(jnp.float32)
    step = estep.gibbs(num_sweeps, burn_in)
    local = sample(
        step,
        rows,
        jnp.tile(counts, (docs, 1)),
        jnp.asarray(alpha, jnp.float32),
        jax.random.key(1),
        6,
    )
    np.testing.assert_allclose(local.token_topics.sum(2), np.tile(counts, (docs, 1)), rtol=1e-6)
    np.testing.assert_allclose(local.gamma, alpha + local.token_topics.sum(1), rtol=1e-6)
    error = local.token_topics.mean(0) - exact_token_topics(likelihood, counts, alpha)
    assert np.all(np.abs(error) < 6 * local.token_topics.std(0) / np.sqrt(docs) + 1e-6)


def test_a_sweep_leaves_the_joint_law_of_topics_and_words_as_it_is():
    """Geweke: (z, w) from the model, one sweep from z; moments of the new z and its agreement with
    w are the old."""
    rng = np.random.default_rng(0)
    docs, tokens, topics, words = 20000, 6, 5, 4
    alpha, beta = np.array([0.3, 1.0, 0.1, 2.0, 0.5]), rng.dirichlet(np.ones(words), size=topics)
    theta = rng.dirichlet(alpha, size=docs)
    z = (
        (theta.cumsum(1)[:, :, None] < rng.uniform(size=(docs, 1, tokens)))
        .sum(1)
        .clip(max=topics - 1)
    )
    w = (beta.cumsum(1)[z] < rng.uniform(size=(docs, tokens, 1))).sum(2).clip(max=words - 1)
    likelihood = jnp.moveaxis(pad_topics(jnp.asarray(beta.T[w.T], jnp.float32)), 1, -1)
    counts = pad_topics(jnp.asarray((z[:, :, None] == np.arange(topics)).sum(1), jnp.float32))
    bits = jax.random.bits(jax.random.key(0), (tokens, docs), jnp.uint32)
    state = jnp.asarray(z.T, jnp.int32), jnp.moveaxis(counts, 0, -1)
    prior = pad_topics(jnp.asarray(alpha, jnp.float32))[:, :, None]
    new, new_counts = jax.jit(sweep_tokens)(
        *state, prior, likelihood, jnp.ones((tokens, docs), bool), bits
    )
    assert float((np.asarray(new) != z.T).mean()) > 0.2

    def moments(z):
        n = (z[:, :, None] == np.arange(topics)).sum(1)
        words_of = (
            (w[:, :, None, None] == np.arange(words))
            & (z[:, :, None, None] == np.arange(topics)[:, None])
        ).sum(1)
        return np.concatenate(
            [n, n**2, n * np.roll(n, 1, axis=1), words_of.reshape(docs, -1)], axis=1
        )

    np.testing.assert_array_equal(
        new_counts.reshape(-1, docs)[:topics].T,
        (np.asarray(new).T[:, :, None] == np.arange(topics)).sum(1),
    )
    gap = moments(np.asarray(new).T) - moments(z)
    assert np.all(np.abs(gap.mean(0)) < 6 * gap.std(0) / np.sqrt(docs))


@pytest.mark.parametrize("topics", [1, 2, 3, 10, 97, 300])
def test_draws_follow_their_weights(topics):
    rng = np.random.default_rng(topics)
    docs = 200_000
    weights = rng.gamma(0.5, size=topics) * (rng.uniform(size=topics) < 0.8)
    weights[-1] += 0.5
    blocked = jnp.broadcast_to(
        pad_topics(jnp.asarray(weights, jnp.float32))[:, :, None],
        (*pad_topics(weights).shape, docs),
    )
    draws = draw_topics(blocked, jax.random.bits(jax.random.key(topics), (docs,), jnp.uint32))
    p = weights / weights.sum()
    seen = np.bincount(draws, minlength=topics) / docs
    assert len(seen) == topics
    assert np.all(seen[p == 0] == 0)
    assert np.all(np.abs(seen - p) <= 6 * np.sqrt(p * (1 - p) / docs) + 1e-7)


def test_extreme_bits_draw_a_topic_that_has_weight():
    weights = jnp.zeros((3, 3, 2)).at[1, 1].set(1e-33).at[0, 2].set(3e-34)
    bits = jnp.array([0, 2**32 - 1], jnp.uint32)
    assert draw_topics(weights, bits).tolist() == [4, 2]
    assert uniform(bits, jnp.float32).tolist() == [0.0, 1 - 2**-24]


def test_first_sweep_places_tokens_one_after_the_other():
    likelihood = np.array([[1.0, 0.4], [0.3, 1.0]])
    alpha, docs = np.array([0.3, 0.7]), 40000
    rows, counts = jnp.broadcast_to(jnp.float32(likelihood), (docs, 2, 2)), jnp.ones((docs, 2))
    drawn = sample(
        estep.gibbs(1, 0), rows, counts, jnp.float32(alpha), jax.random.key(3), 2
    ).token_topics
    first = alpha * likelihood[0] / (alpha @ likelihood[0])
    then = (alpha + np.eye(2)) * likelihood[1]
    expected = np.stack([first, first @ (then / then.sum(1, keepdims=True))])
    assert np.all(np.abs(drawn.mean(0) - expected) < 6 * drawn.std(0) / np.sqrt(docs))


def test_slots_of_tokens():
    slots = token_slots(jnp.array([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), 4)
    assert slots.T.tolist() == [[0, 0, 2, 3], [1, 3, 3, 3], [3, 3, 3, 3]]


def test_tokens_that_do_not_exist_stay_nowhere():
    topics = jnp.full((2, 3), NO_TOPIC)
    state = topics, jnp.zeros((2, 2, 3))
    exists = jnp.array([[True, False, False], [False, False, False]])
    bits = jnp.zeros((2, 3), jnp.uint32)
    new, counts = jax.jit(sweep_tokens)(
        *state, jnp.ones((2, 2, 1)), jnp.ones((2, 2, 2, 3)), exists, bits
    )
    assert new.tolist() == [[0, NO_TOPIC, NO_TOPIC], [NO_TOPIC] * 3]
    assert counts.sum() == 1


def test_same_key_same_draws():
    rows, counts, alpha = jnp.ones((4, 5, 6)), jnp.ones((4, 5)), jnp.ones(6)
    run = lambda seed: (
        sample(estep.gibbs(2, 1), rows, counts, alpha, jax.random.key(seed), 5).token_topics
    )
    np.testing.assert_array_equal(run(0), run(0))
    assert not np.array_equal(run(0), run(1))


def test_random_words_use_both_words_of_the_seed_and_the_stream():
    from vijax.inference.estep.token_draws import random_words

    draw = lambda a, b, t: np.asarray(
        random_words(jnp.asarray([a, b], jnp.uint32), jnp.int32(t), (50,))
    )
    first = draw(1, 2, 0)
    assert all((draw(*other) != first).mean() > 0.9 for other in [(5, 2, 0), (1, 5, 0), (1, 2, 5)])
