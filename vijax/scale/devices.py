"""Meshes of devices: the axis along which a batch is split, and the axis of topics."""

from __future__ import annotations

import collections
import math
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from vijax.checks import require, require_integers

DATA = "data"
TOPICS = "topics"


def mesh(num_devices: int | None = None, *, data: int | None = None, topics: int = 1) -> Mesh:
    """A mesh of the devices of this process, or of all processes after `vijax.scale.initialize`;
    for `vijax.fit(..., mesh=)`.

    Args:
      num_devices: number of devices of each process; None takes all, or data x topics.
      data: parts into which each process splits its share of a batch; None takes num_devices /
        topics.
      topics: parts into which the topics are split, for tables that one device cannot hold. Each
        process has all parts.

    Raises:
      ValueError: a process has fewer devices, or they are not data x topics.

    >>> mesh(1).axis_names
    ('data',)
    """
    by_process = [jax.local_devices(process_index=k) for k in range(jax.process_count())]
    available = min(map(len, by_process))
    require_integers(topics=topics)
    if data is not None:
        require_integers(data=data)
        expected = f"data x topics = {data} x {topics} devices"
        fits = num_devices is None or num_devices == data * topics
        require(fits, "num_devices", expected, num_devices, "Leave it out.")
        num_devices = data * topics
    count = available if num_devices is None else num_devices
    require_integers(devices=count)
    remedy = (
        "On a CPU set XLA_FLAGS=--xla_force_host_platform_device_count=8 before JAX starts, for "
        "eight."
    )
    owner = "this process" if len(by_process) == 1 else "each process"
    expected = f"at most the {available} of {owner}"
    require(count <= available, "devices", expected, count, remedy)
    devices = [device for local_devices in by_process for device in local_devices[:count]]
    if topics == 1:
        return Mesh(np.array(devices), (DATA,), axis_types=(AxisType.Auto,))
    expected = "a divisor of the number of devices"
    remedy = f"Give both numbers of parts: vijax.scale.mesh(data=1, topics={topics})."
    require(count % topics == 0, "topics", expected, f"{topics} of {count}", remedy)
    return _with_topics(np.array(devices).reshape(-1, topics), DATA)


def parse_mesh(text: int | str | None) -> tuple[int | None, int]:
    """Number of devices, and parts of the topics, as a configuration has them: 8, or "2x4" for two
    parts of a batch by four of the topics.

    Raises:
      ValueError: another text.

    >>> parse_mesh("2x4"), parse_mesh(8), parse_mesh(None)
    ((8, 4), (8, 1), (None, 1))
    """
    if text is None:
        return None, 1
    expected = "a number of devices, or parts of the batch by parts of the topics, as 2x4"
    require(is_mesh(text), "devices", expected, repr(text), "Give 8, or 2x4.")
    data, *topics = (int(x) for x in str(text).split("x"))
    return math.prod((data, *topics)), math.prod(topics)


def is_mesh(text: Any) -> bool:
    """True for a number of devices, or a text such as "2x4".

    >>> is_mesh(8), is_mesh("2x4"), is_mesh("2x4x8"), is_mesh(0), is_mesh(True)
    (True, True, False, False, False)
    """
    if isinstance(text, bool) or not isinstance(text, int | str):
        return False
    sizes = str(text).split("x")
    return len(sizes) < 3 and all(x.isascii() and x.isdecimal() and int(x) > 0 for x in sizes)


def _with_topics(devices: np.ndarray, data_axis: str) -> Mesh:
    """The mesh of a table of devices, with a column for each part of the topics."""
    return Mesh(devices, (data_axis, TOPICS), axis_types=(AxisType.Auto,) * 2)


def count_topic_parts(mesh: Mesh) -> int:
    """The number of parts into which a mesh splits topics.

    >>> count_topic_parts(mesh(1))
    1
    """
    return int(mesh.shape.get(TOPICS, 1))


def check_mesh(mesh: Mesh) -> tuple[Mesh, str]:
    """The mesh with one axis, along which steps split a batch, or with an axis of topics after it;
    and the name of the first.

    Raises:
      ValueError: not a mesh, a mesh with several axes of more than one device (beside that of
          topics), with devices of some other processes but not of all, or with topics split over
          processes.
    """
    remedy = (
        "Take vijax.scale.mesh(8), jax.make_mesh((8,), ('data',)), or for topics that one device "
        "cannot hold vijax.scale.mesh(data=2, topics=4)."
    )
    require(isinstance(mesh, Mesh), "mesh", "a jax.sharding.Mesh", type(mesh).__name__, remedy)
    parts = count_topic_parts(mesh)
    names = [name for name in mesh.axis_names if name != TOPICS or parts == 1]
    long = [name for name in names if mesh.shape[name] > 1]
    expected = "one axis with more than one device, which splits the batch, beside one of 'topics'"
    require(len(long) < 2, "mesh", expected, dict(mesh.shape), remedy)
    processes = {device.process_index for device in mesh.devices.flat}
    is_local = processes == {jax.process_index()}
    is_complete = processes == set(range(jax.process_count()))
    require(
        is_local or is_complete,
        "mesh",
        "devices of this process alone, or of every process",
        f"those of processes {sorted(processes)}",
        "Take vijax.scale.mesh().",
    )
    name = (long or names or [DATA])[0]
    if parts > 1:
        devices = np.moveaxis(mesh.devices, mesh.axis_names.index(TOPICS), -1).reshape(-1, parts)
        _require_whole_processes(devices)
        return _with_topics(devices, name), name
    return Mesh(mesh.devices.reshape(-1), (name,), axis_types=(AxisType.Auto,)), name


def _require_whole_processes(devices: np.ndarray) -> None:
    """Raises ValueError if a row of devices, which has all parts of the topics, is of several
    processes, or if some processes have more rows. Topics would go over the network in each
    step."""
    rows = [{device.process_index for device in row} for row in devices]
    expected = "all parts of the topics in each process"
    remedy = "Take vijax.scale.mesh(data=..., topics=...), which counts the devices of a process."
    largest = max(rows, key=len)
    actual = f"topics over processes {sorted(largest)}"
    require(len(largest) == 1, "mesh", expected, actual, remedy)
    counts = collections.Counter(process for row in rows for process in row)
    expected = "as many parts of the batch in each process"
    require(len(set(counts.values())) == 1, "mesh", expected, dict(sorted(counts.items())), remedy)
