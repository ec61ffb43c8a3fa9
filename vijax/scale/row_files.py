"""Tables by row in files, in blocks of some rows. A reader opens only the blocks with its rows.

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
    """A table whose rows are in files. `numpy.asarray` reads all of it; a slice reads only the
    blocks that it needs.

    Args:
      folder: the folder of its blocks.
      number: its number in the folder.
      shape: its shape.
      dtype: type of its numbers.
      axis: the axis of its rows.
      starts: first row of each block, ascending.
      padding: rows after the last one: copies of the first row, in no file.
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
        self.folder = folder
        self.number = number
        self.dtype = np.dtype(dtype)
        self.axis = axis
        self.starts = starts
        self.padding = padding
        self._shape = tuple(shape)  # without padding

    @classmethod
    def open(cls, folder: Path, description: Mapping[str, Any]) -> StoredRows:
        """The table of a description (`describe`).

        Raises:
          OSError: a block is missing, or cut short.
        """
        rows = cls(folder, **description)
        rows.require_whole()
        return rows

    def describe(self) -> dict[str, Any]:
        """The description that `open` reads, for JSON."""
        return {
            "number": self.number,
            "shape": list(self._shape),
            "dtype": self.dtype.name,
            "axis": self.axis,
            "starts": self.starts,
        }

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, with padding."""
        return self._with_length(self._shape[self.axis] + self.padding)

    def pad(self, count: int) -> StoredRows:
        """The table with `count` rows of padding."""
        return StoredRows(
            self.folder, self.number, self._shape, self.dtype, self.axis, self.starts, count
        )

    def require_whole(self) -> None:
        """Raises OSError if a block is missing or cut short. The contents are checked when they are
        read."""
        for start, _ in self.blocks():
            if not zipfile.is_zipfile(self._path(start)):  # it looks at the end of the file
                raise OSError(f"{self._path(start)} is missing or cut short")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows."""
        return self._rows(0, self.shape[self.axis]).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, index: Any) -> np.ndarray:
        """A part, indexed as an array is."""
        index = index if isinstance(index, tuple) else (index,)
        if not self._is_slice_of_rows(index):
            return np.asarray(self)[index]
        start, stop, _ = index[self.axis].indices(self.shape[self.axis])
        rows = self._rows(start, stop)
        return rows[(*index[: self.axis], slice(None), *index[self.axis + 1 :])]

    def _is_slice_of_rows(self, index: tuple[Any, ...]) -> bool:
        if len(index) <= self.axis or not isinstance(index[self.axis], slice):
            return False
        return index[self.axis].step in (None, 1)

    def _rows(self, first: int, last: int) -> np.ndarray:
        table = np.empty(self._with_length(max(0, last - first)), self.dtype)
        rows = np.moveaxis(table, self.axis, 0)
        for start, stop in self.blocks():
            low = max(first, start)
            high = min(last, stop)
            if low < high:
                block = np.moveaxis(self._read(start, stop), self.axis, 0)
                rows[low - first : high - first] = block[low - start : high - start]
        padding_start = max(first, self._shape[self.axis])
        if padding_start < last:
            rows[padding_start - first :] = np.moveaxis(self._rows(0, 1), self.axis, 0)
        return table

    def _read(self, start: int, stop: int) -> np.ndarray:
        path = self._path(start)
        try:
            with path.open("rb") as raw:
                check_declared_sizes(raw)
                file = np.load(raw, allow_pickle=False)
                block = file["rows"].view(self.dtype)
                expected = str(file["checksum"])
        except Exception as error:  # zip, zlib and NumPy raise errors of some twenty types
            raise self._damage(path, str(error) or type(error).__name__) from error
        if block.shape != self._with_length(stop - start) or checksum(block) != expected:
            raise self._damage(path, "its checksum differs")
        return block

    def _damage(self, path: Path, why: str) -> OSError:
        marker = self.folder.with_suffix(".npz")
        return OSError(
            f"{path}: damaged ({why}); remove {marker}, and go on from the checkpoint before"
        )

    def blocks(self) -> Iterator[tuple[int, int]]:
        """First row, and the row after the last, of each block."""
        return zip(self.starts, [*self.starts[1:], self._shape[self.axis]], strict=True)

    def write(self, start: int, block: np.ndarray) -> None:
        """Writes the block whose first row is `start`. Raises OSError if it cannot be written."""
        arrays = {"rows": block.view(storable(block.dtype)), "checksum": np.array(checksum(block))}
        write_arrays(self._path(start), arrays)

    def _path(self, start: int) -> Path:
        return self.folder / f"{self.number:d}-{start:012d}.npz"

    def _with_length(self, rows: int) -> tuple[int, ...]:
        return (*self._shape[: self.axis], rows, *self._shape[self.axis + 1 :])
