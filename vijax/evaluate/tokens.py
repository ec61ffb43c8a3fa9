"""Corpora taken apart into tokens: padded rows of shuffled tokens, in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.data.buckets import length_buckets
from vijax.data.corpora.corpus import Corpus
from vijax.xla import keys

_MAX_ELEMENTS = 1 << 24  # numbers in the largest array of a chunk: 64 MB of float32
_PRICE = 16384  # tokens of padding that a further shape must save, because compiling it takes as long as running these


class TokenRows(NamedTuple):
    """Documents of similar length, one row of tokens each, in random order.

    Attributes:
      words: word of each token; 0 in padding.
      lengths: tokens of each row; 0 for a padding row.
    """

    words: Int[Array | np.ndarray, "rows tokens"]
    lengths: Int[Array | np.ndarray, " rows"]


def per_document(
    fn: Callable[[TokenRows, PRNGKeyArray], Array], corpus: Corpus, elements_per_token: int, key: PRNGKeyArray
) -> Float[np.ndarray, " docs"]:
    """`fn(token_rows, key)`, one number per row, over all documents of the corpus.

    Args:
      fn: a jitted function; it is given a handful of shapes.
      corpus: the documents; the order of their tokens depends on the key alone.
      elements_per_token: numbers that `fn` holds per token of a row; chunks are sized by it.
      key: shuffles the tokens, and is split into one key per chunk.
    """
    shuffle_key, fn_key = keys.two(key)
    results = np.zeros(corpus.num_documents)
    for i, (tokens, rows) in enumerate(token_rows(corpus, shuffle_key, elements_per_token)):
        results[rows] = np.asarray(fn(tokens, keys.fold_in(fn_key, i)), np.float64)[: len(rows)]
    return results


def token_rows(
    corpus: Corpus, key: PRNGKeyArray, elements_per_token: int
) -> Iterator[tuple[TokenRows, Int[np.ndarray, " rows"]]]:
    """The documents as padded rows of tokens, and their rows in the corpus; padding rows come last."""
    words = shuffled_tokens(corpus, key)
    starts = np.cumsum(corpus.tokens) - corpus.tokens
    for bucket in length_buckets(corpus.tokens, corpus.tokens, price=_PRICE):
        width = bucket.max_tokens
        num_chunks = -(-len(bucket.rows) * width * elements_per_token // _MAX_ELEMENTS)
        size = -(-len(bucket.rows) // num_chunks)
        for first in range(0, len(bucket.rows), size):
            rows = bucket.rows[first : first + size]
            yield _padded(words, starts[rows], corpus.tokens[rows], (size, width)), rows


def shuffled_tokens(corpus: Corpus, key: PRNGKeyArray) -> Int[np.ndarray, " tokens"]:
    """The words of all tokens, document after document, shuffled within each."""
    documents = np.repeat(np.arange(corpus.num_documents), corpus.tokens)
    lots = numpy_rng(key).random(len(documents))
    return np.repeat(corpus.indices, corpus.counts)[np.lexsort((lots, documents))]


def numpy_rng(key: PRNGKeyArray) -> np.random.Generator:
    """The generator that a JAX key determines, for draws on the host."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def _padded(words: np.ndarray, starts: np.ndarray, lengths: np.ndarray, shape: tuple[int, int]) -> TokenRows:
    padding = shape[0] - len(lengths)
    lengths, starts = np.pad(lengths, (0, padding)), np.pad(starts, (0, padding))
    slots = np.arange(shape[1])
    real = slots < lengths[:, None]
    places = np.where(real, starts[:, None] + slots, 0)
    return TokenRows(np.where(real, words[places], 0).astype(np.int32), lengths.astype(np.int32))
