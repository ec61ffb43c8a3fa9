"""Whether the values of a memory-mapped corpus can be those of one: looked at once, and again when a file changes.

A word id beyond the vocabulary would be looked up all the same, and give numbers that mean nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vijax.data.corpora.csr import BLOCK_ENTRIES
from vijax.data.reading.checks import check_offsets, fail

STAMP = "checked.json"
SETTLED_SECONDS = 1.0  # a file younger than this may change and keep its time
REMEDY = "make the corpus folder again, by Corpus.save or by reading the documents again"


def check_once(folder: Path, arrays: Mapping[str, np.ndarray], vocab_size: int) -> None:
    """Reads the arrays through, unless checked.json says that these very files were found right.

    Raises:
      DataError: naming the file: offsets that fall, a word id outside the vocabulary, a count below 1.
    """
    now = _stamp(folder, arrays, vocab_size)
    if _read_stamp(folder) == now:
        return
    check_offsets(arrays["indptr"], folder / "indptr.npy")
    _check_range(arrays["indices"], 0, vocab_size - 1, "word ids", folder / "indices.npy")
    _check_range(arrays["counts"], 1, 2**31 - 1, "counts", folder / "counts.npy")
    newest = max(times[1] for times in now["files"].values())
    if time.time_ns() - newest > SETTLED_SECONDS * 1e9:
        _write_stamp(folder, now)


def _check_range(values: np.ndarray, low: int, high: int, what: str, where: Path) -> None:
    """A few million at a time, so that memory stays bounded."""
    for start in range(0, len(values), BLOCK_ENTRIES):
        block = values[start : start + BLOCK_ENTRIES]
        if block.min() < low or block.max() > high:
            place = int(np.argmax((block < low) | (block > high)))
            got = f"{block[place]} at place {start + place}"
            raise fail(where, f"{what} from {low} to {high}", got, REMEDY)


def _stamp(folder: Path, arrays: Mapping[str, np.ndarray], vocab_size: int) -> dict[str, Any]:
    """What changes when a file does: sizes, times of data and of status, and inode numbers."""
    status = {name: (folder / f"{name}.npy").stat() for name in arrays}
    files = {name: [s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino] for name, s in status.items()}
    return {"vocab_size": vocab_size, "files": files}


def _read_stamp(folder: Path) -> Any:
    try:
        return json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _write_stamp(folder: Path, stamp: dict[str, Any]) -> None:
    """In one piece; a folder that cannot be written to is read through every time."""
    with contextlib.suppress(OSError):
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=STAMP)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(stamp, file)
        Path(name).replace(folder / STAMP)
