"""Messages of parts in slices: each device keeps some entries of every message, of all parts.

A message is as large as the globals, and there is one for each part of the data. Their sums and
differences are entry by entry, so that a device may keep any entries. What is wanted whole is
gathered at each step: the message of the part that is visited, the globals at its last visit, and
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
    """The table of which each device along an axis has a slice, (B, n): entries of one array in a
    row, padded."""

    axis: str

    def at(self, every: Float[Array, "B n"], index: Int[Array, ""], like: Array) -> Array:
        """See `Table`."""
        return self._whole(every[index], like)

    def put(
        self, every: Float[Array, "B n"], index: Int[Array, ""], one: Array
    ) -> Float[Array, "B n"]:
        """See `Table`."""
        size = every.shape[1]
        row = jnp.pad(jnp.ravel(one), (0, size * jax.lax.axis_size(self.axis) - one.size))
        own = jax.lax.dynamic_slice_in_dim(row, size * jax.lax.axis_index(self.axis), size)
        return super().put(every, index, own)

    def sum(self, every: Float[Array, "B n"], like: Array) -> Array:
        """See `Table`."""
        return self._whole(jnp.sum(every, 0), like)

    def _whole(self, own: Float[Array, " n"], like: Array) -> Array:
        row = jax.lax.all_gather(own, self.axis, tiled=True)
        return row[: like.size].reshape(like.shape)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitByPart(by_part):
    """`vijax.messages.by_part`, its messages in slices along an axis."""

    axis: str

    @property
    def table(self) -> Table:
        """See `by_part`."""
        return Slices(self.axis)


def table_places(parts: Parts, split: Any, whole: Any) -> Parts:
    """The places of the arrays of a memory: those of slices, and those of all others."""
    none = jax.tree.map(lambda _: whole, parts)
    return _tables(lambda _: split, none)


def slice_tables(parts: Parts, num_devices: int, lead: int) -> Parts:
    """A memory whose tables are of rows of entries, padded to a multiple of the number of devices;
    `lead` is 1 where it is that of several runs."""

    def one(every: Any) -> Any:
        if np.ndim(every) == lead + 2 and np.shape(every)[-1] % num_devices == 0:
            return every  # it is, as at all chunks but the first
        rows = np.asarray(every).reshape(*np.shape(every)[: lead + 1], -1)
        return np.pad(rows, [(0, 0)] * (lead + 1) + [(0, -rows.shape[-1] % num_devices)])

    return _tables(one, parts)


def join_slices(parts: Parts, like: Product, lead: int) -> Parts:
    """The memory that was sliced, on the host; `like` are the globals of its run or runs."""

    def one(rows: Any, x: Any) -> np.ndarray:
        size = int(np.prod(np.shape(x)[lead:]))
        return np.asarray(rows)[..., :size].reshape(
            *np.shape(rows)[: lead + 1], *np.shape(x)[lead:]
        )

    return jax.tree.map(np.asarray, _tables(one, parts, like))


def _tables(change: Callable[..., Any], parts: Parts, *others: Product) -> Parts:
    """A memory with its tables changed, array by array."""
    changed = lambda x: tree.apply(change, x, *others)
    last = parts.visited_at
    return parts._replace(
        natural=changed(parts.natural), visited_at=None if last is None else changed(last)
    )
