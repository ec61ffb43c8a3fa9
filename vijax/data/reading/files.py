"""Opening files, plain or gzipped, with errors that name the file and the place."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from vijax.data.reading.checks import DataError, fail
from vijax.data.reading.guards import check_regular

GZIP_MAGIC = b"\x1f\x8b"
BLOCK_BYTES = 1 << 20
LINES_BYTES = 1 << 22


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedIOBase]:
    """The bytes of a file, unpacked when it is gzipped (whatever its name).

    Raises:
      DataError: it is no file or cannot be opened, or its gzip data ends early or is damaged.
    """
    check_regular(path)
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
      DataError: as `open_bytes`, or a byte is not of the encoding; the message holds its offset in the file.
    """
    unfinished: list[str] = []
    for text in _decoded(path, encoding):
        first, *others = text.split("\n")
        unfinished.append(first)
        if others:
            yield "".join(unfinished).rstrip("\r")
            yield from (line.rstrip("\r") for line in others[:-1])
            unfinished = others[-1:]
    if last := "".join(unfinished):
        yield last.rstrip("\r")


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """A whole text file; errors as for `read_lines`."""
    return "".join(_decoded(path, encoding, lines=False))


def _decoded(path: Path, encoding: str, lines: bool = True) -> Iterator[str]:
    """The text of a file piece by piece, without a byte order mark.

    Bytes are decoded before lines are told apart: in UTF-16 the byte 0x0A is part of other letters, too.
    """
    decoder = _decoder(encoding)
    with open_bytes(path) as file:
        offset, line = 0, 1
        data = b"more"
        while data:
            data = file.read(BLOCK_BYTES)
            pending = decoder.getstate()[0]
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeError as error:
                raise _undecodable(error, path, encoding, offset - len(pending), line if lines else None) from error
            text = text.removeprefix("\ufeff") if offset == 0 else text
            if "\0" in text:
                where = f"{path}:{line + text[: text.index(chr(0))].count(chr(10))}" if lines else path
                raise fail(where, "text", "the character NUL", _OTHER_ENCODINGS)
            offset += len(data)
            line += text.count("\n")
            yield text


_OTHER_ENCODINGS = "pass the encoding the file was written in, such as encoding='latin-1', 'cp1252' or 'utf-16'"


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        b"text".decode(encoding, "replace")  # refuses what does not give text, such as base64
        return codecs.getincrementaldecoder(encoding)()
    except (LookupError, ValueError) as error:
        raise fail("encoding", "an encoding Python knows", repr(encoding), "pass 'utf-8' or 'latin-1', say") from error


def _undecodable(error: UnicodeError, path: Path, encoding: str, offset: int, line: int | None) -> DataError:
    """The error for bytes that are not of the encoding; those that were decoded begin at byte `offset`, in `line`."""
    if not isinstance(error, UnicodeDecodeError):
        return fail(path, f"{encoding} text", str(error), "pass encoding='utf-16-le' or 'utf-16-be', if it is one")
    before, bad = error.object[: error.start], error.object[error.start : error.start + 4]
    where = f"{path}:{line + before.decode(encoding, 'ignore').count(chr(10))}" if line else path
    remedy = _OTHER_ENCODINGS
    if offset == 0 and error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        remedy = "pass encoding='utf-16', the mark of which the file begins with"
    return fail(where, f"{encoding} text", f"the bytes {bad!r} at byte offset {offset + error.start}", remedy)


def quoted(line: bytes) -> str:
    """The beginning of a line, for messages."""
    return repr(line[:60].decode(errors="replace").strip()) + ("..." if len(line) > 60 else "")


def line_blocks(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of a file some thousands at a time, with the number of the first of them (from 1)."""
    with open_bytes(path) as file:
        number = 1
        while lines := file.readlines(LINES_BYTES):
            yield number, [line.rstrip() for line in lines]
            number += len(lines)


def read_vocabulary(vocabulary: str | Path | Sequence[str] | None, *beside: Path) -> tuple[str, ...] | None:
    """A vocabulary given as words or as a file of one word per line; None means the first of `beside` that exists."""
    if vocabulary is None:
        vocabulary = next((path for path in beside if path.is_file()), None)
    if vocabulary is None or not isinstance(vocabulary, str | Path):
        return vocabulary if vocabulary is None else tuple(vocabulary)
    return tuple(read_lines(Path(vocabulary)))
