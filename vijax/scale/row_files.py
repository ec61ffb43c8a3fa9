"""Tables by row in files, in blocks of some rows: whoever wants rows reads the blocks that have
them.

step_00000120.rows/3-000000000000.npz   rows       some rows of table 3, from row 0 on
                                        checksum   their SHA-256
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vijax.files import check_declared_sizes, checksum, storable, write_arrays


class StoredRows:
    """A table whose rows are in files. `numpy.asarray` reads all of it; a slice reads the blocks
    that it needs.

    Args:
      folder: the folder of its blocks.
      number: its number there.
      shape: its shape.
      dtype: type of its numbers.
      axis: the axis of its rows.
      starts: first row of each block, ascending.
      padding: rows after the last one, copies of the first, which are in no file.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        shape: tuple[int, ...],
        dtype: Any,
        axis: int,
        starts: list[int],
        padding: int = 0,
    ):
        self.folder, self.number, self.dtype, self.axis = folder, number, np.dtype(dtype), axis
        self.starts, self.padding, self._own = starts, padding, tuple(shape)

    @classmethod
    def open(cls, folder: Path, described: Mapping[str, Any]) -> StoredRows:
        """Those that are described so. Raises OSError: a block is missing, or cut short."""
        rows = cls(folder, **described)
        rows.require_whole()
        return rows

    def describe(self) -> dict[str, Any]:
        """The description that `found` reads, for JSON."""
        said = {"number": self.number, "shape": list(self._own), "dtype": self.dtype.name}
        return {**said, "axis": self.axis, "starts": self.starts}

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, with padding."""
        return self._of(self._own[self.axis] + self.padding)

    def pad(self, count: int) -> StoredRows:
        """The table with so many rows of padding."""
        return StoredRows(
            self.folder, self.number, self._own, self.dtype, self.axis, self.starts, count
        )

    def require_whole(self) -> None:
        """Raises OSError: a block is missing, or cut short. What is in them is checked where it is
        read."""
        for start, _ in self.blocks():
            if not zipfile.is_zipfile(self._path(start)):  # of which the end tells
                raise OSError(f"{self._path(start)} is missing or cut short")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows."""
        return self._rows(0, self.shape[self.axis]).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, at: Any) -> np.ndarray:
        """A part, as of an array."""
        at = at if isinstance(at, tuple) else (at,)
        if (
            len(at) <= self.axis
            or not isinstance(at[self.axis], slice)
            or at[self.axis].step not in (None, 1)
        ):
            return np.asarray(self)[at]
        start, stop, _ = at[self.axis].indices(self.shape[self.axis])
        return self._rows(start, stop)[(*at[: self.axis], slice(None), *at[self.axis + 1 :])]

    def _rows(self, first: int, last: int) -> np.ndarray:
        whole = np.empty(self._of(max(0, last - first)), self.dtype)
        rows = np.moveaxis(whole, self.axis, 0)
        for start, stop in self.blocks():
            low, high = max(first, start), min(last, stop)
            if low < high:
                block = np.moveaxis(self._read(start, stop), self.axis, 0)
                rows[low - first : high - first] = block[low - start : high - start]
        beyond = max(first, self._own[self.axis])
        if beyond < last:
            rows[beyond - first :] = np.moveaxis(self._rows(0, 1), self.axis, 0)
        return whole

    def _read(self, start: int, stop: int) -> np.ndarray:
        path = self._path(start)
        try:
            with path.open("rb") as raw:
                check_declared_sizes(raw)
                file = np.load(raw, allow_pickle=False)
                block, expected = file["rows"].view(self.dtype), str(file["checksum"])
        except Exception as error:  # zip, zlib and NumPy raise errors of some twenty types
            raise self._damaged(path, str(error) or type(error).__name__) from error
        if block.shape != self._of(stop - start) or checksum(block) != expected:
            raise self._damaged(path, "its checksum differs")
        return block

    def _damaged(self, path: Path, why: str) -> OSError:
        marker = self.folder.with_suffix(".npz")
        return OSError(
            f"{path}: damaged ({why}); remove {marker}, and go on from the checkpoint before"
        )

    def blocks(self) -> Iterator[tuple[int, int]]:
        """First row, and the row after the last, of each block."""
        return zip(self.starts, [*self.starts[1:], self._own[self.axis]], strict=True)

    def write(self, start: int, block: np.ndarray) -> None:
        """Writes the block that begins there. Raises OSError: it could not be written."""
        named = {"rows": block.view(storable(block.dtype)), "checksum": np.array(checksum(block))}
        write_arrays(self._path(start), named)

    def _path(self, start: int) -> Path:
        return self.folder / f"{self.number:d}-{start:012d}.npz"

    def _of(self, rows: int) -> tuple[int, ...]:
        return (*self._own[: self.axis], rows, *self._own[self.axis + 1 :])
