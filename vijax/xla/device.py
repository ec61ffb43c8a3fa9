"""The device that computes, in a line for a person; and the parts into which XLA splits arrays."""

from __future__ import annotations

import math
import shutil
from importlib.metadata import version
from pathlib import Path

import jax
from jax.sharding import AxisType, PartitionSpec


def device_in_use() -> str:
    """The name of the device that computes; and the remedy, if the machine has a GPU or a TPU that
    JAX does not use.

    >>> print(device_in_use().split(":")[0])
    vijax computes on
    """
    devices = jax.devices()
    kinds = sorted({device.device_kind for device in devices})
    text = f"vijax computes on: {len(devices)} x {', '.join(kinds)} (jax {jax.__version__})."
    if devices[0].platform != "cpu":
        return text
    for name, has_device, extra in (("GPU", _has_gpu, "cuda12"), ("TPU", _has_tpu, "tpu")):
        if has_device():
            command = f'pip install "jax[{extra}]=={version("jax")}"'
            return (
                f"{text} This machine has a {name}, which jax does not use: run `{command}`, and "
                "restart Python (on Colab: Runtime, Restart session)."
            )
    return text


def _has_gpu() -> bool:
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidia0").exists()


def _has_tpu() -> bool:
    return Path("/dev/accel0").exists()


def count_parts() -> int:
    """The number of devices over which XLA splits arrays by itself in the program that is being
    traced: 1, except inside a `jax.shard_map` that leaves an axis to XLA (`vijax.scale.on_mesh`
    of topics).

    >>> count_parts()
    1
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return 1
    sizes = zip(mesh.axis_sizes, mesh.axis_types, strict=True)
    return math.prod(size for size, kind in sizes if kind == AxisType.Auto)


def join_parts(x: jax.Array) -> jax.Array:
    """An array that is whole on each device, where XLA splits arrays (`count_parts`)."""
    if count_parts() == 1:
        return x
    return jax.lax.with_sharding_constraint(x, PartitionSpec())
