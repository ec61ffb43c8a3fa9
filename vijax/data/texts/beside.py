"""What stands beside the text of documents: the other columns of their file or table, document by document."""

from __future__ import annotations

import collections
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vijax.data.corpora.objects import TABLES, column_values
from vijax.data.read import guess_format
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.files import read_lines
from vijax.data.reading.guards import kind_of, naming
from vijax.data.tables.delimited import read_delimited
from vijax.data.texts.text_files import TITLE_COLUMN, find_column
from vijax.extras import require_extra

Beside = Mapping[str, Sequence[Any]]
"""Columns by name, a value a document, as they are written."""


def columns_beside(source: Any, column: str | None, format: str | None = None, encoding: str = "utf-8") -> Beside:
    """The columns of a source of documents that hold neither their text nor their titles.

    Args:
      source: as `vijax.data.read` takes it, and read by it before: no mistake is looked for again.
      column: where it has its text; None as there.
      format: likewise.
      encoding: of text files.

    Returns:
      Columns by name in the order of the documents; none of a source that has no columns.
    """
    if not isinstance(source, str | Path):
        return _of_object(source, column)
    path = fetch(str(source)) if is_url(source) else Path(source).expanduser()
    if kind_of(path) != "a file":
        return {}
    with naming(path):
        reader = READERS.get(format or guess_format(path))
        return {} if reader is None else reader(path, column, encoding)


def _of_object(source: Any, column: str | None) -> Beside:
    names = getattr(source, "column_names", None) or getattr(source, "columns", None)
    if names is None or type(source).__module__.partition(".")[0] not in TABLES:
        return {}
    kept = _kept([str(name) for name in names], column)
    return {name: column_values(source[name]) for name in kept}


def _kept(names: list[str], column: str | None) -> list[str]:
    text = find_column(column, names, "source")
    return [name for name in names if name and name not in (text, TITLE_COLUMN)]


def _csv(path: Path, column: str | None, encoding: str) -> Beside:
    header, rows = read_delimited(path, encoding)
    kept = _kept(header, column)
    cells = [dict(itertools.zip_longest(header, row, fillvalue="")) for _, row in rows]
    return {name: [row[name] for row in cells] for name in kept}


def _jsonl(path: Path, column: str | None, encoding: str) -> Beside:
    """Values that are neither text nor numbers are written as JSON."""
    rows = [json.loads(line) for line in read_lines(path, encoding) if line.strip()]
    text = find_column(column, rows[0], str(path))
    names = collections.Counter(name for row in rows for name in row)
    kept = [name for name in names if name not in (text, TITLE_COLUMN)]
    return {name: [_plain(row.get(name)) for row in rows] for name in kept}


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _parquet(path: Path, column: str | None, encoding: str) -> Beside:
    with require_extra("pyarrow.parquet").ParquetFile(path) as file:
        kept = _kept(file.schema_arrow.names, column)
        return file.read(columns=kept).to_pydict() if kept else {}


READERS = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}
"""The formats that have columns."""
