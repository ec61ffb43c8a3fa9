"""Tables of rows in Parquet files, which any program can write: read by row groups, never as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from vijax.data.reading.checks import fail, listed, nearest
from vijax.data.streams.store import from_parquet, parquet_files
from vijax.extras import require_extra

HELD = 1 << 28
"""Bytes of rows that a fit holds at once, where nothing is said."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """A table of rows in Parquet files, as `rows` returns it.

    Attributes:
      columns: names of columns, in the structure of the data that a model reads: a list of them is a matrix with a
        column for each.
      blocks: the row groups of the files: file, number in it, first row of all, number of rows.
      held_bytes: bytes of rows that a fit holds at once.
    """

    columns: PyTree
    blocks: tuple[Block, ...]
    held_bytes: int

    @property
    def num_groups(self) -> int:
        """N, the number of rows."""
        return sum(block.count for block in self.blocks)

    def read(self, block: Block) -> PyTree:
        """The arrays of a block."""
        names = list(dict.fromkeys(jax.tree.leaves(self.columns)))
        found = from_parquet(block.file, lambda file: file.read_row_group(block.number, columns=names))
        arrays = {name: _array(found.column(name), f"{block.file}, column {name!r}") for name in names}
        matrix = lambda names: np.stack([arrays[name] for name in names], 1) if _is_list(names) else arrays[names]
        return jax.tree.map(matrix, self.columns, is_leaf=_is_list)

    def contents(self) -> Iterator[np.ndarray]:
        """Arrays that identify the table: what the files say of their row groups."""
        said = [repr(self.columns)]
        of_file = lambda file: [file.metadata.row_group(i).to_dict() for i in range(file.metadata.num_row_groups)]
        for name in dict.fromkeys(block.file for block in self.blocks):
            said.append(repr(from_parquet(name, of_file)))
        yield np.frombuffer("\n".join(said).encode(), np.uint8)


@dataclasses.dataclass(frozen=True)
class Block:
    """A row group of a Parquet file: its rows are first, ..., first + count - 1 of the table."""

    file: str
    number: int
    first: int
    count: int

    def __str__(self) -> str:
        return f"{self.file}, rows {self.first:,} to {self.first + self.count - 1:,} of the table"


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
        for number, count in enumerate(counts):
            first = blocks[-1].first + blocks[-1].count if blocks else 0
            if count:
                blocks.append(Block(file, number, first, count))
    if not blocks:
        raise fail(source, "one row or more", "none", "check where the rows come from")
    return Rows(columns, tuple(blocks), held_bytes)


def _head(file: Any) -> tuple[list[str], list[int]]:
    """The columns of a file, and the rows of each row group."""
    return file.schema_arrow.names, [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]


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
