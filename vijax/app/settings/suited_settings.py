"""Refuses settings of [data] that do not apply to the data of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from vijax.app.settings.sections import DocumentData
from vijax.app.settings.typed_toml import ConfigError, Entry
from vijax.data.corpora.storage import is_corpus_folder
from vijax.data.read import ENDINGS, guess_format
from vijax.data.reading.checks import DataError
from vijax.data.reading.download import is_url
from vijax.data.reading.files import SHEETS
from vijax.data.reading.store import is_address
from vijax.data.reading.suited import PURPOSES, Formats, unsuited_text
from vijax.data.tables.table_files import is_parquet
from vijax.files import local_path

TABLE_FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys(SHEETS, "sheet"),
    ".parquet": "parquet",
    ".npy": "arrays",
    ".npz": "arrays",
}
"""Formats of tables by the ending of the file."""


def check_suited_settings(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on a setting that describes another kind of data."""
    section = config.data
    usual = {field.name: field.default for field in dataclasses.fields(section)}
    names = [
        name
        for name in PURPOSES
        if f"data.{name}" in entries and getattr(section, name) != usual[name]
    ]
    formats = data_formats(section) if names else None
    if formats is None:
        return
    for name in names:
        if not formats.have(name):
            origin = entries[f"data.{name}"].origin
            raise ConfigError(f"{origin}: data.{name} {unsuited_text(name, formats, section.path)}")


def data_formats(section: Any) -> Formats | None:
    """The formats of the data that a section names; None if only reading them would tell."""
    if isinstance(section, DocumentData):
        return _document_formats(section)
    return _table_formats(section.path)


def _ending(path: str) -> str:
    name = urlsplit(path).path if is_url(path) else path
    return Path(name.lower().removesuffix(".gz")).suffix


def _table_formats(path: str) -> Formats | None:
    kind = path.partition(":")[0]
    if kind not in ("synthetic", "sklearn"):
        kind = "parquet" if is_parquet(path) else TABLE_FORMATS.get(_ending(path), "")
    return Formats(kind, kind, is_url(path)) if kind else None


def _document_formats(section: DocumentData) -> Formats | None:
    path = section.path
    format = section.format
    if path == "docstrings":
        return None  # its own check names the settings that do not apply
    if format == "auto":
        try:
            format = _guess_format(path, section.column)
        except (DataError, OSError, ImportError):
            return None  # its reader says so
    if not format:
        return None
    file_kind = TABLE_FORMATS.get(_ending(path), "parquet") if format == "ratings" else format
    return Formats(file_kind, format, is_url(path))


def _guess_format(path: str, column: str | None) -> Any:
    if is_address(path):
        return "shards"
    if is_url(path):
        return ENDINGS.get(_ending(path), "")
    local = local_path(path)
    if local.is_dir() and is_corpus_folder(local):
        return "corpus"
    return guess_format(local, column)
