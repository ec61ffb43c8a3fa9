"""The words on the page of topics, and the words shown of each topic for each weight of relevance.

relevance(w | k, lambda) = lambda log p(w | k) + (1 - lambda) log (p(w | k) / p(w))

Source: Sievert and Shirley 2014, equation 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.evaluate.topic_words import frex, lift, word_scores
from vijax.topics.summary import Topic

MOST_SHOWN = 30
"""Most words of a topic that are shown at once."""
GRID = np.linspace(0.0, 1.0, 21)
"""The stops of the slider."""
MOST_WORDS = 20_000
"""Number of words that can be searched, the most frequent."""
MOST_USES = 6
LEAST_USE = 0.01
"""A word keeps its `MOST_USES` largest topics with at least this share of its uses."""


RELEVANCE = 0.6
"""The first position of the slider, as in Sievert and Shirley."""
WordOrder = Literal["probability", "relevance", "frex", "lift", "score"]
ORDERS: tuple[WordOrder, ...] = ("frex", "lift", "score")
"""The orders of words that the page has beside relevance."""
LEAST_USES = 5.0
"""Uses from which a word can lead by lift: one seen once in a single topic would lead else."""


def word_order(
    concentration: Float[np.ndarray, "K V"], order: WordOrder
) -> Float[np.ndarray, "K V"]:
    """Scores of the words of each topic, high for those that lead.

    >>> weights = np.array([[60.0, 30.0], [60.0, 9.0]])
    >>> [int(word_order(weights, order)[0].argmax()) for order in ("probability", "lift")]
    [0, 1]
    """
    weights = np.clip(np.nan_to_num(np.asarray(concentration, np.float64)), 1e-10, 1e30)
    probs = weights / weights.sum(axis=1, keepdims=True)
    if order == "probability":
        return probs
    if order == "frex":
        return frex(probs)
    if order == "score":
        return word_scores(probs)
    ratio = lift(probs, weights.sum(axis=1))
    if order == "lift":
        return np.where(weights >= LEAST_USES, ratio, ratio * 1e-12)
    return np.log(probs) - (1.0 - RELEVANCE) * np.log(weights.sum(0) / weights.sum())


class Leading(NamedTuple):
    """Words of one topic: their places in the lexicon, and log p(w | k); and by the name of an
    order the words that lead in it, as places among these."""

    places: Int[np.ndarray, " n"]
    log_probs: Float[np.ndarray, " n"]
    orders: Mapping[str, Int[np.ndarray, " m"]] = MappingProxyType({})


class Words(NamedTuple):
    """The words in the page.

    Attributes:
      names: the lexicon, most frequent first.
      log_overall: log p(w).
      leading: a `Leading` for each topic, in the order of their numbers.
      uses: for each word its topics and their shares of its uses, largest first.
      left_out: number of words of the vocabulary that are not in the lexicon.
    """

    names: tuple[str, ...]
    log_overall: Float[np.ndarray, " W"]
    leading: tuple[Leading, ...]
    uses: tuple[tuple[tuple[int, float], ...], ...]
    left_out: int


def page_words(
    concentration: Float[np.ndarray, "K V"],
    vocabulary: Sequence[str],
    most: int = MOST_WORDS,
    shown: int = MOST_SHOWN,
) -> Words:
    """The words for a page: the `most` frequent, and every word that is among the first `shown` of
    a topic at some weight.

    >>> found = page_words(np.array([[6.0, 1.0, 1.0], [6.0, 0.5, 5.5]]), ["the", "sun", "sea"], shown=1)
    >>> found.names, [[found.names[i] for i in leading.places] for leading in found.leading]
    (('the', 'sea', 'sun'), [['the', 'sun'], ['the', 'sea']])
    >>> found.uses[1]  # topic 1 has most uses of "sea"
    ((1, 0.8461538461538461), (0, 0.15384615384615385))
    """
    weights = np.clip(np.nan_to_num(np.asarray(concentration, np.float64)), 1e-10, 1e30)
    log_probs = np.log(weights / weights.sum(axis=1, keepdims=True))
    totals = weights.sum(axis=0)
    log_overall = np.log(totals / totals.sum())
    is_leading = leads_somewhere(log_probs, log_overall, shown)
    by_order = {order: _first_words(word_order(weights, order), shown) for order in ORDERS}
    for first in by_order.values():
        np.put_along_axis(is_leading, first, True, axis=1)
    leading = [np.flatnonzero(row) for row in is_leading]
    frequent = np.argsort(-totals, kind="stable")
    is_kept = np.zeros(len(totals), bool)
    is_kept[frequent[:most]] = True
    is_kept[np.concatenate(leading)] = True
    order = frequent[is_kept[frequent]]
    place = np.full(len(totals), -1)
    place[order] = np.arange(len(order))
    return Words(
        tuple(str(vocabulary[i]) for i in order),
        log_overall[order],
        tuple(
            Leading(
                place[ids],
                log_probs[k, ids],
                {order: np.searchsorted(ids, first[k]) for order, first in by_order.items()},
            )
            for k, ids in enumerate(leading)
        ),
        _uses(weights[:, order] / totals[order]),
        len(totals) - len(order),
    )


def _first_words(scores: Float[np.ndarray, "K V"], shown: int) -> Int[np.ndarray, "K m"]:
    return np.argsort(-scores, axis=1, kind="stable")[:, :shown]


def leads_somewhere(
    log_probs: Float[np.ndarray, "K V"], log_overall: Float[np.ndarray, " V"], shown: int
) -> np.ndarray:
    """True for words among the `shown` most relevant of a topic at some weight, (K, V)."""
    is_leading = np.zeros(log_probs.shape, bool)
    shown = min(shown, log_probs.shape[1])
    for weight in GRID:
        relevance = log_probs - (1.0 - weight) * log_overall
        top = np.argpartition(-relevance, shown - 1, axis=1)[:, :shown]
        np.put_along_axis(is_leading, top, True, axis=1)
    return is_leading


def _uses(shares: Float[np.ndarray, "K W"]) -> tuple[tuple[tuple[int, float], ...], ...]:
    """The topics with the largest shares of each word's uses."""
    number = min(MOST_USES, len(shares))
    top = np.argsort(-shares, axis=0, kind="stable")[:number]
    best = np.take_along_axis(shares, top, axis=0)
    columns = zip(top.T.tolist(), best.T.tolist(), strict=True)
    return tuple(
        tuple((k, share) for k, share in zip(ks, values, strict=True) if share >= LEAST_USE)
        for ks, values in columns
    )


def words_from_topics(topics: Sequence[Topic], shown: int = MOST_SHOWN) -> Words:
    """The words for a page without a posterior: only the leading words of its topics."""
    names = list(dict.fromkeys(word for topic in topics for word in topic.words)) or [""]
    place = {name: i for i, name in enumerate(names)}
    weights = np.zeros((len(topics), len(names)))
    for topic in topics:
        for word, probability in zip(topic.words, topic.probabilities, strict=True):
            weights[topic.number, place[word]] = min(topic.share, 1.0) * min(probability, 1.0)
    return page_words(weights, names, shown=shown)
