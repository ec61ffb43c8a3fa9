"""Grouping factors of a formula: which group each row belongs to. Levels of several columns are
tuples, never text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require
from vijax.data.formulas.design_columns import DesignColumns, Functions, learn
from vijax.data.formulas.parser import BAR
from vijax.data.formulas.syntax import Bar, Formula, Number
from vijax.data.formulas.tokens import refuse
from vijax.data.schema.labels import MISSING, Labels, Levels
from vijax.data.schema.typed_columns import TypedTable

MOST_CORRELATED = 64
"""Effects of one group that correlate, at most: each pair is an unknown, and 64 of them have
2,016."""
APART = "Write || for effects that are independent, or fewer of them."


class NewLevels(NamedTuple):
    """Groups of a factor that training does not have.

    Attributes:
      factor: the name of the factor.
      num_rows: rows of such groups.
      levels: names of the groups, in the order of the rows.
      codes: the group of each row among these; -1 for one that training has.
    """

    factor: str
    num_rows: int
    levels: tuple[str, ...]
    codes: Int[np.ndarray, " N"]

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.levels[:5])) + (", ..." if len(self.levels) > 5 else "")
        rows = f"{self.num_rows} row{'s' * (self.num_rows != 1)}"
        groups = f"{len(self.levels)} group{'s' * (len(self.levels) != 1)}"
        return f"{rows} of {groups} of {self.factor} that training does not have: {shown}"


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """A grouping factor with its effects.

    Attributes:
      name: the columns whose values name a group, "g" or "g:h".
      levels: names of the groups, for people: those of several columns with a colon between.
      labels: names of the effects: "1" is the intercept.
      blocks: sizes of the blocks of effects that are correlated within.
      bars: what was learnt of the terms before each bar.
      columns: the columns.
      levels_by_column: the levels of each column.
      combinations: the place of each column's level, of each group, (groups, columns).
    """

    name: str
    levels: tuple[str, ...]
    labels: tuple[str, ...]
    blocks: tuple[int, ...]
    bars: tuple[DesignColumns, ...]
    columns: tuple[str, ...]
    levels_by_column: tuple[Levels, ...]
    combinations: Int[np.ndarray, "groups columns"]

    def row_groups(self, table: TypedTable) -> Int[np.ndarray, " N"]:
        """The group of each row; -1 for one that the rows of training do not have."""
        labels = [table.column("table", name).labels() for name in self.columns]
        codes = [
            levels.codes_of(own) for levels, own in zip(self.levels_by_column, labels, strict=True)
        ]
        sizes = [len(levels.names) for levels in self.levels_by_column]
        wanted, present = _as_one(np.stack(codes, 1), sizes), _as_one(self.combinations, sizes)
        order = np.argsort(present)
        place = np.searchsorted(present, wanted, sorter=order).clip(max=len(order) - 1)
        group = order[place]
        is_there = (present[group] == wanted) & (np.min(codes, 0) >= 0)
        return np.where(is_there, group, MISSING)

    def new_levels(self, table: TypedTable, groups: Int[np.ndarray, " N"]) -> NewLevels | None:
        """The groups that training does not have; None where it has all."""
        rows = np.flatnonzero(groups < 0)
        if not len(rows):
            return None
        texts = [table.column("table", name).labels().texts()[rows] for name in self.columns]
        names = [_group_name(parts) for parts in zip(*texts, strict=True)]
        place = {name: number for number, name in enumerate(dict.fromkeys(names))}
        codes = np.full(len(groups), MISSING)
        codes[rows] = [place[name] for name in names]
        return NewLevels(self.name, len(rows), tuple(place), codes)

    def effects(self, table: TypedTable) -> Float[np.ndarray, "N d"]:
        """The columns of its effects."""
        return np.concatenate([bar.matrix(table).x for bar in self.bars], 1)


def read_factors(
    formula: Formula, table: TypedTable, functions: Functions
) -> tuple[list[Factor], list[np.ndarray], list[np.ndarray]]:
    """The factors of a formula, the columns of their effects, and the group of each row."""
    factors, columns, groups = [], [], []
    for columns_of_factor in dict.fromkeys(
        frozenset(bar.columns) for bar in formula.bars
    ):  # g:h is h:g
        bars = [bar for bar in formula.bars if frozenset(bar.columns) == columns_of_factor]
        factor = _factor(formula, bars, table, functions)
        factors.append(factor)
        columns.append(factor.effects(table))
        groups.append(factor.row_groups(table))
    return factors, columns, groups


def _factor(
    formula: Formula, bars: Sequence[Bar], table: TypedTable, functions: Functions
) -> Factor:
    learnt = [learn(formula, (("+", bar.terms),), table, functions) for bar in bars]
    labels: list[str] = []
    blocks: list[int] = []
    for bar, columns in zip(bars, learnt, strict=True):
        if columns.offsets:
            span = columns.offsets[0].span
            raise refuse(
                formula.argument, formula.text, span, "effects to the left of a bar", "an offset"
            )
        if not columns.labels:
            text = "0" if isinstance(bar.terms, Number) else str(bar.terms)
            raise refuse(
                formula.argument,
                formula.text,
                bar.span,
                "an effect to the left of the bar",
                repr(text),
                BAR,
            )
        own = ["1" if label == "Intercept" else label for label in columns.labels]
        if bar.correlated and len(own) > MOST_CORRELATED:
            expected = f"at most {MOST_CORRELATED} effects of one group that correlate"
            pairs = len(own) * (len(own) - 1) // 2
            actual = f"{len(own):,}, which have {pairs:,} correlations"
            raise refuse(formula.argument, formula.text, bar.span, expected, actual, APART)
        labels += own
        blocks += [len(own)] if bar.correlated else [1] * len(own)
    twice = len(set(labels)) < len(labels)
    name = bars[0].factor
    require(
        not twice,
        formula.argument,
        f"each effect of {name} once",
        labels,
        "Write (0 + x | g) beside (1 | g).",
    )
    by_column = [table.column(formula.argument, column).labels() for column in bars[0].columns]
    levels = [own.levels() for own in by_column]
    combinations = _combinations(by_column, levels)
    names = [
        _group_name([own.names[code] for own, code in zip(levels, row, strict=True)])
        for row in combinations.tolist()
    ]
    return Factor(
        name,
        tuple(names),
        tuple(labels),
        tuple(blocks),
        tuple(learnt),
        bars[0].columns,
        tuple(levels),
        combinations,
    )


def _combinations(
    by_column: Sequence[Labels], levels: Sequence[Levels]
) -> Int[np.ndarray, "groups columns"]:
    """The distinct combinations of levels that rows have, in order."""
    codes = np.stack(
        [own.codes_of(labels) for own, labels in zip(levels, by_column, strict=True)], 1
    )
    _, first = np.unique(_as_one(codes, [len(own.names) for own in levels]), return_index=True)
    return codes[first]


def _as_one(codes: Int[np.ndarray, "N columns"], sizes: Sequence[int]) -> Int[np.ndarray, " N"]:
    """Codes of several columns as one number. There are too few rows for them to exceed 64 bits in
    practice, and where the product of sizes does, Python's integers take over."""
    exact = np.prod([float(size) for size in sizes]) < 2.0**62
    total = np.zeros(len(codes), np.int64 if exact else object)
    for column, size in enumerate(sizes):
        total = total * size + codes[:, column]
    return total


def _group_name(names: Sequence[str]) -> str:
    """The name of a group for people; parts with a colon stand between quotes, so that no two
    groups read alike.

    >>> _group_name(("a", "b:c")), _group_name(("a:b", "c")), _group_name(("a:b",))
    ("a:'b:c'", "'a:b':c", 'a:b')
    """
    names = tuple(names)
    if len(names) == 1:
        return names[0]
    return ":".join(repr(name) if ":" in name or name[:1] in ("'", '"') else name for name in names)
