"""Compressed sparse rows in NumPy: gathers of rows, and passes in blocks over arrays larger than
memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from vijax.data.reading.checks import INT32_MAX, fail

BLOCK_ENTRIES = 1 << 18


class Bags(NamedTuple):
    """Some documents as rows of word counts, with the fields of a `vijax.data.Corpus`."""

    indptr: Int[np.ndarray, " docs_plus_1"]
    indices: Int[np.ndarray, " pairs"]
    counts: Int[np.ndarray, " pairs"]
    covariates: None = None


def bags(lengths: Int[np.ndarray, " docs"], indices: np.ndarray, counts: np.ndarray) -> Bags:
    """Documents with `lengths` pairs each.

    >>> bags(np.array([1, 0]), np.array([3]), np.array([2])).indptr
    array([0, 1, 1])
    """
    return Bags(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), indices, counts)


def is_canonical(
    lengths: Int[np.ndarray, " rows"], columns: np.ndarray, counts: np.ndarray
) -> bool:
    """True if the columns of each row ascend, and no count is 0.

    >>> is_canonical(np.array([2, 1]), np.array([1, 4, 0]), np.ones(3))
    True
    """
    is_inside = np.ones(max(0, len(columns) - 1), bool)
    ends = np.cumsum(lengths)
    is_inside[ends[(ends > 0) & (ends < len(columns))] - 1] = False
    return bool((np.diff(columns)[is_inside] > 0).all() and (counts > 0).all())


def row_entries(
    indptr: Int[np.ndarray, " rows_plus_1"], rows: Int[np.ndarray, " some"]
) -> tuple[np.ndarray, np.ndarray]:
    """The places of the entries of `rows`, row after row, and the lengths of the rows.

    >>> row_entries(np.array([0, 2, 2, 5]), np.array([2, 0]))
    (array([2, 3, 4, 0, 1]), array([3, 2]))
    """
    starts = indptr[rows]
    lengths = indptr[rows + 1] - starts
    ends = np.cumsum(lengths)
    places = np.repeat(starts - (ends - lengths), lengths)
    return places + np.arange(ends[-1] if len(ends) else 0), lengths


def row_blocks(
    indptr: Int[np.ndarray, " rows_plus_1"], entries: int = BLOCK_ENTRIES
) -> Iterator[slice]:
    """Consecutive ranges of rows with about `entries` entries each, and at least one row, so that
    each fits in memory.

    >>> list(row_blocks(np.array([0, 2, 4, 9]), entries=4))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    start = 0
    num_rows = len(indptr) - 1
    while start < num_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + entries, side="right")) - 1
        stop = min(max(stop, start + 1), num_rows)
        yield slice(start, stop)
        start = stop


def row_sums(
    indptr: Int[np.ndarray, " rows_plus_1"], values: Int[np.ndarray, " entries"]
) -> Int[np.ndarray, " rows"]:
    """Sum of the values of each row, 0 for an empty row, in bounded memory.

    >>> row_sums(np.array([0, 2, 2, 3]), np.array([1, 2, 5]))
    array([3, 0, 5])
    """
    sums = np.zeros(len(indptr) - 1, np.int64)
    for block in row_blocks(indptr):
        edges = np.asarray(indptr[block.start : block.stop + 1])
        running = np.concatenate([[0], np.cumsum(values[edges[0] : edges[-1]], dtype=np.int64)])
        sums[block] = np.diff(running[edges - edges[0]])
    return sums


def canonical(
    rows: np.ndarray, columns: np.ndarray, counts: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths of rows, columns and counts of entries sorted by row and column, repeats summed and
    zeros dropped.

    >>> canonical(np.array([1, 0, 1]), np.array([3, 2, 3]), np.array([1, 4, 1]), (2, 5))
    (array([1, 1], dtype=int32), array([2, 3], dtype=int32), array([4, 2]))
    """
    import scipy.sparse

    # The conversion sums repeats.
    matrix = scipy.sparse.csr_matrix((counts.astype(np.int64), (rows, columns)), shape)
    if matrix.data.max(initial=0) > INT32_MAX:
        actual = f"{matrix.data.max()}, summed over entries of one word in one document"
        raise fail("counts", f"counts of at most {INT32_MAX}", actual, "correct these entries")
    matrix.eliminate_zeros()
    return np.diff(matrix.indptr), matrix.indices, matrix.data.astype(counts.dtype)
