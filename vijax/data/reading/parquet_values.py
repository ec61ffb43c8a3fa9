"""Columns of Parquet files as Python's values or NumPy's numbers, with None or NaN for missing
ones."""

from __future__ import annotations

import warnings
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from vijax.data.reading.checks import fail
from vijax.extras import require_extra
from vijax.memory import free_bytes, size_text

EXACT = 2**53
"""Whole numbers up to this one are exact as float64."""
CELL_BYTES = 40
"""Memory of a Python value."""


# --- facts of a file before it is read ------------------------------------------------------------
class Kind(NamedTuple):
    """The numbers of a column, as a file says before it is read.

    Attributes:
      dtype: their type; None for other values than numbers.
      may_lack: True if some may be missing.
      most: the most numbers in a row group; those in lists count one by one.
    """

    dtype: np.dtype | None
    may_lack: bool
    most: int = 0


def column_kinds(opened: Any) -> dict[str, Kind]:
    """The kinds of all columns of a Parquet file, from its schema and its statistics. Without
    statistics, values may be missing unless the schema says that none is."""
    schema = opened.schema_arrow
    kinds = {}
    leaf = 0
    for field in schema:
        count = _num_leaves(field.type)
        can_lack = field.nullable or field.type.num_fields > 0
        leaves = range(leaf, leaf + count)
        lacks = can_lack and any(_may_lack(opened.metadata, i) for i in leaves)
        most_values = max(_most(opened.metadata, i) for i in leaves)
        kinds[field.name] = Kind(_number_dtype(field.type), lacks, most_values)
        leaf += count
    return kinds


def common_type(kinds: Sequence[Kind]) -> np.dtype | None:
    """The type that holds the numbers of all columns: float64 for whole numbers if some may be
    missing.

    >>> common_type([Kind(np.dtype(np.int64), False), Kind(np.dtype(np.float64), True)])
    dtype('float64')
    >>> common_type([Kind(np.dtype(np.uint8), False), Kind(np.dtype(np.int64), False)])
    dtype('int64')
    """
    dtypes = [kind.dtype for kind in kinds]
    if any(dtype is None for dtype in dtypes):
        return None
    dtype = np.result_type(*[dtype for dtype in dtypes if dtype is not None])
    lacks = any(kind.may_lack for kind in kinds)
    return np.dtype(np.float64) if lacks and dtype.kind in "iub" else dtype


def _num_leaves(kind: Any) -> int:
    """The number of columns that a Parquet file has for a type of Arrow."""
    if kind.num_fields == 0 or require_extra("pyarrow.types").is_dictionary(kind):
        return 1
    return sum(_num_leaves(kind.field(i).type) for i in range(kind.num_fields))


def _may_lack(metadata: Any, leaf: int) -> bool:
    for i in range(metadata.num_row_groups):
        statistics = metadata.row_group(i).column(leaf).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return True
    return False


def _most(metadata: Any, leaf: int) -> int:
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return max((max(group.num_rows, group.column(leaf).num_values) for group in groups), default=0)


def _number_dtype(kind: Any) -> np.dtype | None:
    """NumPy's type for a number type of Arrow, also in lists; None for other values."""
    types = require_extra("pyarrow.types")
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _number_dtype(kind.value_type)
    if types.is_dictionary(kind):
        return _number_dtype(kind.value_type)
    if types.is_null(kind) or types.is_decimal(kind):
        return np.dtype(np.float64)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return np.dtype(kind.to_pandas_dtype())
    return None


# --- numbers --------------------------------------------------------------------------------------
def to_numbers(column: Any, where: str, dtype: np.dtype | None = None) -> np.ndarray:
    """A column of numbers, or of lists of one length, as an array; missing numbers are NaN.

    Args:
      column: a column of Arrow.
      where: its place, for errors and warnings.
      dtype: the type of the array; None: the type of the column, or float64 if it has whole numbers
        and some are missing.

    Raises:
      DataError: other values than numbers.

    Warns if whole numbers are rounded to floats.
    """
    types = require_extra("pyarrow.types")
    compute = require_extra("pyarrow.compute")
    if (
        types.is_fixed_size_list(column.type)
        or types.is_list(column.type)
        or types.is_large_list(column.type)
    ):
        lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if column.null_count or (lengths != lengths[:1]).any():
            actual = "lists of several, or missing ones"
            raise fail(where, "lists of one length", actual, "give all rows one length")
        return to_numbers(compute.list_flatten(column), where, dtype).reshape(len(lengths), -1)
    column_dtype = check_numeric(column.type, where)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_null(column.type) or types.is_decimal(column.type):
        column = column.cast(require_extra("pyarrow").float64())
    missing = None
    if column.null_count and column_dtype.kind in "iub":
        missing = column.is_null().to_numpy(zero_copy_only=False)
        column = column.fill_null(False if column_dtype.kind == "b" else 0)
    values = column.to_numpy(zero_copy_only=False)
    wanted = dtype or (np.dtype(np.float64) if missing is not None else values.dtype)
    if wanted.kind == "f" and values.dtype.kind in "iu":
        warn_of_rounding(values, wanted, where)
    if missing is None:
        return values.astype(wanted, copy=False)
    if wanted.kind in "iub":
        wanted = np.promote_types(wanted, np.float64)
    values = values.astype(wanted)
    values[missing] = np.nan
    return values


def check_numeric(kind: Any, where: str) -> np.dtype:
    """NumPy's type for a number type of Arrow. Raises DataError for other values than numbers."""
    dtype = _number_dtype(kind)
    if dtype is None:
        remedy = "code categories as 0, 1, 2, ..., or leave the column out (columns=)"
        raise fail(where, "numbers", str(kind), remedy)
    return dtype


def warn_of_rounding(whole: np.ndarray, dtype: np.dtype, where: str) -> None:
    """Warns of the first whole number that floats do not hold."""
    exact = 2 ** (np.finfo(dtype).nmant + 1)
    is_signed = whole.dtype.kind == "i"
    if not len(whole) or (whole.max() <= exact and (not is_signed or whole.min() >= -exact)):
        return
    is_large = whole > exact
    if is_signed:
        is_large |= whole < -exact
    large = np.flatnonzero(is_large)
    for row in large.tolist():
        number = int(whole[row])
        if int(dtype.type(number)) != number:
            warnings.warn(
                f"{where}: {number} in row {row + 1} of its row group is read as "
                f"{int(dtype.type(number))}: others of its numbers are floats or missing, and "
                f"{dtype} holds whole numbers up to {exact:,}. Where it is a name, leave the "
                "column out (columns=), or write it as text.",
                stacklevel=3,
            )
            return


# --- values ---------------------------------------------------------------------------------------
def to_values(column: Any) -> list[Any]:
    """The values of a column of Arrow, None for missing ones. A repeated text is one object."""
    pieces = column.chunks if hasattr(column, "chunks") else [column]
    values: list[Any] = []
    for piece in pieces:
        if not hasattr(piece, "dictionary"):
            values += piece.to_pylist()
            continue
        words = piece.dictionary.to_pylist()
        places = piece.indices.to_pylist()
        values += [None if place is None else words[place] for place in places]
    return values


def check_num_rows(number: int, expected: int, file: object) -> None:
    """Raises a DataError if a file holds another number of rows than it says."""
    if number != expected:
        remedy = "fetch or write the file again"
        raise fail(file, f"{expected:,} rows, as it says", f"{number:,}", remedy)


def check_row_groups(opened: Any, names: Container[str], file: object) -> None:
    """Raises a DataError if the wanted columns of a row group, unpacked, are larger than the free
    memory, as the file says; row groups are unpacked one by one."""
    metadata = opened.metadata
    leaves: list[int] = []
    leaf = 0
    for field in opened.schema_arrow:
        count = _num_leaves(field.type)
        leaves += range(leaf, leaf + count) if field.name in names else ()
        leaf += count
    for i in range(metadata.num_row_groups):
        columns = [metadata.row_group(i).column(leaf) for leaf in leaves]
        size = sum(max(column.total_uncompressed_size, 8 * column.num_values) for column in columns)
        check_room(size, file, f"row group {i}")


def check_room(number: int, file: object, noun: str) -> None:
    """Raises a DataError if values take more bytes than are free, before they are read."""
    if number < 0:
        raise fail(file, "numbers of rows", "one below 0", "fetch or write the file again")
    if number > (free := free_bytes()):
        actual = f"{noun}, {size_text(number)} where {size_text(free)} are free"
        remedy = (
            "fetch or write the file again, with smaller row groups; tables of many rows are "
            "read by parts"
        )
        raise fail(file, "rows that fit in memory", actual, remedy)
