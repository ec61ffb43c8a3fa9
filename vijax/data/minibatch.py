"""Minibatches of fixed shapes: stratified by document length, shuffled from a seed, resumable at
any step.

In every epoch the documents of each length bucket are dealt again to T = round(N / batch_size)
batches. So all batches have the same shapes and, up to one, the same number of documents, and each
epoch visits each document once. The batch of step i is a function of (seed, i) alone, so that a run
that was killed can resume as if it had not been."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import numpy as np
from jaxtyping import Float, Int

from vijax.contract.batch import Documents, Minibatch
from vijax.data.buckets import Bucket, length_buckets, standard_buckets, standard_size
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.csr import Bags
from vijax.data.reading.checks import fail

PADDING = -1  # the "row" of a padding document
# padded slots of a batch that is read once: with 100 topics 50 MB, if the topics stand by slot
MOST_SLOTS = 1 << 17


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of every batch that one of several processes reads: parts of equal size, one after
    the other, the last ones padded.

    >>> [Share(process, 2, 4).select(np.arange(5), PADDING).tolist() for process in range(2)]
    [[0, 1, 2, 3], [4, -1, -1, -1]]
    """

    process: int
    processes: int
    devices: int  # of all processes; the padded batch is a multiple of them

    def select(self, rows: np.ndarray, padding: int) -> np.ndarray:
        """The rows of a batch that this process reads, padded with `padding`."""
        size = -(-len(rows) // self.devices) * self.devices // self.processes
        part = rows[self.process * size : (self.process + 1) * size]
        return np.pad(part, (0, size - len(part)), constant_values=padding)


class SharedLoader:
    """A loader, a dataclass, with the part of each batch that its process reads as field
    `share`."""

    def with_share(self, share: Share) -> Self:
        """The loader of a part of each batch."""
        return dataclasses.replace(self, share=share)  # type: ignore[type-var]


@dataclasses.dataclass(frozen=True, eq=False)
class Minibatches:
    """A stream of minibatches of a corpus, endless or of `num_steps`; see `minibatches`.

    Attributes:
      per_epoch: T, the number of steps that see every document once.
      buckets: documents by padded shape.
      share: the part of each row of document numbers that this process reads; None: all of it.
    """

    corpus: Corpus
    buckets: tuple[Bucket, ...]
    per_epoch: int
    seed: int
    start: int = 0
    num_steps: int | None = None
    share: Share | None = None

    def __iter__(self) -> Iterator[Minibatch]:
        return (make() for make in self.makers())

    def makers(self) -> Iterator[Callable[[], Minibatch]]:
        """Functions that return the minibatches, each by itself."""
        for step in itertools.islice(itertools.count(self.start), self.num_steps):
            epoch, place = divmod(step, self.per_epoch)
            if place == 0 or step == self.start:
                hands = self.deal(epoch)
            yield functools.partial(self.gather, [hand[place] for hand in hands])

    def __len__(self) -> int:
        if self.num_steps is None:
            raise TypeError(
                "an endless stream of minibatches has no length: pass num_steps, or take "
                "per_epoch of them"
            )
        return self.num_steps

    def at(self, step: int) -> Minibatch:
        """The minibatch of global step `step` in a stream that began at 0."""
        epoch, place = divmod(step, self.per_epoch)
        return self.gather([hand[place] for hand in self.deal(epoch)])

    def deal(self, epoch: int) -> list[Int[np.ndarray, "steps rows"]]:
        """The documents of an epoch: for each bucket a row of document numbers per step, padded by
        -1."""
        rng = np.random.Generator(np.random.Philox(key=np.array([self.seed, epoch], np.uint64)))
        shuffled = [self._sort_by_length(rng.permutation(bucket.rows)) for bucket in self.buckets]
        return _deal_stacks(shuffled, rng.permutation(self.per_epoch))

    def _sort_by_length(self, rows: np.ndarray) -> np.ndarray:
        """The rows sorted by quarter of the lengths, in the given order within a quarter: every
        batch gets its share of each quarter, also if one bucket has them all."""
        return rows[np.argsort(self._quarters[rows], kind="stable")]

    def gather(self, hands: list[np.ndarray]) -> Minibatch:
        """The minibatch of these documents: `hands` has a row of numbers for each bucket."""
        if self.share is not None:
            hands = [self.share.select(hand, PADDING) for hand in hands]
        return _minibatch(self.corpus, self.buckets, hands)

    @functools.cached_property
    def _quarters(self) -> Int[np.ndarray, " docs"]:
        lengths = np.asarray(self.corpus.lengths)
        return np.searchsorted(np.quantile(lengths, [0.25, 0.5, 0.75]), lengths)


def minibatches(
    corpus: Corpus,
    batch_size: float,
    seed: int,
    start: int = 0,
    num_steps: int | None = None,
    num_buckets: int | None = None,
) -> Minibatches:
    """An iterable of minibatches of about `batch_size` documents, all of the same shapes.

    Args:
      corpus: in memory or memory-mapped; only the documents of a batch are read for it.
      batch_size: documents per batch S. An epoch has T = round(N / S) batches of N / T documents,
        up to one; give N / T for exactly T batches.
      seed: 0 or more; the same seed gives the same batches.
      start: the global step to begin at; its batches are those of a stream that began at 0.
      num_steps: number of batches; None for an endless stream.
      num_buckets: the most length buckets, each a padded shape to compile; None: up to six, as long
        as each saves more than it costs to compile.

    Returns:
      An iterable of `Minibatch`, whose data is a tuple of `Documents` (numpy arrays), one per
      length bucket.

    Raises:
      ValueError: `batch_size` is below 1 or above the number of documents, or another argument is
        out of range.

    >>> corpus = Corpus.from_counts(np.eye(5, dtype=int))
    >>> [int(sum(d.weights.sum() for d in b.data)) for b in minibatches(corpus, 2, seed=0, num_steps=2)]
    [3, 2]
    """
    _check_arguments(corpus, batch_size, seed, start, num_buckets)
    per_epoch = max(1, round(corpus.num_documents / batch_size))
    buckets = length_buckets(corpus.lengths, corpus.tokens, num_buckets, per_epoch)
    return Minibatches(corpus, buckets, per_epoch, seed, start, num_steps)


def full_batch(
    corpus: Corpus, num_buckets: int | None = None
) -> tuple[Minibatch, Int[np.ndarray, " docs"]]:
    """All documents as one minibatch without padding rows, and the document of each row.

    `in_order(x, rows)` brings results `x` of the concatenated buckets into the order of the corpus.

    >>> batch, rows = full_batch(Corpus.from_counts([[1, 1, 1], [0, 2, 0], [1, 0, 3]]), num_buckets=2)
    >>> [documents.words.shape for documents in batch.data], rows
    ([(1, 1), (2, 3)], array([1, 0, 2]))
    """
    buckets = length_buckets(corpus.lengths, corpus.tokens, num_buckets)
    hands = [bucket.rows for bucket in buckets]
    return _minibatch(corpus, buckets, hands), np.concatenate(hands)


def document_batches(
    corpus: Corpus, batch_size: int
) -> Iterator[tuple[Minibatch, Int[np.ndarray, " rows"]]]:
    """Batches with every document once, each with the document of each of its rows (-1: padding).

    For scores and transforms, which are called again and again: each batch is of one length bucket
    and has one of few shapes, so that few are compiled in all. It has at most `batch_size`
    documents, fewer if they are very long. `in_order` puts results back."""
    _check_arguments(corpus, min(batch_size, corpus.num_documents), 0, 0, None)
    for bucket in standard_buckets(np.asarray(corpus.lengths), np.asarray(corpus.tokens)):
        most_documents = max(1, MOST_SLOTS // bucket.slots)
        size = min(batch_size, most_documents, int(standard_size(len(bucket.rows))))
        for first in range(0, len(bucket.rows), size):
            rows = bucket.rows[first : first + size]
            rows = np.pad(rows, (0, size - len(rows)), constant_values=PADDING)
            yield _minibatch(corpus, (bucket,), [rows]), rows


def in_order(
    results: Float[np.ndarray, "rows ..."], rows: Int[np.ndarray, " rows"]
) -> Float[np.ndarray, "docs ..."]:
    """Results by document from results by row: padding rows are dropped, and document d is at d.

    >>> in_order(np.array([30.0, 10.0, 0.0, 20.0]), np.array([2, 0, -1, 1]))
    array([10., 20., 30.])
    """
    real = rows != PADDING
    ordered = np.empty_like(results[real])
    ordered[rows[real]] = results[real]
    return ordered


# --- dealing --------------------------------------------------------------------------------------
def _deal_stacks(stacks: list[np.ndarray], seats: np.ndarray) -> list[np.ndarray]:
    """Deals each stack of documents to the seats in turn, each stack where the last one ended.

    So within a stack the hands differ by one at most, and so do their sums over the stacks.
    """
    num_seats = len(seats)
    first = 0
    hands = []
    for stack in stacks:
        capacity = -(-len(stack) // num_seats)
        hand = np.full((capacity, num_seats), PADDING, np.int64)
        hand.ravel()[: len(stack)] = stack
        in_turn = np.roll(seats, -first)
        by_seat = np.empty((num_seats, capacity), np.int64)
        by_seat[in_turn] = hand.T
        hands.append(by_seat)
        first += len(stack)
        first %= num_seats
    return hands


# --- padding --------------------------------------------------------------------------------------
def _minibatch(corpus: Corpus, buckets: tuple[Bucket, ...], hands: list[np.ndarray]) -> Minibatch:
    data = tuple(
        padded_documents(corpus, hand, b.slots, b.max_tokens)
        for b, hand in zip(buckets, hands, strict=True)
    )
    num_documents = corpus.num_documents
    rows = tuple(np.where(hand == PADDING, num_documents, hand).astype(np.int32) for hand in hands)
    return Minibatch(data, np.float32(num_documents), rows=rows)  # type: ignore[arg-type]


def padded_documents(
    corpus: Corpus | Bags, rows: Int[np.ndarray, " docs"], slots: int, max_tokens: int
) -> Documents:
    """The documents `rows` of the corpus, padded to `slots` words; row -1 is an empty document of
    weight 0."""
    real = rows != PADDING
    starts = np.asarray(corpus.indptr[rows])
    lengths = np.where(real, np.asarray(corpus.indptr[rows + 1]) - starts, 0)
    filled = _slot_numbers(slots) < lengths[:, None]
    pairs = (starts[:, None] + _slot_numbers(slots))[filled]
    words = np.zeros(filled.shape, np.int32)
    counts = np.zeros(filled.shape, np.float32)
    words[filled] = corpus.indices[pairs]
    counts[filled] = corpus.counts[pairs]
    covariates = None
    if corpus.covariates is not None:
        covariates = np.where(real[:, None], corpus.covariates[rows], np.float32(0))
    return Documents(words, counts, real.astype(np.float32), max_tokens, covariates=covariates)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=64)
def _slot_numbers(slots: int) -> Int[np.ndarray, " slots"]:
    return np.arange(slots)


def _check_arguments(
    corpus: Corpus, batch_size: float, seed: int, start: int, num_buckets: int | None
) -> None:
    documents = corpus.num_documents
    if not 1 <= batch_size <= documents:
        expected = f"from 1 to {documents}, the number of documents"
        nearest_size = min(max(batch_size, 1), documents)
        raise fail("batch_size", expected, str(batch_size), f"pass batch_size={nearest_size}")
    for name, value, least in (
        ("seed", seed, 0),
        ("start", start, 0),
        ("num_buckets", num_buckets, 1),
    ):
        if value is not None and value < least:
            raise fail(name, f"an integer of {least} or more", str(value), f"pass {name}={least}")


Item = TypeVar("Item")


def prefetch(items: Iterable[Item], size: int = 2) -> Generator[Item, None, None]:
    """The same items in the same order, up to `size` of them made ahead of time in a thread.

    An exception in making an item is raised in its place. Closing the generator, or leaving it by
    an exception such as KeyboardInterrupt, ends the thread.

    >>> list(prefetch(range(4)))
    [0, 1, 2, 3]
    """
    iterator = iter(items)
    end = object()
    pool = ThreadPoolExecutor(1, "vijax-prefetch")
    make: Any = lambda: pool.submit(next, iterator, end)
    try:
        futures = deque(make() for _ in range(max(size, 1) + 1))  # and one in the thread's hand
        while (item := futures.popleft().result()) is not end:
            futures.append(make())
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
