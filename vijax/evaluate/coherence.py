"""Coherence: the leading words of a topic should occur in the same documents."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require_integers
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.select import select_words
from vijax.data.reading.checks import fail
from vijax.evaluate.inputs import as_corpus, check_topics
from vijax.evaluate.score import Coherence


def npmi(topics: Any, documents: Any, *, num_words: int = 10) -> Coherence:
    """Normalised pointwise mutual information of the leading words of each topic, averaged over pairs.

        NPMI(v, w) = log(p(v, w) / (p(v) p(w))) / -log p(v, w)

    with p the fraction of the documents in which a word, or both words, occur. It is 1 for words that occur together
    only (and, by convention, for two that occur in every document), 0 for independent ones, and -1 for words that never
    occur together.

    Args:
      topics: probabilities of words by topic, shape (K, V), rows summing to one.
      documents: the reference: a `Corpus` over the same vocabulary, or anything `vijax.data.read` accepts.
      num_words: number of leading words of a topic; 2 or more.

    Returns:
      A `Coherence`: its standard error is over topics.

    Raises:
      ValueError: topics that are not distributions, another vocabulary, a `num_words` below 2 or above V.

    Source: Bouma 2009; Roder et al. 2015 (there with sliding windows in place of documents).

    >>> from vijax.data import Corpus
    >>> topics = np.array([[0.4, 0.4, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1]])
    >>> documents = Corpus.from_counts([[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 1, 1]])
    >>> npmi(topics, documents, num_words=2).per_topic.tolist()
    [1.0, -1.0]
    """
    topics = check_topics(topics)
    require_integers(2, num_words=num_words)
    vocab_size = topics.shape[1]
    if num_words > vocab_size:
        raise fail("num_words", f"at most {vocab_size}, the vocabulary", str(num_words), f"pass num_words={vocab_size}")
    corpus = as_corpus(documents, vocab_size)
    leading = np.argsort(-np.asarray(topics), axis=1, kind="stable")[:, :num_words]
    return Coherence.of(_mean_npmi(_documents_with(corpus, leading) / corpus.num_documents))


def _documents_with(corpus: Corpus, leading: Int[np.ndarray, "K n"]) -> Int[np.ndarray, "K n n"]:
    """The number of documents in which pairs of leading words of each topic occur; on the diagonal, single words."""
    words, place = np.unique(leading, return_inverse=True)
    occurs = select_words(corpus, words).to_scipy()
    occurs.data = np.ones_like(occurs.data)
    together = (occurs.T @ occurs).toarray()
    place = place.reshape(leading.shape)
    return together[place[:, :, None], place[:, None, :]]


def _mean_npmi(joint: Float[np.ndarray, "K n n"]) -> Float[np.ndarray, " K"]:
    """Mean over pairs of words, from the frequencies of pairs (and of single words, on the diagonal)."""
    single = np.diagonal(joint, axis1=1, axis2=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(joint / (single[:, :, None] * single[:, None, :])) / -np.log(joint)
    values = np.where(joint == 0, -1.0, np.where(joint == 1, 1.0, values))
    first, second = np.triu_indices(joint.shape[1], k=1)
    return values[:, first, second].mean(axis=1)
