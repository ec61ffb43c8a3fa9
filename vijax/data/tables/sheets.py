"""Sheets of spreadsheets, read in a process of its own with limited memory.

The library that reads them ends its process if a file asks for more memory than there is; and a
file of 1 kB can ask for 512 GiB, by one cell in the last row and column. So no file can end the
process of the user."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from vijax.data.reading.checks import DataError, fail
from vijax.data.reading.files import check_regular, parsing
from vijax.data.tables import sheet_process
from vijax.data.tables.extents import FileSizes, file_sizes, largest_extent
from vijax.extras import require_extra
from vijax.memory import GIB, free_bytes, size_text

CAN_LIMIT = sys.platform == "linux"
"""Whether the system can limit the memory of a process."""
SHARE = 0.8
"""Share of the free memory that reading a sheet may take."""
LEAST_BYTES = GIB
"""Memory that any file may take."""
STARTED_BYTES = GIB // 2
"""Memory that the other process needs to start."""
BYTES_PER_BYTE = 32
"""Memory that each byte of an unpacked sheet may take. A cell has at least 15 bytes."""
CELL_BYTES = 64
"""Memory that a cell takes, also an empty one."""
BOMB = 200
"""Bytes to which a byte of a zipped file may expand, if the file exceeds `LEAST_BYTES`."""
SAVE_AGAIN = "save it again, or save the sheet as CSV"


class Sheet(NamedTuple):
    """A sheet.

    Attributes:
      sheets: the names of all sheets of the file.
      name: the name of this one; None if the file has no sheet of the wanted name.
      rows: the rows that are not empty, of one length, "" for an empty cell.
      numbers: the number of each row, as spreadsheets show it.
    """

    sheets: list[str]
    name: str | None
    rows: list[list[Any]]
    numbers: list[int]


def open_sheet(path: Path, wanted: str | None = None) -> Sheet:
    """The wanted sheet of a spreadsheet, or the first.

    Raises:
      DataError: it is no spreadsheet; or its cells lie so far apart, or unpack to so much, that
        they do not fit in memory.
    """
    check_regular(path)
    library = require_extra("python_calamine", "excel")
    sizes = file_sizes(path)
    check_unpacked_size(path, sizes)
    most_bytes = most_memory(sizes)
    # A frozen program would start itself.
    can_start = bool(sys.executable) and not getattr(sys, "frozen", False)
    if not (CAN_LIMIT and can_start):
        _check_extent(path, most_bytes, sizes.unpacked)
    if not can_start:
        return _read_here(path, wanted)
    folder = str(Path(str(library.__file__)).resolve().parents[1])
    arguments = [folder, str(most_bytes if CAN_LIMIT else 0), str(path), json.dumps(wanted)]
    with tempfile.TemporaryFile() as errors, _start_process(arguments, errors) as process:
        output = _read(process.stdout)
        code = process.wait()
        errors.seek(0)
        message = errors.read(2000).decode(errors="replace").strip()
    if code == 0 and output.is_complete:
        return output.sheet()
    raise _process_error(path, code, output, message, most_bytes)


def _process_error(
    path: Path, code: int, output: _Output, message: str, most_bytes: int
) -> DataError:
    """The error for a sheet that the other process could not read; raises one that names the extent
    of the sheet, if that is too large."""
    if code == sheet_process.DAMAGED and output.error is not None:
        _check_extent(path, most_bytes)
        actual = f"an unreadable one ({_first_line(output.error)})"
        return fail(path, "a whole spreadsheet", actual, SAVE_AGAIN)
    if code == sheet_process.MEMORY or code < 0:
        _check_extent(path, most_bytes, largest=True)
        expected = f"a spreadsheet that is read in {size_text(most_bytes)} of memory"
        detail = f" ({_first_line(message)})" if message else ""
        remedy = "delete cells that stand far from the table, or save the sheet as CSV"
        return fail(path, expected, f"one that takes more{detail}", remedy)
    actual = f"exit code {code} of the program that reads it ({_first_line(message)})"
    return fail(path, "a spreadsheet that can be read", actual, SAVE_AGAIN)


def _read_here(path: Path, wanted: str | None) -> Sheet:
    """The sheet as the library reads it in this process, if no other can be started; its extent was
    checked."""
    lines = io.BytesIO()
    with parsing(path, "a whole spreadsheet", SAVE_AGAIN):
        sheet_process.write_sheet(str(path), wanted, lines)
    lines.seek(0)
    return _read(lines).sheet()


def most_memory(sizes: FileSizes) -> int:
    """Bytes of memory that reading a file may take."""
    allowed = min(LEAST_BYTES + BYTES_PER_BYTE * sizes.unpacked, SHARE * free_bytes())
    return int(max(STARTED_BYTES, allowed))


def check_unpacked_size(path: Path, sizes: FileSizes) -> None:
    """Raises a DataError for a file that unpacks to far more than any sheet of values does."""
    if sizes.unpacked > max(LEAST_BYTES, BOMB * sizes.packed):
        expected = f"a spreadsheet that unpacks to {BOMB} times its size at most"
        actual = f"{size_text(sizes.packed)} that unpack to {size_text(sizes.unpacked)}"
        raise fail(path, expected, actual, "if it is to be trusted, save the sheet as CSV")


def _check_extent(
    path: Path, most_bytes: int, looked_at: int | None = None, largest: bool = False
) -> None:
    """Raises a DataError if the cells of a sheet lie too far apart.

    Args:
      path: the spreadsheet.
      most_bytes: memory that reading it may take.
      looked_at: bytes of XML to read; None: the default.
      largest: whether some sheet is known to take more memory, so that any large sheet is named.
    """
    extent = largest_extent(path) if looked_at is None else largest_extent(path, looked_at)
    if extent is None:
        return
    scattered = extent.area > 4 * extent.filled
    if CELL_BYTES * extent.area > most_bytes or (largest and scattered):
        actual = (
            f"{extent.rows:,} rows of {extent.columns:,} columns up to the cell {extent.last}, of "
            f"which {extent.filled:,} cells hold something"
        )
        remedy = (
            f"delete what stands far from the table, such as in {extent.last}, or copy the table "
            "to a new sheet"
        )
        if not scattered:
            remedy = "save the sheet as CSV, which is read without its book"
        raise fail(
            path, f"a sheet that is read in {size_text(most_bytes)} of memory", actual, remedy
        )


# --- the other process ----------------------------------------------------------------------------
class _Output:
    """The output of the other process."""

    def __init__(self) -> None:
        self.sheets: list[str] = []
        self.name: str | None = None
        self.rows: list[list[Any]] = []
        self.numbers: list[int] = []
        self.error: str | None = None
        self.is_complete = False

    def sheet(self) -> Sheet:
        """The sheet, with rows of one length."""
        return Sheet(self.sheets, self.name, _pad_rows(self.rows), self.numbers)


def _read(lines: Any) -> _Output:
    output = _Output()
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:  # a line that was cut when the process ended
            break
        if isinstance(value, list):
            has_dates = line.count(b"[") != 1 + len(value)
            if has_dates:
                value = [[sheet_process.from_json(cell) for cell in row] for row in value]
            output.rows += value
        elif "sheets" in value:
            output.sheets = value["sheets"]
            output.name = value["sheet"]
        elif "numbers" in value:
            output.numbers += value["numbers"]
        elif "error" in value:
            output.error = value["error"]
        else:
            output.is_complete = value["rows"] == len(output.rows) == len(output.numbers)
    return output


@contextlib.contextmanager
def _start_process(arguments: list[str], errors: Any) -> Iterator[subprocess.Popen]:
    """The process, which has ended when the block ends."""
    # -I and -S: it imports nothing from the user's environment. -X utf8: it reads names of files as
    # this process does.
    command = [sys.executable, "-I", "-S", "-X", "utf8", sheet_process.__file__, *arguments]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        )
    except (OSError, ValueError, TypeError) as error:
        remedy = "save the sheet as CSV, which is read without another process"
        raise DataError(
            f"a spreadsheet is read by a process of its own, and none can be started ({error}): "
            f"{remedy}."
        ) from error
    try:
        yield process
    finally:
        process.kill()
        process.stdout.close()  # type: ignore[union-attr]
        process.wait()


def _pad_rows(rows: list[list[Any]]) -> list[list[Any]]:
    width = max(map(len, rows), default=0)
    for row in rows:
        row.extend([""] * (width - len(row)))
    return rows


def _first_line(text: str) -> str:
    line = (text.splitlines() or [""])[0][:200]
    return "".join(letter if letter.isprintable() else "?" for letter in line)
