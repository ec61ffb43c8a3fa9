"""A look at some data before a run: the settings that suit them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from vijax.app.catalogue.parts.topics_in_time import time_column
from vijax.app.plan.assemble import FULL_DATA
from vijax.app.plan.column_words import GROUPS, IDS, TARGETS, UNITS, YES
from vijax.app.settings.sections import DatedData, read_dialect
from vijax.app.settings.typed_toml import ConfigError, flatten
from vijax.app.sources.documents import load_documents, read_corpus, side_columns
from vijax.app.sources.rating_tables import find_rating_scale, has_ratings
from vijax.data.formulas.tokens import quote_name
from vijax.data.loader import USUAL
from vijax.data.read import guess_format
from vijax.data.reading.checks import DataError, Notes, listed, nearest
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.files import path_kind
from vijax.data.schema.labels import label_name
from vijax.data.schema.name_words import is_called_a_time, words_of_name
from vijax.data.schema.typed_columns import typed_table
from vijax.data.tables.columns import (
    Columns,
    are_missing,
    as_numbers,
    not_numbers,
    row_name,
    said_missing,
    words_as_missing,
)
from vijax.data.tables.graph import is_name_of_counts
from vijax.data.tables.order import find_order
from vijax.data.tables.table import OF_NUMBERS, number_hint
from vijax.data.tables.table_files import read_columns
from vijax.data.texts.text_files import DEFAULT_COLUMN, RECORDS
from vijax.data.texts.words import find_words, normalise
from vijax.files import local_path


class Look(NamedTuple):
    """Suggestions for some data.

    Attributes:
      facts: lines for a reader: sizes, columns.
      settings: values by dotted key, as TOML has them.
      why: a line for each setting that needs a reason, by its key.
      without: settings of the first configuration that do not suit these data.
    """

    facts: list[str]
    settings: dict[str, Any]
    why: Mapping[str, str] = MappingProxyType({})
    without: frozenset[str] = frozenset()


MOST_LISTED = 30
"""Number of columns that are listed at most."""
MANY = 15
"""Number of columns beyond which covariances are diagonal."""
KINDS = {"binary": "two classes", "count": "counts 0, 1, 2, ...", "real": "numbers"}


class Column(NamedTuple):
    """A column of a table.

    Attributes:
      name: its name.
      values: numbers, NaN if missing; None for text.
      distinct: number of different values.
      missing: number of missing values.
      number: number of rows.
      lacks: mask of the rows without a value.
      labels: its values as written, in order, if they are at most `MOST_CLASSES`; else none.
      hint: a remedy if signs in its text keep it from being numbers.
      words: words that were read as missing.
    """

    name: str
    values: np.ndarray | None
    distinct: int
    missing: int
    number: int
    lacks: np.ndarray
    labels: tuple[str, ...] = ()
    hint: str = ""
    words: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """True if all present values are 0, 1, 2, ..."""
        if self.values is None:
            return False
        present = self.values[~np.isnan(self.values)]
        return bool(np.all(_are_whole(present) & (present >= 0)))

    @property
    def binary(self) -> bool:
        """True if all values are 0 or 1."""
        return self.values is not None and bool(np.isin(self.values, (0.0, 1.0)).all())

    @property
    def is_constant(self) -> bool:
        """True if all values are equal."""
        return self.distinct == 1 and self.number > 1

    @property
    def identifies(self) -> bool:
        """True if it numbers the rows, or names each of them."""
        unique = self.distinct == self.number > 2
        if unique and self.values is None:
            return True
        if self.values is None or self.missing or not np.all(_are_whole(self.values)):
            return False
        return unique or self.numbers_rows or self.is_called_an_id

    @property
    def numbers_rows(self) -> bool:
        """True for whole numbers that rise by one, and now and then restart from the smallest."""
        if self.values is None or self.missing or self.number < 4:
            return False
        steps = np.diff(self.values)
        jumps = self.values[1:][steps != 1]
        begins = bool(np.all(jumps == self.values[0])) and self.values[0] == self.values.min()
        return begins and len(jumps) <= self.number / 4

    @property
    def numbers_rows_of_groups(self) -> bool:
        """True for whole numbers that rise by one and restart, as visits of patients, and are not
        called a number."""
        has_name_of_id = bool(set(words_of_name(self.name)) & IDS)
        return self.numbers_rows and self.distinct <= self.number / 2 and not has_name_of_id

    @property
    def is_called_an_id(self) -> bool:
        """True if it has many whole numbers and the name of an identifier."""
        return self.distinct > self.number / 2 and bool(set(words_of_name(self.name)) & IDS)

    def suits(self, kind: str) -> bool:
        """True if it could be a target of this kind."""
        if kind == "binary":
            return self.distinct == 2
        if self.values is None or self.distinct < 3 or self.identifies:
            return False
        return kind != "count" or self.counts

    def __str__(self) -> str:
        if self.numbers_rows_of_groups:
            return f"{self.name}: numbers the rows of groups"
        if self.identifies:
            return f"{self.name}: identifies the rows"
        missing = ""
        if self.missing:
            words = f", as {listed(self.words, 3)} (data.missing_words)" if self.words else ""
            missing = f", {self.missing:,} missing{words}"
        if self.is_constant:
            value = self.labels[0] if self.labels else ""
            return f"{self.name}: the same in all rows, {value}{missing}"
        if self.values is None:
            return f"{self.name}: text, {self.distinct:,} different{missing}{self.hint.rstrip('.')}"
        low, high = np.nanmin(self.values), np.nanmax(self.values)
        extent = f"from {low:.4g} to {high:.4g}"
        return f"{self.name}: numbers {extent}, {self.distinct:,} different{missing}"


def _are_whole(values: np.ndarray) -> np.ndarray:
    return values == np.floor(values)


def _read_table(data: str, config: Any) -> tuple[Columns, list[str]]:
    """The columns of a table, in their order, and remarks on the way it is written."""
    notes = Notes()
    columns = read_columns(data, dialect=read_dialect(config.data), notes=notes)
    missing = [said_missing(columns, name) for name in columns]
    return columns, [*notes.texts(), *filter(None, missing)]


def _named_columns(
    columns: list[Column], settings: Mapping[str, Any], key: str, data: str
) -> list[Column]:
    """The columns that the user has named with a setting; none if it is not set."""
    value = settings.get(key, ())
    names = [value] if isinstance(value, str) else value
    by_name = {column.name: column for column in columns}
    for name in names:
        if name not in by_name:
            raise ConfigError(
                f"--set {key}: {data} has no column {name!r}; {nearest(str(name), by_name)}"
            )
    return [by_name[name] for name in names]


def _make_column(name: str, values: np.ndarray, words: tuple[str, ...] = ()) -> Column:
    numbers = None
    hint = ""
    if not_numbers(values).any():
        missing = are_missing(values)
        present = values[~missing]
        hint = number_hint(values)
    else:
        numbers = as_numbers(values)
        missing = np.isnan(numbers)
        present = numbers[~missing]
    distinct = set(map(label_name, present.tolist()))
    return Column(
        name,
        numbers if len(present) else None,
        len(distinct),
        int(missing.sum()),
        len(values),
        missing,
        tuple(sorted(distinct)) if len(distinct) <= MOST_CLASSES else (),
        hint,
        words,
    )


# --- tables ---------------------------------------------------------------------------------------
def look_at_table(data: str, listing: Any, config: Any, user_settings: Mapping[str, Any]) -> Look:
    """The probable target, group and other columns of a table, and settings that suit them. Columns
    that the user has named are used as they are."""
    raw, notes = _read_table(data, config)
    table = [
        _make_column(name, values, words_as_missing(raw, name)) for name, values in raw.items()
    ]
    facts = [*_facts(table), *notes]
    flat_config = flatten(config)
    if "model.formula" in flat_config:
        return _look_for_formula(raw, table, facts, data, user_settings)
    named_columns = {
        name: _named_columns(table, user_settings, f"data.{name}", data)
        for name in ("target", "group", "columns")
    }
    target, why_target = None, ""
    if listing.target is not None and "model.image" not in flat_config:
        kind = listing.target(config.model)
        target, why_target = _target(named_columns["target"], table, kind, data, listing.name)
    group, times = _group_and_times(raw, table, named_columns, target, listing, user_settings, data)
    columns, unused, lacking = _modelled_columns(
        table, named_columns, target, group, times, listing, config
    )
    if not columns:
        raise ConfigError(
            f"{data}: no column of numbers is left to learn from: {'; '.join(map(str, table))}"
        )
    settings: dict[str, Any] = {"data.columns": [column.name for column in columns]}
    reasons = {"data.columns": f"Left out: {unused}."} if unused else {}
    if times:
        settings["data.order"] = times[0] if len(times) == 1 else list(times)
        reasons["data.order"] = "The time of each row; it is not modelled."
    if target is not None:
        settings["data.target"] = target.name
        reasons["data.target"] = why_target
    if group is not None:
        settings["data.group"] = group.name
        reasons["data.group"] = f"{group.distinct:,} different in {group.number:,} rows."
    has_a_cell = ~np.all([column.lacks for column in columns], axis=0)
    if lacking.any() and (lacking & has_a_cell).any() and listing.takes_missing(config.model):
        settings["data.missing"] = "model"
        reasons["data.missing"] = (
            f"{int(lacking.sum()):,} of {len(lacking):,} rows lack a cell, and count by the others."
        )
    elif lacking.any() and not (listing.in_time and not listing.unseen):
        settings["data.missing"] = "drop"
        effect = "rows lack a cell, and are left out"
        if listing.in_time:
            effect = "steps lack a cell, and count as not seen"
        reasons["data.missing"] = f"{int(lacking.sum()):,} of {len(lacking):,} {effect}."
    settings["data.held_out"] = _held_out_share(table, group, listing)
    if listing.wants_group and group is None:
        reasons["data.held_out"] = "No column looks like groups, and so all rows are one."
    settings |= _emission(columns, flat_config) | _networks(columns, flat_config)
    if "model.rotation" in flat_config:
        settings |= {"model.noise": "diagonal", "model.rotation": "varimax"}
    if "model.rotation" in flat_config and "model.noise" not in user_settings:
        reasons["model.noise"] = "A noise for each column; isotropic would be principal components."
    if flat_config["fit.batch_size"] is not None:
        settings["fit.batch_size"] = min(
            flat_config["fit.batch_size"], max(1, table[0].number // 4)
        )
    return Look(facts, settings, reasons, TIED_TO_DATA)


def _group_and_times(
    raw: Columns,
    table: list[Column],
    named: Mapping[str, list[Column]],
    target: Column | None,
    listing: Any,
    user_settings: Any,
    data: str,
) -> tuple[Column | None, tuple[str, ...]]:
    """The column of groups, and the columns that order rows in time."""
    times: tuple[str, ...] = ()
    if listing.in_time:
        times = _times(raw, named, target, user_settings, data)
    group = None
    if listing.wants_group:
        is_candidate = lambda c: (
            c.name not in times and (named["group"] or not is_called_a_time(c.name))
        )
        candidates = named["group"] or [column for column in table if column is not target]
        group = _group(list(filter(is_candidate, candidates)), bool(named["group"]))
    if named["group"]:
        return group, times
    if group is not None and times and not _names_sequences(group, raw[group.name]):
        group = None  # times tell all rows apart, and this column describes each of them
    if listing.in_time:
        with_group = {**named, "group": [group] if group else []}
        times = _times(raw, with_group, target, user_settings, data)
    return group, times


def _modelled_columns(
    table: list[Column],
    named: Mapping[str, list[Column]],
    target: Column | None,
    group: Column | None,
    times: tuple[str, ...],
    listing: Any,
    config: Any,
) -> tuple[list[Column], str, np.ndarray]:
    """The columns to model, the unused columns in words, and a mask of incomplete rows."""
    needed = [column for column in (target, group) if column]
    free = [
        column
        for column in named["columns"] or table
        if column not in (target, group) and column.name not in times
    ]
    columns = named["columns"]
    if columns:
        lacking = _lacking_rows([*columns, *needed])
    else:
        useful = lambda c: c.values is not None and not c.identifies and not c.is_constant
        columns = list(filter(useful, free))
        if listing.takes_missing(config.model):
            columns = [c for c in columns if c.missing <= MOST_MISSING * c.number]
            lacking = _lacking_rows([*columns, *needed])
        else:
            columns, lacking = _drop_sparse(columns, needed, listing)
    unused = [str(column) for column in free if column not in columns]
    return columns, "; ".join(unused[:MOST_LISTED]), lacking


def _held_out_share(table: list[Column], group: Column | None, listing: Any) -> float:
    """The share of rows, or of groups, to hold out: a tenth, but at least one of them."""
    units = table[0].number
    if listing.wants_group:
        units = group.distinct if group else 1
    if units == 1:
        return 0.0
    return 0.1 if units >= 10 else -(-100 // units) / 100


def _names_sequences(column: Column, values: np.ndarray) -> bool:
    """True if the rows of each value stand together, and it is text or has an identifier's name."""
    if column.values is not None and not set(words_of_name(column.name)) & (UNITS | IDS):
        return False
    codes = _codes(values)
    return int(np.sum(np.diff(codes) != 0)) == int(codes.max())


def _codes(values: np.ndarray) -> np.ndarray:
    """The number of each row's value among the sorted different values."""
    return np.unique([label_name(value) for value in values.tolist()], return_inverse=True)[1]


def _times(
    raw: Mapping[str, np.ndarray],
    named: Mapping[str, list[Column]],
    target: Column | None,
    user_settings: Any,
    data: str,
) -> tuple[str, ...]:
    """The columns that order rows in time: as the user has set them, or as a fit finds them."""
    if "data.order" in user_settings:
        order: Any = user_settings["data.order"]
        if order == "none":
            return ()
        return (order,) if isinstance(order, str) else tuple(order)
    group = named["group"][0].name if named["group"] else None
    groups = None if group is None else _codes(raw[group])
    excluded = (group, target.name if target else None)
    columns = [column.name for column in named["columns"]] or None
    try:
        order = find_order(raw, groups, excluded, columns, data, row_name(raw), Notes(), group)
    except DataError:
        return ()  # another group may make it an order; a fit says what is wrong
    return () if order.timed is None else order.timed.order.columns


MOST_MISSING = 1 / 3
"""The share of its cells that a column may lack."""
LEAST_ROWS = 0.6
"""The share of rows that must lack no cell in the end."""


def _drop_sparse(
    columns: list[Column], needed: list[Column], listing: Any
) -> tuple[list[Column], np.ndarray]:
    """The columns without those lacking too many cells, and a mask of the rows that still lack a
    cell. A model with a law for missing cells keeps all columns."""
    if listing.missing:
        return columns, _lacking_rows(needed)
    if listing.in_time and not listing.unseen:
        columns = [c for c in columns if not c.missing]
        return columns, _lacking_rows([*columns, *needed])
    columns = [c for c in columns if c.missing <= MOST_MISSING * c.number]
    while len(columns) > 1 and _lacking_rows([*columns, *needed]).mean() > 1 - LEAST_ROWS:
        worst = max(columns, key=lambda c: c.missing)
        columns = [c for c in columns if c is not worst]
    return columns, _lacking_rows([*columns, *needed])


def _lacking_rows(columns: list[Column]) -> np.ndarray:
    """A mask of the rows that lack a cell of these columns."""
    mask = np.zeros(columns[0].number if columns else 0, bool)
    for column in columns:
        mask |= column.lacks
    return mask


def _facts(columns: list[Column]) -> list[str]:
    """The rows and columns of a table, as lines."""
    lines = [f"{columns[0].number:,} rows; columns:"]
    lines += [f"  {column}" for column in columns[:MOST_LISTED]]
    if len(columns) > MOST_LISTED:
        lines.append(f"  and {len(columns) - MOST_LISTED} more")
    return lines


MOST_CLASSES = 6
"""Different texts up to which a column is a term of a formula; with more it names groups."""


def _look_for_formula(
    raw: Columns, table: list[Column], facts: list[str], data: str, user_settings: Mapping[str, Any]
) -> Look:
    """A formula for the likeliest response: a term for each column, an effect for each group."""
    settings: dict[str, Any] = {"data.held_out": 0.1 if table[0].number >= 10 else 0.0}
    if "model.formula" in user_settings:
        return Look(facts, settings)
    kinds = {name: column.kind for name, column in typed_table(raw).columns.items()}
    full = [column for column in table if not column.missing]
    kind_of_response = _kind_of_response(full)
    target, reason_for_target = _target([], full, kind_of_response, data, "glmm")
    if kind_of_response == "binary" and "model.family" not in user_settings:
        settings["model.family"] = "bernoulli"  # of 0 and 1 it would be a normal law
    is_usable = lambda c: c.distinct > 1 and (not c.identifies or c.numbers_rows_of_groups)
    candidates = [c for c in full if c is not target and is_usable(c)]
    terms = [_term(column, kinds[column.name]) for column in candidates]
    groups = [column for column in candidates if _names_groups(column, kinds[column.name])]
    effects = [f"(1 | {quote_name(column.name)})" for column in groups]
    right_side = " + ".join([*filter(None, terms), *effects]) or "1"
    settings["model.formula"] = f"{quote_name(target.name)} ~ {right_side}"
    in_formula = {target.name, *(column.name for column in groups)}
    unused = [
        column.name
        for column in table
        if column.missing
        or (column.name not in in_formula and not _term(column, kinds[column.name]))
    ]
    left_out = f" Left out: {listed(unused)}." if unused else ""
    reason = f"The response: {reason_for_target}{left_out} Change the formula at will."
    return Look(facts, settings, {"model.formula": reason})


def _kind_of_response(table: list[Column]) -> str:
    """The kind of the column that looks most like a response: "binary" or "real"."""
    likeness = {
        kind: max((_likeness(c, table) for c in table if c.suits(kind)), default=-np.inf)
        for kind in ("binary", "real")
    }
    return "binary" if likeness["binary"] > likeness["real"] else "real"


def _term(column: Column, kind: str) -> str:
    """The term of a column in a formula; "" if it has none."""
    is_useless = column.identifies and not column.numbers_rows_of_groups
    if column.missing or column.distinct < 2 or is_useless or _names_groups(column, kind):
        return ""
    if kind in ("number", "truth"):
        return quote_name(column.name)
    if column.distinct > MOST_CLASSES:
        return ""
    if kind == "label":
        return quote_name(column.name)
    return f"C({quote_name(column.name)})"


def _names_groups(column: Column, kind: str) -> bool:
    """True for text of many values that recur, and for text or whole numbers that recur in a column
    that is called as groups are."""
    if not 2 < column.distinct <= column.number / 2:
        return False
    if column.numbers_rows_of_groups:
        return False
    is_called_a_group = bool(set(words_of_name(column.name)) & GROUPS)
    if is_called_a_group and (kind == "label" or column.counts):
        return True
    return kind == "label" and column.distinct > MOST_CLASSES


def _target(
    named: list[Column], table: list[Column], kind: str, data: str, model: str
) -> tuple[Column, str]:
    """The column to predict, and the reason: the user's choice; else a column named like a target,
    a text column of words such as Yes and No, the last or the first."""
    candidates = [column for column in named or table if column.suits(kind)]
    if not candidates:
        columns = "; ".join(map(str, table[:MOST_LISTED]))
        advice = f"; {OF_NUMBERS}" if any(column.suits("real") for column in table) else ""
        raise ConfigError(
            f"{data}: {model} predicts a column of {KINDS[kind]}, and there is none: "
            f"{columns}{advice}"
        )
    best = max(candidates, key=lambda column: (_likeness(column, table), table.index(column)))
    if named:
        explanation = "As you have said."
    elif set(words_of_name(best.name)) & TARGETS:
        explanation = "By its name."
    elif len(candidates) == 1:
        explanation = f"The only column of {KINDS[kind]}."
    else:
        rank = "likeliest"
        if best is candidates[-1]:
            rank = "last"
        elif best is candidates[0]:
            rank = "first"
        explanation = f"The {rank} column of {KINDS[kind]}; name another if it is not the one."
    alternatives = [column.name for column in candidates if column is not best]
    if alternatives and not named:
        explanation += f" It could also be {listed(alternatives, 5)}."
    if kind == "binary":
        classes = sorted(best.labels, key=lambda label: (_as_number(label), label))
        explanation += f" What is modelled is the odds of {classes[-1]!r} against {classes[0]!r}."
    return best, explanation


def _as_number(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return 0.0


def _likeness(column: Column, table: list[Column]) -> float:
    """A score of how much a column looks like a target."""
    words = set(words_of_name(column.name))
    score = 0.0
    if words & TARGETS:
        score += 4.0 if len(words) > 1 else 6.0
    if column.values is None and {label.lower() for label in column.labels} & YES:
        score += 1.0
    if column in (table[0], table[-1]):
        score += 1.5
    if column.missing:
        score -= 2.0
    return score


def _group(columns: list[Column], is_named: bool) -> Column | None:
    """The column that the user has named; or one with recurring values: text, or whole numbers."""
    if is_named:
        return columns[0]
    repeated = [c for c in columns if 2 <= c.distinct <= c.number / 2 and not c.missing]
    text = [c for c in repeated if c.values is None]
    counts = [c for c in repeated if c.counts]
    return next(iter([*text, *counts]), None)


def _emission(columns: list[Column], known: Mapping[str, Any]) -> dict[str, Any]:
    """The emission of components for binary columns, counts, or numbers."""
    if "model.emission.name" not in known:
        return {}
    if all(column.binary for column in columns):
        return {"model.emission.name": "bernoulli"}
    if all(column.counts for column in columns):
        return {"model.emission.name": "poisson"}
    name = "full_gaussian" if len(columns) <= MANY else "diagonal_gaussian"
    return {"model.emission.name": name}


def _networks(columns: list[Column], known: Mapping[str, Any]) -> dict[str, Any]:
    if "model.networks.hidden" not in known:
        return {}
    law = "bernoulli" if all(column.binary for column in columns) else "gaussian"
    size = min(known["model.latent_dim"], max(1, len(columns) // 2))
    return {"model.observed.name": law, "model.latent_dim": size}


OF_EMISSIONS = (
    "location",
    "strength",
    "variance",
    "degrees",
    "shape",
    "rate",
    "alpha",
    "beta",
    "eta",
)
TIED_TO_DATA = frozenset(
    {
        "model.image", "model.observed.threshold", "model.observed.sd", "model.emission.{name}",
    }
)  # fmt: skip
"""Settings that belong to the data on which a configuration was tried."""


# --- graphs ---------------------------------------------------------------------------------------
def look_at_graph(data: str, listing: Any, config: Any, said: Mapping[str, Any]) -> Look:
    """The columns of an edge list; a square matrix has none to name."""
    raw, notes = _read_table(data, config)
    table = [
        _make_column(name, values, words_as_missing(raw, name)) for name, values in raw.items()
    ]
    facts = [f"{table[0].number:,} rows; columns:"]
    facts += [f"  {column}" for column in table[:MOST_LISTED]]
    facts += notes
    numbers = [column for column in table if column.values is not None]
    is_square = len(numbers) == table[0].number
    names = {column.name for column in table}
    if is_square:
        return Look(facts, {})
    if {config.data.source, config.data.target} <= names:
        ends = (config.data.source, config.data.target, config.data.weight)
        candidates = [column for column in numbers if column.name not in ends]
        return Look(facts, _weights_of_edges(candidates))
    end_columns = [c for c in table if c.values is None or c.counts][:2]
    if len(end_columns) < 2:
        raise ConfigError(
            f"{data}: neither an edge list nor a square matrix: {'; '.join(map(str, table))}"
        )
    settings = {"data.source": end_columns[0].name, "data.target": end_columns[1].name}
    settings |= _weights_of_edges([c for c in numbers if c not in end_columns])
    reasons = {"data.source": "The first two columns that can be names of nodes."}
    return Look(facts, settings, reasons)


def _weights_of_edges(columns: list[Column]) -> dict[str, Any]:
    """The column of weights, by its name, else the first; and a law of counts for counts."""
    by_name = [column for column in columns if is_name_of_counts(column.name)]
    if not columns:
        return {}
    weight = (by_name or columns)[0]
    settings: dict[str, Any] = {"data.weight": weight.name}
    if weight.counts and not weight.binary:
        settings["model.edges"] = "poisson"
    return settings


# --- documents ------------------------------------------------------------------------------------
MOST_READ = 200
"""Records that are read to find the column of the text."""
MOST_TOPICS = 50
"""Most topics to begin with: nobody reads more."""
UPDATES = 200
"""Least number of steps of a fit by minibatches."""


def look_at_documents(
    data: str, listing: Any, config: Any, user_settings: Mapping[str, Any]
) -> Look:
    """Reads the documents once, as a fit would."""
    if data == "docstrings":
        section = dataclasses.replace(config.data, path=data)
        return _look_at_text(listing, config, section, {"data.path": data})
    column = user_settings.get("data.column") or _text_column(data, config.data)
    words = user_settings.get("data.vocabulary")
    section = dataclasses.replace(config.data, path=data, column=column, vocabulary=words)
    unusual = {} if column in (None, DEFAULT_COLUMN) else {"data.column": column}
    if isinstance(section, DatedData):
        unusual["data.time"] = _time_of_documents(section, user_settings)
    return _look_at_text(listing, config, section, unusual)


def _time_of_documents(section: DatedData, user_settings: Mapping[str, Any]) -> str:
    """The column of times: the user's, or the only one of dates or years."""
    columns = side_columns(section, read_corpus(section))
    return time_column(user_settings.get("data.time"), columns)


def look_at_ratings(data: str, listing: Any, config: Any, user_settings: Mapping[str, Any]) -> Look:
    """Reads a table of users and items once, as a fit would; high ratings count as taken."""
    section = dataclasses.replace(config.data, path=data)
    if data == "docstrings" or not has_ratings(section):
        return look_at_documents(data, listing, config, user_settings)
    rating = find_rating_scale(section)
    if rating is None:
        return _look_at_text(listing, config, section, {})
    explanation = (
        f"Ratings in {rating.column!r} are from {rating.low:g} to {rating.high:g}: high ones "
        "count as taken. "
        f'count = "{rating.column}" takes ratings as counts instead, count = "none" every row once.'
    )
    section = dataclasses.replace(section, least=rating.least)
    look = _look_at_text(listing, config, section, {"data.least": rating.least})
    return look._replace(why={**look.why, "data.least": explanation})


def _look_at_text(listing: Any, config: Any, section: Any, unusual: dict[str, Any]) -> Look:
    """The look at the documents of a section; `unusual` are its settings that are no defaults."""
    parts = load_documents(dataclasses.replace(section, held_out=0.1))
    number = parts.whole.num_documents + parts.test.num_documents
    words = parts.whole.num_tokens + parts.test.num_tokens
    facts = [_size(listing.source.columns, number, words, len(parts.names)), *parts.train.notes]
    readable = int(np.clip(5 * round(np.sqrt(words / 1000) / 5), 5, MOST_TOPICS))
    topics = readable if number >= 50 else max(2, number // 10)
    reasons = {
        "model.num_topics": "Few enough to read: about the root of the thousands of words. "
        "Compare: --sweep."
    }
    settings = unusual | {"data.held_out": 0.1, "model.num_topics": topics} | _steps(config, number)
    return Look(facts, settings, reasons)


def _size(columns: tuple[str, str], number: int, total: int, num_kinds: int) -> str:
    """A line on the size of the data.

    >>> _size(("user", "taken"), 100, 620, 30)
    '100 users, 6 taken on average, of 30 kinds.'
    """
    title, counted = columns
    if counted == "words":
        return (
            f"{number:,} {title}s of {total / number:,.0f} words on average that are kept, of "
            f"{num_kinds:,} kinds."
        )
    return (
        f"{number:,} {title}s, {total / number:,.0f} {counted} on average, of {num_kinds:,} kinds."
    )


def _steps(config: Any, number: int) -> dict[str, Any]:
    """Batches and passes with which a fit by minibatches takes enough steps."""
    if config.fit.batch_size is None and config.algorithm.name in FULL_DATA:
        return {}
    batch = min(config.fit.batch_size or USUAL, max(10, number // 10))
    passes = max(config.fit.num_epochs, -(-UPDATES * batch // number))
    return {"fit.batch_size": min(batch, number), "fit.num_epochs": passes}


def _text_column(data: str, section: Any) -> str | None:
    """The column `text`, or else the column of the longest texts; None if it has no columns."""
    path = fetch(data) if is_url(data) else local_path(data)
    if path_kind(path) != "a file":
        return None
    kind = guess_format(path) if section.format == "auto" else section.format
    if kind not in RECORDS:
        return None
    rows = RECORDS[kind](path, read_dialect(section)).rows(None)
    records = [row for *_, row in itertools.islice(rows, MOST_READ)]
    if not records:
        return None
    num_words: dict[str, int] = {}
    for record in records:
        for name, text in record.items():
            number = len(find_words(normalise(text))) if isinstance(text, str) else 0
            num_words[name] = num_words.get(name, 0) + number
    if DEFAULT_COLUMN in num_words:
        return DEFAULT_COLUMN
    longest = max(num_words, key=lambda name: num_words[name])
    if not num_words[longest]:
        names = ", ".join(map(repr, list(num_words)[:20]))
        raise ConfigError(f"{data}: no column holds text, among {names}")
    return longest
