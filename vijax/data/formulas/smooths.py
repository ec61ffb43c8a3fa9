"""Penalised smooth terms of a formula: s(x), s(x, by=g), s(x, bs="cc"), s(x, z), t2(x, z)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.data.formulas.arguments import find_level_codes, read_number, read_whole
from vijax.data.formulas.functions import Reading, evaluate, smooth_multiplier
from vijax.data.formulas.smooth_bases import (
    Bends,
    CubicSpline,
    TensorBends,
    cubic_spline,
    cyclic_spline,
    learn_bends,
    learn_tensor,
    straight_products,
    thin_plate,
)
from vijax.data.formulas.syntax import Call, Column, Node
from vijax.data.schema.labels import Levels

USUAL_SIZE = {1: 10, 2: 30, 3: 110}
"""Functions of s(...) by the number of its columns, those without a penalty included, as in
mgcv."""
USUAL_MARGIN = 5
"""Functions of each margin of t2(...)."""
MOST_FUNCTIONS = 500
MOST_COVARIATES = 3
FEWEST_COLUMNS = {"s": 1, "t2": 2}
BASES = ("tp", "cr", "cc")
OPTIONS = {"s": ("k", "bs", "by", "knots"), "t2": ("k", "by")}


class Block(NamedTuple):
    """Columns of a smooth term whose coefficients share an sd.

    Attributes:
      label: the name of the term, by which the sd is called sds(label).
      size: number of columns.
    """

    label: str
    size: int


@dataclasses.dataclass(frozen=True, eq=False)
class SmoothTerm:
    """A smooth term as learnt: its straight columns, which have coefficients of their own, and
    blocks of columns that bend.

    Attributes:
      node: the call.
      label: its name, without options: "s(x)".
      covariates: the parts whose function it is.
      by: the column that multiplies it, or whose levels have a function each; None without one.
      levels: these levels; None for numbers.
      bends: the blocks of one function.
      low, high: extent of the covariates in training.
      middle: means of their distinct values, from which straight columns are counted.
    """

    node: Call
    label: str
    covariates: tuple[Node, ...]
    by: Node | None
    levels: Levels | None
    bends: tuple[Bends | TensorBends, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    middle: tuple[float, ...]

    @property
    def is_cyclic(self) -> bool:
        """True for functions of a cycle."""
        first = self.bends[0]
        return isinstance(first, Bends) and getattr(first.basis, "is_cyclic", False)

    def names(self) -> list[str]:
        """Names of its functions: one, or one for each level of `by`."""
        if self.by is None:
            return [self.label]
        if self.levels is None:
            return [f"{self.label}:{self.by}"]
        return [f"{self.label}:{self.by}[{level}]" for level in self.levels.names]

    def straight_names(self) -> tuple[str, ...]:
        """Names of the columns without a penalty, as brms has them: s(x)_1."""
        number = self._straight(np.zeros((1, len(self.covariates)))).shape[1]
        return tuple(f"{label}_{i + 1}" for label in self.names() for i in range(number))

    def blocks(self) -> tuple[Block, ...]:
        """The blocks of all its functions."""
        blocks = []
        for label in self.names():
            for i, bends in enumerate(self.bends):
                suffix = f"_{i + 1}" * (len(self.bends) > 1)
                blocks.append(Block(label + suffix, bends.size))
        return tuple(blocks)

    def straight_columns(self, reading: Reading) -> Float[np.ndarray, "N p"]:
        """The columns without a penalty: the covariates in their units, about their middle."""
        columns = self._straight(self.points(reading))
        return np.concatenate([columns * part[:, None] for part in self._multipliers(reading)], 1)

    def block_columns(self, reading: Reading) -> list[Float[np.ndarray, "N q"]]:
        """The columns of each block."""
        points = self.points(reading)
        columns = [bends.columns(points) for bends in self.bends]
        parts = self._multipliers(reading)
        return [x * part[:, None] for part in parts for x in columns]

    def function_columns(
        self, points: Float[np.ndarray, "N d"]
    ) -> tuple[Float[np.ndarray, "N p"], Float[np.ndarray, "N q"]]:
        """The straight columns of one function, and those that bend, whatever `by` says."""
        return self._straight(points), np.concatenate([x.columns(points) for x in self.bends], 1)

    def points(self, reading: Reading) -> Float[np.ndarray, "N d"]:
        """The values of the covariates."""
        return np.stack([evaluate(node, reading) for node in self.covariates], 1)

    def beyond(self, reading: Reading) -> str:
        """A note on rows beyond the values of training, "" without any."""
        points = self.points(reading)
        is_beyond = np.any((points < self.low) | (points > self.high), axis=1)
        number = int(is_beyond.sum())
        if not number:
            return ""
        pairs = zip(self.covariates, self.low, self.high, strict=True)
        extents = ", ".join(f"{node} from {low:g} to {high:g}" for node, low, high in pairs)
        reason = "nothing was seen there, and the function goes on straight"
        if self.is_cyclic:
            reason = "they are taken as places of the cycle"
        elif len(self.covariates) > 1:
            reason = "nothing was seen there, and the function goes on by its splines"
        rows = f"{number} rows of {self.label} lie"
        if number == 1:
            rows = f"1 row of {self.label} lies"
        return f"{rows} beyond training ({extents}): {reason}."

    def _straight(self, points: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N p"]:
        """The functions without a penalty. The constant is the intercept's, but for a function
        that numbers multiply."""
        first = self.bends[0]
        points = points - self.middle
        columns = points
        if self.is_cyclic:
            columns = points[:, :0]
        if isinstance(first, TensorBends):
            columns = _raw_products(points)
        if self.by is not None and self.levels is None:
            columns = np.column_stack([np.ones(len(points)), columns])
        return columns

    def _multipliers(self, reading: Reading) -> list[Float[np.ndarray, " N"]]:
        """The multiplier of each function by row."""
        if self.by is None:
            return [np.ones(len(reading.table))]
        if self.levels is None:
            return [evaluate(self.by, reading)]
        column = _multiplier_column(self.by)
        codes = find_level_codes(column, self.levels, self.by, reading)
        return [(codes == place).astype(float) for place in range(len(self.levels.names))]


def _raw_products(points: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N p"]:
    """The columns, and their products, as x, z, x z; without the constant."""
    columns = np.ones((len(points), 1))
    for column in points.T:
        columns = np.concatenate([columns, columns * column[:, None]], 1)
    return columns[:, 1:]


# --- learning -------------------------------------------------------------------------------------
def learn_smooth(node: Call, reading: Reading) -> SmoothTerm:
    """A smooth term of the training rows.

    Raises:
      ValueError: an unknown option, more functions than distinct values, or a column of one value.
    """
    options = _read_options(node, reading)
    covariates = node.arguments
    by = smooth_multiplier(node)
    levels = _multiplier_levels(by, reading)
    points = np.stack([evaluate(part, reading) for part in covariates], 1)
    for part, column in zip(covariates, points.T, strict=True):
        if np.ptp(column) == 0:
            raise reading.refuse(part, f"different values of {part}", "one value in all rows")
    bends = LEARN[node.function](node, options, points, reading)
    return SmoothTerm(
        node,
        f"{node.function}({', '.join(map(str, covariates))})",
        covariates,
        by,
        levels,
        bends,
        *_extent(bends, points),
        tuple(np.unique(points, axis=0).mean(0).tolist()),
    )


def _extent(
    bends: tuple[Bends | TensorBends, ...], points: np.ndarray
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The extent of the points, or of the cycle."""
    basis = getattr(bends[0], "basis", None)
    if isinstance(basis, CubicSpline) and basis.is_cyclic:
        return (float(basis.knots[0]),), (float(basis.knots[-1]),)
    return tuple(points.min(0).tolist()), tuple(points.max(0).tolist())


def _read_options(node: Call, reading: Reading) -> Mapping[str, Node]:
    """The named arguments; ValueError for others, and for too many covariates."""
    names = OPTIONS[node.function]
    fewest = FEWEST_COLUMNS[node.function]
    expected = f"{node.function}(x, ..., {', '.join(f'{name}=' for name in names)})"
    if not fewest <= len(node.arguments) <= MOST_COVARIATES:
        remedy = f"It takes {fewest} to {MOST_COVARIATES} columns, and options by name."
        raise reading.refuse(node, expected, repr(str(node)), remedy)
    for name, value in node.named:
        if name not in names:
            raise reading.refuse(value, expected, f"{name}={value}")
    return dict(node.named)


def _multiplier_column(by: Node) -> Column:
    """The column of `by`, or within C(...)."""
    if isinstance(by, Call):
        by = by.arguments[0]
    assert isinstance(by, Column)
    return by


def _multiplier_levels(by: Node | None, reading: Reading) -> Levels | None:
    """The levels of `by`: a function for each; None for numbers, which multiply it."""
    if by is None:
        return None
    is_call = isinstance(by, Call) and by.function == "C" and len(by.arguments) == 1
    column = by
    if isinstance(by, Call) and is_call:
        column = by.arguments[0]
    if not isinstance(column, Column):
        raise reading.refuse(by, "by=column, or by=C(column)", str(by))
    typed = reading.column(column)
    if typed.kind in ("number", "truth") and not is_call:
        return None
    levels = typed.labels().levels()
    if len(levels.names) < 2:
        raise reading.refuse(by, f"two levels or more of {column.name!r}", "one", "Leave by= out.")
    return levels


def _size(
    options: Mapping[str, Node], usual: int, least: int, points: np.ndarray, reading: Reading
) -> int:
    """The number of functions, k."""
    number = len(points)
    if "k" in options:
        size = read_whole(options["k"], least, MOST_FUNCTIONS, reading)
        if size > number:
            actual = f"{size}, of {number} distinct values"
            raise reading.refuse(options["k"], "k up to the number of distinct values", actual)
        return size
    return min(usual, number)


def _learn_isotropic(
    node: Call, options: Mapping[str, Node], points: np.ndarray, reading: Reading
) -> tuple[Bends, ...]:
    """The bends of s(...)."""
    distinct = np.unique(points, axis=0)
    dimensions = points.shape[1]
    kind = "tp"
    if "bs" in options:
        kind = str(getattr(options["bs"], "text", options["bs"]))
    allowed: tuple[str, ...] = BASES
    if dimensions > 1:
        allowed = BASES[:1]
    if kind not in allowed:
        expected = f"bs= one of {', '.join(map(repr, allowed))}"
        raise reading.refuse(options["bs"], expected, repr(kind))
    fewest = dimensions + 2
    if kind == "cc":
        fewest = 4
    if len(distinct) < fewest:
        actual = f"{len(distinct)} in {', '.join(map(str, node.arguments))}"
        remedy = "Write C(x) for a coefficient of each value, or x."
        raise reading.refuse(node, f"{fewest} distinct values or more", actual, remedy)
    size = _size(options, USUAL_SIZE[dimensions], fewest, distinct, reading)
    if "knots" in options and kind != "cc":
        raise reading.refuse(options["knots"], 'knots= for bs="cc" alone', f"bs={kind!r}")
    if kind == "tp":
        return (learn_bends(thin_plate(distinct, size), distinct),)
    if kind == "cr":
        return (learn_bends(cubic_spline(distinct, size), distinct),)
    ends = _cycle_ends(options, distinct, reading)
    return (learn_bends(cyclic_spline(distinct, size, ends), distinct),)


def _cycle_ends(
    options: Mapping[str, Node], points: np.ndarray, reading: Reading
) -> tuple[float, float]:
    """The ends of the cycle, which are one point. Whole numbers need them: December is not
    January."""
    low, high = float(points.min()), float(points.max())
    if "knots" not in options:
        if np.all(points % 1 == 0):
            step = float(np.min(np.diff(points[:, 0])))
            expected = "knots=[low, high], the ends of the cycle, which are one point"
            remedy = f"Write knots=[{low:g}, {high + step:g}], so that {high:g} is not {low:g}."
            raise reading.refuse(options["bs"], expected, "none, for whole numbers", remedy)
        return low, high
    node = options["knots"]
    items = getattr(node, "items", (node,))
    ends = [read_number(item, reading) for item in items]
    if len(ends) != 2 or not ends[0] <= low or not high <= ends[1]:
        expected = f"two ends about the values, {low:g} to {high:g}"
        raise reading.refuse(node, expected, str(node))
    return ends[0], ends[1]


def _learn_tensor(
    node: Call, options: Mapping[str, Node], points: np.ndarray, reading: Reading
) -> tuple[TensorBends, ...]:
    """The blocks of t2(...)."""
    margins = []
    for part, column in zip(node.arguments, points.T, strict=True):
        distinct = np.unique(column)[:, None]
        if len(distinct) < 3:
            raise reading.refuse(part, "3 distinct values or more", str(len(distinct)))
        size = _size(options, USUAL_MARGIN, 3, distinct, reading)
        margins.append(learn_bends(cubic_spline(distinct, size), distinct))
    distinct = np.unique(points, axis=0)
    num_straight = 2 ** len(margins)
    straight = straight_products(margins, distinct)
    if np.linalg.matrix_rank(straight) < num_straight:
        expected = "columns whose products are not sums of them"
        raise reading.refuse(node, expected, f"{len(distinct)} distinct points")
    return tuple(learn_tensor(margins, distinct))


LEARN: dict[str, Callable[..., tuple[Bends | TensorBends, ...]]] = {
    "s": _learn_isotropic,
    "t2": _learn_tensor,
}
"""The functions that learn the bends of each kind of term."""
