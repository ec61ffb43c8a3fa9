"""The response of a formula: numbers, successes among trials, or categories."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.data.formulas.design_columns import Functions
from vijax.data.formulas.functions import (
    CLASS_COUNTS,
    COMPARISONS,
    RESPONSES,
    Reading,
    evaluate,
    find_columns,
)
from vijax.data.formulas.syntax import Call, Column, Formula, Node, Number, Operation, Text
from vijax.data.formulas.tokens import refuse
from vijax.data.schema.labels import Levels, are_numbers
from vijax.data.schema.typed_columns import TypedColumn, TypedTable
from vijax.models.formulas.laws import Law
from vijax.models.formulas.observation import (
    Facts,
    Observation,
    check_law,
    read_observation,
)

ResponseKind = Literal["numbers", "trials", "level", "categories", "counts"]
"""numbers: the values themselves; trials: successes among trials; counts: those of each category;
level: 1 where a column has the level, else 0; categories: numbers of the categories."""


@dataclasses.dataclass(frozen=True, eq=False)
class Response:
    """A way to read a response.

    Attributes:
      formula: the formula.
      node: the expression to the left of ~.
      kind: how it is read.
      levels: levels of its column, for categories and for a level.
      level: the level that counts as 1.
      categories: names of the categories in their order, the base first; empty for other kinds.
      functions: the user's own functions.
      statistics: numbers learnt from the rows of training.
      observation: the way in which it is known in part; None if it is known itself.
    """

    formula: Formula
    node: Node
    kind: ResponseKind
    levels: Levels | None
    level: str
    categories: tuple[str, ...]
    functions: Functions
    statistics: dict
    observation: Observation | None = None

    @property
    def value(self) -> Node:
        """The response itself, without what is said of its errors, censoring or bounds."""
        if self.observation is None:
            return self.node
        return self.observation.value

    @property
    def has_sigma(self) -> bool:
        """False where known standard errors stand in place of sigma."""
        return self.observation is None or self.observation.has_sigma

    def facts(self, table: TypedTable) -> Facts:
        """Numbers of rows beside the response, by name."""
        if self.observation is None:
            return {}
        return self.observation.read_facts(self._reading(table))

    def _reading(self, table: TypedTable) -> Reading:
        formula = self.formula
        statistics = dict(self.statistics)
        return Reading(table, formula.text, formula.argument, statistics, self.functions, False)

    @property
    def name(self) -> str:
        """Its name: the column, or the text of the expression."""
        column = _find_column(self.value)
        if column is not None:
            return column.name
        return str(self.value)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(find_columns(self.node))

    def values(
        self, table: TypedTable
    ) -> tuple[Float[np.ndarray, " N *K"], Float[np.ndarray, " N"]]:
        """The response of rows and their numbers of trials; counts are those of each category."""
        reading = self._reading(table)
        ones = np.ones(len(table))
        if self.kind == "trials":
            return _successes(self.node, reading)
        if self.kind == "counts":
            counts = _read_counts(self.node, self.categories, reading)
            return counts, counts.sum(1)
        if self.kind == "numbers":
            return evaluate(self.value, reading), ones
        column = _find_column(self.node)
        assert column is not None
        assert self.levels is not None
        labels = reading.column(column).labels()
        codes = self.levels.find_codes(labels)
        names = [*self.levels.names, ""]
        bad = np.flatnonzero(codes < 0)
        actual = f"{labels.texts()[bad[0]]!r} in {table.row_name(int(bad[0]))}" if len(bad) else ""
        categories = list(self.categories or self.levels.names)
        require(
            not len(bad),
            "table",
            f"categories of {column.name} that training has: {categories}",
            actual,
        )
        if self.kind == "level":
            return np.array([name == self.level for name in names], float)[codes], ones
        place = {name: number for number, name in enumerate(self.categories)}
        return np.array([place.get(name, -1) for name in names], float)[codes], ones


def given_response(formula: Formula) -> Response:
    """The response of a formula whose numbers were given beside the table."""
    assert formula.response is not None
    return Response(formula, formula.response, "numbers", None, "", (), {}, {})


def read_response(
    formula: Formula,
    table: TypedTable,
    law: Law,
    base: str | None,
    functions: Functions,
    order: Sequence[Any] | None = None,
    weights: Float[np.ndarray, " N"] | None = None,
) -> Response:
    """Decides from the rows of training how the response of a formula is read."""
    node = formula.response
    require(node is not None, formula.argument, "response ~ terms", repr(formula.text))
    assert node is not None
    for name in find_columns(node):
        table.column(formula.argument, name)

    def make(
        kind: ResponseKind,
        levels: Levels | None = None,
        level: str = "",
        categories: tuple[str, ...] = (),
    ) -> Response:
        response = Response(
            formula, node, kind, levels, level, categories, functions, {}, observation
        )
        if kind != "numbers":
            return response
        statistics = _learn_statistics(response, table, weights)
        return dataclasses.replace(response, statistics=statistics)

    observation = read_observation(formula)
    if observation is not None:
        check_law(formula, observation, law)
        return make("numbers")
    has_counts = isinstance(node, Call) and node.function == CLASS_COUNTS
    if law.has_counts or has_counts:
        categories = _counted_categories(formula, node, law, base)
        return make("counts", None, "", categories)
    if law.is_ordered:
        return make("categories", *_ordered_categories(formula, node, table, order))
    if law.categories:
        return make("categories", *_categories(formula, node, table, base))
    if isinstance(node, Call) and node.function in RESPONSES:
        return make("trials")
    column = _find_column(node)
    is_level = isinstance(node, Call) and node.function == "[]"
    if column is None:
        return make("numbers")
    if not is_level and table.columns[column.name].kind not in ("label", "mixed", "digits"):
        return make("numbers")
    typed = table.columns[column.name]
    levels = typed.labels().levels()
    if is_level:
        assert isinstance(node, Call)
        return make("level", levels, _find_level(formula, node, levels))
    _check_two_categories(formula, node, typed, table, levels)
    return make("level", levels, levels.names[1])


def _check_two_categories(
    formula: Formula, node: Node, column: TypedColumn, table: TypedTable, levels: Levels
) -> None:
    """Raises ValueError unless a response column of text has two categories."""
    if column.kind == "mixed":
        bad = int(column.not_numbers()[0])
        actual = f"{str(column.values[bad])[:40]!r} in {table.row_name(bad)}"
        expected = f"numbers in {column.name!r}"
        argument, text = formula.argument, formula.text
        raise refuse(argument, text, node.span, expected, actual, "Correct the cell.")
    _check_not_near_numbers(formula, node, column, table)
    number = len(levels.names)
    if number == 1:
        actual = f"one category, {levels.names[0]!r}, in all rows"
        remedy = "Nothing is left to model."
    else:
        actual = f"{number} categories"
        remedy = 'Or family="categorical".'
    expected = "a response of numbers or of two categories"
    require(number == 2, formula.argument, expected, actual, remedy)


def family_of_response(formula: Formula, table: TypedTable) -> str:
    """The name of the law for a response, by the kind of its column."""
    node = formula.response
    if node is None:
        return "gaussian"
    if isinstance(node, Call) and node.function in RESPONSES:
        return "binomial"
    if isinstance(node, Call) and node.function == CLASS_COUNTS:
        return "multinomial"
    if isinstance(node, Call) and node.function == "[]":
        return "bernoulli"
    if isinstance(node, Call) and node.function == "I" and len(node.arguments) == 1:
        return family_of_response(dataclasses.replace(formula, response=node.arguments[0]), table)
    if isinstance(node, Operation) and node.operator in COMPARISONS:
        return "bernoulli"
    if not isinstance(node, Column):
        return "gaussian"
    column = table.column(formula.argument, node.name)
    if column.kind == "truth":
        return "bernoulli"
    if column.kind not in ("label", "digits"):
        return "gaussian"
    _check_not_near_numbers(formula, node, column, table)
    if len(column.labels().names) <= 2:
        return "bernoulli"
    if column.kind == "digits":
        expected = f"a response of numbers, or a family, for {node.name!r}"
        remedy = (
            f"Give numbers, numpy.asarray(table[{node.name!r}], float), or write "
            'family="categorical".'
        )
        raise refuse(
            formula.argument,
            formula.text,
            node.span,
            expected,
            "text, all of which says numbers",
            remedy,
        )
    return "categorical"


def _check_not_near_numbers(
    formula: Formula, node: Node, column: TypedColumn, table: TypedTable
) -> None:
    """Raises ValueError if the texts of a response mean numbers."""
    numbers = column.near_numbers
    if numbers is None or numbers.are_few:
        return
    place = f"{table.row_name(numbers.place)} of {column.name!r}"
    actual = f"{numbers.cell[:40]!r} in {place}, and texts like it"
    remedy = f'Write {numbers.advice}, and so in all rows; or family="categorical".'
    raise refuse(
        formula.argument,
        formula.text,
        node.span,
        "numbers, or texts that mean none",
        actual,
        remedy,
    )


def _learn_statistics(
    response: Response, table: TypedTable, weights: Float[np.ndarray, " N"] | None
) -> dict:
    """The numbers that functions in the response take from the rows of training."""
    formula = response.formula
    statistics: dict = {}
    reading = Reading(
        table, formula.text, formula.argument, statistics, response.functions, True, weights
    )
    if not any(table.columns[name].missing.any() for name in response.columns):
        evaluate(response.value, reading)
        if response.observation is not None:  # bounds may have statistics of their own
            response.observation.read_facts(reading)
    return statistics


def _find_column(node: Node) -> Column | None:
    """The column, for a response that is a column or one of its levels; else None."""
    if isinstance(node, Call) and node.function == "[]" and isinstance(node.arguments[0], Column):
        return node.arguments[0]
    return node if isinstance(node, Column) else None


def _find_level(formula: Formula, node: Call, levels: Levels) -> str:
    level = node.arguments[1]
    assert isinstance(level, Text)
    code = levels.find_code(level.text)
    if code < 0:
        first_levels = list(levels.names[:20])
        raise refuse(
            formula.argument,
            formula.text,
            level.span,
            f"one of the levels {first_levels}",
            repr(level.text),
        )
    return levels.names[code]


def _ordered_categories(
    formula: Formula, node: Node, table: TypedTable, order: Sequence[Any] | None
) -> tuple[Levels, str, tuple[str, ...]]:
    """(levels, "", categories) of a column, in the order that is given or that the table declares,
    else by number. Raises ValueError for text without an order: letters say none."""
    levels, level, categories = _categories(formula, node, table, None)
    assert isinstance(node, Column)
    if order is not None:
        codes = [levels.find_code(value) for value in order]
        is_complete = sorted(codes) == list(range(len(categories)))
        expected = f"each category of {node.name} once: {list(categories)}"
        require(is_complete, "order", expected, list(order))
        return levels, level, tuple(categories[code] for code in codes)
    column = table.columns[node.name]
    if column.ordered or column.kind in ("number", "truth", "time") or are_numbers(categories):
        return levels, level, categories
    expected = f"categories of {node.name!r} in an order"
    actual = f"text, {list(categories[:20])}, whose letters say none"
    remedy = (
        f"Give order={list(categories[:20])} as they rise, numbers, or "
        "pandas.Categorical(column, categories=[...], ordered=True)."
    )
    raise refuse(formula.argument, formula.text, node.span, expected, actual, remedy)


def _categories(
    formula: Formula, node: Node, table: TypedTable, base: str | None
) -> tuple[Levels, str, tuple[str, ...]]:
    """(levels, "", categories) of a column, in the order that the table declares, else by number or
    letter."""
    remedy = (
        "Numbers, text or an ordered column of pandas; C(...) and functions of it are not read."
    )
    if not isinstance(node, Column):
        expected = "a column of categories as the response"
        raise refuse(formula.argument, formula.text, node.span, expected, repr(str(node)), remedy)
    levels = table.columns[node.name].labels().levels()
    if len(levels.names) < 2:
        actual = f"one, {levels.names[0]!r}, in all rows" if levels.names else "none"
        expected = f"two categories or more of {node.name!r}"
        raise refuse(
            formula.argument, formula.text, node.span, expected, actual, "Nothing is left to model."
        )
    if base is None:
        return levels, "", levels.names
    code = levels.find_code(base)
    require(code >= 0, "base", f"a category of {node.name}: {list(levels.names)}", repr(base))
    first = levels.names[code]
    return levels, "", (first, *(level for level in levels.names if level != first))


def _counted_categories(
    formula: Formula, node: Node, law: Law, base: str | None
) -> tuple[str, ...]:
    """The columns of c(y1, y2, ...), the base first."""
    argument, text = formula.argument, formula.text
    if not isinstance(node, Call) or node.function != CLASS_COUNTS:
        expected = 'counts by category, c(y1, y2, y3), for "multinomial"'
        remedy = 'Or family="categorical", for a column of one category in each row.'
        raise refuse(argument, text, node.span, expected, repr(str(node)), remedy)
    if not law.has_counts:
        expected = 'family="multinomial", for counts by category'
        raise refuse(argument, text, node.span, expected, repr(law.name), "Or leave family= out.")
    names = [part.name for part in node.arguments if isinstance(part, Column)]
    is_complete = len(names) == len(node.arguments) and not node.named
    if not is_complete or len(names) < 2 or len(set(names)) < len(names):
        expected = "c(y1, y2, ...), two different columns or more"
        raise refuse(argument, text, node.span, expected, repr(str(node)))
    if base is None:
        return tuple(names)
    require(base in names, "base", f"one of the columns {names}", repr(base))
    return (base, *(name for name in names if name != base))


def _read_counts(
    node: Node, categories: tuple[str, ...], reading: Reading
) -> Float[np.ndarray, "N K"]:
    """The counts of each category; ValueError for others, and for rows without any."""
    assert isinstance(node, Call)
    columns = {str(part): (part, evaluate(part, reading)) for part in node.arguments}
    for part, counts in columns.values():
        bad = np.flatnonzero((counts < 0) | (counts % 1 != 0))
        if len(bad):
            row = reading.table.row_name(int(bad[0]))
            actual = f"{counts[bad[0]]:g} in {row} ({len(bad)} such)"
            raise reading.refuse(part, f"counts 0, 1, 2, ... in {part}", actual)
    by_name = {part.name: counts for part, counts in columns.values() if isinstance(part, Column)}
    table = np.stack([by_name[name] for name in categories], 1)
    empty = np.flatnonzero(table.sum(1) == 0)
    if len(empty):
        actual = f"none in {reading.table.row_name(int(empty[0]))} ({len(empty)} such)"
        remedy = "Rows of zeros say nothing of the shares: leave them out."
        raise reading.refuse(node, "a count or more in each row", actual, remedy)
    return table


def _successes(node: Node, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Successes and trials of p(successes, trials)."""
    assert isinstance(node, Call)
    if len(node.arguments) != 2 or node.named:
        raise reading.refuse(node, f"{node.function}(successes, trials)", repr(str(node)))
    for argument in node.arguments:
        if not isinstance(argument, Column | Number):
            raise reading.refuse(argument, "a column, or a number of trials", repr(str(argument)))
    successes, trials = (evaluate(argument, reading) for argument in node.arguments)
    bad = np.flatnonzero(
        (successes < 0) | (successes > trials) | (successes % 1 != 0) | (trials % 1 != 0)
    )
    if len(bad):
        row = int(bad[0])
        actual = (
            f"{successes[row]:g} of {trials[row]:g} in {reading.table.row_name(row)} ({len(bad)} "
            "such)"
        )
        raise reading.refuse(node, "whole numbers of successes, 0 to the number of trials", actual)
    empty = np.flatnonzero(trials == 0)
    if len(empty):
        actual = f"none in {reading.table.row_name(int(empty[0]))} ({len(empty)} such)"
        remedy = "Rows without trials say nothing of the odds: leave them out."
        raise reading.refuse(node, "a trial or more in each row", actual, remedy)
    return successes, trials
