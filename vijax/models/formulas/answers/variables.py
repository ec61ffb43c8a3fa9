"""Columns of a formula as variables, with levels or numbers, and tables in which one of them is
set."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require
from vijax.data.formulas.design_columns import DesignColumns, is_monotone
from vijax.data.formulas.functions import find_columns
from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.data.schema.labels import Levels
from vijax.data.schema.typed_columns import TypedColumn, TypedTable


@dataclasses.dataclass(frozen=True, eq=False)
class Variable:
    """A column that a formula reads, beside the response.

    Attributes:
      name: its name.
      column: its cells in the rows of training.
      weights: weights of these rows.
      levels: its levels; None for numbers.
      base: the place of the base level.
    """

    name: str
    column: TypedColumn
    weights: Float[np.ndarray, " N"]
    levels: Levels | None = None
    base: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the levels; empty for numbers."""
        if self.levels is None:
            return ()
        return self.levels.names

    @property
    def is_binary(self) -> bool:
        """True for numbers that are 0 and 1."""
        if self.levels is not None:
            return False
        return np.unique(self.column.numbers()).tolist() == [0, 1]

    @property
    def centre(self) -> float:
        """The weighted mean of its numbers."""
        return float(mean_and_spread(self.column.numbers(), self.weights)[0])

    @property
    def spread(self) -> float:
        """The weighted standard deviation of its numbers."""
        return float(mean_and_spread(self.column.numbers(), self.weights)[1])

    def codes(self, column: TypedColumn) -> Int[np.ndarray, " N"]:
        """The place of the level of each row of any table; -1 for a level that is not known."""
        assert self.levels is not None
        return self.levels.find_codes(column.labels())

    def code(self, value: Any, argument: str) -> int:
        """The place of a level; ValueError if training does not have it."""
        assert self.levels is not None
        code = self.levels.find_code(value)
        expected = f"levels of {self.name!r}, {list(self.names[:20])}"
        require(code >= 0, argument, expected, repr(value))
        return code

    def most_frequent(self) -> int:
        """The place of the most frequent level."""
        counts = np.bincount(self.codes(self.column), self.weights, len(self.names))
        return int(np.argmax(counts))

    def level_column(self, codes: Int[np.ndarray, " N"]) -> TypedColumn:
        """A column with these levels: cells of training."""
        training = self.codes(self.column)
        cells = np.array([int(np.argmax(training == place)) for place in range(len(self.names))])
        column = self.column.rows(cells[codes])
        is_absent = ~np.isin(codes, training)
        if not is_absent.any():
            return column
        # Rows of one response among many may lack a level of the design: its name stands for it.
        values = np.where(is_absent, np.array(self.names, object)[codes], column.values)
        texts = None
        if column.texts is not None:
            texts = np.where(is_absent, values, column.texts)
        return dataclasses.replace(column, values=values, texts=texts)

    def number_column(self, values: Float[np.ndarray, " N"]) -> TypedColumn:
        """A column with these numbers."""
        return TypedColumn(self.name, np.asarray(values, float), decided=self.column.kind)


def with_column(table: TypedTable, column: TypedColumn) -> TypedTable:
    """The table with a column replaced or added."""
    return dataclasses.replace(table, columns={**table.columns, column.name: column})


def term_columns(model: Any) -> tuple[str, ...]:
    """The columns that the terms read, also those before bars."""
    names = [name for terms in _all_terms(model) for name in terms.columns]
    return tuple(dict.fromkeys(names))


def group_columns(model: Any) -> tuple[str, ...]:
    """The columns that name groups."""
    names = [name for factor in model.design.factors for name in factor.columns]
    return tuple(dict.fromkeys(names))


def find_variable(model: Any, name: str, argument: str) -> Variable:
    """A column of the formula as a variable; ValueError for another name.

    Numbers are levels where terms read them as categories, `C(k)`, as values of `mo(k)`, or as
    names of groups, alone."""
    names = list(dict.fromkeys((*term_columns(model), *group_columns(model))))
    require(name in names, argument, f"columns of the terms, of {names}", repr(name))
    column = model.table.column("table", name)
    categories = [
        category
        for terms in _all_terms(model)
        for category in terms.categories.values()
        if category.column.name == name
    ]
    are_numbers = column.kind == "number" and any(
        name in _number_columns(terms) for terms in _all_terms(model)
    )
    if are_numbers:
        return Variable(name, column, model.weights)
    if not categories:
        levels = _monotone_levels(model, name) or column.labels().levels()
        return Variable(name, column, model.weights, levels)
    category = categories[0]
    rows_of_zeros = np.flatnonzero(~category.contrast.matrix.any(1)).tolist()
    base = [*rows_of_zeros, 0][0]
    return Variable(name, column, model.weights, category.levels, base)


def _monotone_levels(model: Any, name: str) -> Levels | None:
    """The levels of a monotone term, as they rise; None without such a term, or for numbers."""
    for terms in _all_terms(model):
        for node in terms.numbers:
            if is_monotone(node) and name in find_columns(node):
                return terms.statistics[str(node)].levels
    return None


def _all_terms(model: Any) -> Iterator[DesignColumns]:
    """The terms outside bars, and those before each bar."""
    yield from model.design.learnt
    for factor in model.design.factors:
        yield from factor.bars


def _number_columns(terms: DesignColumns) -> list[str]:
    """The columns that terms read as numbers, but for values of monotone terms."""
    numbers = [node for node in terms.numbers if not is_monotone(node)]
    multipliers = [term.by for term in terms.smooths if term.by is not None and not term.levels]
    nodes = [*numbers, *terms.offsets, *multipliers]
    return [name for node in nodes for name in find_columns(node)]
