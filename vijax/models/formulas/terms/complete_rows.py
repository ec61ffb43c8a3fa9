"""The rows of a table with all cells of a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from vijax.checks import require
from vijax.data.formulas.design_columns import Functions
from vijax.data.formulas.parser import parse
from vijax.data.schema.typed_columns import TypedTable, typed_table
from vijax.models.formulas.formula import check_functions, merge, named_columns


class LeftOut(NamedTuple):
    """Rows that lack a cell of the formula, and were left out.

    Attributes:
      num_rows: their number.
      num_all: the number of all rows.
      rows: their names in messages, the first five of them.
      cells: (column, number of missing cells) for each column that lacks some.
    """

    num_rows: int
    num_all: int
    rows: str
    cells: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        cells = ", ".join(f"{name!r} {number:,}" for name, number in self.cells)
        return (
            f"{self.num_rows:,} of {self.num_all:,} rows lack a cell of the formula and are left "
            f"out: {self.rows}. Missing cells by column: {cells}."
        )


class CompleteRows(NamedTuple):
    """The rows of a table with all cells of a formula.

    Attributes:
      table: these rows.
      places: their places in the table.
      weights: their weights, as they were given.
      left_out: the other rows; None if there are none.
    """

    table: TypedTable
    places: Int[np.ndarray, " rows"]
    weights: Any
    left_out: LeftOut | None


def find_complete_rows(
    formulas: Sequence[str],
    table: TypedTable,
    weights: Any,
    functions: Functions | None,
    precisions: Any = None,
) -> CompleteRows:
    """The rows of a table with all cells that formulas, and columns of weights and of precisions,
    read.

    Raises:
      ValueError: a column is missing, no row has all cells, or there is not one weight for each
        row.

    >>> table = typed_table({"y": [1.0, None, 3.0], "x": [1.0, 2.0, 3.0]})
    >>> find_complete_rows(["y ~ x"], table, None, None).places.tolist()
    [0, 2]
    """
    functions = check_functions(functions)
    first, *further = (parse(formula, functions=functions) for formula in formulas)
    names = list(named_columns(merge(first, further)))
    names += [name for name in (weights, precisions) if isinstance(name, str)]
    masks = {name: table.column("table", name).missing for name in dict.fromkeys(names)}
    masks = {name: mask for name, mask in masks.items() if mask.any()}
    if not masks:
        return CompleteRows(table, np.arange(len(table)), weights, None)
    is_incomplete = np.any(list(masks.values()), axis=0)
    expected = "a row with all cells of the formula"
    require(not is_incomplete.all(), "table", expected, f"none of {len(table):,}")
    incomplete = np.flatnonzero(is_incomplete)
    rows = np.flatnonzero(~is_incomplete)
    cells = tuple((name, int(mask.sum())) for name, mask in masks.items())
    left_out = LeftOut(len(incomplete), len(table), table.list_rows(incomplete.tolist()), cells)
    weights = take_rows(weights, rows, len(table))
    return CompleteRows(table.rows(rows), rows, weights, left_out)


def take_rows(weights: Any, rows: np.ndarray, size: int, argument: str = "weights") -> Any:
    """The weights, or precisions, of some rows."""
    if weights is None or isinstance(weights, str):
        return weights
    expected = f"one for each of the {size} rows"
    require(np.shape(weights) == (size,), argument, expected, f"shape {np.shape(weights)}")
    return typed_table({argument: weights}).columns[argument].values[rows]
