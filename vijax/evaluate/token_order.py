"""Random orders of the tokens of documents. An order depends on the contents of the document: not
on its position, on the order of its words, or on other documents. Equal documents have different
orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int, PRNGKeyArray, UInt32, UInt64

from vijax.data.corpora.corpus import Corpus

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class TokenOrder(NamedTuple):
    """The tokens of all documents, document after document, each in a random order."""

    entries: Int[np.ndarray, " tokens"]  # index of the word of each token in `corpus.indices`
    codes: UInt32[
        np.ndarray, " docs"
    ]  # codes of the contents; equal documents have different codes


def token_order(corpus: Corpus, key: PRNGKeyArray) -> TokenOrder:
    """The tokens of documents in a random order.

    >>> single = Corpus.from_counts([[2, 1, 3, 1]])
    >>> pair = Corpus.from_counts([[0, 5, 1, 0], [2, 1, 3, 1]])
    >>> words = lambda corpus: corpus.indices[token_order(corpus, jax.random.key(0)).entries].tolist()
    >>> words(pair)[6:] == words(single)
    True
    """
    document = np.repeat(np.arange(corpus.num_documents), corpus.lengths)
    by_word = np.lexsort((corpus.indices, document))
    entries = np.repeat(by_word, corpus.counts[by_word])
    documents = document[entries]
    seed = np.asarray(jax.random.key_data(key)).ravel().tolist()
    lots, codes = draw_lots(documents, corpus.indices[entries], corpus.tokens, seed)
    order = np.lexsort((lots, documents))
    return TokenOrder(entries[order], (codes >> np.uint64(32)).astype(np.uint32))


def draw_lots(
    documents: Int[np.ndarray, " tokens"],
    words: Int[np.ndarray, " tokens"],
    sizes: np.ndarray,
    seed: Sequence[int],
    values: np.ndarray | None = None,
) -> tuple[UInt64[np.ndarray, " tokens"], UInt64[np.ndarray, " docs"]]:
    """A random number for each token, which depends on the contents of its document; and the codes
    of the documents.

    Args:
      documents: the document of each token, in order.
      words: the word of each token, sorted within a document.
      sizes: the number of tokens of each document.
      seed: numbers of 32 bits.
      values: a number for each token that belongs to the contents of its document.
    """
    tokens = _mix_bits(_mix_bits(words.astype(np.uint64)) + _occurrences(documents, words))
    contents = tokens
    if values is not None:
        contents = _mix_bits(tokens ^ np.asarray(values, np.float64).view(np.uint64))
    codes = _separate_equal(_sums(contents, sizes))
    return _mix_bits(_mix_bits(codes ^ _number(seed))[documents] ^ tokens), codes


def _occurrences(documents: np.ndarray, words: np.ndarray) -> UInt64[np.ndarray, " tokens"]:
    """0, 1, ... for the tokens of one word of one document, which are adjacent."""
    if not len(words):
        return np.zeros(0, np.uint64)
    begins = np.flatnonzero(np.r_[True, (np.diff(documents) != 0) | (np.diff(words) != 0)])
    sizes = np.diff(np.r_[begins, len(words)])
    return (np.arange(len(words)) - np.repeat(begins, sizes)).astype(np.uint64)


def _sums(tokens: UInt64[np.ndarray, " tokens"], sizes: np.ndarray) -> UInt64[np.ndarray, " docs"]:
    """The mixed sums over the tokens of each document, modulo 2^64."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(tokens, dtype=np.uint64)])
    ends = np.cumsum(sizes)
    return _mix_bits(total[ends] - total[ends - sizes])


def _separate_equal(codes: UInt64[np.ndarray, " docs"]) -> UInt64[np.ndarray, " docs"]:
    """Codes that differ for equal documents, by the order of these documents."""
    order = np.argsort(codes, kind="stable")
    increasing = codes[order]
    rank = np.arange(len(codes)) - np.searchsorted(increasing, increasing, side="left")
    unique = np.empty_like(codes)
    unique[order] = _mix_bits(increasing + GOLDEN * rank.astype(np.uint64))
    return unique


def _number(seed: Sequence[int]) -> np.uint64:
    """One number of 64 bits from several numbers."""
    number = np.zeros(1, np.uint64)
    for part in seed:
        number = _mix_bits(number ^ np.uint64(part))
    return number[0]


def _mix_bits(x: Any) -> UInt64[np.ndarray, ...]:
    """A step of SplitMix64 (Steele, Lea and Flood 2014): every bit depends on all bits of x."""
    x = x + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
