"""Meshes of devices, and the one axis along which a batch is split."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from vijax.checks import require, require_integers

DATA = "data"


def mesh(num_devices: int | None = None) -> Mesh:
    """A mesh of the devices of this process, or of all processes after `vijax.scale.initialize`;
    for `vijax.fit(..., mesh=)`.

    Args:
      num_devices: number of devices of each process; None takes all.

    Raises:
      ValueError: a process has fewer devices.

    >>> mesh(1).axis_names
    ('data',)
    """
    by_process = [jax.local_devices(process_index=k) for k in range(jax.process_count())]
    available = min(map(len, by_process))
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
    return Mesh(np.array(devices), (DATA,), axis_types=(AxisType.Auto,))


def check_mesh(mesh: Mesh) -> tuple[Mesh, str]:
    """The mesh with one axis, along which steps split a batch, and the name of that axis.

    Raises:
      ValueError: not a mesh, a mesh with several axes of more than one device, or with devices of
          some other processes but not of all.
    """
    remedy = "Take vijax.scale.mesh(8), or jax.make_mesh((8,), ('data',))."
    require(isinstance(mesh, Mesh), "mesh", "a jax.sharding.Mesh", type(mesh).__name__, remedy)
    long = [name for name, size in mesh.shape.items() if size > 1]
    expected = "one axis with more than one device: all of them split the batch"
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
    name = long[0] if long else mesh.axis_names[0]
    return Mesh(mesh.devices.reshape(-1), (name,), axis_types=(AxisType.Auto,)), name
