"""Files by URL: `pooch` downloads each once, and checks that it stays the same."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from vijax.data.reading.cache import cache_folder
from vijax.data.reading.checks import DataError, fail
from vijax.extras import require_extra

MAX_NAME = 100
"""Letters in the name of a local copy: the last ones of the address, with its ending."""
BLOCK_BYTES = 1 << 14


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a download: its size, its time, and the time without any data."""

    num_bytes: float = dataclasses.field(
        default_factory=lambda: 1e9 * _from_environment("VIJAX_DOWNLOAD_GB", 20.0)
    )
    seconds: float = dataclasses.field(
        default_factory=lambda: 60 * _from_environment("VIJAX_DOWNLOAD_MINUTES", 120.0)
    )
    stall_seconds: float = 30.0


def is_url(source: object) -> bool:
    """True for an http or https address.

    >>> is_url("https://example.org/corpus.jsonl"), is_url("corpus.jsonl")
    (True, False)
    """
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def fetch(
    url: str, sha256: str | None = None, root: Path | None = None, limits: Limits | None = None
) -> Path:
    """The file at `url`, downloaded unless it was before.

    Args:
      url: an http or https address; the ending of its path tells the format.
      sha256: SHA-256 that the file must have. Without it, the value of the first download is
        recorded and must stay.
      root: the cache folder, by default the user's.
      limits: limits of size and time; by default 20 GB and two hours, which the environment
        variables VIJAX_DOWNLOAD_GB and VIJAX_DOWNLOAD_MINUTES change.

    Raises:
      DataError: the file cannot be downloaded, exceeds the limits, or is not the expected one.
      ImportError: pooch is missing; the message has the remedy.
    """
    pooch = require_extra("pooch")
    limits = limits or Limits()
    folder = (root or cache_folder()) / "downloads"
    name = local_name(url)
    record = folder / f"{name}.sha256"
    if sha256 and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        remedy = "run sha256sum on the file to get them"
        raise fail("sha256", "64 hexadecimal digits", repr(sha256)[:80], remedy)
    if sha256:
        expected = sha256.lower()
    elif record.is_file():
        expected = record.read_text(encoding="utf-8").strip()
    else:
        expected = ""
    get = pooch.HTTPDownloader(
        progressbar=_Watch(url, limits),
        chunk_size=BLOCK_BYTES,
        timeout=limits.stall_seconds,
        headers={"User-Agent": "vijax", "Accept-Encoding": "identity"},
    )
    try:
        known_hash = f"sha256:{expected}" if expected else None
        with _quiet(pooch.get_logger()):
            path = pooch.retrieve(url, known_hash, name, folder, downloader=get)
    except DataError:
        raise
    except OSError as error:
        remedy = "check the address and the network, or download it yourself and name the file"
        raise fail(url, "a file to download", str(error), remedy) from error
    except ValueError as error:
        remedy = f"if the new file is to be trusted, delete {record}"
        if sha256:
            remedy = "pass the right sha256="
        remedy += ", and fetch again"
        raise fail(url, f"a file with SHA-256 {expected}", f"another ({error})", remedy) from error
    record.write_text(f"{expected or pooch.file_hash(path)}\n")
    return Path(path)


class _Watch:
    """A progress bar for `pooch` that shows nothing and ends a transfer beyond the limits."""

    def __init__(self, url: str, limits: Limits):
        self.total = 0
        self.come = 0
        self._url = url
        self._limits = limits
        self._start = time.monotonic()

    def update(self, num_bytes: int) -> None:
        """Counts a block that was received; the last one may be shorter."""
        self.come += num_bytes
        size = max(self.total, self.come - BLOCK_BYTES)
        if size > self._limits.num_bytes:
            remedy = (
                "allow more, by the environment variable VIJAX_DOWNLOAD_GB, or download it "
                "yourself and name it"
            )
            expected = f"a file of at most {_megabytes(self._limits.num_bytes)}"
            raise fail(self._url, expected, f"{_megabytes(size)} or more", remedy)
        if time.monotonic() - self._start > self._limits.seconds:
            remedy = "allow more, by the environment variable VIJAX_DOWNLOAD_MINUTES"
            expected = f"a file within {self._limits.seconds / 60:g} minutes"
            raise fail(self._url, expected, f"{_megabytes(self.come)} in that time", remedy)

    def reset(self) -> None:
        """Called by `pooch` when the whole file was received."""
        self.come = 0

    def close(self) -> None:
        """Called by `pooch` at the end."""


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silences the advice that `pooch` gives to its direct callers."""
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.3g} MB" if size < 1e9 else f"{size / 1e9:,.3g} GB"


def local_name(url: str) -> str:
    """The name of the local copy: different for each address, and with its ending.

    >>> local_name("https://example.org/a%20b/docword.news.txt.gz?download=1")
    '71b711e582-docword.news.txt.gz'
    """
    digest = hashlib.sha256(url.encode(errors="replace")).hexdigest()[:10]
    try:
        name = PurePosixPath(unquote(urlsplit(url).path)).name
    except ValueError as error:
        raise fail(url, "an http or https address", str(error), "correct the address") from error
    return f"{digest}-{re.sub(r'[^A-Za-z0-9._-]', '_', name)[-MAX_NAME:] or 'index'}"


def _from_environment(name: str, default: float) -> float:
    text = os.environ.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        remedy = f"set it to {default:g}, say, or leave it out"
        raise fail(name, "a number above 0", repr(text), remedy)
    return value
