"""Readers of files that hold text: each yields (title, text) pairs one by one, so that no file is ever in memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from vijax.data.checks import fail, nearest
from vijax.data.files import read_lines, read_text
from vijax.extras import require_extra

Texts = Iterator[tuple[str, str]]
DEFAULT_COLUMN = "text"
TITLE_COLUMN = "title"


def text_folder(path: Path, column: str | None = None, encoding: str = "utf-8") -> Texts:
    """A folder of .txt files, also in folders below it and gzipped: one document each, in the order of their names."""
    files = sorted([*path.rglob("*.txt"), *path.rglob("*.txt.gz")])
    if not files:
        raise fail(path, "files ending in .txt", "none", "check the folder, or name a file of another format")
    for file in files:
        yield str(file.relative_to(path)), read_text(file, encoding)


def text_lines(path: Path, column: str | None = None, encoding: str = "utf-8") -> Texts:
    """A .txt file: one document per line."""
    for number, line in enumerate(read_lines(path, encoding), 1):
        yield f"{path.name}:{number}", line


def jsonl(path: Path, column: str | None = None, encoding: str = "utf-8") -> Texts:
    """JSON lines: one object per line, its text under the key `column`."""
    for number, line in enumerate(read_lines(path, encoding), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            remedy = "correct the line; each must be one JSON object"
            raise fail(where, "a JSON object", f"{line[:40]!r} ({error.msg})", remedy) from error
        if not isinstance(row, dict):
            raise fail(where, "a JSON object", f"{line[:40]!r}", f'write {{"{DEFAULT_COLUMN}": "..."}}')
        yield _title(row, path, number), _cell(row, find_column(column, row, where), where)


def csv_rows(path: Path, column: str | None = None, encoding: str = "utf-8") -> Texts:
    """.csv or .tsv with a header line: the text is in `column`."""
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    csv.field_size_limit(2**31 - 1)
    # Python's csv wants line ends, and counts lines itself: a quoted text may hold several.
    reader = csv.DictReader((f"{line}\n" for line in read_lines(path, encoding)), delimiter=delimiter, strict=True)
    try:
        column = find_column(column, reader.fieldnames or (), f"{path}:1")
        for row in reader:
            where = f"{path}:{reader.line_num}"
            yield _title(row, path, reader.line_num), _cell(row, column, where)
    except csv.Error as error:
        raise fail(
            f"{path}:{reader.reader.line_num}", "CSV", str(error), "quote texts that hold commas or quotes"
        ) from error


def parquet(path: Path, column: str | None = None, encoding: str = "utf-8") -> Texts:
    """A Parquet file: the text is in `column`."""
    arrow, reader = require_extra("pyarrow"), require_extra("pyarrow.parquet")
    try:
        with reader.ParquetFile(path) as file:
            column = find_column(column, file.schema_arrow.names, str(path))
            titles = [TITLE_COLUMN] if TITLE_COLUMN in file.schema_arrow.names else []
            row = 0
            for batch in file.iter_batches(columns=[column, *titles]):
                for record in batch.to_pylist():
                    row += 1
                    yield _title(record, path, row), _cell(record, column, f"{path}, row {row}")
    except (arrow.ArrowInvalid, OSError) as error:
        raise fail(path, "a whole Parquet file", str(error), "fetch or write the file again") from error


def find_column(column: str | None, known: Iterable[str], where: str) -> str:
    """The column of the text: the one asked for, or else `text`, or the only one there is.

    >>> find_column(None, ["id", "text"], "file.csv")
    'text'
    """
    known = list(known)
    if column is None:
        column = known[0] if len(known) == 1 else DEFAULT_COLUMN
    if column not in known:
        raise fail(where, f"a column {column!r}", "none", f"pass column=...; {nearest(column, known)}")
    return column


def _cell(row: dict, column: str, where: str) -> str:
    text = row.get(column)
    if not isinstance(text, str):
        remedy = "drop the row, or make its text the empty string"
        raise fail(where, f"text in column {column!r}", "nothing" if text is None else repr(text)[:60], remedy)
    return text


def _title(row: dict, path: Path, number: int) -> str:
    title = row.get(TITLE_COLUMN)
    return title if isinstance(title, str) and title else f"{path.name}:{number}"
