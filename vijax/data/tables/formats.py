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
from vijax.data.reading.titles import count_title_rows
from vijax.data.schema.cells import column_name
from vijax.data.tables.sheets import open_sheet
from vijax.files import check_declared_sizes

BEGINNINGS = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")
SAVE_AGAIN = (
    "save arrays of numbers by numpy.save or numpy.savez (no pickles), or fetch the file again"
)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz by name, or the array of a .npy as "x"; the file's content tells which
    of them it is.

    Raises:
      DataError: it is no such file or is damaged, or it has objects, structures, dates or complex
        numbers.
    """
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
            actual = f"{name!r} of {array.dtype if isinstance(array, np.ndarray) else 'bytes'}"
            raise fail(path, "arrays of numbers or text (no pickles)", actual, SAVE_AGAIN)
    return arrays


Separator = Literal[",", ";", "tab", "|"]
Decimal = Literal[".", ","]


class Dialect(NamedTuple):
    """The way in which a table is written as a file.

    Attributes:
      encoding: encoding of text; a byte order mark of UTF-16 or UTF-32 goes before "utf-8".
      separator: the letter between cells; None finds it in the first lines.
      decimal: the letter before the fraction of a number; None finds commas if another letter
        separates cells.
      sheet: the sheet of a spreadsheet; None for the first.
      missing_words: words for a missing cell in columns of names; None for the usual ones of the
        format.
      decimal_before: the decimal sign of the training file, if `decimal` is None; it is ignored for
        a file whose cells are separated by commas.
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
"""The most lines that are searched for the separator."""


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
    """The header of a text file, and its rows. Notes tell a separator that is not the usual one of
    the file's ending, and comments above the header.

    Empty lines are left out. A row may have fewer cells than the header, and more only if those are
    empty.

    Raises:
      DataError: at once if there is no header; while the rows are read, if a row has more cells
        than the header or is no CSV.
    """
    notes = notes or Notes()
    csv.field_size_limit(2**31 - 1)
    lines = (f"{line}\n" for line in read_lines(path, dialect.encoding))
    first = list(itertools.islice(lines, MOST_LINES))
    preamble = read_preamble(first, list(SEPARATORS), path, notes)
    first = first[preamble.number :]
    num_titles = _num_title_lines(first, dialect.separator or preamble.separator)
    if num_titles:
        notes.add(title_note(path, preamble.number + num_titles, first[0].strip()))
        preamble = preamble._replace(number=preamble.number + num_titles)
        first = first[num_titles:]
    if dialect.separator is not None:
        delimiter = dialect.separator.replace("tab", "\t")
        if delimiter not in SEPARATORS:
            expected = "one of ',', ';', 'tab' and '|'"
            raise fail("separator", expected, repr(dialect.separator), "pass one of these")
    elif preamble.separator is not None:
        delimiter = preamble.separator
    else:
        is_tsv = path.name.lower().removesuffix(".gz").endswith(".tsv")
        delimiter = _separator(first, "\t" if is_tsv else ",", path, notes)
    # Python's csv needs line ends, and counts lines itself: a quoted text may have several.
    reader = csv.reader(itertools.chain(first, lines), delimiter=delimiter, strict=True)
    line = preamble.number + 1
    try:
        header = [column_name(cell.strip()) for cell in next(reader, [])]
    except csv.Error as error:
        raise _no_csv(path, preamble.number + reader.line_num, error) from error
    _check_header(header, f"{path}:{line}", delimiter)
    if preamble.comment is not None:
        some_rows = [row for row in _some_rows(first, delimiter)[1:] if row]
        check_comment(preamble, header, some_rows, delimiter, path)
    rows = _rows(path, reader, len(header), delimiter, preamble.number)
    return DelimitedFile(header, rows, delimiter, line)


def title_note(path: Path, line: int, title: str) -> str:
    """A note on rows above the header that are left out."""
    return (
        f"The header of {path.name} is its line {line + 1}. What stands above it is left out, as a "
        f"title: {title[:60]!r}."
    )


def _num_title_lines(lines: Sequence[str], separator: str | None) -> int:
    """The number of lines above the header, by the first separator that gives one; none if a line
    of the file has a quoted cell of several lines."""
    letters = list(SEPARATORS)
    if separator is not None:
        letters = [separator.replace("tab", "\t")]
    whole_lines = list(lines)
    if len(lines) >= MOST_LINES // 2:  # the last row may be cut off
        whole_lines = whole_lines[:-1]
    for letter in letters:
        rows = _some_rows(whole_lines, letter)
        if len(rows) == len(whole_lines) and (number := count_title_rows(rows)):
            return number
    return 0


def _some_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of some lines; [] if they are no CSV, which the reader of the file reports."""
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return []


def _separator(lines: Sequence[str], usual: str, path: Path, notes: Notes) -> str:
    """The separator that gives each row as many cells as the header, at least two; the usual one if
    several do."""
    letters = (usual, *(letter for letter in SEPARATORS if letter != usual))
    fitting = [letter for letter in letters if _fits(lines, letter)]
    if not fitting or fitting == [usual]:
        return usual
    separator = fitting[0]
    alternatives = " or ".join(SEPARATORS[letter] for letter in fitting[1:])
    doubt = f"; {alternatives} would fit too" if alternatives else ""
    notes.add(
        f"The cells of {path.name} are divided by {SEPARATORS[separator]}{doubt}. If not, set "
        "separator."
    )
    return separator


def _fits(lines: Sequence[str], letter: str) -> bool:
    rows = [row for row in _some_rows(lines, letter) if row]
    if len(lines) >= MOST_LINES // 2:  # the last row may be cut off
        rows = rows[:-1]
    return bool(rows) and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1


# --- decimal commas -------------------------------------------------------------------------------
GROUPED = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+"
COMMA = re.compile(rf"(?:{GROUPED}|[+-]?\d*),\d+(?:[eE][+-]?\d+)?")
WHOLE = re.compile(rf"{GROUPED}|[+-]?\d+")
POINT = re.compile(r"[+-]?\d*\.\d*(?:[eE][+-]?\d+)?")


def with_points(cells: Sequence[str], decimal: Decimal | None, where: str) -> tuple[list[str], str]:
    """The cells of a column with decimal points instead of commas, and the first changed cell.

    None takes commas for decimal ones if most cells are numbers with commas, or whole, and none has
    a decimal point. Points then separate thousands.

    >>> with_points(["1,5", "1.234,5", "2.000", "7"], None, "a.csv")
    (['1.5', '1234.5', '2000', '7'], '1,5')
    >>> with_points(["1,5", "0.5"], None, "a.csv")
    (['1,5', '0.5'], '')
    """
    commas = [cell for cell in cells if COMMA.fullmatch(cell)]
    points = [cell for cell in cells if POINT.fullmatch(cell) and not WHOLE.fullmatch(cell)]
    num_whole = sum(bool(WHOLE.fullmatch(cell)) for cell in cells)
    thousands = [cell for cell in cells if WHOLE.fullmatch(cell) and "." in cell]
    if decimal is None and (
        not commas or points or 2 * (len(commas) + num_whole) < sum(map(bool, cells))
    ):
        return list(cells), ""
    if (commas or thousands) and points:
        actual = f"{(commas or thousands)[0]!r} and {points[0]!r}"
        remedy = "correct the cells, or set the other decimal"
        raise fail(where, "one sign for decimals in a column", actual, remedy)
    to_point = lambda cell: cell.replace(".", "").replace(",", ".")
    is_number = lambda cell: COMMA.fullmatch(cell) or WHOLE.fullmatch(cell)
    new_cells = [to_point(cell) if is_number(cell) else cell for cell in cells]
    return new_cells, commas[0] if commas else ""


THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")


def have_decimal_commas(cells: Sequence[str]) -> bool:
    """True if a cell has a comma that cannot separate thousands.

    >>> have_decimal_commas(["1,5", "7"]), have_decimal_commas(["1,125", "7"])
    (True, False)
    """
    return any(COMMA.fullmatch(cell) and not THOUSANDS.fullmatch(cell) for cell in cells)


def doubtful_point(cells: Sequence[str]) -> str:
    """The first number with a point, if in each such number the point may separate thousands; else
    "".

    >>> doubtful_point(["1.125", "7"]), doubtful_point(["1.125", "7.5"])
    ('1.125', '')
    """
    is_number = lambda cell: POINT.fullmatch(cell) or WHOLE.fullmatch(cell)
    with_point = [cell for cell in cells if "." in cell and is_number(cell)]
    if with_point and all(map(WHOLE.fullmatch, with_point)):
        return with_point[0]
    return ""


def find_decimal_sign(columns: Iterable[Sequence[str]]) -> Decimal | None:
    """The decimal sign of numbers: "." if one has a fraction written with a point, else None."""
    has_point = lambda cell: (
        POINT.fullmatch(cell) is not None and WHOLE.fullmatch(cell) is None and len(cell) > 1
    )
    if not any(has_point(cell) for cells in columns for cell in cells):
        return None
    return "."


# --- spreadsheets ---------------------------------------------------------------------------------
class SheetTable(NamedTuple):
    """A sheet with a header.

    Attributes:
      header: the names in the first row that is not empty.
      rows: the cells of the rows below it that are not empty, "" for an empty cell.
      numbers: the numbers of these rows, as the spreadsheet shows them.
      line: the number of the header row.
    """

    header: list[str]
    rows: list[list[Any]]
    numbers: list[int]
    line: int


def read_sheet(path: Path, dialect: Dialect = USUAL, notes: Notes | None = None) -> SheetTable:
    """The wanted sheet. A note names it if there are several."""
    sheet = open_sheet(path, dialect.sheet)
    if sheet.name is None:
        expected = "a sheet" if dialect.sheet is None else f"a sheet {dialect.sheet!r}"
        remedy = f"pass sheet=...; {nearest(dialect.sheet or '', sheet.sheets)}"
        raise fail(path, expected, "none", remedy)
    if len(sheet.sheets) > 1 and dialect.sheet is None and notes is not None:
        notes.add(
            f"The sheet {sheet.name!r} of {path.name} is read, and not "
            f"{listed(sheet.sheets[1:])}: set sheet for another."
        )
    num_comments = _num_comments(sheet.rows)
    if num_comments and notes is not None:
        notes.add(
            f"Rows of {path.name} above the header that begin with # are left out, as comments: "
            f"{num_comments}."
        )
    rows = sheet.rows[num_comments:]
    numbers = sheet.numbers[num_comments:]
    num_titles = count_title_rows(rows[:MOST_LINES])
    if num_titles and notes is not None:
        title = next(str(cell) for cell in rows[0] if cell != "")
        notes.add(title_note(path, numbers[num_titles] - 1, title))
    rows = rows[num_titles:]
    numbers = numbers[num_titles:]
    header = [column_name(str(cell).strip()) for cell in next(iter(rows), [])]
    line = next(iter(numbers), 1)
    _check_header(header, f"{path}, row {line}")
    return SheetTable(header, rows[1:], numbers[1:], line)


def _num_comments(rows: Sequence[Sequence[Any]]) -> int:
    """The number of comments above the header: rows with one cell, a text that begins with #."""
    is_comment = lambda row: (
        len([cell for cell in row if cell != ""]) == 1 and re.match(r"\s*#.", str(row[0]))
    )
    return next((number for number, row in enumerate(rows) if not is_comment(row)), 0)


# --- checks ---------------------------------------------------------------------------------------
def _rows(path: Path, reader, number: int, delimiter: str, lines_above: int) -> Rows:
    """The rows, each with the number of the line on which it ends."""
    try:
        for row in reader:
            line = lines_above + reader.line_num
            if any(cell.strip() for cell in row[number:]):
                raise _long_row(path, line, row, number, delimiter, lines_above)
            if row:
                yield line, row[:number]
    except csv.Error as error:
        raise _no_csv(path, lines_above + reader.line_num, error) from error


def _long_row(
    path: Path, line: int, row: list[str], number: int, delimiter: str, lines_above: int
) -> ValueError:
    """The error for a row with more cells than the header."""
    actual = f"{len(row)}, the first too many being {row[number][:40]!r}"
    remedy = f'quote cells that hold {SEPARATORS[delimiter]}, as in "one, two", or correct the line'
    if number == 1:
        title = (
            f"if line {lines_above + 1} is a title or a comment and not the names of columns, "
            "delete it"
        )
        remedy = f"{title}; else {remedy}"
    return fail(f"{path}:{line}", f"{number} cells, as in the header", actual, remedy)


def _no_csv(path: Path, line: int, error: csv.Error) -> ValueError:
    location = f"{path}:{line}"
    if "new-line character" in str(error):
        expected = "lines that end as in Windows or Unix"
        remedy = (
            "save it again with line ends as of Windows or Unix; of a cell with several lines "
            "quote all of it"
        )
        return fail(location, expected, "a line end of old Macs", remedy)
    return fail(location, "CSV", str(error), "quote cells that hold commas, quotes or line ends")


def _check_header(header: list[str], where: str, delimiter: str = "") -> None:
    expected = "a header line of distinct names"
    if not any(header):
        raise fail(where, expected, "an empty line" if header else "nothing", "write one")
    repeated = [name for place, name in enumerate(header) if name and name in header[:place]]
    if repeated:
        actual = f"{listed(repeated)} more than once"
        raise fail(where, expected, actual, "rename those columns, or remove them")
    separators = [
        name for letter, name in SEPARATORS.items() if letter != delimiter and letter in header[0]
    ]
    if delimiter and len(header) == 1 and separators:
        expected = f"cells divided by {SEPARATORS[delimiter]}"
        remedy = "give every row as many cells as the header, or name what divides them: separator"
        raise fail(where, expected, f"one divided by {separators[0]}", remedy)
