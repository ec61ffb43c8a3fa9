"""Files of a run: written wholly or not at all, and never through a symbolic link.

A run folder may come from somebody else, and a link in it must not lead a write to another place. So a file is written
under a new name, and then replaces whatever has its name: a link itself, not the file that it points to.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
PERMISSIONS = 0o666  # less the user's umask


def write_atomically(target: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Writes a file by `write`, wholly and durably or not at all; a link at `target` is replaced. Raises OSError: it
    could not be written; a file that was at `target` before is as it was."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # of a process of the same number that was killed
        with os.fdopen(_create(temporary), "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def write_arrays(target: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays as .npz, as `write_atomically` does. It never pickles: NumPy before 2.2 cannot be told not to.
    Raises TypeError: an array of Python objects."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise TypeError(f"{name} holds Python objects, which no file takes: make it numbers or text")
    write_atomically(target, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def storable(dtype: np.dtype) -> np.dtype:
    """Unsigned integers for types that are not NumPy's own, such as bfloat16, which .npz would not restore."""
    return dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")


def checksum(array: np.ndarray) -> str:
    """The SHA-256 of an array's numbers."""
    return hashlib.sha256(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data).hexdigest()


def write_text(target: Path, text: str) -> None:
    r"""Writes a text in UTF-8, as `write_atomically` does. Half a surrogate pair (a cut emoji of a JSON file, a byte of
    a file name), which UTF-8 lacks, is written as JSON writes it, `\ud83d`: no run is lost for a letter of a title.
    """
    write_atomically(target, lambda file: file.write(text.encode("utf-8", errors="backslashreplace")))


def open_to_append(path: Path) -> int:
    """Opens a file to append to; returns its descriptor. Raises OSError: it cannot be opened, or is a link."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINK, PERMISSIONS)


def own_folder(path: Path) -> Path:
    """Returns the folder, which is made if it is missing. Raises OSError: it cannot be made, or is a link to another
    one."""
    if path.is_symlink():
        raise OSError(f"{path} is a link to another folder, and a run writes into its own folder only; remove the link")
    path.mkdir(parents=True, exist_ok=True)
    return path


def remove_leftovers(folder: Path) -> None:
    """Removes the temporary files of a writer that was killed."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, PERMISSIONS)


def _sync_folder(folder: Path) -> None:
    """Makes a rename durable, on systems that can open a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
