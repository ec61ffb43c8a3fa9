"""New rows for a fitted run: the facts that a run keeps of its table, and other tables of the same columns."""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.kinds.listing import Data, New
from vijax.app.settings.typed_toml import ConfigError, DamagedError
from vijax.data.reading.checks import Notes, fail
from vijax.data.tables.columns import columns_of
from vijax.data.tables.table import Choice, Columns, Scaling, Table, table_of
from vijax.data.tables.table_files import read_columns
from vijax.files import write_text

COLUMNS = "columns.json"


# --- what is kept ----------------------------------------------------------------------------------------------------
def keep(folder: Path, data: Data) -> None:
    """Writes columns.json: names, classes and scales, the number of rows and of rows in each group; no value."""
    table: Table = data.train
    sizes = None if table.groups is None else np.bincount(table.groups).tolist()
    scaling = None if table.scaling is None else [part.tolist() for part in table.scaling]
    outline = {
        "columns": list(table.columns),
        "target": table.target,
        "classes": table.classes,
        "group": table.group,
        "rows": table.num_rows,
        "group_sizes": sizes,
        "scaling": scaling,
    }
    write_text(folder / COLUMNS, json.dumps(outline, ensure_ascii=False, indent=1) + "\n")


def kept(folder: Path) -> Data | None:
    """A table with as many rows as the run's, all of zeros, from which its model and the shapes of its state can be
    made. None for a run of an earlier version, which has kept nothing.

    Raises:
      DamagedError: the file is damaged.
    """
    path = folder / COLUMNS
    if not path.is_file():
        return None
    try:
        return Data(_stand_in(json.loads(path.read_text(encoding="utf-8"))), None)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        fault = f"{path}: damaged ({type(error).__name__}: {error})"
        raise DamagedError(fault, f"write it again: vijax resume {folder}") from error


def _stand_in(outline: dict[str, Any]) -> Table:
    columns, rows, sizes = tuple(map(str, outline["columns"])), int(outline["rows"]), outline["group_sizes"]
    groups = None if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
    scaling = None if outline["scaling"] is None else Scaling(*(np.array(x, float) for x in outline["scaling"]))
    shapes = [] if scaling is None else [len(scaling.mean), len(scaling.deviation)]
    if rows < 1 or (groups is not None and len(groups) != rows) or any(n != len(columns) for n in shapes):
        raise ValueError("sizes that do not go together")
    first, second = outline["classes"] or (None, None)
    return Table(
        columns=columns,
        x=np.zeros((rows, len(columns))),
        target=outline["target"] and str(outline["target"]),
        y=None if outline["target"] is None else np.ones(rows),
        classes=None if first is None else (str(first), str(second)),
        group=outline["group"] and str(outline["group"]),
        groups=groups,
        group_names=() if sizes is None else tuple(map(str, range(len(sizes)))),
        scaling=scaling,
    )


# --- new rows --------------------------------------------------------------------------------------------------------
class AllBut(Container):
    """The names that are not in a given set."""

    def __init__(self, names: tuple[str, ...]):
        self.names = frozenset(names)

    def __contains__(self, name: object) -> bool:
        return name not in self.names


def new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Rows with the run's columns, on its scale; a target is not needed, and is carried through if there is one.

    Raises:
      ConfigError: a column of text was named.
      ValueError: a column is missing, or is not of numbers; see `vijax.data.tables.table_files.read_columns`.
    """
    if column is not None:
        raise ConfigError("--column: for models of documents; a table must have the columns that the run's had")
    like, notes = data.train, Notes()
    found = _columns(config, like, source, notes)
    group = like.group if config.listing.wants_group else None
    _check_columns(found, (*like.columns, *([group] if group else [])), _where(config, source))
    choice = Choice(columns=like.columns, group=group, missing=config.listing.missing)
    table = table_of(found, choice, _where(config, source), notes)
    table = table if like.scaling is None else table.standardised(like.scaling)
    beside = {name: values.tolist() for name, values in found.items() if name not in like.columns}
    return New(table, {"row": np.arange(table.num_rows), **beside}, table.notes)


def _where(config: Any, source: Any) -> str:
    return config.data.path if source is None else source if isinstance(source, str) else "data"


def _columns(config: Any, like: Table, source: Any, notes: Notes) -> Columns:
    """Every column; columns that are carried through stay as they are written."""
    if source is not None and not isinstance(source, str | Path):
        return columns_of(source, like.columns)
    given, own = config.data, source is None or str(source) == config.data.path
    path, rows, digest = (given.path, given.num_rows, given.sha256) if own else (str(source), None, None)
    return read_columns(path, given.synthetic_seed, rows, given.encoding, digest, AllBut(like.columns), notes)


def _check_columns(found: Columns, wanted: tuple[str, ...], where: str) -> None:
    """Raises an error that lists all missing columns of the run, and the columns that are there."""
    missing = [name for name in wanted if name not in found]
    if missing:
        known = ", ".join(map(repr, list(found)[:20]))
        raise fail(
            where,
            f"the columns of the run, {', '.join(map(repr, wanted[:20]))}",
            f"none called {', '.join(map(repr, missing[:20]))}, but {known}",
            "name the columns as in the data that the run was fitted to",
        )
