"""Folders that go when they are done with, and, where a process was killed before, when the next one comes by.

Such a folder holds a file that its process keeps locked. The lock goes with the process, however that ends, so what is
not locked and not just made is nobody's, and is removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LOCK = ".in-use"
GRACE_SECONDS = 600.0  # younger folders are left: they may not be locked yet
GRACE_SECONDS_WITHOUT_LOCKS = 7 * 86_400.0  # where the system has no locks, age alone tells


def make_working_folder(prefix: str, parent: Path | None = None) -> tuple[Path, Callable[[], None]]:
    """A new folder in `parent` (by default the system's for temporary files), and the function that removes it.

    Folders of the same prefix that killed processes left there are removed.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    remove_leftovers(prefix, parent)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    lock, owner = _lock(folder / LOCK, os.O_CREAT | os.O_EXCL), os.getpid()

    def remove() -> None:
        if os.getpid() != owner:  # a forked child: the folder is its parent's
            return
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            with contextlib.suppress(OSError):
                os.close(lock)

    return folder, remove


@contextlib.contextmanager
def working_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder for the time being; see `make_working_folder`."""
    folder, remove = make_working_folder(prefix, parent)
    try:
        yield folder
    finally:
        remove()


def remove_leftovers(prefix: str, parent: Path) -> None:
    """Removes what killed processes of this user left in `parent`."""
    with contextlib.suppress(OSError):
        for folder in parent.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    status = folder.lstat()
    if not folder.is_dir() or folder.is_symlink() or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        return
    age = time.time() - status.st_mtime
    if age < GRACE_SECONDS:
        return
    if not _has_locks():
        if age > GRACE_SECONDS_WITHOUT_LOCKS:
            shutil.rmtree(folder, ignore_errors=True)
        return
    lock = _lock(folder / LOCK, os.O_CREAT)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _has_locks() -> bool:
    try:
        import fcntl  # noqa: F401
    except ImportError:  # Windows
        return False
    return True


def _lock(path: Path, flags: int) -> int | None:
    """A descriptor that holds the lock of a file; None where another process holds it, or there are no locks."""
    if not _has_locks():
        return None
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of a file, once no other process does; nothing is waited for where the system has no locks."""
    if not _has_locks():
        yield
        return
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        with contextlib.suppress(OSError):  # file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
