"""Files of a run: written wholly or not at all, and never through a symbolic link.

A run folder may come from somebody else, and a link in it must not lead a write to another place.
So a file is written under a new name, and then replaces whatever has its name: a link itself, not
the file that it points to."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vijax.memory import free_bytes, size_text

NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
PERMISSIONS = 0o666  # less the user's umask


def write_atomically(target: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Writes a file by `write`, wholly and durably or not at all; a link at `target` is replaced.
    Raises OSError: it could not be written; a file that was at `target` before is as it was."""
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
    """Writes arrays as .npz, as `write_atomically` does. It never pickles: NumPy before 2.2 cannot
    be told not to. Raises TypeError: an array of Python objects."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise TypeError(
                f"{name} holds Python objects, which no file takes: make it numbers or text"
            )
    write_atomically(target, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


DEFLATED = 1032
"""Bytes that one byte of packed data can become, at most: what deflate can do."""
MOST_EMPTY = 1_000_000
"""The most rows, columns and the like of an array without any number."""


def check_declared_sizes(file: BinaryIO) -> None:
    """Looks at what the headers of a .npy or .npz say, before memory is taken for it; the file is
    then at its start.

    Raises:
      ValueError: an array is said to be larger than what is in the file.
      MemoryError: the arrays are larger than the memory that is free.
    """
    file.seek(0)
    if file.read(6) == np.lib.format.MAGIC_PREFIX:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        total = _declared_size(file, size, "the array")
    else:
        file.seek(0)
        with zipfile.ZipFile(file) as parts:
            total = sum(_declared_part(parts, part) for part in parts.infolist())
    if total > free_bytes():
        raise MemoryError(
            f"its arrays take {size_text(total)}, and {size_text(free_bytes())} are free"
        )
    file.seek(0)


def _declared_part(parts: zipfile.ZipFile, part: zipfile.ZipInfo) -> int:
    most = part.file_size
    if part.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        most = min(most, DEFLATED * part.compress_size + DEFLATED)
    with parts.open(part) as file:
        return _declared_size(file, most, f"the array {part.filename.removesuffix('.npy')!r}")


def _declared_size(file: Any, most: int, name: str) -> int:
    """The bytes of an array by its header; a file that is no array is read as bytes, or refused, by
    others."""
    if file.read(6) != np.lib.format.MAGIC_PREFIX:
        return most
    is_first_version = (
        file.read(2) == b"\1\0"
    )  # the others differ in how names of fields are written
    read_header = (
        np.lib.format.read_array_header_1_0
        if is_first_version
        else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read_header(file)
    if any(length < 0 for length in shape):
        raise ValueError(f"{name} is said to have the shape {shape}")
    number = math.prod(shape)
    size = number * dtype.itemsize
    if size > most or (size == 0 and math.prod(max(length, 1) for length in shape) > MOST_EMPTY):
        raise ValueError(
            f"{name} is said to have the shape {shape} and the type {dtype}, {size_text(size)}, "
            "where the file holds "
            f"{size_text(most)} at most"
        )
    return size


def storable(dtype: np.dtype) -> np.dtype:
    """Unsigned integers for types that are not NumPy's own, such as bfloat16, which .npz would not
    restore."""
    return dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")


def checksum(array: np.ndarray) -> str:
    """The SHA-256 of an array's numbers."""
    return hashlib.sha256(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data).hexdigest()


def write_text(target: Path, text: str) -> None:
    r"""Writes a text in UTF-8, as `write_atomically` does. Half a surrogate pair (a cut emoji of a
    JSON file, a byte of a file name), which UTF-8 lacks, is written as JSON writes it, `\ud83d`: no
    run is lost for a letter of a title."""
    write_atomically(
        target, lambda file: file.write(text.encode("utf-8", errors="backslashreplace"))
    )


def open_to_append(path: Path) -> int:
    """Opens a file to append to; returns its descriptor. Raises OSError: it cannot be opened, or is
    a link."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINK, PERMISSIONS)


def own_folder(path: Path) -> Path:
    """Returns the folder, which is made if it is missing. Raises OSError: it cannot be made, or is
    a link to another one."""
    if path.is_symlink():
        raise OSError(
            f"{path} is a link to another folder, and a run writes into its own folder only; "
            "remove the link"
        )
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
