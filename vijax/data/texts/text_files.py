"""Readers of files that hold text: each yields (title, text) pairs one by one, so that no file is ever in memory."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vijax.data.reading.checks import fail, listed, nearest
from vijax.data.reading.files import read_lines, read_text
from vijax.data.reading.guards import check_regular, parsing
from vijax.data.reading.notes import Notes
from vijax.data.tables.delimited import read_delimited
from vijax.data.texts.surrogates import whole_letters
from vijax.extras import require_extra

Texts = Iterator[tuple[str, str]]
DEFAULT_COLUMN = "text"
TITLE_COLUMN = "title"
HEADER_WORDS = 4  # the name of a column has fewer


def text_paths(folder: Path) -> list[Path]:
    """The .txt files of a folder and of those below it, also gzipped, in the order of their names."""
    return sorted(path for path in [*folder.rglob("*.txt"), *folder.rglob("*.txt.gz")] if not path.is_dir())


def text_folder(path: Path, column: str | None = None, encoding: str = "utf-8", notes: Notes | None = None) -> Texts:
    """A folder of .txt files, also in folders below it and gzipped: one document each, in the order of their names."""
    files = text_paths(path)
    if not files:
        raise fail(path, "files ending in .txt", "none", "check the folder, or name a file of another format")
    for file in files:
        yield str(file.relative_to(path)), read_text(file, encoding)


def text_lines(path: Path, column: str | None = None, encoding: str = "utf-8", notes: Notes | None = None) -> Texts:
    """A .txt file: one document per line."""
    for number, line in enumerate(read_lines(path, encoding), 1):
        yield f"{path.name}:{number}", line


class Records(NamedTuple):
    """Rows of a file whose values have names.

    Attributes:
      names: of the columns; of JSON lines those of the first.
      where: the place of these names.
      rows: the columns wanted (None: all) -> where each row is, its number, and its values by name. Files of text have
        all columns always.
    """

    names: list[str]
    where: str
    rows: Callable[[Sequence[str] | None], Iterator[tuple[str, int, dict[str, Any]]]]


def csv_records(path: Path, encoding: str = "utf-8") -> Records:
    """.csv or .tsv with a header line; a row that is shorter lacks the last values."""
    header, rows = read_delimited(path, encoding)
    named = ((f"{path}:{line}", line, dict(zip(header, cells, strict=False))) for line, cells in rows)
    return Records(header, f"{path}:1", lambda columns: named)


def jsonl_records(path: Path, encoding: str = "utf-8") -> Records:
    """JSON lines: one object per line; empty lines are left out."""
    lines = ((line, n, f"{path}:{n}") for n, line in enumerate(read_lines(path, encoding), 1) if line.strip())
    rows = ((where, number, _json_object(line, where)) for line, number, where in lines)
    first = list(itertools.islice(rows, 1))
    names = [name for *_, row in first for name in row]
    return Records(names, f"{path}:1", lambda columns: itertools.chain(first, rows))


def parquet_records(path: Path, encoding: str = "utf-8") -> Records:
    """A Parquet file."""
    check_regular(path)
    reader = require_extra("pyarrow.parquet")
    whole = functools.partial(parsing, path, "a whole Parquet file", "fetch or write the file again")

    def rows(columns: Sequence[str] | None) -> Iterator[tuple[str, int, dict[str, Any]]]:
        with whole(), reader.ParquetFile(path) as file:
            records = (record for batch in file.iter_batches(columns=columns) for record in batch.to_pylist())
            yield from ((f"{path}, row {n}", n, record) for n, record in enumerate(records, 1))

    with whole(), reader.ParquetFile(path) as file:
        return Records(file.schema_arrow.names, str(path), rows)


RECORDS: dict[str, Callable[..., Records]] = {
    "csv": csv_records,
    "jsonl": jsonl_records,
    "parquet": parquet_records,
}
"""The formats that have columns."""


def column_texts(
    kind: str, path: Path, column: str | None = None, encoding: str = "utf-8", notes: Notes | None = None
) -> Texts:
    """A file of one of `RECORDS`: the text is in `column`."""
    names, where, rows = RECORDS[kind](path, encoding)
    if not names:
        return
    if kind == "csv" and column is None and len(names) == 1:
        _check_only_column(names[0], path, notes)
    column = find_column(column, names, where, notes)
    wanted = [name for name in names if name in (column, TITLE_COLUMN)]
    seen = notes or Notes()
    for at, number, row in rows(wanted):
        yield whole_letters(_title(row, path, number), seen, at), whole_letters(_cell(row, column, at), seen, at)


def _json_object(line: str, where: str) -> dict:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        remedy = "correct the line; each must be one JSON object"
        got = f"{line[:40]!r} ({getattr(error, 'msg', error)})"
        raise fail(where, "a JSON object", got, remedy) from error
    if not isinstance(row, dict):
        raise fail(where, "a JSON object", f"{line[:40]!r}", f'write {{"{DEFAULT_COLUMN}": "..."}}')
    return row


def _check_only_column(name: str, path: Path, notes: Notes | None) -> None:
    """A file without a header would lose its first document to it."""
    if name == DEFAULT_COLUMN:
        return
    if len(name.split()) >= HEADER_WORDS:
        got = repr(name[:60])
        remedy = f"write {DEFAULT_COLUMN} in a line above, or rename the file to .txt if each line is a document"
        raise fail(f"{path}:1", "the name of a column", got, remedy)
    if notes is not None:
        notes.add(
            f"Line 1 of {path.name} was taken for a header, the name of its only column: {name!r}. If it is a "
            f"document, write {DEFAULT_COLUMN} in a line above."
        )


def find_column(column: str | None, known: Iterable[str], where: str, notes: Notes | None = None) -> str:
    """The column of the text: the one asked for, or else `text`, or the only one there is. Notes say of the others
    whether they are read: `title` names the documents.

    >>> find_column(None, ["id", "text"], "file.csv")
    'text'
    """
    known = list(known)
    if column is None:
        column = known[0] if len(known) == 1 else DEFAULT_COLUMN
    if column not in known:
        raise fail(where, f"a column {column!r}", "none", f"pass column=...; {nearest(column, known)}")
    if notes is not None:
        _tell_of_others([name for name in known if name != column], notes)
    return column


def _tell_of_others(names: list[str], notes: Notes) -> None:
    if TITLE_COLUMN in names:
        notes.add(f"The column {TITLE_COLUMN!r} names the documents.")
    left = [name for name in names if name != TITLE_COLUMN]
    if left:
        notes.add(f"Not read, beside the text: {'the column' if len(left) == 1 else 'the columns'} {listed(left)}.")


def _cell(row: dict, column: str, where: str) -> str:
    text = row.get(column)
    if not isinstance(text, str):
        remedy = "drop the row, or make its text the empty string"
        raise fail(where, f"text in column {column!r}", "nothing" if text is None else repr(text)[:60], remedy)
    return text


def _title(row: dict, path: Path, number: int) -> str:
    title = row.get(TITLE_COLUMN)
    return title if isinstance(title, str) and title else f"{path.name}:{number}"
