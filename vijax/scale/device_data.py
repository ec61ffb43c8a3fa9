"""Data that lie on the devices of a fit, where batches are gathered: put there once, if they take
no more than a share of the memory."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vijax.contract.batch import Minibatch
from vijax.data.table_batches import Picks, Table, TableBatches, table_batches
from vijax.memory import free_bytes, size_text
from vijax.xla.compiler import step_jit

SWITCH = "VIJAX_DATA_SHARE"
"""The environment variable with the share of a device's free memory that data may take; 0: none."""
SHARE = 0.5
"""The usual share, on accelerators."""
USUAL_SHARES = {"cpu": 0.0}
"""Other usual shares. What a CPU computes with is in memory already."""
TABLES = 15
"""This many times the memory of the state is kept for a step. Steps of topics need half of it at
most (docs/scaling.md); what other models need was not measured."""
PIECE = 1 << 26
"""Bytes that are put on a device together."""


@dataclasses.dataclass(frozen=True)
class DeviceData:
    """The data of a fit on its devices.

    Attributes:
      source: the data and the batches of the loader.
      placement: see `vijax.scale.place`.
      num_groups: N.
      tables: the tables of `source`, as arrays on the devices.
      gather: (tables, picks, N) -> batches on the devices, stacked as the picks are.
      sentence: their size, for people.
    """

    source: TableBatches
    placement: Any
    num_groups: int
    tables: Sequence[PyTree]
    gather: Callable[[Sequence[PyTree], Picks, Any], Minibatch]
    sentence: str

    def picks(self, start: int, stop: int) -> Iterator[Picks]:
        """The picks of the batches of these steps."""
        return self.source.picks(start, stop)

    def batches(self, picks: Picks) -> Minibatch:
        """The batches of picks on the host, stacked as these are."""
        on_device = self.placement.put_picks(picks, self.num_groups)
        return self.gather(self.tables, on_device, np.int32(self.num_groups))


def put_data(loader: Any, placement: Any, state: Any, num_steps: int) -> DeviceData | None:
    """The data of a loader on the devices of a placement; None where the batches come from the
    host: the loader's batches are not rows of its data, the run is shorter than a pass, or the data
    take more than their share of the memory.

    Args:
      loader: the loader, before `placement.adapt_loader`.
      placement: see `vijax.scale.place`.
      state: the state of the run.
      num_steps: steps that the run will take.
    """
    devices = placement.devices
    share = _share(devices)
    if not share or loader.steps_per_epoch == 1 or num_steps < loader.steps_per_epoch:
        return None
    source = table_batches(loader)
    if source is None:
        return None
    room = int(share * max(0, _free_bytes(devices) - TABLES * _state_bytes(state)))
    size = source.num_bytes
    most_rows = max(table.num_rows for table in source.tables)
    if size > room or most_rows > np.iinfo(np.int32).max:
        return None
    tables = [_put_table(table, placement.table_place) for table in source.tables]
    sentence = (
        f"The data lie on {_devices_text(len(devices))} ({size_text(size)}, where they may take "
        f"{size_text(room)}) and batches are gathered there."
    )
    program = gather_program(source.gather, placement.batch_places)
    return DeviceData(source, placement, loader.num_groups, tables, program, sentence)


@functools.lru_cache(maxsize=16)
def gather_program(
    gather: Callable[..., Minibatch], places: Any
) -> Callable[[Sequence[PyTree], Picks, Any], Minibatch]:
    """The compiled function that gathers batches. `places` are their shardings, None for one
    device."""
    if places is None:
        return step_jit(gather)
    return step_jit(gather, out_shardings=places)


# --- how much -------------------------------------------------------------------------------------
def _share(devices: Sequence[Any]) -> float:
    """The share of the free memory that data may take.

    Raises:
      ValueError: the environment variable is no such share.
    """
    text = os.environ.get(SWITCH, "").strip()
    if not text:
        return USUAL_SHARES.get(devices[0].platform, SHARE)
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share < 1:
        raise ValueError(
            f"{SWITCH}: expected a share of the device's free memory, from 0 (data stay on the "
            f"host) to below 1, got {text!r}. The usual share is {SHARE}."
        )
    return share


def _free_bytes(devices: Sequence[Any]) -> int:
    """The free memory of the device that has least; devices of a CPU share that of the machine."""
    local = [device for device in devices if device.process_index == jax.process_index()]
    stats = [device.memory_stats() or {} for device in local]
    sizes = [x["bytes_limit"] - x.get("bytes_in_use", 0) for x in stats if "bytes_limit" in x]
    return min(sizes, default=free_bytes() // len(local))


def _state_bytes(state: Any) -> int:
    """Bytes of the globals and the points of a state on a device."""
    runs = getattr(state, "states", state)
    return sum(map(_device_bytes, jax.tree.leaves(runs._replace(local=None, beside=None))))


def _devices_text(number: int) -> str:
    if number == 1:
        return "the device"
    return f"each of {number} devices"


def _device_bytes(x: Any) -> int:
    if not isinstance(x, jax.Array):
        return np.asarray(x).nbytes
    return math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize


# --- putting --------------------------------------------------------------------------------------
def _put_table(table: Table, place: Any) -> PyTree:
    """A table on the devices, copied by pieces of one size: neither host nor device holds it
    twice."""
    size = min(table.num_rows, max(1, PIECE // max(1, table.row_bytes)))
    first_piece = table.read(0, size)
    if size == table.num_rows:
        return jax.device_put(first_piece, place)
    shapes = jax.tree.map(lambda x: (table.num_rows, *x.shape[1:]), first_piece)
    kinds = jax.tree.map(lambda x: jax.dtypes.canonicalize_dtype(x.dtype), first_piece)
    make = lambda: jax.tree.map(jnp.zeros, shapes, kinds, is_leaf=_is_shape)
    write = jax.jit(_write, donate_argnums=0, out_shardings=place)
    arrays = write(jax.jit(make, out_shardings=place)(), jax.device_put(first_piece, place), 0)
    for first in range(size, table.num_rows, size):
        first = min(first, table.num_rows - size)  # the last pieces overlap
        arrays = write(arrays, jax.device_put(table.read(first, first + size), place), first)
    return arrays


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple) and all(isinstance(length, int) for length in x)


def _write(arrays: PyTree, piece: PyTree, first: Any) -> PyTree:
    put = lambda x, rows: jax.lax.dynamic_update_slice_in_dim(x, rows, first, 0)
    return jax.tree.map(put, arrays, piece)
