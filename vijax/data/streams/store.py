"""Parquet files on this machine, or in a store that fsspec knows: `s3://bucket/folder`, `gs://`, `memory://`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from vijax.data.corpora.shards import REMEDY, WHOLE, shard_paths
from vijax.data.reading.checks import fail
from vijax.data.reading.files import check_regular, kind_of, parsing
from vijax.extras import require_extra

WAITS_S = (0.2, 1.0, 5.0)
"""Waits between the attempts at a store that does not answer, or gives less than was asked."""
FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, ImportError)
"""Errors that another attempt does not mend."""

Found = TypeVar("Found")


def parquet_files(source: str | Path) -> list[str]:
    """The Parquet files of a folder in the order of their names; a file is its own only one."""
    if "://" not in str(source):
        path = Path(source).expanduser()
        files = [] if kind_of(path) == "none" else shard_paths(path)
        for file in files:
            check_regular(file)
        return list(map(str, files))

    def listed() -> list[str]:
        store, path = require_extra("fsspec.core", "store").url_to_fs(str(source))
        store.invalidate_cache()
        names = [path] if path.endswith(".parquet") else store.glob(f"{path.rstrip('/')}/*.parquet")
        return sorted(map(store.unstrip_protocol, names))

    return retried(str(source), listed)


def from_parquet(file: str, read: Callable[[Any], Found]) -> Found:
    """Reads from a Parquet file, and asks its store again where it does not answer.

    Raises:
      DataError: the file is damaged or not there, or its store does not answer.
    """
    parquet = require_extra("pyarrow.parquet")
    if "://" not in file:
        with parsing(Path(file), WHOLE, REMEDY), parquet.ParquetFile(file) as found:
            return read(found)

    def there() -> Found:
        store, path = require_extra("fsspec.core", "store").url_to_fs(file)
        with store.open(path, "rb") as stored, parquet.ParquetFile(stored) as found:
            return read(found)

    return retried(file, there)


def retried(where: str, ask: Callable[[], Found]) -> Found:
    """Returns the answer of a store, asked up to four times. Raises a DataError where there is none."""
    for wait in (*WAITS_S, None):
        try:
            return ask()
        except FINAL as error:
            raise fail(where, "a file that may be read", _said(error), "check the address and your rights") from error
        except Exception as error:  # each store has errors of its own
            if wait is None:
                tries = f"{_said(error)}, {len(WAITS_S) + 1} times"
                remedy = "try again later: a run with checkpoints goes on; or write the file again, if it is damaged"
                raise fail(where, "a store that answers with whole files", tries, remedy) from error
        time.sleep(wait)
    raise AssertionError


def _said(error: Exception) -> str:
    return f"{type(error).__name__} ({' '.join(str(error).split())[:120]})"
