"""The order of rows in time: the columns that number or date the rows, and the rows sorted by them.

A time is no observation: a model of sequences that reads it as one finds states "early" and "late".
So a column that numbers or dates the rows within their groups is recognised by its name, by its
dates or because it counts; it orders the rows, and is not modelled unless the user names it. The
columns found on the training rows are stored as an `Order`, by which new rows are ordered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from vijax.data.reading.checks import DataError, Notes, fail, listed
from vijax.data.schema.name_words import part_of_date
from vijax.data.tables import dates
from vijax.data.tables.columns import Columns, RowName
from vijax.data.tables.rows_in_time import NUMBER, GroupedRows, Order, RowsInTime, TimedRows
from vijax.data.tables.time_columns import (
    WRITE_DATES,
    TimeColumn,
    UnreadTimes,
    are_numbers,
    as_time_column,
    find_format,
    read_times,
    unclear_day,
    unread_times,
)


class MissingTimes(DataError):
    """Rows lack the time that orders the other rows."""

    def __init__(self, message: str, name: str, missing: Bool[np.ndarray, " N"]):
        super().__init__(message)
        self.name = name
        self.missing = missing


# --- the search -----------------------------------------------------------------------------------
class Trial(NamedTuple):
    """Columns that may order rows together, the coarsest first."""

    columns: tuple[TimeColumn, ...]

    @property
    def rank(self) -> np.ndarray:
        """The place of each row among the different times."""
        return _rank([column.numbers for column in self.columns])


def _rank(numbers: Sequence[np.ndarray]) -> np.ndarray:
    if len(numbers) == 1:
        return np.unique(numbers[0], return_inverse=True)[1]
    return np.unique(np.stack(numbers, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


class SearchedTable(NamedTuple):
    """A table that is searched for an order.

    Attributes:
      table: all columns.
      rows: the rows in their groups.
      apart: names of columns with another role, such as the target.
      where: names the file in errors.
      at: names a row in errors.
      group: name of the column of groups.
    """

    table: Columns
    rows: GroupedRows
    apart: tuple[str | None, ...]
    where: str
    at: RowName
    group: str | None


def find_order(
    table: Columns,
    groups: Int[np.ndarray, " N"] | None,
    apart: Sequence[str | None],
    columns: Sequence[str] | None,
    where: str,
    at: RowName,
    notes: Notes,
    group: str | None = None,
) -> RowsInTime:
    """The columns that number or date the rows within their groups, and the rows by them.

    Args:
      table: all columns.
      groups: the group of each row; None if all rows are one group.
      apart: names of columns with another role, such as the target.
      columns: the columns to model, if they are named; None for all columns of numbers.
      where: names the file in errors.
      at: names a row in errors.
      notes: gets remarks.
      group: name of the column of groups.

    Raises:
      DataError: rows of one group share a time, and are not in its order; two orders are equally
        likely; or the only column that may order the rows has a cell that cannot be read.
      MissingTimes: rows lack a time.

    >>> table = {"time": np.array([2.0, 1.0, 3.0]), "x": np.array([0.5, 0.1, 0.3])}
    >>> in_time = find_order(table, None, (), None, "an example", str, Notes())
    >>> in_time.timed.rank.tolist(), in_time.left_out
    ([1, 0, 2], ('time',))
    """
    rows = GroupedRows(groups, len(next(iter(table.values()), ())))
    searched = SearchedTable(table, rows, tuple(apart), where, at, group)
    modelled = frozenset(columns or ())
    candidates = [name for name in table if name not in apart]
    times = _time_columns(table, candidates, modelled, rows)
    complete = [column for column in times if np.isfinite(column.numbers).all()]
    trial = _choose_trial(complete, rows, where)
    unread = [fault for name in candidates if (fault := unread_times(name, table[name]))]
    if trial is None:
        _refuse_unread(unread, searched)
        _refuse_no_order(times, searched)
    _say_unread(unread, searched, notes)
    if trial is None:
        constant = [c.name for c in times if c.kind in ("date", "clock") and c.name not in modelled]
        if constant:
            notes.add(
                f"{listed(constant)} is the same in all rows of a sequence, and is not modelled."
            )
        return RowsInTime(None, tuple(constant))
    trial = _with_constant_parts(trial, complete)
    _check_midnight(trial, searched)
    _say_short_years(trial, table, notes)
    left_out, counting = _unmodelled_columns(complete, rows, trial)
    out = tuple(name for name in table if name in left_out | counting and name not in modelled)
    only_counting = tuple(name for name in out if name in counting)
    return RowsInTime(_time_rows(trial.columns), out, only_counting)


def _time_columns(
    table: Columns, names: Sequence[str], named: frozenset[str], rows: GroupedRows
) -> list[TimeColumn]:
    """The columns that may order rows; a column that the user models only if its name is one of
    times."""
    times: list[TimeColumn] = []
    for name in names:
        column = as_time_column(name, table[name], rows)
        if column is None:
            continue
        if name not in named or column.kind in ("date", "clock", "part", "step"):
            times.append(column)
    return times


def _choose_trial(known: Sequence[TimeColumn], rows: GroupedRows, where: str) -> Trial | None:
    """The columns that order the rows; None if none do."""
    of_kinds = lambda *kinds: [Trial((c,)) for c in known if c.kind in kinds]
    is_year = lambda c: part_of_date(c.name) == "year"
    years = [Trial((c,)) for c in known if c.kind == "part" and is_year(c)]
    parts = [Trial((_unwrap(c, rows),)) for c in known if c.kind == "part" and not is_year(c)]
    dates_first = [*of_kinds("date"), *of_kinds("clock")]
    steps = of_kinds("step")
    composites = _composites(known)
    if not rows.inside.any():  # groups of one row have an order in any case
        return next(iter([*dates_first, *steps]), None)
    for trial in [*dates_first, *steps, *years, *composites, *parts, *of_kinds("word")]:
        if rows.rises(trial.rank):
            return trial
    # If the file is in another order, only names that leave no doubt count.
    certain = [trial for trial in composites if _is_dated(trial)]
    doubtful = [trial for trial in composites if not _is_dated(trial)]
    for trial in [*of_kinds("date"), *certain]:
        if rows.tells_apart(trial.rank):
            return trial
    candidates = [*of_kinds("clock"), *steps, *years, *doubtful, *parts]
    distinct = [trial for trial in candidates if rows.tells_apart(trial.rank)]
    if distinct:
        _check_agree(distinct, rows, where)
        return distinct[0]
    for trial in dates_first:
        if rows.never_falls(trial.rank):
            return trial
    return _counter(known, rows)


def _unwrap(column: TimeColumn, rows: GroupedRows) -> TimeColumn:
    """The column as the only one that orders the rows: times of the day continue after midnight."""
    if column.format != dates.TIME_OF_DAY:
        return column
    return column._replace(numbers=rows.unwrap_midnight(column.numbers))


def _composites(known: Sequence[TimeColumn]) -> list[Trial]:
    """All parts of a date, or dates and the time of the day, as one trial; [] with fewer than two
    of them."""
    parts = [c for c in known if c.kind in ("date", "part", "clock") and np.ptp(c.numbers) > 0]
    parts.sort(key=lambda c: c.coarseness)
    return [Trial(tuple(parts))] if len(parts) > 1 else []


def _with_constant_parts(chosen: Trial, known: Sequence[TimeColumn]) -> Trial:
    """The trial, preceded by coarser parts of the date that are constant in training: a later table
    may have two years."""
    of_date = ("date", "part", "clock")
    if any(c.kind not in of_date for c in chosen.columns):
        return chosen
    coarsest = min(c.coarseness for c in chosen.columns)
    names = {c.name for c in chosen.columns}
    constant = [
        c
        for c in known
        if c.kind in ("date", "part") and c.name not in names and np.ptp(c.numbers) == 0
    ]
    coarser = sorted((c for c in constant if c.coarseness < coarsest), key=lambda c: c.coarseness)
    return Trial((*coarser, *chosen.columns)) if coarser else chosen


def _is_dated(trial: Trial) -> bool:
    """True if the coarsest part is a date or a year."""
    first = trial.columns[0]
    return first.kind == "date" or part_of_date(first.name) == "year"


def _check_agree(trials: Sequence[Trial], rows: GroupedRows, where: str) -> None:
    """Raises a DataError if columns order the rows in different ways."""
    orders = [np.lexsort((trial.rank, rows.groups)) for trial in trials]
    for trial, order in zip(trials[1:], orders[1:], strict=True):
        if np.array_equal(order, orders[0]):
            continue
        names = [listed(c.name for c in candidate.columns) for candidate in (trials[0], trial)]
        words = [
            ", ".join(f'"{c.name}"' for c in candidate.columns) for candidate in (trials[0], trial)
        ]
        remedy = (
            f"name the one that orders them, as in --set 'data.order=[{words[1]}]' or "
            f"'data.order=[{words[0]}]'"
        )
        raise fail(where, "one order of the rows", f"two, by {names[0]} and by {names[1]}", remedy)


def _counter(known: Sequence[TimeColumn], rows: GroupedRows) -> Trial | None:
    """A column that numbers the rows."""
    numbers = [c for c in known if c.kind not in ("date", "part")]
    counters = [c for c in numbers if c.kind == "counter"]
    for candidate in numbers:
        if rows.rises(candidate.numbers) and (
            candidate in counters or rows.counts(candidate.numbers)
        ):
            return Trial((candidate,))
    for candidate in counters:
        if rows.tells_apart(candidate.numbers):
            return Trial((candidate,))
    return next((Trial((c,)) for c in numbers if rows.counts(c.numbers)), None)


def _unmodelled_columns(
    known: Sequence[TimeColumn], rows: GroupedRows, chosen: Trial
) -> tuple[set[str], set[str]]:
    """The names of columns that only tell when a row is, and of those that only count the rows."""
    out = {c.name for c in chosen.columns}
    counting: set[str] = set()
    by_time = any(c.kind in ("date", "clock", "step", "part", "word") for c in chosen.columns)
    for candidate in known:
        if (
            candidate.kind in ("date", "clock", "step")
            or (candidate.kind == "part" and by_time)
            or (candidate.kind == "counter" and rows.tells_apart(candidate.numbers))
            or (candidate.kind == "word" and rows.rises(candidate.numbers))
        ):
            out.add(candidate.name)
        elif rows.counts(candidate.numbers):
            counting.add(candidate.name)
    return out, counting - out


def _refuse_unread(unread: Sequence[UnreadTimes], searched: SearchedTable) -> None:
    """Raises a DataError if the only column that could order the rows has times that cannot be
    read."""
    certain = [fault for fault in unread if fault.is_certain]
    if not certain or not searched.rows.inside.any():
        return
    fault = certain[0]
    expected = f"times of one format in column {fault.name!r}"
    remedy = f"{WRITE_DATES}; or {_as_they_lie(searched.table, (*searched.apart, fault.name))}"
    raise fail(searched.where, expected, fault.cells_text(searched.at), remedy)


def _refuse_no_order(times: Sequence[TimeColumn], searched: SearchedTable) -> None:
    """Raises a DataError if a column of times does not order the rows."""
    clocks = [column for column in times if column.kind in ("date", "clock")]
    if not clocks or len(searched.rows.groups) < 2:
        return
    clock = clocks[0]
    missing = ~np.isfinite(clock.numbers)
    if missing.any():
        raise _missing_times(clock.name, missing, searched)
    if not np.any(searched.rows.sorted_steps(clock.numbers)):
        return
    raise _shared_times_error(clock.name, clock.numbers, searched)


def _missing_times(
    name: str, missing: Bool[np.ndarray, " N"], searched: SearchedTable
) -> MissingTimes:
    """The error for rows that lack a time."""
    actual = f"none in {searched.at(int(np.argmax(missing)))} ({int(missing.sum())} such)"
    remedy = "write them; or leave those rows out, --set data.missing=drop; or "
    remedy += _as_they_lie(searched.table, (*searched.apart, name))
    error = fail(searched.where, f"a time in every row of {name!r}", actual, remedy)
    return MissingTimes(str(error), name, missing)


def _shared_times_error(name: str, numbers: np.ndarray, searched: SearchedTable) -> DataError:
    """The error for rows of one group that share a time, and are not in its order."""
    rows = searched.rows
    order = np.lexsort((numbers, rows.groups))
    repeated = np.flatnonzero((np.diff(numbers[order]) == 0) & rows.inside)
    first, second = sorted((int(order[repeated[0]]), int(order[repeated[0] + 1])))
    row_text = f"rows of one {searched.group!r}" if searched.group else "rows of one sequence"
    actual = f"the same in {searched.at(first)} and {searched.at(second)} ({len(repeated)} such)"
    excluded = (*searched.apart, name)
    remedies = [_as_they_lie(searched.table, excluded)]
    if searched.group is None:
        grouping = _grouping(searched.table, numbers, excluded)
        if grouping is not None:
            remedies.insert(0, f"name the column of sequences, --set data.group={grouping}")
    expected = f"different times ({name!r}) in {row_text}"
    return fail(searched.where, expected, actual, "; or ".join(remedies))


def _check_midnight(chosen: Trial, searched: SearchedTable) -> None:
    """Raises a DataError if only times of the day order the rows, and they seem to pass
    midnight."""
    column = chosen.columns[0]
    rows = searched.rows
    if len(chosen.columns) > 1 or column.format != dates.TIME_OF_DAY or rows.rises(column.numbers):
        return
    if not rows.leave_the_night(column.numbers):
        return
    first = dates.format_date(column.numbers.min(), column.format)
    last = dates.format_date(column.numbers.max(), column.format)
    actual = (
        f"{first} to {last} with no row in twelve hours between, as of a night, and rows in "
        "another order than this"
    )
    remedy = "write dates beside the times, or put the rows in their order"
    remedy += f"; or {_as_they_lie(searched.table, (*searched.apart, column.name))}"
    raise fail(searched.where, f"times of one day in column {column.name!r}", actual, remedy)


def _as_they_lie(table: Columns, apart: Sequence[str | None]) -> str:
    """The remedy to take rows in the order of the file, with the other columns of numbers."""
    number_columns = [
        name for name, values in table.items() if name not in apart and are_numbers(values)
    ]
    names = ", ".join(f'"{name}"' for name in number_columns)
    return f"take rows as they lie: --set data.order=none 'data.columns=[{names}]'"


def _grouping(table: Columns, numbers: np.ndarray, apart: Sequence[str | None]) -> str | None:
    """A column such that no two rows with the same value in it share a time."""
    for name, values in table.items():
        if name in apart:
            continue
        codes = np.unique([str(value) for value in values.tolist()], return_inverse=True)[1]
        is_grouping = 1 < codes.max() + 1 <= len(values) / 2
        if is_grouping and GroupedRows(codes, len(values)).tells_apart(numbers):
            return name
    return None


def _say_unread(unread: Sequence[UnreadTimes], searched: SearchedTable, notes: Notes) -> None:
    """Notes columns that look like times, but do not order the rows as some cells cannot be
    read."""
    for fault in unread:
        notes.add(
            f"The column {fault.name!r} does not order the rows: {fault.cells_text(searched.at)} "
            "is not read as a time."
        )
    for name, values in searched.table.items():
        if name not in searched.apart and (cell := unclear_day(values)) is not None:
            notes.add(
                f"The dates of {name!r} do not order the rows: {cell!r} may begin with the day or "
                "with the month. Write them as 2024-05-31 to have it so."
            )


def _say_short_years(chosen: Trial, table: Columns, notes: Notes) -> None:
    """Notes years of two digits, whose century is guessed."""
    for column in chosen.columns:
        cells = [str(value) for value in table[column.name]]
        if dates.have_short_years(cells, column.format):
            first = dates.format_date(float(column.numbers[0]), column.format)
            notes.add(
                f"Years of two digits in {column.name!r} are 1969 to 2068: {cells[0]!r} is {first}."
            )


# --- rows by an order -----------------------------------------------------------------------------
def order_rows(
    table: Columns,
    order: Order | Sequence[str],
    groups: Int[np.ndarray, " N"] | None,
    where: str,
    at: RowName,
    group: str | None = None,
) -> TimedRows:
    """The rows by columns that are known to order them.

    Args:
      table: all columns.
      order: the order that was found on the training rows; or names of columns, whose formats are
        found.
      groups: the group of each row; None if all rows are one group.
      where: names the file in errors.
      at: names a row in errors.
      group: name of the column of groups.

    Raises:
      DataError: a time is missing or cannot be read; rows of one group share a time, and are not in
        its order.
    """
    rows = GroupedRows(groups, len(next(iter(table.values()), ())))
    columns = order.columns if isinstance(order, Order) else tuple(order)
    searched = SearchedTable(table, rows, (*columns, group), where, at, group)
    formats = _formats(table, order, where, at)
    times = [
        read_times(table[name], name, form, where, at)
        for name, form in zip(columns, formats, strict=True)
    ]
    if len(times) == 1:
        times = [_unwrap(times[0], rows)]
        _check_midnight(Trial(tuple(times)), searched)
    timed = _time_rows(times)
    has_neighbours = bool(rows.inside.any())
    if has_neighbours and not rows.tells_apart(timed.rank) and not rows.never_falls(timed.rank):
        raise _shared_times_error(", ".join(columns), timed.rank, searched)
    return timed


def _formats(
    table: Columns, order: Order | Sequence[str], where: str, at: RowName
) -> tuple[str, ...]:
    """The formats of the columns of an order."""
    if isinstance(order, Order):
        return order.formats
    return tuple(find_format(table[name], name, where, at) for name in order)


def _time_rows(columns: Sequence[TimeColumn]) -> TimedRows:
    """The rows by columns of times."""
    order = Order(tuple(c.name for c in columns), tuple(c.format for c in columns))
    rank = _rank([c.numbers for c in columns])
    first = columns[0]
    if len(columns) == 1:
        unit = "second"
        if first.format in (NUMBER, dates.MONTH):
            unit = ""
        elif first.format in dates.IN_MONTHS:
            unit = "month"
        return TimedRows(order, rank, first.numbers, unit)
    parts = [part_of_date(c.name) for c in columns]
    if parts == ["year", "month"]:
        return TimedRows(order, rank, 12 * first.numbers + columns[1].numbers - 1, "month")
    if parts == ["year", "quarter"]:
        return TimedRows(order, rank, 12 * first.numbers + 3 * (columns[1].numbers - 1), "month")
    if first.kind == "date" and first.format not in dates.IN_MONTHS and len(columns) == 2:
        second = columns[1]
        if second.format == dates.TIME_OF_DAY:
            return TimedRows(order, rank, first.numbers + second.numbers, "second")
        if parts[1] == "hour":
            return TimedRows(order, rank, first.numbers + 3600 * second.numbers, "second")
    return TimedRows(order, rank, None)
