"""Tables of numbers: columns x, perhaps a target y, perhaps groups of rows."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import RowError
from vijax.data.reading.checks import DataError, Notes, fail, listed, nearest
from vijax.data.tables.columns import (
    Columns,
    Origin,
    RowName,
    are_missing,
    as_numbers,
    check_parts,
    check_present,
    name_of,
    not_numbers,
    origin_of,
    row_name,
)

TargetKind = Literal["real", "count", "binary"]
OF_NUMBERS = 'a target of numbers is for ard_regression, or for glm or gp with model.likelihood.name = "gaussian"'
"""What a target of numbers suits, where a model of classes was given one."""


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
      classes: names of the two classes, or None.
      group: name of the column of groups, or None.
      groups: the group of each row, 0, 1, ... in the order in which they first occur.
      group_names: names of the groups.
      scaling: means and deviations by which x was standardised, or None.
      notes: remarks for the user, such as on columns that are left out.
      origin: the file, and the places of the rows in it; None for a table in memory.
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
        """Number of groups: the rows, where there is no column of groups."""
        return self.num_rows if self.groups is None else len(self.group_names)

    def rows(self, index: np.ndarray) -> Table:
        """The table of some rows; their groups are numbered again."""
        y = None if self.y is None else self.y[index]
        origin = self.origin and self.origin._replace(numbers=self.origin.numbers[index])
        if self.groups is None:
            return dataclasses.replace(self, x=self.x[index], y=y, origin=origin)
        kept, groups = _codes(self.groups[index])
        names = tuple(self.group_names[int(g)] for g in kept)
        return dataclasses.replace(self, x=self.x[index], y=y, groups=groups, group_names=names, origin=origin)

    def sequences(self) -> list[Float[np.ndarray, "T D"]]:
        """The rows of x group by group, in the order of the table; without groups one sequence."""
        if self.groups is None:
            return [self.x]
        return [self.x[self.groups == g] for g in range(self.num_groups)]

    def standardised(self, scaling: Scaling | None = None) -> Table:
        """The table with columns of mean 0 and standard deviation 1, or moved and scaled by those of another table."""
        scaling = scaling or _scaling(self.x)
        return dataclasses.replace(self, x=(self.x - scaling.mean) / scaling.deviation, scaling=scaling)


def _scaling(x: np.ndarray) -> Scaling:
    """Means and deviations of the values that are there; a column without spread keeps its scale."""
    there = np.isfinite(x)
    number = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, x, 0.0).sum(axis=0) / number
    deviation = np.sqrt((np.where(there, x - mean, 0.0) ** 2).sum(axis=0) / number)
    return Scaling(mean, np.where(deviation > 0, deviation, 1.0))


@contextlib.contextmanager
def rows_of(data: Any) -> Iterator[None]:
    """Makes an error of a row, raised inside while a model reads the rows by group, name the file and the line."""
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
    """The columns of a file to use, and what for.

    Attributes:
      columns: columns of x; None takes all columns of numbers that are neither target nor group.
      target: column of the target.
      group: column of groups.
      kind: kind of the target.
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
    """The table of the chosen ones of all columns; `where` names the file in errors.

    Raises:
      DataError: a column that is missing or has no numbers, a missing value, a target of the wrong kind, a row without
        a group.

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
    names, groups = np.array([]), None
    if choice.group is not None:
        check_present(found[choice.group], "a group in every row", f"{where}, group {choice.group!r}", at)
        names, groups = _codes(found[choice.group])
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
    """Refuses a column that is named twice, and the target among the columns that predict it."""
    names = choice.columns or ()
    again = list(dict.fromkeys(name for i, name in enumerate(names) if name in names[:i]))
    if again:
        got = f"{listed(again)} more than once"
        raise fail(f"{where}, data.columns", "distinct names", got, "name each column once")
    if choice.target in names:
        got = f"{choice.target!r}, the target, among them"
        raise fail(f"{where}, data.columns", "columns to predict the target by", got, "leave it out of data.columns")


def _columns_of_numbers(found: Columns, choice: Choice, where: str, notes: Notes) -> tuple[str, ...]:
    """The columns that are neither target nor group nor text."""
    left = [name for name in found if name not in (choice.target, choice.group)]
    bad = {name: not_numbers(found[name]) for name in left}
    text = [name for name in left if _is_text(found[name], bad[name])]
    columns = tuple(name for name in left if name not in text)
    if not columns:
        got = f"text in {listed(text)}" if text else "none but target and group"
        raise fail(where, "columns of numbers", got, "check the file, or name other columns: data.columns")
    for name in text:
        row, numbers = int(np.argmax(bad[name])), _num_numbers(found[name], bad[name])
        some = f", though {numbers:,} of its {len(bad[name]):,} cells are" if numbers else ""
        cell = f"{str(found[name][row])[:40]!r} in {row_name(found)(row)}"
        notes.add(f"The column {name!r} is left out: {cell} is not a number{some}.")
    for name in columns if len(columns) > 1 else ():
        if _counts_rows(found[name]):
            notes.add(f"The column {name!r} numbers the rows: leave it out by data.columns, unless it says something.")
    return columns


def _counts_rows(values: np.ndarray) -> bool:
    """True of numbers that rise by one from row to row."""
    return len(values) > 2 and values.dtype != object and bool(np.all(np.diff(values) == 1))


def _is_text(values: np.ndarray, bad: np.ndarray) -> bool:
    """Tells text from numbers with mistakes: text has no more numbers than other cells."""
    return bool(bad.any()) and _num_numbers(values, bad) <= int(bad.sum())


def _num_numbers(values: np.ndarray, bad: np.ndarray) -> int:
    return int((~bad & ~are_missing(values)).sum())


def _numbers(values: np.ndarray, name: str, where: str, at: RowName) -> Float[np.ndarray, " N"]:
    remedy = "correct it, such as 1234.5 for '1,234.5' or '$1,234.5', or leave the column out of data.columns"
    return as_numbers(values, f"{where}, column {name!r}", at, remedy)


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
    """Labels and names of two classes: -1 for the first by name (or by number), +1 for the second."""
    check_present(values, "a class in every row", where, at)
    names = np.array([name_of(value) for value in values], object)
    numeric = not not_numbers(names).any()
    found = sorted(set(names.tolist()), key=lambda name: (float(name) if numeric else 0.0, name))
    expected = classes or tuple(found)
    if len(expected) != 2 or not set(found) <= set(expected):
        wanted = "two classes" if classes is None else f"the classes {classes[0]!r} and {classes[1]!r} of the run"
        listed_names = ", ".join(map(repr, found[:6])) + (", ..." if len(found) > 6 else "")
        remedy = "choose the rows of two classes, or another target" + (f"; {OF_NUMBERS}" if numeric else "")
        raise fail(where, wanted, f"{len(found)}: {listed_names}", remedy)
    return np.where(names == expected[1], 1.0, -1.0), (expected[0], expected[1])


def _codes(values: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, " N"]]:
    """Distinct values in the order in which they first occur, and the place of each value among them."""
    distinct, first, codes = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return distinct[order], np.argsort(order)[codes]


# --- in two parts ----------------------------------------------------------------------------------------------------
def split_table(table: Table, held_out: float, seed: int, what: Literal["groups", "entries"]) -> tuple[Table, Table]:
    """Training and held-out parts; DataError where there is too little to hold any of it out.

    "groups" holds out whole groups (rows, where there is no column of groups); "entries" single values: both parts then
    have all rows, each with NaN where the other has the value.
    """
    rng = np.random.default_rng(seed)
    if what == "entries":
        out = (rng.random(table.x.shape) < held_out) & np.isfinite(table.x)
        check_parts(int(out.sum()), int(np.isfinite(table.x).sum()), held_out, "entries")
        train, test = np.where(out, np.nan, table.x), np.where(out, table.x, np.nan)
        return dataclasses.replace(table, x=train), dataclasses.replace(table, x=test)
    number = round(held_out * table.num_groups)
    check_parts(number, table.num_groups, held_out, "rows" if table.groups is None else f"groups of {table.group!r}")
    chosen = rng.permutation(table.num_groups)[:number]
    out = np.isin(np.arange(table.num_rows) if table.groups is None else table.groups, chosen)
    return table.rows(np.flatnonzero(~out)), table.rows(np.flatnonzero(out))
