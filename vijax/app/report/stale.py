"""Files of a page that an earlier writing left, and this one has not: names of tables and figures
may hold numbers that change as a run goes on. Files of anybody else in these folders stay."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from vijax.files import write_text

FILE = "pages.json"
"""The names of the tables and figures of the last writing, in the folder of the run."""
NAME = re.compile(r"[\w][\w.,+-]*\.(csv|png)")
"""A name that a table or a figure may have: of no other folder, and of no hidden file."""


def forget_stale(folder: Path, written: Mapping[str, Collection[str]]) -> None:
    """Removes what the last writing of a run's pages wrote and this one did not, and keeps the
    names of this one.

    Args:
      folder: folder of the run.
      written: names of files, by the folder within that of the run.

    Raises:
      OSError: the names cannot be written.
    """
    for place, names in _known(folder / FILE).items():
        if place not in written or (folder / place).is_symlink():
            continue
        for name in set(names) - set(written[place]):
            with contextlib.suppress(OSError):
                (folder / place / name).unlink(missing_ok=True)
    write_text(
        folder / FILE, json.dumps({place: sorted(names) for place, names in written.items()}) + "\n"
    )


def _known(path: Path) -> dict[str, list[str]]:
    """The names of the last writing; none of a file that is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    known = {place: names for place, names in found.items() if isinstance(names, list)}
    return {place: [name for name in names if _is_name(name)] for place, names in known.items()}


def _is_name(name: object) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None
