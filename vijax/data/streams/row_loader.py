"""The loader of tables that are read by blocks and not in memory as a whole (`vijax.data.rows`)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from vijax.checks import require
from vijax.contract import intake
from vijax.contract.array_checks import check_finite
from vijax.contract.batch import Minibatch
from vijax.contract.model import Model
from vijax.data.minibatch import Share, SharedLoader
from vijax.data.reading.checks import DataError
from vijax.data.reading.store import Block
from vijax.data.streams.parts import order_of_parts, padded_part, part_of_pass
from vijax.data.streams.permutation import Permutation
from vijax.data.streams.rows import Rows
from vijax.data.streams.threads import Maker, call_each
from vijax.data.table_batches import GatherRows, Picks, Table, TableBatches


@dataclasses.dataclass(frozen=True)
class RowLoader(SharedLoader):
    """Minibatches of a table in a random order of all its rows.

    The rows of as many steps as `held_bytes` holds are gathered in one reading of the blocks. Which
    rows a step has does not depend on how many are held: the order is a permutation of all rows,
    computed from the seed and the pass."""

    table: Rows
    batch_size: int
    seed: int
    read: Callable[[Block], PyTree]
    is_fixed: bool = False  # the same batches in every pass, in another order
    num_words: None = None
    share: Share | None = None  # the part of each batch that this process reads; None: all of it

    @property
    def num_groups(self) -> int:
        """N, the number of rows."""
        return self.table.num_groups

    @property
    def steps_per_epoch(self) -> int:
        """ceil(N / S)."""
        return -(-self.num_groups // self.batch_size)

    @property
    def leaf_columns(self) -> tuple[tuple[str, ...] | None, ...]:
        """The names of the columns of each matrix in a batch; None for an array of one column."""
        return self.table.leaf_columns

    def contents(self) -> Iterator[Any]:
        """Arrays that identify these data and their parts."""
        yield from self.table.contents()
        if self.is_fixed:
            yield np.array([self.num_groups, self.steps_per_epoch])

    def batches(self, start: int, stop: int) -> Iterator[Minibatch]:
        """See `vijax.data.loader.Loader`."""
        return call_each(self._makers(start, stop))

    def makers(self, start: int, stop: int) -> Iterator[Maker] | None:
        """See `vijax.data.streams.threads`; None where not all rows are held: the batches of two
        windows would be."""
        if self._whole is None:
            return None
        return self._makers(start, stop)

    def _makers(self, start: int, stop: int) -> Iterator[Maker]:
        all_rows = self._whole
        num_steps_held = self.steps_per_epoch
        if all_rows is None:  # row numbers and their order take memory too
            num_steps_held = max(
                1, self.table.held_bytes // ((self._row_bytes + 32) * self.batch_size)
            )
        while start < stop:
            epoch, place = divmod(start, self.steps_per_epoch)
            count = min(num_steps_held, stop - start, self.steps_per_epoch - place)
            yield from self._window(epoch, range(place, place + count), all_rows)
            start += count

    def table_batches(self) -> TableBatches:
        """See `vijax.data.table_batches`."""
        read = lambda first, stop: self.table.take(np.arange(first, stop), self.read)
        return TableBatches([Table(self.num_groups, read)], self._picks, GatherRows())

    def _picks(self, start: int, stop: int) -> Iterator[Picks]:
        """The rows of the batches of some steps."""
        total = self.num_groups
        for step in range(start, stop):
            epoch, place = divmod(step, self.steps_per_epoch)
            (part,), (rows,) = self._rows_by_part(epoch, range(place, place + 1))
            num_padding = -(-total // self.steps_per_epoch) - len(rows)
            places = np.pad(rows, (0, num_padding), mode="edge").astype(np.int32)
            rows = np.pad(rows, (0, num_padding), constant_values=total).astype(np.int32)
            yield self._name_part(Picks(places, rows), part)

    def _name_part(self, batch: Any, part: Any) -> Any:
        """A batch or its picks, with the number of its part if parts are fixed."""
        if not self.is_fixed:
            return batch
        return batch._replace(part=part)

    def _rows_by_part(self, epoch: int, places: range) -> tuple[Any, list[np.ndarray]]:
        """The numbers of the batches at some places of a pass, and the rows of each."""
        total = self.num_groups
        steps = self.steps_per_epoch
        # Fixed parts depend on the data alone, so that a fit can resume with another key.
        order = Permutation(total, (total, steps) if self.is_fixed else (self.seed, epoch))
        parts: Any = places
        if self.is_fixed:
            parts = order_of_parts(self.seed, epoch, steps)[places.start : places.stop]
        ranges = [part_of_pass(total, steps, int(part)) for part in parts]
        return parts, [order(np.arange(first, stop)) for first, stop in ranges]

    def _window(self, epoch: int, places: range, whole: PyTree | None) -> Iterator[Maker]:
        """The makers of the batches at some places of a pass."""
        parts, rows_of_parts = self._rows_by_part(epoch, places)
        batches = list(map(self._rows_to_read, rows_of_parts))
        data = whole
        if whole is None:
            data = self.table.take(np.concatenate([rows for rows, _, _ in batches]), self.read)
        first = 0
        for part, (rows, count, slots) in zip(parts, batches, strict=True):
            in_data = rows if whole is not None else np.arange(first, first + len(rows))
            yield functools.partial(self._batch, data, in_data, rows[:count], slots, part)
            first += len(rows)

    def _batch(
        self, data: PyTree, places: np.ndarray, rows: np.ndarray, slots: int, part: Any
    ) -> Minibatch:
        """The batch of rows that lie at these places in data."""
        return self._name_part(padded_part(data, places, rows, self.num_groups, slots), part)

    def _rows_to_read(self, rows: np.ndarray) -> tuple[np.ndarray, int, int]:
        """The rows of a batch that this process reads, the number of them that count, and the slots
        that they fill. If none counts, one row is read to pad with."""
        total = self.num_groups
        slots = self.batch_size if self.steps_per_epoch == 1 else -(-total // self.steps_per_epoch)
        if self.share is None:
            return rows, len(rows), slots
        padded = np.pad(rows, (0, slots - len(rows)), constant_values=total)
        slotted = self.share.select(padded, total)
        own_rows = slotted[slotted < total]
        return own_rows if len(own_rows) else rows[:1], len(own_rows), len(slotted)

    @functools.cached_property
    def _whole(self) -> PyTree:
        """All rows, read once; None if they may not be held."""
        fits = self._row_bytes * self.num_groups <= self.table.held_bytes
        if not fits:
            return None
        return self.table.take(np.arange(self.num_groups), self.read)

    @functools.cached_property
    def _row_bytes(self) -> int:
        block = self.table.blocks[0]
        return sum(np.asarray(x).nbytes for x in jax.tree.leaves(self.read(block))) // block.count


def row_loader(table: Rows, model: Model, size: int, seed: int, is_fixed: bool) -> RowLoader:
    """A loader of the rows of a table; checks each block when it first reads it.

    Raises:
      ValueError: a model of documents, of one group or of given data; or a step takes all rows, and
        they are more than may be held.
      DataError: data that the model cannot read, with file and rows.
    """
    form = model.form
    of_rows = (
        form.documents is None
        and not form.one_group
        and form.given is None
        and model.by_entry is None
    )
    remedy = "Read the rows into an array."
    expected = "arrays, of a model whose groups are not rows"
    require(of_rows, "data", expected, "a table in Parquet files", remedy)
    kinds: list[Any] = []
    checked: set[Block] = set()

    def read(block: Block) -> PyTree:
        arrays = table.read(block)
        if block not in checked:
            try:
                (form.check or check_finite)(arrays)
                kinds[:] = kinds or intake.data_kinds(model, arrays)
                intake.check(kinds, arrays)
            except ValueError as error:
                raise DataError(f"{block}: {error}") from error
            checked.add(block)
        return intake.cast(kinds, arrays)

    loader = RowLoader(table, size, seed, read, is_fixed)
    fits = loader.steps_per_epoch > 1 or loader._row_bytes * loader.num_groups <= table.held_bytes
    actual = f"all {loader.num_groups:,} rows at each step, and held_bytes={table.held_bytes:,}"
    remedy = "Say batch_size=1000, or raise held_bytes."
    require(fits, "batch_size", "some of the rows at each step", actual, remedy)
    return loader
