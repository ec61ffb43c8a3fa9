"""Arrays on the devices of several processes: put there, and gathered again in pieces of bounded
size."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from vijax.scale.row_files import StoredRows

PIECE = 1 << 26
"""Bytes of a piece, on every device."""


def put(tree: Any, places: Any) -> Any:
    """A tree whose arrays, the same in every process, lie at their places; places may be those of
    whole branches."""
    over = lambda place, part: jax.tree.map(lambda x: _put(x, place), part)
    return jax.tree.map(over, places, tree)


def put_own(tree: Any, places: Any, axis: int) -> Any:
    """As `put`, of arrays of which each process has its own part of the split axis, in the order of
    their numbers."""

    def one(x: Any, place: NamedSharding) -> jax.Array:
        if not any(place.spec):
            return _put(x, place)
        size = np.shape(x)[axis] * jax.process_count()
        shape = (*np.shape(x)[:axis], size, *np.shape(x)[axis + 1 :])
        return jax.make_array_from_process_local_data(place, np.asarray(x), shape)

    return jax.tree.map(
        lambda place, part: jax.tree.map(lambda x: one(x, place), part), places, tree
    )


def _put(x: Any, place: NamedSharding) -> jax.Array:
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        return x if x.sharding.is_equivalent_to(place, x.ndim) else _moved(x, place)
    host = x if isinstance(x, StoredRows) else np.asarray(x)
    return jax.make_array_from_callback(host.shape, place, lambda at: host[at])


@functools.partial(jax.jit, static_argnums=1)
def _moved(x: jax.Array, place: NamedSharding) -> jax.Array:
    return jax.lax.with_sharding_constraint(x, place)


def local(x: Any) -> Any:
    """An array of this process: itself where it is whole in every process, else `Rows`, which can
    be gathered."""
    if not isinstance(x, jax.Array) or x.is_fully_addressable:
        return x
    return x.addressable_data(0) if x.is_fully_replicated else Rows.of(x)


class Rows:
    """A table whose rows lie with several processes.

    `numpy.asarray` of it, which all processes have to call together, gathers them in pieces;
    `gathered` also, where only process 0 wants them."""

    def __init__(self, array: jax.Array, axis: int, length: int):
        self.array, self.axis, self.length = array, axis, length

    @classmethod
    def of(cls, array: jax.Array) -> Rows:
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
        """The first rows alone: those after them are padding."""
        return Rows(self.array, self.axis, length)

    def __getitem__(self, run: Any) -> Rows:
        """Those of one of several runs, stacked along a leading axis."""
        mesh, (name,) = self.array.sharding.mesh, self.array.sharding.mesh.axis_names  # type: ignore[attr-defined]
        place = NamedSharding(mesh, P(*(None,) * (self.axis - 1), name))
        return Rows(_moved(self.array[run], place), self.axis - 1, self.length)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, in every process."""
        whole = np.empty(self.array.shape, self.dtype)
        rows = np.moveaxis(whole, self.axis, 0)
        for start, piece in self.pieces():
            rows[start : start + len(piece)] = np.moveaxis(piece, self.axis, 0)
        whole = np.moveaxis(rows[: self.length], 0, self.axis)
        return np.ascontiguousarray(whole if dtype is None else whole.astype(dtype))

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """Some rows and the place of the first, again and again, in every process; the table is
        never whole."""
        mesh, count = self.array.sharding.mesh, self.array.sharding.mesh.size  # type: ignore[attr-defined]
        each = self.array.shape[self.axis] // count
        size = max(
            1, min(each, PIECE // max(1, self.array.nbytes // self.array.shape[self.axis] * count))
        )
        for start in range(0, each, size):
            start = min(start, each - size)
            found = np.asarray(
                _piece(self.array, np.int32(start), size, self.axis, mesh).addressable_data(0)
            )
            for device, piece in enumerate(found):
                yield device * each + start, piece


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _piece(x: jax.Array, start: jax.Array, size: int, axis: int, mesh: Mesh) -> jax.Array:
    """So many rows of each device, from `start` of its own: of shape (devices, ..., size, ...)."""
    (name,) = mesh.axis_names

    def own(x: jax.Array, start: jax.Array) -> jax.Array:
        return jax.lax.all_gather(jax.lax.dynamic_slice_in_dim(x, start, size, axis), name)

    split = P(*(None,) * axis, name)
    return jax.shard_map(own, mesh=mesh, in_specs=(split, P()), out_specs=P(), check_vma=False)(
        x, start
    )


def gathered(tree: Any) -> Any:
    """A tree with its tables whole in process 0; in others without them, for they only take part.
    All call it."""
    first = jax.process_index() == 0

    def one(x: Any) -> Any:
        if not isinstance(x, Rows):
            return x
        if first:
            return np.asarray(x)
        for _ in x.pieces():
            pass
        return None

    return jax.tree.map(one, tree)
