"""Length buckets: documents of similar length share a padded shape, so few slots are padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

# lengths tried as edges; more make no visible difference, and the search is quadratic
MAX_CANDIDATES = 512
WORTH = 0.98  # a further bucket is a further compiled shape: it must save 2 % of the padded size
MOST = 6  # default for the most buckets
# padded slots of a batch that a bucket must save: the cost of compiling it, over some 200 steps
PRICE = 4096
# padded slots that a bucket must save if every document is read once and it needs its own program
ONCE = 64 * PRICE


@dataclasses.dataclass(frozen=True, eq=False)
class Bucket:
    """Documents that share a padded shape."""

    rows: Int[np.ndarray, " docs"]  # places of the documents in the corpus, in order
    slots: int  # padded length: the most different words of one document, at least 1
    max_tokens: int  # the most tokens of one document, at least 1


def length_buckets(
    lengths: Int[np.ndarray, " docs"],
    tokens: Int[np.ndarray, " docs"],
    num_buckets: int | None = None,
    num_parts: int = 1,
    price: float = PRICE,
) -> tuple[Bucket, ...]:
    """The buckets of the smallest padded batch, short documents first; each is dealt to `num_parts`
    batches.

    Without `num_buckets`, a bucket is added as long as it saves more slots of a batch than its
    `price`, the cost of compiling it.

    >>> [(b.rows.tolist(), b.slots) for b in length_buckets(np.array([3, 90, 2, 3]), np.array([5, 99, 2, 4]), 2)]
    [([0, 2, 3], 3), ([1], 90)]
    """
    edges = bucket_edges(lengths, num_buckets or MOST, num_parts, 0.0 if num_buckets else price)
    which = np.searchsorted(edges, lengths)
    members = [np.flatnonzero(which == b) for b in range(len(edges))]
    return tuple(
        Bucket(m, max(int(lengths[m].max()), 1), max(int(tokens[m].max()), 1)) for m in members
    )


def standard_buckets(
    lengths: Int[np.ndarray, " docs"], tokens: Int[np.ndarray, " docs"]
) -> Iterator[Bucket]:
    """The buckets of documents that are read once, short ones first. Their shapes are from a short
    list, so other documents of about these lengths find their program compiled already.

    >>> [(b.rows.tolist(), b.slots, b.max_tokens) for b in standard_buckets(np.array([3, 70]), np.array([9, 300]))]
    [([0, 1], 96, 384)]
    """
    sizes = standard_size(lengths)
    slots = np.unique(sizes)
    below = 0
    for size, longer in zip(slots, [*slots[1:], np.inf], strict=True):
        rows = np.flatnonzero((sizes > below) & (sizes <= size))
        if (longer - sizes[rows]).sum() >= ONCE:  # else they join the longer ones
            below = size
            max_tokens = int(np.ceil(tokens[rows].max()))
            yield Bucket(
                rows, int(size), int(size) * int(standard_size(-(-max_tokens // size), least=1))
            )


def standard_size(
    size: Int[np.ndarray, " sizes"] | int, least: int = 8
) -> Int[np.ndarray, " sizes"]:
    """The smallest size of the list that is not below `size`: powers of two, and from 64 on also
    three quarters of each.

    >>> standard_size(np.array([1, 9, 64, 65, 100, 129])).tolist()
    [8, 16, 64, 96, 128, 192]
    """
    power = np.exp2(np.ceil(np.log2(np.maximum(size, least)))).astype(np.int64)  # exact up to 2^53
    return np.where((power > 64) & (size <= power // 4 * 3), power // 4 * 3, power)


def bucket_edges(
    lengths: Int[np.ndarray, " docs"], num_buckets: int, num_parts: int = 1, price: float = 0.0
) -> Int[np.ndarray, " buckets"]:
    """Largest length of each bucket, by dynamic programming over the histogram of lengths.

    A bucket of n documents of up to L words takes ceil(n / num_parts) rows of L slots in every
    batch, and costs `price` besides; the edges minimise the sum over buckets. The last buckets are
    left out if they save less than `WORTH` asks."""
    candidates, below = _candidates(np.asarray(lengths))
    cost = _bucket_costs(candidates, below, num_parts)
    best = cost[0]
    totals = [cost[0, -1]]
    previous = []
    for _ in range(1, num_buckets):
        through = best[:, None] + cost
        previous.append(through.argmin(axis=0))
        best = through.min(axis=0)
        totals.append(best[-1])
    # Further buckets after the first: as long as they pay, and each still saves something.
    paying = int(np.argmin(np.asarray(totals) + price * np.arange(len(totals))))
    enough = min(paying, next(b for b in range(len(totals)) if totals[-1] >= WORTH * totals[b]))
    return candidates[_trace_back(previous[:enough])]


def _candidates(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths that may end a bucket, and the number of documents up to each; the first, -1, stands
    for no bucket."""
    values, number = np.unique(lengths, return_counts=True)
    keep = np.unique(
        np.linspace(0, len(values) - 1, min(len(values), MAX_CANDIDATES)).round().astype(int)
    )
    return np.concatenate([[-1], values[keep]]), np.concatenate([[0], np.cumsum(number)[keep]])


def _bucket_costs(candidates: np.ndarray, below: np.ndarray, num_parts: int) -> np.ndarray:
    """Padded slots per batch: cost[i, j] is for the bucket of lengths above candidate i, up to
    candidate j."""
    number = below[None, :] - below[:, None]
    cost = -(-number // num_parts) * np.maximum(candidates, 1)[None, :].astype(float)
    return np.where(number >= 0, cost, np.inf)


def _trace_back(previous: list[np.ndarray]) -> np.ndarray:
    """The candidates that end the buckets on the cheapest path to the last candidate."""
    ends = [-1 if not previous else len(previous[0]) - 1]
    for choice in reversed(previous):
        ends.append(int(choice[ends[-1]]))
    return np.unique([end for end in ends if end != 0])
