"""The program that reads a sheet of a spreadsheet in a process of its own;
`vijax.data.tables.sheets` starts it.

The library of spreadsheets allocates memory for every cell between the first and the last, and ends
its process if there is not enough. Here that process is this one. It gets a limit, imports nothing
of vijax, and writes JSON lines:

    {"sheets": [...], "sheet": name or null}      all sheets, and the one that is read
    {"numbers": [...]}                            the numbers of some rows that are not empty, as the sheet shows them
    [[cell, ...], ...]                            these rows, without empty cells at their ends
    {"rows": number}                              all rows were written
    {"error": text}                               the library cannot read the file

A cell is a number, a text, true or false; dates and times are a list of their kind and their parts.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import sys
from typing import Any

ROWS = 256
"""Rows in a line."""
MEMORY = 3
"""Exit code: no memory is left below the limit."""
DAMAGED = 4
"""Exit code: the library cannot read the file."""


def limit_memory(number: int) -> None:
    """Limits this process to `number` bytes of memory, and keeps it from dumping its memory when it
    ends."""
    resource = importlib.import_module("resource")  # Windows has none, and is given no limit
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(
        resource.RLIMIT_AS, (number if hard_limit < 0 else min(number, hard_limit), hard_limit)
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def as_json(cell: Any) -> list:
    """A cell that JSON has no type for, a date or time, as a list.

    >>> as_json(datetime.date(2020, 2, 29))
    ['date', '2020-02-29']
    """
    if isinstance(cell, datetime.timedelta):
        return ["timedelta", cell.days, cell.seconds, cell.microseconds]
    return [type(cell).__name__, cell.isoformat()]


def from_json(cell: Any) -> Any:
    """A cell that was written as JSON.

    >>> from_json(["timedelta", 1, 2, 0])
    datetime.timedelta(days=1, seconds=2)
    """
    if not isinstance(cell, list):
        return cell
    kind, *parts = cell
    if kind == "timedelta":
        return datetime.timedelta(*parts)
    return getattr(datetime, kind).fromisoformat(*parts)


def write_sheet(path: str, wanted: str | None, out: Any) -> None:
    """Writes the rows of the wanted sheet, or of the first, as JSON lines."""
    import python_calamine

    say = lambda value: out.write(json.dumps(value, default=as_json).encode() + b"\n")
    with contextlib.ExitStack() as stack:
        try:
            path.encode()
            book = stack.enter_context(python_calamine.CalamineWorkbook.from_path(path))
        except UnicodeEncodeError:
            # The library would look for another file: the name has bytes that are no text.
            file = stack.enter_context(open(path, "rb"))
            book = stack.enter_context(python_calamine.CalamineWorkbook.from_filelike(file))
        names = list(book.sheet_names)
        name = wanted if wanted is not None else next(iter(names), None)
        say({"sheets": names, "sheet": name if name in names else None})
        sheet = book.get_sheet_by_name(name) if name in names else None
        rows = [] if sheet is None else sheet.to_python()
        # The library leaves out the rows above the first filled cell.
        above = sheet.start[0] if sheet is not None and sheet.start is not None else 0
    num_written = 0
    block: list[list[Any]] = []
    numbers: list[int] = []

    def write() -> None:
        say({"numbers": numbers})
        say(block)

    for number, row in enumerate(rows, above + 1):
        while row and row[-1] == "":
            row.pop()
        if row:
            block.append(row)
            numbers.append(number)
        if len(block) == ROWS:
            write()
            num_written += ROWS
            block = []
            numbers = []
    write()
    say({"rows": num_written + len(block)})


def main(library: str, most_bytes: str, path: str, wanted: str) -> int:
    """Reads one sheet.

    Args:
      library: the folder in which the library of spreadsheets is.
      most_bytes: bytes of memory that this process may have; "0" for no limit.
      path: the spreadsheet.
      wanted: the name of the sheet as JSON, "null" for the first.
    """
    out = sys.stdout.buffer
    try:
        if most_bytes != "0":
            limit_memory(int(most_bytes))
        sys.path.append(library)
        write_sheet(path, json.loads(wanted), out)
    except MemoryError:
        return MEMORY
    except BrokenPipeError:
        return DAMAGED
    except Exception as error:
        text = json.dumps({"error": str(error).strip() or type(error).__name__})
        out.write(text.encode() + b"\n")
        return DAMAGED
    out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
