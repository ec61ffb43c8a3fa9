"""Tables of numbers: columns x, and optionally a target y and groups of rows."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from vijax.checks import RowError
from vijax.data.held_out import held_out_generator
from vijax.data.reading.checks import DataError, Notes, fail, listed, nearest
from vijax.data.schema.labels import LabelKind, Levels, kind_of_names, to_labels
from vijax.data.schema.near_numbers import near_numbers
from vijax.data.tables.columns import (
    Columns,
    NamedColumns,
    Origin,
    RowName,
    are_missing,
    as_numbers,
    check_parts,
    check_present,
    find_origin,
    not_numbers,
    row_name,
    row_names,
    said_missing,
)
from vijax.data.tables.order import MissingTimes, find_order, order_rows
from vijax.data.tables.rows_in_time import Order, RowsInTime, TimedRows
from vijax.data.tables.time_steps import say_order
from vijax.spreads import spread_or_one

TargetKind = Literal["real", "count", "binary"]
OF_NUMBERS = (
    "a target of numbers is for ard_regression, or for glm or gp with model.likelihood.name = "
    '"gaussian"'
)
"""The models for a target of numbers, for the error of a model of classes."""


class Scaling(NamedTuple):
    """Means and standard deviations of columns."""

    mean: Float[np.ndarray, " D"]
    deviation: Float[np.ndarray, " D"]


Manner = Literal["each", "together", "centre"]
"""The ways to standardise columns: each by its own mean and deviation; by their means and one
deviation for all; or by their means alone."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of numbers.

    Attributes:
      columns: names of the columns of x.
      x: values, NaN for missing ones.
      target: name of the target column, or None.
      y: values of the target: numbers, or -1 and +1 for the two classes.
      classes: names of the two classes, or None.
      group: name of the column of groups, or None.
      groups: the group of each row, 0, 1, ... in the order in which they first occur.
      group_names: names of the groups.
      group_kind: the kind of the names of groups in the training rows, numbers or text.
      timed: the rows by their order in time; None if they are in the order of the table.
      scaling: means and deviations by which x was standardised, or None.
      num_dropped: number of rows that were left out for a missing cell.
      decimal: the decimal sign of a text file, if it has one.
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
    group_kind: LabelKind = "text"
    timed: TimedRows | None = None
    scaling: Scaling | None = None
    num_dropped: int = 0
    decimal: str | None = None
    notes: tuple[str, ...] = ()
    origin: Origin | None = None

    def __len__(self) -> int:
        return self.num_rows

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.x)

    def with_note(self, note: str) -> Table:
        """The table with one more remark for the user."""
        return dataclasses.replace(self, notes=(*self.notes, note))

    @property
    def num_groups(self) -> int:
        """Number of groups; without a column of groups, the number of rows."""
        return self.num_rows if self.groups is None else len(self.group_names)

    def rows(self, index: np.ndarray) -> Table:
        """The table of some rows; their groups are numbered again."""
        y = None if self.y is None else self.y[index]
        origin = self.origin and self.origin.take(index)
        timed = _take_times(self.timed, index)
        part = dataclasses.replace(self, x=self.x[index], y=y, timed=timed, origin=origin)
        if self.groups is None:
            return part
        old_groups, groups = _codes(self.groups[index])
        names = tuple(self.group_names[int(g)] for g in old_groups)
        return dataclasses.replace(part, groups=groups, group_names=names)

    def time_order(self) -> Int[np.ndarray, " N"]:
        """The rows group by group, each group in the order of its times; in the order of the table
        if nothing orders them."""
        groups = np.zeros(self.num_rows, int) if self.groups is None else self.groups
        if self.timed is None:
            return np.argsort(groups, kind="stable")
        return np.lexsort((self.timed.rank, groups))

    def sequences(self) -> list[Float[np.ndarray, "T D"]]:
        """The rows of x group by group, each group in the order of its times; without groups one
        sequence."""
        rows = self.x[self.time_order()]
        if self.groups is None:
            return [rows]
        sizes = np.bincount(self.groups, minlength=self.num_groups)
        return np.split(rows, np.cumsum(sizes)[:-1])

    def standardise(self, scaling: Scaling | None = None, manner: Manner = "each") -> Table:
        """The table with columns of mean 0 and standard deviation 1, or shifted and scaled by the
        means and deviations of another table."""
        scaling = scaling or _scaling(self.x, manner)
        x = (self.x - scaling.mean) / scaling.deviation
        return dataclasses.replace(self, x=x, scaling=scaling)


def _take_times(timed: TimedRows | None, index: np.ndarray) -> TimedRows | None:
    """The times of some rows."""
    if timed is None:
        return None
    times = None if timed.times is None else timed.times[index]
    return timed._replace(rank=timed.rank[index], times=times)


def _scaling(x: np.ndarray, manner: Manner = "each") -> Scaling:
    """Means and deviations of the values that are not missing; a column without spread keeps its
    scale."""
    is_finite = np.isfinite(x)
    number = np.maximum(is_finite.sum(axis=0), 1)
    mean = np.where(is_finite, x, 0.0).sum(axis=0) / number
    variance = (np.where(is_finite, x - mean, 0.0) ** 2).sum(axis=0) / number
    if manner == "centre":
        return Scaling(mean, np.ones(len(mean)))
    if manner == "together":
        variance = np.full(len(mean), variance.mean() if len(mean) else 1.0)
    deviation = np.sqrt(variance)
    return Scaling(mean, spread_or_one(deviation, mean))


@contextlib.contextmanager
def naming_rows(data: Any) -> Iterator[None]:
    """Makes the error of a row, raised inside while a model reads the rows by group, name the file
    and the line."""
    try:
        yield
    except RowError as error:
        origin = getattr(data, "origin", None)
        if origin is None:
            raise
        row = data.time_order()[error.row]
        place = f"{origin.rows.name(row)}, column {data.columns[error.column]!r}"
        raise DataError(f"{origin.where}, {error.relocate(place)}") from None


# --- from named columns ---------------------------------------------------------------------------
class Choice(NamedTuple):
    """The columns of a file to use, and their roles.

    Attributes:
      columns: columns of x; None takes all columns of numbers that are neither target nor group.
      target: column of the target.
      group: column of groups.
      kind: kind of the target.
      missing: whether x may have missing values.
      classes: names of the two classes of a binary target, if known.
      group_kind: the kind of the names of groups, if known.
      in_time: whether rows are steps in time, so that a column which numbers or dates them orders
        them.
      order: the columns that order the rows, or the `Order` found on the training rows; () takes
        the rows as they are, None finds the columns.
      drop: whether rows with missing cells are left out, if x may have none.
      unseen: whether rows with missing cells stay as steps that were not observed, of which no cell
        is read.
    """

    columns: tuple[str, ...] | None = None
    target: str | None = None
    group: str | None = None
    kind: TargetKind = "real"
    missing: bool = False
    classes: tuple[str, str] | None = None
    group_kind: LabelKind | None = None
    in_time: bool = False
    order: Order | tuple[str, ...] | None = None
    drop: bool = False
    unseen: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns whose cells are names, and are read unchanged."""
        classes = self.target if self.kind == "binary" else None
        return tuple(name for name in (self.group, classes) if name is not None)

    @property
    def order_columns(self) -> tuple[str, ...]:
        """The known columns that order rows."""
        if isinstance(self.order, Order):
            return self.order.columns
        return tuple(self.order or ())


def make_table(
    all_columns: Columns, choice: Choice, where: str, notes: Notes | None = None
) -> Table:
    """The table of the chosen columns; `where` names the file in errors.

    Raises:
      DataError: a column that is missing or has no numbers, a missing value, a target of the wrong
        kind, a row without a group, times that do not order the rows.

    >>> columns = {"a": np.array([1.0, 2.0]), "b": np.array([0.5, 1.5]), "kind": np.array(["no", "yes"], object)}
    >>> table = make_table(columns, Choice(target="kind", kind="binary"), "an example")
    >>> table.columns, table.y.tolist(), table.classes
    (('a', 'b'), [-1.0, 1.0], ('no', 'yes'))
    """
    _check_names(all_columns, choice, where)
    _check_columns(choice, where)
    notes = notes or Notes()
    for note in _word_notes(all_columns, choice):
        notes.add(note)
    num_rows = _num_rows(all_columns)
    if choice.drop:
        all_columns = placed_rows(all_columns, choice, notes)
    at = row_name(all_columns)
    names, groups, group_kind = _groups(all_columns, choice, where, at)
    try:
        in_time = _order(all_columns, groups, choice, where, at, notes)
    except MissingTimes as error:
        if not choice.drop or error.missing.all():
            raise
        all_columns = _drop_rows(all_columns, error.missing, error.name, notes)
        table = make_table(all_columns, choice, where, notes)
        return dataclasses.replace(table, num_dropped=num_rows - _num_rows(all_columns))
    columns = choice.columns
    if columns is None:
        columns = _columns_of_numbers(all_columns, choice, where, notes, in_time.left_out)
    if choice.drop and not choice.missing:
        is_whole = are_whole(all_columns, choice._replace(columns=columns), where)
        if not is_whole.all():
            _note_dropped_rows(all_columns, columns, choice, is_whole, notes)
            new_choice = choice._replace(columns=columns, drop=False, group_kind=group_kind)
            table = _whole_table(all_columns, new_choice, is_whole, where, notes)
            return dataclasses.replace(table, num_dropped=num_rows - table.num_rows)
    x = np.stack([_numbers(all_columns[name], name, where, at) for name in columns], axis=1)
    _check_values(x, columns, choice, where, at)
    if choice.unseen:
        x = _blank_incomplete(x, notes)
    y: np.ndarray | None = None
    classes: tuple[str, str] | None = None
    if choice.target is not None:
        y, classes = _target(all_columns, choice.target, choice, where, at)
    if choice.in_time and not isinstance(choice.order, Order):
        say_order(in_time, groups, columns, notes)
    return Table(
        columns=tuple(columns),
        x=x,
        target=choice.target,
        y=y,
        classes=classes,
        group=choice.group,
        groups=groups,
        group_names=names,
        group_kind=group_kind,
        timed=in_time.timed,
        decimal=getattr(all_columns, "decimal", None),
        num_dropped=num_rows - len(x),
        notes=notes.texts(),
        origin=find_origin(all_columns, where),
    )


def _whole_table(
    columns: Columns, choice: Choice, is_whole: np.ndarray, where: str, notes: Notes
) -> Table:
    """The table of the rows without a missing cell."""
    if not is_whole.any():
        lacking = _lacking(columns, choice.columns or (), where)
        remedy = f"leave the columns out that lack most cells: {lacking}"
        raise fail(where, "rows without a missing cell", "none", remedy)
    with _adding_words(columns, choice):
        return make_table(some_rows(columns, np.flatnonzero(is_whole)), choice, where, notes)


def _word_notes(columns: Columns, choice: Choice) -> list[str]:
    """Notes on the words that were read as missing groups, classes and times."""
    names = dict.fromkeys((*choice.labels, *choice.order_columns))
    return [note for name in names if (note := said_missing(columns, name))]


@contextlib.contextmanager
def _adding_words(columns: Columns, choice: Choice) -> Iterator[None]:
    """Adds to an error about the remaining rows the words for which other rows were left out."""
    try:
        yield
    except DataError as error:
        word_notes = _word_notes(columns, choice)
        if not word_notes:
            raise
        raise DataError(" ".join([str(error), *word_notes])) from error


def _num_rows(columns: Columns) -> int:
    return len(next(iter(columns.values()), ()))


def _check_names(columns: Columns, choice: Choice, where: str) -> None:
    """Raises a DataError for the name of a column that does not exist."""
    wanted = [("columns", name) for name in choice.columns or ()]
    wanted += [("order", name) for name in choice.order_columns]
    for key, name in (*wanted, ("target", choice.target), ("group", choice.group)):
        if name is not None and name not in columns:
            unset = "; or leave data.group unset, if all rows are one" if key == "group" else ""
            remedy = f"name another, data.{key}; {nearest(name, columns)}{unset}"
            raise fail(where, f"a column {name!r} (data.{key})", "none of that name", remedy)


def _groups(
    columns: Columns, choice: Choice, where: str, at: RowName
) -> tuple[tuple[str, ...], Int[np.ndarray, " N"] | None, LabelKind]:
    """Names of the groups, the group of each row, and the kind of the names; (), None and a kind
    without a column of groups."""
    if choice.group is None:
        return (), None, choice.group_kind or "text"
    remedy = "write them; or leave those rows out: --set data.missing=drop"
    where_group = f"{where}, group {choice.group!r}"
    word_note = said_missing(columns, choice.group)
    check_present(columns[choice.group], "a group in every row", where_group, at, remedy, word_note)
    labels = to_labels(columns[choice.group])
    if choice.group_kind is not None:
        labels = labels.named_as(choice.group_kind)
    return labels.names, labels.codes, labels.kind


def _order(
    columns: Columns,
    groups: Int[np.ndarray, " N"] | None,
    choice: Choice,
    where: str,
    at: RowName,
    notes: Notes,
) -> RowsInTime:
    """The order of the rows in time, and the columns that give it."""
    if not choice.in_time or choice.order == () or not _num_rows(columns):
        return RowsInTime(None)
    if choice.order is not None:
        timed = order_rows(columns, choice.order, groups, where, at, choice.group)
        return RowsInTime(timed, timed.order.columns)
    role_columns = (choice.target, choice.group)
    in_time = find_order(
        columns, groups, role_columns, choice.columns, where, at, notes, choice.group
    )
    numbers = [
        name
        for name, values in columns.items()
        if name not in role_columns and not _is_text(values, not_numbers(values))
    ]
    if choice.columns is not None or not numbers or set(numbers) - set(in_time.left_out):
        return in_time
    # All columns of numbers would be left out. A column that only counts may be one to model.
    left_out = tuple(name for name in in_time.left_out if name not in in_time.counting)
    if set(numbers) - set(left_out):
        return in_time._replace(left_out=left_out)
    return RowsInTime(None)


# --- missing cells --------------------------------------------------------------------------------
def some_rows(columns: Columns, rows: Int[np.ndarray, " n"]) -> Columns:
    """Some of the rows of all columns, with their row names."""
    named = (
        columns if isinstance(columns, NamedColumns) else NamedColumns(columns, row_names(columns))
    )
    return named.take(rows)


def are_whole(columns: Columns, choice: Choice, where: str) -> Bool[np.ndarray, " N"]:
    """A mask of the rows that have all cells which a model of whole rows needs: of x, the target
    and the group."""
    at = row_name(columns)
    is_whole = np.ones(_num_rows(columns), bool)
    for name in choice.columns or ():
        is_whole &= ~np.isnan(_numbers(columns[name], name, where, at))
    if choice.group is not None:
        is_whole &= ~are_missing(columns[choice.group])
    if choice.target is not None:
        is_named = choice.kind == "binary" or not_numbers(columns[choice.target]).any()
        values = columns[choice.target] if is_named else as_numbers(columns[choice.target])
        is_whole &= ~are_missing(values)
    return is_whole


def are_placed(columns: Columns, choice: Choice) -> Bool[np.ndarray, " N"]:
    """A mask of the rows that have a group and a time, if their columns are known."""
    is_placed = np.ones(_num_rows(columns), bool)
    for name in _names_of_places(choice):
        is_placed &= ~are_missing(columns[name])
    return is_placed


def _names_of_places(choice: Choice) -> list[str]:
    return [name for name in (choice.group, *choice.order_columns) if name is not None]


def placed_rows(columns: Columns, choice: Choice, notes: Notes) -> Columns:
    """The rows that have a group, and a time if its column is named. A column without any is
    ignored."""
    for name in _names_of_places(choice):
        missing = are_missing(columns[name])
        if missing.any() and not missing.all():
            columns = _drop_rows(columns, missing, name, notes)
    return columns


def _drop_rows(
    columns: Columns, missing: Bool[np.ndarray, " N"], name: str, notes: Notes
) -> Columns:
    """The rows that have a group or a time; the others are noted."""
    count = int(missing.sum())
    first = row_names(columns).name(int(np.argmax(missing)))
    notes.add(
        f"{count:,} rows without a {name!r} are left out (data.missing), the first in {first}."
    )
    return some_rows(columns, np.flatnonzero(~missing))


def _blank_incomplete(x: Float[np.ndarray, "N D"], notes: Notes) -> Float[np.ndarray, "N D"]:
    """The rows, with all cells NaN in rows that lack one."""
    lacking = np.isnan(x).any(axis=1)
    if not lacking.any():
        return x
    cells = int(np.isnan(x).sum())
    notes.add(
        f"{int(lacking.sum()):,} of {len(x):,} steps lack {cells:,} cells and count as not seen "
        "(data.missing): they stay in their sequences, and none of their cells is read."
    )
    return np.where(lacking[:, None], np.nan, x)


MOST_ROWS_NAMED = 5


def _note_dropped_rows(
    all_columns: Columns, columns: tuple[str, ...], choice: Choice, whole: np.ndarray, notes: Notes
) -> None:
    """Notes the number of rows left out, the first of them, and the columns that lack cells."""
    out = np.flatnonzero(~whole)
    names = row_names(all_columns)
    places = ", ".join(names.name(row) for row in out[:MOST_ROWS_NAMED])
    rest_text = f" and {len(out) - MOST_ROWS_NAMED:,} more" if len(out) > MOST_ROWS_NAMED else ""
    needed = (*columns, *([choice.target] if choice.target else []))
    counts = {name: int(_lacks(all_columns[name]).sum()) for name in needed}
    lacking = ", ".join(f"{name!r} {count:,}" for name, count in counts.items() if count)
    notes.add(
        f"{len(out):,} of {len(whole):,} rows lack a cell and are left out (data.missing): "
        f"{places}{rest_text}. Missing cells by column: {lacking}."
    )


def _lacks(values: np.ndarray) -> np.ndarray:
    if not_numbers(values).any():
        return are_missing(values)
    return np.isnan(as_numbers(values))


def _lacking(all_columns: Columns, columns: tuple[str, ...], where: str) -> str:
    """The columns that lack most cells, with the number of these."""
    counts = {name: int(_lacks(all_columns[name]).sum()) for name in columns}
    worst = sorted(counts, key=lambda name: -counts[name])[:MOST_ROWS_NAMED]
    return ", ".join(f"{name!r} lacks {counts[name]:,}" for name in worst)


def _check_columns(choice: Choice, where: str) -> None:
    """Raises a DataError for a column named twice, and for the target among the columns of x."""
    names = choice.columns or ()
    if choice.columns == ():
        remedy = "name them, or leave it unset to use all columns of numbers"
        raise fail(f"{where}, data.columns", "one column or more", "none", remedy)
    repeated = list(dict.fromkeys(name for i, name in enumerate(names) if name in names[:i]))
    if repeated:
        actual = f"{listed(repeated)} more than once"
        raise fail(f"{where}, data.columns", "distinct names", actual, "name each column once")
    if choice.target in names:
        expected = "columns to predict the target by"
        actual = f"{choice.target!r}, the target, among them"
        raise fail(f"{where}, data.columns", expected, actual, "leave it out of data.columns")


def _columns_of_numbers(
    all_columns: Columns, choice: Choice, where: str, notes: Notes, left_out: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The columns that are neither target nor group nor text, nor in `left_out`."""
    candidates = [
        name for name in all_columns if name not in (choice.target, choice.group, *left_out)
    ]
    empty = [name for name in candidates if _is_empty(all_columns[name])]
    if empty and len(empty) < len(candidates):
        notes.add(f"Columns without any value are left out: {listed(empty)}.")
        candidates = [name for name in candidates if name not in empty]
    bad = {name: not_numbers(all_columns[name]) for name in candidates}
    text = [name for name in candidates if _is_text(all_columns[name], bad[name])]
    columns = tuple(name for name in candidates if name not in text)
    if not columns:
        actual = f"text in {listed(text)}" if text else "none but target and group"
        remedy = "check the file; or name other columns: data.columns"
        raise fail(where, "columns of numbers", actual, remedy)
    for name in text:
        _note_text_column(all_columns, name, bad[name], notes)
    for name in columns if len(columns) > 1 else ():
        if _counts_rows(all_columns[name]):
            notes.add(
                f"The column {name!r} numbers the rows: leave it out by data.columns, unless it "
                "says something."
            )
    return columns


def _note_text_column(columns: Columns, name: str, bad: np.ndarray, notes: Notes) -> None:
    row = int(np.argmax(bad))
    numbers = _num_numbers(columns[name], bad)
    number_note = f", though {numbers:,} of its {len(bad):,} cells are" if numbers else ""
    cell = f"{str(columns[name][row])[:40]!r} in {row_name(columns)(row)}"
    hint = number_hint(columns[name])
    notes.add(f"The column {name!r} is left out: {cell} is not a number{number_note}.{hint}")


def _is_empty(values: np.ndarray) -> bool:
    """True for a column without any value."""
    if not len(values) or not_numbers(values).any():
        return False
    return bool(np.isnan(as_numbers(values)).all())


def _counts_rows(values: np.ndarray) -> bool:
    """True for numbers that rise by one from row to row."""
    return len(values) > 2 and values.dtype != object and bool(np.all(np.diff(values) == 1))


def number_hint(values: np.ndarray) -> str:
    """A remedy for a column whose text would be numbers but for signs or commas in it; else "".

    >>> number_hint(np.array(["22,2 %", "7 %"], object))
    " Its cells look like numbers with signs: write 22.2 for '22,2 %' to have it read."
    >>> number_hint(np.array(["red", "5"], object))
    ''
    """
    text_numbers = near_numbers([str(value) for value in values[~are_missing(values)]])
    if text_numbers is None:
        return ""
    return f" Its cells look like numbers with signs: write {text_numbers.advice} to have it read."


def _is_text(values: np.ndarray, bad: np.ndarray) -> bool:
    """True for text; numbers with mistakes have more numbers than other cells."""
    return bool(bad.any()) and _num_numbers(values, bad) <= int(bad.sum())


def _num_numbers(values: np.ndarray, bad: np.ndarray) -> int:
    return int((~bad & ~are_missing(values)).sum())


def _numbers(values: np.ndarray, name: str, where: str, at: RowName) -> Float[np.ndarray, " N"]:
    remedy = (
        "correct it, such as 1234.5 for '1,234.5' or '$1,234.5'; or leave the column out of "
        "data.columns"
    )
    return as_numbers(values, f"{where}, column {name!r}", at, remedy)


STEPS_UNSEEN = (
    "fill them in, and do not remove rows, which would join the steps before and after; with "
    "--set data.missing=model hmm and hdp_hmm read the other cells of such a step, and with "
    "data.missing=drop take it as one that was not seen; arhmm, slds and state_space take missing "
    "values as they are"
)
"""What to do about missing values of steps in time."""


def _check_values(
    x: np.ndarray, columns: tuple[str, ...], choice: Choice, where: str, at: RowName
) -> None:
    if not len(x):
        raise fail(where, "at least one row", "none", "check the file")
    bad = np.argwhere(~np.isfinite(x) if not choice.missing else np.isinf(x))
    if not len(bad):
        return
    row, column = map(int, bad[0])
    place = f"{x[row, column]} in {at(row)} of column {columns[column]!r} ({len(bad)} such)"
    if not np.isnan(x[row, column]):
        remedy = "correct those cells, or leave them empty where they are not known"
        raise fail(where, "finite numbers", place, remedy)
    place = place.replace("nan", "a missing value", 1)
    if choice.in_time:
        raise fail(where, "finite numbers", place, STEPS_UNSEEN)
    remedy = "fill them in; or leave those rows out, --set data.missing=drop"
    alternative = ""
    if choice.target is None:
        alternative = (
            "; or fit a model of missing entries: mixture with --set data.missing=model, or "
            "factor_analysis"
        )
    raise fail(where, "finite numbers", place, f"{remedy}{alternative}")


def _target(
    columns: Columns, name: str, choice: Choice, where: str, at: RowName
) -> tuple[np.ndarray, tuple[str, str] | None]:
    """The values of the target, and the names of its classes if it is binary."""
    values = columns[name]
    where_target = f"{where}, target {name!r}"
    if choice.kind == "binary":
        words = said_missing(columns, name)
        check_present(values, "a class in every row", where_target, at, words=words)
        return _two_classes(values, choice.classes, where_target)
    y = _numbers(values, name, where, at)
    where = where_target
    wrong = ~np.isfinite(y)
    if choice.kind == "count":
        wrong |= (y < 0) | (y != np.floor(y))
    if wrong.any():
        row = int(np.argmax(wrong))
        expected = "finite numbers" if choice.kind == "real" else "counts 0, 1, 2, ..."
        remedy = "correct or remove those rows"
        if np.isnan(y[row]):
            remedy = "fill them in; or leave those rows out, --set data.missing=drop"
        raise fail(where, expected, f"{y[row]} in {at(row)} ({int(wrong.sum())} such)", remedy)
    return y, None


def _two_classes(
    values: np.ndarray, classes: tuple[str, str] | None, where: str
) -> tuple[np.ndarray, tuple[str, str]]:
    """Labels and names of two classes: -1 for the first by name (or by number), +1 for the
    second."""
    labels = to_labels(values)
    expected = classes or labels.levels().names
    levels = Levels(expected, kind_of_names(expected))
    codes = levels.find_codes(labels)
    if len(expected) != 2 or (codes < 0).any():
        wanted = "two classes"
        if classes is not None:
            wanted = f"the classes {classes[0]!r} and {classes[1]!r} of the run"
        names = labels.levels().names
        listed_names = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
        remedy = "choose the rows of two classes, or another target"
        if kind_of_names(names) == "number":
            remedy = f"{remedy}; {OF_NUMBERS}"
        raise fail(where, wanted, f"{len(names)}: {listed_names}", remedy)
    return np.where(codes == 1, 1.0, -1.0), (expected[0], expected[1])


def _codes(values: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, " N"]]:
    """Distinct values in the order in which they first occur, and the place of each value among
    them."""
    distinct, first, codes = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return distinct[order], np.argsort(order)[codes]


# --- in two parts ---------------------------------------------------------------------------------
def split_table(
    table: Table, held_out: float, seed: int, what: Literal["groups", "entries"]
) -> tuple[Table, Table]:
    """Training and held-out parts.

    Args:
      table: the table.
      held_out: share to hold out.
      seed: the same seed gives the same parts.
      what: "groups" holds out groups (without a column of groups, rows); "entries" single values:
        both parts then have all rows, each with NaN where the other has the value. Of groups at
        least one is held out, and one is left, as a note says.

    Raises:
      DataError: a part would be empty: of entries, or of a single group.
    """
    rng = held_out_generator(seed)
    if what == "entries":
        out = (rng.random(table.x.shape) < held_out) & np.isfinite(table.x)
        check_parts(int(out.sum()), int(np.isfinite(table.x).sum()), held_out, "entries")
        train = np.where(out, np.nan, table.x)
        test = np.where(out, table.x, np.nan)
        return dataclasses.replace(table, x=train), dataclasses.replace(table, x=test)
    total, share = table.num_groups, round(held_out * table.num_groups)
    number = min(max(share, 1), total - 1)
    noun = "rows" if table.groups is None else f"groups of {table.group!r}"
    check_parts(number, total, held_out, noun)
    if number != share:
        note = (
            f"data.held_out={held_out:g} of {total} {noun} would be {share}: {number} held out "
            "for the score."
        )
        table = table.with_note(note)
    test_groups = rng.permutation(table.num_groups)[:number]
    out = np.isin(np.arange(table.num_rows) if table.groups is None else table.groups, test_groups)
    return table.rows(np.flatnonzero(~out)), table.rows(np.flatnonzero(out))
