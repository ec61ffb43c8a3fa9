"""Files of a run: written wholly or not at all, and never through a symbolic link.

A run folder may come from somebody else, and a link in it must not lead a write to another place.
So a file is written under a new name, and then replaces whatever has its name: the link itself, not
the file behind it."""

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

    Raises:
      OSError: it could not be written; a former file at `target` is unchanged.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # left by a killed process with the same number
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
    """Writes arrays as .npz, as `write_atomically` does, and never pickles.

    Raises:
      TypeError: an array of Python objects, which NumPy before 2.2 would always pickle.
    """
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise TypeError(
                f"{name} holds Python objects, which no file takes: make it numbers or text"
            )
    write_atomically(target, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


DEFLATED = 1032
"""Bytes that one byte of packed data can become, at most: the limit of deflate."""
MOST_EMPTY = 1_000_000
"""Rows, columns and so on of an array without any number, at most."""


def check_declared_sizes(file: BinaryIO) -> None:
    """Checks the headers of a .npy or .npz before memory is taken for its arrays; the file is then
    at its start.

    Raises:
      ValueError: a header claims an array larger than its data in the file.
      MemoryError: the arrays are larger than the free memory.
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
    limit = part.file_size
    if part.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        limit = min(limit, DEFLATED * part.compress_size + DEFLATED)
    with parts.open(part) as file:
        return _declared_size(file, limit, f"the array {part.filename.removesuffix('.npy')!r}")


def _declared_size(file: Any, limit: int, name: str) -> int:
    """The bytes of an array by its header; `limit` for a file that is no array, which other
    functions read as bytes or refuse."""
    if file.read(6) != np.lib.format.MAGIC_PREFIX:
        return limit
    # Later versions differ in how names of fields are written
    read_header = np.lib.format.read_array_header_2_0
    if file.read(2) == b"\1\0":
        read_header = np.lib.format.read_array_header_1_0
    shape, _, dtype = read_header(file)
    if any(length < 0 for length in shape):
        raise ValueError(f"{name} is said to have the shape {shape}")
    size = math.prod(shape) * dtype.itemsize
    is_too_empty = size == 0 and math.prod(max(length, 1) for length in shape) > MOST_EMPTY
    if size > limit or is_too_empty:
        raise ValueError(
            f"{name} is said to have the shape {shape} and the type {dtype}, {size_text(size)}, "
            f"where the file holds {size_text(limit)} at most"
        )
    return size


def storable(dtype: np.dtype) -> np.dtype:
    """The type itself, or unsigned integers for types that are not NumPy's own, such as bfloat16,
    which .npz would not restore."""
    return dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")


def checksum(array: np.ndarray) -> str:
    """The SHA-256 of an array's numbers."""
    return hashlib.sha256(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data).hexdigest()


def write_text(target: Path, text: str) -> None:
    r"""Writes a text in UTF-8, as `write_atomically` does. UTF-8 lacks half a surrogate pair (a cut
    emoji of a JSON file, a byte of a file name): it is written as in JSON, `\ud83d`, so that no run
    is lost for a letter of a title."""
    encoded = text.encode("utf-8", errors="backslashreplace")
    write_atomically(target, lambda file: file.write(encoded))


def open_to_append(path: Path) -> int:
    """Opens a file to append to; returns its descriptor. Raises OSError if it cannot be opened, or
    is a link."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINK, PERMISSIONS)


def own_folder(path: Path) -> Path:
    """The folder, made if it is missing. Raises OSError if it cannot be made, or is a link."""
    if path.is_symlink():
        raise OSError(
            f"{path} is a link to another folder, and a run writes into its own folder only; "
            "remove the link"
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


def remove_leftovers(folder: Path) -> None:
    """Removes the temporary files of a killed writer."""
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


def local_path(source: Any) -> Path:
    """The path with the user's home folder in place of a leading "~"; a text such as "~ x", which
    names no user, as it is.

    >>> str(local_path("~ x")), local_path("~") == Path.home()
    ('~ x', True)
    """
    path = Path(source)
    try:
        return path.expanduser()
    except RuntimeError:  # there is no such user
        return path
