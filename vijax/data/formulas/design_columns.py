"""Terms as columns of numbers: learnt from the training rows, and computed in the same way for
later rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.data.formulas import bases, contrasts
from vijax.data.formulas.algebra import INTERCEPT, Term, Terms, expand_terms
from vijax.data.formulas.arguments import (
    find_level_codes,
    only_argument,
    order_levels,
    read_arguments,
    read_level,
    read_number,
    read_truth,
    read_whole,
)
from vijax.data.formulas.contrasts import Codes, full_ranks
from vijax.data.formulas.functions import (
    MOST_COLUMNS,
    SMOOTHS,
    Reading,
    check_categories,
    evaluate,
    find_columns,
    not_numbers_error,
)
from vijax.data.formulas.monotone import learn_steps, step_codes, step_indicators
from vijax.data.formulas.row_statistics import count_weights
from vijax.data.formulas.smooths import Block, SmoothTerm, learn_smooth
from vijax.data.formulas.syntax import (
    Call,
    Column,
    Formula,
    Node,
    Several,
)
from vijax.data.schema.labels import Labels, Levels
from vijax.data.schema.typed_columns import TypedTable

MOST_CELLS = 2**29
"""The most numbers in the columns of a formula: 4 GB."""
MOST_POLYNOMIAL = 95
"""The most levels of polynomial contrasts, as in R: with more they are no polynomials in
float64."""
BY = "Write s(x, by=z): z multiplies the function, or each level of z has one."
GROUPS = "Write categories of many levels as group effects: (1 | g)."
Functions = Mapping[str, Callable[..., Any]]


class Matrix(NamedTuple):
    """The columns of terms for some rows.

    Attributes:
      x: the columns, (N, p).
      offset: the known part of the predictor, (N,).
      steps: indicators of the steps of monotone terms, (N, steps of all).
    """

    x: Float[np.ndarray, "N p"]
    offset: Float[np.ndarray, " N"]
    steps: Float[np.ndarray, "N D"]


@dataclasses.dataclass(frozen=True)
class Category:
    """A column of categories.

    node: the part of the formula: a column, or C(...).
    column: the column.
    levels: the levels in training.
    contrast: its codes if another term has the constant.
    """

    node: Node
    column: Column
    levels: Levels
    contrast: Codes

    def codes(self, whole: bool) -> Codes:
        """The columns of codes: one for each level (`whole`), or contrasts."""
        return contrasts.full(self.levels.names) if whole else self.contrast


@dataclasses.dataclass(frozen=True)
class Numbers:
    """A part of numbers, with the names of its columns: "" for a single one, several for splines.
    `label` is its name where that is not its text; `columns` are full names in place of these."""

    node: Node
    names: tuple[str, ...]
    label: str = ""
    columns: tuple[str, ...] | None = None


class Part(NamedTuple):
    """Columns of one term, with categories by level or by contrasts.

    Attributes:
      term: its factors.
      whole: the categories that have a column for each level.
    """

    term: Term
    whole: frozenset[Node]


class StepColumns(NamedTuple):
    """The steps of a monotone term.

    Attributes:
      label: the name of its column.
      size: number of steps, two or more.
    """

    label: str
    size: int


@dataclasses.dataclass(frozen=True, eq=False)
class DesignColumns:
    """The columns of terms as learnt: levels, contrasts, knots and statistics of the training rows.

    Attributes:
      formula: the formula of the terms.
      parts: the parts, in the order of the columns.
      categories: the categories by node.
      numbers: the parts of numbers by node.
      offsets: known parts of the predictor.
      statistics: numbers of the training rows, by the text of their part.
      functions: the user's own functions.
      labels: names of the columns.
      categorical: whether each column codes only categories.
      steps: the steps of monotone terms, in the order of their columns.
      smooths: the smooth terms.
    """

    formula: Formula
    parts: tuple[Part, ...]
    categories: Mapping[Node, Category]
    numbers: Mapping[Node, Numbers]
    offsets: tuple[Call, ...]
    statistics: Mapping[str, Any]
    functions: Functions
    labels: tuple[str, ...]
    categorical: tuple[bool, ...]
    steps: tuple[StepColumns, ...] = ()
    smooths: tuple[SmoothTerm, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the terms name."""
        nodes = [*(node for part in self.parts for node in part.term), *self.offsets]
        return tuple(dict.fromkeys(name for node in nodes for name in find_columns(node)))

    def matrix(self, table: TypedTable) -> Matrix:
        """The columns of some rows. Nothing is learnt from them.

        Raises:
          ValueError: a column is missing, has a level that training does not have, or a value that
            is not finite.
        """
        return _Maker(self, self._reading(table)).matrix()

    def smooth_blocks(self) -> tuple[Block, ...]:
        """The blocks of columns of smooth terms."""
        return tuple(block for term in self.smooths for block in term.blocks())

    def smooth_columns(self, table: TypedTable) -> tuple[Float[np.ndarray, "N q"], ...]:
        """The columns of each block of smooth terms, for some rows."""
        reading = self._reading(table)
        return tuple(x for term in self.smooths for x in term.block_columns(reading))

    def _reading(self, table: TypedTable) -> Reading:
        return _reading(self.formula, table, dict(self.statistics), self.functions, False)

    def beyond(self, table: TypedTable) -> tuple[str, ...]:
        """Notes about rows beyond the training values, where splines continue."""
        reading = self._reading(table)
        notes = []
        for node in self.numbers:
            if not (isinstance(node, Call) and node.function == "bs"):
                continue
            knots, _ = self.statistics[str(node)]
            values = evaluate(node.arguments[0], reading)
            number = int(((values < knots[0]) | (values > knots[-1])).sum())
            if number:
                rows = f"{number} row{'s' * (number > 1)} of {node.arguments[0]}"
                notes.append(
                    f"{rows} lie beyond {knots[0]:g} to {knots[-1]:g}, where the splines of "
                    "training end: the last polynomial goes on."
                )
        notes += filter(None, (term.beyond(reading) for term in self.smooths))
        return tuple(notes)


def learn(
    formula: Formula,
    addends: Sequence[tuple[str, Node]],
    table: TypedTable,
    functions: Functions,
    weights: Float[np.ndarray, " N"] | None = None,
) -> DesignColumns:
    """Learns the columns of terms from the training rows.

    Args:
      formula: the formula, for messages.
      addends: signs and parts, of the formula itself or to the left of a bar.
      table: the training rows, without missing cells in the named columns.
      functions: the user's own functions.
      weights: positive weights of the rows, by which means, deviations and quantiles count; None
        for ones.

    Raises:
      ValueError: a column is missing or of another kind, a category has one level, or a value is
        not finite.
    """
    return _Learner(formula, table, functions, weights).learn(expand_terms(formula, addends))


def _reading(
    formula: Formula,
    table: TypedTable,
    statistics: dict[str, Any],
    functions: Functions,
    learning: bool,
    weights: Float[np.ndarray, " N"] | None = None,
) -> Reading:
    return Reading(table, formula.text, formula.argument, statistics, functions, learning, weights)


# --- learning -------------------------------------------------------------------------------------
class _Learner:
    """The training rows, and what was learnt from them so far."""

    def __init__(
        self,
        formula: Formula,
        table: TypedTable,
        functions: Functions,
        weights: Float[np.ndarray, " N"] | None,
    ):
        self.formula = formula
        self.table = table
        self.functions = functions
        self.statistics: dict[str, Any] = {}
        self.reading = _reading(formula, table, self.statistics, functions, True, weights)
        self.categories: dict[Node, Category] = {}
        self.numbers: dict[Node, Numbers] = {}

    def learn(self, terms: Terms) -> DesignColumns:
        """The columns of terms."""
        for node in dict.fromkeys(node for term in terms.terms for node in term):
            self.learn_factor(node)
        for offset in terms.offsets:
            evaluate(only_argument(offset, self.reading), self.reading)
        parts = self.parts(terms.terms)
        smooths = self.smooths(parts)
        labels, categorical = self.names(parts)
        design = DesignColumns(
            self.formula,
            parts,
            self.categories,
            self.numbers,
            terms.offsets,
            self.statistics,
            self.functions,
            labels,
            categorical,
            self.step_columns(parts),
            smooths,
        )
        self.check_size(design)
        return design

    def learn_factor(self, node: Node) -> None:
        """Learns the levels, knots or statistics of a factor."""
        if isinstance(node, Call) and node.function in ("C", "S", "T"):
            self.categories[node] = _category_of_call(node, self.reading)
            return
        if isinstance(node, Column):
            column = self.reading.column(node)
            if column.kind == "label":
                check_categories(node, column, self.reading)
                self.categories[node] = _category(node, node, column.labels(), None, self.reading)
                return
            if column.kind not in ("number", "truth"):
                raise not_numbers_error(node, column, self.reading)
        if isinstance(node, Call) and node.function == "cs":
            remedy = "cs(x) + cs(z), outside of products and of bars."
            raise self.reading.refuse(node, "cs(...) as a term of its own", str(node), remedy)
        if isinstance(node, Call) and node.function == "bs":
            self.numbers[node] = _learn_splines(node, self.reading)
        elif isinstance(node, Call) and node.function == "poly":
            self.numbers[node] = _learn_polynomials(node, self.reading)
        elif isinstance(node, Call) and node.function in SMOOTHS:
            smooth = learn_smooth(node, self.reading)
            self.statistics[str(node)] = smooth
            self.numbers[node] = Numbers(node, (), columns=smooth.straight_names())
        elif isinstance(node, Call) and node.function == "mo":
            steps = learn_steps(node, self.reading)
            self.statistics[str(node)] = steps
            self.numbers[node] = Numbers(node, ("",), f"mo({steps.column})")
        else:
            evaluate(node, self.reading)
            self.numbers[node] = Numbers(node, ("",))

    def parts(self, terms: Sequence[Term]) -> tuple[Part, ...]:
        """The columns of each term: its categories without those that earlier terms have with the
        same numbers."""
        used: dict[frozenset[Node], set[frozenset[Any]]] = {}
        parts: list[Part] = []
        for term in terms:
            numbers = frozenset(node for node in term if node in self.numbers)
            categories = [node for node in term if node in self.categories]
            for subterm in full_ranks(categories, used.setdefault(numbers, set())):
                factors = tuple(node for node in term if node in numbers or node in subterm)
                whole = frozenset(node for node, is_whole in subterm.items() if is_whole)
                parts.append(Part(factors, whole))
        return tuple(parts)

    def smooths(self, parts: Sequence[Part]) -> tuple[SmoothTerm, ...]:
        """The smooth terms, which stand alone."""
        smooths: list[SmoothTerm] = []
        labels: list[str] = []
        for part in parts:
            for node in part.term:
                if not (isinstance(node, Call) and node.function in SMOOTHS):
                    continue
                if len(part.term) > 1:
                    actual = ":".join(map(str, part.term))
                    raise self.reading.refuse(node, f"{node} as a term of its own", actual, BY)
                smooths.append(self.statistics[str(node)])
                labels += [block.label for block in smooths[-1].blocks()]
                if len(set(labels)) < len(labels):
                    remedy = "One term has all functions of a column."
                    raise self.reading.refuse(node, "smooth terms once", labels[-1], remedy)
        return tuple(smooths)

    def step_columns(self, parts: Sequence[Part]) -> tuple[StepColumns, ...]:
        """The steps of the columns with a monotone factor."""
        steps: list[StepColumns] = []
        for part in parts:
            node = find_monotone(part)
            if node is None:
                continue
            if sum(map(is_monotone, part.term)) > 1:
                expected = "one mo(...) in a term"
                raise self.reading.refuse(node, expected, ":".join(map(str, part.term)))
            size = self.statistics[str(node)].size
            if size > 1:
                steps += [StepColumns(label, size) for label in self.part_names(part)]
        return tuple(steps)

    def names(self, parts: Sequence[Part]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
        """Names of the columns, and whether each codes only categories."""
        labels: list[str] = []
        categorical: list[bool] = []
        for part in parts:
            part_labels = self.part_names(part)
            labels += part_labels
            is_category = bool(part.term) and all(node in self.categories for node in part.term)
            categorical += [is_category] * len(part_labels)
        if len(set(labels)) < len(labels):
            repeated = sorted({label for label in labels if labels.count(label) > 1})
            node = next(node for part in parts for node in part.term)
            actual = f"several called {repeated[0]!r}"
            remedy = "Names of levels with brackets or colons can read alike: rename them."
            raise self.reading.refuse(node, "columns of distinct names", actual, remedy)
        return tuple(labels), tuple(categorical)

    def part_names(self, part: Part) -> list[str]:
        """Names of the columns of a part: products of the names of its factors."""
        by_factor = [self.factor_names(node, node in part.whole) for node in part.term]
        number = math.prod(map(len, by_factor))
        if number > MOST_COLUMNS:
            expected = f"at most {MOST_COLUMNS:,} columns of a term"
            actual = f"{number:,} of {':'.join(map(str, part.term))}"
            raise self.reading.refuse(part.term[0], expected, actual, GROUPS)
        if not part.term:
            return ["Intercept"]
        labels = [""]
        for names in by_factor:
            labels = [f"{label}:{name}" if label else name for label in labels for name in names]
        return labels

    def factor_names(self, node: Node, whole: bool) -> list[str]:
        """Names of the columns of a factor."""
        if node in self.categories:
            return [f"{node}[{name}]" for name in self.categories[node].codes(whole).names]
        numbers = self.numbers[node]
        if numbers.columns is not None:
            return list(numbers.columns)
        label = numbers.label or str(node)
        return [f"{label}[{name}]" if name else label for name in numbers.names]

    def check_size(self, design: DesignColumns) -> None:
        """Refuses more columns than memory should hold."""
        cells = len(design.labels) * len(self.table)
        if cells > MOST_CELLS:
            node = next(node for part in design.parts for node in part.term)
            actual = f"{len(design.labels):,} columns of {len(self.table):,} rows"
            raise self.reading.refuse(node, f"at most {MOST_CELLS:,} numbers", actual, GROUPS)


def _category(
    node: Node,
    column: Column,
    labels: Labels,
    contrast: Node | None,
    reading: Reading,
    base: str | None = None,
) -> Category:
    """A category of training, with its contrast."""
    levels = labels.levels()
    if len(levels.names) < 2:
        expected = f"two levels or more of {column.name!r}"
        actual = f"one, {levels.names[0]!r}" if levels.names else "none"
        raise reading.refuse(node, expected, actual, "Leave the term out.")
    if len(levels.names) > MOST_COLUMNS:
        expected = f"at most {MOST_COLUMNS:,} levels of {column.name!r}"
        raise reading.refuse(node, expected, f"{len(levels.names):,}", GROUPS)
    return Category(node, column, levels, _contrast(contrast, levels, base, reading))


def _category_of_call(node: Call, reading: Reading) -> Category:
    """C(h), C(h, Sum), C(h, Treatment("b")), C(h, levels=["b", "a"]), T(h, "b"), S(h)."""
    if not node.arguments or not isinstance(node.arguments[0], Column):
        expected = f"{node.function}(column)"
        remedy = "Categories are made of a column."
        raise reading.refuse(node, expected, repr(str(node)), remedy)
    column = node.arguments[0]
    second = "contrast" if node.function == "C" else "ref"
    arguments = read_arguments(node, ("column", second, "levels"), reading)
    labels = reading.column(column).labels()
    if "levels" in arguments:
        declared = order_levels(arguments["levels"], labels, reading)
        labels = dataclasses.replace(labels, declared=declared)
    if node.function == "C":
        return _category(node, column, labels, arguments.get("contrast"), reading)
    base = None
    if "ref" in arguments:
        base = read_level(arguments["ref"], labels.levels(), reading)
    contrast = Column("Treatment" if node.function == "T" else "Sum", node.span)
    return _category(node, column, labels, contrast, reading, base)


def _contrast(node: Node | None, levels: Levels, base: str | None, reading: Reading) -> Codes:
    """The codes that a formula names."""
    if node is None:
        return contrasts.treatment(levels.names)
    name = ""
    if isinstance(node, Column):
        name = node.name
    elif isinstance(node, Call):
        name = node.function
    if name not in contrasts.BY_NAME:
        raise reading.refuse(node, f"a contrast: {', '.join(contrasts.BY_NAME)}", repr(str(node)))
    if isinstance(node, Call) and (node.arguments or node.named):
        names = {"Treatment": ("ref",), "Sum": ("omit",)}.get(name, ())
        arguments = read_arguments(node, names, reading)
        base = read_level(next(iter(arguments.values())), levels, reading)
    if name == "Poly" and len(levels.names) > MOST_POLYNOMIAL:
        expected = f"at most {MOST_POLYNOMIAL} levels for polynomials"
        raise reading.refuse(node, expected, str(len(levels.names)))
    make = contrasts.BY_NAME[name]
    return make(levels.names) if base is None else make(levels.names, base)


# --- splines and polynomials ----------------------------------------------------------------------
MOST_DEGREE = 20


def _learn_splines(node: Call, reading: Reading) -> Numbers:
    names = ("x", "df", "knots", "degree", "lower_bound", "upper_bound")
    arguments = read_arguments(node, names, reading)
    values = evaluate(arguments["x"], reading)
    degree = 3
    if "degree" in arguments:
        degree = read_whole(arguments["degree"], 0, MOST_DEGREE, reading)
    low = float(values.min())
    if "lower_bound" in arguments:
        low = read_number(arguments["lower_bound"], reading)
    high = float(values.max())
    if "upper_bound" in arguments:
        high = read_number(arguments["upper_bound"], reading)
    if not low < high or low > values.min() or high < values.max():
        actual = (
            f"values from {values.min():g} to {values.max():g}, and bounds {low:g} and {high:g}"
        )
        raise reading.refuse(node, "bounds that all values are between", actual)
    if "knots" in arguments:
        inner = _knots(arguments, low, high, degree, reading)
    elif "df" in arguments:
        number = read_whole(arguments["df"], max(degree, 1), MOST_COLUMNS, reading)
        inner = bases.inner_knots(values, reading.weights, number, degree)
    else:
        raise reading.refuse(node, "df=... or knots=[...]", repr(str(node)), "Write bs(x, df=4).")
    knots = bases.with_ends(inner, low, high, degree)
    reading.statistics[str(node)] = (knots, degree)
    return Numbers(node, tuple(map(str, range(len(knots) - degree - 2))))


def _knots(
    arguments: Mapping[str, Node], low: float, high: float, degree: int, reading: Reading
) -> np.ndarray:
    """The inner knots that a formula names, between the bounds, and as many as `df` says."""
    node = arguments["knots"]
    items = node.items if isinstance(node, Several) else (node,)
    inner = np.array([read_number(item, reading) for item in items])
    if not ((inner > low) & (inner < high)).all():
        raise reading.refuse(node, f"knots between {low:g} and {high:g}", str(inner.tolist()))
    number = len(inner) + degree
    if "df" in arguments and read_whole(arguments["df"], 1, MOST_COLUMNS, reading) != number:
        expected = f"{number}, as there are knots"
        raise reading.refuse(arguments["df"], expected, str(arguments["df"]), "Leave it out.")
    return inner


def _learn_polynomials(node: Call, reading: Reading) -> Numbers:
    arguments = read_arguments(node, ("x", "degree", "raw"), reading)
    values = evaluate(arguments["x"], reading)
    degree = 1
    if "degree" in arguments:
        degree = read_whole(arguments["degree"], 1, MOST_DEGREE, reading)
    if len(np.unique(values)) <= degree:
        actual = f"{len(np.unique(values))} different values"
        raise reading.refuse(
            node, f"more than {degree} different values for degree {degree}", actual
        )
    is_raw = "raw" in arguments and read_truth(arguments["raw"], reading)
    counts = count_weights(reading.weights)
    reading.statistics[str(node)] = degree if is_raw else bases.recurrence(values, counts, degree)
    return Numbers(node, tuple(map(str, range(degree))))


def is_monotone(node: Node) -> bool:
    """True for mo(x)."""
    return isinstance(node, Call) and node.function == "mo"


def find_monotone(part: Part) -> Call | None:
    """The monotone factor of a part, or None."""
    for node in part.term:
        if isinstance(node, Call) and is_monotone(node):
            return node
    return None


# --- columns of rows ------------------------------------------------------------------------------
class _Maker:
    """Computes the columns of some rows from what was learnt."""

    def __init__(self, learnt: DesignColumns, reading: Reading):
        self.learnt = learnt
        self.reading = reading
        self.codes: dict[Node, np.ndarray] = {}
        self.values: dict[Node, np.ndarray] = {}

    def matrix(self) -> Matrix:
        """The columns of all parts, and the offset."""
        size = len(self.reading.table)
        x = np.empty((size, len(self.learnt.labels)))
        place = 0
        for part in self.learnt.parts:
            columns = self.part(part, size)
            x[:, place : place + columns.shape[1]] = columns
            place += columns.shape[1]
        offset = np.zeros(size)
        for node in self.learnt.offsets:
            offset = offset + evaluate(only_argument(node, self.reading), self.reading)
        return Matrix(x, offset, self.steps(size))

    def steps(self, size: int) -> np.ndarray:
        """The indicators of the steps of monotone terms, each times the other factors."""
        columns = [np.empty((size, 0))]
        for part in self.learnt.parts:
            node = find_monotone(part)
            if node is None:
                continue
            number = self.reading.statistics[str(node)].size
            if number < 2:
                continue
            indicators = step_indicators(self.factor(node, False)[:, 0], number)
            term = tuple(factor for factor in part.term if factor != node)
            multipliers = self.part(part._replace(term=term), size)
            columns += [indicators * multiplier[:, None] for multiplier in multipliers.T]
        return np.concatenate(columns, 1)

    def part(self, part: Part, size: int) -> np.ndarray:
        """The columns of a part: products of the columns of its factors."""
        if part.term == INTERCEPT:
            return np.ones((size, 1))
        columns = np.ones((size, 1))
        for node in part.term:
            factor = self.factor(node, node in part.whole)
            width = columns.shape[1] * factor.shape[1]
            columns = (columns[:, :, None] * factor[:, None, :]).reshape(size, width)
        return columns

    def factor(self, node: Node, whole: bool) -> np.ndarray:
        """The columns of a factor."""
        if node in self.learnt.categories:
            category = self.learnt.categories[node]
            return category.codes(whole).matrix[self.level_codes(category)]
        if node not in self.values:
            self.values[node] = self.numbers(node)
        return self.values[node]

    def level_codes(self, category: Category) -> np.ndarray:
        """The place of the level of each row, computed once."""
        if category.node not in self.codes:
            codes = find_level_codes(category.column, category.levels, category.node, self.reading)
            self.codes[category.node] = codes
        return self.codes[category.node]

    def numbers(self, node: Node) -> np.ndarray:
        """The columns of a part of numbers."""
        if isinstance(node, Call) and node.function in SMOOTHS:
            return self.reading.statistics[str(node)].straight_columns(self.reading)
        if isinstance(node, Call) and node.function == "mo":
            return step_codes(node, self.reading.statistics[str(node)], self.reading)[:, None]
        if isinstance(node, Call) and node.function == "bs":
            knots, degree = self.reading.statistics[str(node)]
            return bases.splines(evaluate(node.arguments[0], self.reading), knots, degree)
        if isinstance(node, Call) and node.function == "poly":
            statistics = self.reading.statistics[str(node)]
            values = evaluate(node.arguments[0], self.reading)
            if isinstance(statistics, int):
                return np.stack([values**power for power in range(1, statistics + 1)], 1)
            return bases.polynomials(values, *statistics)
        return evaluate(node, self.reading)[:, None]
