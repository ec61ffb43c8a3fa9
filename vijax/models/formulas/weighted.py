"""Weights of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require
from vijax.data.schema.same_rows import require_one_index
from vijax.data.schema.typed_columns import TypedColumn, TypedTable, typed_table


def read_weights(weights: Any, table: TypedTable) -> Float[np.ndarray, " N"]:
    """The weights of the rows of a table: ones for None, a column by its name, or an array.

    Raises:
      ValueError: cells that are not numbers, or are masked, missing or negative; only zeros; not
        one weight for each row.

    >>> read_weights("w", typed_table({"w": [2, 0]})).tolist(), read_weights(None, typed_table({"w": [2, 0]})).tolist()
    ([2.0, 0.0], [1.0, 1.0])
    """
    size = len(table)
    if weights is None:
        return np.ones(size)
    if isinstance(weights, str):
        numbers = _numbers(table.column("weights", weights), table)
    else:
        expected = f"one for each of the {size} rows"
        require(np.shape(weights) == (size,), "weights", expected, f"shape {np.shape(weights)}")
        as_table = typed_table({"weights": weights})
        numbers = _numbers(as_table.columns["weights"], as_table)
    is_valid = (numbers >= 0) & np.isfinite(numbers)
    require(is_valid, "weights", "finite numbers that are not negative", numbers)
    require(numbers.any(), "weights", "a row of positive weight", "only zeros")
    return numbers


def read_precisions(
    precisions: Any, table: TypedTable, argument: str = "precisions"
) -> Float[np.ndarray, " N"]:
    """The precisions of the rows of a table, positive: a column by its name, or an array.

    >>> read_precisions("w", typed_table({"w": [2, 0.5]})).tolist()
    [2.0, 0.5]
    """
    if isinstance(precisions, str):
        numbers = _numbers(table.column(argument, precisions), table, argument)
    else:
        expected = f"one for each of the {len(table)} rows"
        shape = np.shape(precisions)
        require(shape == (len(table),), argument, expected, f"shape {shape}")
        as_table = typed_table({argument: precisions})
        numbers = _numbers(as_table.columns[argument], as_table, argument)
    bad = np.flatnonzero(~((numbers > 0) & np.isfinite(numbers)))
    if len(bad):
        actual = f"{numbers[bad[0]]:g} in {table.row_name(int(bad[0]))}"
        remedy = "A row that says nothing is left out by weights=, with the weight 0."
        require(False, argument, "finite positive numbers", actual, remedy)
    return numbers


def with_positive_weight(
    table: TypedTable, weights: Float[np.ndarray, " N"]
) -> tuple[TypedTable, Float[np.ndarray, " N"]]:
    """The rows of positive weight, and their weights: levels, knots and means are of these alone.

    >>> table, weights = with_positive_weight(typed_table({"x": [1, 2]}), np.array([0.0, 3.0]))
    >>> len(table), weights.tolist()
    (1, [3.0])
    """
    rows = np.flatnonzero(weights > 0)
    if len(rows) == len(weights):
        return table, weights
    return table.rows(rows), weights[rows]


def _numbers(
    column: TypedColumn, table: TypedTable, argument: str = "weights"
) -> Float[np.ndarray, " N"]:
    """The numbers of a column; ValueError if a cell has none."""
    bad = np.flatnonzero(column.missing) if column.missing.any() else column.not_numbers()
    if len(bad):
        actual = f"{str(column.values[bad[0]])[:40]!r} in {table.row_name(int(bad[0]))}"
        require(False, argument, f"numbers in {column.name!r}", actual)
    actual = f"text, all of which says numbers, in {column.name!r}"
    require(column.kind != "digits", argument, "numbers", actual, "Give numpy.asarray(..., float).")
    return column.numbers()


MOST_COPIES = 1 << 24
"""Most copies of rows that are written out."""


def row_copies(weights: Float[np.ndarray, " N"]) -> Int[np.ndarray, " copies"]:
    """Indices of rows, repeated by their weights: a row of weight 2 stands twice, one of weight 0
    not at all.

    Raises:
      ValueError: a weight that is not a whole number, or more than 16 million copies.

    >>> row_copies(np.array([2.0, 0.0, 1.0])).tolist()
    [0, 0, 2]
    """
    is_whole = np.floor(weights) == weights
    actual = ""
    if not is_whole.all():
        first = int(np.argmin(is_whole))
        actual = f"{weights[first]:g} in row {first}, counted from 0"
    remedy = (
        "What is said of rows without weights: log_lik(fit, key, table=table), fit.predict(table, "
        "key=key)."
    )
    expected = "whole numbers, for a row stands as often as its weight says"
    require(is_whole, "weights", expected, actual, remedy)
    total = float(weights.sum())
    expected = f"a sum of {MOST_COPIES:,} at most, to write out"
    require(total <= MOST_COPIES, "weights", expected, f"{total:,.0f}", remedy)
    return np.repeat(np.arange(len(weights)), weights.astype(int))


def check_alignment(weights: Any, table: Any, argument: str = "weights") -> None:
    """Raises ValueError if weights and table are pandas objects whose indices differ: by position
    the weights would go to other rows."""
    if isinstance(table, Mapping):
        require_one_index({"table": table, argument: weights})
    weights_index: Any = getattr(weights, "index", None)
    table_index: Any = getattr(table, "index", None)
    if not hasattr(weights_index, "equals") or not hasattr(table_index, "equals"):
        return
    remedy = (
        f"Pass {argument}.loc[table.index], or {argument}.to_numpy() for numbers in the order of "
        "the rows."
    )
    actual = "one with other labels, or in another order"
    require(
        weights_index.equals(table_index),
        argument,
        "a Series with the index of the table",
        actual,
        remedy,
    )
