"""Topics from the words that occur together, by anchor words (Arora et al. 2013).

Q_vw = p(two words of a document are v and w) = sum_kl p(v | k) p(k, l) p(w | l). An anchor is a
word of a single topic: its row Q_v / p(v) is that of the topic, and the row of any other word is a
convex combination of the topics' rows, with weights p(k | v). So the anchors are corners of the
hull of the rows. They are found one after the other, as the row farthest from the span of those
before; the weights by least squares on the simplex; and p(v | k) by Bayes' rule. Nothing is random.

The seed words of a topic are its anchor, as if they were one word (Lund, Cook, Seppi and
Boyd-Graber 2017, with another mean); anchors of the other topics are found after these. So topics
have the order of their seed words, and are found even if no single word is a corner."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.arguments import Positives, Size, check_arguments
from vijax.checks import require
from vijax.contract.batch import word_concentration
from vijax.topics.seeds import seed_weights

MOST_ANCHORS = 2000
"""The number of most frequent words that may be anchors; co-occurrences are counted with these
words."""
ENOUGH = 150
"""Documents in which an anchor must occur, unless fewer than ten words a topic do: rows of rarer
words are noise, and lie far out. `benchmarks/results_stm.md` compares other values."""
LEAST_SHARE = 0.1
"""The share of the documents that suffices if it is less than `ENOUGH`."""
ROUNDS = 300
"""Gradient steps for the weights."""


class AnchorTopics(NamedTuple):
    """Topics by anchor words.

    Attributes:
      topics: probabilities of words by topic, (K, V).
      shares: share of all words that each topic has, (K,).
      anchors: ids of the anchor words, (K,); for a topic with seed words the most telling of
          them.
    """

    topics: Float[np.ndarray, "K V"]
    shares: Float[np.ndarray, " K"]
    anchors: Int[np.ndarray, " K"]


@check_arguments
def anchor_words(corpus: Any, num_topics: Size, eta: Positives | None = None) -> AnchorTopics:
    """Topics of a corpus by anchor words, a start for `vijax.stm`.

    Args:
      corpus: a `vijax.data.Corpus`.
      num_topics: K, how many topics.
      eta: concentrations of topics, (K, V), with seed words, as from `vijax.topics.seeded`; None:
        no seed words.

    Raises:
      ValueError: fewer words than topics, or no document of two words or more.

    >>> from vijax.data import synthetic
    >>> corpus, _ = synthetic.lda_corpus(num_documents=500, num_topics=2, vocab_size=20, seed=0)
    >>> anchor_words(corpus, 2).topics.shape
    (2, 20)
    """
    counts = corpus.to_scipy().astype(np.float64)
    tokens = np.asarray(corpus.tokens, np.float64)
    long = np.flatnonzero(tokens >= 2)
    require(len(long) > 0, "corpus", "documents of two words or more", "none")
    counts = counts[long]
    tokens = tokens[long]
    candidates = _candidates(counts, num_topics)
    together, total = _co_occurrences(counts, tokens, candidates)

    # The rows of words with pairs; `places` are their places among these rows
    has_pairs = total > 0
    rows = together[has_pairs] / total[has_pairs, None]
    places = np.cumsum(has_pairs) - 1

    seeds = _seed_shares(eta, num_topics, total)
    with_seeds = np.flatnonzero(seeds.sum(1) > 0)
    without_seeds = np.setdiff1d(np.arange(num_topics), with_seeds)
    anchors = np.argmax(seeds, 1)
    corners = seeds[:, has_pairs] @ rows
    corner_rows = _corners(rows[places[candidates]], len(without_seeds), corners[with_seeds])
    anchors[without_seeds] = candidates[corner_rows]
    corners[without_seeds] = rows[places[anchors[without_seeds]]]

    weights = np.zeros((len(total), num_topics))
    weights[has_pairs] = _convex_weights(rows, corners)
    joint = weights * (total / total.sum())[:, None]
    shares = joint.sum(0)
    return AnchorTopics((joint / np.maximum(shares, 1e-300)).T, shares, anchors)


def _co_occurrences(
    counts: Any, tokens: Float[np.ndarray, " D"], candidates: Int[np.ndarray, " candidates"]
) -> tuple[Float[np.ndarray, "V candidates"], Float[np.ndarray, " V"]]:
    """Pairs of each word and each candidate, summed over documents that weigh alike; and the pairs
    of each word with any other."""
    pairs = counts.multiply(1.0 / (tokens * (tokens - 1.0))[:, None]).tocsr()
    with_itself = np.asarray(pairs.sum(0)).ravel()
    together = (pairs.T @ counts[:, candidates]).toarray()
    together[candidates, np.arange(len(candidates))] -= with_itself[candidates]
    return together, np.asarray(pairs.T @ tokens).ravel() - with_itself


def _seed_shares(
    eta: Any, num_topics: int, total: Float[np.ndarray, " V"]
) -> Float[np.ndarray, "K V"]:
    """The shares of its seed words in the anchor of each topic; 0 for all words of a topic if none
    of its seed words occurs."""
    if eta is None:
        return np.zeros((num_topics, len(total)))
    concentration = np.asarray(word_concentration(eta, num_topics, len(total)), np.float64)
    seeds = seed_weights(np.broadcast_to(concentration, (num_topics, len(total)))) * total
    return seeds / np.maximum(seeds.sum(1, keepdims=True), 1e-300)


def _candidates(counts: Any, num_topics: int) -> Int[np.ndarray, " candidates"]:
    """Words that may be anchors: the most frequent words, if enough documents have them."""
    documents = np.asarray((counts > 0).sum(0)).ravel()
    frequent = np.argsort(-documents, kind="stable")
    num_words = int(np.sum(documents > 0))
    require(num_words >= num_topics, "num_topics", "at most the number of words", num_topics)
    threshold = max(5.0, min(ENOUGH, LEAST_SHARE * counts.shape[0]))
    enough = int(np.sum(documents >= threshold))
    few = min(10 * num_topics, num_words)
    return np.sort(frequent[: min(max(enough, few), MOST_ANCHORS)])


def _corners(
    rows: Float[np.ndarray, "n m"], number: int, first: Float[np.ndarray, "g m"]
) -> Int[np.ndarray, " number"]:
    """Rows one after the other, each farthest from the span of the rows of `first` and of those
    before it (Arora et al. 2013, algorithm 4)."""
    residuals = np.concatenate([first, rows])
    num_first = len(first)
    corners = []
    for k in range(num_first + number):
        corner = k
        if k >= num_first:
            corner = num_first + int(np.argmax(np.sum(residuals[num_first:] ** 2, 1)))
        corners.append(corner)
        length = max(float(np.linalg.norm(residuals[corner])), 1e-300)
        direction = residuals[corner] / length
        residuals = residuals - np.outer(residuals @ direction, direction)
    return np.array(corners[num_first:], int) - num_first


def _convex_weights(
    rows: Float[np.ndarray, "n m"], corners: Float[np.ndarray, "K m"]
) -> Float[np.ndarray, "n K"]:
    """The points of the simplex whose combinations of the corners are nearest to each row, by
    projected gradient steps with momentum (Beck and Teboulle 2009)."""
    gram = corners @ corners.T
    linear = rows @ corners.T
    size = 1.0 / max(float(np.linalg.eigvalsh(gram)[-1]), 1e-300)
    point = np.full(linear.shape, 1.0 / len(corners))
    lookahead = point
    speed = 1.0
    for _ in range(ROUNDS):
        new = _project_to_simplex(lookahead - size * (lookahead @ gram - linear))
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed**2))
        lookahead = new + (speed - 1.0) / faster * (new - point)
        point = new
        speed = faster
    return point


def _project_to_simplex(x: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n K"]:
    """The nearest points of the simplex.

    >>> _project_to_simplex(np.array([[0.5, 0.7], [3.0, 0.0]])).round(3).tolist()
    [[0.4, 0.6], [1.0, 0.0]]
    """
    ordered = -np.sort(-x, axis=1)
    excess = (np.cumsum(ordered, 1) - 1.0) / np.arange(1, x.shape[1] + 1)
    number = np.sum(ordered > excess, axis=1)
    return np.maximum(x - excess[np.arange(len(x)), number - 1][:, None], 0.0)
