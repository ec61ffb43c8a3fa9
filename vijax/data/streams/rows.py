"""Tables of rows in Parquet files from any program: read by row groups, never as a whole."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int, PyTree

from vijax.data.reading.checks import fail, listed, nearest
from vijax.data.reading.parquet_values import (
    Kind,
    check_num_rows,
    check_numeric,
    check_room,
    column_kinds,
    common_type,
    to_numbers,
)
from vijax.data.reading.partitions import Part, check_one_format, is_index
from vijax.data.reading.store import (
    Block,
    describe_files,
    file_blocks,
    from_parquet,
    is_address,
    no_parquet,
    parquet_parts,
)
from vijax.data.schema.row_names import RowNames
from vijax.data.streams.permutation import Permutation
from vijax.data.tables.columns import number, parse_column
from vijax.files import local_path

HELD = 1 << 28
"""Default number of bytes of rows that a fit holds at once."""
SPLIT = 1 << 20
"""The seed of a split has this number where the seed of a pass has the number of the pass."""


class Chosen(NamedTuple):
    """Rows at the places first, ..., stop - 1 of a random order of all."""

    seed: int
    first: int
    stop: int


@dataclasses.dataclass(frozen=True)
class Rows:
    """A table of rows in Parquet files, as `rows` returns it.

    Attributes:
      columns: names of columns, in the structure of the data that a model reads: a list of them is
        a matrix with a column for each.
      blocks: the row groups of the files: file, number in it, first row of all, number of rows.
      held_bytes: bytes of rows that a fit holds at once.
      chosen: the part of the rows of the files that the table has; None: all.
      types: the type of the numbers of each column, the same in all files.
      beside: by file, the numbers of columns that the names of its folders give.
    """

    columns: PyTree
    blocks: tuple[Block, ...]
    held_bytes: int
    chosen: Chosen | None = None
    types: Mapping[str, np.dtype] = dataclasses.field(default_factory=dict)
    beside: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)

    @property
    def num_groups(self) -> int:
        """N, the number of rows."""
        if self.chosen is None:
            return self._num_in_files
        return self.chosen.stop - self.chosen.first

    @property
    def leaf_columns(self) -> tuple[tuple[str, ...] | None, ...]:
        """Column names of each matrix; None for an array of one column."""
        matrices = jax.tree.leaves(self.columns, is_leaf=_is_list)
        return tuple(tuple(names) if _is_list(names) else None for names in matrices)

    @property
    def _num_in_files(self) -> int:
        return sum(block.count for block in self.blocks)

    def split(self, held_out: float | int = 0.1, seed: int = 0) -> tuple[Rows, Rows]:
        """Two tables of the same files: a random part for training, and the held-out rows.

        Neither is read; `take` reads some.

        Args:
          held_out: a share of the rows, or a number of them.
          seed: seed of the random order; the same in every split of a table.

        Raises:
          DataError: a part would be empty, or the table was split with another seed.
        """
        total = self.num_groups
        first = 0 if self.chosen is None else self.chosen.first
        number = held_out if isinstance(held_out, int) else round(held_out * total)
        if self.chosen is not None and seed != self.chosen.seed:
            expected = f"{self.chosen.seed}, as of the first split"
            raise fail("seed", expected, str(seed), "split with one seed")
        if not 0 < number < total:
            expected = f"a part of {total:,} rows that leaves some on both sides"
            actual = f"{held_out} ({number} rows)"
            raise fail("held_out", expected, actual, "pass a share such as 0.1")

        def part(start: int, stop: int) -> Rows:
            return dataclasses.replace(self, chosen=Chosen(seed, first + start, first + stop))

        return part(number, total), part(0, number)

    def row_names(self, numbers: Int[np.ndarray, " n"]) -> RowNames:
        """The names of some rows in messages: their files, and their numbers there, counted from
        1."""
        numbers = self._numbers_in_files(np.asarray(numbers, int))
        firsts = np.array([block.first for block in self.blocks])
        in_block = np.searchsorted(firsts, numbers, side="right") - 1
        above = np.array([block.above for block in self.blocks])
        labels = numbers - firsts[in_block] + above[in_block] + 1
        files = None
        if len({block.file for block in self.blocks}) > 1:
            files = np.array([Path(block.file).name for block in self.blocks], object)[in_block]
        return RowNames(labels, files=files)

    def _numbers_in_files(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers in the files of rows of this table."""
        if self.chosen is None:
            return numbers
        order = Permutation(self._num_in_files, (self.chosen.seed, SPLIT))
        return order(self.chosen.first + numbers)

    def take(
        self, numbers: Int[np.ndarray, " n"], read: Callable[[Block], PyTree] | None = None
    ) -> PyTree:
        """The arrays of some rows, numbered from 0 to N - 1, in the order of `numbers`: one reading
        of the row groups that have them, each by `read`."""
        read = read or self.read
        numbers = self._numbers_in_files(np.asarray(numbers))
        by_row = np.argsort(numbers)
        stops = [block.first + block.count for block in self.blocks]
        ends = np.searchsorted(numbers, stops, sorter=by_row)
        taken_rows: PyTree = None
        begin = 0
        for block, end in zip(self.blocks, ends, strict=True):
            if end > begin:
                places = by_row[begin:end]
                arrays = read(block)
                empty = lambda x: np.empty((len(numbers), *x.shape[1:]), x.dtype)
                if begin == 0:
                    taken_rows = jax.tree.map(empty, arrays)
                put = _put(places, numbers[places] - block.first, block)
                taken_rows = jax.tree.map(put, taken_rows, arrays)
            begin = int(end)
        return taken_rows

    def read(self, block: Block) -> PyTree:
        """The arrays of a block."""
        folder_values = self.beside.get(block.file, {})
        all_names = dict.fromkeys(jax.tree.leaves(self.columns))
        names = [name for name in all_names if name not in folder_values]

        def read(file: Any) -> Any:
            for name in names:
                check_numeric(file.schema_arrow.field(name).type, f"{block.file}, column {name!r}")
            return require_same_rows(file, block).read_row_group(block.number, columns=names)

        table = from_parquet(block.file, read)
        if names:
            check_num_rows(table.num_rows, block.count, block)

        def column(name: str, dtype: np.dtype | None) -> np.ndarray:
            if name in folder_values:
                return np.full(block.count, folder_values[name], dtype)
            return to_numbers(table.column(name), f"{block.file}, column {name!r}", dtype)

        def array(names: Any) -> np.ndarray:
            if not _is_list(names):
                return column(names, self.types.get(names))
            dtypes = [self.types[name] for name in names if name in self.types]
            dtype = np.result_type(*dtypes) if len(dtypes) == len(names) > 0 else None
            columns = [column(name, dtype) for name in names]
            for name, values in zip(names, columns, strict=True):
                _check_is_vector(values, name, block)
            return np.stack(columns, 1)

        return jax.tree.map(array, self.columns, is_leaf=_is_list)

    def contents(self) -> Iterator[np.ndarray]:
        """Arrays that identify the table: what the files say of their row groups."""
        chosen = [] if self.chosen is None else [repr(self.chosen)]
        stamps = describe_files(list(dict.fromkeys(block.file for block in self.blocks)))
        text = "\n".join([repr(self.columns), *chosen, *stamps])
        yield np.frombuffer(text.encode(), np.uint8)


def _check_is_vector(values: np.ndarray, name: str, block: Block) -> None:
    if values.ndim > 1:
        location = f"{block.file}, column {name!r}"
        actual = f"lists of {values.shape[1]}"
        remedy = f"name it by itself (columns={name!r}), or leave it out"
        raise fail(location, "numbers, as a column of a matrix", actual, remedy)


def rows(source: str | Path, columns: PyTree = None, *, held_bytes: int = HELD) -> Rows:
    """A table of rows that need not fit in memory. `vijax.fit(alg, rows("folder"), batch_size=1000,
    ...)` visits them in a random order, a new one in every pass.

    The files are read a row group at a time, once for every `held_bytes` of rows to come: a pass
    over n times as many bytes reads the files n times. Rows that fit are read once.

    Args:
      source: a Parquet file, or a folder of them in the order of their names; also an address that
        fsspec knows, such as s3://bucket/folder. A folder in it named column=value gives a column.
        Files whose names begin with . or _ are left out. If a store does not answer, or gives less
        than was asked for, it is asked again three times. Pages with checksums (pyarrow writes them
        by write_page_checksum=True) are compared with them; in other pages a changed bit can go
        unseen.
      columns: names of columns, in the structure of the data that a model reads: ["a", "b"] is a
        matrix of two columns, "y" a vector, and (["a", "b"], "y") a pair of these. A column of
        lists of one length is a matrix. None takes all columns as a matrix, in the order of the
        first file. The type of a column is the one that holds the numbers of all files, float64
        if some are missing (NaN).
      held_bytes: bytes of rows that a fit holds at once; batches that lie ready come on top.

    Raises:
      DataError: no such file, a missing column, or no rows.

    Warns if whole numbers above 2^53 are rounded because other numbers of their column are floats
    or missing.

    >>> import pyarrow, pyarrow.parquet, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> table = pyarrow.table({"a": [1.0, 2.0], "b": [3.0, 4.0], "y": [0, 1]})
    >>> pyarrow.parquet.write_table(table, folder + "/part-0.parquet")
    >>> table = rows(folder, (["a", "b"], "y"))
    >>> table.num_groups, table.read(table.blocks[0])
    (2, (array([[1., 3.],
           [2., 4.]]), array([0, 1])))
    """
    heads = read_heads(source)
    if columns is None:
        names = heads[0].names
        index = [name for name in names if is_index(name)]
        columns = [name for name in names if name not in index]
        if index:
            text = f"{source}: not read: {listed(index)}, the index of a data frame."
            warnings.warn(f"{text} Name it in columns= if it is data.", stacklevel=2)
    return table_from_heads(heads, columns, held_bytes)


def table_from_heads(heads: Sequence[Head], columns: PyTree, held_bytes: int = HELD) -> Rows:
    """The table of some columns of files whose heads are known; see `rows`."""
    wanted = dict.fromkeys(jax.tree.leaves(columns))
    blocks: list[Block] = []
    for head in heads:
        if missing := sorted(set(wanted) - set(head.names)):
            expected = f"the columns {listed(missing)}"
            raise fail(head.part.file, expected, "none", nearest(missing[0], head.names))
        numbers = sum(head.kinds[name].most for name in wanted)
        largest = f"{max(head.counts, default=0):,} rows in a row group"
        check_room(8 * numbers, head.part.file, largest)
        first = blocks[-1].first + blocks[-1].count if blocks else 0
        blocks.extend(file_blocks(head.part.file, head.counts, first))
    if not blocks:
        raise fail(heads[0].part.file, "one row or more", "none", "check where the rows come from")
    dtypes = {name: common_type([head.kinds[name] for head in heads]) for name in wanted}
    types = {name: dtype for name, dtype in dtypes.items() if dtype is not None}
    beside = _folder_numbers(heads, wanted)
    return Rows(columns, tuple(blocks), held_bytes, types=types, beside=beside)


class Head(NamedTuple):
    """The schema and sizes of a Parquet file, known before its rows are read.

    Attributes:
      part: the file, and the columns that the names of its folders give.
      own: the kinds of its columns by name, in their order.
      counts: the rows of each row group.
      beside: the kinds of the columns that folders give.
    """

    part: Part
    own: dict[str, Kind]
    counts: list[int]
    beside: dict[str, Kind]

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of all columns by name, in their order."""
        return {
            **self.own,
            **{name: kind for name, kind in self.beside.items() if name not in self.own},
        }

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.kinds)


def read_heads(source: str | Path) -> list[Head]:
    """The heads of the Parquet files of a source, one or more.

    Raises:
      DataError: there is no file, or one has a row group that is larger than memory.
    """
    if not (parts := parquet_parts(source)):
        raise no_parquet(source)
    if not is_address(source):
        check_one_format(local_path(source), parts[0].file)
    texts = {name: parse_column([part.values[name] for part in parts]) for name in parts[0].values}
    beside = {
        name: Kind(None if values.dtype == object else values.dtype, False)
        for name, values in texts.items()
    }
    heads = []
    for part in parts:
        kinds, counts = from_parquet(part.file, _head)
        heads.append(Head(part, kinds, counts, beside))
    return heads


def number_columns(heads: Sequence[Head]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that are numbers in every file, in the order of the first file; and the columns
    that are the index of a data frame, which are not among them."""
    are_numbers = lambda name: all(
        name in head.kinds and head.kinds[name].dtype is not None for head in heads
    )
    names = heads[0].names
    numbers = tuple(name for name in names if are_numbers(name) and not is_index(name))
    return numbers, tuple(filter(is_index, names))


def _head(file: Any) -> tuple[dict[str, Kind], list[int]]:
    """The kinds of the columns of a file, and the rows of each row group."""
    groups = range(file.metadata.num_row_groups)
    return column_kinds(file), [file.metadata.row_group(i).num_rows for i in groups]


def _folder_numbers(heads: Sequence[Head], wanted: Container[str]) -> dict[str, dict[str, float]]:
    """By file, the numbers that the names of its folders give, for columns that it lacks itself."""
    numbers: dict[str, dict[str, float]] = {}
    for head in heads:
        for name, text in head.part.values.items():
            if name not in wanted or name in head.own:
                continue
            try:
                numbers.setdefault(head.part.file, {})[name] = number(text)
            except ValueError as error:
                location = f"{head.part.file}, column {name!r}, which its folder gives"
                remedy = "leave the column out (columns=)"
                raise fail(location, "a number", repr(text), remedy) from error
    return numbers


def require_same_rows(file: Any, block: Block) -> Any:
    """The file of a block. Raises DataError if its row group has changed its length since the file
    was first opened: row numbers would mean other rows."""
    metadata = file.metadata
    is_in = block.number < metadata.num_row_groups
    count = metadata.row_group(block.number).num_rows if is_in else 0
    if count != block.count:
        expected = f"{block.count:,} rows in row group {block.number}, as when it was opened first"
        remedy = "put back the file as it was: a run with checkpoints goes on"
        raise fail(block.file, expected, f"{count:,}", remedy)
    return file


def _put(
    places: np.ndarray, rows: np.ndarray, block: Block
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function that puts rows of a block into the arrays `held`, which become wider if the type
    of the block is wider."""

    def put(held: np.ndarray, arrays: np.ndarray) -> np.ndarray:
        if held.shape[1:] != arrays.shape[1:]:
            expected = f"rows of shape {held.shape[1:]}, as in the files before"
            raise fail(block, expected, f"{arrays.shape[1:]}", "give lists one length in all files")
        if not np.can_cast(arrays.dtype, held.dtype):
            held = held.astype(np.result_type(held.dtype, arrays.dtype))
        held[places] = arrays[rows]
        return held

    return put


def _is_list(x: Any) -> bool:
    return isinstance(x, list) and all(isinstance(name, str) for name in x)
