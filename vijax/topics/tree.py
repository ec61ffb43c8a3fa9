"""A tree of topics: those are joined first whose difference tells least about words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import entr

from vijax.checks import require, require_integers


class TopicTree(NamedTuple):
    """A tree of K topics, from the leaves to the root.

    Attributes:
      joined: the two that each step joins, (K - 1, 2): topics below K, and K + i for what step i
        has made.
      losses: nats per word that the steps up to each have lost of what topics tell about words.
      total: nats per word that topics tell, the mutual information of topic and word; it is what
        the last step has lost.
    """

    joined: Int[np.ndarray, "K1 2"]
    losses: Float[np.ndarray, " K1"]
    total: float

    def groups(self, number: int) -> list[list[int]]:
        """The topics in this many groups; those of two or more are the `merge` of
        `vijax.edit_topics`.

        >>> tree = topic_tree(np.array([[0.8, 0.2], [0.7, 0.3], [0.0, 1.0]]))
        >>> tree.groups(2)
        [[0, 1], [2]]
        """
        size = len(self.joined) + 1
        require_integers(1, number=number)
        require(number <= size, "number", f"at most {size}, the topics", number)
        members = {k: [k] for k in range(size)}
        for step, (first, second) in enumerate(self.joined[: size - number].tolist()):
            members[size + step] = sorted(members.pop(first) + members.pop(second))
        return sorted(members.values())

    @property
    def order(self) -> list[int]:
        """The topics in an order in which no two lines of the tree cross."""
        size = len(self.joined) + 1
        orders = {k: [k] for k in range(size)}
        for step, (first, second) in enumerate(self.joined.tolist()):
            orders[size + step] = orders.pop(first) + orders.pop(second)
        return next(iter(orders.values()))

    def text(self, labels: Sequence[str]) -> str:
        """The tree in letters, a line for each topic; at a join what is lost up to it, as a share
        of what topics tell.

        >>> topics = np.array([[0.8, 0.2], [0.7, 0.3], [0.0, 1.0]])
        >>> print(topic_tree(topics).text(["sun", "sea", "law"]))
        100 %
        ├─ law
        └─ 1 %
           ├─ sun
           └─ sea
        """
        size = len(self.joined) + 1
        require(len(labels) == size, "labels", f"one for each of {size} topics", len(labels))
        lines: list[str] = []
        pending = [(2 * size - 2, "", "")]
        while pending:
            node, lead, branch = pending.pop()
            if node < size:
                lines.append(f"{lead}{branch}{labels[node]}")
                continue
            share = self.losses[node - size] / max(self.total, 1e-300)
            lines.append(f"{lead}{branch}{100 * share:.0f} %")
            next_lead = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
            first, second = self.joined[node - size].tolist()
            pending += [(second, next_lead, "└─ "), (first, next_lead, "├─ ")]
        return "\n".join(lines)


def topic_tree(topics: Any, shares: Any | None = None) -> TopicTree:
    """The tree of topics in which each step joins the two whose union loses the fewest nats per
    word of the mutual information of topic and word (Slonim and Tishby 1999).

    For topics i and j of shares a and b with mean m = (a p_i + b p_j) / (a + b) the loss is
    a KL(p_i || m) + b KL(p_j || m).

    Args:
      topics: probabilities of words by topic, (K, V), two topics or more.
      shares: shares of the topics, (K,); None: all are equal.

    Raises:
      ValueError: topics that are no probabilities, or shares of another number of topics.

    >>> tree = topic_tree(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> tree.joined.tolist(), tree.losses.round(4).tolist()
    ([[0, 1], [2, 3]], [0.0, 0.6365])
    """
    probs = np.asarray(topics, np.float64)
    expected = "a matrix of probabilities, two rows or more"
    require(probs.ndim == 2 and len(probs) >= 2, "topics", expected, f"shape {probs.shape}")
    totals = probs.sum(1, keepdims=True)
    have_words = bool((probs >= 0).all() and (totals > 0).all() and np.isfinite(totals).all())
    require(have_words, "topics", expected, "numbers below 0, rows of zeros, or NaN")
    size = len(probs)
    weights = np.ones(size)
    if shares is not None:
        weights = np.asarray(shares, np.float64)
    is_valid = weights.shape == (size,) and bool((weights >= 0).all() and weights.sum() > 0)
    require(is_valid, "shares", f"{size} numbers of 0 or more, not all 0", weights.tolist())
    weights = weights / weights.sum()
    masses = weights[:, None] * probs / totals
    ids = np.arange(size)
    losses = np.full((size, size), np.inf)
    for k in range(size - 1):
        losses[k, k + 1 :] = _loss(masses[k], masses[k + 1 :])
    steps = []
    losses_by_step = []
    for step in range(size - 1):
        i, j = np.unravel_index(np.argmin(losses), losses.shape)
        steps.append(sorted((int(ids[i]), int(ids[j]))))
        losses_by_step.append(float(losses[i, j]))
        masses[i] += masses[j]
        ids[i] = size + step
        losses[j] = np.inf
        losses[:, j] = np.inf
        is_left = np.isfinite(losses).any(0) | np.isfinite(losses).any(1)
        rows = np.flatnonzero(is_left & (np.arange(size) != i))
        values = _loss(masses[i], masses[rows])
        losses[np.minimum(i, rows), np.maximum(i, rows)] = values
    return TopicTree(
        np.array(steps).reshape(-1, 2), np.cumsum(losses_by_step), float(np.sum(losses_by_step))
    )


def _loss(one: Float[np.ndarray, " V"], others: Float[np.ndarray, "n V"]) -> np.ndarray:
    """Nats per word lost where one joins each of others; arguments are joint probabilities."""
    log_term = lambda mass: entr(mass).sum(-1) - entr(mass.sum(-1))
    return np.maximum(log_term(one + others) - log_term(one) - log_term(others), 0.0)
