"""Meshes of devices, and the one axis along which a batch is split."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from vijax.checks import require, require_integers

DATA = "data"


def mesh(num_devices: int | None = None) -> Mesh:
    """A mesh of devices, for `vijax.fit(..., mesh=)`: those of this process, or after
    `vijax.scale.initialize` those of all processes.

    Args:
      num_devices: number of devices of each process; None takes all.

    Raises:
      ValueError: there are fewer.

    >>> mesh(1).axis_names
    ('data',)
    """
    of_each = [jax.local_devices(process_index=k) for k in range(jax.process_count())]
    least = min(map(len, of_each))
    count = least if num_devices is None else num_devices
    require_integers(devices=count)
    remedy = (
        "On a CPU set XLA_FLAGS=--xla_force_host_platform_device_count=8 before JAX starts, for "
        "eight."
    )
    of = "this process" if len(of_each) == 1 else "each process"
    require(count <= least, "devices", f"at most the {least} of {of}", count, remedy)
    devices = [device for own in of_each for device in own[:count]]
    return Mesh(np.array(devices), (DATA,), axis_types=(AxisType.Auto,))


def check_mesh(given: Mesh) -> tuple[Mesh, str]:
    """The mesh with an axis that steps may split along, and the name of that axis.

    Raises:
      ValueError: no mesh, one of some other processes but not of all, or of two axes with several
          devices each.
    """
    remedy = "Take vijax.scale.mesh(8), or jax.make_mesh((8,), ('data',))."
    require(isinstance(given, Mesh), "mesh", "a jax.sharding.Mesh", type(given).__name__, remedy)
    long = [name for name, size in given.shape.items() if size > 1]
    expected = "one axis with more than one device: all of them split the batch"
    require(len(long) < 2, "mesh", expected, dict(given.shape), remedy)
    of = {device.process_index for device in given.devices.flat}
    able = of == {jax.process_index()} or of == set(range(jax.process_count()))
    expected = "devices of this process alone, or of every process"
    require(able, "mesh", expected, f"those of processes {sorted(of)}", "Take vijax.scale.mesh().")
    name = long[0] if long else given.axis_names[0]
    return Mesh(given.devices.reshape(-1), (name,), axis_types=(AxisType.Auto,)), name
