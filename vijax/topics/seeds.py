"""Seed words: a prior under which words that the user names belong to topics (Lu, Ott, Cardie and
Tsou 2011, section 3; Jagarlamudi, Daume and Udupa 2012), and documents that have them, for topics
to begin at.

A start that adds counts of data to such a prior outweighs it: topics stay where they begin. So it
has to begin each topic at its own words."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.arguments import Positive, Positives, Size, check_arguments
from vijax.checks import require
from vijax.contract.batch import Documents
from vijax.data.texts.words import normalise

SEED_WEIGHT = 50.0
"""The weight of a seed word where nothing is said."""


@check_arguments
def seeded(
    seeds: Sequence[Sequence[str]],
    vocabulary: Sequence[str],
    num_topics: Size,
    eta: Positives = 0.1,
    weight: Positive = SEED_WEIGHT,
) -> Float[np.ndarray, "K V"]:
    """The concentrations of topics, (K, V), under which the first topics hold the words that are
    named for them: the argument `eta` of `vijax.models.lda`, `vijax.models.ctm` and `vijax.stm`.
    Topics without such words are found as ever. Under `vijax.em`, which takes no prior, they say no
    more than where topics begin.

    Args:
      seeds: the words of topic 0, of topic 1, ...; empty for a topic without any.
      vocabulary: the words by id, as `corpus.vocabulary`.
      num_topics: K, how many topics.
      eta: prior concentration of all other words; a scalar or shape (V,).
      weight: how often a seed word is taken to have been seen in its topic before the data.

    Raises:
      ValueError: more lists than topics, a word that is not in the vocabulary.

    >>> seeded([["sun"], [], ["sea"]], ["sun", "rain", "sea"], 3, eta=0.5, weight=10).tolist()
    [[10.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 10.5]]
    """
    places = {word: v for v, word in enumerate(vocabulary)}
    as_there = lambda word: (
        word if word in places else normalise(word)
    )  # accents in the form of texts that are read
    seeds = [[as_there(word) for word in words] for words in seeds]
    named = [word for words in seeds for word in words]
    unknown = [word for word in named if word not in places]
    nearest = {
        word: difflib.get_close_matches(word, places, n=1, cutoff=0.6) for word in unknown[:5]
    }
    said = ", ".join(
        f"{word!r}" + "".join(f" (there is {near!r})" for near in nearest[word]) for word in nearest
    )
    remedy = "Write them as the vocabulary has them: what is rare or a stop word is left out of it."
    require(
        not unknown, "seeds", "words of the vocabulary", f"{len(unknown)} others: {said}", remedy
    )
    require(
        len(seeds) <= num_topics, "seeds", f"at most {num_topics} lists, one a topic", len(seeds)
    )
    found = np.array(np.broadcast_to(np.asarray(eta, float), (num_topics, len(places))))
    for k, words in enumerate(seeds):
        found[k, [places[word] for word in words]] += weight
    return found


def seed_weights(eta: Any) -> Any:
    """The concentrations of topics, (K, V) of NumPy or jax, beyond those that all topics have, and
    beyond those of all words of the topic: the weights of seed words, and 0 elsewhere.

    >>> seed_weights(np.array([[10.5, 0.5, 0.5], [0.5, 0.5, 0.5], [2.5, 2.5, 3.5]])).tolist()
    [[10.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    more = eta - eta.min(0)
    return more - more.min(1)[:, None]


def seed_documents(
    seeds: Float[Array, "K V"],
    data: Sequence[Documents],
    frequencies: Float[Array, " V"],
    number: int,
    key: PRNGKeyArray,
) -> tuple[Int[Array, "K number"], Float[Array, "K number"]]:
    """Documents for each topic to begin at: their rows in all data, and their weights.

    A topic with seed words takes those that have more of them than chance and the other topics
    explain, in standard deviations. Each counts for a random share of these, a half or more, so
    that another key begins elsewhere; where there are too few documents, weights are 0. Other
    topics draw among the documents with no more seed words than by chance, and then those with few.

    Args:
      seeds: how much each word weighs in each topic, as of `seed_weights`; two topics or more.
      data: the documents.
      frequencies: how often each word occurs in them.
      number: documents a topic, at most as many as there are.
      key: random key of the draws.
    """
    weights = jnp.concatenate([docs.weights for docs in data])
    beyond = _less_others(
        jnp.concatenate([_beyond_chance(seeds, docs, frequencies) for docs in data])
    )
    key_seeded, key_other = jax.random.split(key)
    share = jax.random.uniform(key_seeded, beyond.shape, beyond.dtype, 0.5, 1.0)
    of_seeded = jnp.where(beyond > 0, beyond * share, -jnp.inf)
    of_other = beyond + jax.random.gumbel(key_other, beyond.shape, beyond.dtype)
    say = jnp.where(jnp.any(seeds > 0, 1), of_seeded, of_other)
    most, rows = jax.lax.top_k(jnp.where(weights[:, None] > 0, say, -jnp.inf).T, number)
    return rows, jnp.where(most > -jnp.inf, weights[rows], 0.0)


def _beyond_chance(
    seeds: Float[Array, "K V"], docs: Documents, frequencies: Float[Array, " V"]
) -> Float[Array, "D K"]:
    """Standard deviations by which documents have more of each topic's seed words than words drawn
    from all data would have; 0 of topics without seed words. A seed word that weighs w counts as
    log(1 + w)."""
    worth = jnp.log1p(seeds)
    chances = frequencies / jnp.maximum(jnp.sum(frequencies), 1.0)
    mean, square = (jnp.sum(chances * x, 1) for x in (worth, worth**2))
    deviation = jnp.sqrt(jnp.maximum(square - mean**2, 0.0))
    has = jax.lax.map(lambda row: jnp.sum(docs.counts * row[docs.words], 1), worth).T
    tokens = jnp.sum(docs.counts, 1, keepdims=True)
    scale = deviation * jnp.sqrt(tokens)
    return jnp.where(scale > 0, (has - tokens * mean) / jnp.where(scale > 0, scale, 1.0), 0.0)


def _less_others(values: Float[Array, "D K"]) -> Float[Array, "D K"]:
    """Values less the largest of the others in the row, where that is above 0.

    >>> _less_others(jnp.array([[1.0, 4.0, 2.0], [3.0, 3.0, 0.0], [-1.0, 2.0, -3.0]])).tolist()
    [[-3.0, 2.0, -2.0], [0.0, 0.0, -3.0], [-3.0, 2.0, -5.0]]
    """
    first, second = jnp.maximum(jax.lax.top_k(values, 2)[0], 0.0).T[:, :, None]
    return values - jnp.where(values == first, second, first)
