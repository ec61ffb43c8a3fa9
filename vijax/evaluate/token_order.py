"""Random orders of the tokens of documents, which belong to what a document holds: neither its
place, nor the order in which its words came, nor other documents count. Documents that are alike
have orders of their own."""

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

    entries: Int[np.ndarray, " tokens"]  # the place of each token's word among `corpus.indices`
    codes: UInt32[
        np.ndarray, " docs"
    ]  # a code of what each document holds, other ones where documents are alike


def token_order(corpus: Corpus, key: PRNGKeyArray) -> TokenOrder:
    """The tokens of documents in a random order.

    >>> one = Corpus.from_counts([[2, 1, 3, 1]])
    >>> more = Corpus.from_counts([[0, 5, 1, 0], [2, 1, 3, 1]])
    >>> words = lambda corpus: corpus.indices[token_order(corpus, jax.random.key(0)).entries].tolist()
    >>> words(more)[6:] == words(one)
    True
    """
    document = np.repeat(np.arange(corpus.num_documents), corpus.lengths)
    by_word = np.lexsort((corpus.indices, document))
    entries = np.repeat(by_word, corpus.counts[by_word])
    documents = document[entries]
    seed = np.asarray(jax.random.key_data(key)).ravel().tolist()
    lots, codes = draw_lots(documents, corpus.indices[entries], corpus.tokens, seed)
    return TokenOrder(
        entries[np.lexsort((lots, documents))], (codes >> np.uint64(32)).astype(np.uint32)
    )


def draw_lots(
    documents: Int[np.ndarray, " tokens"],
    words: Int[np.ndarray, " tokens"],
    sizes: np.ndarray,
    seed: Sequence[int],
    values: np.ndarray | None = None,
) -> tuple[UInt64[np.ndarray, " tokens"], UInt64[np.ndarray, " docs"]]:
    """A random number for each token of documents, by what its document holds; and the codes of
    documents.

    Args:
      documents: the document of each token, in order.
      words: its word; those of a document are sorted.
      sizes: the number of tokens of each document.
      seed: numbers of 32 bits.
      values: numbers that go with the tokens, and are part of what a document holds.
    """
    tokens = _mixed(_mixed(words.astype(np.uint64)) + _occurrences(documents, words))
    held = (
        tokens
        if values is None
        else _mixed(tokens ^ np.asarray(values, np.float64).view(np.uint64))
    )
    codes = _told_apart(_sums(held, sizes))
    return _mixed(_mixed(codes ^ _number(seed))[documents] ^ tokens), codes


def _occurrences(documents: np.ndarray, words: np.ndarray) -> UInt64[np.ndarray, " tokens"]:
    """0, 1, ... for the tokens of one word of one document, which lie together."""
    if not len(words):
        return np.zeros(0, np.uint64)
    begins = np.flatnonzero(np.r_[True, (np.diff(documents) != 0) | (np.diff(words) != 0)])
    sizes = np.diff(np.r_[begins, len(words)])
    return (np.arange(len(words)) - np.repeat(begins, sizes)).astype(np.uint64)


def _sums(tokens: UInt64[np.ndarray, " tokens"], sizes: np.ndarray) -> UInt64[np.ndarray, " docs"]:
    """The sums over the tokens of each document, modulo 2^64."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(tokens, dtype=np.uint64)])
    ends = np.cumsum(sizes)
    return _mixed(total[ends] - total[ends - sizes])


def _told_apart(codes: UInt64[np.ndarray, " docs"]) -> UInt64[np.ndarray, " docs"]:
    """Codes of which those of equal documents differ, by the order of these."""
    order = np.argsort(codes, kind="stable")
    ranked = codes[order]
    rank = np.arange(len(codes)) - np.searchsorted(ranked, ranked, side="left")
    apart = np.empty_like(codes)
    apart[order] = _mixed(ranked + GOLDEN * rank.astype(np.uint64))
    return apart


def _number(seed: Sequence[int]) -> np.uint64:
    """A number made of several."""
    number = np.zeros(1, np.uint64)
    for part in seed:
        number = _mixed(number ^ np.uint64(part))
    return number[0]


def _mixed(x: Any) -> UInt64[np.ndarray, ...]:
    """Bits that each depend on all bits of x: a step of SplitMix64 (Steele, Lea and Flood 2014)."""
    x = x + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
