"""Opening files, plain or gzipped, with errors that name the file and the place."""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from vijax.data.checks import fail

GZIP_MAGIC = b"\x1f\x8b"


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedIOBase]:
    """The bytes of a file, unpacked when it is gzipped (whatever its name).

    Raises:
      ValueError: it cannot be opened, or its gzip data ends early or is damaged.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
        with gzip.open(path) if packed else path.open("rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise fail(path, "whole gzip data", f"a truncated or damaged file ({error})", "fetch the file again") from error
    except OSError as error:
        remedy = "check the path and that you may read it"
        raise fail(path, "a readable file", error.strerror or str(error), remedy) from error


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a text file without their ends, one at a time.

    Raises:
      ValueError: as `open_bytes`, or a byte is not of the encoding; the message holds its offset in the file.
    """
    with open_bytes(path) as file:
        offset = 0
        for number, line in enumerate(file, 1):
            yield decode(line, path, encoding, offset, number).rstrip("\r\n")
            offset += len(line)


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """A whole text file; errors as for `read_lines`."""
    with open_bytes(path) as file:
        return decode(file.read(), path, encoding)


def decode(data: bytes, path: Path, encoding: str, offset: int = 0, line: int | None = None) -> str:
    """`data`, which begins at byte `offset` (and line `line`) of `path`, as text; a byte order mark goes."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        place, bad = offset + error.start, data[error.start : error.start + 4]
        where = f"{path}:{line}" if line else path
        remedy = "pass the encoding the file was written in, such as encoding='latin-1' or 'cp1252'"
        raise fail(where, f"{encoding} text", f"the bytes {bad!r} at byte offset {place}", remedy) from error
    except LookupError as error:
        raise fail("encoding", "an encoding Python knows", repr(encoding), "pass 'utf-8' or 'latin-1', say") from error
    return text.removeprefix("\ufeff") if offset == 0 else text


def read_vocabulary(vocabulary: str | Path | Sequence[str] | None, *beside: Path) -> tuple[str, ...] | None:
    """A vocabulary given as words or as a file of one word per line; None means the first of `beside` that exists."""
    if vocabulary is None:
        vocabulary = next((path for path in beside if path.is_file()), None)
    if vocabulary is None or not isinstance(vocabulary, str | Path):
        return vocabulary if vocabulary is None else tuple(vocabulary)
    return tuple(read_lines(Path(vocabulary)))
