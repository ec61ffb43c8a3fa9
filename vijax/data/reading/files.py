"""Opening and reading files, plain or gzipped, with errors that name the file, the place and the
remedy."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import stat
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vijax.data.reading.checks import DataError, fail
from vijax.memory import size_text

GZIP_MAGIC = b"\x1f\x8b"
BLOCK_BYTES = 1 << 20
LINES_BYTES = 1 << 22
LEAST_BOMB = 1 << 28
"""Bytes to which a gzipped file may unpack, however small it is."""
BOMB = 200
"""Bytes to which each byte of a gzipped file may unpack."""


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedIOBase]:
    """The bytes of a file, unpacked if it is gzipped, whatever its name.

    Raises:
      DataError: it is no file, or cannot be opened; or its gzip data are cut short or damaged.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == GZIP_MAGIC
        with _open_gzip(path) if is_packed else path.open("rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        actual = f"a truncated or damaged file ({error})"
        raise fail(path, "whole gzip data", actual, "fetch the file again") from error
    except OSError as error:
        remedy = "check the path and that you may read it"
        raise fail(path, "a readable file", error.strerror or str(error), remedy) from error


DEFLATES_TO = 1100
"""The most bytes to which a byte of gzip unpacks."""


def _check_unpacked_size(path: Path, packed: int, unpacked: int) -> None:
    """Raises a DataError if more bytes came out of a gzipped file than of any packed text."""
    limit = max(LEAST_BOMB, BOMB * packed)
    if unpacked > limit:
        expected = f"a gzipped file that unpacks to {BOMB} times its size at most"
        actual = f"{size_text(packed)} that unpack to more than {size_text(limit)}"
        remedy = "if it is to be trusted, unpack it (gunzip), and name the new file"
        raise fail(path, expected, actual, remedy)


class _UnpackedFile(io.RawIOBase):
    """The bytes of a gzipped file, as long as they are not far more than those of a packed text."""

    def __init__(self, path: Path):
        self._path = path
        self._file = gzip.open(path)  # noqa: SIM115
        self._packed = path.stat().st_size
        self._unpacked = 0

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes. Raises a DataError if too many came."""
        data = self._file.read(len(buffer))
        self._unpacked += len(data)
        _check_unpacked_size(self._path, self._packed, self._unpacked)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        super().close()


MOST_SCANNED = 1 << 24
"""Size of a gzipped file up to which it is unpacked once before it is read: it takes long to read
the lines of a bomb."""


def _open_gzip(path: Path) -> io.BufferedReader:
    """The bytes of a gzipped file. Raises a DataError if a small file unpacks to far too much."""
    packed = path.stat().st_size
    if LEAST_BOMB // DEFLATES_TO < packed <= MOST_SCANNED:
        with gzip.open(path) as file:
            unpacked = 0
            while size := len(file.read(BLOCK_BYTES)):
                unpacked += size
                _check_unpacked_size(path, packed, unpacked)
    return io.BufferedReader(_UnpackedFile(path), BLOCK_BYTES)


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a text file without their ends, one at a time.

    Raises:
      DataError: as `open_bytes`; or a byte is not of the encoding, with its offset in the file.
    """
    unfinished: list[str] = []
    for text in _decode(path, encoding):
        first, *later = text.split("\n")
        unfinished.append(first)
        if later:
            yield "".join(unfinished).rstrip("\r")
            yield from (line.rstrip("\r") for line in later[:-1])
            unfinished = later[-1:]
    if last := "".join(unfinished):
        yield last.rstrip("\r")


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """The text of a whole file; errors as for `read_lines`."""
    return "".join(_decode(path, encoding, lines=False))


def _decode(path: Path, encoding: str, lines: bool = True) -> Iterator[str]:
    """The text of a file piece by piece, without a byte order mark.

    In UTF-16 a byte 0x0A need not end a line, so the lines are counted in the text."""
    decoder = _decoder(encoding)
    with open_bytes(path) as file:
        offset = 0
        line = 1
        data = b"more"
        while data:
            data = file.read(BLOCK_BYTES)
            if offset == 0 and codecs.lookup(encoding).name == "utf-8":
                encoding = _marked_encoding(data, encoding)
                decoder = _decoder(encoding)
            pending = decoder.getstate()[0]
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeError as error:
                start = offset - len(pending)
                raise _undecodable(error, path, encoding, start, line if lines else None) from error
            if offset == 0:
                text = text.removeprefix("\ufeff")
            if "\0" in text:
                nul_line = line + text[: text.index("\0")].count("\n")
                location = f"{path}:{nul_line}" if lines else path
                raise fail(location, "text", "the character NUL", _OTHER_ENCODINGS)
            offset += len(data)
            line += text.count("\n")
            yield text


def _marked_encoding(data: bytes, encoding: str) -> str:
    """The encoding by the byte order mark of the data; without one, `encoding`."""
    return next((wide for mark, wide in MARKS.items() if data.startswith(mark)), encoding)


MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # it begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by the byte order mark at the beginning of a file; no text in UTF-8 begins with one of
these."""
_OTHER_ENCODINGS = (
    "pass the encoding the file was written in, such as encoding='cp1252', 'cp1251' or 'utf-16'"
)
_READ_OR_OTHER = (
    "pass encoding='cp1252' if that reads well, else the file's own, such as 'cp1250' or 'cp1251'"
)
"""Nothing is guessed: a text in one single-byte encoding is a text in all others too, with wrong
letters."""


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        b"text".decode(encoding, "replace")  # refuses encodings that give no text, such as base64
        return codecs.getincrementaldecoder(encoding)()
    except (LookupError, ValueError) as error:
        expected = "an encoding Python knows"
        raise fail(
            "encoding", expected, repr(encoding), "pass 'utf-8' or 'latin-1', say"
        ) from error


def _undecodable(
    error: UnicodeError, path: Path, encoding: str, offset: int, line: int | None
) -> DataError:
    """The error for bytes that are not of the encoding, in a block that begins at byte `offset`, in
    `line`."""
    expected = f"{encoding} text"
    utf_16 = "pass encoding='utf-16-le' or 'utf-16-be', if it is one"
    if not isinstance(error, UnicodeDecodeError):
        return fail(path, expected, str(error), utf_16)
    before = error.object[: error.start]
    bad = error.object[error.start : error.start + 4]
    location = f"{path}:{line + before.decode(encoding, 'ignore').count(chr(10))}" if line else path
    actual = f"the bytes {bad!r} at byte offset {offset + error.start}"
    line_start = before[-24:].rpartition(b"\n")[2]
    line_end = error.object[error.start :][:24].partition(b"\n")[0]
    around = line_start + line_end
    if b"\0" in around:
        return fail(location, expected, actual, utf_16)
    try:
        example = f"{actual}, in cp1252 {around.decode('cp1252')!r}"
    except UnicodeDecodeError:  # five bytes are undefined there
        return fail(location, expected, actual, _OTHER_ENCODINGS)
    return fail(location, expected, example, _READ_OR_OTHER)


def quote_line(line: bytes) -> str:
    """The beginning of a line, for messages."""
    return repr(line[:60].decode(errors="replace").strip()) + ("..." if len(line) > 60 else "")


def line_blocks(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of a file, some thousands at a time, with the number of the first, counted from
    1."""
    with open_bytes(path) as file:
        number = 1
        while lines := file.readlines(LINES_BYTES):
            yield number, [line.rstrip() for line in lines]
            number += len(lines)


def read_vocabulary(
    vocabulary: str | Path | Sequence[str] | None, *beside: Path
) -> tuple[str, ...] | None:
    """A vocabulary from words, or from a file of one word per line; None takes the first existing
    file of `beside`."""
    if vocabulary is None:
        vocabulary = next((path for path in beside if path.is_file()), None)
    if isinstance(vocabulary, str | Path):
        return tuple(read_lines(Path(vocabulary)))
    if vocabulary is None:
        return None
    return tuple(vocabulary)


SHEETS = (".xlsx", ".xls", ".ods")  # endings of spreadsheets
KINDS = {
    "a file": stat.S_ISREG,
    "a folder": stat.S_ISDIR,
    "a named pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": stat.S_ISCHR,
    "a block device": stat.S_ISBLK,
}


def path_kind(path: Path) -> str:
    """The kind of thing at `path`: one of `KINDS`, or "none". Raises DataError for a path that is
    too long, say, or for a loop of links."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "none"
    except (OSError, ValueError) as error:
        location = str(path)[:60] + ("..." if len(str(path)) > 60 else "")
        remedy = (
            "check the path, and that you may read it; to pass the texts themselves, pass a list "
            "of them"
        )
        raise fail(location, "a file or folder", _brief(error), remedy) from error
    return next((kind for kind, test in KINDS.items() if test(mode)), "something else")


def check_regular(path: Path) -> None:
    """Raises a DataError unless `path` is a file: reading a named pipe would wait for ever."""
    kind = path_kind(path)
    if kind == "none":
        remedy = "check the path and that you may read it"
        raise fail(path, "a readable file", "No such file", remedy)
    if kind != "a file":
        raise fail(path, "a file", kind, "write its contents to a file, and name the file")


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Makes every DataError raised inside it name `path`, and turns a MemoryError into one."""
    try:
        yield
    except MemoryError as error:
        size = f"{path.stat().st_size:,} bytes" if path.exists() else "a file"
        detail = f" ({_brief(error)})" if str(error) else ""
        actual = f"{size} and no memory left{detail}"
        remedy = (
            "divide it, or write it as text, LDA-C or UCI docword, which are read piece by piece"
        )
        raise fail(path, "data that fit in memory", actual, remedy) from error
    except DataError as error:
        if str(path) in str(error):
            raise
        raise DataError(f"{path}: {error}") from error


@contextlib.contextmanager
def parsing(path: Path, expected: str, remedy: str) -> Iterator[None]:
    """Turns any error of another library on damaged bytes into a DataError that names the file."""
    try:
        yield
    except (DataError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise fail(path, expected, f"an unreadable one ({_brief(error)})", remedy) from error


def _brief(error: BaseException) -> str:
    """The first line of an error, without control characters."""
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    line = text.splitlines()[0][:200]
    return "".join(letter if letter.isprintable() else "?" for letter in line)
