"""Readers of arrays (.npy and .npz, without pickles) and of delimited records (.csv and .tsv)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vijax.data.reading.checks import fail, listed
from vijax.data.reading.files import check_regular, parsing, read_lines

BEGINNINGS = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")
SAVE_AGAIN = "save arrays of numbers by numpy.save or numpy.savez (no pickles), or fetch the file again"


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz by name, or that of a .npy under the name "x"; the file itself tells which of them it is.

    Raises:
      DataError: it is no such file, it is damaged, or it has objects, structures, dates or complex numbers.
    """
    check_regular(path)
    expected = f"a whole {path.suffix if path.suffix in ('.npy', '.npz') else '.npz'} file"
    with parsing(path, expected, SAVE_AGAIN), path.open("rb") as raw:
        if not raw.read(6).startswith(BEGINNINGS):
            raise fail(path, expected, "another kind of file", SAVE_AGAIN)
        raw.seek(0)
        file = np.load(raw, allow_pickle=False)
        if isinstance(file, np.ndarray):
            arrays = {"x": file}
        else:
            arrays = {name: file[name] for name in file.files}
            if len(file.files) != len(arrays):
                raise fail(path, expected, "two arrays of one name", SAVE_AGAIN)
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufUS":
            got = f"{name!r} of {array.dtype if isinstance(array, np.ndarray) else 'bytes'}"
            raise fail(path, "arrays of numbers or text (no pickles)", got, SAVE_AGAIN)
    return arrays


Rows = Iterator[tuple[int, list[str]]]
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def read_delimited(path: Path, encoding: str = "utf-8") -> tuple[list[str], Rows]:
    """The names in the header line, and the rows below it, each with the number of the line on which it ends.

    Empty lines are left out. A row may have fewer cells than the header, and more only if those are empty.

    Raises:
      DataError: at once where there is no header; while the rows are read, where one has more cells than the header or
        is no CSV.
    """
    name = path.name.lower().removesuffix(".gz")
    delimiter = "\t" if name.endswith(".tsv") else ","
    csv.field_size_limit(2**31 - 1)
    # Python's csv needs line ends, and counts lines itself: a quoted text may have several.
    reader = csv.reader((f"{line}\n" for line in read_lines(path, encoding)), delimiter=delimiter, strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
    except csv.Error as error:
        raise _no_csv(path, reader.line_num, error) from error
    _check_header(header, f"{path}:1", delimiter)
    return header, _rows(path, reader, len(header), delimiter)


def _rows(path: Path, reader, number: int, delimiter: str) -> Rows:
    try:
        for row in reader:
            if any(cell.strip() for cell in row[number:]):
                got = f"{len(row)}, the first too many being {row[number][:40]!r}"
                remedy = f'quote cells that hold {SEPARATORS[delimiter]}, as in "one, two", or correct the line'
                raise fail(f"{path}:{reader.line_num}", f"{number} cells, as in the header", got, remedy)
            if row:
                yield reader.line_num, row[:number]
    except csv.Error as error:
        raise _no_csv(path, reader.line_num, error) from error


def _no_csv(path: Path, line: int, error: csv.Error) -> ValueError:
    return fail(f"{path}:{line}", "CSV", str(error), "quote cells that hold commas, quotes or line ends")


def _check_header(header: list[str], where: str, delimiter: str) -> None:
    expected, remedy = "a header line of distinct names", "write one"
    if not any(header):
        raise fail(where, expected, "an empty line" if header else "nothing", remedy)
    again = [name for place, name in enumerate(header) if name and name in header[:place]]
    if again:
        raise fail(where, expected, f"{listed(again)} more than once", "rename those columns, or remove them")
    others = [name for letter, name in SEPARATORS.items() if letter != delimiter and letter in header[0]]
    if len(header) == 1 and others:
        remedy = "write the file with commas, or with tabs and the ending .tsv"
        raise fail(where, f"cells divided by {SEPARATORS[delimiter]}", f"one divided by {others[0]}", remedy)
