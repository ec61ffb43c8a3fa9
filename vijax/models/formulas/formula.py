"""Formulas such as `y ~ x + (x | g)` and a table, as arrays: the response, columns of common effects, and groups.

Package formulae reads what stands outside the bars, and the terms to the left of each bar. Bars themselves are read
here, as lme4 has them (Bates, Maechler, Bolker and Walker 2015, table 2): effects of one bar are correlated, `||` makes
them independent, `g/h` stands for `g` and `g:h`.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require
from vijax.data.tables.columns import FileColumns, are_missing, origin_of
from vijax.data.tables.table_files import read_columns
from vijax.extras import require_extra
from vijax.models.formulas.laws import LAWS, Law

BAR = "Write group effects in parentheses: y ~ x + (x | g), or (x || g) where they are independent."


class Bar(NamedTuple):
    """A term of group effects, as it is written.

    Attributes:
      terms: what stands to the left of the bar.
      factor: the columns whose values name a group, "g" or "g:h".
      correlated: False for `||`.
    """

    terms: str
    factor: str
    correlated: bool


def split(formula: str) -> tuple[str, list[Bar]]:
    """A formula without its bars, and the bars.

    >>> split("y ~ x + (x | g) + (1 || a/b)")
    ('y ~ x', [Bar(terms='x', factor='g', correlated=True), Bar(terms='1', factor='a', correlated=False), \
Bar(terms='1', factor='a:b', correlated=False)])
    """
    sides = formula.split("~")
    require(len(sides) == 2 and sides[0].strip(), "formula", "response ~ terms", repr(formula))
    common, bars = [], []
    for term in map(str.strip, _at_top(sides[1], "+")):
        inner = term[1:-1] if term.startswith("(") and term.endswith(")") else ""
        parts = _at_top(inner, "|")
        if len(parts) == 1:
            require("|" not in term, "formula", "bars in parentheses", repr(term), BAR)
            common.append(term)
            continue
        ok = len(parts) == 2 or (len(parts) == 3 and not parts[1].strip())
        require(ok and parts[-1].strip(), "formula", "one bar in each term of group effects", repr(term), BAR)
        nested = [name.strip() for name in parts[-1].split("/")]
        names = [
            ":".join(part.strip(" `") for part in ":".join(nested[: i + 1]).split(":")) for i in range(len(nested))
        ]
        bars += [Bar(parts[0].strip(), name, len(parts) == 2) for name in names]
    return f"{sides[0].strip()} ~ {' + '.join(common) or '1'}", bars


def _at_top(text: str, mark: str) -> list[str]:
    """The parts of a text between marks outside all parentheses."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """A grouping factor with its effects.

    Attributes:
      name: the columns whose values name a group, "g" or "g:h".
      levels: names of the groups.
      labels: names of the effects: "1" is the intercept.
      blocks: sizes of the blocks of effects that are correlated within.
      bars: what formulae made of the terms before each bar.
    """

    name: str
    levels: tuple[str, ...]
    labels: tuple[str, ...]
    blocks: tuple[int, ...]
    bars: tuple[Any, ...]


class Rows(NamedTuple):
    """Rows of a table, as a regression reads them.

    Attributes:
      x: columns of common effects, (N, p).
      offset: known part of the predictor, (N,).
      z: columns of the effects of each factor, (N, d).
      groups: the group of each row by factor, (N,); -1 for one that the training rows do not have.
    """

    x: Float[np.ndarray, "N p"]
    offset: Float[np.ndarray, " N"]
    z: tuple[Float[np.ndarray, "N d"], ...]
    groups: tuple[Int[np.ndarray, " N"], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Design:
    """A formula and what was learnt of its columns, for the rows of training and for new rows.

    Attributes:
      formula: as it was given.
      response: name of the response.
      y: the response, (N,).
      trials: number of trials of each row, (N,); ones where the response is no proportion.
      labels: names of the columns of common effects; "Intercept" is that of ones.
      categorical: which of these code categories alone.
      factors: the grouping factors, that with the most effects first.
      rows: the rows of training.
      levels: the categories of the response in their order, where it is read as one of categories: y are their numbers.
        Of named ones the base comes first.
      against: those that have a predictor of their own, against the base; empty where there is one predictor.
      common: what formulae made of the terms outside bars.
      observed: what it made of the response.
    """

    formula: str
    response: str
    y: Float[np.ndarray, " N"]
    trials: Float[np.ndarray, " N"]
    labels: tuple[str, ...]
    categorical: tuple[bool, ...]
    factors: tuple[Factor, ...]
    rows: Rows
    common: Any
    observed: Any
    levels: tuple[str, ...] = ()
    against: tuple[str, ...] = ()

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the coefficients: of the columns, one after the other, for each predictor."""
        return tuple(at_level(label, level) for label in self.labels for level in self.against or (None,))

    def seen(self, table: Any) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """The response of other rows, and their trials; ValueError where its column is missing."""
        frame = frame_of(table)
        require_whole(frame, f"{self.formula.split('~')[0]} ~ 1")
        if self.levels:
            return _numbered(frame, self.response, self.levels), np.ones(len(frame))
        if self.observed.kind == "categoric" and self.response in frame:
            of_second = _texts(frame[self.response].to_numpy()) == str(self.observed.levels[-1])
            return of_second.astype(float), np.ones(len(frame))
        with _speaking("table", frame):
            matrices = require_extra("formulae", "formula").design_matrices
            return _response(matrices(f"{self.formula.split('~')[0]} ~ 1", frame, na_action="error").response)

    def rows_of(self, table: Any) -> Rows:
        """Other rows: splines have the knots of training, categories its levels.

        Raises:
          ValueError: a column is missing, has missing values, or a value that no row of training has.
        """
        frame = frame_of(table)
        require_whole(frame, self.formula.split("~")[1])
        with _speaking("table", frame):
            common = None if self.common is None else self.common.evaluate_new_data(frame)
            x, offset, labels, _ = _columns(common, len(frame))
            x = x[:, [label in self.labels for label in labels]]
            bars = [[bar.evaluate_new_data(frame) for bar in factor.bars] for factor in self.factors]
        z = tuple(np.concatenate([_columns(bar, len(frame))[0] for bar in own], 1) for own in bars)
        places = [{level: i for i, level in enumerate(factor.levels)} for factor in self.factors]
        names = [_names(frame, factor.name) for factor in self.factors]
        groups = tuple(np.array([at.get(name, -1) for name in own]) for at, own in zip(places, names, strict=True))
        return Rows(x, offset, z, groups)


def at_level(name: str, level: str | None) -> str:
    """The name of a coefficient for one category of the response, as Bambi has it.

    >>> at_level("x", "b"), at_level("h[v]", "b"), at_level("x", None)
    ('x[b]', 'h[v, b]', 'x')
    """
    if level is None:
        return name
    return f"{name[:-1]}, {level}]" if name.endswith("]") else f"{name}[{level}]"


def read(formula: str, table: Any, law: Law = LAWS["gaussian"], base: str | None = None) -> Design:
    """Reads a formula and a table.

    Args:
      formula: `response ~ terms`, as `vijax.glmm` describes it.
      table: columns by name (a dict, a table of pandas, polars or pyarrow), or the path of a file.
      law: of the response: whether it has categories. Ordered ones have no intercept.
      base: the category that others are compared with; None takes the first. For named categories.

    Raises:
      ValueError: a formula that cannot be read, a column that the table lacks, missing values.
    """
    require(isinstance(formula, str), "formula", "text", type(formula).__name__)
    frame = frame_of(table)
    fixed, bars = split(formula)
    require_whole(frame, formula)
    matrices = require_extra("formulae", "formula").design_matrices
    with _speaking("formula", frame):
        made = matrices(fixed, frame, na_action="error")
        own = {bar: matrices(bar.terms, frame, na_action="error").common for bar in bars}
    x, offset, labels, categorical = _columns(made.common, len(frame))
    factors, z, groups = [], [], []
    for name in dict.fromkeys(bar.factor for bar in bars):
        factor, columns, places = _factor(name, [(bar, own[bar]) for bar in bars if bar.factor == name], frame)
        factors.append(factor)
        z.append(columns)
        groups.append(places)
    levels: tuple[str, ...] = ()
    if law.categories:
        levels = _levels(frame, made.response.name)
        if base is not None:
            require(base in levels, "base", f"a category of {made.response.name}: {list(levels)}", repr(base))
            levels = (base, *(level for level in levels if level != base))
        y, trials = _numbered(frame, made.response.name, levels), np.ones(len(frame))
    if law.ordered:
        slopes = [label != "Intercept" for label in labels]
        x, categorical = x[:, slopes], tuple(np.array(categorical, bool)[slopes].tolist())
        labels = tuple(label for label in labels if label != "Intercept")
    elif not law.categories:
        y, trials = _response(made.response)
    order = sorted(range(len(factors)), key=lambda i: -len(factors[i].levels) * len(factors[i].labels))
    factors = [factors[i] for i in order]
    rows = Rows(x, offset, tuple(z[i] for i in order), tuple(groups[i] for i in order))
    kept = made.common, made.response, levels, levels[1:] if law.named else ()
    return Design(formula, made.response.name, y, trials, labels, categorical, tuple(factors), rows, *kept)


def _levels(frame: Any, response: str) -> tuple[str, ...]:
    """The categories of a column: in the order of a table of pandas that has one, else by number or letter."""
    remedy = "Numbers, text or an ordered column of pandas; C(...) and functions of it are not read."
    require(response in frame, "formula", "a column of categories as the response", repr(response), remedy)
    column = frame[response]
    known = column.cat.categories if hasattr(column, "cat") else np.unique(column.to_numpy())
    found = tuple(_texts(np.asarray(known)).tolist())
    seen = set(_texts(column.to_numpy()).tolist())
    return tuple(level for level in found if level in seen)


def _numbered(frame: Any, response: str, levels: tuple[str, ...]) -> np.ndarray:
    """The numbers of categories, from 0."""
    require_column("table", response, frame)
    places = {level: i for i, level in enumerate(levels)}
    texts = _texts(frame[response].to_numpy())
    bad = [text for text in texts if text not in places]
    require(not bad, "table", f"categories of {response} that training has: {list(levels)}", repr((bad or [""])[0]))
    return np.array([places[text] for text in texts], float)


def frame_of(table: Any) -> Any:
    """A table of pandas, for formulae; that of a file has its lines as the index, and None for a missing cell."""
    pandas = require_extra("pandas", "formula")
    if isinstance(table, pandas.DataFrame):
        return table
    if (of := origin_of(table, "") if isinstance(table, FileColumns) else None) is not None:
        cells = {
            name: np.where(are_missing(column), np.array(None), column) if column.dtype == object else column
            for name, column in table.items()
        }
        return pandas.DataFrame(cells, pandas.Index(of.numbers, name=of.called))
    if isinstance(table, Mapping):
        return pandas.DataFrame(dict(table))
    if hasattr(table, "to_pandas"):
        return table.to_pandas()
    require(isinstance(table, str), "table", "columns by name, a table, or a path", type(table).__name__)
    return frame_of(read_columns(table))


def require_whole(frame: Any, formula: str) -> None:
    """Raises ValueError where columns that a formula names have missing values, with their rows: lines of a file, else
    rows counted from 0; where two have one name, or a term is of dates. A formula without ~ is its right side."""
    left, _, right = formula.rpartition("~")
    fixed, bars = split(f"{left or 'y'} ~ {right}")
    fixed = fixed if left else fixed.partition("~")[2]
    describe = require_extra("formulae", "formula").model_description
    with _speaking("formula", frame):
        terms = set().union(*(describe(terms).var_names for terms in (fixed, *(bar.terms for bar in bars))))
    named = terms.union(*(bar.factor.split(":") for bar in bars))
    _require_readable(frame, terms, named)
    found = {name: np.flatnonzero(frame[name].isna()) for name in frame.columns if name in named}
    found = {name: rows for name, rows in found.items() if len(rows)}
    of_file = frame.index.name in ("line", "row")
    called, places = (frame.index.name, frame.index) if of_file else ("row", range(len(frame)))
    got = " and ".join(
        f"none of {name!r} in {called}{'s' * (len(rows) > 1)} {', '.join(str(places[row]) for row in rows[:5])}"
        f"{', ...' * (len(rows) > 5)} ({len(rows)} such)"
        for name, rows in found.items()
    )
    remedy = f"Remove these rows, with pandas as table.dropna(subset={list(found)}), or fill them in."
    got += "" if of_file else ", counted from 0"
    require(not found, "table", "values in all columns of the formula", got, remedy)


def _require_readable(frame: Any, terms: set[str], named: set[str]) -> None:
    twice = sorted(set(frame.columns[frame.columns.duplicated()]) & named)
    require(not twice, "table", "one column of each name in the formula", f"several columns {twice}", "Rename them.")
    dates = [name for name in frame.columns if name in terms and frame[name].dtype.kind in "Mm"]
    remedy = "Make them numbers: (table[name] - table[name].min()).dt.days."
    require(not dates, "table", "numbers, text or categories in the terms of the formula", f"dates in {dates}", remedy)


def _factor(name: str, bars: Sequence[tuple[Bar, Any]], frame: Any) -> tuple[Factor, np.ndarray, np.ndarray]:
    names = _names(frame, name)
    levels, groups = np.unique(names, return_inverse=True)
    columns, labels, blocks = [], [], []
    for bar, matrix in bars:
        z, _, found, _ = _columns(matrix, len(frame))
        require(len(found) > 0, "formula", "an effect to the left of the bar", repr(bar.terms), BAR)
        columns.append(z)
        labels += ["1" if label == "Intercept" else label for label in found]
        blocks += [len(found)] if bar.correlated else [1] * len(found)
    twice = len(set(labels)) < len(labels)
    require(not twice, "formula", f"each effect of {name} once", labels, "Write (0 + x | g) beside (1 | g).")
    made = Factor(name, tuple(levels.tolist()), tuple(labels), tuple(blocks), tuple(matrix for _, matrix in bars))
    return made, np.concatenate(columns, 1), groups


def _names(frame: Any, factor: str) -> np.ndarray:
    """The name of the group of each row: of `g:h` both names."""
    columns = factor.split(":")
    for name in columns:
        require_column("table", name, frame)
    texts = [_texts(frame[name].to_numpy()) for name in columns]
    found = texts[0]
    for more in texts[1:]:
        found = np.char.add(np.char.add(found, ":"), more)
    return found


def _texts(values: np.ndarray) -> np.ndarray:
    """Values as text, whole numbers without a point."""
    whole = values.dtype.kind == "f" and np.all(values == np.floor(values))
    return values.astype(np.int64 if whole else values.dtype).astype(str)


def _columns(matrix: Any, size: int) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], tuple[bool, ...]]:
    """Columns of effects, the offset, the labels of the columns, and which code categories alone."""
    offset, columns, labels, categorical = np.zeros(size), [np.zeros((size, 0))], [], []
    for term, data in _terms(matrix):
        data = np.asarray(data, float).reshape(size, -1) if np.ndim(data) else np.full((size, 1), float(data))
        if term.kind == "offset":
            offset = offset + data[:, 0]
            continue
        columns.append(data)
        labels += term.labels
        parts = getattr(getattr(term, "term", term), "components", ())
        plain = bool(parts) and all(getattr(part, "kind", "") == "categoric" for part in parts)
        categorical += [plain] * data.shape[1]
    return np.concatenate(columns, 1), offset, tuple(labels), tuple(categorical)


def _terms(matrix: Any) -> list[tuple[Any, Any]]:
    return [] if matrix is None else [(term, matrix[name]) for name, term in matrix.terms.items()]


def _response(response: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values and trials; of two categories 1 is the second."""
    y = np.asarray(response.design_matrix)
    y = y.reshape(len(y), -1)
    if response.kind == "proportion":
        return y[:, 0].astype(float), y[:, 1].astype(float)
    if response.kind == "categoric":
        known = y.shape[1] in (1, 2)
        require(known, "formula", "a response of numbers or of two categories", f"{y.shape[1]} categories")
    return y[:, -1].astype(float), np.ones(len(y))


def require_column(argument: str, name: str, frame: Any) -> None:
    """Raises ValueError where a table has no such column, with the columns that it has and the nearest name."""
    near = difflib.get_close_matches(str(name), list(map(str, frame.columns)), 1)
    remedy = f"Did you mean {near[0]!r}?" if near else ""
    require(name in frame, argument, f"a column {name!r} in the table", f"columns {list(frame.columns)}", remedy)


class _speaking:
    """Errors of formulae, as a ValueError that names the argument."""

    def __init__(self, argument: str, frame: Any):
        self.argument, self.frame = argument, frame

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, KeyError | NameError):
            name = error.name if isinstance(error, NameError) else error.args[0]
            if isinstance(name, str) and name.isidentifier():
                require_column(self.argument, name, self.frame)
        if isinstance(error, Exception):
            text = " ".join(str(error).split())
            raise ValueError(f"{self.argument}: formulae cannot read it: {text}") from error
