"""Results of a run for documents, rows, steps or nodes, one by one; as columns, and as a file of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.kinds.listing import Found, Listing, New, Seen, Tell
from vijax.app.rows.column_files import write_columns
from vijax.app.settings.typed_toml import ConfigError
from vijax.data.tables.table import rows_of


@dataclasses.dataclass(frozen=True)
class Transformed:
    """The results of a model for each row of some data.

    Attributes:
      found: vectors (N,) and matrices (N, K) by name: the shares of topics, the probabilities of components or states.
      beside: columns that are carried through, by name: identifiers, columns that the model does not use.
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
        """A vector, a matrix or a column that was carried through."""
        return self.found[name] if name in self.found else self.beside[name]

    def __len__(self) -> int:
        return len(next(iter(self.found.values())))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in self.found.items())
        return f"Transformed({len(self):,} rows: {shapes}; beside: {', '.join(self.beside) or 'nothing'})"

    def columns(self) -> dict[str, Sequence[Any]]:
        """All results as columns of one length, matrices cut into columns: `pandas.DataFrame(rows.columns())`. Where a
        column of the data has the name of a column of the model, it gets an underscore."""
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
        write_columns(Path(path), self.columns())
        return Path(path)


def _columns(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{k}": column for k, column in enumerate(values.T)}


def transformed(listing: Listing, seen: Seen, new: New, tell: Tell = lambda done: None) -> Transformed:
    """The results of a fitted model for new data.

    Raises:
      ConfigError: the model has no results for single rows.
      ValueError: data that are impossible for the model.
    """
    check_transforms(listing)
    transform: Any = listing.transform
    with rows_of(new.data):
        found: Found = transform(seen, new.data, tell)
    return Transformed(found, new.beside, new.notes)


def check_transforms(listing: Listing) -> None:
    """Raises a `ConfigError`, with what to use instead, where a model has no results for single rows."""
    if listing.transform is None:
        why = listing.no_transform or "what it found is in summary.txt and posterior.npz of the run"
        raise ConfigError(f"{listing.name} cannot be applied to rows one by one: {why}")
