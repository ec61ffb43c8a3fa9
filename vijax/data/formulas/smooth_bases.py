"""Bases of penalised smooth functions, as columns with independent coefficients of one variance.

A function f = T a + B c with the penalty c' S c is T a + R u with u ~ N(0, sd^2 I): with
S = V d V', R = B V d^-1/2 for d > 0, and T are the functions without a penalty (Wood 2017,
"Generalized Additive Models", section 5.8; `smooth2random` of mgcv). T, the constant among them, is
taken out of R at the distinct points of training, and R is scaled so that its rows have mean square
one there: sd is then the root mean square of the part of f that bends."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

MOST_POINTS = 1000
"""Most centres of thin plate splines. Of more distinct points so many are taken, in even steps of
their order."""
AT_ONCE = 1 << 22
"""Most distances that are computed at once."""
Points = Float[np.ndarray, "N d"]
Columns = Float[np.ndarray, "N K"]


@dataclasses.dataclass(frozen=True, eq=False)
class ThinPlate:
    """Thin plate regression splines (Wood 2003): the functions of the radial basis that bend most.

    Attributes:
      centres: points of the radial functions, in units of `scale`, (P, d).
      centre, scale: location of the columns, (d,), and one unit for all.
      weights: the functions in terms of the radial ones, (P, K).
      penalty: S, (K, K).
    """

    centres: Points
    centre: Float[np.ndarray, " d"]
    scale: float
    weights: Float[np.ndarray, "P K"]
    penalty: Float[np.ndarray, "K K"]

    @property
    def num_free(self) -> int:
        """Number of functions among the K that have no penalty."""
        return 0

    def functions(self, x: Points) -> Columns:
        """B, (N, K)."""
        scaled = (x - self.centre) / self.scale
        rows = max(1, AT_ONCE // len(self.centres))  # all distances may not fit into memory
        columns = np.empty((len(x), self.weights.shape[1]))
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            columns[part] = _radial(scaled[part], self.centres) @ self.weights
        return columns

    def polynomials(self, x: Points) -> Columns:
        """T: the constant, and the columns about their centre."""
        return np.column_stack([np.ones(len(x)), (x - self.centre) / self.scale])


def thin_plate(points: Points, size: int) -> ThinPlate:
    """Thin plate splines with `size` functions, those without a penalty included.

    >>> basis = thin_plate(np.linspace(0, 1, 20)[:, None], 6)
    >>> basis.weights.shape, basis.polynomials(np.zeros((1, 1))).shape
    ((20, 4), (1, 2))
    """
    places = np.arange(len(points))
    if len(points) > MOST_POINTS:
        places = np.unique(np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(int))
    centre = points.min(0)
    scale = float(np.ptp(points, axis=0).max())
    centres = (points[places] - centre) / scale
    radial = _radial(centres, centres)
    values, vectors = np.linalg.eigh(radial)
    largest = np.argsort(-np.abs(values), kind="stable")[:size]
    polynomials = np.column_stack([np.ones(len(centres)), centres])
    constraints = vectors[:, largest].T @ polynomials  # coefficients are orthogonal to T
    basis = np.linalg.qr(constraints, mode="complete")[0][:, polynomials.shape[1] :]
    weights = vectors[:, largest] @ basis
    penalty = basis.T @ (values[largest][:, None] * basis)
    return ThinPlate(centres, centre, scale, weights, _positive(penalty))


def _radial(x: Points, centres: Points) -> Float[np.ndarray, "N P"]:
    """Radial functions of thin plate splines that penalise second derivatives, in one, two or three
    dimensions."""
    dimensions = x.shape[1]
    if dimensions == 1:
        gaps = np.abs(x - centres.T)
        return gaps * gaps * gaps / 12
    squares = np.sum((x[:, None] - centres[None]) ** 2, 2)
    if dimensions == 2:
        logs = np.log(np.where(squares > 0, squares, 1.0))
        return squares * logs / (16 * math.pi)
    return -np.sqrt(squares) / (8 * math.pi)


def _positive(penalty: np.ndarray) -> np.ndarray:
    """The penalty with the sign that makes it positive."""
    return penalty * np.sign(np.trace(penalty))


@dataclasses.dataclass(frozen=True, eq=False)
class CubicSpline:
    """Cubic splines by their values at knots: natural ones, straight beyond the ends; or cyclic
    ones, whose ends are one point.

    Attributes:
      knots: the knots, (K,) or for cyclic ones (K + 1,).
      is_cyclic: True for cyclic ones.
    """

    knots: Float[np.ndarray, " knots"]
    is_cyclic: bool

    @property
    def num_free(self) -> int:
        """Number of functions that have no penalty: the constant, and the straight line."""
        return 2 - self.is_cyclic

    def _splines(self) -> Any:
        from scipy.interpolate import CubicSpline as Interpolation  # takes long to import

        values = np.eye(len(self.knots))
        if self.is_cyclic:
            values = values[:, :-1]
            values[-1] = values[0]
            return Interpolation(self.knots, values, bc_type="periodic")
        return Interpolation(self.knots, values, bc_type="natural")

    @property
    def penalty(self) -> Float[np.ndarray, "K K"]:
        """Integrals of products of second derivatives, which are straight between knots; in units
        of the range."""
        bends = self._splines().derivative(2)(self.knots)
        steps = np.diff(self.knots) / (self.knots[-1] - self.knots[0])
        first, last = bends[:-1], bends[1:]
        mixed = first.T @ (steps[:, None] * last)
        squares = first.T @ (steps[:, None] * first) + last.T @ (steps[:, None] * last)
        return (2 * squares + mixed + mixed.T) / 6

    def functions(self, x: Points) -> Columns:
        """B, (N, K)."""
        values = x[:, 0]
        low, high = self.knots[0], self.knots[-1]
        splines = self._splines()
        if self.is_cyclic:
            return splines(low + np.mod(values - low, high - low))
        nearest = np.clip(values, low, high)
        return splines(nearest) + (values - nearest)[:, None] * splines.derivative(1)(nearest)

    def polynomials(self, x: Points) -> Columns:
        """T: the constant, and for natural splines the column about the middle."""
        if self.is_cyclic:
            return np.ones((len(x), 1))
        low, high = self.knots[0], self.knots[-1]
        return np.column_stack([np.ones(len(x)), (x[:, 0] - 0.5 * (low + high)) / (high - low)])


def cubic_spline(points: Points, size: int) -> CubicSpline:
    """Natural cubic splines with knots at quantiles of the distinct values."""
    return CubicSpline(np.quantile(points[:, 0], np.linspace(0, 1, size)), False)


def cyclic_spline(points: Points, size: int, ends: Sequence[float] | None) -> CubicSpline:
    """Cyclic cubic splines with knots at quantiles between the ends of the cycle, by default the
    least and the largest value."""
    values = points[:, 0]
    if ends is None:
        ends = values.min(), values.max()
    low, high = ends
    between = np.unique(np.clip(np.concatenate([[low, high], values]), low, high))
    return CubicSpline(np.quantile(between, np.linspace(0, 1, size)), True)


# --- parts that bend ------------------------------------------------------------------------------
Basis = ThinPlate | CubicSpline


@dataclasses.dataclass(frozen=True, eq=False)
class Bends:
    """The columns R of a basis.

    Attributes:
      basis: the basis.
      turn: from its functions to R, (K, q).
      straight: the part of R in the span of T, which is taken out, (M, q).
    """

    basis: Basis
    turn: Float[np.ndarray, "K q"]
    straight: Float[np.ndarray, "M q"]

    @property
    def size(self) -> int:
        """q, the number of columns."""
        return self.turn.shape[1]

    def columns(self, x: Points) -> Columns:
        """R, (N, q)."""
        return self.basis.functions(x) @ self.turn - self.basis.polynomials(x) @ self.straight


def learn_bends(basis: Basis, points: Points) -> Bends:
    """The columns R of a basis, scaled on the distinct points of training; the columns that vary
    most come first.

    >>> points = np.linspace(0, 3, 50)[:, None]
    >>> r = learn_bends(thin_plate(points, 8), points).columns(points)
    >>> r.shape, np.allclose(points.T @ r, 0), round(float(np.sum(r**2)) / 50, 6)
    ((50, 6), True, 1.0)
    """
    squares, vectors = np.linalg.eigh(basis.penalty)
    bending = slice(basis.num_free, None)
    turn = vectors[:, bending] / np.sqrt(squares[bending])
    columns = basis.functions(points) @ turn
    polynomials = basis.polynomials(points)
    straight = np.linalg.lstsq(polynomials, columns, rcond=None)[0]
    columns = columns - polynomials @ straight
    axes, sizes, right = np.linalg.svd(columns, full_matrices=False)
    # Signs by which equal points in other units, or with other rounding, have equal columns.
    signs = np.sign(np.cos(1.0 + 1.3 * np.arange(len(points))) @ axes)
    right = right * np.where(signs == 0, 1.0, signs)[:, None]
    scale = math.sqrt(float(np.sum(sizes**2)) / len(points))
    return Bends(basis, turn @ right.T / scale, straight @ right.T / scale)


@dataclasses.dataclass(frozen=True, eq=False)
class TensorBends:
    """A block of columns of a tensor product: products of the bends of some margins with the
    straight parts of the others (Wood, Scheipl and Faraway 2013; `t2` of mgcv).

    Attributes:
      margins: the bends of each column.
      is_bent: whether the bends of a margin enter, or its straight part.
      straight: the part of the products in the span of all straight ones, (M, q).
      scale: their scale.
    """

    margins: tuple[Bends, ...]
    is_bent: tuple[bool, ...]
    straight: Float[np.ndarray, "M q"]
    scale: float

    @property
    def size(self) -> int:
        """q, the number of columns."""
        return self.straight.shape[1]

    def columns(self, x: Points) -> Columns:
        """The columns, (N, q)."""
        raw = _products(self.margins, self.is_bent, x)
        return (raw - straight_products(self.margins, x) @ self.straight) / self.scale


def _products(margins: Sequence[Bends], is_bent: Sequence[bool], x: Points) -> Columns:
    columns = np.ones((len(x), 1))
    for place, (margin, bends) in enumerate(zip(margins, is_bent, strict=True)):
        column = x[:, place : place + 1]
        factor = margin.basis.polynomials(column)
        if bends:
            factor = margin.columns(column)
        columns = (columns[:, :, None] * factor[:, None]).reshape(len(x), -1)
    return columns


def straight_products(margins: Sequence[Bends], x: Points) -> Columns:
    """Products of the straight parts of all margins; the constant comes first."""
    return _products(margins, [False] * len(margins), x)


def learn_tensor(margins: Sequence[Bends], points: Points) -> list[TensorBends]:
    """The blocks of a tensor product: the margin that bends alone, from the first to the last, then
    pairs, and so on."""
    number = len(margins)
    masks = sorted(range(1, 2**number), key=lambda mask: (mask.bit_count(), mask))
    straight_columns = straight_products(margins, points)
    blocks = []
    for mask in masks:
        is_bent = tuple(bool(mask >> place & 1) for place in range(number))
        columns = _products(margins, is_bent, points)
        straight = np.linalg.lstsq(straight_columns, columns, rcond=None)[0]
        columns = columns - straight_columns @ straight
        scale = math.sqrt(float(np.sum(columns**2)) / len(points))
        blocks.append(TensorBends(tuple(margins), is_bent, straight, scale))
    return blocks
