"""Rows at which answers are given: those of training, of another table, or of a grid of values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require
from vijax.data.schema.labels import Levels
from vijax.data.schema.typed_columns import TypedColumn, TypedTable, typed_table
from vijax.models.formulas.answers.variables import (
    Variable,
    find_variable,
    group_columns,
    term_columns,
    with_column,
)
from vijax.numerals import format_number

MOST_CELLS = 1_000_000
"""Most rows of a grid."""
WORDS = ("rows", "typical", "balanced")
"""Values of `newdata` beside a table: the rows of training; one row of means and of most frequent
levels; all combinations of levels, with numbers at their means."""


class Grid(NamedTuple):
    """Rows at which answers are given.

    Attributes:
      table: the rows.
      weights: weights of the rows in averages.
      columns: the columns whose values vary by `at`, or by a grid, in order.
      is_grid: True for typical or balanced rows.
      has_groups: True if the rows name their groups; those of a grid, if `at` does.
      lacking: columns of groups that the rows do not have; their cells stand in, and are not used.
      words: the rows in words.
    """

    table: TypedTable
    weights: Float[np.ndarray, " N"]
    columns: tuple[str, ...]
    is_grid: bool
    has_groups: bool
    lacking: tuple[str, ...]
    words: str


def choose_rows(newdata: Any, at: Mapping[str, Any] | None) -> Any:
    """`newdata`; for None typical values if there are values in `at`, else the rows of training."""
    if newdata is None:
        return WORDS[bool(at)]
    return newdata


def make_grid(model: Any, newdata: Any, at: Mapping[str, Any] | None) -> Grid:
    """The rows of `newdata`, and of `at`, as `Glmm.predictions` describes them."""
    if at is None:
        at = {}
    require(isinstance(at, Mapping), "at", "values by column: {'x': [1, 2]}", type(at).__name__)
    newdata = choose_rows(newdata, at)
    is_word = isinstance(newdata, str) and newdata in WORDS
    if is_word and newdata != "rows":
        columns, words = _representative_columns(model, newdata, at)
        table = _cross(model, columns)
        varied = tuple(name for name, column in columns.items() if len(column.values) > 1)
        listed = tuple(dict.fromkeys((*at, *varied)))
        table, lacking = _with_group_columns(model, table)
        has_groups = set(group_columns(model)) <= set(at)
        return Grid(table, np.ones(len(table)), listed, True, has_groups, lacking, words)
    if is_word:
        table, weights, words = model.table, model.weights, "the rows of training"
    else:
        table = typed_table(newdata, model.schema.labels, model.schema.numbers)
        require(len(table) > 0, "newdata", "a row or more", "none")
        weights, words = np.ones(len(table)), f"the {len(table):,} rows of newdata"
    if at:
        table, weights = _with_values(model, table, weights, at)
    table, lacking = _with_group_columns(model, table)
    return Grid(table, weights, tuple(at), False, not lacking, lacking, words)


def _with_group_columns(model: Any, table: TypedTable) -> tuple[TypedTable, tuple[str, ...]]:
    """The table with the columns that name groups, and those that it lacked: their cells are then
    those of a row of training, and are not used."""
    lacking = tuple(name for name in group_columns(model) if name not in table)
    for name in lacking:
        training = model.table.column("table", name)
        table = with_column(table, training.rows(np.zeros(len(table), int)))
    return table, lacking


def _representative_columns(
    model: Any, word: str, at: Mapping[str, Any]
) -> tuple[dict[str, TypedColumn], str]:
    """The distinct values of each column of a grid, and the fixed ones in words."""
    columns: dict[str, TypedColumn] = {}
    fixed = []
    extra_columns = [name for name in at if name not in term_columns(model)]
    for name in (*term_columns(model), *extra_columns):
        variable = find_variable(model, name, "at")
        if name in at:
            columns[name] = values_column(variable, at[name], "at")
        elif word == "balanced" and (variable.names or variable.is_binary):
            columns[name] = _all_levels(variable)
        else:
            columns[name], text = _typical(variable)
            fixed.append(text)
    words = {"typical": "representative values", "balanced": "a balanced grid of levels"}[word]
    if fixed:
        words += f" ({', '.join(fixed)})"
    return columns, words


def _all_levels(variable: Variable) -> TypedColumn:
    if variable.is_binary:
        return variable.number_column(np.array([0.0, 1.0]))
    return variable.level_column(np.arange(len(variable.names)))


def _typical(variable: Variable) -> tuple[TypedColumn, str]:
    """The mean of numbers, the most frequent of levels and of 0 and 1; and its words."""
    name = variable.name
    if variable.names:
        code = variable.most_frequent()
        return variable.level_column(np.array([code])), f"{name} = {variable.names[code]!r}"
    value = variable.centre
    if variable.is_binary:
        value = float(value > 0.5)
    return variable.number_column(np.array([value])), f"{name} = {format_number(value)}"


def values_column(variable: Variable, values: Any, argument: str) -> TypedColumn:
    """One value or several as a column; ValueError for levels that training does not have."""
    cells = [values]
    if np.ndim(values):
        cells = list(values)
    require(bool(cells), argument, f"a value of {variable.name!r} or more", "none")
    if variable.names:
        codes = [variable.code(cell, argument) for cell in cells]
        return variable.level_column(np.array(codes))
    try:  # text too, as the command line has it
        numbers = np.array([float(cell) for cell in cells])
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    finite = np.isfinite(numbers)
    require(finite, argument, f"finite numbers for {variable.name!r}", repr(values))
    return variable.number_column(numbers)


def _cross(model: Any, columns: Mapping[str, TypedColumn]) -> TypedTable:
    """All combinations of the values of columns; the last column varies first."""
    sizes = [len(column.values) for column in columns.values()]
    total = int(np.prod(sizes, dtype=float))
    expected = f"a grid of at most {MOST_CELLS:,} rows"
    require(total <= MOST_CELLS, "at", expected, f"{total:,}", "Leave values or columns out.")
    places = np.array(list(itertools.product(*map(range, sizes)))).reshape(total, len(sizes))
    crossed = {name: column.rows(places[:, i]) for i, (name, column) in enumerate(columns.items())}
    return TypedTable(crossed, total)


def _with_values(
    model: Any, table: TypedTable, weights: np.ndarray, at: Mapping[str, Any]
) -> tuple[TypedTable, np.ndarray]:
    """Every row at all combinations of the values of `at`."""
    columns = {
        name: values_column(find_variable(model, name, "at"), values, "at")
        for name, values in at.items()
    }
    combinations = _cross(model, columns)
    size, copies = len(table), len(combinations)
    repeated = table.rows(np.tile(np.arange(size), copies))
    for name in columns:
        values = combinations.columns[name].rows(np.repeat(np.arange(copies), size))
        repeated = with_column(repeated, values)
    return repeated, np.tile(weights, copies)


class Cells(NamedTuple):
    """Cells of a table by some of its columns.

    Attributes:
      code: the cell of each row.
      labels: the value of each column in each cell.
    """

    code: Int[np.ndarray, " N"]
    labels: dict[str, np.ndarray]

    @property
    def num_cells(self) -> int:
        """Number of cells."""
        return int(self.code.max(initial=-1)) + 1


def make_cells(model: Any, table: TypedTable, by: Sequence[str]) -> Cells:
    """The cells of rows by columns, in the order of levels, or of numbers."""
    codes = []
    values = []
    for name in by:
        column_names = list(table.columns)
        remedy = "Columns that the formula does not read: pass newdata=table, which has them."
        require(
            name in table, "by", f"a column of the table, of {column_names}", repr(name), remedy
        )
        column = table.columns[name]
        levels = _levels(model, name, column)
        if levels is None:
            distinct, code = np.unique(column.numbers(), return_inverse=True)
        else:
            distinct = np.array([*levels.names, ""], object)
            code = levels.find_codes(column.labels())
            code = np.where(code < 0, len(levels.names), code)
        codes.append(code)
        values.append(distinct)
    if not codes:
        return Cells(np.zeros(len(table), int), {})
    combinations, code = np.unique(np.stack(codes, 1), axis=0, return_inverse=True)
    labels = {name: values[i][combinations[:, i]] for i, name in enumerate(by)}
    return Cells(code.reshape(-1), labels)


def _levels(model: Any, name: str, column: TypedColumn) -> Levels | None:
    """The levels of training where the formula has the column and they are all, else those of the
    table; None for numbers."""
    is_number = column.kind == "number" and not column.missing.any()
    if name in (*term_columns(model), *group_columns(model)):
        levels = find_variable(model, name, "by").levels
        is_number = is_number and levels is None
        if levels is not None and not (levels.find_codes(column.labels()) < 0).any():
            return levels
    if is_number:
        return None
    return column.labels().levels()
