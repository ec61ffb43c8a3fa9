"""Smooth terms of a formula: s(x), s(x, by=g), s(x, bs="cc"), s(x, z), t2(x, z), hsgp(x)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.data.formulas.arguments import (
    find_level_codes,
    read_number,
    read_truth,
    read_whole,
)
from vijax.data.formulas.functions import Reading, evaluate, smooth_multiplier
from vijax.data.formulas.hilbert_gp import COVARIANCES, HilbertBends, Kernel
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
FEWEST_COLUMNS = {"s": 1, "t2": 2, "hsgp": 1}
BASES = ("tp", "cr", "cc")
OPTIONS = {
    "s": ("k", "bs", "by", "knots"),
    "t2": ("k", "by"),
    "hsgp": ("m", "c", "L", "by", "cov", "share_cov", "iso"),
}
OF_OTHERS = {
    "scale": "Leave it out: length scales are in units of the column, whatever they are.",
    "drop_first": "Leave it out: all functions are kept.",
    "centered": "Leave it out: the coefficients are integrated out.",
}
"""Options of Bambi's hsgp that do not stand here, and the remedy."""
USUAL_FUNCTIONS = {1: 50, 2: 14, 3: 7}
USUAL_BOX = {1: 3.0, 2: 2.0, 3: 1.5}
"""Functions of each column of hsgp(...), and the half width of the box over the half range, by the
number of columns."""
NARROWEST_BOX, WIDEST_BOX = 1.0, 100.0
USUAL_LENGTH = 0.15
"""The unit of length scales over the extent of the values."""


MOST_SHARED = 2000
"""Most columns of one block."""
AnyBends = Bends | TensorBends | HilbertBends


class Block(NamedTuple):
    """Columns of a smooth term whose coefficients share an sd.

    Attributes:
      label: the name of the term, by which the sd is called sds(label).
      size: number of columns.
      kernel: for a Gaussian process the variances of the coefficients; None for one variance.
    """

    label: str
    size: int
    kernel: Kernel | None = None


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
      kernel: variances of the coefficients of a Gaussian process; None for splines.
    """

    node: Call
    label: str
    covariates: tuple[Node, ...]
    by: Node | None
    levels: Levels | None
    bends: tuple[AnyBends, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    middle: tuple[float, ...]
    kernel: Kernel | None = None

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

    @property
    def is_shared(self) -> bool:
        """True for processes of all levels with one covariance, whose columns are one block."""
        return self.kernel is not None and self.kernel.copies > 1

    def blocks(self) -> tuple[Block, ...]:
        """The blocks of all its functions."""
        if self.is_shared:
            size = self.bends[0].size * len(self.names())
            return (Block(f"{self.label}:{self.by}", size, self.kernel),)
        blocks = []
        for label in self.names():
            for i, bends in enumerate(self.bends):
                suffix = f"_{i + 1}" * (len(self.bends) > 1)
                blocks.append(Block(label + suffix, bends.size, self.kernel))
        return tuple(blocks)

    def coefficients(
        self, by_block: Mapping[str, Any], prefix: str = ""
    ) -> dict[str, Float[np.ndarray, "S q *C"]]:
        """The coefficients of the columns that bend of each function by its name, from those of
        blocks by prefix and label."""
        if not self.is_shared:
            return {name: np.asarray(by_block[prefix + name], float) for name in self.names()}
        names = self.names()
        block = np.asarray(by_block[prefix + self.blocks()[0].label], float)
        return dict(zip(names, np.split(block, len(names), axis=1), strict=True))

    def straight_columns(self, reading: Reading) -> Float[np.ndarray, "N p"]:
        """The columns without a penalty: the covariates in their units, about their middle."""
        columns = self._straight(self.points(reading))
        return np.concatenate([columns * part[:, None] for part in self._multipliers(reading)], 1)

    def block_columns(self, reading: Reading) -> list[Float[np.ndarray, "N q"]]:
        """The columns of each block."""
        points = self.points(reading)
        self._check_box(points, reading)
        columns = [bends.columns(points) for bends in self.bends]
        parts = self._multipliers(reading)
        blocks = [x * part[:, None] for part in parts for x in columns]
        if self.is_shared:
            return [np.concatenate(blocks, 1)]
        return blocks

    def _check_box(self, points: Float[np.ndarray, "N d"], reading: Reading) -> None:
        """Raises ValueError for rows outside of the box of a Gaussian process."""
        bends = self.bends[0]
        if not isinstance(bends, HilbertBends):
            return
        columns = zip(self.covariates, points.T, bends.middle, bends.box, strict=True)
        for part, column, middle, half_width in columns:
            is_outside = np.abs(column - middle) > half_width
            if not is_outside.any():
                continue
            low, high = middle - half_width, middle + half_width
            row = reading.table.row_name(int(np.flatnonzero(is_outside)[0]))
            expected = (
                f"{part} from {low:g} to {high:g}, on which the functions of {self.label} are"
            )
            actual = f"{column[is_outside][0]:g} in {row} ({int(is_outside.sum())} such)"
            remedy = "Fit with a wider box: a larger c=, and m= in proportion."
            raise reading.refuse(part, expected, actual, remedy)

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
        if self.kernel is not None:
            reason = "nothing was seen there, and the function tends to zero"
        elif self.is_cyclic:
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
        if self.is_cyclic or self.kernel is not None:
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
        _learn_kernel(node, bends, points, levels, reading),
    )


def _extent(
    bends: tuple[AnyBends, ...], points: np.ndarray
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
            remedy = ""
            if node.function == "hsgp":
                remedy = OF_OTHERS.get(name, "")
            raise reading.refuse(value, expected, f"{name}={value}", remedy)
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


# --- Gaussian processes ---------------------------------------------------------------------------
def _learn_process(
    node: Call, options: Mapping[str, Node], points: np.ndarray, reading: Reading
) -> tuple[HilbertBends, ...]:
    """The functions of hsgp(...)."""
    dim = points.shape[1]
    low, high = points.min(0), points.max(0)
    if "c" in options and "L" in options:
        raise reading.refuse(options["L"], "one of c= and L=", str(node))
    sizes = [USUAL_FUNCTIONS[dim]] * dim
    if "m" in options:
        items = _items(options["m"], dim, reading)
        sizes = [read_whole(item, 1, MOST_FUNCTIONS, reading) for item in items]
    if math.prod(sizes) > MOST_FUNCTIONS:
        expected = f"at most {MOST_FUNCTIONS} functions, the product of m"
        raise reading.refuse(options.get("m", node), expected, f"{math.prod(sizes):,}")
    box = 0.5 * (high - low) * USUAL_BOX[dim]
    if "c" in options:
        items = _items(options["c"], dim, reading)
        factors = [read_number(item, reading) for item in items]
        if not NARROWEST_BOX < min(factors) <= max(factors) <= WIDEST_BOX:
            expected = (
                f"c above {NARROWEST_BOX:g}, up to {WIDEST_BOX:g}: the half width of the box over "
                "the half range"
            )
            raise reading.refuse(options["c"], expected, str(options["c"]))
        box = 0.5 * (high - low) * factors
    if "L" in options:
        box = np.array([read_number(x, reading) for x in _items(options["L"], dim, reading)])
        widest = 0.5 * WIDEST_BOX * (high - low)
        if np.any(box <= 0.5 * (high - low)) or np.any(box > widest):
            halves = ", ".join(f"{x:g}" for x in 0.5 * (high - low))
            expected = (
                f"L above the half range, {halves}, in units of the column, and up to "
                f"{WIDEST_BOX:g} times as wide"
            )
            raise reading.refuse(options["L"], expected, str(options["L"]))
    unit = USUAL_LENGTH * float(np.linalg.norm(high - low))
    return (HilbertBends(0.5 * (low + high), box, tuple(sizes), unit),)


def _items(node: Node, number: int, reading: Reading) -> list[Node]:
    """The values of an option: one for all columns, or one for each."""
    items = list(getattr(node, "items", (node,)))
    if len(items) == 1:
        items *= number
    if len(items) != number:
        raise reading.refuse(node, f"one number, or {number}: one for each column", str(node))
    return items


def _learn_kernel(
    node: Call,
    bends: tuple[AnyBends, ...],
    points: np.ndarray,
    levels: Levels | None,
    reading: Reading,
) -> Kernel | None:
    """The variances of the coefficients of hsgp(...); None for splines."""
    process = bends[0]
    if not isinstance(process, HilbertBends):
        return None
    options = dict(node.named)
    covariance = next(iter(COVARIANCES))
    if "cov" in options:
        covariance = str(getattr(options["cov"], "text", options["cov"]))
        if covariance not in COVARIANCES:
            expected = f"cov= one of {', '.join(map(repr, COVARIANCES))}"
            raise reading.refuse(options["cov"], expected, repr(covariance))
    by = options.get("by")
    if by is not None and levels is None:
        expected = "by= a column of categories"
        remedy = f"Write by=C({by}) for a function of each value."
        raise reading.refuse(by, expected, f"numbers, {by}", remedy)
    lengths: tuple[str, ...] = ()
    is_isotropic = "iso" not in options or read_truth(options["iso"], reading)
    if not is_isotropic and len(node.arguments) > 1:
        lengths = tuple(map(str, node.arguments))
    copies = 1
    is_shared = "share_cov" not in options or read_truth(options["share_cov"], reading)
    if levels is not None and is_shared:
        copies = len(levels.names)
        if copies * process.size > MOST_SHARED:
            expected = f"at most {MOST_SHARED:,} functions of all levels of {by}"
            actual = f"{copies * process.size:,}"
            raise reading.refuse(node, expected, actual, "Give a smaller m=.")
    half_ranges = 0.5 * np.ptp(points, axis=0)
    return process.kernel(covariance, lengths, copies, half_ranges)


LEARN: dict[str, Callable[..., tuple[AnyBends, ...]]] = {
    "s": _learn_isotropic,
    "t2": _learn_tensor,
    "hsgp": _learn_process,
}
"""The functions that learn the bends of each kind of term."""
