"""The Parquet files of a folder, by their names alone: the files that are read, and the columns
that names of folders give.

Spark, Dask, polars and others write a table in folders called `column=value`, two levels for two
columns, with the column left out of the files. Beside them lie files that are no part of the table:
`_SUCCESS`, `_metadata`, `.part-0.parquet.crc`, `._part-0.parquet`. As in all readers, files whose
names begin with . or _ are left out."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from vijax.data.reading.checks import fail, listed

MISSING = "__HIVE_DEFAULT_PARTITION__"
"""The name of a folder has this for a missing value."""
MOST_LOOKED_AT = 100_000
"""The most files and folders that are listed in folders that are no parts."""
ENDING = ".parquet"
LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
"""Folders that say which of the files beside them are the present table; the others are old
versions."""
INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")


class Part(NamedTuple):
    """A Parquet file of a table.

    Attributes:
      file: its path or address.
      values: the columns from the names of its folders, as text, "" for a missing value.
    """

    file: str
    values: Mapping[str, str]


def is_index(name: str) -> bool:
    """True for the index of a data frame, which pandas and Dask write beside the columns.

    >>> is_index("__index_level_0__"), is_index("__null_dask_index__"), is_index("index")
    (True, True, False)
    """
    return INDEX.fullmatch(name) is not None


def index_note(name: str) -> str:
    """The note about the index of a data frame."""
    return (
        f"The column {name!r} is left out: it is the index of a data frame. Rename it to have it "
        "read."
    )


def check_no_log(name: str, source: object) -> None:
    """Raises a DataError for the folder of a log in the source: without the log, deleted rows would
    be read."""
    if name in LOGS:
        actual = f"a table of {LOGS[name]}, whose {name} says which files count"
        remedy = (
            "write the table of today as Parquet files, by the library that reads the log, and "
            "name those"
        )
        raise fail(source, "Parquet files that are all of one table", actual, remedy)


def find_parts(names: Iterable[str], source: object) -> list[Part]:
    """The parts of a folder, in the order of their names, from the names of its files.

    Args:
      names: paths within the folder, with / between their parts.
      source: the folder, for errors.

    Raises:
      DataError: files lie in folders with other names, or folders give different columns.

    >>> find_parts(["_SUCCESS", "year=2020/a.parquet", "year=2020/._a.parquet"], "folder")
    [Part(file='year=2020/a.parquet', values={'year': '2020'})]
    """
    names = [name for name in names if name.endswith(ENDING) and not is_hidden(name)]
    parts: list[Part] = []
    strays: list[str] = []
    for name in sorted(names):
        values = _folder_values(name)
        if values is None:
            strays.append(name)
        else:
            parts.append(Part(name, values))
    if not parts:
        return []
    remedy = "move them, or name one of the folders"
    if strays:
        actual = f"{listed(strays, 3)} beside {parts[0].file!r}"
        expected = "Parquet files in the folder itself, or in folders called column=value"
        raise fail(source, expected, actual, remedy)
    columns = tuple(parts[0].values)
    if odd_part := next((part for part in parts if tuple(part.values) != columns), None):
        expected = "Parquet files in folders of one depth, called by the same columns"
        raise fail(source, expected, f"{odd_part.file!r} beside {parts[0].file!r}", remedy)
    return parts


OTHER_TABLES = re.compile(r"\.(?:csv|tsv|xlsx?|ods|npy|npz|jsonl)(?:\.gz)?$", re.IGNORECASE)
"""Endings of tables in other formats."""


def find_other_tables(folder: Path) -> list[str]:
    """The names of the tables of other formats in a folder itself.

    Args:
      folder: a folder of this machine; other paths have none.
    """
    if not folder.is_dir():
        return []
    return sorted(
        name for name in os.listdir(folder) if OTHER_TABLES.search(name) and not is_hidden(name)
    )


def check_one_format(folder: Path, first: str) -> None:
    """Raises a DataError if tables of other formats lie beside Parquet files: they would be left
    out.

    Args:
      folder: a folder of this machine; other paths are not checked.
      first: one of the Parquet files.
    """
    if tables := find_other_tables(folder):
        actual = f"{listed(tables, 3)} beside {os.path.basename(first)!r}"
        remedy = "move the others, or name one file"
        raise fail(folder, "a folder of Parquet files alone", actual, remedy)


def find_strays(names: Iterable[str]) -> list[str]:
    """The Parquet files among these names that `find_parts` leaves out."""
    return sorted(
        name
        for name in names
        if name.endswith(ENDING) and (is_hidden(name) or _folder_values(name) is None)
    )


def local_names(folder: Path) -> list[str]:
    """The paths of the Parquet files in a folder and in its inner folders. All folders of parts are
    listed, and some others: their files are not read, but named in errors."""
    names: list[str] = []
    waiting: list[tuple[str, frozenset[str]]] = [("", frozenset())]
    num_left = MOST_LOOKED_AT
    while waiting:
        inner, above = waiting.pop()
        real = os.path.realpath(folder / inner)
        if real in above or (num_left <= 0 and not is_part(inner)):  # a link can lead back
            continue
        with (
            contextlib.nullcontext() if is_part(inner) else contextlib.suppress(OSError),
            os.scandir(real) as entries,
        ):
            for entry in entries:
                name = f"{inner}/{entry.name}".removeprefix("/")
                num_left -= not is_part(inner)
                if entry.is_dir():
                    check_no_log(name, folder)
                    waiting += [] if is_hidden(entry.name) else [(name, above | {real})]
                elif entry.name.endswith(ENDING):
                    names.append(name)
    return names


def is_part(folder: str) -> bool:
    """True if every folder of a path has a column and a value; true for "", the folder itself."""
    return _folder_values(f"{folder}/") is not None


def is_hidden(name: str) -> bool:
    """True if a part of a path begins with . or _; the name of a column may begin with _."""
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part)
        for part in name.split("/")
    )


def _folder_values(name: str) -> dict[str, str] | None:
    """The columns that the folders of a path give; None if a folder has no column and value."""
    values: dict[str, str] = {}
    for folder in filter(None, name.split("/")[:-1]):
        column, equals, value = folder.partition("=")
        column = unquote(column)
        if not equals or not column or column in values:
            return None
        values[column] = "" if value == MISSING else unquote(value)
    return values


def folder_cells(parts: Sequence[Part], counts: Sequence[int]) -> dict[str, list[str]]:
    """The columns that folders give, with a cell for each row.

    Args:
      parts: the parts.
      counts: number of rows of each part.

    >>> folder_cells([Part("year=1/a.parquet", {"year": "1"}), Part("year=2/b.parquet", {"year": "2"})], [1, 2])
    {'year': ['1', '2', '2']}
    """
    names = list(parts[0].values) if parts else []
    cells: dict[str, list[str]] = {}
    for name in names:
        cells[name] = []
        for part, count in zip(parts, counts, strict=True):
            cells[name] += [part.values[name]] * count
    return cells
