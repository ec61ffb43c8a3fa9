"""Readers of files that hold text: each yields (title, text) pairs one by one, so that no file is ever in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

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


def jsonl(path: Path, column: str | None = None, encoding: str = "utf-8", notes: Notes | None = None) -> Texts:
    """JSON lines: one object per line, its text under the key `column`."""
    told, notes = notes, notes or Notes()
    for number, line in enumerate(read_lines(path, encoding), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        row = _json_object(line, where)
        chosen = find_column(column, row, where, told)
        told = None  # the first object tells which columns there are
        title, text = _title(row, path, number), _cell(row, chosen, where)
        yield whole_letters(title, notes, where), whole_letters(text, notes, where)


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


def csv_rows(path: Path, column: str | None = None, encoding: str = "utf-8", notes: Notes | None = None) -> Texts:
    """.csv or .tsv with a header line: the text is in `column`."""
    header, rows = read_delimited(path, encoding)
    if column is None and len(header) == 1:
        _check_only_column(header[0], path, notes)
    column = find_column(column, header, f"{path}:1", notes)
    for line, cells in rows:
        row = dict(zip(header, cells, strict=False))
        yield _title(row, path, line), _cell(row, column, f"{path}:{line}")


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


def parquet(path: Path, column: str | None = None, encoding: str = "utf-8", notes: Notes | None = None) -> Texts:
    """A Parquet file: the text is in `column`."""
    check_regular(path)
    reader = require_extra("pyarrow.parquet")
    with parsing(path, "a whole Parquet file", "fetch or write the file again"), reader.ParquetFile(path) as file:
        names = file.schema_arrow.names
        column = find_column(column, names, str(path), notes)
        titles = [TITLE_COLUMN] if TITLE_COLUMN in names and column != TITLE_COLUMN else []
        row = 0
        for batch in file.iter_batches(columns=[column, *titles]):
            for record in batch.to_pylist():
                row += 1
                yield _title(record, path, row), _cell(record, column, f"{path}, row {row}")


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
