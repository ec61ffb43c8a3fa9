"""Tables as data of a run: how models read them (rows, a target, sequences, groups)."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax.app.settings.quoting import quote
from vijax.app.settings.sections import EnergyAlgorithm, TableData, read_dialect
from vijax.app.settings.typed_toml import ConfigError, DamagedError, Entry
from vijax.app.sources.listing import Data, Listing, New, Source
from vijax.app.sources.offsets import get_offset
from vijax.app.sources.sampled import TableSample, load_sample
from vijax.data.reading.checks import Notes, fail, listed
from vijax.data.schema.cells import column_names as column_names_of
from vijax.data.schema.in_memory import memory_columns
from vijax.data.tables.columns import (
    Columns,
    FileColumns,
    columns_without_blanks,
    original_cells,
    row_names,
    said_missing,
)
from vijax.data.tables.formats import Dialect
from vijax.data.tables.rows_in_time import NUMBER, Order, TimedRows
from vijax.data.tables.table import (
    Choice,
    Manner,
    Scaling,
    Table,
    are_placed,
    are_whole,
    make_table,
    placed_rows,
    some_rows,
    split_table,
)
from vijax.data.tables.table_files import is_parquet, read_columns, read_table
from vijax.files import write_text
from vijax.numerals import number_and_noun

COLUMNS = "columns.json"
MOST_NAMED = 4
"""Number of columns that the page names."""


# --- forms that models read -----------------------------------------------------------------------
def values(table: Table, settings: Any = None) -> np.ndarray:
    """x, (N, D), in the working precision."""
    return np.asarray(table.x, jnp.result_type(float))


def design(table: Table, settings: Any) -> np.ndarray:
    """x, with a last column of ones if `settings.intercept` is true."""
    x = values(table)
    if not getattr(settings, "intercept", False):
        return x
    return np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1)


def target(table: Table, settings: Any = None) -> np.ndarray:
    """y, (N,), less the offset of the settings, in the working precision."""
    y: Any = table.y
    return np.asarray(y - get_offset(settings), jnp.result_type(float))


def pairs(table: Table, settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """(design, y), with shapes (N, D) and (N,)."""
    return design(table, settings), target(table, settings)


def sites(table: Table, settings: Any) -> dict[str, np.ndarray]:
    """The data of `pg_svi` for a model of Gaussian predictors; the model holds x."""
    return {"site": np.arange(table.num_rows, dtype=np.int32), "y": target(table, settings)}


def padded_sequences(table: Table, settings: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """(y, mask) of the table's groups, as from `vijax.models.pad`."""
    from vijax.models import pad

    y, mask = pad(table.sequences())
    return np.asarray(y, jnp.result_type(float)), mask


def sequence_sums(table: Table, rows: np.ndarray) -> np.ndarray:
    """Sums over the rows of each sequence, in the order of `padded_sequences`."""
    if table.groups is None:
        return rows.sum()[None]
    return np.bincount(table.groups, rows, table.num_groups)


def group_data(table: Table, settings: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, mask) of the table's groups, as from `vijax.models.group_rows`; at least one group."""
    from vijax.models import group_rows

    x, y = pairs(table, settings)
    if table.groups is None:
        return group_rows(x, y, np.zeros(table.num_rows, int), 1)
    return group_rows(x, y, table.groups, table.num_groups)


# --- the source -----------------------------------------------------------------------------------
def load_table(config: Any) -> Data:
    """The table in two parts, its columns standardised by the training part if asked for."""
    section: TableData = config.data
    if is_parquet(section.path):
        sample = load_sample(config, make_choice(config, None))
        if sample is not None:
            return sample
    table = _read(config)
    manner = standardising_manner(section)
    unit = "entries" if section.hold_out == "entries" else "groups"
    holds_none_out = section.held_out == 0.0
    if unit == "groups" and table.num_groups == 1 and not holds_none_out:
        noun = "row" if table.groups is None else f"group of {table.group!r}"
        table = table.with_note(f"One {noun} alone: none is held out, and there is no score.")
        holds_none_out = True
    if holds_none_out:
        return Data(table if manner is None else table.standardise(manner=manner), None)
    train, test = split_table(table, section.held_out, section.split_seed, unit)  # type: ignore[arg-type]
    if manner is not None:
        train = train.standardise(manner=manner)
        test = test.standardise(train.scaling)
    return Data(train, test)


WIDE = 10.0
"""Ratio of the columns' deviations from which standardised columns are advised."""


def are_wide(deviations: np.ndarray) -> bool:
    """True if the deviations of columns are far apart; constant columns do not count."""
    varies = deviations[deviations > 0]
    return bool(len(varies) and varies.max() > WIDE * varies.min())


def _load_with_notes(config: Any) -> Data:
    """The table in two parts, with notes on the scales of columns and on constant columns."""
    data = load_table(config)
    x = data.train.x
    names = data.train.columns
    deviations = np.array([_deviation(column[np.isfinite(column)]) for column in x.T])
    notes = [
        *_notes_of_rows(config, data),
        *_notes_of_constants(data, deviations),
        *_notes_of_classes(data),
    ]
    is_whole = x == np.floor(x)
    are_counts_or_shares = bool(np.all(np.isnan(x) | ((x >= 0) & (is_whole | (x <= 1)))))
    if config.data.standardise:
        notes.append(SCALED[config.data.standardise])
    elif not are_counts_or_shares and are_wide(deviations):
        smallest = np.where(deviations > 0, deviations, np.inf).argmin()
        notes.append(
            f"The scales of columns are far apart (the deviation of {names[deviations.argmax()]!r} "
            f"is {deviations.max():.3g}, of {names[smallest]!r} {deviations[smallest]:.3g}), and "
            "priors and starts are of one scale for all of them: --set data.standardise=true gives "
            "all columns the same."
        )
    return data._replace(train=dataclasses.replace(data.train, notes=(*data.train.notes, *notes)))


SCALED = {
    True: "Columns are brought to mean 0 and deviation 1 for the fit (data.standardise), and "
    "priors are of that scale; results are in the units of the data.",
    "together": "Columns are brought to mean 0 and, by one number for all, to deviation 1 for the "
    "fit "
    "(data.standardise), and priors are of that scale; results are in the units of the data.",
    "centre": "Columns are brought to mean 0 for the fit (data.standardise), and priors are of "
    "that place; results are in the units of the data.",
}


def _notes_of_classes(data: Data) -> list[str]:
    """A note on which of two classes is modelled."""
    classes = data.train.classes
    if classes is None:
        return []
    return [f"What is modelled of {data.train.target!r} is {classes[1]!r}, against {classes[0]!r}."]


def _deviation(values: np.ndarray) -> float:
    """The deviation of a column; 0 if it is constant, or has no number."""
    is_constant = len(values) == 0 or np.ptp(values) == 0
    return 0.0 if is_constant else float(np.std(values))


def _notes_of_constants(data: Data, deviations: np.ndarray) -> list[str]:
    """A note on columns with equal values."""
    constant = [
        name for name, deviation in zip(data.names, deviations, strict=True) if deviation == 0
    ]
    if not constant or data.train.num_rows < 2 or len(constant) == len(data.names):
        return []
    verb_phrase = "columns do not vary and tell"
    if len(constant) == 1:
        verb_phrase = "column does not vary and tells"
    return [
        f"{len(constant)} {verb_phrase} rows apart by nothing, {listed(constant)}: leave out by "
        "data.columns."
    ]


def _notes_of_rows(config: Any, data: Data) -> list[str]:
    """Notes on models of sequences: that all rows are one, that missing cells stay."""
    listing = config.listing
    notes = []
    if listing.in_time and data.train.groups is None:
        notes.append(
            "All rows are one sequence; data.group names the column of sequences where there are "
            "several."
        )
    if config.data.missing == "model":
        notes.append(_note_of_cells(data))
    if listing.in_time and config.data.missing == "drop":
        cells = sum(int(np.isnan(part.x).sum()) for part in data.parts)
        if cells and listing.missing:
            notes.append(
                f"{cells:,} missing cells stay, for {listing.name} has a law for them "
                "(data.missing)."
            )
    return notes


def _note_of_cells(data: Data) -> str:
    """The number of missing cells, and of the rows and columns that lack some."""
    is_missing = np.isnan(np.concatenate([part.x for part in data.parts]))
    number = int(is_missing.sum())
    if not number:
        return f"None of {is_missing.size:,} cells is missing."
    rows = f"{int(is_missing.any(axis=1).sum()):,} of {len(is_missing):,} rows"
    worst = int(is_missing.sum(axis=0).argmax())
    return (
        f"{number:,} of {is_missing.size:,} cells are missing, in {rows}, most in "
        f"{data.train.columns[worst]} ({int(is_missing[:, worst].sum()):,}): each row counts by "
        "the cells that it has (data.missing). This is right unless cells are missing because of "
        "the numbers that they would have."
    )


def standardising_manner(section: TableData) -> Manner | None:
    """Standardisation of the columns; None leaves them unchanged."""
    if not section.standardise:
        return None
    if section.standardise is True:
        return "each"
    return section.standardise


def make_choice(config: Any, like: Table | None) -> Choice:
    """The columns that a run reads; `like` is the table of its training rows, which has decided
    what the settings leave open."""
    section = config.data
    listing = config.listing
    drop = section.missing == "drop"
    order: Any = section.order
    if isinstance(order, str):
        order = () if order in ("none", "") else (order,)
    if like is not None and listing.in_time:
        order = () if like.timed is None else like.timed.order
    return Choice(
        columns=section.columns if like is None else like.columns,
        target=section.target,
        group=section.group,
        kind=listing.target(config.model) if listing.target else "real",
        missing=listing.keeps_missing(config) or (drop and listing.unseen),
        classes=None if like is None else like.classes,
        group_kind=None if like is None or like.groups is None else like.group_kind,
        in_time=listing.in_time,
        order=order,
        drop=drop,
        unseen=drop and listing.unseen,
    )


def _read(config: Any) -> Table:
    """The table of a run."""
    section = config.data
    return read_table(
        section.path,
        make_choice(config, None),
        seed=section.synthetic_seed,
        num_rows=section.num_rows,
        dialect=read_dialect(section),
        sha256=section.sha256,
    )


def _dialect(section: TableData, like: Table | None) -> Dialect:
    """The format of a file; new rows have the decimal sign of the training rows."""
    decimal: Any = None if like is None else like.decimal
    return read_dialect(section)._replace(decimal_before=decimal)


def _other(config: Any, data: Data, path: Any, column: str | None) -> Table:
    """The same columns of another table, a path or an object, on the run's scale."""
    check_no_column(column)
    like = data.train
    notes = Notes()
    source_name = _source_name(config, path)
    choice = _choice_of_new(config, like)
    if not choice.in_time:
        choice = choice._replace(drop=True)
    columns = _new_columns(config, like, path, choice, notes)
    target = () if choice.target is None else (choice.target,)
    _check_columns(
        columns, (*like.columns, *target, *choice.labels, *choice.order_columns), source_name
    )
    if choice.in_time:
        columns = placed_rows(columns, choice, notes)
    table = make_table(columns, choice, source_name, notes)
    if like.scaling is None:
        return table
    return table.standardise(like.scaling)


def _choice_of_new(config: Any, like: Table) -> Choice:
    """The columns that a run reads from new data; a new step without a cell is unobserved."""
    choice = make_choice(config, like)
    if config.listing.unseen and not config.listing.keeps_missing(config):
        choice = choice._replace(missing=True, unseen=True)
    return choice


def check_no_column(column: str | None, needed: str = "a table must have the columns") -> None:
    """Raises a `ConfigError` if a column of text is named for data that are no documents."""
    if column is not None:
        raise ConfigError(f"--column: for models of documents; {needed} that the run's had")


def _facts(data: Data) -> dict[str, Any]:
    """The sizes of a table, in types of JSON."""
    train: Table = data.train
    num_held_out = 0 if data.test is None else data.test.num_groups
    if holds_out_entries(data):
        num_held_out = int(np.isfinite(data.test.x).sum())
    return {
        "rows": len(train),
        "columns": list(train.columns),
        "groups": None if train.groups is None else train.num_groups,
        "group": train.group,
        "target": train.target,
        "classes": None if train.classes is None else list(train.classes),
        "missing": int(np.isnan(train.x).sum()),
        "held_out": num_held_out,
        "order": None if train.timed is None else list(train.timed.order.columns),
        "dropped": train.num_dropped,
    }


def holds_out_entries(data: Data) -> bool:
    """True if single entries are held out: both parts then have the same rows."""
    if data.test is None or data.test.x.shape != data.train.x.shape:
        return False
    return not (np.isfinite(data.test.x) & np.isfinite(data.train.x)).any()


def _tiles(facts: dict[str, Any]) -> dict[str, str]:
    held_out = f"and {facts['held_out']:,} held out"
    holds_out_cells = facts["missing"] > 0 and facts["held_out"] > facts["rows"]
    remark = "" if facts["groups"] or holds_out_cells else held_out
    tiles = {"Rows": f"{facts['rows']:,} | {remark}"}
    if facts["groups"]:
        tiles["Groups"] = f"{facts['groups']:,} | by {facts['group']}, {held_out}"
    names = list(facts["columns"][:MOST_NAMED])
    if len(facts["columns"]) > MOST_NAMED:
        names.append("...")
    tiles["Columns"] = f"{len(facts['columns']):,} | {', '.join(names)}"
    if facts["target"]:
        classes = facts["classes"]
        remark = f"{classes[1]} against {classes[0]}" if classes else ""
        tiles["Target"] = f"{facts['target']} | {remark}"
    if facts.get("order"):
        is_modelled = any(name in facts["columns"] for name in facts["order"])
        remark = "modelled too" if is_modelled else "not modelled"
        tiles["Order of rows"] = f"{', '.join(facts['order'])} | {remark}"
    if facts.get("dropped"):
        tiles["Rows left out"] = f"{facts['dropped']:,} | they lack a cell"
    if facts["missing"]:
        remark = f"{held_out} among them" if holds_out_cells else ""
        tiles["Missing entries"] = f"{facts['missing']:,} | {remark}"
    return tiles


def _digest(data: Data) -> Iterator[Any]:
    for table in data.parts:
        names = [*table.columns, str(table.target), str(table.group), *table.group_names]
        yield "\n".join(names).encode()
        for array in (table.x, table.y, table.groups):
            if array is not None:
                yield np.ascontiguousarray(array, np.float64).data
        if table.timed is not None:
            yield np.ascontiguousarray(table.timed.rank, np.int64).data
        if isinstance(table, TableSample):
            yield from (array.data for array in table.whole.contents())


def scale_bytes(table: Table) -> Iterator[Any]:
    """The bytes of the means and scales of the columns of a table, and of its times."""
    for array in table.scaling or ():
        yield np.ascontiguousarray(array, np.float64).data
    if table.timed is not None and table.timed.times is not None:
        yield "\n".join(map(str, np.asarray(table.timed.times).ravel().tolist())).encode()


def _outline(data: Data) -> str:
    facts = _facts(data)
    parts = [f"{facts['rows']:,} rows of {len(facts['columns']):,} columns"]
    if facts["target"]:
        parts.append(f"target {facts['target']}")
    unit = "row"
    if facts["groups"]:
        parts.append(number_and_noun(facts["groups"], "group"))
        unit = "group"
    if facts["missing"]:
        parts.append(f"{facts['missing']:,} entries missing")
    if holds_out_entries(data):
        unit = "entry"
    if facts["held_out"]:
        parts.append(f"{number_and_noun(facts['held_out'], unit)} held out")
    return ", ".join(parts)


def _check(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` if the model needs other columns, or has no use for one."""
    section = config.data
    listing = config.listing
    origin = entries["model.name"].origin
    if listing.target and section.target is None:
        raise ConfigError(
            f'{origin}: {listing.name} predicts a column: name it, as in data.target = "y"'
        )
    if section.target is not None and not listing.target:
        origin = entries["data.target"].origin
        raise ConfigError(
            f"{origin}: data.target: {listing.name} predicts no column; list the others: "
            "data.columns"
        )
    if section.group is not None and not listing.wants_group:
        origin = entries["data.group"].origin
        raise ConfigError(
            f"{origin}: data.group: {listing.name} reads rows one by one, not groups of them"
        )
    _check_in_time(config, entries)
    _check_missing(config, entries)
    holds_out_groups = listing.wants_group and section.hold_out == "rows" and section.held_out > 0
    if holds_out_groups and section.group is None:
        raise ConfigError(
            f"{origin}: data.group: {listing.name} holds out whole groups, and without a column "
            "of groups all rows are "
            'one; name it, as in data.group = "id", or hold none out: data.held_out=0'
        )
    if section.hold_out == "entries" and not listing.missing:
        origin = entries["data.hold_out"].origin
        raise ConfigError(
            f'{origin}: data.hold_out: "entries" is for models of missing entries, which '
            f"{listing.name} is not"
        )


def _check_missing(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` if missing cells are to stay and the model has no law for them."""
    listing = config.listing
    if config.data.missing != "model" or listing.keeps_missing(config):
        return
    kind = ""
    if hasattr(config.model, "emission"):
        kind = f" with model.emission.name={config.model.emission.name}"
    raise ConfigError(
        f"{entries['data.missing'].origin}: data.missing: {listing.name}{kind} has no law for "
        "missing cells; mixture, dp_mixture, hmm and hdp_hmm of Gaussians, binary values or "
        "Poisson counts have one, and factor_analysis, arhmm, slds and state_space always; or "
        "leave rows out: data.missing=drop"
    )


def _check_in_time(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on an order of rows without time, or steps that would be left out."""
    section = config.data
    listing = config.listing
    if section.order is not None and not listing.in_time:
        raise ConfigError(
            f"{entries['data.order'].origin}: data.order: rows of {listing.name} have no order in "
            "time"
        )
    if section.missing == "drop" and listing.in_time and not (listing.missing or listing.unseen):
        origin = entries["data.missing"].origin
        raise ConfigError(
            f"{origin}: data.missing: to leave a row out would join the steps before and after it; "
            "fit a model that takes missing values: hmm (with data.missing=drop a step unseen), "
            "arhmm, slds or state_space"
        )


# --- what a run keeps of its table ----------------------------------------------------------------
def _keep(folder: Path, data: Data) -> None:
    """Writes columns.json: names, classes and scales, numbers of rows; no values."""
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
        "group_kind": table.group_kind,
        "order": None if table.timed is None else table.timed.order._asdict(),
        "scaling": scaling,
        "decimal": table.decimal,
    }
    write_text(folder / COLUMNS, json.dumps(outline, ensure_ascii=False, indent=1) + "\n")


def _load_stand_in(folder: Path) -> Data | None:
    """A table of zeros with the run's rows, for its model and the shapes of its state."""
    path = folder / COLUMNS
    try:
        return Data(_stand_in(json.loads(path.read_text(encoding="utf-8"))), None)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        fault = f"{path}: damaged ({type(error).__name__}: {error})"
        raise DamagedError(fault, f"write it again: vijax resume {quote(folder)}") from error


def _stand_in(outline: dict[str, Any]) -> Table:
    columns = tuple(map(str, outline["columns"]))
    rows = int(outline["rows"])
    sizes = outline["group_sizes"]
    groups = None if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
    scaling = None
    lengths = []
    if outline["scaling"] is not None:
        scaling = Scaling(*(np.array(x, float) for x in outline["scaling"]))
        lengths = [len(scaling.mean), len(scaling.deviation)]
    has_other_groups = groups is not None and len(groups) != rows
    has_other_scales = any(length != len(columns) for length in lengths)
    if rows < 1 or has_other_groups or has_other_scales:
        raise ValueError("sizes that do not go together")
    first_class, second_class = outline["classes"] or (None, None)
    order = outline.get("order")
    timed = None
    if order is not None:
        fields = [tuple(order[key]) for key in Order._fields]
        timed = TimedRows(Order(*fields), np.arange(rows), None)
    return Table(
        columns=columns,
        x=np.zeros((rows, len(columns))),
        target=outline["target"] and str(outline["target"]),
        y=None if outline["target"] is None else np.ones(rows),
        classes=None if first_class is None else (str(first_class), str(second_class)),
        group=outline["group"] and str(outline["group"]),
        groups=groups,
        group_names=() if sizes is None else tuple(map(str, range(len(sizes)))),
        group_kind=outline.get("group_kind", "text"),
        timed=timed,
        decimal=outline.get("decimal"),
        scaling=scaling,
    )


# --- new rows -------------------------------------------------------------------------------------
class AllBut(Container):
    """All names except the names of a set."""

    def __init__(self, names: tuple[str, ...]):
        self.names = frozenset(names)

    def __contains__(self, name: object) -> bool:
        return name not in self.names


def _new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Rows with the run's columns, on its scale; a target is not needed, but passed through."""
    check_no_column(column)
    if source is None and isinstance(data.train, TableSample):
        raise ConfigError(f"{config.data.path}: more rows than are held; name its files one by one")
    like = data.train
    notes = Notes()
    source_name = _source_name(config, source)
    choice = _choice_of_new(config, like)._replace(target=None, kind="real", drop=False)
    if choice.order_columns and _is_matrix(source):
        choice = choice._replace(order=())  # it has no column of times
    columns = _new_columns(config, like, source, choice, notes)
    _check_columns(columns, (*like.columns, *choice.labels, *choice.order_columns), source_name)
    beside = {
        name: original_cells(columns, name).tolist() for name in columns if name not in like.columns
    }
    beside = {"row": np.arange(len(next(iter(columns.values()), ()))), **beside}
    columns, places = _usable_rows(columns, choice, source_name, notes)
    table = make_table(columns, choice, source_name, notes)
    table = table if like.scaling is None else table.standardise(like.scaling)
    return New(table, beside, (*table.notes, *_notes_of_new_groups(config, like, table)), places)


def _notes_of_new_groups(config: Any, like: Table, table: Table) -> list[str]:
    """A note on rows of groups that are not in training, if the model knows its groups."""
    if not (config.listing.needs_rows and config.listing.wants_group and table.groups is not None):
        return []
    training_groups = frozenset(like.group_names)
    is_new = np.array([name not in training_groups for name in table.group_names], bool)
    names = [name for name, new in zip(table.group_names, is_new, strict=True) if new]
    if not names:
        return []
    rows = int(is_new[table.groups].sum())
    return [
        f"{rows:,} rows are of {len(names):,} groups that training has not seen, "
        f"{listed(names, 5)}: they are predicted by the population."
    ]


def _is_matrix(source: Any) -> bool:
    """True for an object without names of columns."""
    return not isinstance(source, str | Path | Mapping | None) and column_names_of(source) is None


AS_IN_TRAINING = " So the run reads all its files (data.missing_words)."


def _usable_rows(
    columns: Columns, choice: Choice, where: str, notes: Notes
) -> tuple[Columns, np.ndarray | None]:
    """The rows with all cells that the model needs (of the run's columns, the group and the time),
    and their places; None if these are all rows."""
    is_usable = are_placed(columns, choice)
    if not choice.missing and not choice.in_time:
        is_usable &= are_whole(columns, choice, where)
    if is_usable.all() or not is_usable.any():
        return columns, None
    places = np.flatnonzero(is_usable)
    first = row_names(columns).name(int(np.argmin(is_usable)))
    notes.add(
        f"{len(is_usable) - len(places):,} of {len(is_usable):,} rows lack a cell that the model "
        f"needs, the first in {first}: their results are empty."
    )
    for name in choice.labels:
        note = said_missing(columns, name, AS_IN_TRAINING)
        if note:
            notes.add(note)
    return some_rows(columns, places), places


def _source_name(config: Any, source: Any) -> str:
    if source is None:
        return config.data.path
    return source if isinstance(source, str) else "data"


def _new_columns(config: Any, like: Table, source: Any, choice: Choice, notes: Notes) -> Columns:
    """Every column. Columns that are passed through stay exact text, unless numbers order rows."""
    numbers = list(like.columns)
    if choice.target is not None and choice.kind != "binary":
        numbers.append(choice.target)
    if isinstance(choice.order, Order):
        formats = zip(choice.order.columns, choice.order.formats, strict=True)
        numbers += [name for name, form in formats if form == NUMBER]
    exact = AllBut(tuple(numbers))
    if source is not None and not isinstance(source, str | Path):
        return columns_without_blanks(memory_columns(source, like.columns, exact), "data")
    section = config.data
    path = section.path
    rows = section.num_rows
    digest = section.sha256
    if source is not None and str(source) != section.path:
        path = str(source)
        rows = None
        digest = None
    columns = read_columns(
        path, section.synthetic_seed, rows, _dialect(section, like), digest, exact, notes
    )
    labels = ((choice.group, like.group_names), (choice.target, like.classes or ()))
    for name, names in labels:
        if name is not None and name in columns and isinstance(columns, FileColumns):
            columns.keep_names(name, frozenset(names))
    return columns


def _check_columns(columns: Columns, wanted: tuple[str, ...], where: str) -> None:
    """Raises an error that lists all missing columns of the run, and the present columns."""
    wanted = tuple(dict.fromkeys(wanted))
    missing = [name for name in wanted if name not in columns]
    if missing:
        present = ", ".join(map(repr, list(columns)[:20]))
        raise fail(
            where,
            f"the columns of the run, {', '.join(map(repr, wanted[:20]))}",
            f"none called {', '.join(map(repr, missing[:20]))}, but {present}",
            "name the columns as in the data that the run was fitted to",
        )


TABLES = Source(
    section=TableData,
    load=_load_with_notes,
    other=_other,
    facts=_facts,
    tiles=_tiles,
    digest=_digest,
    describe=_outline,
    check=_check,
    keep=_keep,
    kept_files=(COLUMNS,),
    kept=_load_stand_in,
    new=_new,
    results="transformed",
    units=lambda data: itertools.chain.from_iterable(map(scale_bytes, data.parts)),
)


def sequence_model(settings: Any, describe: Any, score: Any, **more: Any) -> Listing:
    """The listing of a model of sequences, the groups of a table; arguments as for `Listing`."""
    settings_of_sequences: dict[str, Any] = {
        "unit": "sequence",
        "per": "sequence",
        "wants_group": True,
        "in_time": True,
    }
    return Listing(
        settings,
        TABLES,
        EnergyAlgorithm,
        describe,
        padded_sequences,
        score,
        **settings_of_sequences,
        **more,
    )
