"""The Parquet files of a folder, by their names alone: which are read, and which columns the names
of folders give.

Spark, Dask, polars and others write a table in folders called `column=value`, two levels for two
columns, with the column left out of the files. Beside them lie files that are no part of the table:
`_SUCCESS`, `_metadata`, `.part-0.parquet.crc`, `._part-0.parquet`. As all readers do, files are
left out whose names begin with . or _."""

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
"""The value of a column, in the name of a folder, where it is missing."""
MOST_LOOKED_AT = 100_000
"""Files and folders, in folders that are no parts, that are looked at."""
ENDING = ".parquet"
LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
"""Folders that say which of the files beside them are the table of today; others are of versions
that were replaced."""
INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")


class Part(NamedTuple):
    """A Parquet file of a table.

    Attributes:
      file: its path or address.
      values: the columns that the names of its folders give it, as text, "" for a missing value.
    """

    file: str
    values: Mapping[str, str]


def is_index(name: str) -> bool:
    """Tells whether a column is the index of a data frame, which pandas and Dask write beside the
    columns.

    >>> is_index("__index_level_0__"), is_index("__null_dask_index__"), is_index("index")
    (True, True, False)
    """
    return INDEX.fullmatch(name) is not None


def index_note(name: str) -> str:
    """The note on the index of a data frame."""
    return (
        f"The column {name!r} is left out: it is the index of a data frame. Rename it to have it "
        "read."
    )


def check_no_log(name: str, source: object) -> None:
    """Raises a DataError for the folder of a log in the source: without it, rows that were deleted
    would be read."""
    if name in LOGS:
        got = f"a table of {LOGS[name]}, whose {name} says which files count"
        remedy = (
            "write the table of today as Parquet files, by the library that reads the log, and "
            "name those"
        )
        raise fail(source, "Parquet files that are all of one table", got, remedy)


def find_parts(names: Iterable[str], source: object) -> list[Part]:
    """The parts of a folder, in the order of their names, from the names of the files in it.

    Args:
      names: paths within the folder, with / between their parts.
      source: the folder, for errors.

    Raises:
      DataError: files lie in folders of other names, or in folders of other columns than others.

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
        got = f"{listed(strays, 3)} beside {parts[0].file!r}"
        raise fail(
            source,
            "Parquet files in the folder itself, or in folders called column=value",
            got,
            remedy,
        )
    columns = tuple(parts[0].values)
    if other := next((part for part in parts if tuple(part.values) != columns), None):
        expected = "Parquet files in folders of one depth, called by the same columns"
        raise fail(source, expected, f"{other.file!r} beside {parts[0].file!r}", remedy)
    return parts


OTHER_TABLES = re.compile(r"\.(?:csv|tsv|xlsx?|ods|npy|npz|jsonl)(?:\.gz)?$", re.IGNORECASE)
"""Endings of tables in other formats."""


def find_other_tables(folder: Path) -> list[str]:
    """The names of tables of other formats in a folder itself.

    Args:
      folder: a folder of this machine; another path has none.
    """
    if not folder.is_dir():
        return []
    return sorted(
        name for name in os.listdir(folder) if OTHER_TABLES.search(name) and not is_hidden(name)
    )


def check_one_format(folder: Path, first: str) -> None:
    """Raises a DataError where tables of other formats lie beside Parquet files: they would be left
    out.

    Args:
      folder: a folder of this machine; another path is not looked at.
      first: one of the Parquet files.
    """
    if others := find_other_tables(folder):
        got = f"{listed(others, 3)} beside {os.path.basename(first)!r}"
        raise fail(
            folder, "a folder of Parquet files alone", got, "move the others, or name one file"
        )


def find_strays(names: Iterable[str]) -> list[str]:
    """The Parquet files among these names that `find_parts` leaves out."""
    return sorted(
        name
        for name in names
        if name.endswith(ENDING) and (is_hidden(name) or _folder_values(name) is None)
    )


def local_names(folder: Path) -> list[str]:
    """The paths of the Parquet files in a folder, and in those within it. All folders of parts are
    looked at, and of others some: their files are not read, but named in errors."""
    found: list[str] = []
    waiting: list[tuple[str, frozenset[str]]] = [("", frozenset())]
    left = MOST_LOOKED_AT
    while waiting:
        within, above = waiting.pop()
        real = os.path.realpath(folder / within)
        if real in above or (left <= 0 and not is_part(within)):  # a link can lead back
            continue
        with (
            contextlib.nullcontext() if is_part(within) else contextlib.suppress(OSError),
            os.scandir(real) as entries,
        ):
            for entry in entries:
                name = f"{within}/{entry.name}".removeprefix("/")
                left -= not is_part(within)
                if entry.is_dir():
                    check_no_log(name, folder)
                    waiting += [] if is_hidden(entry.name) else [(name, above | {real})]
                elif entry.name.endswith(ENDING):
                    found.append(name)
    return found


def is_part(folder: str) -> bool:
    """Tells whether the folders of a path all have a column and a value; the folder itself, "",
    does."""
    return _folder_values(f"{folder}/") is not None


def is_hidden(name: str) -> bool:
    """Tells whether a part of a path begins with . or _; a column may begin with _."""
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part)
        for part in name.split("/")
    )


def _folder_values(name: str) -> dict[str, str] | None:
    """The columns that the folders of a path give; None where one of them has no column and
    value."""
    values: dict[str, str] = {}
    for folder in filter(None, name.split("/")[:-1]):
        column, equals, value = folder.partition("=")
        column = unquote(column)
        if not equals or not column or column in values:
            return None
        values[column] = "" if value == MISSING else unquote(value)
    return values


def folder_cells(parts: Sequence[Part], counts: Sequence[int]) -> dict[str, list[str]]:
    """The columns that folders give, a cell for each row, from the number of rows of each part.

    >>> folder_cells([Part("year=1/a.parquet", {"year": "1"}), Part("year=2/b.parquet", {"year": "2"})], [1, 2])
    {'year': ['1', '2', '2']}
    """
    names = list(parts[0].values) if parts else []
    both = list(zip(parts, counts, strict=True))
    return {
        name: [part.values[name] for part, count in both for _ in range(count)] for name in names
    }
