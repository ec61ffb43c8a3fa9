"""Length buckets: documents of similar length share a padded shape, so that little of it is padding."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Int

MAX_CANDIDATES = 512  # lengths tried as edges; more make no visible difference and the search is quadratic
WORTH = 0.98  # a further bucket is a further compiled shape: it must save 2 % of the padded size
MOST = 6  # buckets, where nobody says how many
PRICE = 4096  # padded slots of a batch that a bucket must save to pay: what compiling it costs, over some 200 steps


@dataclasses.dataclass(frozen=True, eq=False)
class Bucket:
    """Documents that share a padded shape.

    Attributes:
      rows: their places in the corpus, in order.
      slots: the largest number of different words of one of them (1 at least), which is their padded length.
      max_tokens: the largest number of tokens of one of them (1 at least).
    """

    rows: Int[np.ndarray, " docs"]
    slots: int
    max_tokens: int


def length_buckets(
    lengths: Int[np.ndarray, " docs"],
    tokens: Int[np.ndarray, " docs"],
    num_buckets: int | None = None,
    num_parts: int = 1,
    price: float = PRICE,
) -> tuple[Bucket, ...]:
    """Buckets that make the padded size of a batch smallest; short documents first.

    Args:
      lengths: different words of each document.
      tokens: tokens of each document.
      num_buckets: how many buckets at most; None: as many as save more than they cost to compile.
      num_parts: into how many batches each bucket is dealt.
      price: what a bucket costs to compile, as so many slots of a batch; not asked where their number is given.

    >>> [(b.rows.tolist(), b.slots) for b in length_buckets(np.array([3, 90, 2, 3]), np.array([5, 99, 2, 4]), 2)]
    [([0, 2, 3], 3), ([1], 90)]
    """
    edges = bucket_edges(lengths, num_buckets or MOST, num_parts, 0.0 if num_buckets else price)
    which = np.searchsorted(edges, lengths)
    members = [np.flatnonzero(which == b) for b in range(len(edges))]
    return tuple(Bucket(m, max(int(lengths[m].max()), 1), max(int(tokens[m].max()), 1)) for m in members)


def bucket_edges(
    lengths: Int[np.ndarray, " docs"], num_buckets: int, num_parts: int = 1, price: float = 0.0
) -> Int[np.ndarray, " buckets"]:
    """Largest length of each bucket, by dynamic programming over the histogram of lengths.

    A bucket of n documents of up to L words takes ceil(n / num_parts) rows of L slots in every batch; the sum over
    buckets, and of `price` for each, is made smallest. Fewer buckets are taken when the last ones would save next to
    nothing.
    """
    candidates, below = _candidates(np.asarray(lengths))
    cost = _bucket_costs(candidates, below, num_parts)
    best, totals, previous = cost[0], [cost[0, -1]], []
    for _ in range(1, num_buckets):
        through = best[:, None] + cost
        previous.append(through.argmin(axis=0))
        best = through.min(axis=0)
        totals.append(best[-1])
    enough = _fewest(totals, price)
    return candidates[_trace_back(previous[:enough])]


def _candidates(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths that may end a bucket, and how many documents are no longer than each; the first stands for none."""
    values, number = np.unique(lengths, return_counts=True)
    keep = np.unique(np.linspace(0, len(values) - 1, min(len(values), MAX_CANDIDATES)).round().astype(int))
    return np.concatenate([[-1], values[keep]]), np.concatenate([[0], np.cumsum(number)[keep]])


def _bucket_costs(candidates: np.ndarray, below: np.ndarray, num_parts: int) -> np.ndarray:
    """cost[i, j]: padded slots per batch of the bucket with lengths above candidate i, up to candidate j."""
    number = below[None, :] - below[:, None]
    cost = -(-number // num_parts) * np.maximum(candidates, 1)[None, :].astype(float)
    return np.where(number >= 0, cost, np.inf)


def _fewest(totals: list[float], price: float) -> int:
    """How many further buckets to take after the first: as long as they pay, and each saves something yet."""
    paying = int(np.argmin(np.asarray(totals) + price * np.arange(len(totals))))
    return min(paying, next(b for b in range(len(totals)) if totals[-1] >= WORTH * totals[b]))


def _trace_back(previous: list[np.ndarray]) -> np.ndarray:
    """The candidates that end the buckets on the cheapest way to the last candidate."""
    ends = [-1 if not previous else len(previous[0]) - 1]
    for choice in reversed(previous):
        ends.append(int(choice[ends[-1]]))
    return np.unique([end for end in ends if end != 0])
