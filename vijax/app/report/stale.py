"""Files that an earlier writing of a run's pages left and the present one did not write: names of
tables and figures may hold numbers that change as a run goes on. Files of others in these folders
stay."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from vijax.files import write_text

FILE = "pages.json"
"""The file in the run folder with the names of the tables and figures of the last writing."""
NAME = re.compile(r"[\w][\w.,+-]*\.(csv|png)")
"""Names that a table or figure may have: in no other folder, and not hidden."""


def remove_stale(folder: Path, written: Mapping[str, Collection[str]]) -> None:
    """Removes the files of the last writing that the present one did not write, and records the
    present names.

    Args:
      folder: folder of the run.
      written: names of files, by their folder inside the run's.

    Raises:
      OSError: the names cannot be written.
    """
    for place, names in _earlier_names(folder / FILE).items():
        if place not in written or (folder / place).is_symlink():
            continue
        for name in set(names) - set(written[place]):
            with contextlib.suppress(OSError):
                (folder / place / name).unlink(missing_ok=True)
    sorted_names = {place: sorted(names) for place, names in written.items()}
    write_text(folder / FILE, json.dumps(sorted_names) + "\n")


def _earlier_names(path: Path) -> dict[str, list[str]]:
    """The names of the last writing; none if the file is missing or damaged."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(value, dict):
        return {}
    lists = {place: names for place, names in value.items() if isinstance(names, list)}
    return {place: [name for name in names if _is_name(name)] for place, names in lists.items()}


def _is_name(name: object) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None
