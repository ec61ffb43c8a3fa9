"""Tables in files, by parts: of several processes each writes its own rows, and of tables that are
split by topics each device's part is written by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from vijax.files import own_folder
from vijax.scale.arrays import PIECE, Rows, gathered
from vijax.scale.processes import any_process
from vijax.scale.row_files import StoredRows


def store_tables(folder: Path, tree: Any) -> Any:
    """A tree whose tables (`vijax.scale.arrays.Rows`) are in files of this folder. All processes
    must call it together.

    Each process writes its own rows. If process 0 does not see the rows of the others (because they
    do not share the folder, or a disk is full), it gathers the tables instead
    (`vijax.scale.gathered`)."""
    leaves, structure = jax.tree.flatten(tree)
    if not any(isinstance(x, Rows) for x in leaves):
        return tree
    tables = {i: (x, _table(folder, i, x)) for i, x in enumerate(leaves) if isinstance(x, Rows)}
    is_first = jax.process_index() == 0

    def make_folder() -> None:
        if is_first:  # the other processes write into a folder that they see, and make none
            _make_folder(folder)

    def write_own() -> None:
        for rows, table in tables.values():
            _write_own(rows, table)

    def require_all() -> None:
        if is_first:
            for _, table in tables.values():
                table.require_whole()

    for work in (make_folder, write_own, require_all):  # each ends in all before the next
        if any_process(_fails(work)):
            return gathered(tree)
    stored = [tables[i][1] if i in tables else x for i, x in enumerate(leaves)]
    return jax.tree.unflatten(structure, stored)


def store_parts(folder: Path, tree: Any) -> Any:
    """A tree whose arrays that are split along one axis, over devices of this process, are in files
    of this folder. No array is whole on a device or on the host.

    Raises:
      OSError: a file cannot be written.
    """
    leaves, structure = jax.tree.flatten(tree)
    if not any(map(is_split, leaves)):
        return tree
    _make_folder(folder)
    stored = list(leaves)
    for i, x in enumerate(leaves):
        if is_split(x):
            rows = Rows.from_array(x)
            stored[i] = _table(folder, i, rows)
            _write_own(rows, stored[i])
    return jax.tree.unflatten(structure, stored)


def _make_folder(folder: Path) -> None:
    """Makes the folder of a step, without the file of this step that an earlier run left: it would
    be of other tables."""
    own_folder(folder.parent)
    folder.with_suffix(".npz").unlink(missing_ok=True)
    own_folder(folder)


def is_split(x: Any) -> bool:
    """True for an array of which devices of this process have equal parts, along one axis."""
    if not isinstance(x, jax.Array) or not isinstance(x.sharding, NamedSharding):
        return False
    axes = [axis for axis, name in enumerate(x.sharding.spec) if name is not None]
    return x.is_fully_addressable and not x.is_fully_replicated and len(axes) == 1


def _fails(work: Callable[[], None]) -> bool:
    try:
        work()
    except OSError:
        return True
    return False


def _table(folder: Path, number: int, rows: Rows) -> StoredRows:
    """The table that all processes write together."""
    num_rows = rows.array.shape[rows.axis]
    per_device = rows.array.sharding.shard_shape(rows.array.shape)[rows.axis]
    size = max(1, PIECE // max(1, rows.array.nbytes // max(1, num_rows)))
    firsts = range(0, num_rows, per_device)
    starts = [first + j for first in firsts for j in range(0, per_device, size)]
    starts = [start for start in starts if start < rows.length]
    return StoredRows(folder, number, rows.shape, rows.dtype, rows.axis, starts)


def _write_own(rows: Rows, table: StoredRows) -> None:
    """Writes the blocks of this process; each block lies on one device."""
    for shard in rows.array.addressable_shards:
        if shard.replica_id:
            continue
        part = np.moveaxis(np.asarray(shard.data), rows.axis, 0)
        first = shard.index[rows.axis].start or 0
        for start, stop in table.blocks():
            if first <= start < first + len(part):
                block = part[start - first : stop - first]
                table.write(start, np.moveaxis(block, 0, rows.axis))
