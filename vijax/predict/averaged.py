"""Predictions that are averaged over several fits, told in the topics of the first of them.

The fits of two starts have other topics. Each infers the shares of a document by its own; the
shares of a later fit are moved to the topics of the first, where topic j of the later one is the
mixture

    beta'_j  ~  sum_k M_jk beta_k,      M_jk >= 0,  sum_k M_jk = 1,

that is nearest to it in KL(beta'_j || sum_k M_jk beta_k). If both fits have the same topics in
another order, M is the permutation."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

NEAREST = 16
"""Topics of the first fit of which a topic of another fit is a mixture."""
ROUNDS = 20
"""Rounds of EM for the shares of a mixture."""


def mixture_of_topics(
    topics: Float[np.ndarray, "J V"],
    first: Float[np.ndarray, "K V"],
    nearest: int = NEAREST,
    rounds: int = ROUNDS,
) -> Float[np.ndarray, "J K"]:
    """The shares M of the topics of a first fit in each topic of another fit.

    Args:
      topics: word probabilities of the other fit.
      first: word probabilities of the first fit.
      nearest: topics that a mixture has at most: the nearest by Hellinger distance.
      rounds: rounds of EM.

    >>> first = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> later = np.array([[0.0, 0.0, 0.5, 0.5], [0.4, 0.4, 0.1, 0.1]])
    >>> mixture_of_topics(later, first).round(3).tolist()
    [[0.0, 1.0], [0.8, 0.2]]
    """
    likeness = np.sqrt(topics) @ np.sqrt(first).T
    size = min(nearest, len(first))
    shares = np.zeros((len(topics), len(first)))
    for j, topic in enumerate(topics):
        parts = np.argpartition(-likeness[j], size - 1)[:size]
        shares[j, parts] = _mixture_shares(topic, first[parts], rounds)
    return shares


def _mixture_shares(
    topic: Float[np.ndarray, " V"], parts: Float[np.ndarray, "K V"], rounds: int
) -> Float[np.ndarray, " K"]:
    """The shares of the parts in the mixture that is nearest to a topic, by EM from even shares."""
    shares = np.full(len(parts), 1 / len(parts))
    for _ in range(rounds):
        mixed = shares @ parts
        ratio = np.divide(topic, mixed, out=np.zeros_like(mixed), where=mixed > 0)
        shares = shares * (parts @ ratio)
        shares = shares / shares.sum()
    return shares


def average_shares(
    shares: list[Float[np.ndarray, "docs K"]], topics: list[Float[np.ndarray, "K V"]]
) -> Float[np.ndarray, "docs K"]:
    """The mean of the shares of documents in several fits, in the topics of the first.

    Args:
      shares: of each fit, in its own topics.
      topics: word probabilities of each fit.
    """
    tables = [np.asarray(table, np.float64) for table in topics]
    total = np.asarray(shares[0], np.float64)
    for later_shares, table in zip(shares[1:], tables[1:], strict=True):
        total = total + np.asarray(later_shares, np.float64) @ mixture_of_topics(table, tables[0])
    mean = total / len(shares)
    return (mean / mean.sum(axis=1, keepdims=True)).astype(np.asarray(shares[0]).dtype)
