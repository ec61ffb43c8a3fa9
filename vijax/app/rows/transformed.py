"""Results of a run for documents, rows, steps or nodes, one by one: as columns, and as a .csv,
.parquet or .jsonl file."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vijax.app.drawing.digits import round_to_spread, value_range
from vijax.app.drawing.exports import csv_text
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.sources.documents import new_documents
from vijax.app.sources.listing import FittedRun, Listing, New, RowResults, Tell
from vijax.app.sources.topic_names import add_labels
from vijax.data.tables.table import naming_rows
from vijax.extras import require_extra
from vijax.files import write_atomically

Parts = Iterable[Mapping[str, Sequence[Any]]]
AT_ONCE = 100_000
"""Documents in memory at a time, if they are read by parts."""


@dataclasses.dataclass(frozen=True)
class Transformed:
    """The results of a model for each row of some data.

    Attributes:
      found: vectors (N,) and matrices (N, K) by name: the shares of topics, the probabilities of
          components or states.
      beside: columns that are passed through, by name: identifiers, columns unused by the model.
      notes: notes for the reader, such as the number of unknown words.

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
        """A vector, a matrix or a column that was passed through."""
        if name in self.found:
            return self.found[name]
        return self.beside[name]

    def __len__(self) -> int:
        return len(next(iter(self.found.values())))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in self.found.items())
        return (
            f"Transformed({len(self):,} rows: {shapes}; beside: "
            f"{', '.join(self.beside) or 'nothing'})"
        )

    def columns(self) -> dict[str, Sequence[Any]]:
        """All results as columns of one length, matrices cut into columns:
        `pandas.DataFrame(rows.columns())`. A column of the data that has the name of a column of
        the model gets an underscore."""
        ours: dict[str, Any] = {}
        for key, values in self.found.items():
            if values.ndim == 1:
                ours[key] = values
            else:
                ours |= {f"{key}_{k}": x for k, x in enumerate(values.T)}
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
        write_columns(Path(path), self.columns())
        return Path(path)

    def write_or_csv(self, out: Path | None) -> str:
        """Writes the file `out`, and returns its name; or, without a file, the columns as CSV,
        without a last line end."""
        if out is not None:
            return str(self.write(out))
        return as_csv(self.columns()).rstrip("\n")


def transform_rows(
    config: Any, run: FittedRun, new: New, tell: Tell = lambda done: None
) -> Transformed:
    """The results of a fitted model for new data."""
    check_transforms(config.listing)
    transform: Any = config.listing.transform
    with naming_rows(new.data):
        results: RowResults = transform(run, new.data, tell)
    if config.listing.source.results == "doc_topics" and "topic" in results:
        results = add_labels(config, run, results)
    if new.places is not None:
        number = len(next(iter(new.beside.values())))
        results = {name: spread(values, new.places, number) for name, values in results.items()}
    return Transformed(results, new.beside, new.notes)


def spread(values: np.ndarray, places: np.ndarray, number: int) -> np.ndarray:
    """Results of some rows, placed among all rows: the others are NaN, or no text.

    >>> spread(np.array([1, 2]), np.array([0, 2]), 3).tolist()
    [1.0, nan, 2.0]
    """
    kind: Any = float
    if values.dtype.kind in "fc":
        kind = values.dtype
    elif values.dtype.kind in "OUS":
        kind = object
    all_rows: np.ndarray = np.full(
        (number, *values.shape[1:]), "" if kind is object else np.nan, kind
    )
    all_rows[places] = values
    return all_rows


def transform_parts(config: Any, run: FittedRun, tell: Tell) -> Iterator[Transformed]:
    """The results for all documents of a run that are read by parts, held-out ones too, in the
    order of the files: `AT_ONCE` at a time."""
    documents = dataclasses.replace(run.data.whole, chosen=None)
    for first in range(0, documents.num_documents, AT_ONCE):
        rows = np.arange(first, min(first + AT_ONCE, documents.num_documents))
        new = new_documents(config.listing.source.columns, documents.take(rows), first=first)
        tell_all = functools.partial(_tell_from, tell, first)
        yield transform_rows(config, run, new, tell_all)


def _tell_from(tell: Tell, first: int, done: int) -> None:
    tell(first + done)


def join_results(parts: Iterable[Transformed]) -> Transformed:
    """The results of parts, one below the other."""
    all_parts = list(parts)
    results = {
        name: np.concatenate([part.found[name] for part in all_parts])
        for name in all_parts[0].found
    }
    beside = {
        name: [x for part in all_parts for x in part.beside[name]] for name in all_parts[0].beside
    }
    return Transformed(results, beside)


def check_transforms(listing: Listing) -> None:
    """Raises a `ConfigError` with a remedy if a model has no results for single rows."""
    if listing.transform is None:
        reason = (
            listing.no_transform or "what it found is in summary.txt and posterior.npz of the run"
        )
        raise ConfigError(f"{listing.name} cannot be applied to rows one by one: {reason}")


# --- files ----------------------------------------------------------------------------------------
def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes columns of one length; the ending of the name gives the format."""
    write_parts(path, [columns])


def write_parts(path: Path, parts: Iterable[Mapping[str, Any]]) -> None:
    """Writes parts of columns, one below the other; the ending of the name gives the format."""
    writer = WRITERS[check_ending(path)]
    write_atomically(path, lambda file: writer(parts, file))


def check_new_file(out: Path | None) -> None:
    """Raises a `ConfigError` if the file to be written exists, or has an unknown ending."""
    if out is not None and check_ending(out) and out.exists():
        raise ConfigError(f"--out: {out} exists; name another file, or remove it")


def check_ending(path: Path) -> str:
    """The ending of a file name, which gives the format; `ConfigError` for unknown endings."""
    ending = path.suffix.lower()
    if ending not in WRITERS:
        expected = ", ".join(WRITERS)
        raise ConfigError(
            f"{path}: expected a name that ends in one of {expected}, got {ending or 'no ending'!r}"
        )
    return ending


def as_csv(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns as CSV, whole numbers without a point."""
    return csv_text(list(columns), _rows(columns, _cell))


def _cell(value: Any, spread: float) -> Any:
    is_number = (
        isinstance(value, float | np.floating) and value == value
    )  # NaN becomes an empty cell
    return _short(value, spread) if is_number else value


def _short(value: Any, spread: float = 0.0) -> str:
    """Six digits of the model's own numbers, or more if their spread needs them; all digits of
    numbers that are passed through."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    if not isinstance(value, np.generic):
        return repr(value)
    if (
        abs(float(value)) < 100 * spread
    ):  # six digits suffice: files of topics have millions of these
        return f"{value:.6g}"
    return f"{round_to_spread(float(value), spread):.15g}"


def _rows(
    columns: Mapping[str, Sequence[Any]], cell: Callable[[Any, float], Any]
) -> Iterator[tuple[Any, ...]]:
    """The rows of columns, each cell with its spread."""
    spreads = {name: _spreads(columns, name) for name in columns}
    cells = (map(cell, values, spreads[name]) for name, values in columns.items())
    return zip(*cells, strict=True)


ENDS = ("mean", "sd", "low", "high", "lowest", "highest", "prediction")
"""Last parts of names of columns of one number: its digits follow its deviation or interval."""


def _spreads(columns: Mapping[str, Sequence[Any]], name: str) -> np.ndarray:
    """The deviation of a column's number in each row, or half its interval; else its range."""
    stem, last_part = ("", name) if name in ENDS else name.rpartition("_")[::2]
    column_of = lambda part: columns.get(f"{stem}_{part}" if stem else part)
    sd, low, high = map(column_of, ("sd", "low", "high"))
    if last_part in ENDS and sd is not None:
        return np.asarray(sd, float)
    if last_part in ENDS and low is not None and high is not None:
        return 0.5 * (np.asarray(high, float) - np.asarray(low, float))
    values = columns[name]
    is_float = isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.floating)
    return np.full(len(values), value_range(values) if is_float else 0.0)


def _csv(parts: Parts, file: BinaryIO) -> None:
    for i, columns in enumerate(parts):
        text = as_csv(columns)
        if i > 0:  # one header for all parts
            text = text.partition("\n")[2]
        file.write(text.encode("utf-8", errors="backslashreplace"))


def _jsonl(parts: Parts, file: BinaryIO) -> None:
    for columns in parts:
        for row in _rows(columns, _json):
            record = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)
            file.write(f"{record}\n".encode(errors="backslashreplace"))


def _json(value: Any, spread: float) -> Any:
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            return None
        return json.loads(_short(value, spread))
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, int | str):
        return value
    return str(value)


def _parquet(parts: Parts, file: BinaryIO) -> None:
    arrow = require_extra("pyarrow")
    writer = None
    for columns in parts:
        table = arrow.table({name: _arrow(values) for name, values in columns.items()})
        writer = writer or require_extra("pyarrow.parquet").ParquetWriter(
            file, table.schema, write_page_checksum=True
        )
        writer.write_table(table.cast(writer.schema))
    if writer is not None:
        writer.close()


def _arrow(values: Sequence[Any]) -> Any:
    """Numbers as numbers; a column of several kinds as text."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) <= 1:
        return list(values)
    return [None if value is None else str(value) for value in values]


Writer = Callable[[Parts, BinaryIO], Any]
WRITERS: dict[str, Writer] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".jsonl": _jsonl,
}
