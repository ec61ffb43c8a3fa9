"""Arrays on the devices of several processes: put there, and gathered in bounded pieces."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from vijax.scale.row_files import StoredRows

PIECE = 1 << 26
"""Bytes of a piece, on every device."""


def put(tree: Any, places: Any) -> Any:
    """A tree whose arrays, the same in every process, lie at their places. A place may stand for a
    whole branch of the tree."""

    def put_branch(place: NamedSharding, branch: Any) -> Any:
        return jax.tree.map(lambda x: _put(x, place), branch)

    return jax.tree.map(put_branch, places, tree)


def put_own(tree: Any, places: Any, axis: int) -> Any:
    """As `put`, for arrays of which each process has only its part of the split axis. The parts
    follow each other in the order of the processes."""

    def put_part(x: Any, place: NamedSharding) -> jax.Array:
        if not any(place.spec):
            return _put(x, place)
        size = np.shape(x)[axis] * jax.process_count()
        shape = (*np.shape(x)[:axis], size, *np.shape(x)[axis + 1 :])
        return jax.make_array_from_process_local_data(place, np.asarray(x), shape)

    def put_branch(place: NamedSharding, branch: Any) -> Any:
        return jax.tree.map(lambda x: put_part(x, place), branch)

    return jax.tree.map(put_branch, places, tree)


def _put(x: Any, place: NamedSharding) -> jax.Array:
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        return x if x.sharding.is_equivalent_to(place, x.ndim) else _reshard(x, place)
    has_parts = isinstance(x, StoredRows) or (
        isinstance(x, jax.Array) and not x.is_fully_replicated
    )
    if not has_parts:
        x = np.asarray(x)  # one copy to the host, not one for each device
    return jax.make_array_from_callback(x.shape, place, lambda index: np.asarray(x[index]))


@functools.partial(jax.jit, static_argnums=1)
def _reshard(x: jax.Array, place: NamedSharding) -> jax.Array:
    return jax.lax.with_sharding_constraint(x, place)


def local(x: Any, on_one: bool = True) -> Any:
    """An array of this process if every process has it whole, else its `Rows`, to be gathered. It
    lies on all devices of the process that have parts of it; on one where it is not split, if
    `on_one`."""
    if not isinstance(x, jax.Array) or x.is_fully_addressable:
        return x
    if on_one and x.is_fully_replicated:
        return x.addressable_data(0)
    mesh = x.sharding.mesh  # type: ignore[attr-defined]
    over_processes = {name for name in _names(x) if mesh.local_mesh.shape[name] < mesh.shape[name]}
    if over_processes:
        spec = _part_of_spec(x.sharding.spec, over_processes)  # type: ignore[attr-defined]
        return Rows.from_array(_reshard(x, NamedSharding(mesh, spec)))
    place = NamedSharding(mesh.local_mesh, x.sharding.spec)  # type: ignore[attr-defined]
    pieces = [shard.data for shard in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(x.shape, place, pieces)


def from_first(x: jax.Array, mesh: Mesh) -> jax.Array:
    """An array that every process has on its own devices, as the first process of the mesh has it:
    on the devices of all of them, split as it was. Devices send each other their parts alone."""
    (axis,) = (name for name in mesh.axis_names if name not in _names(x))
    spec = x.sharding.spec  # type: ignore[attr-defined]
    stacked = NamedSharding(mesh, P(axis, *spec))
    pieces = [shard.data[None] for shard in x.addressable_shards]
    shape = (mesh.shape[axis], *x.shape)
    versions = jax.make_array_from_single_device_arrays(shape, stacked, pieces)
    return _first(versions, NamedSharding(mesh, spec))


@functools.partial(jax.jit, static_argnums=1)
def _first(versions: jax.Array, place: NamedSharding) -> jax.Array:
    return jax.lax.with_sharding_constraint(versions[0], place)


def _names(x: jax.Array) -> set[str]:
    """The axes of a mesh along which an array is split."""
    spec = x.sharding.spec  # type: ignore[attr-defined]
    return {name for entry in spec for name in _names_of_entry(entry)}


def _names_of_entry(entry: Any) -> tuple[str, ...]:
    """The axes of a mesh along which one axis of an array is split.

    >>> _names_of_entry(None), _names_of_entry("data"), _names_of_entry(("data", "topics"))
    ((), ('data',), ('data', 'topics'))
    """
    if entry is None:
        return ()
    if isinstance(entry, str):
        return (entry,)
    return entry


def _part_of_spec(spec: P, names: Collection[str]) -> P:
    """The split along some of its axes of a mesh.

    >>> tuple(_part_of_spec(P("data", "topics"), {"data"}))
    ('data', None)
    >>> tuple(_part_of_spec(P(("data", "topics")), {"data"}))
    ('data',)
    """
    entries: list[Any] = []
    for entry in spec:
        axes = [name for name in _names_of_entry(entry) if name in names]
        if len(axes) > 1:
            entries.append(tuple(axes))
        else:
            entries.append(next(iter(axes), None))
    return P(*entries)


def _split_axis(x: jax.Array) -> str:
    """The one axis of a mesh along which an array is split."""
    (name,) = _names(x)
    return name


class Rows:
    """A table whose rows are split over several processes.

    `numpy.asarray` gathers it in pieces; all processes must call it together. `gathered` does the
    same if only process 0 wants the table."""

    def __init__(self, array: jax.Array, axis: int, length: int):
        self.array = array
        self.axis = axis
        self.length = length

    @classmethod
    def from_array(cls, array: jax.Array) -> Rows:
        """The rows along the one axis that is split."""
        axis = next(i for i, name in enumerate(array.sharding.spec) if name is not None)  # type: ignore[attr-defined]
        return cls(array, axis, array.shape[axis])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole table, without padding."""
        return (*self.array.shape[: self.axis], self.length, *self.array.shape[self.axis + 1 :])

    @property
    def dtype(self) -> np.dtype:
        """The type of its numbers."""
        return self.array.dtype

    def first(self, length: int) -> Rows:
        """The first rows; the rows after them are padding."""
        return Rows(self.array, self.axis, length)

    def __getitem__(self, run: Any) -> Rows:
        """The rows of one run, where runs are stacked along a leading axis."""
        mesh = self.array.sharding.mesh  # type: ignore[attr-defined]
        name = _split_axis(self.array)
        place = NamedSharding(mesh, P(*(None,) * (self.axis - 1), name))
        return Rows(_reshard(self.array[run], place), self.axis - 1, self.length)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, in every process."""
        table = np.empty(self.array.shape, self.dtype)
        rows = np.moveaxis(table, self.axis, 0)
        for start, piece in self.pieces():
            block = np.moveaxis(piece, self.axis, 0)
            rows[start : start + len(block)] = block
        table = np.moveaxis(rows[: self.length], 0, self.axis)
        return np.ascontiguousarray(table if dtype is None else table.astype(dtype))

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """Pairs of a first row and the rows from it on, in every process, until all rows have come;
        the table is never whole."""
        mesh = self.array.sharding.mesh  # type: ignore[attr-defined]
        name = _split_axis(self.array)
        num_rows = self.array.shape[self.axis]
        per_device = num_rows // mesh.shape[name]
        row_bytes = max(1, self.array.nbytes // num_rows * mesh.shape[name])
        size = max(1, min(per_device, PIECE // row_bytes))
        for first in range(0, per_device, size):
            start = min(first, per_device - size)
            piece = _piece(self.array, np.int32(start), size, self.axis, mesh, name)
            for device, block in enumerate(np.asarray(piece.addressable_data(0))):
                yield device * per_device + start, block


@functools.partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _piece(
    x: jax.Array, start: jax.Array, size: int, axis: int, mesh: Mesh, name: str
) -> jax.Array:
    """`size` rows of each part, from its row `start` on: of shape (parts, ..., size, ...)."""

    def gather(x: jax.Array, start: jax.Array) -> jax.Array:
        return jax.lax.all_gather(jax.lax.dynamic_slice_in_dim(x, start, size, axis), name)

    split = P(*(None,) * axis, name)
    program = jax.shard_map(
        gather, mesh=mesh, in_specs=(split, P()), out_specs=P(), check_vma=False
    )
    return program(x, start)


def gathered(tree: Any) -> Any:
    """A tree with its tables whole in process 0 and None in the other processes. All processes must
    call it."""
    is_first = jax.process_index() == 0

    def gather(x: Any) -> Any:
        if not isinstance(x, Rows):
            return x
        if is_first:
            return np.asarray(x)
        for _ in x.pieces():
            pass
        return None

    return jax.tree.map(gather, tree)
