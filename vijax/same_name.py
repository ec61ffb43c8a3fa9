"""Files of another distribution among those of vijax.

`vijax` on the package index is another project, whose module has the same name. Who installs both
has the files of both in one folder, and those that both have are from the later one. Nothing works
rightly then, and nothing says why. So the import looks for the other's record beside this package:
one listing of a folder."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent
OTHER = "vijax-"
"""The beginning of its record's name; that of this distribution begins with `vijax_vi-`."""


def check_no_other(folder: Path = FOLDER) -> None:
    """Raises ImportError if the other distribution's files are in this package's folder."""
    try:
        names = os.listdir(folder.parent)
    except OSError:  # no folder but an archive, which nothing else was installed into
        return
    for name in names:
        if name.startswith(OTHER) and name.endswith((".dist-info", ".egg-info")):
            _check_record(folder, folder.parent / name)


def _check_record(folder: Path, record: Path) -> None:
    from importlib.metadata import Distribution

    distribution = Distribution.at(record)
    files = [file for file in distribution.files or () if file.parts[0] == folder.name]
    if distribution.name != "vijax" or not files:
        return
    raise ImportError(
        f"Two packages have their files in {folder}: this one, which is called vijax-vi, and "
        f"vijax {distribution.version}, another project whose module has the same name. Each has "
        "overwritten files of the other. Remove both (pip uninstall -y vijax vijax-vi), and then "
        "install vijax-vi again as before; use the other in an environment of its own."
    )


check_no_other()
