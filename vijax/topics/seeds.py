"""Seed words, and documents with them in which topics start.

Seed words are a prior under which words that the user names belong to topics (Lu, Ott, Cardie and
Tsou 2011, section 3; Jagarlamudi, Daume and Udupa 2012). A start that adds counts of data to this
prior outweighs it, and topics stay where they start. So each topic must start at documents with its
own words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
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
"""The default weight of a seed word."""


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
    Topics without seed words are found as usual. `vijax.em` reads no prior: there seed words only
    give the start of topics.

    Args:
      seeds: the words of topic 0, of topic 1, ...; empty for a topic without any.
      vocabulary: the words by id, as `corpus.vocabulary`.
      num_topics: K, how many topics.
      eta: prior concentration of all other words; a scalar or shape (V,).
      weight: prior count of a seed word in its topic, as if it had been seen so often before.

    Raises:
      ValueError: more lists than topics, or a word that is not in the vocabulary.

    >>> seeded([["sun"], [], ["sea"]], ["sun", "rain", "sea"], 3, eta=0.5, weight=10).tolist()
    [[10.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 10.5]]
    """
    places = {word: v for v, word in enumerate(vocabulary)}

    def find(word: str) -> str:
        return word if word in places else normalise(word)  # with the accents of texts as read

    seeds = [[find(word) for word in words] for words in seeds]
    unknown = [word for words in seeds for word in words if word not in places]
    require(
        not unknown,
        "seeds",
        "words of the vocabulary",
        f"{len(unknown)} others: {_unknown_text(unknown[:5], places)}",
        "Write them as the vocabulary has them: what is rare or a stop word is left out of it.",
    )
    expected = f"at most {num_topics} lists, one a topic"
    require(len(seeds) <= num_topics, "seeds", expected, len(seeds))
    concentration = np.array(np.broadcast_to(np.asarray(eta, float), (num_topics, len(places))))
    for k, words in enumerate(seeds):
        concentration[k, [places[word] for word in words]] += weight
    return concentration


def _unknown_text(unknown: Sequence[str], vocabulary: Iterable[str]) -> str:
    """Unknown words, each with the nearest word of the vocabulary."""
    texts = {}
    for word in unknown:
        matches = difflib.get_close_matches(word, vocabulary, n=1, cutoff=0.6)
        texts[word] = f"{word!r}" + "".join(f" (there is {match!r})" for match in matches)
    return ", ".join(texts.values())


def seed_weights(eta: Any) -> Any:
    """The weights of seed words, and 0 elsewhere, from concentrations of topics, (K, V) of NumPy or
    jax: what they exceed the concentrations that all topics, and then all words of a topic, have.

    >>> seed_weights(np.array([[10.5, 0.5, 0.5], [0.5, 0.5, 0.5], [2.5, 2.5, 3.5]])).tolist()
    [[10.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    excess = eta - eta.min(0)
    return excess - excess.min(1)[:, None]


def seed_documents(
    seeds: Float[Array, "K V"],
    data: Sequence[Documents],
    frequencies: Float[Array, " V"],
    number: int,
    key: PRNGKeyArray,
) -> tuple[Int[Array, "K number"], Float[Array, "K number"]]:
    """Documents in which each topic starts: their rows in all data, and their weights.

    A topic with seed words takes the documents that have more of them, in standard deviations, than
    chance and the other topics explain. The excess of each document is multiplied by a random
    share, a half or more, so that another key starts elsewhere; if there are too few documents,
    weights are 0. The other topics draw first among documents with no more seed words than by
    chance, and then among those with few.

    Args:
      seeds: the weight of each word in each topic, from `seed_weights`; two topics or more.
      data: the documents.
      frequencies: count of each word in them.
      number: documents for each topic, at most as many as there are.
      key: random key of the draws.
    """
    weights = jnp.concatenate([docs.weights for docs in data])
    excess = jnp.concatenate([_excess(seeds, docs, frequencies) for docs in data])
    excess = _subtract_other_topics(excess)
    key_seeded, key_other = jax.random.split(key)
    share = jax.random.uniform(key_seeded, excess.shape, excess.dtype, 0.5, 1.0)
    seeded_score = jnp.where(excess > 0, excess * share, -jnp.inf)
    other_score = excess + jax.random.gumbel(key_other, excess.shape, excess.dtype)
    scores = jnp.where(jnp.any(seeds > 0, 1), seeded_score, other_score)
    best, rows = jax.lax.top_k(jnp.where(weights[:, None] > 0, scores, -jnp.inf).T, number)
    return rows, jnp.where(best > -jnp.inf, weights[rows], 0.0)


def _excess(
    seeds: Float[Array, "K V"], docs: Documents, frequencies: Float[Array, " V"]
) -> Float[Array, "D K"]:
    """The number of standard deviations by which a document has more seed words of each topic than
    words drawn from all data would have; 0 for topics without seed words. A seed word of weight w
    counts as log(1 + w)."""
    worth = jnp.log1p(seeds)
    chances = frequencies / jnp.maximum(jnp.sum(frequencies), 1.0)
    mean = jnp.sum(chances * worth, 1)
    square = jnp.sum(chances * worth**2, 1)
    deviation = jnp.sqrt(jnp.maximum(square - mean**2, 0.0))
    totals = jax.lax.map(lambda row: jnp.sum(docs.counts * row[docs.words], 1), worth).T
    tokens = jnp.sum(docs.counts, 1, keepdims=True)
    scale = deviation * jnp.sqrt(tokens)
    return jnp.where(scale > 0, (totals - tokens * mean) / jnp.where(scale > 0, scale, 1.0), 0.0)


def _subtract_other_topics(values: Float[Array, "D K"]) -> Float[Array, "D K"]:
    """Each value minus the largest of the other values in its row, if that is above 0.

    >>> _subtract_other_topics(jnp.array([[1.0, 4.0, 2.0], [3.0, 3.0, 0.0], [-1.0, 2.0, -3.0]])).tolist()
    [[-3.0, 2.0, -2.0], [0.0, 0.0, -3.0], [-3.0, 2.0, -5.0]]
    """
    first, second = jnp.maximum(jax.lax.top_k(values, 2)[0], 0.0).T[:, :, None]
    return values - jnp.where(values == first, second, first)
