"""Topics from the words that occur together, by anchor words (Arora et al. 2013).

Q_vw = p(two words of a document are v and w) = sum_kl p(v | k) p(k, l) p(w | l). A word that one
topic alone has, an anchor, has the row Q_v / p(v) of that topic, and the row of any other word is a
convex combination of these, with weights p(k | v). So the anchors are corners of the hull of the
rows, found one after the other as the row farthest from the span of those before; the weights are
found by least squares on the simplex, and p(v | k) by Bayes' rule. Nothing is random.

Where a topic has seed words, they are its anchor, as if they were one word (Lund, Cook, Seppi and
Boyd-Graber 2017, with another mean), and anchors of the other topics are found after these. So
topics have the order of their seed words, and are found where no single word is a corner."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.arguments import Positives, Size, check_arguments
from vijax.checks import require
from vijax.contract.batch import word_concentration
from vijax.topics.seeds import seed_weights

MOST_ANCHORS = 2000
"""Words, at most, that may be anchors, and with which others are seen to occur: the most frequent
ones."""
ENOUGH, LEAST_SHARE = 150, 0.1
"""An anchor occurs in so many documents, or in such a share of them if that is less, unless fewer
than ten words a topic do: rows of rarer words are noise, and lie far out.
`benchmarks/results_stm.md` says what others gave."""
ROUNDS = 300


class AnchorTopics(NamedTuple):
    """Topics by anchor words.

    Attributes:
      topics: probabilities of words by topic, (K, V).
      shares: shares of the topics of all words, (K,).
      anchors: ids of the anchor words, (K,); of a topic with seed words that of them which tells
          most.
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
      eta: concentrations of topics, (K, V), that say which words topics are to have, as of
          `vijax.topics.seeded`; None:
        nothing is said of them.

    Raises:
      ValueError: fewer words than topics, or no document of two words.

    >>> from vijax.data import synthetic
    >>> corpus, _ = synthetic.lda_corpus(num_documents=500, num_topics=2, vocab_size=20, seed=0)
    >>> anchor_words(corpus, 2).topics.shape
    (2, 20)
    """
    counts = corpus.to_scipy().astype(np.float64)
    tokens = np.asarray(corpus.tokens, np.float64)
    long = np.flatnonzero(tokens >= 2)
    require(len(long) > 0, "corpus", "documents of two words or more", "none")
    counts, tokens = counts[long], tokens[long]
    candidates = _candidates(counts, num_topics)
    pairs = counts.multiply(1.0 / (tokens * (tokens - 1.0))[:, None]).tocsr()
    own = np.asarray(pairs.sum(0)).ravel()
    together = (pairs.T @ counts[:, candidates]).toarray()
    together[candidates, np.arange(len(candidates))] -= own[candidates]
    total = np.asarray(pairs.T @ tokens).ravel() - own
    seen = total > 0
    rows = together[seen] / total[seen, None]
    place = np.cumsum(seen) - 1
    seeds = _seed_shares(eta, num_topics, total)
    given = np.flatnonzero(seeds.sum(1) > 0)
    anchors, corners = np.argmax(seeds, 1), seeds[:, seen] @ rows
    others = np.setdiff1d(np.arange(num_topics), given)
    anchors[others] = candidates[_corners(rows[place[candidates]], len(others), corners[given])]
    corners[others] = rows[place[anchors[others]]]
    weights = np.zeros((len(total), num_topics))
    weights[seen] = _convex_weights(rows, corners)
    joint = weights * (total / total.sum())[:, None]
    shares = joint.sum(0)
    return AnchorTopics((joint / np.maximum(shares, 1e-300)).T, shares, anchors)


def _seed_shares(
    eta: Any, num_topics: int, total: Float[np.ndarray, " V"]
) -> Float[np.ndarray, "K V"]:
    """Shares of each topic's seed words in the one word that they are taken for; 0 where none of
    them occurs."""
    if eta is None:
        return np.zeros((num_topics, len(total)))
    known = np.asarray(word_concentration(eta, num_topics, len(total)), np.float64)
    seeds = seed_weights(np.broadcast_to(known, (num_topics, len(total)))) * total
    return seeds / np.maximum(seeds.sum(1, keepdims=True), 1e-300)


def _candidates(counts: Any, num_topics: int) -> Int[np.ndarray, " candidates"]:
    """Words that may be anchors: of those that enough documents have, the most frequent ones."""
    documents = np.asarray((counts > 0).sum(0)).ravel()
    frequent = np.argsort(-documents, kind="stable")
    require(
        np.sum(documents > 0) >= num_topics, "num_topics", "at most the number of words", num_topics
    )
    least = max(5.0, min(ENOUGH, LEAST_SHARE * counts.shape[0]))
    enough = int(np.sum(documents >= least))
    few = min(10 * num_topics, int(np.sum(documents > 0)))
    return np.sort(frequent[: min(max(enough, few), MOST_ANCHORS)])


def _corners(
    rows: Float[np.ndarray, "n m"], number: int, given: Float[np.ndarray, "g m"]
) -> Int[np.ndarray, " number"]:
    """Rows one after the other, each farthest from the span of those that are given and of those
    before (Arora et al. 2013, algorithm 4)."""
    left, known, found = np.concatenate([given, rows]), len(given), []
    for k in range(known + number):
        found.append(k if k < known else known + int(np.argmax(np.sum(left[known:] ** 2, 1))))
        direction = left[found[-1]] / max(float(np.linalg.norm(left[found[-1]])), 1e-300)
        left = left - np.outer(left @ direction, direction)
    return np.array(found[known:], int) - known


def _convex_weights(
    rows: Float[np.ndarray, "n m"], corners: Float[np.ndarray, "K m"]
) -> Float[np.ndarray, "n K"]:
    """The points of the simplex that bring combinations of the corners nearest to each row:
    projected gradient steps with momentum (Beck and Teboulle 2009)."""
    gram, linear = corners @ corners.T, rows @ corners.T
    size = 1.0 / max(float(np.linalg.eigvalsh(gram)[-1]), 1e-300)
    at = ahead = np.full(linear.shape, 1.0 / len(corners))
    speed = 1.0
    for _ in range(ROUNDS):
        new = _on_simplex(ahead - size * (ahead @ gram - linear))
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed**2))
        ahead, at, speed = new + (speed - 1.0) / faster * (new - at), new, faster
    return at


def _on_simplex(x: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n K"]:
    """The nearest points of the simplex.

    >>> _on_simplex(np.array([[0.5, 0.7], [3.0, 0.0]])).round(3).tolist()
    [[0.4, 0.6], [1.0, 0.0]]
    """
    ordered = -np.sort(-x, axis=1)
    excess = (np.cumsum(ordered, 1) - 1.0) / np.arange(1, x.shape[1] + 1)
    number = np.sum(ordered > excess, axis=1)
    return np.maximum(x - excess[np.arange(len(x)), number - 1][:, None], 0.0)
