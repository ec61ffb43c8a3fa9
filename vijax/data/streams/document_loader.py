"""The loader of documents in shards that are not in memory as a whole (`vijax.data.shards`)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from vijax.checks import require
from vijax.contract.batch import Documents, Minibatch
from vijax.data.buckets import MOST, PRICE, bucket_edges
from vijax.data.minibatch import PADDING, Share, SharedLoader, padded_documents
from vijax.data.streams.documents import DOCUMENT_BYTES, PAIR_BYTES, Shards
from vijax.data.streams.parts import order_of_parts
from vijax.data.streams.permutation import Permutation
from vijax.data.streams.threads import Maker, call_each
from vijax.data.table_batches import (
    GatherDocuments,
    Picks,
    Table,
    TableBatches,
    document_picks,
    document_table,
    places_in_tables,
)

READY = 64
"""Steps whose documents are gathered at once, if all documents are in memory."""


class Strata(NamedTuple):
    """Documents by length: buckets that share a padded shape, and in them quarters of all lengths.

    Attributes:
      slots: padded length of each bucket.
      max_tokens: the most tokens of a document, by bucket.
      counts: documents in each stratum; the strata of a bucket are side by side.
      buckets: the bucket of each stratum.
      rows: the documents, one stratum after another.
    """

    slots: list[int]
    max_tokens: list[int]
    counts: list[int]
    buckets: list[int]
    rows: Int[np.ndarray, " docs"]


def strata(
    lengths: Int[np.ndarray, " docs"], tokens: Int[np.ndarray, " docs"], num_parts: int
) -> Strata:
    """The strata of documents that are dealt to `num_parts` batches.

    >>> parts = strata(np.array([3, 90, 2, 3] * 999), np.array([5, 99, 2, 4] * 999), 9)
    >>> parts.slots, parts.max_tokens, parts.rows[:2]
    ([3, 90], [5, 99], array([2, 6], dtype=int32))
    """
    edges = bucket_edges(lengths, MOST, num_parts, PRICE)
    quarters = np.quantile(lengths, [0.25, 0.5, 0.75])
    stratum = 4 * np.searchsorted(edges, lengths) + np.searchsorted(quarters, lengths)
    stratum = stratum.astype(np.uint8)
    rows = np.argsort(stratum, kind="stable").astype(np.int32)
    counts = np.bincount(stratum, minlength=4 * len(edges))
    members = [stratum // 4 == b for b in range(len(edges))]
    largest = lambda x: [max(1, int(x[is_member].max())) for is_member in members]
    used = np.flatnonzero(counts)
    return Strata(
        largest(lengths), largest(tokens), counts[used].tolist(), (used // 4).tolist(), rows
    )


@dataclasses.dataclass(frozen=True, eq=False)
class DocumentLoader(SharedLoader):
    """Minibatches of documents in shards, stratified by length, in a random order of all.

    The documents of each stratum are permuted, and dealt in turn to the batches of a pass, as for a
    corpus (`vijax.data.minibatches`). In memory is only the stratum of each document: the document
    at a place of the order is computed from the seed and the pass."""

    shards: Shards
    batch_size: float  # N / S need not be an integer
    seed: int
    strata: Strata
    is_fixed: bool = False  # the same batches in every pass, in another order
    share: Share | None = None  # the part of each batch that this process reads; None: all of it

    @property
    def num_groups(self) -> int:
        """N, the number of documents."""
        return self.shards.num_documents

    @property
    def vocabulary(self) -> tuple[str, ...] | None:
        """The words by id; None if they are unknown."""
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
        return call_each(self._makers(start, stop))

    def makers(self, start: int, stop: int) -> Iterator[Maker] | None:
        """See `vijax.data.streams.threads`; None where not all documents are held: the batches of
        two windows would be."""
        if self.shards.sizes.whole is None:
            return None
        return self._makers(start, stop)

    def _makers(self, start: int, stop: int) -> Iterator[Maker]:
        num_steps_held = READY if self.shards.sizes.whole is not None else self._ahead
        while start < stop:
            epoch, place = divmod(start, self.steps_per_epoch)
            count = min(num_steps_held, stop - start, self.steps_per_epoch - place)
            yield from self._window(epoch, range(place, place + count))
            start += count

    def spread(self, count: int) -> Iterator[Minibatch]:
        """At most `count` batches, spread over the first pass."""
        places = range(0, self.steps_per_epoch, -(-self.steps_per_epoch // count))
        num_steps_held = len(places) if self.shards.sizes.whole is not None else self._ahead
        for first in range(0, len(places), num_steps_held):
            yield from call_each(self._window(0, places[first : first + num_steps_held]))

    def table_batches(self) -> TableBatches:
        """See `vijax.data.table_batches`."""
        shards = self.shards
        ends = np.cumsum(self.strata.counts)
        buckets = np.asarray(self.strata.buckets)
        num_buckets = len(self.strata.slots)
        cuts = [ends[np.flatnonzero(buckets == bucket)[-1]] for bucket in range(num_buckets)]
        members = [np.sort(rows) for rows in np.split(self.strata.rows, cuts[:-1])]

        def table(bucket: int) -> Table:
            slots = self.strata.slots[bucket]
            max_tokens = self.strata.max_tokens[bucket]
            read = lambda rows: self._load_padded_rows(rows, slots, max_tokens)
            return document_table(members[bucket], read, shards.vocab_size, max_tokens)

        tables = list(map(table, range(num_buckets)))
        places = places_in_tables(members, self.num_groups)
        picks = functools.partial(self._picks, places)
        return TableBatches(tables, picks, GatherDocuments(tuple(self.strata.max_tokens)))

    def _load_padded_rows(self, rows: np.ndarray, slots: int, max_tokens: int) -> Documents:
        """These documents, whose numbers increase."""
        all_documents = self.shards.sizes.whole
        if all_documents is not None:
            return padded_documents(all_documents, rows, slots, max_tokens)
        documents = self.shards.read(rows)
        return padded_documents(documents, np.arange(len(rows)), slots, max_tokens)

    def _picks(self, places: np.ndarray, start: int, stop: int) -> Iterator[Picks]:
        """The documents of the batches of some steps; `places` are those of all documents."""
        while start < stop:
            epoch, place = divmod(start, self.steps_per_epoch)
            count = min(READY, stop - start, self.steps_per_epoch - place)
            parts = self._parts(epoch, range(place, place + count))
            for part, hand in zip(parts, self._hands(epoch, parts), strict=True):
                picks = document_picks(hand, places, self.num_groups)
                yield self._name_part(picks, part)
            start += count

    def _name_part(self, batch: Any, part: Any) -> Any:
        """A batch or its picks, with the number of its part if parts are fixed."""
        if not self.is_fixed:
            return batch
        return batch._replace(part=part)

    def _parts(self, epoch: int, places: Sequence[int]) -> np.ndarray:
        """The numbers of the batches at some places of a pass."""
        parts = np.asarray(places)
        if self.is_fixed:
            return order_of_parts(self.seed, epoch, self.steps_per_epoch)[parts]
        return parts

    @property
    def _ahead(self) -> int:
        """Steps whose documents may be held at once."""
        num_bytes = PAIR_BYTES * self.shards.num_pairs + DOCUMENT_BYTES * self.num_groups
        parts = 1 if self.share is None else self.share.processes
        return max(1, self.shards.held_bytes * self.steps_per_epoch * parts // num_bytes)

    def _window(self, epoch: int, places: Sequence[int]) -> Iterator[Maker]:
        """The makers of the batches at some places of a pass."""
        parts = self._parts(epoch, places)
        hands = self._hands(epoch, parts)
        if self.share is not None:
            hands = [[self.share.select(rows, PADDING) for rows in hand] for hand in hands]
        documents, held_places = self._load_documents(hands)
        for part, hand, hand_places in zip(parts, hands, held_places, strict=True):
            yield functools.partial(self._batch, documents, part, hand, hand_places)

    def _batch(
        self, documents: Any, part: Any, hand: list[np.ndarray], places: list[np.ndarray]
    ) -> Minibatch:
        """The batch of the documents of a hand, which lie at these places among those held."""
        total = self.num_groups
        sizes = zip(self.strata.slots, self.strata.max_tokens, strict=True)
        data = tuple(
            padded_documents(documents, rows, *size)
            for rows, size in zip(places, sizes, strict=True)
        )
        rows = tuple(np.where(rows == PADDING, total, rows).astype(np.int32) for rows in hand)
        batch = Minibatch(data, np.float32(total), rows=rows)  # type: ignore[arg-type]
        return self._name_part(batch, part)

    def _load_documents(self, hands: list[list[np.ndarray]]) -> tuple[Any, list[list[np.ndarray]]]:
        """Documents in memory, among them all documents of the hands, and their places there."""
        if (all_documents := self.shards.sizes.whole) is not None:
            return all_documents, hands
        flat = np.concatenate([rows for hand in hands for rows in hand])
        numbers = np.sort(flat[flat != PADDING])
        find = lambda rows: np.where(rows == PADDING, rows, np.searchsorted(numbers, rows))
        return self.shards.read(numbers), [[find(rows) for rows in hand] for hand in hands]

    def _hands(self, epoch: int, parts: np.ndarray) -> list[list[np.ndarray]]:
        """The documents of some parts of a pass: for each part a row for each bucket, padded by
        -1."""
        total = self.num_groups
        steps = self.steps_per_epoch
        # Fixed parts depend on the data alone, so that a fit can resume with another key.
        seed = (total, steps) if self.is_fixed else (self.seed, epoch)
        seats = parts if self.is_fixed else Permutation(steps, (*seed, 0))(parts)
        by_bucket = []
        ends = np.cumsum(self.strata.counts)
        strata = list(zip(self.strata.counts, self.strata.buckets, strict=True))
        first = 0
        for bucket in range(len(self.strata.slots)):
            size = sum(count for count, b in strata if b == bucket)
            in_turn = (seats[:, None] - first) % steps + steps * np.arange(-(-size // steps))
            rows = np.full(in_turn.shape, PADDING, np.int64)
            for s, (count, b) in enumerate(strata):
                place = in_turn + first - (ends[s] - count)
                is_in = (b == bucket) & (place >= 0) & (place < count)
                if is_in.any():
                    order = Permutation(count, (*seed, 1 + s))
                    rows[is_in] = self.strata.rows[ends[s] - count + order(place[is_in])]
            by_bucket.append(rows)
            first += size
        return [[rows[i] for rows in by_bucket] for i in range(len(parts))]


def num_steps(total: int, batch_size: float) -> int:
    """Batches in one pass: N / S, rounded."""
    return max(1, round(total / batch_size))


def document_loader(shards: Shards, size: float, seed: int, is_fixed: bool) -> DocumentLoader:
    """A loader of documents in shards, of about `size` at a step.

    Raises:
      ValueError: a step takes all documents, and they are more than may be held.
    """
    steps = num_steps(shards.num_documents, size)
    sizes = shards.sizes
    actual = f"{len(sizes.lengths):,} empty documents"
    require(bool(sizes.lengths.any()), "data", "documents with words", actual)
    actual = (
        f"all {shards.num_documents:,} documents at each step, and held_bytes={shards.held_bytes:,}"
    )
    remedy = "Say batch_size=1000, or raise held_bytes."
    fits = steps > 1 or sizes.whole is not None
    require(fits, "batch_size", "some of the documents at each step", actual, remedy)
    return DocumentLoader(shards, size, seed, strata(sizes.lengths, sizes.tokens, steps), is_fixed)
