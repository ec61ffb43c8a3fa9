"""The device that computes, in one line for a person."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

import jax


def device_in_use() -> str:
    """Name of the device that computes; where the machine has a GPU or a TPU that JAX does not use,
    also the remedy.

    >>> print(device_in_use().split(":")[0])
    vijax computes on
    """
    devices = jax.devices()
    kinds = sorted({device.device_kind for device in devices})
    said = f"vijax computes on: {len(devices)} x {', '.join(kinds)} (jax {jax.__version__})."
    if devices[0].platform != "cpu":
        return said
    for name, is_there, extra in (("GPU", _has_gpu, "cuda12"), ("TPU", _has_tpu, "tpu")):
        if is_there():
            return (
                f"{said} This machine has a {name}, which jax does not use: run `pip install "
                f'"jax[{extra}]=='
                f'{version("jax")}"`, and restart Python (on Colab: Runtime, Restart session).'
            )
    return said


def _has_gpu() -> bool:
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidia0").exists()


def _has_tpu() -> bool:
    return Path("/dev/accel0").exists()
