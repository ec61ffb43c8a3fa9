"""Monotone terms `mo(x)`: an ordered column as steps from each value to the next.

The term is b D sum_{k <= x} s_k, where x counts 0, ..., D and the D shares s of the steps sum to
one; b is the mean step (Buerkner and Charpentier 2020, "Modelling monotonic effects of ordinal
predictors in Bayesian regression models"). It is b x + sum_k b (D s_k - 1) [x >= k], so that x is a
column like others, and the indicators are columns whose coefficients b and s give."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.data.formulas.arguments import order_levels, read_arguments
from vijax.data.formulas.functions import Reading, column_numbers
from vijax.data.formulas.syntax import Call, Column
from vijax.data.schema.labels import Levels, are_numbers

MOST_STEPS = 100
"""Most steps of a column: each is an unknown."""


class Steps(NamedTuple):
    """The values of a column in training, in their order.

    Attributes:
      column: the column.
      levels: its levels as they rise; None for whole numbers.
      low: the least number.
      size: D, the number of steps.
    """

    column: Column
    levels: Levels | None
    low: int
    size: int


def learn_steps(node: Call, reading: Reading) -> Steps:
    """The values of mo(x), of whole numbers or an ordered column, or of mo(h, levels=["lo", "hi"]).

    Raises:
      ValueError: text without an order, numbers that are not whole, one value or too many.
    """
    arguments = read_arguments(node, ("x", "levels"), reading)
    column = arguments["x"]
    if not isinstance(column, Column):
        raise reading.refuse(node, "mo(column)", repr(str(node)), "Steps are those of a column.")
    typed = reading.column(column)
    levels = None
    low = 0
    if "levels" in arguments:
        names = order_levels(arguments["levels"], typed.labels(), reading)
        levels = Levels(names, typed.labels().kind)
        size = len(names) - 1
    elif typed.kind == "label" and typed.ordered:
        levels = typed.labels().levels()
        size = len(levels.names) - 1
    else:
        if typed.kind in ("label", "digits") and not are_numbers(typed.labels().levels().names):
            raise _unordered_error(node, column, typed.labels().levels(), reading)
        numbers = column_numbers(column, reading)
        bad = np.flatnonzero(numbers % 1)
        if len(bad):
            row = int(bad[0])
            actual = f"{numbers[row]:g} in {reading.table.row_name(row)} ({len(bad)} such)"
            raise reading.refuse(node, f"whole numbers in {column.name!r}", actual)
        low = int(numbers.min())
        size = int(numbers.max()) - low
    if not 1 <= size <= MOST_STEPS:
        expected = f"2 to {MOST_STEPS + 1} values of {column.name!r}, in steps of one"
        raise reading.refuse(node, expected, f"{size + 1:,}")
    return Steps(column, levels, low, size)


def _unordered_error(node: Call, column: Column, levels: Levels, reading: Reading) -> ValueError:
    names = list(levels.names[:20])
    remedy = f"Write mo({column}, levels={names}) as they rise, or give an ordered column."
    actual = f"text, {names}, whose letters say none"
    return reading.refuse(node, f"values of {column.name!r} in an order", actual, remedy)


def step_codes(node: Call, steps: Steps, reading: Reading) -> Float[np.ndarray, " N"]:
    """x, the number of the value of each row, from 0; ValueError for another value than those from
    the least to the largest of training."""
    if steps.levels is not None:
        labels = reading.column(steps.column).labels()
        codes = steps.levels.find_codes(labels)
        bad = np.flatnonzero(codes < 0)
        expected = f"values of {steps.column.name!r} that training has, {list(steps.levels.names)}"
        if len(bad):
            row = int(bad[0])
            actual = f"{labels.texts()[row]!r} in {reading.table.row_name(row)} ({len(bad)} such)"
            raise reading.refuse(node, expected, actual)
        return codes.astype(float)
    numbers = column_numbers(steps.column, reading) - steps.low
    bad = np.flatnonzero((numbers < 0) | (numbers > steps.size) | (numbers % 1 != 0))
    if len(bad):
        row = int(bad[0])
        high = steps.low + steps.size
        extent = f"from {steps.low} to {high}, as in training"
        expected = f"whole numbers of {steps.column.name!r} {extent}"
        actual = f"{numbers[row] + steps.low:g} in {reading.table.row_name(row)} ({len(bad)} such)"
        raise reading.refuse(node, expected, actual)
    return numbers


def step_indicators(codes: Float[np.ndarray, " N"], size: int) -> Float[np.ndarray, "N D"]:
    """1 where x is k or more, else 0, for k = 1, ..., D.

    >>> step_indicators(np.array([0.0, 2.0]), 2).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    return (codes[:, None] >= 1 + np.arange(size)).astype(float)
