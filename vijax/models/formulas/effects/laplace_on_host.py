"""Laplace's approximation to the integral over the effects of several factors, on the host in
float64, for laws of one predictor whose rows are log-concave.

Let Lambda be the diagonal matrix of the sds of effects, an entry for each, eta = a + X b + Z Lambda
v, g and W the slopes and minus the curvatures of the rows' log likelihoods in eta. At the mode of v
given b,

    log p(y | b) = log p(y | eta) - v'v / 2 - log det H / 2,   H = I + Lambda Z' W Z Lambda.

The modes of (b, v) and of v given b are found by Newton's method with an H that is factored seldom:
that of the last mode serves at the next ratios, which are near. In b the log likelihood is nearly
quadratic about its maximum. The maximum of log p(y | b) is not b of the mode of (b, v), as log det
H depends on b. How far they are apart, in units of the curvature, is computed once, by values at
the nodes of Gauss and Hermite (three, the middle one the mode) along each direction: they give the
mean of a density with a third derivative too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy import linalg

from vijax.models.formulas.effects.crossed_normal import sparse_columns
from vijax.models.formulas.effects.interpolated import MOST_POINTS, Profile
from vijax.models.formulas.effects.on_host import block_diagonal

MOST_STEPS, ENOUGH = 60, 1e-9
"""Most steps of a search for a mode; it ends where a step promises less than half of `ENOUGH`
nats."""
SLOW = 0.04
"""H is factored anew where a step promises more than this share of what the last one did."""
NODE = math.sqrt(3.0)
"""The outer nodes of Gauss and Hermite, in standard deviations."""
MOST_SECONDS = 60.0
"""Seconds that points may take, roughly, for interpolation to pay."""
A_POINT, A_ROW, A_PRODUCT = 5e-3, 5e-7, 3e-11
"""Seconds of a point: of itself, for a row, and for a multiplication of the dense factor."""
DENSE = 100
"""Multiplications of a dense product in the time of one of a sparse product."""

NO_MODE = (np.linalg.LinAlgError, FloatingPointError)
"""Errors of a search that finds no mode."""

Slopes = Callable[[Float[np.ndarray, " N"]], tuple[float, np.ndarray, np.ndarray]]
"""eta -> (the log likelihood of all rows, g, W)."""


class Columns(NamedTuple):
    """The columns of a regression with several factors; the first has the most effects.

    Attributes:
      offset: a, (N,).
      x: X, (N, p).
      first: Z of the first factor, sparse, (N, J d).
      remaining: Z of the others, sparse, (N, R).
      width: d, the effects of a group of the first factor.
      places: the index of the ratio of each effect, (J d + R,).
      groups: for each ratio the number of its effects.
    """

    offset: Float[np.ndarray, " N"]
    x: Float[np.ndarray, "N p"]
    first: Any
    remaining: Any
    width: int
    places: np.ndarray
    groups: np.ndarray

    @classmethod
    def from_rows(cls, rows: Mapping[str, np.ndarray], counts: Sequence[int]) -> Columns:
        """From the rows of the density, and the number of groups of each factor."""
        widths = [rows[f"z{i}"].shape[1] for i in range(len(counts))]
        by_factor = [
            sparse_columns(rows[f"z{i}"], rows[f"group{i}"].astype(int), count)
            for i, count in enumerate(counts)
        ]
        ends = np.cumsum(widths)
        places = [
            np.tile(np.arange(end - d, end), count)
            for end, d, count in zip(ends, widths, counts, strict=True)
        ]
        return cls(
            rows["offset"],
            rows["x"],
            by_factor[0],
            sp.hstack(by_factor[1:], "csr"),
            widths[0],
            np.concatenate(places),
            np.repeat(counts, widths),
        )

    @property
    def num_first(self) -> int:
        """Number of effects of the first factor."""
        return self.first.shape[1]

    def times(self, effects: Float[np.ndarray, " q"]) -> Float[np.ndarray, " N"]:
        """Z u."""
        return self.first @ effects[: self.num_first] + self.remaining @ effects[self.num_first :]

    def transpose_times(self, rows: Any) -> Any:
        """Z' r."""
        return np.concatenate([self.first.T @ rows, self.remaining.T @ rows])


class Curvature:
    """H at some weights, factored: the first factor is eliminated, a dense matrix remains.

    Attributes:
      half_log_det: log det H / 2.
    """

    def __init__(self, columns: Columns, weights: np.ndarray, sds: np.ndarray):
        d = columns.width
        weighted = columns.first.T.multiply(weights).tocsr()
        first = sds[: columns.num_first]
        squares = _diagonal_blocks(weighted @ columns.first, d)
        by_group = first.reshape(-1, d)
        blocks = np.eye(d) + by_group[:, :, None] * squares * by_group[:, None]
        self._roots = np.linalg.inv(np.linalg.cholesky(blocks))
        self._d = d
        other_sds = sds[columns.num_first :]
        scaled = block_diagonal(self._roots * by_group[:, None]) @ (weighted @ columns.remaining)
        self._across = scaled.multiply(other_sds[None]).tocsr()
        products = columns.remaining.T.multiply(weights).tocsr() @ columns.remaining
        dense = products.multiply(other_sds[None]).multiply(other_sds[:, None]).toarray()
        dense -= _squares(self._across)
        dense[np.diag_indices_from(dense)] += 1.0
        self._factor = linalg.cholesky(dense, lower=True, overwrite_a=True, check_finite=False)
        of_blocks = np.log(np.diagonal(self._roots, axis1=1, axis2=2)).sum()
        self.half_log_det = float(np.log(np.diagonal(self._factor)).sum() - of_blocks)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """H^-1 right, for one or more columns."""
        size = self._across.shape[0]
        first = self._multiply_blocks(self._roots, right[:size])
        reduced = right[size:] - self._across.T @ first
        solution = linalg.cho_solve((self._factor, True), reduced, check_finite=False)
        first = first - self._across @ solution
        return np.concatenate(
            [self._multiply_blocks(np.swapaxes(self._roots, 1, 2), first), solution]
        )

    def _multiply_blocks(self, blocks: np.ndarray, x: np.ndarray) -> np.ndarray:
        by_group = x.reshape(len(blocks), self._d, -1)
        return (blocks @ by_group).reshape(x.shape)


def _squares(across: Any) -> Float[np.ndarray, "R R"]:
    """A' A of a sparse matrix, by the cheaper product."""
    per_row = np.diff(across.indptr).astype(float)
    rows, size = across.shape
    if (per_row**2).sum() * DENSE < rows * float(size) ** 2:
        return (across.T.tocsr() @ across).toarray()
    squares = np.zeros((size, size))
    step = max(1, (1 << 24) // size)
    for start in range(0, rows, step):
        dense = across[start : start + step].toarray()
        squares += dense.T @ dense
    return squares


def _diagonal_blocks(matrix: Any, d: int) -> Float[np.ndarray, "J d d"]:
    """The blocks of a block diagonal sparse matrix."""
    if d == 1:
        return matrix.diagonal()[:, None, None]
    entries = matrix.tocoo()
    blocks = np.zeros((matrix.shape[0] // d, d, d))
    blocks[entries.row // d, entries.row % d, entries.col % d] = entries.data
    return blocks


class Mode(NamedTuple):
    """A mode of the effects, or of coefficients and effects.

    Attributes:
      b: the coefficients, (p,).
      v: the effects in units of their sds, (q,).
      log_joint: log p(y | eta) - v'v / 2.
      eta: the predictors of rows.
      slopes: g.
      weights: W.
      sds: the sd of each effect.
    """

    b: Float[np.ndarray, " p"]
    v: Float[np.ndarray, " q"]
    log_joint: float
    eta: Float[np.ndarray, " N"]
    slopes: Float[np.ndarray, " N"]
    weights: Float[np.ndarray, " N"]
    sds: Float[np.ndarray, " q"]


def _most_points(rows: int, size: int) -> int:
    """Most points for which interpolation pays, from the size of the matrix of the remaining
    factors.

    >>> _most_points(400, 180), _most_points(100_000, 1000), _most_points(1_000_000, 2000)
    (2000, 705, 80)
    """
    seconds = A_POINT + A_ROW * rows + A_PRODUCT * float(size) ** 3
    return min(MOST_POINTS, int(MOST_SECONDS / seconds))


class _Newton:
    """Newton's step of coefficients and effects at a mode.

    Attributes:
      curvature: H.
      root: U, lower triangular, of the precision of b with the effects integrated out.
    """

    def __init__(self, columns: Columns, mode: Mode):
        self.curvature = Curvature(columns, mode.weights, mode.sds)
        weighted = mode.weights[:, None] * columns.x
        across = mode.sds[:, None] * columns.transpose_times(weighted)
        self._moves = self.curvature.solve(across)
        precision = columns.x.T @ weighted - across.T @ self._moves
        self.root = np.linalg.cholesky(0.5 * (precision + precision.T))

    def step(self, of_b: np.ndarray, of_v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The step of both, from their gradients."""
        residual = of_b - self._moves.T @ of_v
        b = linalg.cho_solve((self.root, True), residual, check_finite=False)
        return b, self.curvature.solve(of_v) - self._moves @ b

    def follow(self, b: np.ndarray) -> np.ndarray:
        """Derivatives of the effects by b."""
        return -self._moves @ b


class LaplaceRows:
    """The marginal likelihood of rows, by ratios: here the sds of effects, as sigma is one.

    Attributes:
      columns: the columns.
      slopes: the rows' log likelihoods and their derivatives.
      count: the sum of weights that sigma takes part in: none.
      largest: for each ratio the largest diagonal entry of Z' W Z among its effects, at zero
        effects.
      groups: for each ratio the number of its effects.
      most_points: most points for which interpolation pays.
      num_factorisations: calls of `profile` and `log_lik` so far.
    """

    def __init__(self, columns: Columns, slopes: Slopes):
        self.columns, self.slopes = columns, slopes
        self.count = 0.0
        self.most_points = _most_points(*columns.remaining.shape)
        self.groups = columns.groups
        start = self._place(np.zeros(columns.x.shape[1]), np.zeros(len(columns.places)), 0.0)
        squares = [z.multiply(z).T @ start.weights for z in (columns.first, columns.remaining)]
        self.largest = np.zeros(len(columns.groups))
        np.maximum.at(self.largest, columns.places, np.concatenate(squares))
        self.num_factorisations = 0
        self._last = start
        self._newton: _Newton | None = None
        self._shift = np.zeros(len(start.b))
        self._excess = np.zeros(len(start.b))

    def profile(self, ratios: Float[np.ndarray, " P"]) -> Profile | None:
        """The likelihood at some ratios as a function of b; None if no mode is found."""
        self.num_factorisations += 1
        try:
            mode, newton = self._climb(self._last.b, self._last.v, ratios)
        except NO_MODE:
            return None
        self._last, self._newton = mode, newton
        # In units of the curvature the maximum lies at shift / (1 + excess).
        moves = self._shift / (1 + self._excess)
        best = mode.b + linalg.solve_triangular(newton.root.T, moves, check_finite=False)
        value = mode.log_joint - newton.curvature.half_log_det + 0.5 * float(self._shift @ moves)
        return Profile(-value - 0.5, 1.0, best, newton.root * np.sqrt(1 + self._excess))

    def prepare(self, ratios: Float[np.ndarray, " P"]) -> None:
        """Finds by how much the maximum in b differs from the mode of b and the effects, and the
        curvature from that of the mode, at the centre. Where no mode is found, `profile` says so.
        """
        try:
            mode, newton = self._climb(self._last.b, self._last.v, ratios)
        except NO_MODE:
            return
        middle = mode.log_joint - newton.curvature.half_log_det
        directions = linalg.solve_triangular(newton.root.T, np.eye(len(mode.b)))
        shift, excess = np.zeros(len(mode.b)), np.zeros(len(mode.b))
        for k, direction in enumerate(directions.T):
            self._last, self._newton = mode, newton
            up = self.log_lik(mode.b + NODE * direction, ratios)
            self._last, self._newton = mode, newton
            down = self.log_lik(mode.b - NODE * direction, ratios)
            shift[k] = (up - down) / (2 * NODE)
            excess[k] = (2 * middle - up - down) / NODE**2 - 1
        self._last, self._newton = mode, newton
        if np.isfinite(shift).all() and (excess > -0.5).all():
            self._shift, self._excess = shift, excess

    def exact(self, b: np.ndarray, sigma: float, ratios: np.ndarray) -> float:
        """Laplace's approximation at b; -inf if no mode is found. sigma is one."""
        return self.log_lik(b, ratios)

    def log_lik(self, b: Float[np.ndarray, " p"], ratios: Float[np.ndarray, " P"]) -> float:
        """Laplace's approximation at b; -inf if no mode is found."""
        self.num_factorisations += 1
        start = self._last.v
        if self._newton is not None:
            start = start + self._newton.follow(b - self._last.b)
        try:
            mode = self.effect_mode(b, ratios, start)
        except NO_MODE:
            return -math.inf
        return mode.log_joint - Curvature(self.columns, mode.weights, mode.sds).half_log_det

    def effect_mode(
        self, b: np.ndarray, ratios: np.ndarray, start: np.ndarray | None = None
    ) -> Mode:
        """The mode of the effects given b."""
        if start is None:
            start = self._last.v
        return self._search(b, start, ratios, False)[0]

    def forget(self) -> None:
        """Frees the last factorisation."""
        self._newton = None

    def _climb(self, b: np.ndarray, v: np.ndarray, ratios: np.ndarray) -> tuple[Mode, _Newton]:
        """The mode of b and v, and Newton's step there."""
        mode, _ = self._search(b, v, ratios, True)
        return mode, _Newton(self.columns, mode)

    def _search(
        self, b: np.ndarray, v: np.ndarray, ratios: np.ndarray, moves_b: bool
    ) -> tuple[Mode, _Newton]:
        """The mode of v, and of b if it moves. LinAlgError where the search does not end."""
        place = self._place(b, v, ratios)
        newton = self._newton or _Newton(self.columns, place)
        is_own, last = self._newton is None, math.inf
        for _ in range(MOST_STEPS):
            of_v = place.sds * self.columns.transpose_times(place.slopes) - place.v
            of_b = self.columns.x.T @ place.slopes
            if moves_b:
                db, dv = newton.step(of_b, of_v)
                promise = float(of_b @ db + of_v @ dv)
            else:
                db, dv = np.zeros(len(b)), newton.curvature.solve(of_v)
                promise = float(of_v @ dv)
            if promise < ENOUGH:
                return place, newton
            if promise > SLOW * last and not is_own:
                newton, is_own, last = _Newton(self.columns, place), True, math.inf
                continue
            new = self._rise(place, db, dv, ratios)
            if new is None and is_own:
                break
            is_own = new is None
            if new is None:
                newton = _Newton(self.columns, place)
                continue
            place, last = new, promise
        raise np.linalg.LinAlgError("no mode was found")

    def _rise(self, place: Mode, db: np.ndarray, dv: np.ndarray, ratios: np.ndarray) -> Mode | None:
        """The place after a step that is halved until the density rises; None if it does not."""
        for size in 0.5 ** np.arange(12):
            new = self._place(place.b + size * db, place.v + size * dv, ratios)
            if new.log_joint >= place.log_joint - 1e-11 * abs(place.log_joint):
                return new
        return None

    def _place(self, b: np.ndarray, v: np.ndarray, ratios: Any) -> Mode:
        columns = self.columns
        sds = np.broadcast_to(ratios, len(columns.groups))[columns.places]
        eta = columns.offset + columns.x @ b + columns.times(sds * v)
        log_lik, slopes, weights = self.slopes(eta)
        return Mode(b, v, log_lik - 0.5 * float(v @ v), eta, slopes, weights, sds)
