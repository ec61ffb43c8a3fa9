"""Remarks on rows in time: the columns that order them, and whether their steps are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.data.reading.checks import Notes, listed
from vijax.data.tables import dates
from vijax.data.tables.rows_in_time import GroupedRows, RowsInTime, TimedRows


def say_order(
    in_time: RowsInTime, groups: Int[np.ndarray, " N"] | None, modelled: Sequence[str], notes: Notes
) -> None:
    """Notes the columns that order the rows, those that are left out for it, and unequal steps or
    shared times."""
    timed = in_time.timed
    if timed is None:
        return
    rows = GroupedRows(groups, len(timed.rank))
    names = listed(timed.order.columns)
    num_moved = int(np.sum(np.lexsort((timed.rank, rows.groups)) != rows.by_group))
    elsewhere = ""
    if num_moved:
        elsewhere = f"; {num_moved:,} of {len(timed.rank):,} stood elsewhere in the file"
    groups_text = "" if groups is None else " within their groups"
    notes.add(
        f"Rows are in the order of {names}{groups_text} (data.order; none: as they lie){elsewhere}."
    )
    out = [name for name in in_time.left_out if name not in modelled]
    if out:
        verb = "say when or which a row is, and are"
        if len(out) == 1:
            verb = "says when or which a row is, and is"
        notes.add(
            f"{listed(out)} {verb} not modelled; to have it so, name all columns in data.columns."
        )
    shared = int(np.sum(rows.sorted_steps(timed.rank) == 0))
    if shared:
        notes.add(
            f"{shared:,} rows share {names} with the row before them in their group, and stay in "
            "file order."
        )
    _say_steps(timed, rows, notes)


def _say_steps(timed: TimedRows, rows: GroupedRows, notes: Notes) -> None:
    """Notes unequal steps of time."""
    steps = equal_steps(timed, rows)
    if not len(steps) or steps.min() == steps.max() or steps.min() == 0:
        return
    different, counts = np.unique(steps, return_counts=True)
    usual = float(different[counts.argmax()])
    num_other = int(np.sum(~np.isclose(steps, usual, rtol=1e-3)))
    unit = _unit(timed, usual)
    low, high, middle = (_short(value / unit.size) for value in (steps.min(), steps.max(), usual))
    notes.add(
        f"Steps of {listed(timed.order.columns)} are unequal, from {low} to {high}{unit.name}, "
        f"{num_other:,} of {len(steps):,} other than {middle}: the model takes all steps as "
        "equal. A row of empty cells may fill a gap where the model takes missing values."
    )


def equal_steps(timed: TimedRows, rows: GroupedRows) -> Float[np.ndarray, " S"]:
    """The steps of time from row to row of one group. Steps that are equal but for rounding are set
    equal; dates on one day of the month are counted in months."""
    if timed.times is None:
        return np.zeros(0)
    steps = rows.sorted_steps(timed.times)
    if timed.unit == "second" and len(steps) and (months := to_months(timed.times)) is not None:
        by_month = rows.sorted_steps(months)
        if by_month.min() == by_month.max():
            return by_month
    if len(steps) and np.allclose(steps, np.median(steps), rtol=1e-3, atol=0):
        return np.full(len(steps), np.median(steps))
    return steps


def to_months(seconds: np.ndarray) -> np.ndarray | None:
    """Months since year 0, if all dates are on the first day of a month, or all on the last; else
    None."""
    days = (seconds // dates.DAY).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    starts = months.astype("datetime64[D]") == days
    ends = (days + 1).astype("datetime64[M]") != months
    if np.any(seconds % dates.DAY) or not (starts.all() or ends.all()):
        return None
    return months.astype(int) + 12.0 * 1970


class Unit(NamedTuple):
    """A unit of time: its size in seconds (else 1), and the text behind a number."""

    size: float
    name: str


def _unit(timed: TimedRows, usual: float) -> Unit:
    if timed.unit == "month":
        return Unit(1.0, " months")
    if timed.unit == "":
        return Unit(1.0, "")
    for size, name in ((dates.DAY, " days"), (3600.0, " hours"), (60.0, " minutes")):
        if usual >= size:
            return Unit(size, name)
    return Unit(1.0, " seconds")


def _short(value: float) -> str:
    return f"{value:.4g}"
