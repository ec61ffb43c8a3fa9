"""Messages of parts in slices: each device keeps some entries of every message, of all parts.

A message is as large as the globals, and there is one for each part of the data. Sums and
differences of messages are entry by entry, so that a device may keep any entries. A step gathers
the arrays that it needs whole: the message of the visited part, the globals at its last visit, and
the sum over parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from vijax import tree
from vijax.families import Product
from vijax.inference.messages import Parts, Table, by_part


@dataclasses.dataclass(frozen=True)
class Slices(Table):
    """A table of B arrays: each device along an axis has n entries of each, (B, n), padded."""

    axis: str

    def read(self, array: Float[Array, "B n"], index: Int[Array, ""], like: Array) -> Array:
        """See `Table`."""
        return self._gather(array[index], like)

    def put(
        self, array: Float[Array, "B n"], index: Int[Array, ""], part: Array
    ) -> Float[Array, "B n"]:
        """See `Table`."""
        size = array.shape[1]
        row = jnp.pad(jnp.ravel(part), (0, size * jax.lax.axis_size(self.axis) - part.size))
        piece = jax.lax.dynamic_slice_in_dim(row, size * jax.lax.axis_index(self.axis), size)
        return super().put(array, index, piece)

    def sum(self, array: Float[Array, "B n"], like: Array) -> Array:
        """See `Table`."""
        return self._gather(jnp.sum(array, 0), like)

    def _gather(self, piece: Float[Array, " n"], like: Array) -> Array:
        row = jax.lax.all_gather(piece, self.axis, tiled=True)
        return row[: like.size].reshape(like.shape)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitByPart(by_part):
    """`vijax.messages.by_part` with its messages in slices along an axis."""

    axis: str

    @property
    def table(self) -> Table:
        """See `by_part`."""
        return Slices(self.axis)


def table_places(parts: Parts, split: Any, replicated: Any) -> Parts:
    """The places of the arrays of a memory: `split` for its tables, `replicated` for the others."""
    places = jax.tree.map(lambda _: replicated, parts)
    return _map_tables(lambda _: split, places)


def slice_tables(parts: Parts, num_devices: int, lead: int) -> Parts:
    """A memory whose tables are rows of entries, padded to a multiple of the number of devices;
    `lead` is 1 if the memory stacks several runs."""

    def to_rows(table: Any) -> Any:
        if np.ndim(table) == lead + 2 and np.shape(table)[-1] % num_devices == 0:
            return table  # already sliced, as at all chunks but the first
        rows = np.asarray(table).reshape(*np.shape(table)[: lead + 1], -1)
        return np.pad(rows, [(0, 0)] * (lead + 1) + [(0, -rows.shape[-1] % num_devices)])

    return _map_tables(to_rows, parts)


def join_slices(parts: Parts, like: Product, lead: int) -> Parts:
    """The inverse of `slice_tables`, on the host; `like` are the globals of the run or runs."""

    def to_table(rows: Any, x: Any) -> np.ndarray:
        size = int(np.prod(np.shape(x)[lead:]))
        shape = *np.shape(rows)[: lead + 1], *np.shape(x)[lead:]
        return np.asarray(rows)[..., :size].reshape(*shape)

    return jax.tree.map(np.asarray, _map_tables(to_table, parts, like))


def _map_tables(change: Callable[..., Any], parts: Parts, *trees: Product) -> Parts:
    """A memory with its tables changed, array by array."""
    change_all = lambda x: tree.apply(change, x, *trees)
    natural = change_all(parts.natural)
    last = parts.visited_at
    return parts._replace(natural=natural, visited_at=None if last is None else change_all(last))
