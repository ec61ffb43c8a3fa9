"""Models of tables, of a target beside them, or of sequences and groups of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax.app.kinds.listing import Data, Listing, Source
from vijax.app.rows import new_tables
from vijax.app.settings.sections import EnergyAlgorithm, TableData
from vijax.app.settings.typed_toml import ConfigError, Entry
from vijax.data.tables.table import Choice, Table, split_table
from vijax.data.tables.table_files import read_table


# --- what models read ------------------------------------------------------------------------------------------------
def values(table: Table, settings: Any = None) -> np.ndarray:
    """x alone, (N, D), in the working precision."""
    return np.asarray(table.x, jnp.result_type(float))


def design(table: Table, settings: Any) -> np.ndarray:
    """x, and a last column of ones where `settings.intercept` asks for one."""
    x = values(table)
    return np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1) if getattr(settings, "intercept", False) else x


def target(table: Table) -> np.ndarray:
    """y, (N,), in the working precision."""
    return np.asarray(table.y, jnp.result_type(float))


def pairs(table: Table, settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """(design, y), of shapes (N, D) and (N,)."""
    return design(table, settings), target(table)


def sites(table: Table, settings: Any) -> dict[str, np.ndarray]:
    """What `pg_svi` reads of a model of Gaussian predictors: the model itself holds x."""
    return {"site": np.arange(table.num_rows, dtype=np.int32), "y": target(table)}


def padded_sequences(table: Table, settings: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """(y, mask), as `vijax.models.pad` makes them of the table's groups."""
    from vijax.models import pad

    y, mask = pad(table.sequences())
    return np.asarray(y, jnp.result_type(float)), mask


def by_sequence(table: Table, rows: np.ndarray) -> np.ndarray:
    """Sums over the rows of each sequence, in the order of `padded_sequences`."""
    return rows.sum()[None] if table.groups is None else np.bincount(table.groups, rows, table.num_groups)


def grouped(table: Table, settings: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, mask), as `vijax.models.group_rows` makes them of the table's groups; without groups, all rows are one."""
    from vijax.models import group_rows

    labels = np.zeros(table.num_rows, int) if table.groups is None else table.groups
    x, y = pairs(table, settings)
    return group_rows(x, y, labels)


# --- the source ------------------------------------------------------------------------------------------------------
def load_table(config: Any) -> Data:
    """The table in two parts, its columns standardised by those of the training part if asked for.

    Raises:
      ValueError: see `vijax.data.tables.table_files.read_table` and `vijax.data.tables.table.split_table`.
    """
    given: TableData = config.data
    table = _read(config, given.path, None)
    if given.held_out == 0.0:
        return Data(table.standardised() if given.standardise else table, None)
    what = "entries" if given.hold_out == "entries" else "groups"
    train, test = split_table(table, given.held_out, given.split_seed, what)  # type: ignore[arg-type]
    if given.standardise:
        train = train.standardised()
        test = test.standardised(train.scaling)
    return Data(train, test)


def _read(config: Any, path: str, like: Table | None) -> Table:
    given, listing = config.data, config.listing
    choice = Choice(
        columns=given.columns if like is None else like.columns,
        target=given.target,
        group=given.group,
        kind=listing.target(config.model) if listing.target else "real",
        missing=listing.missing,
        classes=None if like is None else like.classes,
    )
    own = path == given.path
    table = read_table(
        path,
        choice,
        seed=given.synthetic_seed,
        num_rows=given.num_rows if own else None,
        encoding=given.encoding,
        sha256=given.sha256 if own else None,
    )
    return table if like is None or like.scaling is None else table.standardised(like.scaling)


def _other(config: Any, data: Data, path: str, column: str | None) -> Table:
    """The same columns of another table, on the scale of the run's."""
    if column is not None:
        raise ConfigError("--column: for models of documents; a table must have the columns that the run's had")
    return _read(config, path, data.train)


def _facts(data: Data) -> dict[str, Any]:
    """In JSON's own types."""
    train: Table = data.train
    return {
        "rows": train.num_rows,
        "columns": list(train.columns),
        "groups": None if train.groups is None else train.num_groups,
        "group": train.group,
        "target": train.target,
        "classes": None if train.classes is None else list(train.classes),
        "missing": int(np.isnan(train.x).sum()),
        "held_out": 0 if data.test is None else _held_out(data),
    }


def _held_out(data: Data) -> int:
    return int(np.isfinite(data.test.x).sum()) if held_out_entries(data) else data.test.num_groups


def held_out_entries(data: Data) -> bool:
    """Whether single entries were held out: both parts then have the same rows."""
    if data.test is None or data.test.x.shape != data.train.x.shape:
        return False
    return not (np.isfinite(data.test.x) & np.isfinite(data.train.x)).any()


def _tiles(facts: dict[str, Any]) -> dict[str, str]:
    held_out = f"and {facts['held_out']:,} held out"
    entries = facts["missing"] > 0 and facts["held_out"] > facts["rows"]
    tiles = {"Rows": f"{facts['rows']:,} | {'' if facts['groups'] or entries else held_out}"}
    if facts["groups"]:
        tiles["Groups"] = f"{facts['groups']:,} | by {facts['group']}, {held_out}"
    tiles["Columns"] = f"{len(facts['columns']):,} | {_listed(facts['columns'])}"
    if facts["target"]:
        tiles["Target"] = f"{facts['target']} | {' or '.join(facts['classes'] or ())}"
    if facts["missing"]:
        tiles["Missing entries"] = f"{facts['missing']:,} | {held_out + ' among them' if entries else ''}"
    return tiles


def _listed(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _digest(data: Data) -> Iterator[Any]:
    for table in (data.train, data.test):
        if table is not None:
            yield from _bytes_of(table)


def _bytes_of(table: Table) -> Iterator[Any]:
    yield "\n".join([*table.columns, str(table.target), str(table.group), *table.group_names]).encode()
    for array in (table.x, table.y, table.groups):
        if array is not None:
            yield np.ascontiguousarray(array, np.float64).data


def _describe(data: Data) -> str:
    facts = _facts(data)
    parts = [f"{facts['rows']:,} rows of {len(facts['columns']):,} columns"]
    parts += [f"target {facts['target']}"] if facts["target"] else []
    parts += [f"{facts['groups']:,} groups"] if facts["groups"] else []
    parts += [f"{facts['missing']:,} entries missing"] if facts["missing"] else []
    unit = "entries" if held_out_entries(data) else "groups" if facts["groups"] else "rows"
    parts += [f"{facts['held_out']:,} {unit} held out"] if facts["held_out"] else []
    return ", ".join(parts)


def _check(config: Any, entries: Mapping[str, Entry]) -> None:
    """What the model needs of the columns, and what would mean nothing to it."""
    given, listing = config.data, config.listing
    origin = entries["model.name"].origin
    if listing.target and given.target is None:
        raise ConfigError(f'{origin}: {listing.name} predicts a column: name it, as in data.target = "y"')
    if given.target is not None and not listing.target:
        origin = entries["data.target"].origin
        raise ConfigError(f"{origin}: data.target: {listing.name} predicts no column; list the others: data.columns")
    if given.group is not None and not listing.wants_group:
        origin = entries["data.group"].origin
        raise ConfigError(f"{origin}: data.group: {listing.name} reads rows one by one, not groups of them")
    if listing.wants_group and given.group is None and given.hold_out == "rows" and given.held_out > 0:
        raise ConfigError(
            f"{origin}: data.group: {listing.name} holds out whole groups, and without a column of groups all rows are "
            'one; name it, as in data.group = "id", or hold none out: data.held_out=0'
        )
    if given.hold_out == "entries" and not listing.missing:
        origin = entries["data.hold_out"].origin
        raise ConfigError(
            f'{origin}: data.hold_out: "entries" is for models of missing entries, which {listing.name} is not'
        )


TABLES = Source(
    section=TableData,
    load=load_table,
    other=_other,
    facts=_facts,
    tiles=_tiles,
    digest=_digest,
    describe=_describe,
    check=_check,
    keep=new_tables.keep,
    kept=new_tables.kept,
    new=new_tables.new,
    results="transformed",
)


def sequence_model(settings: Any, describe: Any, score: Any, **more: Any) -> Listing:
    """The listing of a model of sequences, which a column of groups tells apart; arguments as of `Listing`."""
    of_sequences: dict[str, Any] = {"unit": "sequence", "per": "sequence", "wants_group": True}
    return Listing(settings, TABLES, EnergyAlgorithm, describe, padded_sequences, score, **of_sequences, **more)
