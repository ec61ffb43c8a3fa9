"""A table of numbers for models that do not read documents: columns x, perhaps a target y, perhaps groups of rows."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import RowError
from vijax.data.reading.checks import DataError, fail, listed, nearest
from vijax.data.reading.notes import Notes
from vijax.data.tables.columns import (
    Origin,
    RowName,
    are_missing,
    as_numbers,
    name_of,
    not_numbers,
    origin_of,
    row_name,
)

Columns = Mapping[str, np.ndarray]
TargetKind = Literal["real", "count", "binary"]


class Scaling(NamedTuple):
    """Means and standard deviations of columns."""

    mean: Float[np.ndarray, " D"]
    deviation: Float[np.ndarray, " D"]


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of numbers.

    Attributes:
      columns: names of the columns of x.
      x: values, NaN where one is missing.
      target: name of the target column, or None.
      y: its values: numbers, or -1 and +1 for the two classes.
      classes: names of those two classes, or None.
      group: name of the column of groups, or None.
      groups: the group of each row, 0, 1, ... in the order in which they first occur.
      group_names: what they were called.
      scaling: what x was standardised by, or None.
      notes: what the reader of the table should be told, such as which columns are left out.
      origin: the file, and where in it the rows are; None of a table in memory.
    """

    columns: tuple[str, ...]
    x: Float[np.ndarray, "N D"]
    target: str | None = None
    y: Float[np.ndarray, " N"] | None = None
    classes: tuple[str, str] | None = None
    group: str | None = None
    groups: Int[np.ndarray, " N"] | None = None
    group_names: tuple[str, ...] = ()
    scaling: Scaling | None = None
    notes: tuple[str, ...] = ()
    origin: Origin | None = None

    def __len__(self) -> int:
        return self.num_rows

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.x)

    @property
    def num_groups(self) -> int:
        """How many groups there are; as many as rows where there is no column of groups."""
        return self.num_rows if self.groups is None else len(self.group_names)

    def rows(self, index: np.ndarray) -> Table:
        """Some of the rows; their groups are numbered again."""
        y = None if self.y is None else self.y[index]
        origin = self.origin and self.origin._replace(numbers=self.origin.numbers[index])
        if self.groups is None:
            return dataclasses.replace(self, x=self.x[index], y=y, origin=origin)
        kept, groups = _codes(self.groups[index])
        names = tuple(self.group_names[int(g)] for g in kept)
        return dataclasses.replace(self, x=self.x[index], y=y, groups=groups, group_names=names, origin=origin)

    def sequences(self) -> list[Float[np.ndarray, "T D"]]:
        """x group by group; the order of rows in the table is the order of steps. Without groups: one sequence."""
        if self.groups is None:
            return [self.x]
        return [self.x[self.groups == g] for g in range(self.num_groups)]

    def standardised(self, scaling: Scaling | None = None) -> Table:
        """Columns at mean 0 and standard deviation 1, or moved and scaled by those of another table."""
        if scaling is None:
            scaling = _scaling(self.x)
        return dataclasses.replace(self, x=(self.x - scaling.mean) / scaling.deviation, scaling=scaling)


def _scaling(x: np.ndarray) -> Scaling:
    """Of what is there of each column; a column without spread, or without anything, keeps its scale."""
    there = np.isfinite(x)
    number = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, x, 0.0).sum(axis=0) / number
    deviation = np.sqrt((np.where(there, x - mean, 0.0) ** 2).sum(axis=0) / number)
    return Scaling(mean, np.where(deviation > 0, deviation, 1.0))


@contextlib.contextmanager
def rows_of(data: Any) -> Iterator[None]:
    """Where a model reads the rows of a table, group by group: an error of a row names the file, and counts as that
    does."""
    try:
        yield
    except RowError as error:
        origin = getattr(data, "origin", None)
        if origin is None:
            raise
        order = np.arange(data.num_rows) if data.groups is None else np.argsort(data.groups, kind="stable")
        place = f"{origin.called} {origin.numbers[order[error.row]]}, column {data.columns[error.column]!r}"
        raise DataError(f"{origin.where}, {error.at(place)}") from None


# --- from named columns ----------------------------------------------------------------------------------------------
class Choice(NamedTuple):
    """Which columns of a file are used, and for what.

    Attributes:
      columns: of x; None takes all columns of numbers that are neither target nor group.
      target: column of the target.
      group: column of groups.
      kind: what the target must be.
      missing: whether x may have missing values.
      classes: names of the two classes of a binary target, where they are known already.
    """

    columns: tuple[str, ...] | None = None
    target: str | None = None
    group: str | None = None
    kind: TargetKind = "real"
    missing: bool = False
    classes: tuple[str, str] | None = None


def table_of(found: Columns, choice: Choice, where: str, notes: Notes | None = None) -> Table:
    """The table that a choice of columns makes.

    Args:
      found: all columns by name, arrays of numbers or of strings.
      choice: which to use.
      where: the file, for messages.
      notes: what was noticed while it was read; columns of text that are left out are added.

    Raises:
      DataError: a column that is not there or not of numbers, a missing value, a target of the wrong kind, a row
        without a group. Rows are called as `vijax.data.tables.columns.row_name` has it.

    >>> found = {"a": np.array([1.0, 2.0]), "b": np.array([0.5, 1.5]), "kind": np.array(["no", "yes"], object)}
    >>> table = table_of(found, Choice(target="kind", kind="binary"), "an example")
    >>> table.columns, table.y.tolist(), table.classes
    (('a', 'b'), [-1.0, 1.0], ('no', 'yes'))
    """
    wanted = [("columns", name) for name in choice.columns or ()]
    for key, name in (*wanted, ("target", choice.target), ("group", choice.group)):
        if name is not None and name not in found:
            remedy = f"name another, data.{key}; {nearest(name, found)}"
            raise fail(where, f"a column {name!r} (data.{key})", "none of that name", remedy)
    _check_columns(choice, where)
    notes, at = notes or Notes(), row_name(found)
    columns = choice.columns or _columns_of_numbers(found, choice, where, notes)
    x = np.stack([_numbers(found[name], name, where, at) for name in columns], axis=1)
    _check_values(x, columns, choice.missing, where, at)
    target = None if choice.target is None else _target(found[choice.target], choice, where, at)
    names, groups = ((), None) if choice.group is None else _groups(found[choice.group], choice.group, where, at)
    return Table(
        columns=tuple(columns),
        x=x,
        target=choice.target,
        y=None if target is None else target[0],
        classes=None if target is None else target[1],
        group=choice.group,
        groups=groups,
        group_names=tuple(map(name_of, names)),
        notes=notes.texts(),
        origin=origin_of(found, where),
    )


def _check_columns(choice: Choice, where: str) -> None:
    """Columns that are used once, and do not tell what is to be predicted."""
    names = choice.columns or ()
    again = list(dict.fromkeys(name for i, name in enumerate(names) if name in names[:i]))
    if again:
        got = f"{listed(again)} more than once"
        raise fail(f"{where}, data.columns", "distinct names", got, "name each column once")
    if choice.target in names:
        got = f"{choice.target!r}, the target, among them"
        raise fail(f"{where}, data.columns", "columns to predict the target by", got, "leave it out of data.columns")


def _columns_of_numbers(found: Columns, choice: Choice, where: str, notes: Notes) -> tuple[str, ...]:
    """All that are neither target nor group; of text ones only those that are numbers but for some cells."""
    left = [name for name in found if name not in (choice.target, choice.group)]
    bad = {name: not_numbers(found[name]) for name in left}
    text = [name for name in left if _is_text(found[name], bad[name])]
    columns = tuple(name for name in left if name not in text)
    if not columns:
        got = f"text in {listed(text)}" if text else "none but target and group"
        raise fail(where, "columns of numbers", got, "check the file, or name other columns: data.columns")
    for name in text:
        notes.add(_note_of_text(name, found[name], bad[name], row_name(found)))
    return columns


def _is_text(values: np.ndarray, bad: np.ndarray) -> bool:
    """Whether a column is text, rather than numbers with mistakes in it: no more numbers than other text."""
    return bool(bad.any()) and int((~bad & ~are_missing(values)).sum()) <= int(bad.sum())


def _note_of_text(name: str, values: np.ndarray, bad: np.ndarray, at: RowName) -> str:
    row, numbers = int(np.argmax(bad)), int((~bad & ~are_missing(values)).sum())
    some = f", though {numbers:,} of its {len(values):,} cells are" if numbers else ""
    return f"The column {name!r} is left out: {str(values[row])[:40]!r} in {at(row)} is not a number{some}."


def _numbers(values: np.ndarray, name: str, where: str, at: RowName) -> Float[np.ndarray, " N"]:
    if (bad := not_numbers(values)).any():
        row = int(np.argmax(bad))
        remedy = "correct it, such as 1234.5 for '1,234.5' or '$1,234.5', or leave the column out of data.columns"
        got = f"{str(values[row])[:40]!r} in {at(row)} ({int(bad.sum())} such)"
        raise fail(f"{where}, column {name!r}", "numbers", got, remedy)
    return as_numbers(values)


def _check_values(x: np.ndarray, columns: tuple[str, ...], missing: bool, where: str, at: RowName) -> None:
    if not len(x):
        raise fail(where, "at least one row", "none", "check the file")
    bad = np.argwhere(~np.isfinite(x) if not missing else np.isinf(x))
    if len(bad):
        row, column = map(int, bad[0])
        got = "a missing value" if np.isnan(x[row, column]) else str(x[row, column])
        other = "" if missing else "; or fit a model of missing entries, such as factor_analysis"
        remedy = f"remove those rows or fill them in{other}"
        place = f"{got} in {at(row)} of column {columns[column]!r} ({len(bad)} such)"
        raise fail(where, "finite numbers", place, remedy)


def _target(values: np.ndarray, choice: Choice, where: str, at: RowName) -> tuple[np.ndarray, tuple[str, str] | None]:
    y = values if choice.kind == "binary" else _numbers(values, str(choice.target), where, at)
    where = f"{where}, target {choice.target!r}"
    if choice.kind == "binary":
        return _two_classes(values, choice.classes, where, at)
    whole = (y >= 0) & (y == np.floor(y))
    wrong = ~np.isfinite(y) | (~whole if choice.kind == "count" else False)
    if wrong.any():
        row = int(np.argmax(wrong))
        expected = "finite numbers" if choice.kind == "real" else "counts 0, 1, 2, ..."
        raise fail(where, expected, f"{y[row]} in {at(row)} ({int(wrong.sum())} such)", "correct or remove those rows")
    return y, None


def _two_classes(
    values: np.ndarray, classes: tuple[str, str] | None, where: str, at: RowName
) -> tuple[np.ndarray, tuple[str, str]]:
    """-1 for the first of two classes in the order of their names (or of numbers), +1 for the second."""
    _check_present(values, "a class in every row", where, at)
    names = np.array([name_of(value) for value in values], object)
    numeric = not not_numbers(names).any()
    found = sorted(set(names.tolist()), key=lambda name: (float(name) if numeric else 0.0, name))
    expected = classes or tuple(found)
    if len(expected) != 2 or not set(found) <= set(expected):
        wanted = "two classes" if classes is None else f"the classes {classes[0]!r} and {classes[1]!r} of the run"
        listed_names = ", ".join(map(repr, found[:6])) + (", ..." if len(found) > 6 else "")
        remedy = "choose the rows of two classes, or another target"
        raise fail(where, wanted, f"{len(found)}: {listed_names}", remedy)
    return np.where(names == expected[1], 1.0, -1.0), (expected[0], expected[1])


def _groups(values: np.ndarray, name: str, where: str, at: RowName) -> tuple[np.ndarray, Int[np.ndarray, " N"]]:
    """Names of groups, and the group of each row."""
    _check_present(values, "a group in every row", f"{where}, group {name!r}", at)
    return _codes(values)


def _check_present(values: np.ndarray, expected: str, where: str, at: RowName) -> None:
    missing = np.flatnonzero(are_missing(values))
    if len(missing):
        rows = ", ".join(map(at, missing[:5].tolist())) + (", ..." if len(missing) > 5 else "")
        got = f"a missing value in {rows} ({len(missing)} such)"
        raise fail(where, expected, got, "remove those rows or fill them in")


def _codes(values: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, " N"]]:
    """Distinct values in the order in which they first occur, and which of them each one is."""
    distinct, first, codes = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return distinct[order], np.argsort(order)[codes]


# --- in two parts ----------------------------------------------------------------------------------------------------
def split_table(table: Table, held_out: float, seed: int, what: Literal["groups", "entries"]) -> tuple[Table, Table]:
    """Training and held-out parts.

    Args:
      table: all of it.
      held_out: which share is held out.
      seed: of the choice.
      what: "groups" holds out whole groups (rows, where there is no column of groups); "entries" single values: both
        parts then have all rows, each with NaN where the other has the value.

    Raises:
      ValueError: too little is there to hold any of it out.
    """
    rng = np.random.default_rng(seed)
    if what == "entries":
        out = (rng.random(table.x.shape) < held_out) & np.isfinite(table.x)
        _check_parts(int(out.sum()), int(np.isfinite(table.x).sum()), held_out, "entries")
        parts = (np.where(out, np.nan, table.x), np.where(out, table.x, np.nan))
        return dataclasses.replace(table, x=parts[0]), dataclasses.replace(table, x=parts[1])
    number = round(held_out * table.num_groups)
    _check_parts(number, table.num_groups, held_out, "rows" if table.groups is None else f"groups of {table.group!r}")
    chosen = rng.permutation(table.num_groups)[:number]
    out = np.isin(np.arange(table.num_rows) if table.groups is None else table.groups, chosen)
    return table.rows(np.flatnonzero(~out)), table.rows(np.flatnonzero(out))


def _check_parts(number: int, total: int, held_out: float, what: str) -> None:
    if not 0 < number < total:
        got = f"{number} of {total} {what}"
        remedy = "choose another share, or 0 to hold none out"
        raise fail("data.held_out", "a share that leaves some on either side", f"{held_out}, {got}", remedy)
