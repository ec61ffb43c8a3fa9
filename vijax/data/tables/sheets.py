"""Sheets of spreadsheets, read in a process of its own that may have so much memory and no more.

The library that reads them ends its process where a file asks for more memory than there is; and a
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
"""Whether the system keeps a process below a limit of its memory."""
SHARE = 0.8
"""Share of the free memory that reading a sheet may take."""
LEAST_BYTES = GIB
"""Memory that any file may take."""
STARTED_BYTES = GIB // 2
"""Memory without which the other process cannot begin."""
BYTES_PER_BYTE = 32
"""Memory that may be taken for each byte of a sheet when it is unpacked. A cell is 15 bytes at the
least."""
CELL_BYTES = 64
"""Memory that a cell takes, an empty one too."""
BOMB = 200
"""Bytes that one byte of a zipped file may become where it becomes more than `LEAST_BYTES`."""
SAVE_AGAIN = "save it again, or save the sheet as CSV"


class Sheet(NamedTuple):
    """A sheet.

    Attributes:
      sheets: the names of all sheets of the file.
      name: the name of this one; None where there is none of the wanted name.
      rows: the rows that are not empty, of one length, "" standing for an empty cell.
      numbers: the number of each row, as spreadsheets show it.
    """

    sheets: list[str]
    name: str | None
    rows: list[list[Any]]
    numbers: list[int]


def open_sheet(path: Path, wanted: str | None = None) -> Sheet:
    """The wanted sheet of a spreadsheet, or the first.

    Raises:
      DataError: it is no spreadsheet; its cells lie so far apart, or unpack to so much, that they
          do not fit in memory.
    """
    check_regular(path)
    library = require_extra("python_calamine", "excel")
    sizes = file_sizes(path)
    check_unpacked_size(path, sizes)
    most_bytes = most_memory(sizes)
    can_start = bool(sys.executable) and not getattr(
        sys, "frozen", False
    )  # a frozen program would start itself
    if not (CAN_LIMIT and can_start):
        _check_extent(path, most_bytes, sizes.unpacked)
    if not can_start:
        return _read_here(path, wanted)
    folder = str(Path(str(library.__file__)).resolve().parents[1])
    arguments = [folder, str(most_bytes if CAN_LIMIT else 0), str(path), json.dumps(wanted)]
    with tempfile.TemporaryFile() as said, _start_process(arguments, said) as process:
        found = _read(process.stdout)
        code = process.wait()
        said.seek(0)
        last = said.read(2000).decode(errors="replace").strip()
    if code == 0 and found.whole:
        return Sheet(found.sheets, found.name, _pad_rows(found.rows), found.numbers)
    if code == sheet_process.DAMAGED and found.error is not None:
        _check_extent(path, most_bytes)
        raise fail(
            path,
            "a whole spreadsheet",
            f"an unreadable one ({_first_line(found.error)})",
            SAVE_AGAIN,
        )
    if code == sheet_process.MEMORY or code < 0:
        _check_extent(path, most_bytes, largest=True)
        got = f"one that takes more{f' ({_first_line(last)})' if last else ''}"
        remedy = "delete cells that stand far from the table, or save the sheet as CSV"
        raise fail(
            path, f"a spreadsheet that is read in {size_text(most_bytes)} of memory", got, remedy
        )
    got = f"exit code {code} of the program that reads it ({_first_line(last)})"
    raise fail(path, "a spreadsheet that can be read", got, SAVE_AGAIN)


def _read_here(path: Path, wanted: str | None) -> Sheet:
    """The sheet as the library reads it here, where no other process can be started; its extent was
    looked at."""
    lines = io.BytesIO()
    with parsing(path, "a whole spreadsheet", SAVE_AGAIN):
        sheet_process.write_sheet(str(path), wanted, lines)
    lines.seek(0)
    found = _read(lines)
    return Sheet(found.sheets, found.name, _pad_rows(found.rows), found.numbers)


def most_memory(sizes: FileSizes) -> int:
    """Bytes of memory that reading a file may take."""
    return int(
        max(STARTED_BYTES, min(LEAST_BYTES + BYTES_PER_BYTE * sizes.unpacked, SHARE * free_bytes()))
    )


def check_unpacked_size(path: Path, sizes: FileSizes) -> None:
    """Raises a DataError of a file that becomes far larger when it is unpacked than any sheet of
    values does."""
    if sizes.unpacked > max(LEAST_BYTES, BOMB * sizes.packed):
        got = f"{size_text(sizes.packed)} that unpack to {size_text(sizes.unpacked)}"
        remedy = "if it is to be trusted, save the sheet as CSV"
        raise fail(
            path, f"a spreadsheet that unpacks to {BOMB} times its size at most", got, remedy
        )


def _check_extent(
    path: Path, most_bytes: int, looked_at: int | None = None, largest: bool = False
) -> None:
    """Raises a DataError where the cells of a sheet lie too far apart.

    Args:
      path: the spreadsheet.
      most_bytes: memory that reading it may take.
      looked_at: bytes of XML that are looked at; None: some.
      largest: whether it is known that some sheet takes more memory than that, so that any large
          one is named.
    """
    extent = largest_extent(path) if looked_at is None else largest_extent(path, looked_at)
    if extent is None:
        return
    scattered = extent.area > 4 * extent.filled
    if CELL_BYTES * extent.area > most_bytes or (largest and scattered):
        got = (
            f"{extent.rows:,} rows of {extent.columns:,} columns up to the cell {extent.last}, of "
            f"which {extent.filled:,} cells hold something"
        )
        remedy = (
            f"delete what stands far from the table, such as in {extent.last}, or copy the table "
            "to a new sheet"
        )
        if not scattered:
            remedy = "save the sheet as CSV, which is read without its book"
        raise fail(path, f"a sheet that is read in {size_text(most_bytes)} of memory", got, remedy)


# --- the other process ----------------------------------------------------------------------------
class _Output:
    """The output of the other process."""

    def __init__(self) -> None:
        self.sheets: list[str] = []
        self.name: str | None = None
        self.rows: list[list[Any]] = []
        self.numbers: list[int] = []
        self.error: str | None = None
        self.whole = False


def _read(lines: Any) -> _Output:
    found = _Output()
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:  # a line that was cut when the process ended
            break
        no_dates = line.count(b"[") == 1 + len(value)
        if isinstance(value, list):
            found.rows += (
                value
                if no_dates
                else [[sheet_process.from_json(cell) for cell in row] for row in value]
            )
        elif "sheets" in value:
            found.sheets, found.name = value["sheets"], value["sheet"]
        elif "numbers" in value:
            found.numbers += value["numbers"]
        elif "error" in value:
            found.error = value["error"]
        else:
            found.whole = value["rows"] == len(found.rows) == len(found.numbers)
    return found


@contextlib.contextmanager
def _start_process(arguments: list[str], said: Any) -> Iterator[subprocess.Popen]:
    """The program, which has ended when the block ends."""
    # -I and -S: nothing of the user's environment is imported there. -X utf8: names of files are what they are here.
    command = [sys.executable, "-I", "-S", "-X", "utf8", sheet_process.__file__, *arguments]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
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
