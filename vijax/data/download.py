"""Corpora by URL: fetched once, and the same file ever after."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from vijax.data.cache import cache_folder
from vijax.data.checks import fail
from vijax.extras import require_extra


def is_url(source: object) -> bool:
    """Whether `source` is an http or https address.

    >>> is_url("https://example.org/corpus.jsonl"), is_url("corpus.jsonl")
    (True, False)
    """
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def fetch(url: str, sha256: str | None = None, root: Path | None = None) -> Path:
    """The file at `url`, downloaded unless it was before.

    Args:
      url: an http or https address; the ending of its path tells the format.
      sha256: what the file's SHA-256 must be. Without it, that of the first download is recorded and must stay.
      root: the cache folder, by default the user's.

    Raises:
      ValueError: the file cannot be had, or is not the one expected.
    """
    pooch = require_extra("pooch")
    pooch.get_logger().setLevel("WARNING")
    folder = (root or cache_folder()) / "downloads"
    name = local_name(url)
    record = folder / f"{name}.sha256"
    expected = sha256.lower() if sha256 else record.read_text().strip() if record.exists() else None
    known = f"sha256:{expected}" if expected else None
    try:
        path = Path(pooch.retrieve(url, known_hash=known, fname=name, path=folder))
    except ValueError as error:
        raise _changed(url, expected, record, given=bool(sha256)) from error
    except OSError as error:  # requests' errors are OSErrors
        raise fail(url, "a file to download", str(error), "check the address and the network") from error
    record.write_text(f"{expected or pooch.file_hash(str(path))}\n")
    return path


def local_name(url: str) -> str:
    """The name of the local copy: two addresses never share one, and the ending stays.

    >>> local_name("https://example.org/a%20b/docword.news.txt.gz?download=1")
    '71b711e582-docword.news.txt.gz'
    """
    digest = hashlib.sha256(url.encode()).hexdigest()[:10]
    return f"{digest}-{PurePosixPath(unquote(urlsplit(url).path)).name or 'index'}"


def _changed(url: str, expected: str | None, record: Path, given: bool) -> ValueError:
    remedy = "pass the right sha256=" if given else f"if the new file is to be trusted, delete {record} and fetch again"
    return fail(url, f"a file with SHA-256 {expected}", "another file", remedy)
