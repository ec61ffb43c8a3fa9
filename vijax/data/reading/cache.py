"""The cache of corpora, and temporary folders."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.storage import is_corpus_folder


def cache_folder() -> Path:
    """The folder named by VIJAX_CACHE, or else `vijax` in the user's cache folder."""
    if folder := os.environ.get("VIJAX_CACHE"):
        return Path(folder)
    if sys.platform == "win32":
        local = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local"))
        return local / "vijax" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "vijax"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vijax"


def cached_corpus(
    name: str, key: object, build: Callable[[Path], Corpus], root: Path | None = None
) -> Corpus:
    """The corpus that `build` writes into an empty folder, or that it wrote earlier for an equal
    key.

    The key contains everything that the corpus depends on, and is compared by its `repr`.
    """
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    final = (root or cache_folder()) / "corpora" / f"{name}-{digest}"
    if not is_corpus_folder(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        with working_folder("building-", final.parent) as folder:
            build(Path(folder, "corpus"))
            _put(Path(folder, "corpus"), final)
    return Corpus.open(final)


def _put(built: Path, final: Path) -> None:
    """Moves a corpus into its place, as a whole or not at all; another process may have put the
    same one there before."""
    if is_corpus_folder(final):
        return
    shutil.rmtree(final, ignore_errors=True)
    try:
        built.replace(final)
    except OSError:
        if not is_corpus_folder(final):
            raise


A_WEEK = 7 * 86_400.0


def working_folder(prefix: str, parent: Path | None = None) -> tempfile.TemporaryDirectory:
    """A new temporary folder in `parent`, by default in the system's temporary folder.

    Older folders of the same prefix, left by killed processes, are removed after a week."""
    for old in Path(parent or tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if time.time() - old.lstat().st_mtime > A_WEEK:
                shutil.rmtree(old)  # which refuses links
    return tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
