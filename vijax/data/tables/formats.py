"""Readers of arrays (.npy and .npz, without pickles), of delimited records (.csv and .tsv) and of
spreadsheets."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from vijax.data.reading.checks import Notes, fail, listed, nearest
from vijax.data.reading.files import check_regular, parsing, read_lines
from vijax.data.reading.preamble import check_comment, read_preamble
from vijax.data.schema.cells import column_name
from vijax.data.tables.sheets import open_sheet
from vijax.files import check_declared_sizes

BEGINNINGS = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")
SAVE_AGAIN = (
    "save arrays of numbers by numpy.save or numpy.savez (no pickles), or fetch the file again"
)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz by name, or that of a .npy under the name "x"; the file itself tells
    which of them it is. Raises DataError: it is no such file, it is damaged, or it has objects,
    structures, dates or complex numbers."""
    check_regular(path)
    expected = f"a whole {path.suffix if path.suffix in ('.npy', '.npz') else '.npz'} file"
    with parsing(path, expected, SAVE_AGAIN), path.open("rb") as raw:
        if not raw.read(6).startswith(BEGINNINGS):
            raise fail(path, expected, "another kind of file", SAVE_AGAIN)
        check_declared_sizes(raw)
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


Separator = Literal[",", ";", "tab", "|"]
Decimal = Literal[".", ","]


class Dialect(NamedTuple):
    """The way in which a table is written as a file.

    Attributes:
      encoding: encoding of text; a byte order mark of UTF-16 or UTF-32 goes before "utf-8".
      separator: the letter between cells; None finds it in the first lines.
      decimal: the letter before the fraction of a number; None finds commas where cells are divided
          by other letters.
      sheet: the sheet of a spreadsheet; None for the first.
      missing_words: words for a missing cell in columns of names; None for the usual ones of the
          format.
      decimal_before: the decimal sign of the file of which this one has more rows, where `decimal`
        is None; it says nothing of a file whose cells are divided by commas.
    """

    encoding: str = "utf-8"
    separator: Separator | None = None
    decimal: Decimal | None = None
    sheet: str | None = None
    missing_words: tuple[str, ...] | None = None
    decimal_before: Decimal | None = None


USUAL = Dialect()
Rows = Iterator[tuple[int, list[str]]]
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MOST_LINES = 100
"""Lines in which the separator is looked for."""


class DelimitedFile(NamedTuple):
    """A text file whose lines have cells.

    Attributes:
      header: the names in the header line.
      rows: the rows below it, each with the number of the line on which it ends.
      separator: the letter between cells.
      line: the number of the header line.
    """

    header: list[str]
    rows: Rows
    separator: str
    line: int


def read_delimited_file(
    path: Path, dialect: Dialect = USUAL, notes: Notes | None = None
) -> DelimitedFile:
    """The header of a text file, and its rows. A separator that was found, and is not that of the
    file's ending, and comments above the header are noted.

    Empty lines are left out. A row may have fewer cells than the header, and more only if those are
    empty. Raises DataError: at once where there is no header; while the rows are read, where one
    has more cells than the header or is no CSV."""
    notes = notes or Notes()
    csv.field_size_limit(2**31 - 1)
    lines = (f"{line}\n" for line in read_lines(path, dialect.encoding))
    first = list(itertools.islice(lines, MOST_LINES))
    preamble = read_preamble(first, list(SEPARATORS), path, notes)
    first = first[preamble.number :]
    delimiter = "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","
    if dialect.separator is not None:
        delimiter = dialect.separator.replace("tab", "\t")
        if delimiter not in SEPARATORS:
            raise fail(
                "separator",
                "one of ',', ';', 'tab' and '|'",
                repr(dialect.separator),
                "pass one of these",
            )
    elif preamble.separator is not None:
        delimiter = preamble.separator
    else:
        delimiter = _separator(first, delimiter, path, notes)
    # Python's csv needs line ends, and counts lines itself: a quoted text may have several.
    reader = csv.reader(itertools.chain(first, lines), delimiter=delimiter, strict=True)
    line = preamble.number + 1
    try:
        header = [column_name(cell.strip()) for cell in next(reader, [])]
    except csv.Error as error:
        raise _no_csv(path, preamble.number + reader.line_num, error) from error
    _check_header(header, f"{path}:{line}", delimiter)
    if preamble.comment is not None:
        rows = [row for row in _some_rows(first, delimiter)[1:] if row]
        check_comment(preamble, header, rows, delimiter, path)
    return DelimitedFile(
        header, _rows(path, reader, len(header), delimiter, preamble.number), delimiter, line
    )


def _some_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of some lines; none where they are no CSV, as its reader says."""
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return []


def _separator(lines: Sequence[str], usual: str, path: Path, notes: Notes) -> str:
    """The separator that gives each row as many cells as the header, two or more: the usual one
    where several do."""
    fitting = [
        letter
        for letter in (usual, *(other for other in SEPARATORS if other != usual))
        if _fits(lines, letter)
    ]
    if not fitting or fitting == [usual]:
        return usual
    found = fitting[0]
    others = " or ".join(SEPARATORS[letter] for letter in fitting[1:])
    doubt = f"; {others} would fit too" if others else ""
    notes.add(
        f"The cells of {path.name} are divided by {SEPARATORS[found]}{doubt}. If not, set "
        "separator."
    )
    return found


def _fits(lines: Sequence[str], letter: str) -> bool:
    rows = [row for row in _some_rows(lines, letter) if row]
    if len(lines) >= MOST_LINES // 2:  # the last row may go on
        rows = rows[:-1]
    return bool(rows) and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1


# --- decimal commas -------------------------------------------------------------------------------
GROUPED = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+"
COMMA = re.compile(rf"(?:{GROUPED}|[+-]?\d*),\d+(?:[eE][+-]?\d+)?")
WHOLE = re.compile(rf"{GROUPED}|[+-]?\d+")
POINT = re.compile(r"[+-]?\d*\.\d*(?:[eE][+-]?\d+)?")


def with_points(cells: Sequence[str], decimal: Decimal | None, where: str) -> tuple[list[str], str]:
    """The cells of a column with decimal points in place of commas, and the first cell that was
    changed.

    None takes commas for those of decimals where most cells are numbers with commas, or whole ones,
    and none has a decimal point. Points then divide thousands.

    >>> with_points(["1,5", "1.234,5", "2.000", "7"], None, "a.csv")
    (['1.5', '1234.5', '2000', '7'], '1,5')
    >>> with_points(["1,5", "0.5"], None, "a.csv")
    (['1,5', '0.5'], '')
    """
    commas = [cell for cell in cells if COMMA.fullmatch(cell)]
    points = [cell for cell in cells if POINT.fullmatch(cell) and not WHOLE.fullmatch(cell)]
    whole = sum(bool(WHOLE.fullmatch(cell)) for cell in cells)
    thousands = [cell for cell in cells if WHOLE.fullmatch(cell) and "." in cell]
    if decimal is None and (
        not commas or points or 2 * (len(commas) + whole) < sum(map(bool, cells))
    ):
        return list(cells), ""
    if (commas or thousands) and points:
        got = f"{(commas or thousands)[0]!r} and {points[0]!r}"
        remedy = "correct the cells, or set the other decimal"
        raise fail(where, "one sign for decimals in a column", got, remedy)
    numbers = [bool(COMMA.fullmatch(cell) or WHOLE.fullmatch(cell)) for cell in cells]
    changed = lambda cell: cell.replace(".", "").replace(",", ".")
    return [
        changed(cell) if is_one else cell for cell, is_one in zip(cells, numbers, strict=True)
    ], (*commas, "")[0]


THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")


def have_decimal_commas(cells: Sequence[str]) -> bool:
    """True where a cell has a comma that cannot divide thousands.

    >>> have_decimal_commas(["1,5", "7"]), have_decimal_commas(["1,125", "7"])
    (True, False)
    """
    return any(COMMA.fullmatch(cell) and not THOUSANDS.fullmatch(cell) for cell in cells)


def doubtful_point(cells: Sequence[str]) -> str:
    """The first number with a point, where each such number could as well have one between
    thousands; else empty.

    >>> doubtful_point(["1.125", "7"]), doubtful_point(["1.125", "7.5"])
    ('1.125', '')
    """
    with_point = [
        cell for cell in cells if "." in cell and (POINT.fullmatch(cell) or WHOLE.fullmatch(cell))
    ]
    return with_point[0] if with_point and all(map(WHOLE.fullmatch, with_point)) else ""


def find_decimal_sign(columns: Iterable[Sequence[str]]) -> Decimal | None:
    """The decimal sign of numbers that have a fraction written with a point; None where none
    has."""
    has_point = lambda cell: (
        POINT.fullmatch(cell) is not None and WHOLE.fullmatch(cell) is None and len(cell) > 1
    )
    return "." if any(has_point(cell) for cells in columns for cell in cells) else None


# --- spreadsheets ---------------------------------------------------------------------------------
class SheetTable(NamedTuple):
    """A sheet with a header.

    Attributes:
      header: the names in the first row that is not empty.
      rows: the cells of the rows below it that are not empty, "" for an empty cell.
      numbers: the numbers of these rows, as the spreadsheet shows them.
      line: that of the header.
    """

    header: list[str]
    rows: list[list[Any]]
    numbers: list[int]
    line: int


def read_sheet(path: Path, dialect: Dialect = USUAL, notes: Notes | None = None) -> SheetTable:
    """The wanted sheet. A note says which is read where there are several."""
    found = open_sheet(path, dialect.sheet)
    if found.name is None:
        wanted = "a sheet" if dialect.sheet is None else f"a sheet {dialect.sheet!r}"
        raise fail(
            path, wanted, "none", f"pass sheet=...; {nearest(dialect.sheet or '', found.sheets)}"
        )
    if len(found.sheets) > 1 and dialect.sheet is None and notes is not None:
        others = listed(found.sheets[1:])
        notes.add(
            f"The sheet {found.name!r} of {path.name} is read, and not {others}: set sheet for "
            "another."
        )
    above = _num_comments(found.rows)
    if above and notes is not None:
        notes.add(
            f"Rows of {path.name} above the header that begin with # are left out, as comments: "
            f"{above}."
        )
    rows = found.rows[above:]
    numbers = found.numbers[above:]
    header = [column_name(str(cell).strip()) for cell in next(iter(rows), [])]
    line = next(iter(numbers), 1)
    _check_header(header, f"{path}, row {line}")
    return SheetTable(header, rows[1:], numbers[1:], line)


def _num_comments(rows: Sequence[Sequence[Any]]) -> int:
    """The number of rows that stand above the header as comments: each has one cell, a text that
    begins with #."""
    is_comment = lambda row: (
        len([cell for cell in row if cell != ""]) == 1 and re.match(r"\s*#.", str(row[0]))
    )
    return next((number for number, row in enumerate(rows) if not is_comment(row)), 0)


# --- checks ---------------------------------------------------------------------------------------
def _rows(path: Path, reader, number: int, delimiter: str, lines_above: int) -> Rows:
    """The rows with the number of the line on which each ends."""
    try:
        for row in reader:
            if any(cell.strip() for cell in row[number:]):
                got = f"{len(row)}, the first too many being {row[number][:40]!r}"
                remedy = (
                    f'quote cells that hold {SEPARATORS[delimiter]}, as in "one, two", or correct '
                    "the line"
                )
                if number == 1:
                    title = (
                        f"if line {lines_above + 1} is a title or a comment and not the names of "
                        "columns, delete it"
                    )
                    remedy = f"{title}; else {remedy}"
                raise fail(
                    f"{path}:{lines_above + reader.line_num}",
                    f"{number} cells, as in the header",
                    got,
                    remedy,
                )
            if row:
                yield lines_above + reader.line_num, row[:number]
    except csv.Error as error:
        raise _no_csv(path, lines_above + reader.line_num, error) from error


def _no_csv(path: Path, line: int, error: csv.Error) -> ValueError:
    if "new-line character" in str(error):
        remedy = (
            "save it again with line ends as of Windows or Unix; of a cell with several lines "
            "quote all of it"
        )
        return fail(
            f"{path}:{line}",
            "lines that end as in Windows or Unix",
            "a line end of old Macs",
            remedy,
        )
    return fail(
        f"{path}:{line}", "CSV", str(error), "quote cells that hold commas, quotes or line ends"
    )


def _check_header(header: list[str], where: str, delimiter: str = "") -> None:
    expected, remedy = "a header line of distinct names", "write one"
    if not any(header):
        raise fail(where, expected, "an empty line" if header else "nothing", remedy)
    again = [name for place, name in enumerate(header) if name and name in header[:place]]
    if again:
        raise fail(
            where,
            expected,
            f"{listed(again)} more than once",
            "rename those columns, or remove them",
        )
    others = [
        name for letter, name in SEPARATORS.items() if letter != delimiter and letter in header[0]
    ]
    if delimiter and len(header) == 1 and others:
        remedy = "give every row as many cells as the header, or name what divides them: separator"
        raise fail(
            where,
            f"cells divided by {SEPARATORS[delimiter]}",
            f"one divided by {others[0]}",
            remedy,
        )
