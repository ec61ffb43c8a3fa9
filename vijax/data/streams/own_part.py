"""Streams in several processes, each with its own part: what Ray Train, `DistributedSampler` or
`split_dataset_by_node` give to each process."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from vijax.contract.batch import Documents, Minibatch
from vijax.data.minibatch import Share
from vijax.data.reading.checks import fail
from vijax.data.streams.stream import Stream, StreamLoader, stream


def own_part(source: Any, num_groups: float, *, shuffled: bool = False) -> Stream:
    """A stream of this process's own batches: a step takes the batches of all processes together.

    For `vijax.fit(alg, own_part(...), mesh=vijax.scale.mesh())` in several processes. Without it
    every process has to give the same batches, and uses its share of each. In a program of one
    process it is `vijax.data.stream`.

    Args:
      source: what `vijax.data.stream` takes, with batches of arrays. Every process gives the same
        number of batches (the fit ends, with a warning, when the first process has no more), of one
        size but for shorter ones, which are padded, and tables with the same columns in one order.
        (For documents: `vijax.data.shards` has each process read its own part by itself.)
      num_groups: N, the number of groups of all processes together.
      shuffled: True if the order is random, and needs no warning.

    Raises:
      ValueError: N is not a positive number.

    >>> source = own_part([np.zeros(10), np.ones(10)], 40, shuffled=True)
    >>> source.num_groups, source.is_part
    (40, True)
    """
    is_number = (
        isinstance(num_groups, int | float | np.number)
        and math.isfinite(num_groups)
        and num_groups > 0
    )
    if not is_number:
        remedy = "give the number of groups of all processes together, which no process can count"
        raise fail("num_groups", "a positive number", repr(num_groups), remedy)
    return dataclasses.replace(stream(source, num_groups, shuffled=shuffled), is_part=True)


class OwnPartLoader(StreamLoader):
    """Minibatches of the stream of this process; N and the length of a pass are for all processes
    together."""

    share: Share | None = None
    """The processes that take part; None: this one alone."""

    def with_share(self, share: Share) -> OwnPartLoader:
        """The loader beside the loaders of other processes: its batches have one size, a multiple
        of the devices of this process."""
        self.share = share
        return self

    @property
    def steps_per_epoch(self) -> int:
        """N / S rounded up, and at least 2; S counts the groups of all processes."""
        return max(2, math.ceil(self.source.num_groups / (self.first_size * jax.process_count())))  # type: ignore[operator]

    @property
    def first_size(self) -> int:
        """Groups of the first batch."""
        return _num_rows(next(super().batches(0, 1)))

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `StreamLoader`."""
        size = self.first_size
        devices = 1 if self.share is None else self.share.devices // self.share.processes
        rows = -(-size // devices) * devices
        for step, batch in zip(range(start, stop), super().batches(start, stop), strict=False):
            yield _pad_rows(batch, rows, step)


def _num_rows(batch: Minibatch) -> int:
    has_documents = any(
        isinstance(x, Documents)
        for x in jax.tree.leaves(batch.data, is_leaf=lambda x: isinstance(x, Documents))
    )
    if has_documents:
        remedy = "give vijax.data.shards, of which each process reads its own part"
        expected = "batches of arrays, as parts of a stream"
        raise fail("data", expected, "batches of documents", remedy)
    leaves = jax.tree.leaves(batch.data)
    return int(np.shape(leaves[0])[0])


def _pad_rows(batch: Minibatch, rows: int, step: int) -> Minibatch:
    """A batch padded to `rows` groups; the added ones have weight 0."""
    size = _num_rows(batch)
    if size > rows:
        remedy = "have every process give batches of one size, or shorter ones"
        expected = f"at most the {rows} groups of the first"
        raise fail(f"batch of step {step}", expected, str(size), remedy)
    num_added = rows - size
    weights = np.ones(size, np.float32) if batch.weights is None else np.asarray(batch.weights)
    fill = lambda x: np.concatenate(
        [np.asarray(x), np.repeat(np.asarray(x)[:1], num_added, axis=0)]
    )
    return batch._replace(
        data=jax.tree.map(fill, batch.data),  # copies of the first: numbers that the model can read
        weights=np.concatenate([weights, np.zeros(num_added, weights.dtype)]),  # type: ignore[arg-type]
    )
