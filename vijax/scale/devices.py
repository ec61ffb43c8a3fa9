"""Meshes of the devices of this process, and the one axis along which a batch is split."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from vijax.checks import require, require_integers

DATA = "data"


def mesh(num_devices: int | None = None) -> Mesh:
    """A mesh of some of this process's devices, for `vijax.fit(..., mesh=)`.

    Args:
      num_devices: number of devices; None takes all.

    Raises:
      ValueError: there are fewer.

    >>> mesh(1).axis_names
    ('data',)
    """
    devices = jax.local_devices()
    count = len(devices) if num_devices is None else num_devices
    require_integers(devices=count)
    remedy = "On a CPU set XLA_FLAGS=--xla_force_host_platform_device_count=8 before JAX starts, for eight."
    require(count <= len(devices), "devices", f"at most the {len(devices)} of this process", count, remedy)
    return Mesh(np.array(devices[:count]), (DATA,), axis_types=(AxisType.Auto,))


def checked(given: Mesh) -> tuple[Mesh, str]:
    """The mesh with an axis that steps may split along, and the name of that axis.

    Raises:
      ValueError: no mesh, one of other processes' devices, or of two axes with several devices each.
    """
    remedy = "Take vijax.scale.mesh(8), or jax.make_mesh((8,), ('data',))."
    require(isinstance(given, Mesh), "mesh", "a jax.sharding.Mesh", type(given).__name__, remedy)
    long = [name for name, size in given.shape.items() if size > 1]
    expected = "one axis with more than one device: all of them split the batch"
    require(len(long) < 2, "mesh", expected, dict(given.shape), remedy)
    here = set(given.devices.flat) <= set(jax.local_devices())
    require(here, "mesh", "devices of this process", "those of others too", "Take jax.local_devices().")
    name = long[0] if long else given.axis_names[0]
    return Mesh(given.devices.reshape(-1), (name,), axis_types=(AxisType.Auto,)), name
