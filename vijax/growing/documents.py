"""Births and merges of topics (after Hughes, Kim and Sudderth 2015).

A birth divides the words that documents have of one topic. These words alone, weighted by the share
of the topic in each, are the data of a small model, whose topics replace that topic. A birth also
divides the words of several topics together: if pieces of two topics have grown into one, neither
merging two topics nor dividing one can separate them."""

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
from vijax.growing.laps import climb, count
from vijax.growing.restarts import first_words
from vijax.growing.slots import STICKS, Axes
from vijax.inference.compose import Algorithm
from vijax.models.documents.hdp import LEAST, SharedNumbers, bound_of_words
from vijax.xla.compiler import cached_program, step_jit
from vijax.xla.gather import docs_per_chunk

TOPICS = "topics"
"""The name of the global of topics."""


def merge_batches(batches: Minibatch) -> Minibatch:
    """All batches as one."""
    number = None if batches.num_groups is None else jnp.asarray(batches.num_groups)[0]
    return Minibatch(jax.tree.map(_flatten, batches.data), number, None)


def divide_topics(
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
      axes: see `slots.slot_axes`.
      q: the posterior.
      batches: all documents, along a leading axis; `local` has their words of each topic.
      key: random key of the start of the small model.
      slots: 1 at these topics, 0 at others.
      alone: one document, drawn by its number of these words, starts alone in a topic of the small
        model, with all others in another topic; else the small model starts by itself.
      most: laps at most.

    Returns:
      The posterior of the small model, and the size of each of its topics.
    """
    make_shares = lambda step: step_jit(functools.partial(_shares, step))
    shares = cached_program(alg.step, "shares", make_shares)(q, batches.local)
    make_start = lambda step: step_jit(functools.partial(_start_small, step, small.init))
    start_small = cached_program(small.step, "words of topics", make_start)
    log_topics = q[TOPICS].expected_stats().log
    start, batch = start_small(
        log_topics, shares, batches, key, jnp.asarray(slots, log_topics.dtype), alone
    )
    posterior = climb(small, start, batch, key, -jnp.inf, most).posterior
    prior = small.spec.model.prior(tree.as_arrays(small.spec.model.hyper))
    return posterior, count(axes, posterior, prior)


def merge_terms(alg: Algorithm, q: Product, batches: Minibatch) -> Float[Array, "K K"]:
    """The gain of documents' bounds if topic b is merged into topic a, at [a, b]. The loss of their
    words is not counted."""
    make = lambda step: step_jit(functools.partial(_merge_terms, step))
    return cached_program(alg.step, "merge terms", make)(q, batches)


def _merge_terms(step_ref: weakref.ref, q: Product, batches: Minibatch) -> Array:
    step: Any = step_ref()
    words = jnp.concatenate([_flatten(x) for x in batches.local])
    weights = jnp.concatenate([_flatten(docs.weights) for docs in batches.data])
    shared = SharedNumbers.from_stats(
        tree.as_arrays(step.spec.model.hyper), {STICKS: q[STICKS].expected_stats()}
    )

    def total(log_x: Array, words: Array) -> Array:
        return weights @ bound_of_words(log_x, words)

    separate = total(shared.log_x, words)

    def gains_of_merges(a: Array) -> Array:
        log_x = jnp.logaddexp(shared.log_x, shared.log_x[a])
        return total(log_x, words + words[:, a][:, None]) - separate - separate[a]

    return jax.lax.map(gains_of_merges, jnp.arange(len(separate)))


def _shares(step_ref: weakref.ref, q: Product, local: Any) -> Any:
    """The shares of topics in documents, unnormalised."""
    step: Any = step_ref()
    shared = SharedNumbers.from_stats(
        tree.as_arrays(step.spec.model.hyper), {STICKS: q[STICKS].expected_stats()}
    )
    return jax.tree.map(lambda words: shared.x + words, local)


@step_jit
def nearness(batches: Minibatch) -> Float[Array, "K K"]:
    """The cosine between the numbers of words of two topics, over documents."""

    def weigh(docs: Documents, words: Array) -> Array:
        return _flatten(words) * _flatten(docs.weights)[:, None]

    words = jnp.concatenate([weigh(*x) for x in zip(batches.data, batches.local, strict=True)])
    words /= jnp.sqrt(jnp.maximum(jnp.sum(words**2, 0), LEAST))
    return words.T @ words


def map_words(local: Any, change: Float[np.ndarray, "L K"]) -> Any:
    """The words that documents have of each topic after a map of slots; None stays."""

    def map_table(words: Array) -> Array:
        matrix = jnp.asarray(change, words.dtype)
        return jnp.tensordot(words, matrix, axes=(-1, 1), precision="highest")

    return jax.tree.map(map_table, local)


def _start_small(
    step_ref: weakref.ref,
    init: Any,
    log_topics: Float[Array, "K V"],
    shares: Any,
    batches: Minibatch,
    key: PRNGKeyArray,
    slots: Float[Array, " K"],
    alone: Any,
) -> tuple[Product, Minibatch]:
    """The start of the small model, and its data as one batch along a leading axis."""
    step: Any = step_ref()
    model = step.spec.model
    table = jnp.exp(log_topics - jnp.max(log_topics, 0)).T
    merged = merge_batches(batches)
    data = tuple(
        _keep_words(docs, _flatten(x), table, slots)
        for docs, x in zip(merged.data, shares, strict=True)
    )
    batch = merged._replace(data=data)
    start = jax.lax.cond(
        alone,
        lambda: _separate_document(init(key, batch).posterior, model, key, batch),
        lambda: init(key, batch).posterior,
    )
    batch = jax.tree.map(lambda x: x[None], batch)
    return start, batch._replace(local=first_words(model, batch))


def _keep_words(
    docs: Documents,
    shares: Float[Array, "D K"],
    table: Float[Array, "V K"],
    slots: Float[Array, " K"],
) -> Documents:
    """Documents whose counts are the expected numbers of words of the topics in `slots`."""

    def keep(row: tuple) -> Array:
        words, counts, shares = row
        weights = table[words] * shares
        return counts * (weights @ slots) / jnp.maximum(jnp.sum(weights, 1), LEAST)

    batch_size = docs_per_chunk(docs.words.shape[1], table.shape[1])
    rows = docs.words, docs.counts.astype(table.dtype), shares
    return dataclasses.replace(docs, counts=jax.lax.map(keep, rows, batch_size=batch_size))


def _separate_document(q: Product, model: Any, key: PRNGKeyArray, batch: Minibatch) -> Product:
    """The start q with the words of one document in the last topic, all others in the first."""
    topics: Any = model.prior(tree.as_arrays(model.hyper))[TOPICS]
    weights = jnp.concatenate([docs.weights * jnp.sum(docs.counts, 1) for docs in batch.data])
    document = jax.random.categorical(key, jnp.log(weights))
    words = jnp.zeros((2, topics.concentration.shape[1]), topics.concentration.dtype)
    first = 0
    for docs in batch.data:
        is_document = jnp.arange(first, first + len(docs.words)) == document
        for i, rows in enumerate((~is_document, is_document)):
            counts = docs.counts * jnp.where(rows, docs.weights, 0.0)[:, None]
            words = words.at[i, docs.words].add(counts)
        first += len(docs.words)
    message = jnp.zeros_like(topics.concentration).at[jnp.array([0, -1])].add(words)
    return q.replace({TOPICS: type(topics)(topics.concentration + message)})


def _flatten(x: Array) -> Array:
    """An array with its two leading axes as one."""
    return x.reshape(-1, *x.shape[2:])
