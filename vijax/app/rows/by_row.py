"""Results of models row by row: read in blocks of one size, so that each program is compiled once; of sequences too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from vijax.app.kinds.listing import Found, Seen, Tell
from vijax.data.tables.table import Table

BLOCK = 16_384
"""Rows at a time."""
STEPS = 65_536
"""Steps of sequences at a time, padding among them."""


def checked(seen: Seen, data: Any) -> Any:
    """New data, checked to be possible for the model; ValueError names the first row that is not."""
    check = seen.fit.alg.spec.model.form.check
    if check is not None:
        check(data)
    return data


def in_blocks(read: Callable[[Any], Found], data: Any, tell: Tell, size: int = BLOCK) -> Found:
    """The results of `read` for arrays with one leading axis, block by block.

    The last block is filled up with rows that have been read already; their results are dropped.

    >>> in_blocks(lambda x: {"twice": 2 * x}, np.arange(5), lambda done: None, size=2)
    {'twice': array([0, 2, 4, 6, 8])}
    """
    number = len(jax.tree.leaves(data)[0])
    size, parts = min(size, number), []
    for start in range(0, number, size):
        rows = np.arange(start, start + size) % number
        found = read(jax.tree.map(lambda x, rows=rows: x[rows], data))
        stop = min(start + size, number)
        parts.append({name: np.asarray(values)[: stop - start] for name, values in found.items()})
        tell(stop)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def in_blocks_of_sequences(read: Callable[[Any], Found], table: Table, data: Any, tell: Tell) -> Found:
    """The results of `read` for each step of padded sequences, (N, T, ...), in the order of the rows of their table.

    Args:
      read: a function of `data`, or of some of its sequences.
      table: the table of these rows.
      data: (y, mask).
      tell: called with the number of rows that are done.
    """
    mask = data[1]
    ends = np.cumsum(mask.sum(axis=1))
    told = lambda done: tell(int(ends[done - 1]))
    found = in_blocks(read, data, told, max(1, STEPS // max(mask.shape[1], 1)))
    order = rows_of_steps(table)
    return {name: _placed(values[mask], order) for name, values in found.items()}


def rows_of_steps(table: Table) -> np.ndarray:
    """The row of each step, sequence by sequence, as `Table.sequences` has them."""
    return np.arange(table.num_rows) if table.groups is None else np.argsort(table.groups, kind="stable")


def _placed(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    placed = np.empty_like(values)
    placed[order] = values
    return placed
