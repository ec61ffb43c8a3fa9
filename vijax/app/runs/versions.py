"""versions.json: what a run began on, and what it was gone on with later."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from vijax.files import write_text

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax")
COMPARED = ("vijax", "python", *PACKAGES, "compiled_esteps")


def write_versions(folder: Path) -> None:
    """Writes what the run begins on."""
    _write(folder, _now() | {"began": time.ctime()})


def note_versions(folder: Path, step: int) -> str:
    """Adds those that a run is gone on with, where they are others than before; a remark about it, or nothing."""
    now, known = _now(), _read(folder)
    if known is None:
        _write(folder, now | {"resumed_at_step": step})
        return f"{folder / 'versions.json'} was missing or damaged: what the run began on is not known any more"
    later = known.get("later")
    before = later[-1] if isinstance(later, list) and later and isinstance(later[-1], dict) else known
    then = {name: before.get(name, now[name]) for name in COMPARED}
    changed = [f"{name} {then[name]} then, {now[name]} now" for name in COMPARED if then[name] != now[name]]
    if not changed:
        return ""
    rest = later if isinstance(later, list) else []
    _write(folder, known | {"later": [*rest, now | {"resumed_at_step": step, "began": time.ctime()}]})
    listed = "; ".join(changed)
    return f"the run was last at work with other versions ({listed}): its numbers may differ in the last digits"


def other_version(folder: Path) -> str:
    """What an error adds where a run was made by another version of vijax; else nothing."""
    made = made_by_another(folder)
    return f" The run {made}: use that version, or fit again." if made else ""


def made_by_another(folder: Path) -> str:
    """That a run was made by another version of vijax; else nothing."""
    from vijax import __version__

    made = (_read(folder) or {}).get("vijax")
    return "" if made in (None, __version__) else f"was made by vijax {str(made)[:40]}, and this is {__version__}"


def _now() -> dict[str, Any]:
    from vijax import __version__
    from vijax.xla import native

    packages = {name: metadata.version(name) for name in PACKAGES}
    machine = {"platform": platform.platform(), "cpus": os.cpu_count(), "devices": [str(d) for d in jax.devices()]}
    kernels = {"compiled_esteps": native.is_installed()}
    return {"vijax": __version__, "python": platform.python_version(), **packages, **kernels, **machine}


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _write(folder: Path, value: dict[str, Any]) -> None:
    write_text(folder / "versions.json", json.dumps(value, indent=1, ensure_ascii=False) + "\n")
