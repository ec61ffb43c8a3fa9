"""The inputs of evaluations: checked topics, and documents as padded rows of shuffled tokens,
scored in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.data.buckets import length_buckets
from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import fail
from vijax.evaluate.sampler import Walk
from vijax.evaluate.token_order import token_order
from vijax.families.base import positive_and_finite
from vijax.xla import keys
from vijax.xla.compiler import quick_jit
from vijax.xla.content_keys import row_keys

# exp(-69) = 1e-30: a topic this much less likely than a word's best is never drawn, and products
# stay normal floats.
_FLOOR = 1e-30


class Topics(NamedTuple):
    """Topics and the prior of their shares, in the form that evaluations work on."""

    # topics[:, v] over its largest entry, floored at 1e-30: by word, so that gathering is of rows
    likelihood: Float[Array, "V K"]
    # Log of that largest entry; -inf for a word of probability 0 (which no document holds)
    log_scale: Float[Array, " V"]
    alpha: Float[Array, " K"]  # concentration of theta, one per topic


def check_inputs(topics: Any, alpha: Any, documents: Any) -> tuple[Topics, Corpus]:
    """The inputs of an evaluation, checked. Raises ValueError: topics that are not distributions
    over words, an alpha that is not positive, documents over another vocabulary, or with a word
    that has no probability in any topic."""
    topics = check_topics(topics)
    alpha = check_alpha(alpha, topics.shape[0]).astype(topics.dtype)
    corpus = as_corpus(documents, topics.shape[1])
    largest = np.max(topics, axis=0)
    impossible = np.flatnonzero((largest == 0) & (corpus.word_counts() > 0))
    if len(impossible):
        got = f"probability 0 in every topic for word {impossible[0]} ({len(impossible)} such)"
        remedy = "drop words unseen in training (vijax.data.select_words), or smooth the topics"
        raise fail("topics", "a positive probability for each word of the documents", got, remedy)
    scaled = topics / np.where(largest > 0, largest, 1.0).astype(topics.dtype)
    with np.errstate(divide="ignore"):
        likelihood, log_scale = np.maximum(scaled, topics.dtype.type(_FLOOR)).T, np.log(largest)
    return Topics(*map(jnp.asarray, (likelihood, log_scale, alpha))), corpus


def check_topics(topics: Any) -> Float[np.ndarray, "K V"]:
    """Topics as an array of distributions over words. Raises ValueError: not a matrix, or a row
    that is not a distribution; the message names the first such row."""
    topics = np.asarray(topics)
    topics = topics.astype(jnp.result_type(topics))  # float32, unless JAX works in float64
    remedy = "pass probabilities with one row per topic, such as fit.posterior['topics'].mean()"
    if topics.ndim != 2 or 0 in topics.shape:
        raise fail("topics", "a matrix (topics, words)", f"shape {topics.shape}", remedy)
    topics = (
        topics
        if jnp.issubdtype(topics.dtype, jnp.floating)
        else topics.astype(jnp.result_type(float))
    )
    sums, least = np.asarray(topics.sum(axis=1), np.float64), np.asarray(topics.min(axis=1))
    bad = ~(np.abs(sums - 1) < 1e-3) | ~(least >= 0)  # written so that NaN fails
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        got = (
            f"row {k} with sum {sums[k]:.6g} and least entry {least[k]:.3g} ({int(bad.sum())} such)"
        )
        raise fail("topics", "rows of probabilities that sum to one", got, remedy)
    return topics / topics.sum(axis=1, keepdims=True)


def check_alpha(alpha: Any, size: int, name: str = "alpha") -> Float[np.ndarray, " size"]:
    """A Dirichlet concentration as one positive number per entry. Raises ValueError: another shape,
    or not positive and finite."""
    alpha = np.asarray(alpha, jnp.result_type(float))
    if alpha.shape not in ((), (size,)):
        raise fail(
            name,
            f"a scalar or shape ({size},)",
            f"shape {alpha.shape}",
            "pass one number for all, or one each",
        )
    if not positive_and_finite(alpha).all():
        raise fail(name, "positive finite numbers", str(alpha), "pass a concentration such as 0.1")
    return np.broadcast_to(alpha, (size,))


def as_corpus(documents: Any, vocab_size: int | None = None) -> Corpus:
    """A corpus from anything that `vijax.data.read` accepts, its words numbered below `vocab_size`.
    Raises ValueError: it cannot be read, it is over another vocabulary, or all its documents are
    empty."""
    corpus = documents
    if not isinstance(documents, Corpus):
        from vijax.data import read  # a reader imports its own packages; a Corpus needs none

        corpus = read(documents)
    if vocab_size is not None and corpus.vocab_size != vocab_size:
        remedy = (
            "read the documents with the vocabulary of the fit (vijax.data.with_vocabulary does it)"
        )
        expected = f"a vocabulary of {vocab_size} words, as the topics have"
        raise fail("documents", expected, str(corpus.vocab_size), remedy)
    if corpus.num_tokens == 0:
        raise fail(
            "documents",
            "documents with words",
            f"{corpus.num_documents} empty ones",
            "pass other documents",
        )
    return corpus


_MAX_ELEMENTS = 1 << 24  # numbers in the largest array of a chunk: 64 MB of float32
# tokens of padding that a further shape must save, because compiling it takes as long as running
# these
_PRICE = 16384


class TokenRows(NamedTuple):
    """Documents of similar length, one row of tokens each, in random order."""

    words: Int[Array | np.ndarray, "rows tokens"]  # word of each token; 0 in padding
    lengths: Int[Array | np.ndarray, " rows"]  # tokens of each row; 0 for a padding row
    keys: PRNGKeyArray  # a key for the draws of each row, by what it holds


def per_document(
    fn: Callable[[TokenRows], Array], corpus: Corpus, elements_per_token: int, key: PRNGKeyArray
) -> Float[np.ndarray, " docs"]:
    """`fn(token_rows)`, one number per row, over all documents of the corpus.

    Args:
      fn: a jitted function; it is given a handful of shapes.
      corpus: the documents; the order of the tokens of each depends on the key, and on what it
          holds.
      elements_per_token: numbers that `fn` holds per token of a row; chunks are sized by it.
      key: shuffles the tokens, and makes the key of each row.
    """
    results = np.zeros(corpus.num_documents)
    for tokens, rows in token_rows(corpus, key, elements_per_token):
        results[rows] = np.asarray(fn(tokens), np.float64)[: len(rows)]
    return results


_keys_of_rows = quick_jit(row_keys)


def token_rows(
    corpus: Corpus, key: PRNGKeyArray, elements_per_token: int
) -> Iterator[tuple[TokenRows, Int[np.ndarray, " rows"]]]:
    """The documents as padded rows of tokens, and their rows in the corpus; padding rows come
    last."""
    shuffle_key, draws_key = keys.split(key)
    order = token_order(corpus, shuffle_key)
    words = corpus.indices[order.entries]
    starts = np.cumsum(corpus.tokens) - corpus.tokens
    for bucket in length_buckets(corpus.tokens, corpus.tokens, price=_PRICE):
        width = bucket.max_tokens
        num_chunks = -(-len(bucket.rows) * width * elements_per_token // _MAX_ELEMENTS)
        size = -(-len(bucket.rows) // num_chunks)
        for first in range(0, len(bucket.rows), size):
            rows = bucket.rows[first : first + size]
            parts = (corpus.tokens, starts, order.codes)
            lengths, begins, codes = (np.pad(part[rows], (0, size - len(rows))) for part in parts)
            real = np.arange(width) < lengths[:, None]
            places = np.where(real, begins[:, None] + np.arange(width), 0)
            of_rows = _keys_of_rows(draws_key, codes)
            yield (
                TokenRows(
                    np.where(real, words[places], 0).astype(np.int32),
                    lengths.astype(np.int32),
                    of_rows,
                ),
                rows,
            )


def make_walk(topics: Topics, tokens: TokenRows) -> Walk:
    """Rows of tokens with their word probabilities, up to the factors that `log_scales` sums."""
    return Walk(topics.likelihood[tokens.words], jnp.asarray(tokens.lengths), topics.alpha)


def log_scales(topics: Topics, tokens: TokenRows) -> Float[Array, " rows"]:
    """Log of the product of the factors that a walk leaves out."""
    real = jnp.arange(tokens.words.shape[1]) < tokens.lengths[:, None]
    return jnp.sum(jnp.where(real, topics.log_scale[tokens.words], 0.0), axis=1)
