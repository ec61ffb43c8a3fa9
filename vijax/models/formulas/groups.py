"""Grouping factors of a formula and the group of each row. Levels of several columns are tuples,
never text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require
from vijax.data.formulas.design_columns import DesignColumns, Functions, find_monotone, learn
from vijax.data.formulas.parser import BAR
from vijax.data.formulas.syntax import Bar, Formula, Number
from vijax.data.formulas.tokens import refuse
from vijax.data.schema.labels import MISSING, Labels, Levels
from vijax.data.schema.typed_columns import TypedTable

MOST_CORRELATED = 64
"""Most effects of one group that may correlate: each pair is an unknown, and 64 effects have 2,016
pairs."""
MONOTONE = "Write mo(x) outside of bars, and (x | g) for slopes of its numbers."
SMOOTH = "Write s(x, by=g) for a function of each level."
INDEPENDENT = "Write || for effects that are independent, or fewer of them."


class NewLevels(NamedTuple):
    """Groups of a factor that training does not have.

    Attributes:
      factor: the name of the factor.
      num_rows: number of their rows.
      levels: names of these groups, in the order of the rows.
      codes: the index in `levels` for each row; -1 for rows whose group training has.
    """

    factor: str
    num_rows: int
    levels: tuple[str, ...]
    codes: Int[np.ndarray, " N"]

    def part(self, places: slice | Int[np.ndarray, " n"]) -> NewLevels:
        """The groups of some of the rows."""
        codes = self.codes[places]
        used, renumbered = np.unique(codes[codes >= 0], return_inverse=True)
        part_codes = np.full(len(codes), MISSING)
        part_codes[codes >= 0] = renumbered
        levels = tuple(self.levels[code] for code in used)
        return NewLevels(self.factor, int((codes >= 0).sum()), levels, part_codes)

    def __str__(self) -> str:
        names = ", ".join(map(repr, self.levels[:5])) + (", ..." if len(self.levels) > 5 else "")
        rows = f"{self.num_rows} row{'s' * (self.num_rows != 1)}"
        groups = f"{len(self.levels)} group{'s' * (len(self.levels) != 1)}"
        return f"{rows} of {groups} of {self.factor} that training does not have: {names}"


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """A grouping factor with its effects.

    Attributes:
      name: the columns whose values name a group, "g" or "g:h".
      levels: names of the groups as readers see them; levels of several columns are joined by a
        colon.
      labels: names of the effects; "1" is the intercept, "sigma_1" that of the formula of sigma.
      blocks: sizes of the blocks of correlated effects.
      bars: the columns of the terms before each bar, as learnt from training.
      columns: names of the columns.
      levels_by_column: the levels of each column.
      combinations: for each group the code of its level in each column, (groups, columns).
      slots: the number of the predictor that each effect enters.
    """

    name: str
    levels: tuple[str, ...]
    labels: tuple[str, ...]
    blocks: tuple[int, ...]
    bars: tuple[DesignColumns, ...]
    columns: tuple[str, ...]
    levels_by_column: tuple[Levels, ...]
    combinations: Int[np.ndarray, "groups columns"]
    slots: tuple[int, ...]

    def row_groups(self, table: TypedTable) -> Int[np.ndarray, " N"]:
        """The group of each row; -1 for a group that training does not have."""
        labels = [table.column("table", name).labels() for name in self.columns]
        pairs = zip(self.levels_by_column, labels, strict=True)
        codes = [levels.find_codes(column_labels) for levels, column_labels in pairs]
        sizes = [len(levels.names) for levels in self.levels_by_column]
        row_codes = _joint_codes(np.stack(codes, 1), sizes)
        group_codes = _joint_codes(self.combinations, sizes)
        order = np.argsort(group_codes)
        place = np.searchsorted(group_codes, row_codes, sorter=order).clip(max=len(order) - 1)
        group = order[place]
        is_known = (group_codes[group] == row_codes) & (np.min(codes, 0) >= 0)
        return np.where(is_known, group, MISSING)

    def new_levels(self, table: TypedTable, groups: Int[np.ndarray, " N"]) -> NewLevels | None:
        """The groups that training does not have; None if it has all of them."""
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
        """The columns of the effects, (N, d)."""
        return np.concatenate([bar.matrix(table).x for bar in self.bars], 1)


class _BarOfFormula(NamedTuple):
    """A bar of a formula, which is of the parameter of this name; "" for the formula of the
    response."""

    parameter: str
    slot: int
    formula: Formula
    bar: Bar


def read_factors(
    formulas: Mapping[str, Formula],
    table: TypedTable,
    functions: Functions,
    weights: Float[np.ndarray, " N"] | None = None,
) -> tuple[list[Factor], list[np.ndarray], list[np.ndarray]]:
    """The factors of formulas, the columns of their effects, and the group of each row. `formulas`
    has that of the response, "", and those of parameters by name."""
    factors, columns, groups = [], [], []
    all_bars = [
        _BarOfFormula(parameter, slot, formula, bar)
        for slot, (parameter, formula) in enumerate(formulas.items())
        for bar in formula.bars
    ]
    names_by_factor = dict.fromkeys(frozenset(part.bar.columns) for part in all_bars)  # g:h is h:g
    for names in names_by_factor:
        bars = [part for part in all_bars if frozenset(part.bar.columns) == names]
        factor = _factor(bars, table, functions, weights)
        factors.append(factor)
        columns.append(factor.effects(table))
        groups.append(factor.row_groups(table))
    return factors, columns, groups


def _factor(
    bars: Sequence[_BarOfFormula],
    table: TypedTable,
    functions: Functions,
    weights: Float[np.ndarray, " N"] | None,
) -> Factor:
    """The factor that these bars share."""
    learnt: list[DesignColumns] = []
    labels: list[str] = []
    blocks: list[int] = []
    slots: list[int] = []
    first = bars[0].bar
    formula = bars[0].formula
    for parameter, slot, bar_formula, bar in bars:
        columns = learn(bar_formula, (("+", bar.terms),), table, functions, weights)
        bar_labels = _effect_labels(bar_formula, bar, columns)
        prefix = f"{parameter}_".removeprefix("_")
        learnt.append(columns)
        labels += [prefix + label for label in bar_labels]
        blocks += [len(bar_labels)] if bar.correlated else [1] * len(bar_labels)
        slots += [slot] * len(bar_labels)
    is_repeated = len(set(labels)) < len(labels)
    name = first.factor
    remedy = "Write (0 + x | g) beside (1 | g)."
    require(not is_repeated, formula.argument, f"each effect of {name} once", labels, remedy)
    by_column = [table.column(formula.argument, column).labels() for column in first.columns]
    levels = [column_labels.levels() for column_labels in by_column]
    combinations = _combinations(by_column, levels)
    return Factor(
        name=name,
        levels=tuple(_level_name(levels, codes) for codes in combinations.tolist()),
        labels=tuple(labels),
        blocks=tuple(blocks),
        bars=tuple(learnt),
        columns=first.columns,
        levels_by_column=tuple(levels),
        combinations=combinations,
        slots=tuple(slots),
    )


def _effect_labels(formula: Formula, bar: Bar, columns: DesignColumns) -> list[str]:
    """Names of the effects of a bar. Raises ValueError for an offset, for no effect, and for too
    many that correlate."""
    argument, text = formula.argument, formula.text
    if columns.offsets:
        span = columns.offsets[0].span
        raise refuse(argument, text, span, "effects to the left of a bar", "an offset")
    expected = "columns to the left of a bar"
    for part in columns.parts:
        if (node := find_monotone(part)) is not None:
            raise refuse(argument, text, node.span, expected, repr(str(node)), MONOTONE)
    for smooth in columns.smooths:
        actual = repr(str(smooth.node))
        raise refuse(argument, text, smooth.node.span, expected, actual, SMOOTH)
    if not columns.labels:
        terms = "0" if isinstance(bar.terms, Number) else str(bar.terms)
        expected = "an effect to the left of the bar"
        raise refuse(argument, text, bar.span, expected, repr(terms), BAR)
    labels = ["1" if label == "Intercept" else label for label in columns.labels]
    if bar.correlated and len(labels) > MOST_CORRELATED:
        expected = f"at most {MOST_CORRELATED} effects of one group that correlate"
        pairs = len(labels) * (len(labels) - 1) // 2
        actual = f"{len(labels):,}, which have {pairs:,} correlations"
        raise refuse(argument, text, bar.span, expected, actual, INDEPENDENT)
    return labels


def _combinations(
    by_column: Sequence[Labels], levels: Sequence[Levels]
) -> Int[np.ndarray, "groups columns"]:
    """The distinct combinations of levels that rows have, in order."""
    pairs = zip(levels, by_column, strict=True)
    codes = np.stack([column_levels.find_codes(labels) for column_levels, labels in pairs], 1)
    sizes = [len(column_levels.names) for column_levels in levels]
    _, first = np.unique(_joint_codes(codes, sizes), return_index=True)
    return codes[first]


def _level_name(levels: Sequence[Levels], codes: Sequence[int]) -> str:
    """The name of a group, from the code of its level in each column."""
    pairs = zip(levels, codes, strict=True)
    return _group_name([column_levels.names[code] for column_levels, code in pairs])


def _joint_codes(
    codes: Int[np.ndarray, "N columns"], sizes: Sequence[int]
) -> Int[np.ndarray, " N"]:
    """Codes of several columns as one number: 64-bit integers, or Python's integers where the
    product of the sizes exceeds them."""
    exact = np.prod([float(size) for size in sizes]) < 2.0**62
    total = np.zeros(len(codes), np.int64 if exact else object)
    for column, size in enumerate(sizes):
        total = total * size + codes[:, column]
    return total


def _group_name(names: Sequence[str]) -> str:
    """The name of a group as readers see it. Parts with a colon are quoted, so that no two groups
    read alike.

    >>> _group_name(("a", "b:c")), _group_name(("a:b", "c")), _group_name(("a:b",))
    ("a:'b:c'", "'a:b':c", 'a:b')
    """
    names = tuple(names)
    if len(names) == 1:
        return names[0]
    return ":".join(repr(name) if ":" in name or name[:1] in ("'", '"') else name for name in names)
