"""A look at some data before a run: the settings that suit them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from vijax.app.plan.assemble import FULL_DATA
from vijax.app.settings.sections import dialect_of
from vijax.app.settings.typed_toml import ConfigError, flatten
from vijax.app.sources.documents import load_documents
from vijax.app.sources.rating_tables import has_ratings, liked
from vijax.data.formulas.tokens import quoted
from vijax.data.loader import USUAL
from vijax.data.read import guess_format
from vijax.data.reading.checks import DataError, Notes, listed, nearest
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.files import kind_of
from vijax.data.schema.labels import name_of
from vijax.data.schema.typed_columns import typed_table
from vijax.data.tables.columns import (
    Columns,
    are_missing,
    as_numbers,
    not_numbers,
    row_name,
    said_missing,
    words_in,
)
from vijax.data.tables.order import find_order
from vijax.data.tables.table import OF_NUMBERS, hint_of
from vijax.data.tables.table_files import read_columns
from vijax.data.tables.time_names import is_called_a_time
from vijax.data.texts.text_files import DEFAULT_COLUMN, RECORDS
from vijax.data.texts.words import normalised, words_of


class Look(NamedTuple):
    """Suggestions for some data.

    Attributes:
      facts: lines for a reader: sizes, columns.
      settings: values by dotted key, as TOML has them.
      why: a line for each setting that needs one, by its key.
      without: settings of the first configuration that do not suit these data.
    """

    facts: list[str]
    settings: dict[str, Any]
    why: Mapping[str, str] = MappingProxyType({})
    without: frozenset[str] = frozenset()


MOST_LISTED = 30
"""Columns that are listed."""
MANY = 15
"""Number of columns beyond which covariances are taken diagonal."""
KINDS = {"binary": "two classes", "count": "counts 0, 1, 2, ...", "real": "numbers"}


class Column(NamedTuple):
    """A column of a table.

    Attributes:
      name: its name.
      values: numbers, NaN where one is missing; None for text.
      distinct: number of different values.
      missing: number of missing values.
      number: number of rows.
      lacks: a mask of the rows where its value is missing.
      labels: of a column of at most `MOST_CLASSES` values, these as they are written, in order;
          else none.
      hint: what to do where its text would be numbers but for signs in them.
      words: those among its names that were read as missing.
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
        """True where all values that are there are 0, 1, 2, ..."""
        if self.values is None:
            return False
        there = self.values[~np.isnan(self.values)]
        return bool(np.all(_whole(there) & (there >= 0)))

    @property
    def binary(self) -> bool:
        """True where all values are 0 or 1."""
        return self.values is not None and bool(np.isin(self.values, (0.0, 1.0)).all())

    @property
    def is_constant(self) -> bool:
        """True where all values are equal."""
        return self.distinct == 1 and self.number > 1

    @property
    def identifies(self) -> bool:
        """True where it numbers the rows, or names each of them."""
        unique = self.distinct == self.number > 2
        if unique and self.values is None:
            return True
        if self.values is None or self.missing or not np.all(_whole(self.values)):
            return False
        return unique or self.numbers_rows or self.is_called_an_id

    @property
    def numbers_rows(self) -> bool:
        """True of whole numbers that go up by one from row to row, and begin again from a smallest
        one now and then."""
        if self.values is None or self.missing or self.number < 4:
            return False
        steps = np.diff(self.values)
        jumps = self.values[1:][steps != 1]
        begins = bool(np.all(jumps == self.values[0])) and self.values[0] == self.values.min()
        return begins and len(jumps) <= self.number / 4

    @property
    def is_called_an_id(self) -> bool:
        """True where whole numbers of many values have the name of an identifier."""
        return self.distinct > self.number / 2 and bool(set(words_of_name(self.name)) & IDS)

    def suits(self, kind: str) -> bool:
        """True where it could be a target of this kind."""
        if kind == "binary":
            return self.distinct == 2
        if self.values is None or self.distinct < 3 or self.identifies:
            return False
        return self.counts if kind == "count" else True

    def __str__(self) -> str:
        if self.identifies:
            return f"{self.name}: identifies the rows"
        words = f", as {listed(self.words, 3)} (data.missing_words)" if self.words else ""
        missing = f", {self.missing:,} missing{words}" if self.missing else ""
        if self.is_constant:
            only = self.labels[0] if self.labels else ""
            return f"{self.name}: the same in all rows, {only}{missing}"
        if self.values is None:
            return f"{self.name}: text, {self.distinct:,} different{missing}{self.hint.rstrip('.')}"
        low, high = np.nanmin(self.values), np.nanmax(self.values)
        return (
            f"{self.name}: numbers from {low:.4g} to {high:.4g}, {self.distinct:,} "
            f"different{missing}"
        )


IDS = frozenset(
    [
        "id",
        "ids",
        "no",
        "nr",
        "number",
        "index",
        "idx",
        "rowname",
        "rownames",
        "serial",
        "key",
        "uuid",
    ]
)


def words_of_name(name: str) -> list[str]:
    """The words of a column's name, in small letters.

    >>> words_of_name("Sample Number"), words_of_name("userId"), words_of_name("is_churned")
    (['sample', 'number'], ['user', 'id'], ['is', 'churned'])
    """
    return [
        word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[^\W\d_A-Z]+|[A-Z][^\W\d_A-Z]+", name)
    ]


def _whole(values: np.ndarray) -> np.ndarray:
    return values == np.floor(values)


def _columns_at(data: str, begun: Any) -> tuple[Columns, list[str]]:
    """The columns of a table, in their order, and remarks on the way in which it is written."""
    notes = Notes()
    found = read_columns(data, dialect=dialect_of(begun.data), notes=notes)
    words = [said for name in found if (said := said_missing(found, name))]
    return found, [*notes.texts(), *words]


def _said(found: list[Column], said: Mapping[str, Any], key: str, data: str) -> list[Column]:
    """The columns that the user has named; none where there is no such setting."""
    given = said.get(key, ())
    names = [given] if isinstance(given, str) else given
    known = {column.name: column for column in found}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--set {key}: {data} has no column {name!r}; {nearest(str(name), known)}"
            )
    return [known[name] for name in names]


def _column(name: str, values: np.ndarray, words: tuple[str, ...] = ()) -> Column:
    text = bool(not_numbers(values).any())
    numbers = None if text else as_numbers(values)
    missing = are_missing(values) if numbers is None else np.isnan(numbers)
    known = (values if numbers is None else numbers)[~missing]
    different = set(map(name_of, known.tolist()))
    labels = tuple(sorted(different)) if len(different) <= MOST_CLASSES else ()
    hint = hint_of(values) if text else ""
    given = numbers if len(known) else None
    return Column(
        name, given, len(different), int(missing.sum()), len(values), missing, labels, hint, words
    )


# --- tables ---------------------------------------------------------------------------------------
def look_at_table(data: str, listing: Any, begun: Any, said: Mapping[str, Any]) -> Look:
    """The probable target, group and other columns of a table, and settings that suit them. Those
    that the user has said are taken as they are."""
    raw, notes = _columns_at(data, begun)
    found = [_column(name, values, words_in(raw, name)) for name, values in raw.items()]
    known = flatten(begun)
    if "model.formula" in known:
        return _of_formula(raw, found, [*_facts(found), *notes], data, said)
    kind = (
        listing.target(begun.model)
        if listing.target is not None and "model.image" not in known
        else None
    )
    named = {
        name: _said(found, said, f"data.{name}", data) for name in ("target", "group", "columns")
    }
    target, why_target = (
        _target(named["target"], found, kind, data, listing.name) if kind else (None, "")
    )
    others = named["group"] or [c for c in found if c is not target]
    in_time = _times(raw, named, target, said, data) if listing.in_time else ()
    others = [
        c
        for c in others
        if c.name not in in_time and (named["group"] or not is_called_a_time(c.name))
    ]
    group = _group(others, bool(named["group"])) if listing.wants_group else None
    if (
        group is not None
        and in_time
        and not named["group"]
        and not _names_sequences(group, raw[group.name])
    ):
        group = None  # times tell all rows apart, and such a column says something of each
    if listing.in_time and not named["group"]:
        in_time = _times(raw, {**named, "group": [group] if group else []}, target, said, data)
    left = [
        c for c in named["columns"] or found if c not in (target, group) and c.name not in in_time
    ]
    columns = [c for c in left if c.values is not None and not c.identifies and not c.is_constant]
    columns, lost = _with_cells(columns, [c for c in (target, group) if c], listing)
    columns = named["columns"] or columns
    if not columns:
        raise ConfigError(
            f"{data}: no column of numbers is left to learn from: {'; '.join(map(str, found))}"
        )
    settings: dict[str, Any] = {"data.columns": [c.name for c in columns]}
    unused = "; ".join([str(c) for c in left if c not in columns][:MOST_LISTED])
    why = {"data.columns": f"Left out: {unused}."} if unused else {}
    if in_time:
        settings["data.order"] = in_time[0] if len(in_time) == 1 else list(in_time)
        why["data.order"] = "The time of each row; it is not modelled."
    if target is not None and kind:
        settings["data.target"] = target.name
        why["data.target"] = why_target
    if group is not None:
        settings["data.group"] = group.name
        why["data.group"] = f"{group.distinct:,} different in {group.number:,} rows."
    lost = _lost([*columns, *(c for c in (target, group) if c)]) if named["columns"] else lost
    if lost.any() and not (listing.in_time and not listing.unseen):
        settings["data.missing"] = "drop"
        what = (
            "steps lack a cell, and count as not seen"
            if listing.in_time
            else "rows lack a cell, and are left out"
        )
        why["data.missing"] = f"{int(lost.sum()):,} of {len(lost):,} {what}."
    units = group.distinct if group else 1 if listing.wants_group else found[0].number
    settings["data.held_out"] = (
        0.0 if units == 1 else 0.1 if units >= 10 else -(-100 // units) / 100
    )
    if listing.wants_group and group is None:
        why["data.held_out"] = "No column looks like groups, and so all rows are one."
    settings |= _emission(columns, known) | _networks(columns, known)
    if known["fit.batch_size"] is not None:
        settings["fit.batch_size"] = min(known["fit.batch_size"], max(1, found[0].number // 4))
    return Look([*_facts(found), *notes], settings, why, WITHOUT)


UNITS = frozenset(
    {
        "sequence", "series", "group", "subject", "animal", "patient", "person", "participant", "user", "unit",
        "device", "sensor", "station", "site", "case", "track", "run", "trial", "session",
    }
)  # fmt: skip
"""Words that columns of sequences are called by."""


def _names_sequences(column: Column, values: np.ndarray) -> bool:
    """True where the rows of each value stand together, and it is text or has the name of an
    identifier."""
    if column.values is not None and not set(words_of_name(column.name)) & (UNITS | IDS):
        return False
    codes = np.unique([name_of(value) for value in values.tolist()], return_inverse=True)[1]
    return int(np.sum(np.diff(codes) != 0)) == int(codes.max())


def _times(
    raw: Mapping[str, np.ndarray],
    named: Mapping[str, list[Column]],
    target: Column | None,
    said: Any,
    data: str,
) -> tuple[str, ...]:
    """The columns that order rows in time; those that the user has said, or that a fit would
    find."""
    if "data.order" in said:
        given: Any = said["data.order"]
        return () if given == "none" else (given,) if isinstance(given, str) else tuple(given)
    group = named["group"][0].name if named["group"] else None
    groups = None
    if group is not None:
        groups = np.unique([name_of(value) for value in raw[group].tolist()], return_inverse=True)[
            1
        ]
    apart = (group, target.name if target else None)
    columns = [c.name for c in named["columns"]] or None
    try:
        found = find_order(raw, groups, apart, columns, data, row_name(raw), Notes(), group)
    except DataError:
        return ()  # with another group it may be one; a fit says what is wrong
    return () if found.timed is None else found.timed.order.columns


MOST_MISSING, LEAST_ROWS = 1 / 3, 0.6
"""The share of its cells that a column may lack, and that of the rows that are kept in the end."""


def _with_cells(
    columns: list[Column], needed: list[Column], listing: Any
) -> tuple[list[Column], np.ndarray]:
    """The columns without those that lack so many cells that too few rows would be left, and a mask
    of the rows that lack one. A model with a law for missing cells keeps all columns."""
    if listing.missing:
        return columns, _lost(needed)
    if listing.in_time and not listing.unseen:
        columns = [c for c in columns if not c.missing]
        return columns, _lost([*columns, *needed])
    columns = [c for c in columns if c.missing <= MOST_MISSING * c.number]
    while len(columns) > 1 and _lost([*columns, *needed]).mean() > 1 - LEAST_ROWS:
        worst = max(columns, key=lambda c: c.missing)
        columns = [c for c in columns if c is not worst]
    return columns, _lost([*columns, *needed])


def _lost(columns: list[Column]) -> np.ndarray:
    """A mask of the rows that lack a cell of these columns."""
    lost = np.zeros(columns[0].number if columns else 0, bool)
    for column in columns:
        lost |= column.lacks
    return lost


def _facts(found: list[Column]) -> list[str]:
    """The rows and columns of a table, as lines."""
    more = [f"  and {len(found) - MOST_LISTED} more"] if len(found) > MOST_LISTED else []
    return [
        f"{found[0].number:,} rows; columns:",
        *(f"  {column}" for column in found[:MOST_LISTED]),
        *more,
    ]


MOST_CLASSES = 6
"""Different texts up to which a column is a term of a formula; one of more names groups."""


def _of_formula(
    raw: Columns, found: list[Column], facts: list[str], data: str, said: Mapping[str, Any]
) -> Look:
    """A formula for the likeliest response: a term for each other column, an effect for each
    group."""
    settings: dict[str, Any] = {"data.held_out": 0.1 if found[0].number >= 10 else 0.0}
    if "model.formula" in said:
        return Look(facts, settings)
    kinds = {name: column.kind for name, column in typed_table(raw).columns.items()}
    whole = [column for column in found if not column.missing]
    by_name = [c for c in whole if set(words_of_name(c.name)) & TARGETS and c.suits("binary")]
    kind = "binary" if by_name else "real"
    target, why = _target(by_name, whole, kind, data, "glmm")
    why = "By its name." if by_name else why
    others = [c for c in whole if c is not target and c.distinct > 1 and not c.identifies]
    terms = [term for column in others if (term := _term(column, kinds[column.name]))]
    groups = [column for column in others if _names_groups(column, kinds[column.name])]
    right = " + ".join([*terms, *(f"(1 | {quoted(column.name)})" for column in groups)]) or "1"
    settings["model.formula"] = f"{quoted(target.name)} ~ {right}"
    named = {target.name, *(column.name for column in groups)}
    left = [c for c in found if (c.name not in named and not _term(c, kinds[c.name])) or c.missing]
    left_out = f" Left out: {listed([c.name for c in left])}." if left else ""
    return Look(
        facts,
        settings,
        {"model.formula": f"The response: {why}{left_out} Change the formula at will."},
    )


def _term(column: Column, kind: str) -> str:
    """The term of a column in a formula; "" where it has none."""
    if column.missing or column.distinct < 2 or column.identifies:
        return ""
    if kind in ("number", "truth"):
        return quoted(column.name)
    if column.distinct > MOST_CLASSES:
        return ""
    return quoted(column.name) if kind == "label" else f"C({quoted(column.name)})"


def _names_groups(column: Column, kind: str) -> bool:
    """True of text of many values that come again."""
    return kind == "label" and MOST_CLASSES < column.distinct <= column.number / 2


TARGETS = frozenset(
    {
        "target", "label", "labels", "class", "classes", "y", "outcome", "response", "result", "churn", "churned",
        "default", "defaulted", "survived", "survival", "died", "dead", "death", "diagnosis", "disease", "fraud",
        "spam", "converted", "conversion", "success", "failure", "event", "subscribed", "attrition", "exited", "left",
        "admitted", "approved", "readmitted", "recovered", "positive", "ziel", "klasse", "zielvariable",
    }
)  # fmt: skip
"""Words that columns to predict are called by."""
YES = frozenset(["yes", "true", "y", "t", "ja", "oui", "si", "sí", "1", "positive", "pos"])


def _target(
    named: list[Column], found: list[Column], kind: str, data: str, model: str
) -> tuple[Column, str]:
    """The column to predict, and why it: the one that the user has named; else one with a name that
    targets have, one of texts such as Yes and No, the last or the first one."""
    candidates = [column for column in named or found if column.suits(kind)]
    if not candidates:
        known = "; ".join(map(str, found[:MOST_LISTED]))
        other = f"; {OF_NUMBERS}" if any(column.suits("real") for column in found) else ""
        raise ConfigError(
            f"{data}: {model} predicts a column of {KINDS[kind]}, and there is none: {known}{other}"
        )
    chosen = max(candidates, key=lambda column: (_likeness(column, found), found.index(column)))
    if named:
        why = "As you have said."
    elif set(words_of_name(chosen.name)) & TARGETS:
        why = "By its name."
    elif len(candidates) == 1:
        why = f"The only column of {KINDS[kind]}."
    else:
        where = (
            "last"
            if chosen is candidates[-1]
            else "first"
            if chosen is candidates[0]
            else "likeliest"
        )
        why = f"The {where} column of {KINDS[kind]}; name another if it is not the one."
    others = [column.name for column in candidates if column is not chosen]
    if others and not named:
        why += f" It could also be {listed(others, 5)}."
    if kind == "binary":
        classes = sorted(chosen.labels, key=lambda label: (_as_number(label), label))
        why += f" What is modelled is the odds of {classes[-1]!r} against {classes[0]!r}."
    return chosen, why


def _as_number(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return 0.0


def _likeness(column: Column, found: list[Column]) -> float:
    """A score of how much a column looks like one to be predicted."""
    words = set(words_of_name(column.name))
    score = 4.0 if words & TARGETS else 0.0
    score += 2.0 if words & TARGETS and len(words) == 1 else 0.0
    if column.values is None and {label.lower() for label in column.labels} & YES:
        score += 1.0
    if column in (found[0], found[-1]):
        score += 1.5
    return score - (2.0 if column.missing else 0.0)


def _group(found: list[Column], is_named: bool) -> Column | None:
    """The column that the user has named; or one whose values come again and again: of text, or
    else whole numbers."""
    if is_named:
        return found[0]
    repeated = [c for c in found if 2 <= c.distinct <= c.number / 2 and not c.missing]
    text = [c for c in repeated if c.values is None]
    return next(iter([*text, *(c for c in repeated if c.counts)]), None)


def _emission(columns: list[Column], known: Mapping[str, Any]) -> dict[str, Any]:
    """The emission of components, for binary columns, counts, or numbers."""
    if "model.emission.name" not in known:
        return {}
    if all(column.binary for column in columns):
        return {"model.emission.name": "bernoulli"}
    if all(column.counts for column in columns):
        return {"model.emission.name": "poisson"}
    return {"model.emission.name": "full_gaussian" if len(columns) <= MANY else "diagonal_gaussian"}


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
WITHOUT = frozenset(
    {
        "model.image", "model.observed.threshold", "model.observed.sd", "model.emission.{name}",
    }
)  # fmt: skip
"""Settings that belong to the data on which a configuration is tried."""


# --- graphs ---------------------------------------------------------------------------------------
def look_at_graph(data: str, listing: Any, begun: Any, said: Mapping[str, Any]) -> Look:
    """The columns of an edge list; a square matrix has none to name."""
    raw, notes = _columns_at(data, begun)
    found = [_column(name, values, words_in(raw, name)) for name, values in raw.items()]
    facts = [
        f"{found[0].number:,} rows; columns:",
        *(f"  {column}" for column in found[:MOST_LISTED]),
        *notes,
    ]
    numbers = [column for column in found if column.values is not None]
    if len(numbers) == found[0].number or {begun.data.source, begun.data.target} <= {
        column.name for column in found
    }:
        return Look(facts, {})
    ends = [c for c in found if c.values is None or c.counts][:2]
    if len(ends) < 2:
        raise ConfigError(
            f"{data}: neither an edge list nor a square matrix: {'; '.join(map(str, found))}"
        )
    settings = {"data.source": ends[0].name, "data.target": ends[1].name}
    weights = [c.name for c in numbers if c not in ends]
    settings |= {"data.weight": weights[0]} if weights else {}
    return Look(
        facts, settings, {"data.source": "The first two columns that can be names of nodes."}
    )


# --- documents ------------------------------------------------------------------------------------
MOST_READ = 200
"""Records that are read to find the column of the text."""
MOST_TOPICS = 50
"""Most topics to begin with: more of them nobody reads."""
UPDATES = 200
"""Steps that a fit by minibatches should take at least."""


def look_at_documents(data: str, listing: Any, begun: Any, said: Mapping[str, Any]) -> Look:
    """Reads the documents once, as a fit would."""
    if data == "docstrings":
        return _read_once(
            listing, begun, dataclasses.replace(begun.data, path=data), {"data.path": data}
        )
    column = said.get("data.column") or _text_column(data, begun.data)
    words = said.get("data.vocabulary")
    section = dataclasses.replace(begun.data, path=data, column=column, vocabulary=words)
    return _read_once(
        listing, begun, section, {} if column in (None, DEFAULT_COLUMN) else {"data.column": column}
    )


def look_at_ratings(data: str, listing: Any, begun: Any, said: Mapping[str, Any]) -> Look:
    """Reads a table of users and items once, as a fit would; of ratings those that are high count
    as taken."""
    section = dataclasses.replace(begun.data, path=data)
    if data == "docstrings" or not has_ratings(section):
        return look_at_documents(data, listing, begun, said)
    chosen = liked(section)
    if chosen is None:
        return _read_once(listing, begun, section, {})
    why = (
        f"Ratings in {chosen.column!r} are from {chosen.low:g} to {chosen.high:g}: high ones "
        "count as taken. "
        f'count = "{chosen.column}" takes ratings as counts instead, count = "none" every row once.'
    )
    section = dataclasses.replace(section, least=chosen.least)
    look = _read_once(listing, begun, section, {"data.least": chosen.least})
    return look._replace(why={**look.why, "data.least": why})


def _read_once(listing: Any, begun: Any, section: Any, found: dict[str, Any]) -> Look:
    """The look at the documents of a section, whose settings `found` are not the usual ones."""
    parts = load_documents(dataclasses.replace(section, held_out=0.1))
    number = parts.whole.num_documents + parts.test.num_documents
    words = parts.whole.num_tokens + parts.test.num_tokens
    facts = [_size(listing.source.columns, number, words, len(parts.names)), *parts.train.notes]
    readable = int(np.clip(5 * round(np.sqrt(words / 1000) / 5), 5, MOST_TOPICS))
    topics = readable if number >= 50 else max(2, number // 10)
    why = {
        "model.num_topics": "Few enough to read: about the root of the thousands of words. "
        "Compare: --sweep."
    }
    settings = found | {"data.held_out": 0.1, "model.num_topics": topics} | _steps(begun, number)
    return Look(facts, settings, why)


def _size(columns: tuple[str, str], number: int, held: int, kinds: int) -> str:
    """A line on the size of the data.

    >>> _size(("user", "taken"), 100, 620, 30)
    '100 users, 6 taken on average, of 30 kinds.'
    """
    title, what = columns
    if what == "words":
        return (
            f"{number:,} {title}s of {held / number:,.0f} words on average that are kept, of "
            f"{kinds:,} kinds."
        )
    return f"{number:,} {title}s, {held / number:,.0f} {what} on average, of {kinds:,} kinds."


def _steps(begun: Any, number: int) -> dict[str, Any]:
    """Batches and passes with which a fit by minibatches takes enough steps."""
    if begun.fit.batch_size is None and begun.algorithm.name in FULL_DATA:
        return {}
    batch = min(begun.fit.batch_size or USUAL, max(10, number // 10))
    passes = max(begun.fit.num_epochs, -(-UPDATES * batch // number))
    return {"fit.batch_size": min(batch, number), "fit.num_epochs": passes}


def _text_column(data: str, section: Any) -> str | None:
    """The column `text`, or else that of the longest texts; None for a source without columns."""
    path = fetch(data) if is_url(data) else Path(data).expanduser()
    if kind_of(path) != "a file":
        return None
    kind = guess_format(path) if section.format == "auto" else section.format
    rows = RECORDS[kind](path, dialect_of(section)).rows(None) if kind in RECORDS else iter(())
    records = [row for *_, row in itertools.islice(rows, MOST_READ)]
    if not records:
        return None
    words: dict[str, int] = {}
    for name, text in (item for record in records for item in record.items()):
        words[name] = words.get(name, 0) + (
            len(words_of(normalised(text))) if isinstance(text, str) else 0
        )
    if DEFAULT_COLUMN in words:
        return DEFAULT_COLUMN
    longest = max(words, key=lambda name: words[name])
    if not words[longest]:
        raise ConfigError(
            f"{data}: no column holds text, among {', '.join(map(repr, list(words)[:20]))}"
        )
    return longest
