"""The times of steps: as an axis to draw sequences on, and of steps that are yet to come."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.data.tables import dates
from vijax.data.tables.rows_in_time import NUMBER, GroupedRows, TimedRows
from vijax.data.tables.table import Table
from vijax.data.tables.time_steps import equal_steps, to_months

MANY_YEARS = 730 * dates.DAY
MANY_DAYS = 4 * dates.DAY
MANY_HOURS = 14400.0
MANY_MINUTES = 300.0
"""Lengths of time, in seconds, from which years, days, hours or minutes are shown."""
YEAR = 365.25 * dates.DAY


class Times(NamedTuple):
    """The times of the steps of one sequence, as numbers to draw them at.

    Attributes:
      label: the name of the axis.
      at: the time of each step.
    """

    label: str
    at: Float[np.ndarray, " T"]

    def with_ahead(self, num_steps: int) -> Float[np.ndarray, " S"]:
        """The times, and as many more as steps ahead: at the mean distance if distances are nearly
        equal, as of months, else at the median distance."""
        distances = np.diff(self.at)
        usual = 1.0
        if len(distances):
            usual = float(np.median(distances))
        if len(distances) and distances.min() > 0 and distances.max() < 1.2 * distances.min():
            usual = float(distances.mean())
        return np.concatenate([self.at, self.at[-1] + usual * np.arange(1, num_steps + 1)])


def sequence_times(table: Table, place: int) -> Times:
    """The times of the steps of a sequence, by its place in `Table.sequences`; the numbers of the
    steps if they have no dates."""
    size = table.num_rows if table.groups is None else int(np.sum(table.groups == place))
    timed = table.timed
    if timed is None or timed.times is None:
        return Times("step", np.arange(size, dtype=float))
    first = 0 if table.groups is None else int(np.sum(table.groups < place))
    rows = table.time_order()[first : first + size]
    name = "-".join(timed.order.columns)
    at = timed.times[rows]
    if timed.unit == "month":
        return Times(f"{name}, years", at / 12)
    if timed.unit == "second":
        months = to_months(timed.times)
        if months is not None and _go_by_months(timed, table):  # months are of unequal length
            return Times(f"{name}, years", months[rows] / 12)
        is_of_day = timed.order.formats == (dates.TIME_OF_DAY,)
        return _scale_seconds(name, at, dates.TIME_OF_DAY if is_of_day else dates.ISO)
    return Times(name, at)


def _scale_seconds(name: str, at: np.ndarray, form: str) -> Times:
    """Times since 1970 in a unit that suits their range; `form` is the format of the first time."""
    length = float(np.ptp(at)) if len(at) else 0.0
    if length >= MANY_YEARS:
        return Times(f"{name}, years", 1970 + at / YEAR)
    units = (
        (MANY_DAYS, dates.DAY, "days"),
        (MANY_HOURS, 3600.0, "hours"),
        (MANY_MINUTES, 60.0, "minutes"),
    )
    fitting = [(size, unit) for least, size, unit in units if length >= least]
    size, unit = next(iter(fitting), (1.0, "seconds"))
    begin = float(at.min()) if len(at) else 0.0
    return Times(f"{name}, {unit} since {dates.format_date(begin, form)}", (at - begin) / size)


def times_ahead(table: Table, num_steps: int) -> dict[str, list[Any]]:
    """The column of times of the next steps of each sequence in turn; none if steps are unequal, or
    several columns make a time."""
    timed = table.timed
    if timed is None or timed.times is None or len(timed.order.columns) > 1:
        return {}
    steps = equal_steps(timed, GroupedRows(table.groups, table.num_rows))
    if not len(steps) or steps.min() != steps.max():
        return {}
    groups = np.zeros(table.num_rows, int) if table.groups is None else table.groups
    ends = np.flatnonzero(np.diff(np.append(groups[table.time_order()], -1)) != 0)
    last = timed.times[table.time_order()[ends]]
    ahead = np.arange(1, num_steps + 1)
    form = timed.order.formats[0]
    name = timed.order.columns[0]
    months = to_months(timed.times) if timed.unit == "second" else None
    if months is not None and _go_by_months(timed, table):
        last_months = months[table.time_order()[ends]]
        return {name: _month_days(last_months, float(steps[0]), ahead, last)}
    step = float(steps[0])
    if step.is_integer() and last.dtype.kind in "iu":
        step = int(steps[0])
    numbers = (last[:, None] + step * ahead).reshape(-1)
    if form in (NUMBER, dates.MONTH):
        return {name: numbers.tolist()}
    return {name: [dates.format_date(x, form) for x in numbers]}


def _go_by_months(timed: TimedRows, table: Table) -> bool:
    """True if dates are a month or more apart, so that steps in days are unequal."""
    assert timed.times is not None
    steps = GroupedRows(table.groups, table.num_rows).sorted_steps(timed.times)
    return bool(steps.max() > 20 * dates.DAY)


def _month_days(months: np.ndarray, step: float, ahead: np.ndarray, last: np.ndarray) -> list[str]:
    """The first, or last, days of the next months; `last` tells which."""
    next_months = (months[:, None] + step * ahead).reshape(-1).astype(int) - 12 * 1970
    days = next_months.astype("datetime64[M]").astype("datetime64[D]")
    first_second = np.datetime64(int(months[0]) - 12 * 1970, "M").astype("datetime64[s]")
    is_first = float(last[0]) == float(first_second.astype(int))
    if not is_first:
        days = (next_months + 1).astype("datetime64[M]").astype("datetime64[D]") - 1
    return [str(day) for day in days]
