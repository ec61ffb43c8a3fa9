"""The lock of a run folder: one process at a time works in it, from reading the data to the end."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from vijax.app.plan.config import ConfigError
from vijax.app.settings.quoting import quote
from vijax.files import NO_LINK, PERMISSIONS, remove_leftovers

LOCK = ".lock"
BEGINNINGS = frozenset(
    [LOCK, "checkpoints", "vocabulary.txt", "columns.json", "versions.json", "data.json"]
)
"""Files that a run may leave if it is killed before it writes config.toml."""


@contextlib.contextmanager
def claim_folder(folder: Path | None, name: str) -> Iterator[Path]:
    """A folder for a new run that no other process can take: the one that `folder` names, or
    runs/NAME-1, -2, ...

    The folder is removed again if the body fails before the run exists (before its config.toml), or
    because of wrong input before anything of the run was saved.
    """
    wanted = Path("runs", name) if folder is None else folder
    absent = [path for path in (wanted, *wanted.absolute().parents) if not path.exists()]
    claimed = _make_numbered_folder(name) if folder is None else _make_folder(folder)
    empty = absent if folder is not None else [claimed, *absent]
    has_lock = False
    try:
        with hold_lock(claimed):
            if not _is_unused(claimed):
                raise _exists(claimed)  # another process ended between the first look and the lock
            try:
                yield claimed
            except BaseException as error:
                # Wrong input (ValueError) may come after config.toml was written.
                removable = {"config.toml"} if isinstance(error, ValueError) else frozenset()
                if _is_unused(claimed, removable):
                    has_lock = _clear(claimed)
                    _remove_empty(empty)
                raise
    finally:
        if has_lock:  # Windows removes no file that is open
            with contextlib.suppress(OSError):
                (claimed / LOCK).unlink()
            _remove_empty(empty)


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Keeps other processes off the folder; the lock ends with this process, however that ends."""
    descriptor = _open_lock(folder)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _open_lock(folder: Path) -> int:
    try:
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | NO_LINK, PERMISSIONS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(
                f"{folder / LOCK} is a link, which vijax never makes; remove it"
            ) from error
        raise unwritable(folder, error) from error


def _lock(descriptor: int, folder: Path) -> None:
    busy_error = ConfigError(
        f"{folder}: another process is at work on this run; wait for it to end"
    )
    try:
        _lock_file(descriptor)
    except (BlockingIOError, PermissionError):
        raise busy_error from None
    except OSError:  # a file system without locks
        return
    try:
        is_same_lock = os.path.samestat(os.fstat(descriptor), os.lstat(folder / LOCK))
    except FileNotFoundError:
        is_same_lock = False
    if not is_same_lock:  # the other process gave up, and took its lock away with the folder
        raise busy_error


def _lock_file(descriptor: int) -> None:
    """Locks the file until it is closed.

    Raises:
      BlockingIOError: another process has locked it; on Windows a PermissionError.
      OSError: the file system has no locks.
    """
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:
        windows = importlib.import_module("msvcrt")
        windows.locking(descriptor, windows.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unwritable(folder: Path, error: OSError) -> OSError:
    """The error with its remedy."""
    reason = error.strerror or str(error)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        remedy = (
            f"copy the folder to where you may write, and work on the copy: cp -r {folder} COPY"
        )
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = (
            f"make room; what was saved is kept, and so you can go on: vijax resume {quote(folder)}"
        )
    else:
        remedy = "what was saved is kept"
    return OSError(f"{folder} could not be written to ({reason}); {remedy}")


# --- new folders ----------------------------------------------------------------------------------
def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir() or not _is_unused(folder):
            raise _exists(folder) from None
    except OSError as error:
        raise OSError(
            f"{folder} could not be made ({error.strerror}); name another folder with --out"
        ) from error
    return folder


def _make_numbered_folder(name: str) -> Path:
    """Makes runs/NAME-n, with n one above the largest number in use."""
    while True:
        runs = Path("runs")
        names = [path.name for path in runs.glob("*") if path.name.startswith(f"{name}-")]
        endings = [existing.removeprefix(f"{name}-") for existing in names]
        numbers = [int(ending) for ending in endings if ending.isdecimal()]
        folder = runs / f"{name}-{max(numbers, default=0) + 1}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue  # another process was quicker
        except OSError as error:
            raise OSError(
                f"{folder} could not be made ({error.strerror}); name a folder with --out"
            ) from error
        return folder


def _is_unused(folder: Path, more: Set[str] = frozenset()) -> bool:
    """True for an empty folder, or if it only has files (or `more`) of a run killed as it began."""
    names = {path.name for path in folder.iterdir()}
    if LOCK not in names:
        return not names
    allowed = {name for name in names if name.endswith(".tmp")} | BEGINNINGS | more
    return names <= allowed and not any((folder / "checkpoints").glob("step_*"))


def _exists(folder: Path) -> ConfigError:
    return ConfigError(
        f"{folder} exists: name another folder with --out, or go on with it: vijax resume "
        f"{quote(folder)}"
    )


def _clear(folder: Path) -> bool:
    """Removes the files of a run that did not begin; True if its lock could not be removed."""
    _remove_empty([folder / "checkpoints"])
    for name in ("config.toml", *sorted(BEGINNINGS - {"checkpoints", LOCK}), LOCK):
        with contextlib.suppress(OSError):  # the first error says more
            remove_leftovers(folder)
            (folder / name).unlink(missing_ok=True)
    return (folder / LOCK).exists()


def _remove_empty(folders: Sequence[Path]) -> None:
    """Removes those folders that are empty, innermost first."""
    for path in folders:
        with contextlib.suppress(OSError):
            path.rmdir()
