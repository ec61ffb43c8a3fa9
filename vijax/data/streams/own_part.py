"""A stream of which each process of a fit gives its own part: what Ray Train, `DistributedSampler`
or `split_dataset_by_node` hand to each."""

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
    """Batches of which each process gives its own: a step takes those of all processes together.

    For `vijax.fit(alg, own_part(...), mesh=vijax.scale.mesh())` in several processes. Without it
    every process has to give the same batches, of which each uses its share. In a program of one
    process it is `vijax.data.stream`.

    Args:
      source: what `vijax.data.stream` takes, of arrays: as many batches in every process (the fit
        ends, with a warning, where the first has no more), of one size but for shorter ones, which
        are padded, and tables with the same columns in one order. (Documents: `vijax.data.shards`
        has each process read its own part by itself.)
      num_groups: N, the number of groups of all processes together.
      shuffled: the order is random, and needs no warning.

    Raises:
      ValueError: N is not a positive number.

    >>> found = own_part([np.zeros(10), np.ones(10)], 40, shuffled=True)
    >>> found.num_groups, found.is_part
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
    """Minibatches of a stream of this process alone; N and the length of a pass are those of all
    processes."""

    share: Share | None = None
    """The processes that take part; None: this one alone."""

    def with_share(self, share: Share) -> OwnPartLoader:
        """The loader beside those of other processes: its batches have one size, which the devices
        here divide."""
        self.share = share
        return self

    @property
    def steps_per_epoch(self) -> int:
        """N / S rounded up, S being groups of all processes; and 2 at least."""
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
    leaves = jax.tree.leaves(batch.data)
    if any(
        isinstance(x, Documents)
        for x in jax.tree.leaves(batch.data, is_leaf=lambda x: isinstance(x, Documents))
    ):
        remedy = "give vijax.data.shards, of which each process reads its own part"
        raise fail(
            "data", "batches of arrays, as parts of a stream", "batches of documents", remedy
        )
    return int(np.shape(leaves[0])[0])


def _pad_rows(batch: Minibatch, rows: int, step: int) -> Minibatch:
    """A batch with groups of weight 0 at its end."""
    size = _num_rows(batch)
    if size > rows:
        remedy = "have every process give batches of one size, or shorter ones"
        raise fail(
            f"batch of step {step}", f"at most the {rows} groups of the first", str(size), remedy
        )
    more = rows - size
    weights = np.ones(size, np.float32) if batch.weights is None else np.asarray(batch.weights)
    fill = lambda x: np.concatenate([np.asarray(x), np.repeat(np.asarray(x)[:1], more, axis=0)])
    return batch._replace(
        data=jax.tree.map(fill, batch.data),  # copies of the first: numbers that the model can read
        weights=np.concatenate([weights, np.zeros(more, weights.dtype)]),  # type: ignore[arg-type]
    )
