"""Readers of files of text. Each yields (title, text) pairs one by one, so that no file need fit in
memory."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vijax.data.reading.checks import Notes, fail, listed, nearest, whole_letters
from vijax.data.reading.files import check_regular, parsing, read_lines, read_text
from vijax.data.reading.parquet_values import check_num_rows, check_row_groups, to_values
from vijax.data.reading.partitions import find_strays, is_index, local_names
from vijax.data.reading.store import REMEDY, WHOLE, no_parquet, open_parquet, parquet_parts
from vijax.data.schema.labels import label_name
from vijax.data.tables.formats import USUAL, Dialect, read_delimited_file, read_sheet

Texts = Iterator[tuple[str, str]]
DEFAULT_COLUMN = "text"
TITLE_COLUMN = "title"
TEXT_ENDINGS = (".txt", ".txt.gz")
"""Endings of texts, in small letters; files may have them in capitals."""
HEADER_WORDS = 4  # the name of a column has fewer


def text_paths(folder: Path) -> list[Path]:
    """The .txt files of a folder and of its inner folders, also gzipped or in capitals, in the
    order of their names. Hidden ones are left out, such as ._notes.txt of other systems."""
    return [path for path in _all_text_paths(folder) if not _is_hidden(path, folder)]


def _all_text_paths(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.name.lower().endswith(TEXT_ENDINGS) and not path.is_dir()
    )


def _other_files(folder: Path) -> list[str]:
    """The names of files beside the texts that are no texts, but for hidden ones."""
    return sorted(
        path.name
        for path in folder.rglob("*")
        if path.is_file()
        and not path.name.lower().endswith(TEXT_ENDINGS)
        and not _is_hidden(path, folder)
    )


def _add_folder_notes(folder: Path, files: Sequence[Path], notes: Notes) -> None:
    """Says which files of a folder are left out, and which lead elsewhere."""
    if hidden := len(_all_text_paths(folder)) - len(files):
        notes.add(
            "Files whose names begin with a point, or that of their folder, are left out: "
            f"{hidden}."
        )
    if unread := _other_files(folder):
        notes.add(f"Files that do not end in .txt are left out: {listed(unread)}.")
    root = folder.resolve()
    links = [file.name for file in files if not file.resolve().is_relative_to(root)]
    if links:
        notes.add(f"Links lead to texts outside of the folder: {listed(links)}.")


def _is_text(path: Path) -> bool:
    """True for texts, but not for words beside counts."""
    return path.name != "vocabulary.txt" and not path.name.endswith(".vocab.txt")


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def text_folder(
    path: Path, column: str | None = None, dialect: Dialect = USUAL, notes: Notes | None = None
) -> Texts:
    """The .txt files of a folder and of its inner folders, also gzipped, each a document, in the
    order of their names."""
    files = text_paths(path)
    if not files:
        if find_strays(local_names(path)):
            raise no_parquet(path)
        remedy = "check the folder, or name a file of another format"
        raise fail(path, "files ending in .txt", "none", remedy)
    if notes is not None:
        _add_folder_notes(path, files, notes)
    for file in files:
        yield str(file.relative_to(path)), read_text(file, dialect.encoding)


def text_lines(
    path: Path, column: str | None = None, dialect: Dialect = USUAL, notes: Notes | None = None
) -> Texts:
    """The lines of a .txt file, each a document."""
    for number, line in enumerate(read_lines(path, dialect.encoding), 1):
        yield f"{path.name}:{number}", line


class Records(NamedTuple):
    """Rows of a file whose values have names.

    Attributes:
      names: names of the columns; for JSON lines those of the first line.
      where: the place of these names.
      rows: function from the wanted columns (None: all) to the place, the number and the values by
        name of each row. Readers of text always give all columns.
    """

    names: list[str]
    where: str
    rows: Callable[[Sequence[str] | None], Iterator[tuple[str, int, dict[str, Any]]]]


def csv_records(path: Path, dialect: Dialect = USUAL, notes: Notes | None = None) -> Records:
    """Records of a .csv or .tsv file with a header line; a shorter row lacks the last values."""
    table = read_delimited_file(path, dialect, notes)
    records = (
        (f"{path}:{line}", line, dict(zip(table.header, cells, strict=False)))
        for line, cells in table.rows
    )
    return Records(table.header, f"{path}:{table.line}", lambda columns: records)


def sheet_records(path: Path, dialect: Dialect = USUAL, notes: Notes | None = None) -> Records:
    """Records of a sheet of a spreadsheet."""
    table = read_sheet(path, dialect, notes)
    numbered_rows = zip(table.numbers, table.rows, strict=True)
    records = (
        (f"{path}, row {n}", n, dict(zip(table.header, cells, strict=True)))
        for n, cells in numbered_rows
    )
    return Records(table.header, f"{path}, row {table.line}", lambda columns: records)


def jsonl_records(path: Path, dialect: Dialect = USUAL, notes: Notes | None = None) -> Records:
    """Records of JSON lines, one object per line; empty lines are left out."""
    lines = (
        (line, n, f"{path}:{n}")
        for n, line in enumerate(read_lines(path, dialect.encoding), 1)
        if line.strip()
    )
    rows = ((location, number, _json_object(line, location)) for line, number, location in lines)
    first = list(itertools.islice(rows, 1))
    names = [name for *_, row in first for name in row]
    return Records(names, f"{path}:1", lambda columns: itertools.chain(first, rows))


def parquet_records(path: Path, dialect: Dialect = USUAL, notes: Notes | None = None) -> Records:
    """Records of a Parquet file, or of a folder of them. Names of folders give columns too; the
    index of a data frame is left out."""
    parts = parquet_parts(path)
    if not parts:
        raise no_parquet(path)
    if notes is not None and path.is_dir():
        texts = [file.name for file in text_paths(path) if _is_text(file)]
        if texts:
            notes.add(f"Files beside those of Parquet are not read: {listed(texts, 3)}.")

    def rows(columns: Sequence[str] | None) -> Iterator[tuple[str, int, dict[str, Any]]]:
        for part in parts:
            n = 0
            for n, record in enumerate(_parquet_rows(Path(part.file), columns), 1):
                yield f"{part.file}, row {n}", n, {**part.values, **record}

    first = Path(parts[0].file)
    with _parquet(first) as file:
        names = [name for name in file.schema_arrow.names if not is_index(name)]
    folder_names = [name for name in parts[0].values if name not in names]
    return Records([*names, *folder_names], str(first), rows)


def _parquet_rows(file: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file by name. Raises DataError if it has fewer or more rows than it
    says."""
    number = 0
    with _parquet(file) as opened:
        names = [name for name in opened.schema_arrow.names if not is_index(name)]
        wanted = [name for name in names if columns is None or name in columns]
        check_row_groups(opened, wanted, file)
        for batch in opened.iter_batches(columns=wanted):
            by_column = {name: to_values(batch.column(name)) for name in batch.schema.names}
            for i in range(batch.num_rows):
                yield {name: by_column[name][i] for name in by_column}
            number += batch.num_rows
        check_num_rows(number, opened.metadata.num_rows, file)


@contextlib.contextmanager
def _parquet(file: Path) -> Iterator[Any]:
    check_regular(file)
    with parsing(file, WHOLE, REMEDY), open_parquet(file, texts_once=True) as opened:
        yield opened


RECORDS: dict[str, Callable[..., Records]] = {
    "csv": csv_records,
    "jsonl": jsonl_records,
    "parquet": parquet_records,
    "sheet": sheet_records,
}
"""The formats that have columns."""


def column_texts(
    kind: str,
    path: Path,
    column: str | None = None,
    dialect: Dialect = USUAL,
    notes: Notes | None = None,
) -> Texts:
    """The texts of a file of one of `RECORDS`, from `column`."""
    names, location, rows = RECORDS[kind](path, dialect, notes)
    if not names:
        return
    if kind == "csv" and column is None and len(names) == 1:
        _check_only_column(names[0], path, location, notes)
    column = find_column(column, names, location, notes)
    wanted = [name for name in names if name in (column, TITLE_COLUMN)]
    notes = notes or Notes()
    for place, number, row in rows(wanted):
        title = read_title(row.get(TITLE_COLUMN))
        text = row.get(column)
        if not isinstance(text, str):
            actual = "nothing" if text is None else repr(text)[:60]
            remedy = "drop the row, or make its text the empty string"
            raise fail(place, f"text in column {column!r}", actual, remedy)
        title = title or f"{path.name}:{number}"
        yield whole_letters(title, notes, place), whole_letters(text, notes, place)


def read_title(value: Any) -> str:
    """The title that a cell says, a number too; "" for a cell without one.

    >>> [read_title(value) for value in ("a", 5000, 12345678901234567890, None, [1])]
    ['a', '5000', '12345678901234567890', '', '']
    """
    if value is None or isinstance(value, list | dict) or value != value:
        return ""
    if isinstance(value, str):
        return value
    return label_name(value)


def _json_object(line: str, where: str) -> dict:
    try:
        row = json.loads(line, object_pairs_hook=_different_keys, parse_float=_json_number)
    except (ValueError, RecursionError) as error:
        remedy = "correct the line; each must be one JSON object"
        actual = f"{line[:40]!r} ({getattr(error, 'msg', error)})"
        raise fail(where, "a JSON object", actual, remedy) from error
    if not isinstance(row, dict):
        raise fail(where, "a JSON object", f"{line[:40]!r}", f'write {{"{DEFAULT_COLUMN}": "..."}}')
    return row


def _different_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of its keys and values; ValueError for a key twice, whose first value would be
    lost."""
    counts = collections.Counter(name for name, _ in pairs)
    repeated = [name for name, number in counts.items() if number > 1]
    if repeated:
        raise ValueError(f"the key {repeated[0]!r} stands more than once")
    return dict(pairs)


def _json_number(text: str) -> int | float:
    """A number with a point; a whole one as an integer, so that 1 and 1.0 are one label."""
    number = float(text)
    if number.is_integer() and abs(number) < EXACT_INTEGERS:
        return int(number)
    return number


EXACT_INTEGERS = 2.0**53
"""Below it, floats tell all integers apart."""


def _check_only_column(name: str, path: Path, where: str, notes: Notes | None) -> None:
    """Checks the name of the only column: the first document of a file without a header would be
    taken for it."""
    if name == DEFAULT_COLUMN:
        return
    if len(name.split()) >= HEADER_WORDS:
        actual = repr(name[:60])
        remedy = (
            f"write {DEFAULT_COLUMN} in a line above, or rename the file to .txt if each line is "
            "a document"
        )
        raise fail(where, "the name of a column", actual, remedy)
    if notes is not None:
        line = where.rpartition(":")[2]
        notes.add(
            f"Line {line} of {path.name} was taken for a header, the name of its only column: "
            f"{name!r}. If it is a document, write {DEFAULT_COLUMN} in a line above."
        )


def find_column(
    column: str | None, known: Iterable[str], where: str, notes: Notes | None = None
) -> str:
    """The column of the text: the named one, or else `text`, or the only one. Notes name the other
    columns that are read (`title` names the documents) and those that are not.

    >>> find_column(None, ["id", "text"], "file.csv")
    'text'
    """
    names = list(known)
    if column is None:
        column = names[0] if len(names) == 1 else DEFAULT_COLUMN
    if column not in names:
        remedy = f"pass column=...; {nearest(column, names)}"
        raise fail(where, f"a column {column!r}", "none", remedy)
    if notes is not None:
        if TITLE_COLUMN in names and column != TITLE_COLUMN:
            notes.add(f"The column {TITLE_COLUMN!r} names the documents.")
        if unread := [name for name in names if name not in (column, TITLE_COLUMN)]:
            noun = "the column" if len(unread) == 1 else "the columns"
            notes.add(f"Not part of the text: {noun} {listed(unread)}.")
    return column
