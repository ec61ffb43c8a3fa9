"""What stands beside the text of documents: the other columns of their file or table, document by document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vijax.data.corpora.objects import column_names, column_values
from vijax.data.read import guess_format
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.guards import kind_of, naming
from vijax.data.texts.text_files import RECORDS, TITLE_COLUMN, find_column

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
        kind = format or guess_format(path)
        return _of_records(path, kind, column, encoding) if kind in RECORDS else {}


def _of_records(path: Path, kind: str, column: str | None, encoding: str) -> Beside:
    """Of JSON lines the names may differ from line to line. What has parts is written as JSON."""
    names, _, rows = RECORDS[kind](path, encoding)
    found = [row for *_, row in rows(_kept(names, column))]
    more = [name for row in found for name in row] if kind == "jsonl" else []
    kept = _kept(list(dict.fromkeys([*names, *more])), find_column(column, names, str(path)))
    missing = "" if kind == "csv" else None
    return {name: [_plain(row.get(name, missing)) for row in found] for name in kept}


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _of_object(source: Any, column: str | None) -> Beside:
    names = column_names(source)
    return {} if names is None else {name: column_values(source[name]) for name in _kept(names, column)}


def _kept(names: list[str], column: str | None) -> list[str]:
    text = find_column(column, names, "source")
    return [name for name in names if name and name not in (text, TITLE_COLUMN)]
