"""Tables by row of several processes, written to files: by each process its own rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vijax.files import own_folder
from vijax.scale.arrays import PIECE, Rows, gathered
from vijax.scale.processes import any_process
from vijax.scale.row_files import StoredRows


def store_tables(folder: Path, tree: Any) -> Any:
    """A tree whose tables (`vijax.scale.arrays.Rows`) are in files of this folder. All processes
    call it together.

    Each writes its own rows. Where process 0 does not find those of the others (they do not share
    the folder; a disk is full), they are gathered there (`vijax.scale.gathered`)."""
    leaves, structure = jax.tree.flatten(tree)
    if not any(isinstance(x, Rows) for x in leaves):
        return tree
    tables = {i: (x, _table(folder, i, x)) for i, x in enumerate(leaves) if isinstance(x, Rows)}
    is_first = jax.process_index() == 0

    def make() -> None:
        if is_first:  # the others write into a folder that they see, and make none
            own_folder(folder.parent)
            folder.with_suffix(".npz").unlink(
                missing_ok=True
            )  # one of this step that could not be read
            own_folder(folder)

    def write() -> None:
        for rows, table in tables.values():
            _write_own(rows, table)

    def see() -> None:
        for _, table in tables.values() if is_first else ():
            table.require_whole()

    for work in (make, write, see):  # one after the other in all
        if any_process(_fails(work)):
            return gathered(tree)
    return jax.tree.unflatten(
        structure, [tables[i][1] if i in tables else x for i, x in enumerate(leaves)]
    )


def _fails(work: Callable[[], None]) -> bool:
    try:
        work()
    except OSError:
        return True
    return False


def _table(folder: Path, number: int, rows: Rows) -> StoredRows:
    """The table that all processes write together."""
    count = rows.array.sharding.mesh.size  # type: ignore[attr-defined]
    each = rows.array.shape[rows.axis] // count
    size = max(1, PIECE // max(1, rows.array.nbytes // max(1, rows.array.shape[rows.axis])))
    starts = [k * each + j for k in range(count) for j in range(0, each, size)]
    return StoredRows(
        folder, number, rows.shape, rows.dtype, rows.axis, [at for at in starts if at < rows.length]
    )


def _write_own(rows: Rows, table: StoredRows) -> None:
    """Writes the blocks of this process; none lies with two devices."""
    for shard in rows.array.addressable_shards:
        own, first = (
            np.moveaxis(np.asarray(shard.data), rows.axis, 0),
            shard.index[rows.axis].start or 0,
        )
        for start, stop in table.blocks():
            if first <= start < first + len(own):
                table.write(start, np.moveaxis(own[start - first : stop - first], 0, rows.axis))
