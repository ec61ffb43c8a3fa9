"""The inputs of evaluations: checked topics, and documents as padded rows of shuffled tokens, which
are scored in chunks."""

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

_FLOOR = 1e-30
"""The smallest likelihood of a topic relative to the best topic of a word: a topic at this floor is
never drawn, and products stay normal floats."""


class Topics(NamedTuple):
    """Topics and the prior of their shares, in the form that evaluations use."""

    # topics[:, v] over its largest entry, floored at 1e-30; word by word, to gather rows
    likelihood: Float[Array, "V K"]
    # log of the largest entry; -inf for a word of probability 0, which no document has
    log_scale: Float[Array, " V"]
    alpha: Float[Array, " K"]  # concentration of theta, one per topic


def check_inputs(topics: Any, alpha: Any, documents: Any) -> tuple[Topics, Corpus]:
    """The topics and the documents of an evaluation.

    Raises:
      ValueError: topics that are not distributions over words, an alpha that is not positive,
        documents over another vocabulary, or with a word that has no probability in any topic.
    """
    topics = check_topics(topics)
    alpha = check_alpha(alpha, topics.shape[0]).astype(topics.dtype)
    corpus = as_corpus(documents, topics.shape[1])
    largest = np.max(topics, axis=0)
    impossible = np.flatnonzero((largest == 0) & (corpus.word_counts() > 0))
    if len(impossible):
        expected = "a positive probability for each word of the documents"
        example = f"probability 0 in every topic for word {impossible[0]} ({len(impossible)} such)"
        remedy = "drop words unseen in training (vijax.data.select_words), or smooth the topics"
        raise fail("topics", expected, example, remedy)
    scaled = topics / np.where(largest > 0, largest, 1.0).astype(topics.dtype)
    likelihood = np.maximum(scaled, topics.dtype.type(_FLOOR)).T
    with np.errstate(divide="ignore"):
        log_scale = np.log(largest)
    return Topics(*map(jnp.asarray, (likelihood, log_scale, alpha))), corpus


def check_topics(topics: Any) -> Float[np.ndarray, "K V"]:
    """Topics as an array of distributions over words; ValueError unless they are a matrix whose
    rows are distributions. The message names the first row that is not."""
    topics = np.asarray(topics)
    topics = topics.astype(jnp.result_type(topics))  # float32, unless JAX works in float64
    remedy = "pass probabilities with one row per topic, such as fit.posterior['topics'].mean()"
    if topics.ndim != 2 or 0 in topics.shape:
        raise fail("topics", "a matrix (topics, words)", f"shape {topics.shape}", remedy)
    if not jnp.issubdtype(topics.dtype, jnp.floating):
        topics = topics.astype(jnp.result_type(float))
    sums = np.asarray(topics.sum(axis=1), np.float64)
    smallest = np.asarray(topics.min(axis=1))
    is_bad = ~(np.abs(sums - 1) < 1e-3) | ~(smallest >= 0)  # negated, so that NaN is bad
    if is_bad.any():
        k = int(np.flatnonzero(is_bad)[0])
        row = f"row {k} with sum {sums[k]:.6g} and least entry {smallest[k]:.3g}"
        example = f"{row} ({int(is_bad.sum())} such)"
        raise fail("topics", "rows of probabilities that sum to one", example, remedy)
    return topics / topics.sum(axis=1, keepdims=True)


def check_alpha(alpha: Any, size: int, name: str = "alpha") -> Float[np.ndarray, " size"]:
    """A Dirichlet concentration as one number per entry; ValueError unless it is a scalar or has
    this size, and is positive and finite."""
    alpha = np.asarray(alpha, jnp.result_type(float))
    if alpha.shape not in ((), (size,)):
        remedy = "pass one number for all, or one each"
        raise fail(name, f"a scalar or shape ({size},)", f"shape {alpha.shape}", remedy)
    if not positive_and_finite(alpha).all():
        raise fail(name, "positive finite numbers", str(alpha), "pass a concentration such as 0.1")
    return np.broadcast_to(alpha, (size,))


def as_corpus(documents: Any, vocab_size: int | None = None) -> Corpus:
    """A corpus from anything that `vijax.data.read` accepts; ValueError if it cannot be read, if
    its vocabulary does not have `vocab_size` words, or if all its documents are empty."""
    corpus = documents
    if not isinstance(documents, Corpus):
        from vijax.data import read  # here, because readers import further packages

        corpus = read(documents)
    if vocab_size is not None and corpus.vocab_size != vocab_size:
        expected = f"a vocabulary of {vocab_size} words, as the topics have"
        vocabulary = "the vocabulary of the fit (vijax.data.with_vocabulary does it)"
        remedy = f"read the documents with {vocabulary}"
        raise fail("documents", expected, str(corpus.vocab_size), remedy)
    if corpus.num_tokens == 0:
        empty = f"{corpus.num_documents} empty ones"
        raise fail("documents", "documents with words", empty, "pass other documents")
    return corpus


_MAX_ELEMENTS = 1 << 24
"""Numbers in the largest array of a chunk: 64 MB of float32."""
_SHAPE_PRICE = 16384
"""Tokens of padding that a further shape must save: compiling a shape takes as long as running
these."""


class TokenRows(NamedTuple):
    """Documents of similar length as rows of tokens in random order."""

    words: Int[Array | np.ndarray, "rows tokens"]  # word of each token; 0 in padding
    lengths: Int[Array | np.ndarray, " rows"]  # tokens of each row; 0 for a padding row
    keys: PRNGKeyArray  # a key for the draws of each row, which depends on its contents


def per_document(
    fn: Callable[[TokenRows], Array],
    corpus: Corpus,
    elements_per_token: int,
    key: PRNGKeyArray,
    offsets: Int[np.ndarray, " docs"] | None = None,
) -> Float[np.ndarray, " docs"]:
    """`fn(token_rows)`, one number per row, for all documents of the corpus.

    Args:
      fn: a jitted function; it is called with a handful of shapes.
      corpus: the documents; the order of the tokens of a document depends on its contents and on
          the key.
      elements_per_token: numbers that `fn` holds per token of a row; it determines the size of
          chunks.
      key: shuffles the tokens, and makes the key of each row.
      offsets: numbers that are added to the word ids of each document, after its tokens are in
        order; None adds none.
    """
    results = np.zeros(corpus.num_documents)
    for tokens, rows in token_rows(corpus, key, elements_per_token):
        if offsets is not None:
            moved_by = np.zeros(len(tokens.words), offsets.dtype)
            moved_by[: len(rows)] = offsets[rows]
            tokens = tokens._replace(words=tokens.words + moved_by[:, None])
        results[rows] = np.asarray(fn(tokens), np.float64)[: len(rows)]
    return results


_keys_of_rows = quick_jit(row_keys)


def token_rows(
    corpus: Corpus, key: PRNGKeyArray, elements_per_token: int
) -> Iterator[tuple[TokenRows, Int[np.ndarray, " rows"]]]:
    """The documents as padded rows of tokens, and their rows in the corpus; padding is last."""
    shuffle_key, draws_key = keys.split(key)
    order = token_order(corpus, shuffle_key)
    words = corpus.indices[order.entries]
    starts = np.cumsum(corpus.tokens) - corpus.tokens
    for bucket in length_buckets(corpus.tokens, corpus.tokens, price=_SHAPE_PRICE):
        width = bucket.max_tokens
        num_chunks = -(-len(bucket.rows) * width * elements_per_token // _MAX_ELEMENTS)
        size = -(-len(bucket.rows) // num_chunks)
        for first in range(0, len(bucket.rows), size):
            rows = bucket.rows[first : first + size]
            parts = (corpus.tokens, starts, order.codes)
            lengths, begins, codes = (np.pad(part[rows], (0, size - len(rows))) for part in parts)
            is_token = np.arange(width) < lengths[:, None]
            places = np.where(is_token, begins[:, None] + np.arange(width), 0)
            tokens = np.where(is_token, words[places], 0).astype(np.int32)
            row_keys = _keys_of_rows(draws_key, codes)
            yield TokenRows(tokens, lengths.astype(np.int32), row_keys), rows


def make_walk(topics: Topics, tokens: TokenRows) -> Walk:
    """The walk over rows of tokens; its word probabilities lack the factors of `log_scales`."""
    return Walk(topics.likelihood[tokens.words], jnp.asarray(tokens.lengths), topics.alpha)


def log_scales(topics: Topics, tokens: TokenRows) -> Float[Array, " rows"]:
    """Log of the product of the factors that the word probabilities of a walk lack."""
    is_token = jnp.arange(tokens.words.shape[1]) < tokens.lengths[:, None]
    return jnp.sum(jnp.where(is_token, topics.log_scale[tokens.words], 0.0), axis=1)
