"""The lock of a run folder: one process at a time may work in it, from before the data are read to
the end."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from vijax.app.plan.config import ConfigError
from vijax.files import NO_LINK, PERMISSIONS, remove_leftovers

LOCK = ".lock"
BEGINNINGS = frozenset(
    [LOCK, "checkpoints", "vocabulary.txt", "columns.json", "versions.json", "data.json"]
)
"""Files that a run may have left which was killed before its config.toml."""


@contextlib.contextmanager
def claimed(folder: Path | None, name: str) -> Iterator[Path]:
    """A folder for a new run, which no other process can take: the one asked for, or runs/NAME-1,
    -2, ...

    It is removed if the body fails before the run exists (before its config.toml), or on wrong
    input before anything of the run was saved."""
    asked = Path("runs", name) if folder is None else folder
    missing = [path for path in (asked, *asked.absolute().parents) if not path.exists()]
    taken = _numbered(name) if folder is None else _named(folder)
    with locked(taken):
        if not _is_free(taken):
            raise _exists(taken)  # another process ended between the first look and the lock
        try:
            yield taken
        except BaseException as error:
            if _is_free(taken, {"config.toml"} if isinstance(error, ValueError) else frozenset()):
                _clear(taken)
                _remove_empty(missing if folder is not None else [taken, *missing])
            raise


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps a second process off the folder; the lock goes with this process, however that ends."""
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
    try:
        import fcntl
    except ImportError:  # Windows: nobody keeps watch
        return
    busy = ConfigError(f"{folder}: another process is at work on this run; wait for it to end")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy from None
    except OSError:  # a file system without locks: nobody keeps watch
        return
    try:
        same = os.path.samestat(os.fstat(descriptor), os.lstat(folder / LOCK))
    except FileNotFoundError:
        same = False
    if not same:  # the other process gave up, and took its lock away with the folder
        raise busy


def unwritable(folder: Path, error: OSError) -> OSError:
    """The error with its remedy."""
    reason = error.strerror or str(error)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        remedy = (
            f"copy the folder to where you may write, and work on the copy: cp -r {folder} COPY"
        )
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = f"make room; what was saved is kept, and so you can go on: vijax resume {folder}"
    else:
        remedy = "what was saved is kept"
    return OSError(f"{folder} could not be written to ({reason}); {remedy}")


# --- new folders ----------------------------------------------------------------------------------
def _named(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir() or not _is_free(folder):
            raise _exists(folder) from None
    except OSError as error:
        raise OSError(
            f"{folder} could not be made ({error.strerror}); name another folder with --out"
        ) from error
    return folder


def _numbered(name: str) -> Path:
    """runs/NAME-n, with n one above those there are."""
    while True:
        runs = Path("runs")
        taken = [
            path.name.removeprefix(f"{name}-")
            for path in runs.glob("*")
            if path.name.startswith(f"{name}-")
        ]
        folder = runs / f"{name}-{max((int(n) for n in taken if n.isdecimal()), default=0) + 1}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue  # another process was quicker
        except OSError as error:
            raise OSError(
                f"{folder} could not be made ({error.strerror}); name a folder with --out"
            ) from error
        return folder


def _is_free(folder: Path, more: Set[str] = frozenset()) -> bool:
    """True for an empty folder, or one with only the files (and `more`) of a run that was killed
    while it began."""
    names = {path.name for path in folder.iterdir()}
    if LOCK not in names:
        return not names
    known = {name for name in names if name.endswith(".tmp")} | BEGINNINGS | more
    return names <= known and not any((folder / "checkpoints").glob("step_*"))


def _exists(folder: Path) -> ConfigError:
    return ConfigError(
        f"{folder} exists: name another folder with --out, or go on with it: vijax resume {folder}"
    )


def _clear(folder: Path) -> None:
    """Removes the files of a run that was beginning."""
    _remove_empty([folder / "checkpoints"])
    with contextlib.suppress(OSError):  # the first error says more
        remove_leftovers(folder)
        for name in ("config.toml", *sorted(BEGINNINGS - {"checkpoints"})):
            (folder / name).unlink(missing_ok=True)


def _remove_empty(folders: Sequence[Path]) -> None:
    """Removes the empty ones among folders, innermost first."""
    for path in folders:
        with contextlib.suppress(OSError):
            path.rmdir()
