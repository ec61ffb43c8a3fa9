"""Columns of Parquet files as Python's values and as NumPy's numbers, missing ones as None and
NaN."""

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
"""Memory of a value of Python."""


# --- what a file says before it is read -----------------------------------------------------------
class Kind(NamedTuple):
    """The numbers of a column, as a file says before it is read.

    Attributes:
      dtype: their type; None of other values than numbers.
      may_lack: whether some may be missing.
      most: the most of them in a row group, those in lists one by one.
    """

    dtype: np.dtype | None
    may_lack: bool
    most: int = 0


def column_kinds(opened: Any) -> dict[str, Kind]:
    """The kinds of all columns of a Parquet file, from its schema and its statistics. Where there
    are no statistics, values may be missing unless the schema says that none is."""
    schema = opened.schema_arrow
    found = {}
    leaf = 0
    for field in schema:
        count = _num_leaves(field.type)
        can_lack = field.nullable or field.type.num_fields > 0
        leaves = range(leaf, leaf + count)
        lacks = can_lack and any(_may_lack(opened.metadata, i) for i in leaves)
        found[field.name] = Kind(
            _number_dtype(field.type), lacks, max(_most(opened.metadata, i) for i in leaves)
        )
        leaf += count
    return found


def common_type(kinds: Sequence[Kind]) -> np.dtype | None:
    """The type that holds the numbers of all of these: float64 where some may be missing, and are
    none of floats.

    >>> common_type([Kind(np.dtype(np.int64), False), Kind(np.dtype(np.float64), True)])
    dtype('float64')
    >>> common_type([Kind(np.dtype(np.uint8), False), Kind(np.dtype(np.int64), False)])
    dtype('int64')
    """
    dtypes = [kind.dtype for kind in kinds]
    if any(dtype is None for dtype in dtypes):
        return None
    whole = np.result_type(*[dtype for dtype in dtypes if dtype is not None])
    lacks = any(kind.may_lack for kind in kinds)
    return np.dtype(np.float64) if lacks and whole.kind in "iub" else whole


def _num_leaves(kind: Any) -> int:
    """The columns that a Parquet file has for a type of Arrow."""
    if kind.num_fields == 0 or require_extra("pyarrow.types").is_dictionary(kind):
        return 1
    return sum(_num_leaves(kind.field(i).type) for i in range(kind.num_fields))


def _may_lack(metadata: Any, leaf: int) -> bool:
    for i in range(metadata.num_row_groups):
        said = metadata.row_group(i).column(leaf).statistics
        if said is None or not said.has_null_count or said.null_count:
            return True
    return False


def _most(metadata: Any, leaf: int) -> int:
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return max((max(group.num_rows, group.column(leaf).num_values) for group in groups), default=0)


def _number_dtype(kind: Any) -> np.dtype | None:
    """NumPy's type of numbers of Arrow, also in lists; None of other values."""
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
      dtype: the type of the array; None: that of the column, float64 for whole numbers of which
          some are missing.

    Warns where whole numbers are rounded to floats. Raises DataError: other values than numbers.
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
            raise fail(
                where,
                "lists of one length",
                "lists of several, or missing ones",
                "give all rows one length",
            )
        return to_numbers(compute.list_flatten(column), where, dtype).reshape(len(lengths), -1)
    own = check_numeric(column.type, where)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_null(column.type) or types.is_decimal(column.type):
        column = column.cast(require_extra("pyarrow").float64())
    missing = None
    if column.null_count and own.kind in "iub":
        missing = column.is_null().to_numpy(zero_copy_only=False)
        column = column.fill_null(False if own.kind == "b" else 0)
    found = column.to_numpy(zero_copy_only=False)
    wanted = dtype or (np.dtype(np.float64) if missing is not None else found.dtype)
    if wanted.kind == "f" and found.dtype.kind in "iu":
        warn_of_rounding(found, wanted, where)
    if missing is None:
        return found.astype(wanted, copy=False)
    found = found.astype(np.promote_types(wanted, np.float64) if wanted.kind in "iub" else wanted)
    found[missing] = np.nan
    return found


def check_numeric(kind: Any, where: str) -> np.dtype:
    """NumPy's type of numbers of Arrow. Raises DataError: other values than numbers."""
    dtype = _number_dtype(kind)
    if dtype is None:
        remedy = "code categories as 0, 1, 2, ..., or leave the column out (columns=)"
        raise fail(where, "numbers", str(kind), remedy)
    return dtype


def warn_of_rounding(whole: np.ndarray, dtype: np.dtype, where: str) -> None:
    """Warns of the first whole number that floats do not hold."""
    exact = 2 ** (np.finfo(dtype).nmant + 1)
    if not len(whole) or (
        whole.max() <= exact and (whole.dtype.kind == "u" or whole.min() >= -exact)
    ):
        return
    large = np.flatnonzero(
        (whole > exact) | (whole < -exact) if whole.dtype.kind == "i" else whole > exact
    )
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
    """The values of a column of Arrow, None where one is missing. A text that comes again is one
    object."""
    pieces = column.chunks if hasattr(column, "chunks") else [column]
    found: list[Any] = []
    for piece in pieces:
        if hasattr(piece, "dictionary"):
            words = piece.dictionary.to_pylist()
            found += [
                None if place is None else words[place] for place in piece.indices.to_pylist()
            ]
        else:
            found += piece.to_pylist()
    return found


def check_num_rows(found: int, said: int, file: object) -> None:
    """Raises a DataError where a file holds another number of rows than it says."""
    if found != said:
        raise fail(
            file, f"{said:,} rows, as it says", f"{found:,}", "fetch or write the file again"
        )


def check_row_groups(opened: Any, names: Container[str], file: object) -> None:
    """Raises a DataError where the wanted columns of a row group, unpacked, are said to be larger
    than the memory that is free; row groups are unpacked one by one."""
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


def check_room(number: int, file: object, what: str) -> None:
    """Raises a DataError where values are said to take more bytes than are free, before they are
    read."""
    if number < 0:
        raise fail(file, "numbers of rows", "one below 0", "fetch or write the file again")
    if number > (free := free_bytes()):
        got = f"{what}, {size_text(number)} where {size_text(free)} are free"
        remedy = (
            "fetch or write the file again, with smaller row groups; tables of many rows are "
            "read by parts"
        )
        raise fail(file, "rows that fit in memory", got, remedy)
