"""Folders that go when they are done with. Where a process was killed before, the folder goes a week later."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from pathlib import Path

A_WEEK = 7 * 86_400.0


def working_folder(prefix: str, parent: Path | None = None) -> tempfile.TemporaryDirectory:
    """A new folder in `parent`, by default the system's for temporary files.

    Folders of the same prefix that killed processes left there a week ago are removed.
    """
    for left in Path(parent or tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.lstat().st_mtime > A_WEEK:
                shutil.rmtree(left)  # which refuses links
    return tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
