"""Tables of rows in Parquet files, which any program can write: read by row groups, never as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int, PyTree

from vijax.data.reading.checks import fail, listed, nearest
from vijax.data.reading.store import Block, blocks_of, from_parquet, parquet_files, said_of
from vijax.data.streams.permutation import Permutation
from vijax.extras import require_extra

HELD = 1 << 28
"""Bytes of rows that a fit holds at once, where nothing is said."""
SPLIT = 1 << 20
"""Stands where orders of passes have the number of the pass."""


class Chosen(NamedTuple):
    """Rows at the places first, ..., stop - 1 of a random order of all."""

    seed: int
    first: int
    stop: int


@dataclasses.dataclass(frozen=True)
class Rows:
    """A table of rows in Parquet files, as `rows` returns it.

    Attributes:
      columns: names of columns, in the structure of the data that a model reads: a list of them is a matrix with a
        column for each.
      blocks: the row groups of the files: file, number in it, first row of all, number of rows.
      held_bytes: bytes of rows that a fit holds at once.
      chosen: the rows of the files that the table has; None: all.
    """

    columns: PyTree
    blocks: tuple[Block, ...]
    held_bytes: int
    chosen: Chosen | None = None

    @property
    def num_groups(self) -> int:
        """N, the number of rows."""
        return self._in_files if self.chosen is None else self.chosen.stop - self.chosen.first

    @property
    def _in_files(self) -> int:
        return sum(block.count for block in self.blocks)

    def split(self, held_out: float | int = 0.1, seed: int = 0) -> tuple[Rows, Rows]:
        """Two tables of the same files: a random part for training, and the `held_out` rest, a share of the rows or a
        number of them. Neither is read; `take` reads some. Raises DataError where a part would be empty."""
        total, (first, _) = self.num_groups, self.chosen[1:] if self.chosen else (0, 0)
        number = held_out if isinstance(held_out, int) else round(held_out * total)
        if self.chosen is not None and seed != self.chosen.seed:
            raise fail("seed", f"{self.chosen.seed}, as of the first split", str(seed), "split with one seed")
        if not 0 < number < total:
            expected = f"a part of {total:,} rows that leaves some on both sides"
            raise fail("held_out", expected, f"{held_out} ({number} rows)", "pass a share such as 0.1")
        part = lambda start, stop: dataclasses.replace(self, chosen=Chosen(seed, first + start, first + stop))
        return part(number, total), part(0, number)

    def take(self, numbers: Int[np.ndarray, " n"], read: Callable[[Block], PyTree] | None = None) -> PyTree:
        """The arrays of some rows, numbered from 0 to N - 1, in this order: one reading of the row groups that have
        them, each by `read`."""
        read, numbers = read or self.read, np.asarray(numbers)
        if self.chosen is not None:
            numbers = Permutation(self._in_files, (self.chosen.seed, SPLIT))(self.chosen.first + numbers)
        by_row = np.argsort(numbers)
        ends = np.searchsorted(numbers, [block.first + block.count for block in self.blocks], sorter=by_row)
        held, begin = None, 0
        for block, end in zip(self.blocks, ends, strict=True):
            if end > begin:
                places, arrays = by_row[begin:end], read(block)
                empty = lambda x: np.empty((len(numbers), *x.shape[1:]), x.dtype)
                held = jax.tree.map(empty, arrays) if begin == 0 else held
                jax.tree.map(_put(places, numbers[places] - block.first), held, arrays)
            begin = int(end)
        return held

    def read(self, block: Block) -> PyTree:
        """The arrays of a block."""
        names = list(dict.fromkeys(jax.tree.leaves(self.columns)))
        read = lambda file: unchanged(file, block).read_row_group(block.number, columns=names)
        found = from_parquet(block.file, read)
        arrays = {name: _array(found.column(name), f"{block.file}, column {name!r}") for name in names}
        matrix = lambda names: np.stack([arrays[name] for name in names], 1) if _is_list(names) else arrays[names]
        return jax.tree.map(matrix, self.columns, is_leaf=_is_list)

    def contents(self) -> Iterator[np.ndarray]:
        """Arrays that identify the table: what the files say of their row groups."""
        said = [
            repr(self.columns),
            *([] if self.chosen is None else [repr(self.chosen)]),
            *said_of(list(dict.fromkeys(block.file for block in self.blocks))),
        ]
        yield np.frombuffer("\n".join(said).encode(), np.uint8)


def rows(source: str | Path, columns: PyTree = None, *, held_bytes: int = HELD) -> Rows:
    """A table of rows that need not fit in memory. `vijax.fit(alg, rows("folder"), batch_size=1000, ...)` visits them
    in a random order of all, another in every pass.

    For that the files are read through, a row group at a time, once for as many rows to come as `held_bytes` holds. So
    a pass over n times as many bytes reads the files n times. What fits is read once.

    Args:
      source: a Parquet file, or a folder of them in the order of their names; also an address that fsspec knows, such
        as s3://bucket/folder. A store that does not answer, or with less than was asked, is asked again three times.
      columns: names of columns, in the structure of the data that a model reads: ["a", "b"] is a matrix of two columns,
        "y" a vector, and (["a", "b"], "y") a pair of these. A column of lists of one length is a matrix. None takes all
        columns as a matrix, in the order of the first file.
      held_bytes: bytes of rows that a fit holds at once; batches that lie ready come on top.

    Raises:
      DataError: no such file, a column that is missing, or no rows.

    >>> import pyarrow, pyarrow.parquet, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> table = pyarrow.table({"a": [1.0, 2.0], "b": [3.0, 4.0], "y": [0, 1]})
    >>> pyarrow.parquet.write_table(table, folder + "/part-0.parquet")
    >>> found = rows(folder, (["a", "b"], "y"))
    >>> found.num_groups, found.read(found.blocks[0])
    (2, (array([[1., 3.],
           [2., 4.]]), array([0, 1])))
    """
    if not (files := parquet_files(source)):
        raise fail(source, "a Parquet file, or a folder of them", "none", "check the path")
    blocks: list[Block] = []
    for file in files:
        known, counts = from_parquet(file, _head)
        columns = known if columns is None else columns
        if missing := sorted(set(jax.tree.leaves(columns)) - set(known)):
            raise fail(file, f"the columns {listed(missing)}", "none", nearest(missing[0], known))
        blocks.extend(blocks_of(file, counts, blocks[-1].first + blocks[-1].count if blocks else 0))
    if not blocks:
        raise fail(source, "one row or more", "none", "check where the rows come from")
    return Rows(columns, tuple(blocks), held_bytes)


def _head(file: Any) -> tuple[list[str], list[int]]:
    """The columns of a file, and the rows of each row group."""
    return file.schema_arrow.names, [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]


def unchanged(file: Any, block: Block) -> Any:
    """The file of a block. Raises DataError where it was written anew with a row group of another length since it was
    opened first: numbers of rows would mean others."""
    found = file.metadata
    count = found.row_group(block.number).num_rows if block.number < found.num_row_groups else 0
    if count != block.count:
        expected = f"{block.count:,} rows in row group {block.number}, as when it was opened first"
        remedy = "put back the file as it was: a run with checkpoints goes on"
        raise fail(block.file, expected, f"{count:,}", remedy)
    return file


def _put(places: np.ndarray, rows: np.ndarray) -> Callable[[np.ndarray, np.ndarray], None]:
    def put(held: np.ndarray, arrays: np.ndarray) -> None:
        held[places] = arrays[rows]

    return put


def _is_list(x: Any) -> bool:
    return isinstance(x, list) and all(isinstance(name, str) for name in x)


def _array(column: Any, where: str) -> np.ndarray:
    """A column of numbers, or of lists of one length, as an array. Missing values are NaN."""
    types = require_extra("pyarrow.types")
    if types.is_fixed_size_list(column.type) or types.is_list(column.type) or types.is_large_list(column.type):
        lengths = require_extra("pyarrow.compute").list_value_length(column).to_numpy(zero_copy_only=False)
        if column.null_count or (lengths != lengths[0]).any():
            raise fail(where, "lists of one length", "lists of several, or missing ones", "give all rows one length")
        flat = require_extra("pyarrow.compute").list_flatten(column)
        return _array(flat, where).reshape(len(lengths), -1)
    found = column.to_numpy(zero_copy_only=False)
    if found.dtype.kind not in "biuf":
        remedy = "code categories as 0, 1, 2, ..., or leave the column out (columns=)"
        raise fail(where, "numbers", str(column.type), remedy)
    return found
