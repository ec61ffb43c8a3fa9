"""Rows in time: the columns that order them, their places, and properties of numbers along them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Real

DAY = 86400.0
"""Seconds in a day."""
HALF_DAY = DAY / 2
NUMBER = "number"
"""The format of a column of numbers."""
FEWEST_EVEN = 3
FEWEST_COUNTED = 8
"""Least number of steps by which a column without a telling name is taken for one that counts: in
the order of the file, and in another."""


class Order(NamedTuple):
    """The columns that order rows, the coarsest first, such as ("year", "month").

    Attributes:
      columns: their names.
      formats: the format of each: "number", or a format of dates
        (`vijax.data.tables.dates.FORMATS`).
    """

    columns: tuple[str, ...]
    formats: tuple[str, ...]


class TimedRows(NamedTuple):
    """Rows by their order.

    Attributes:
      order: the columns that order them.
      rank: the place of each row among the different times, from 0; rows of one time share it.
      times: the time of each row as a number, as an integer if floats do not hold it; None if
        several columns make no single number.
      unit: the unit of `times`: "" for the column's own numbers, "second" since 1970 or "month"
        since year 0.
    """

    order: Order
    rank: Int[np.ndarray, " N"]
    times: Real[np.ndarray, " N"] | None
    unit: str = ""


class RowsInTime(NamedTuple):
    """The order of rows, as it was found.

    Attributes:
      timed: the rows by their order; None if nothing orders them.
      left_out: columns that number or date the rows, and so are not modelled.
      counting: columns of `left_out` that only count the rows, and do not order them.
    """

    timed: TimedRows | None
    left_out: tuple[str, ...] = ()
    counting: tuple[str, ...] = ()


class GroupedRows:
    """Rows in groups, and properties of numbers along them."""

    def __init__(self, groups: Int[np.ndarray, " N"] | None, size: int):
        self.groups = np.zeros(size, int) if groups is None else groups
        self.by_group = np.argsort(self.groups, kind="stable")
        sorted_groups = self.groups[self.by_group]
        self.inside = sorted_groups[1:] == sorted_groups[:-1]  # neighbours in one group

    def steps(self, numbers: np.ndarray) -> np.ndarray:
        """Differences from row to row of one group, in the order of the file."""
        return np.diff(numbers[self.by_group])[self.inside]

    def sorted_steps(self, numbers: np.ndarray) -> np.ndarray:
        """The same differences, with the rows of each group sorted by these numbers."""
        order = np.lexsort((numbers, self.groups))
        return np.diff(numbers[order])[self.inside]

    def rises(self, numbers: np.ndarray) -> bool:
        """True if the numbers rise strictly along the rows of each group."""
        steps = self.steps(numbers)
        return bool(len(steps) and np.all(steps > 0))

    def never_falls(self, numbers: np.ndarray) -> bool:
        """True if the numbers never fall along the rows of each group, and rise somewhere."""
        steps = self.steps(numbers)
        return bool(len(steps) and np.all(steps >= 0) and np.any(steps > 0))

    def tells_apart(self, numbers: np.ndarray) -> bool:
        """True if no two rows of a group share a number."""
        steps = self.sorted_steps(numbers)
        return bool(len(steps) and np.all(steps > 0))

    def unwrap_midnight(self, seconds: np.ndarray) -> np.ndarray:
        """Times of the day, with a day added after each fall of more than half a day, if the rows
        of each group then are in order; else unchanged.

        >>> GroupedRows(None, 3).unwrap_midnight(np.array([86000.0, 100.0, 200.0])).tolist()
        [86000.0, 86500.0, 86600.0]
        """
        in_groups = seconds[self.by_group]
        steps = np.diff(in_groups)
        falls = self.inside & (steps < -HALF_DAY)
        if not falls.any() or np.any(steps[self.inside & ~falls] < 0):
            return seconds
        days = np.concatenate([[0], np.cumsum(falls)])
        starts = np.flatnonzero(np.concatenate([[True], ~self.inside]))
        days = days - np.repeat(days[starts], np.diff(np.append(starts, len(days))))
        unwrapped = np.empty(len(seconds))
        unwrapped[self.by_group] = in_groups + DAY * days
        return unwrapped

    def leave_the_night(self, seconds: np.ndarray) -> bool:
        """True if times of the day lie about midnight: none in some twelve hours of the day, and a
        shorter gap between the last and the first time of the day."""
        order = np.lexsort((seconds, self.groups))
        steps = np.diff(seconds[order])[self.inside]
        return bool(len(steps) > 2 and steps.max() > HALF_DAY)

    def counts(self, numbers: np.ndarray) -> bool:
        """True for whole numbers that rise by one within each group, or evenly from row to row."""
        steps = self.steps(numbers)
        if len(steps) < FEWEST_EVEN:
            return False
        first = steps[0]
        if first > 0 and np.allclose(steps, first, rtol=1e-6, atol=0):
            return True
        if len(steps) < FEWEST_COUNTED or np.any(numbers != np.floor(numbers)):
            return False
        first_group = numbers[self.groups == self.groups[0]]
        if np.ptp(first_group) != len(first_group) - 1:  # so that most columns are not sorted
            return False
        return bool(np.all(self.sorted_steps(numbers) == 1))
