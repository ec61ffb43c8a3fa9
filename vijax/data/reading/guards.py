"""What stands between files and their readers: every error names the file, and says what to do."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

from vijax.data.reading.checks import DataError, fail

SHEETS = (".xlsx", ".xls", ".ods")  # of spreadsheets, which people save as CSV
KINDS = {
    "a file": stat.S_ISREG,
    "a folder": stat.S_ISDIR,
    "a named pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": stat.S_ISCHR,
    "a block device": stat.S_ISBLK,
}


def kind_of(path: Path) -> str:
    """What there is at `path`: one of `KINDS`, or "none".

    Raises:
      DataError: the path can name nothing: it is too long, say, or a link to itself.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "none"
    except (OSError, ValueError) as error:
        where = str(path)[:60] + ("..." if len(str(path)) > 60 else "")
        remedy = "check the path, and that you may read it; to pass the texts themselves, pass a list of them"
        raise fail(where, "a file or folder", _brief(error), remedy) from error
    return next((kind for kind, test in KINDS.items() if test(mode)), "something else")


def check_regular(path: Path) -> None:
    """Raises a DataError unless `path` is a file; a named pipe would be waited for, for ever."""
    kind = kind_of(path)
    if kind == "none":
        raise fail(path, "a readable file", "No such file", "check the path and that you may read it")
    if kind != "a file":
        raise fail(path, "a file", kind, "write what it gives to a file, and name that")


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the data found inside name `path`, where they do not already; so does a want of memory."""
    try:
        yield
    except MemoryError as error:
        got = f"{_size(path)} and no memory left" + (f" ({_brief(error)})" if str(error) else "")
        remedy = "divide it, or write it as text, LDA-C or UCI docword, which are read piece by piece"
        raise fail(path, "data that fit in memory", got, remedy) from error
    except DataError as error:
        if str(path) in str(error):
            raise
        raise DataError(f"{path}: {error}") from error


@contextlib.contextmanager
def parsing(path: Path, expected: str, remedy: str) -> Iterator[None]:
    """Around a call of another library: whatever it raises on damaged bytes becomes one error that names the file."""
    try:
        yield
    except (DataError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise fail(path, expected, f"an unreadable one ({_brief(error)})", remedy) from error


def _brief(error: BaseException) -> str:
    """The first line of an error, without what a terminal would obey."""
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    line = text.splitlines()[0][:200]
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def _size(path: Path) -> str:
    try:
        return f"{path.stat().st_size:,} bytes"
    except OSError:
        return "a file"
