"""The device that computes, in one line for a person."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

import jax


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
