"""Words of topics for readers: frequent and exclusive words by several scores, and the exclusivity
and coherence of the leading words."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.checks import require, require_integers
from vijax.evaluate.score import Coherence, documents_with
from vijax.evaluate.tokens import as_corpus, check_topics


def frex(topics: Any, weight: float = 0.5) -> Float[np.ndarray, "K V"]:
    """Scores from 0 to 1, high for words that are both frequent and exclusive in a topic: the
    harmonic mean of the ranks by beta_kv and by beta_kv / sum_j beta_jv, each as a share of the
    words (Bischof and Airoldi 2012, section 2.3).

    Args:
      topics: probabilities of words by topic, (K, V).
      weight: weight of exclusivity, from 0 to 1.

    >>> topics = np.array([[0.5, 0.3, 0.2], [0.5, 0.1, 0.4]])
    >>> frex(topics, weight=0.7).argmax(1).tolist()
    [1, 2]
    """
    require(0 <= weight <= 1, "weight", "from 0 to 1", weight)
    topics = np.asarray(check_topics(topics), np.float64)
    exclusive = topics / np.maximum(topics.sum(0, keepdims=True), 1e-300)
    return 1.0 / (weight / _rank_shares(exclusive) + (1.0 - weight) / _rank_shares(topics))


def lift(topics: Any, shares: Any | None = None) -> Float[np.ndarray, "K V"]:
    """Times by which a word is more probable in a topic than in all of them, beta_kv / p(v), with
    p(v) = sum_j share_j beta_jv (Taddy 2012, section 4). Rare words of a single topic lead.

    Args:
      topics: probabilities of words by topic, (K, V).
      shares: shares of the topics, (K,); None: all are equal.

    >>> lift(np.array([[0.5, 0.3, 0.2], [0.5, 0.1, 0.4]])).round(2).tolist()
    [[1.0, 1.5, 0.67], [1.0, 0.5, 1.33]]
    """
    topics = np.asarray(check_topics(topics), np.float64)
    weights = np.ones(len(topics))
    if shares is not None:
        weights = np.asarray(shares, np.float64)
    expected = f"one share of 0 or more for each of {len(topics)} topics, not all 0"
    is_valid = weights.shape == (len(topics),) and bool((weights >= 0).all() and weights.sum() > 0)
    require(is_valid, "shares", expected, weights.tolist())
    overall = weights / weights.sum() @ topics
    return topics / np.maximum(overall, 1e-300)


def word_scores(topics: Any) -> Float[np.ndarray, "K V"]:
    """Scores beta_kv (log beta_kv - mean_j log beta_jv), high for words that are frequent here and
    rare elsewhere (Chang's R package lda, `top.topic.words(by.score = TRUE)`).

    Args:
      topics: probabilities of words by topic, (K, V); zeros count as 1e-5, as in that package.

    >>> word_scores(np.array([[0.5, 0.3, 0.2], [0.5, 0.1, 0.4]])).round(3).tolist()
    [[0.0, 0.165, -0.069], [0.0, -0.055, 0.139]]
    """
    topics = np.asarray(check_topics(topics), np.float64)
    logs = np.log(topics + 1e-5)
    return topics * (logs - logs.mean(0, keepdims=True))


def _rank_shares(x: Float[np.ndarray, "K V"]) -> Float[np.ndarray, "K V"]:
    """The share of the entries of its row that are at most each entry."""
    ranks = np.array([np.searchsorted(np.sort(row), row, "right") for row in x])
    return ranks / x.shape[1]


def exclusivity(topics: Any, *, num_words: int = 10, weight: float = 0.7) -> Coherence:
    """Mean FREX of the most probable words of each topic; high if other topics lack these words.

    >>> exclusivity(np.array([[0.5, 0.3, 0.2], [0.5, 0.1, 0.4]]), num_words=2).per_topic.round(2).tolist()
    [0.81, 0.81]
    """
    leading = leading_words(topics, num_words)
    return Coherence.of(np.take_along_axis(frex(topics, weight), leading, 1).mean(1))


def semantic_coherence(topics: Any, documents: Any, *, num_words: int = 10) -> Coherence:
    """Mean of log (D(v, w) + 1) / D(w) over pairs of the most probable words of each topic, with w
    more probable than v, and D the number of documents with a word or both. It is near 0 for words
    that occur together. Mimno et al. 2011, eq. 1, is the sum.

    >>> from vijax.data import Corpus
    >>> topics = np.array([[0.4, 0.4, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1]])
    >>> documents = Corpus.from_counts([[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 1, 1]])
    >>> semantic_coherence(topics, documents, num_words=2).per_topic.round(3).tolist()
    [0.405, -0.693]
    """
    leading = leading_words(topics, num_words)
    pair_counts = documents_with(as_corpus(documents, np.shape(topics)[1]), leading)
    word_counts = np.maximum(np.diagonal(pair_counts, axis1=1, axis2=2), 1)
    first, second = np.triu_indices(leading.shape[1], k=1)
    terms = np.log((pair_counts[:, first, second] + 1) / word_counts[:, first])
    return Coherence.of(terms.mean(1))


def leading_words(topics: Any, num_words: int) -> np.ndarray:
    """Ids of the most probable words of each topic."""
    require_integers(2, num_words=num_words)
    topics = np.asarray(check_topics(topics))
    vocab_size = topics.shape[1]
    expected = f"at most {vocab_size}, the vocabulary"
    require(num_words <= vocab_size, "num_words", expected, num_words)
    return np.argsort(-topics, axis=1, kind="stable")[:, :num_words]
