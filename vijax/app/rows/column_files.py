"""Columns by name as a file: .csv, .parquet or .jsonl."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vijax.app.page.exports import csv_text
from vijax.app.settings.typed_toml import ConfigError
from vijax.extras import require_extra
from vijax.files import write_atomically


def write_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Writes columns of one length; the ending of the name gives the format.

    Raises:
      ConfigError: another ending.
      OSError: the file cannot be written.
    """
    writer = WRITERS[check_ending(path)]
    write_atomically(path, lambda file: writer(columns, file))


def check_ending(path: Path) -> str:
    """The kind of file that a name asks for; ValueError where there is no such kind."""
    ending = path.suffix.lower()
    if ending not in WRITERS:
        expected = ", ".join(WRITERS)
        raise ConfigError(f"{path}: expected a name that ends in one of {expected}, got {ending or 'no ending'!r}")
    return ending


def as_csv(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns as CSV, whole numbers without a point."""
    return csv_text(list(columns), zip(*(map(_cell, values) for values in columns.values()), strict=True))


def _cell(value: Any) -> Any:
    """A cell: six digits of the model's own numbers; all digits of those that are carried through."""
    if isinstance(value, float | np.floating):  # NumPy's float64 is both
        value = None if value != value else _short(value)
    return "" if value is None else value


def _short(value: Any) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.6g}" if isinstance(value, np.generic) else repr(value)


def _csv(columns: Mapping[str, Sequence[Any]], file: BinaryIO) -> None:
    file.write(as_csv(columns).encode("utf-8", errors="backslashreplace"))


def _jsonl(columns: Mapping[str, Sequence[Any]], file: BinaryIO) -> None:
    for row in zip(*columns.values(), strict=True):
        record = dict(zip(columns, map(_json, row), strict=True))
        file.write(f"{json.dumps(record, ensure_ascii=False)}\n".encode(errors="backslashreplace"))


def _json(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return json.loads(_short(value)) if np.isfinite(value) else None
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, int | str) else str(value)


def _parquet(columns: Mapping[str, Sequence[Any]], file: BinaryIO) -> None:
    arrow = require_extra("pyarrow")
    table = arrow.table({name: _arrow(values) for name, values in columns.items()})
    require_extra("pyarrow.parquet").write_table(table, file)


def _arrow(values: Sequence[Any]) -> Any:
    """Numbers as numbers; a column of several kinds as text."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    kinds = {type(value) for value in values} - {type(None)}
    return list(values) if len(kinds) <= 1 else [None if value is None else str(value) for value in values]


Writer = Callable[[Mapping[str, Sequence[Any]], BinaryIO], None]
WRITERS: dict[str, Writer] = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl}
