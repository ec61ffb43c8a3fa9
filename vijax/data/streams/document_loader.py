"""The loader of documents in shards, which are never held as a whole (`vijax.data.shards`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.data.buckets import MOST, PRICE, bucket_edges
from vijax.data.minibatch import PADDING, Share, SharedLoader, padded_documents
from vijax.data.streams.documents import DOCUMENT_BYTES, PAIR_BYTES, Shards
from vijax.data.streams.parts import order_of_parts
from vijax.data.streams.permutation import Permutation

READY = 64
"""Steps whose documents are picked out at once, where all are held."""


class Strata(NamedTuple):
    """Documents by length: buckets that share a padded shape, and quarters of all lengths within
    them.

    Attributes:
      slots: padded length of each bucket.
      max_tokens: the most tokens of a document of each.
      counts: documents in each stratum, the strata of a bucket side by side.
      buckets: the bucket of each stratum.
      rows: the documents of one stratum after another.
    """

    slots: list[int]
    max_tokens: list[int]
    counts: list[int]
    buckets: list[int]
    rows: Int[np.ndarray, " docs"]


def strata(
    lengths: Int[np.ndarray, " docs"], tokens: Int[np.ndarray, " docs"], num_parts: int
) -> Strata:
    """The strata of documents that are dealt to so many batches.

    >>> found = strata(np.array([3, 90, 2, 3] * 999), np.array([5, 99, 2, 4] * 999), 9)
    >>> found.slots, found.max_tokens, found.rows[:2]
    ([3, 90], [5, 99], array([2, 6], dtype=int32))
    """
    edges = bucket_edges(lengths, MOST, num_parts, PRICE)
    quarters = np.quantile(lengths, [0.25, 0.5, 0.75])
    which = (4 * np.searchsorted(edges, lengths) + np.searchsorted(quarters, lengths)).astype(
        np.uint8
    )
    rows = np.argsort(which, kind="stable").astype(np.int32)
    counts = np.bincount(which, minlength=4 * len(edges))
    members = [which // 4 == b for b in range(len(edges))]
    most = lambda x: [max(1, int(x[of].max())) for of in members]
    kept = np.flatnonzero(counts)
    return Strata(most(lengths), most(tokens), counts[kept].tolist(), (kept // 4).tolist(), rows)


@dataclasses.dataclass(frozen=True, eq=False)
class DocumentLoader(SharedLoader):
    """Minibatches of documents in shards, stratified by length, in a random order of all.

    The documents of each stratum are permuted, and dealt in turn to the batches of a pass, as those
    of a corpus are (`vijax.data.minibatches`). Of the order nothing is held but what stratum each
    document is of: the one at a place is computed from the seed and the pass."""

    shards: Shards
    batch_size: float  # N / S need not be an integer
    seed: int
    strata: Strata
    is_fixed: bool = False  # the same batches in every pass, in another order
    share: Share | None = None  # what this process reads of each batch; None: all of it

    @property
    def num_groups(self) -> int:
        """N, the number of documents."""
        return self.shards.num_documents

    @property
    def vocabulary(self) -> tuple[str, ...] | None:
        """The words by id; None where they are not known."""
        return self.shards.vocabulary

    @property
    def num_words(self) -> int:
        """Tokens in all documents."""
        return self.shards.num_tokens

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one pass: N / S, rounded."""
        return num_steps(self.num_groups, self.batch_size)

    def contents(self) -> Iterator[Any]:
        """Arrays that identify these documents and their parts."""
        yield from self.shards.contents()
        if self.is_fixed:
            yield np.array([self.num_groups, self.steps_per_epoch])

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `vijax.data.loader.Loader`."""
        ahead = READY if self.shards.sizes.whole is not None else self._ahead
        while start < stop:
            epoch, place = divmod(start, self.steps_per_epoch)
            count = min(ahead, stop - start, self.steps_per_epoch - place)
            yield from self._window(epoch, range(place, place + count))
            start += count

    def spread(self, count: int) -> Iterator[Minibatch]:
        """At most so many batches, spread over the first pass."""
        places = range(0, self.steps_per_epoch, -(-self.steps_per_epoch // count))
        ahead = len(places) if self.shards.sizes.whole is not None else self._ahead
        for first in range(0, len(places), ahead):
            yield from self._window(0, places[first : first + ahead])

    @property
    def _ahead(self) -> int:
        """Steps whose documents may be held."""
        each = PAIR_BYTES * self.shards.num_pairs + DOCUMENT_BYTES * self.num_groups
        parts = 1 if self.share is None else self.share.processes
        return max(1, self.shards.held_bytes * self.steps_per_epoch * parts // each)

    def _window(self, epoch: int, places: Sequence[int]) -> Iterator[Minibatch]:
        """The batches at some places of a pass."""
        parts = np.asarray(places)
        if self.is_fixed:
            parts = order_of_parts(self.seed, epoch, self.steps_per_epoch)[parts]
        hands = self._hands(epoch, parts)
        if self.share is not None:
            hands = [[self.share.select(rows, PADDING) for rows in hand] for hand in hands]
        if (held := self.shards.sizes.whole) is None:
            flat = np.concatenate([rows for hand in hands for rows in hand])
            numbers = np.sort(flat[flat != PADDING])
            held = self.shards.read(numbers)
            found = [
                [np.where(r == PADDING, r, np.searchsorted(numbers, r)) for r in hand]
                for hand in hands
            ]
        else:
            found = hands
        total = self.num_groups
        sizes = list(zip(self.strata.slots, self.strata.max_tokens, strict=True))
        for part, hand, here in zip(parts, hands, found, strict=True):
            data = tuple(
                padded_documents(held, rows, *size) for rows, size in zip(here, sizes, strict=True)
            )
            rows = tuple(np.where(rows == PADDING, total, rows).astype(np.int32) for rows in hand)
            batch = Minibatch(data, np.float32(total), rows=rows)  # type: ignore[arg-type]
            yield batch._replace(part=part) if self.is_fixed else batch

    def _hands(self, epoch: int, parts: np.ndarray) -> list[list[np.ndarray]]:
        """The documents of some parts of a pass: for each part those of each bucket, padded by
        -1."""
        total = self.num_groups
        steps = self.steps_per_epoch
        # Parts depend on the data alone, so that a fit can go on with another key.
        seed = (total, steps) if self.is_fixed else (self.seed, epoch)
        seats = parts if self.is_fixed else Permutation(steps, (*seed, 0))(parts)
        found = []
        ends = np.cumsum(self.strata.counts)
        first = 0
        for bucket in range(len(self.strata.slots)):
            size = sum(
                n
                for n, b in zip(self.strata.counts, self.strata.buckets, strict=True)
                if b == bucket
            )
            in_turn = (seats[:, None] - first) % steps + steps * np.arange(-(-size // steps))
            rows = np.full(in_turn.shape, PADDING, np.int64)
            for s, (count, of) in enumerate(
                zip(self.strata.counts, self.strata.buckets, strict=True)
            ):
                place = in_turn + first - (ends[s] - count)
                here = (of == bucket) & (place >= 0) & (place < count)
                if here.any():
                    order = Permutation(count, (*seed, 1 + s))
                    rows[here] = self.strata.rows[ends[s] - count + order(place[here])]
            found.append(rows)
            first += size
        return [[rows[i] for rows in found] for i in range(len(parts))]


def num_steps(total: int, batch_size: float) -> int:
    """Batches in one pass: N / S, rounded."""
    return max(1, round(total / batch_size))


def document_loader(shards: Shards, size: float, seed: int, is_fixed: bool) -> DocumentLoader:
    """A loader of documents in shards, of about so many at a step.

    Raises:
      ValueError: all documents at each step, and more than are held.
    """
    steps = num_steps(shards.num_documents, size)
    found = shards.sizes
    require(
        bool(found.lengths.any()),
        "data",
        "documents with words",
        f"{len(found.lengths):,} empty documents",
    )
    got = (
        f"all {shards.num_documents:,} documents at each step, and held_bytes={shards.held_bytes:,}"
    )
    remedy = "Say batch_size=1000, or raise held_bytes."
    require(
        steps > 1 or found.whole is not None,
        "batch_size",
        "some of the documents at each step",
        got,
        remedy,
    )
    return DocumentLoader(shards, size, seed, strata(found.lengths, found.tokens, steps), is_fixed)
