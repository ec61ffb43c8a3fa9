"""The baseline score: a model that knows only the frequencies of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax.data.reading.checks import fail
from vijax.evaluate.inputs import as_corpus
from vijax.evaluate.score import Score


def unigram_score(train: Any, test: Any, *, smoothing: float = 0.0) -> Score:
    """Log probability per word of the test documents under the word frequencies of the training documents.

    Args:
      train: a `Corpus`, or anything `vijax.data.read` accepts.
      test: the same, over the same vocabulary.
      smoothing: added to the count of every word.

    Returns:
      A `Score` in nats per word; empty documents are skipped.

    Raises:
      ValueError: another vocabulary, a negative smoothing, or without smoothing a test word unseen in training.

    >>> from vijax.data import Corpus
    >>> print(unigram_score(Corpus.from_counts([[3, 1]]), Corpus.from_counts([[1, 1], [2, 0]])))
    -0.562 ± 0.275 nats per word (2 documents, 4 words)
    """
    train = as_corpus(train)
    test = as_corpus(test, train.vocab_size)
    if not 0 <= smoothing < float("inf"):
        raise fail("smoothing", "a number of 0 or more", repr(smoothing), "pass smoothing=0")
    counts = train.word_counts() + smoothing
    unseen = np.flatnonzero((counts == 0) & (test.word_counts() > 0))
    if len(unseen):
        got = f"word {unseen[0]}, unseen in training ({len(unseen)} such)"
        raise fail(
            "test", "words of the training documents only", got, "drop them by vijax.data.select_words, or smooth"
        )
    with np.errstate(divide="ignore"):
        log_probs = np.log(counts) - np.log(counts.sum())
    documents = np.repeat(np.arange(test.num_documents), test.lengths)
    terms = test.counts * log_probs[test.indices]
    rows = np.flatnonzero(test.tokens)
    totals = np.bincount(documents, terms, test.num_documents)
    return Score.of(totals[rows], test.tokens[rows], rows, test.num_documents - len(rows))
