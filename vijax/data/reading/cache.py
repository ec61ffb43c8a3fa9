"""Where things made once are kept for the next time."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.storage import is_corpus_folder
from vijax.data.reading.temporary import working_folder


def cache_folder() -> Path:
    """The folder named by VIJAX_CACHE, or else `vijax` in the user's cache folder."""
    if named := os.environ.get("VIJAX_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "vijax" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "vijax"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vijax"


def cached_corpus(name: str, key: object, build: Callable[[Path], Corpus], root: Path | None = None) -> Corpus:
    """The corpus that `build` writes into an empty folder, or the one it wrote before for an equal key.

    Args:
      name: what the corpus is called in the cache.
      key: everything the corpus depends on; its `repr` tells one corpus from another.
      build: called with the folder to build in, when the cache does not hold the corpus yet.
      root: the cache, by default `cache_folder()`.
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
    """Whole or not at all: a process that is killed leaves no half corpus, and of two that race one wins."""
    if is_corpus_folder(final):
        return
    shutil.rmtree(final, ignore_errors=True)
    try:
        built.replace(final)
    except OSError:
        if not is_corpus_folder(final):
            raise
