"""Births and merges of topics (after Hughes, Kim and Sudderth 2015).

A birth divides the words that documents have of one topic: a document of these words alone,
weighted by the share of the topic in each, is data for a small model, whose topics take the place
of that one. So it does with the words of several topics that documents have together: where pieces
of two topics have grown into one, no merge of two and no division of one can mend it."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax import tree
from vijax.contract.batch import Documents, Minibatch
from vijax.families import Product
from vijax.growing.laps import climb, counted
from vijax.growing.restarts import first_words
from vijax.growing.slots import STICKS, Axes
from vijax.inference.compose import Algorithm
from vijax.models.documents.hdp import LEAST, Shared, added
from vijax.xla.compiler import cached_program, step_jit
from vijax.xla.gather import docs_per_chunk

TOPICS = "topics"
"""The name of the global of topics."""


def merged_into_one(batches: Minibatch) -> Minibatch:
    """All batches as one."""
    flat = lambda x: x.reshape(-1, *x.shape[2:])
    number = None if batches.num_groups is None else jnp.asarray(batches.num_groups)[0]
    return Minibatch(jax.tree.map(flat, batches.data), number, None)


def divided(
    alg: Algorithm,
    small: Algorithm,
    axes: Axes,
    q: Product,
    batches: Minibatch,
    key: PRNGKeyArray,
    slots: Float[np.ndarray, " K"],
    alone: bool,
    most: int,
) -> tuple[Product, Float[Array, " J"]]:
    """A small model of the words of one topic, or of several.

    Args:
      alg: the algorithm.
      small: coordinate ascent of the small model.
      axes: see `slots.axes_of`.
      q: the posterior.
      batches: all documents, along a leading axis, and the words of each topic that they have.
      key: random key of the start of the small model.
      slots: 1 at these topics, 0 at others.
      alone: at the start one document, drawn by its words of them, is alone in a topic of the small
        model, and all others are in another; else the small model starts by itself.
      most: laps at most.

    Returns:
      The posterior of the small model, and the size of each of its topics.
    """
    shares = cached_program(
        alg.step, "shares", lambda step: step_jit(functools.partial(_shares, step))
    )(q, batches.local)
    make = lambda step: step_jit(functools.partial(_words_of_topics, step, small.init))
    words = q[TOPICS].expected_stats().log
    given = words, shares, batches, key, jnp.asarray(slots, words.dtype), alone
    start, batch = cached_program(small.step, "words of topics", make)(*given)
    found = climb(small, start, batch, key, -jnp.inf, most).posterior
    return found, counted(
        axes, found, small.spec.model.prior(tree.as_arrays(small.spec.model.hyper))
    )


def merge_terms(alg: Algorithm, q: Product, batches: Minibatch) -> Float[Array, "K K"]:
    """The gain of documents' bounds if topic b is merged into topic a, at [a, b]: without what
    words lose by it."""
    return cached_program(
        alg.step, "merge terms", lambda step: step_jit(functools.partial(_merge_terms, step))
    )(q, batches)


def _merge_terms(step_of: weakref.ref, q: Product, batches: Minibatch) -> Array:
    step: Any = step_of()
    flat = lambda x: x.reshape(-1, *x.shape[2:])
    words = jnp.concatenate([flat(x) for x in batches.local])
    weights = jnp.concatenate([flat(docs.weights) for docs in batches.data])
    shared = Shared.of(tree.as_arrays(step.spec.model.hyper), {STICKS: q[STICKS].expected_stats()})
    total = lambda log_x, n: weights @ added(log_x, n)
    alone = total(shared.log_x, words)
    own = lambda a: jnp.logaddexp(shared.log_x, shared.log_x[a])
    into = lambda a: total(own(a), words + words[:, a][:, None]) - alone - alone[a]
    return jax.lax.map(into, jnp.arange(len(alone)))


def _shares(step_of: weakref.ref, q: Product, local: Any) -> Any:
    """The topics of documents, unnormalised."""
    step: Any = step_of()
    shared = Shared.of(tree.as_arrays(step.spec.model.hyper), {STICKS: q[STICKS].expected_stats()})
    return jax.tree.map(lambda words: shared.x + words, local)


@step_jit
def nearness(batches: Minibatch) -> Float[Array, "K K"]:
    """The cosine between the numbers of words that documents have of two topics."""
    flat = lambda x: x.reshape(-1, *x.shape[2:])
    weigh = lambda docs, words: flat(words) * flat(docs.weights)[:, None]
    words = jnp.concatenate([weigh(*x) for x in zip(batches.data, batches.local, strict=True)])
    words /= jnp.sqrt(jnp.maximum(jnp.sum(words**2, 0), LEAST))
    return words.T @ words


def moved(local: Any, change: Float[np.ndarray, "L K"]) -> Any:
    """The words that documents have of each topic after a map of slots; None of other models."""
    along = lambda words: jnp.tensordot(
        words, jnp.asarray(change, words.dtype), axes=(-1, 1), precision="highest"
    )
    return jax.tree.map(along, local)


def _words_of_topics(
    step_of: weakref.ref,
    init: Any,
    words: Float[Array, "K V"],
    shares: Any,
    batches: Minibatch,
    key: PRNGKeyArray,
    slots: Float[Array, " K"],
    alone: Any,
) -> tuple[Product, Minibatch]:
    """The start of the small model, and its data as one batch."""
    step: Any = step_of()
    model = step.spec.model
    table = jnp.exp(words - jnp.max(words, 0)).T
    flat = lambda x: x.reshape(-1, *x.shape[2:])

    def of_topics(docs: Documents, shares: Float[Array, "D K"]) -> Documents:
        def one(row: tuple) -> Array:
            words, counts, shares = row
            weights = table[words] * shares
            return counts * (weights @ slots) / jnp.maximum(jnp.sum(weights, 1), LEAST)

        batch_size = docs_per_chunk(docs.words.shape[1], table.shape[1])
        given = docs.words, docs.counts.astype(table.dtype), shares
        return dataclasses.replace(docs, counts=jax.lax.map(one, given, batch_size=batch_size))

    one = merged_into_one(batches)
    data = tuple(of_topics(docs, flat(x)) for docs, x in zip(one.data, shares, strict=True))
    batch = one._replace(data=data)
    start = jax.lax.cond(
        alone,
        lambda: _of_one(init(key, batch).posterior, model, key, batch),
        lambda: init(key, batch).posterior,
    )
    batch = jax.tree.map(lambda x: x[None], batch)
    return start, batch._replace(local=first_words(model, batch))


def _of_one(q: Product, model: Any, key: PRNGKeyArray, batch: Minibatch) -> Product:
    """The start q, its last topic of the words of one document, its first of those of all
    others."""
    topics: Any = model.prior(tree.as_arrays(model.hyper))[TOPICS]
    weights = jnp.concatenate([docs.weights * jnp.sum(docs.counts, 1) for docs in batch.data])
    chosen, begin = jax.random.categorical(key, jnp.log(weights)), 0
    words = jnp.zeros((2, topics.concentration.shape[1]), topics.concentration.dtype)
    for docs in batch.data:
        is_one = jnp.arange(begin, begin + len(docs.words)) == chosen
        for i, rows in enumerate((~is_one, is_one)):
            words = words.at[i, docs.words].add(
                docs.counts * jnp.where(rows, docs.weights, 0.0)[:, None]
            )
        begin += len(docs.words)
    message = jnp.zeros_like(topics.concentration).at[jnp.array([0, -1])].add(words)
    return q.replace({TOPICS: type(topics)(topics.concentration + message)})
