"""The extent of the sheets of an .xlsx or .ods, found by reading its XML piece by piece, in
constant memory.

A sheet tells the place of each of its cells, or how often it is repeated. The library of
spreadsheets allocates memory for all cells between the first and the last, which a few letters can
make 17 thousand million."""

from __future__ import annotations

import re
import xml.parsers.expat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PIECE = 1 << 20
MOST_BYTES = 1 << 28
"""Bytes of XML that are read if the result is only for a message."""
DEFLATED = 1032
"""The most bytes to which deflate can expand a byte."""
MOST_COLUMNS = 16_384
"""The most columns of a row that are read in an .ods."""


class Extent(NamedTuple):
    """The cells between the first and the last that are filled.

    Attributes:
      rows: number of rows.
      columns: number of columns.
      filled: number of filled cells.
      last: the name of the cell in the last row and column, as spreadsheets show it.
    """

    rows: int
    columns: int
    filled: int
    last: str

    @property
    def area(self) -> int:
        """Number of all cells, also empty ones."""
        return self.rows * self.columns


class FileSizes(NamedTuple):
    """The size of a zipped file, and of its unpacked content."""

    packed: int
    unpacked: int


def file_sizes(path: Path) -> FileSizes:
    """The size of a file, and its size when it is unpacked; equal if it is no zip.

    A zip may claim larger parts than deflate can make; the claim is then cut.
    """
    packed = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as book:
            parts = [
                min(part.file_size, DEFLATED * part.compress_size + PIECE)
                for part in book.infolist()
            ]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
        return FileSizes(packed, packed)
    return FileSizes(packed, max(packed, sum(parts)))


def largest_extent(path: Path, most_bytes: int = MOST_BYTES) -> Extent | None:
    """The extent of the sheet that spans the most cells; None if none is found, as in an .xls.

    Args:
      path: the spreadsheet.
      most_bytes: bytes of XML that are read at most.
    """
    extents: list[Extent] = []
    try:
        with zipfile.ZipFile(path) as book:
            for part in book.namelist():
                if part == "content.xml":
                    extents += _Ods().read(_pieces(book, part, most_bytes))
                elif re.fullmatch(r"/?xl/worksheets/[^/]*\.xml", part, re.IGNORECASE):
                    extents += _Xlsx().read(_pieces(book, part, most_bytes))
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        EOFError,
    ):
        pass  # the sheets read so far are used
    return max(extents, key=lambda extent: extent.area, default=None)


def _pieces(book: zipfile.ZipFile, part: str, most_bytes: int) -> Iterator[bytes]:
    num_bytes = 0
    with book.open(part) as file:
        while num_bytes < most_bytes and (piece := file.read(PIECE)):
            yield piece
            num_bytes += len(piece)


class _Reader:
    """Reads the XML of one part; names are without their prefix."""

    def __init__(self) -> None:
        self.sheets: list[Extent] = []
        self._begin_sheet()
        parser = xml.parsers.expat.ParserCreate()
        parser.StartDoctypeDeclHandler = _no_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        self._parser = parser

    def read(self, pieces: Iterator[bytes]) -> list[Extent]:
        """The extents of the sheets in a part, up to the first damage in its XML."""
        try:
            for piece in pieces:
                self._parser.Parse(piece)
        except (xml.parsers.expat.ExpatError, ValueError):
            pass  # the library that reads the sheet reports it
        self._end_sheet()
        return self.sheets

    def _begin_sheet(self) -> None:
        self._row = -1
        self._column = -1
        self._first: tuple[int, int] | None = None
        self._last = (0, 0)
        self._filled = 0

    def _end_sheet(self) -> None:
        if self._first is not None:
            rows = self._last[0] - self._first[0] + 1
            columns = self._last[1] - self._first[1] + 1
            last = f"{column_name(self._last[1])}{self._last[0] + 1}"
            self.sheets.append(Extent(rows, columns, self._filled, last))
        self._begin_sheet()

    def _fill(self, row: int, column: int, rows: int = 1, columns: int = 1) -> None:
        """Records filled cells."""
        first = (row, column) if self._first is None else self._first
        self._first = min(first[0], row), min(first[1], column)
        self._last = max(self._last[0], row + rows - 1), max(self._last[1], column + columns - 1)
        self._filled += rows * columns

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        raise NotImplementedError

    def _end(self, name: str) -> None:
        raise NotImplementedError


class _Xlsx(_Reader):
    """An .xlsx: a cell has a name, such as B7, or follows the cell before; it is filled if it has a
    value."""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = _strip_prefix(name)
        if name == "row":
            self._row = _number(attributes.get("r"), self._row + 2) - 1
            self._column = -1
        elif name == "c":
            place = re.fullmatch(r"([A-Za-z]{1,8})(\d{1,12})", attributes.get("r", ""))
            self._column = self._column + 1 if place is None else column_number(place[1])
            self._row = self._row if place is None else int(place[2]) - 1
        elif name in ("v", "is"):
            self._fill(self._row, self._column)

    def _end(self, name: str) -> None:
        pass


class _Ods(_Reader):
    """An .ods: rows and cells have a number of repeats; cells without a value are not filled."""

    def _begin_sheet(self) -> None:
        super()._begin_sheet()
        self._repeated_row = 1
        self._repeated_cell = 1
        # the cells of this row that have a value: first column, number of columns
        self._cells: list[tuple[int, int]] = []

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = _strip_prefix(name)
        values = {_strip_prefix(key): value for key, value in attributes.items()}
        if name == "table":
            self._begin_sheet()
            self._row = 0
        elif name == "table-row":
            self._repeated_row = _number(values.get("number-rows-repeated"), 1)
            self._column = 0
            self._cells = []
        elif name in ("table-cell", "covered-table-cell"):
            self._repeated_cell = _number(values.get("number-columns-repeated"), 1)
            if "value-type" in values:
                self._cells.append((self._column, min(self._repeated_cell, MOST_COLUMNS)))

    def _end(self, name: str) -> None:
        name = _strip_prefix(name)
        if name in ("table-cell", "covered-table-cell"):
            self._column += self._repeated_cell
        elif name == "table-row":
            for column, columns in self._cells:
                self._fill(self._row, column, self._repeated_row, columns)
            self._row += self._repeated_row
        elif name == "table":
            self._end_sheet()


def column_name(number: int) -> str:
    """The letters of a column, counted from 0.

    >>> column_name(0), column_name(27), column_name(16383)
    ('A', 'AB', 'XFD')
    """
    letters = ""
    number += 1
    while number > 0:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def column_number(letters: str) -> int:
    """The number of a column, counted from 0.

    >>> column_number("A"), column_number("XFD")
    (0, 16383)
    """
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _strip_prefix(name: str) -> str:
    return name.rpartition(":")[2]


def _number(text: str | None, default: int) -> int:
    if text is not None and text.isdecimal() and len(text) < 13:
        return int(text)
    return default


def _no_doctype(*_: Any) -> None:
    raise ValueError("a document type, of which no spreadsheet has one")
