"""Corpora by URL: fetched once, and the same file ever after.

What has come of a file stays when the connection breaks, and the next try goes on from there, if the server can say
that the file is still the same (RFC 9110: Range with If-Range).
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from vijax.data.reading.cache import cache_folder
from vijax.data.reading.checks import fail
from vijax.data.reading.temporary import locked
from vijax.data.reading.transfer import Limits, Partial, transfer

MAX_NAME = 100
"""Letters of an address that its local copy's name keeps: its last ones, with the ending."""


def is_url(source: object) -> bool:
    """Whether `source` is an http or https address.

    >>> is_url("https://example.org/corpus.jsonl"), is_url("corpus.jsonl")
    (True, False)
    """
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def fetch(url: str, sha256: str | None = None, root: Path | None = None, limits: Limits | None = None) -> Path:
    """The file at `url`, downloaded unless it was before.

    Args:
      url: an http or https address; the ending of its path tells the format.
      sha256: what the file's SHA-256 must be. Without it, that of the first download is recorded and must stay.
      root: the cache folder, by default the user's.
      limits: of size and time, by default 20 GB and two hours, or what the environment variables VIJAX_DOWNLOAD_GB and
        VIJAX_DOWNLOAD_MINUTES say.

    Raises:
      DataError: the file cannot be had, is beyond the limits, or is not the one expected.
    """
    name = local_name(url)
    folder = (root or cache_folder()) / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    path, record = folder / name, folder / f"{name}.sha256"
    given = _checked_hash(sha256) if sha256 else None
    with locked(folder / f"{name}.lock"):  # a second process waits, and finds the file and its record
        expected = given or _recorded(record)
        if not path.is_file() or (expected is not None and file_hash(path) != expected):
            _download(url, path, expected, record, limits or _limits(), given=given is not None)
        record.write_text(f"{expected or file_hash(path)}\n")
    return path


def _recorded(record: Path) -> str | None:
    """The hash of the first download; None before it, and where a process was killed while it wrote the record."""
    return (record.read_text().strip() or None) if record.exists() else None


def _download(url: str, path: Path, expected: str | None, record: Path, limits: Limits, given: bool) -> None:
    part = Partial(path.with_name(f"{path.name}.part"))
    went_on = transfer(url, part, limits)
    if expected is not None and file_hash(part.path) != expected and went_on:
        part.discard()  # two halves that do not belong together, perhaps
        transfer(url, part, limits)
    got = file_hash(part.path)
    if expected is not None and got != expected:
        part.discard()
        remedy = "pass the right sha256=" if given else f"if the new file is to be trusted, delete {record}"
        raise fail(
            url, f"a file with SHA-256 {expected}", f"another file, with SHA-256 {got}", f"{remedy}, and fetch again"
        )
    part.path.replace(path)
    part.discard()


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def local_name(url: str) -> str:
    """The name of the local copy: two addresses never share one, and the ending stays.

    >>> local_name("https://example.org/a%20b/docword.news.txt.gz?download=1")
    '71b711e582-docword.news.txt.gz'
    """
    digest = hashlib.sha256(url.encode(errors="replace")).hexdigest()[:10]
    try:
        name = PurePosixPath(unquote(urlsplit(url).path)).name
    except ValueError as error:
        raise fail(url, "an http or https address", str(error), "correct the address") from error
    return f"{digest}-{re.sub(r'[^A-Za-z0-9._-]', '_', name)[-MAX_NAME:] or 'index'}"


def _checked_hash(sha256: str) -> str:
    if not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise fail("sha256", "64 hexadecimal digits", repr(sha256)[:80], "run sha256sum on the file to get them")
    return sha256.lower()


def _limits() -> Limits:
    default = Limits()
    gigabytes = _from_environment("VIJAX_DOWNLOAD_GB", default.num_bytes / 1e9)
    minutes = _from_environment("VIJAX_DOWNLOAD_MINUTES", default.seconds / 60)
    return Limits(num_bytes=gigabytes * 1e9, seconds=minutes * 60)


def _from_environment(name: str, default: float) -> float:
    text = os.environ.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise fail(name, "a number above 0", repr(text), f"set it to {default:g}, say, or leave it out")
    return value
