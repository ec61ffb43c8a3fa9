"""What a run says of documents, rows, steps or nodes, one by one; as columns, and as a file of them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vijax.app.listing import Found, Listing, New, Seen, Tell
from vijax.app.typed_toml import ConfigError
from vijax.extras import require_extra
from vijax.files import write_atomically


@dataclasses.dataclass(frozen=True)
class Transformed:
    """What a model says of each row of some data.

    Attributes:
      found: vectors (N,) and matrices (N, K) by name: the shares of topics, the probabilities of components or states.
      beside: what is carried through, by name: identifiers, columns that the model does not use.
      notes: what the reader should be told, such as how many words were not known.

    >>> rows = Transformed({"topic": np.array([1]), "share": np.array([[0.25, 0.75]])}, {"id": ["a7"]})
    >>> rows["share"].tolist()
    [[0.25, 0.75]]
    >>> {name: str(values) for name, values in rows.columns().items()}
    {'id': "['a7']", 'topic': '[1]', 'share_0': '[0.25]', 'share_1': '[0.75]'}
    """

    found: Mapping[str, np.ndarray]
    beside: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """A vector, a matrix or a column that was carried through."""
        return self.found[name] if name in self.found else self.beside[name]

    def __len__(self) -> int:
        return len(next(iter(self.found.values())))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in self.found.items())
        return f"Transformed({len(self):,} rows: {shapes}; beside: {', '.join(self.beside) or 'nothing'})"

    def columns(self) -> dict[str, Sequence[Any]]:
        """All of it as columns of one length, matrices cut into columns: `pandas.DataFrame(rows.columns())`. Where a
        column of the data has the name of one of the model's, an underscore is added to that of the data."""
        ours: dict[str, Any] = {}
        for key, values in self.found.items():
            ours |= _columns(key, values)
        beside: dict[str, Sequence[Any]] = {}
        for name, values in self.beside.items():
            while name in ours or name in beside:
                name += "_"
            beside[name] = values
        return {**beside, **ours}

    def write(self, path: str | Path) -> Path:
        """Writes the columns as .csv, .parquet or .jsonl, by the ending of the name.

        Raises:
          ValueError: another ending.
          OSError: the file cannot be written.
        """
        path = Path(path)
        writer = WRITERS[check_ending(path)]
        write_atomically(path, lambda file: writer(self.columns(), file))
        return path


def _columns(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{k}": column for k, column in enumerate(values.T)}


def transformed(listing: Listing, seen: Seen, new: New, tell: Tell = lambda done: None) -> Transformed:
    """What a fitted model says of new data.

    Raises:
      ConfigError: it says nothing of single rows.
      ValueError: data that the model cannot have.
    """
    check_transforms(listing)
    transform: Any = listing.transform
    found: Found = transform(seen, new.data, tell)
    return Transformed(found, new.beside, new.notes)


def check_transforms(listing: Listing) -> None:
    """Raises a `ConfigError` where a model says nothing of single rows, with what to use instead."""
    if listing.transform is None:
        why = listing.no_transform or "what it found is in summary.txt and posterior.npz of the run"
        raise ConfigError(f"{listing.name} cannot be applied to rows one by one: {why}")


# --- files -----------------------------------------------------------------------------------------------------------
def check_ending(path: Path) -> str:
    """The kind of file that a name asks for; ValueError where there is no such kind."""
    ending = path.suffix.lower()
    if ending not in WRITERS:
        expected = ", ".join(WRITERS)
        raise ConfigError(f"{path}: expected a name that ends in one of {expected}, got {ending or 'no ending'!r}")
    return ending


def csv_text(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns as CSV, whole numbers without a point."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(_cell, values) for values in columns.values()), strict=True))
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Six digits of the model's own numbers; all of those that are carried through."""
    if isinstance(value, float | np.floating):  # NumPy's float64 is both
        value = None if value != value else _short(value)
    return "" if value is None else value


def _short(value: Any) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.6g}" if isinstance(value, np.generic) else repr(value)


def _csv(columns: Mapping[str, Sequence[Any]], file: BinaryIO) -> None:
    file.write(csv_text(columns).encode("utf-8", errors="backslashreplace"))


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
