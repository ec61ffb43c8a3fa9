"""Document completion by shares that a model infers from half of each document."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from vijax.contract.batch import Minibatch
from vijax.data import Corpus, document_batches, in_order
from vijax.evaluate.score import Score
from vijax.evaluate.token_order import token_order


def completion_score(
    shares: Callable[[Minibatch, PRNGKeyArray], list[Any]],
    words: Float[np.ndarray, "G K V"],
    corpus: Corpus,
    groups: Int[np.ndarray, " docs"] | None,
    key: PRNGKeyArray,
) -> Score:
    """The score of the second halves of documents, as by `vijax.evaluate.document_completion`.

    Args:
      shares: (batch, key) -> expected shares of its documents, an array for each length; a compiled
          function.
      words: probabilities of words by group and topic.
      corpus: documents with their covariates.
      groups: the group of each document; None for a single group.
      key: random key of the halves and the draws.
    """
    rows = np.flatnonzero(corpus.tokens >= 2)
    long, groups = corpus[rows], None if groups is None else groups[rows]
    key_halves, key_shares = jax.random.split(key)
    first, second = halves(long, key_halves)
    parts, places = [], []
    for batch, order in document_batches(first, 1024):
        # A document's draws depend on its words, not on its batch.
        parts += [np.asarray(x) for x in shares(batch, key_shares)]
        places.append(order)
    theta = in_order(np.concatenate(parts), np.concatenate(places))
    document = np.repeat(np.arange(len(long)), second.lengths)
    group = np.zeros(len(long), int) if groups is None else groups
    mixed = np.concatenate(
        [
            np.einsum(
                "nk,nk->n",
                theta[document[part]],
                words[group[document[part]], :, second.indices[part]],
            )
            for part in np.array_split(np.arange(len(document)), max(1, len(document) // 100_000))
        ]
    )
    log_probs = np.bincount(
        document, second.counts * np.log(np.maximum(mixed, 1e-300)), minlength=len(long)
    )
    return Score.of(log_probs, second.tokens, rows, corpus.num_documents - len(rows))


def halves(corpus: Corpus, key: PRNGKeyArray) -> tuple[Corpus, Corpus]:
    """The tokens of each document in two random halves that depend on its words alone; the first
    half has the odd token.

    >>> one, two = halves(Corpus.from_counts([[3, 2], [0, 4]]), jax.random.key(0))
    >>> one.tokens.tolist(), two.tokens.tolist(), (one.to_scipy() + two.to_scipy()).toarray().tolist()
    ([3, 2], [2, 2], [[3, 2], [0, 4]])
    """
    entries = token_order(corpus, key).entries
    document = np.repeat(np.arange(corpus.num_documents), corpus.tokens)
    place = np.arange(len(entries)) - np.repeat(
        np.cumsum(corpus.tokens) - corpus.tokens, corpus.tokens
    )
    is_first = place < (corpus.tokens - corpus.tokens // 2)[document]
    counts = np.bincount(entries[is_first], minlength=len(corpus.counts))
    return _with_counts(corpus, counts), _with_counts(corpus, corpus.counts - counts)


def _with_counts(corpus: Corpus, counts: np.ndarray) -> Corpus:
    is_used = counts > 0
    indptr = np.concatenate([[0], np.cumsum(is_used)])[corpus.indptr]
    return dataclasses.replace(
        corpus, indptr=indptr, indices=corpus.indices[is_used], counts=counts[is_used], notes=()
    )
