"""Arrays from .npy and .npz files; pickles are never opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vijax.data.reading.checks import fail
from vijax.data.reading.guards import check_regular, parsing

BEGINNINGS = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")
REMEDY = "save arrays of numbers by numpy.save or numpy.savez (no pickles), or fetch the file again"


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz by name, or that of a .npy under the name "x"; which of them it is, the file itself tells.

    Raises:
      DataError: it is no such file, it is damaged, or it holds objects, structures, dates or complex numbers.
    """
    check_regular(path)
    expected = f"a whole {path.suffix if path.suffix in ('.npy', '.npz') else '.npz'} file"
    with parsing(path, expected, REMEDY), path.open("rb") as raw:
        if not raw.read(6).startswith(BEGINNINGS):
            raise fail(path, expected, "another kind of file", REMEDY)
        raw.seek(0)
        file = np.load(raw, allow_pickle=False)
        if isinstance(file, np.ndarray):
            arrays = {"x": file}
        else:
            arrays = {name: file[name] for name in file.files}
            if len(file.files) != len(arrays):
                raise fail(path, expected, "two arrays of one name", REMEDY)
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufUS":
            got = f"{name!r} of {array.dtype if isinstance(array, np.ndarray) else 'bytes'}"
            raise fail(path, "arrays of numbers or text (no pickles)", got, REMEDY)
    return arrays
