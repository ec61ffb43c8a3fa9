"""Gaussian processes of columns, approximated in a Hilbert space of functions on a box.

A process with the spectral density S on the box [-L, L] is about sum_j sqrt(S(w_j)) phi_j(x) b_j
with b_j ~ N(0, 1), phi_j(x) = sin(w_j (x + L)) / sqrt(L) and w_j = pi j / (2 L); for several
columns phi_j are products and w_j vectors (Solin and Sarkka 2020, "Hilbert space methods for
reduced-rank Gaussian process regression", equations 19 to 21). Which length scales m functions on a
box c times the half range show is said by Riutort-Mayol et al. (2023), "Practical Hilbert space
approximate Bayesian Gaussian processes", section 4.4."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

COVARIANCES = {"ExpQuad": math.inf, "Matern52": 2.5, "Matern32": 1.5}
"""Smoothness of each covariance: the squared exponential, Matern's."""
RULES = {"ExpQuad": (3.2, 1.75), "Matern52": (4.1, 2.65), "Matern32": (4.5, 3.42)}
"""By covariance a, b: the box is to be c >= a ell / S for the half range S, with at least 1.2, and
the number of functions m >= b c S / ell."""
LEAST_BOX = 1.2


class Kernel(NamedTuple):
    """The variances of coefficients, by the length scale.

    Attributes:
      covariance: a name of `COVARIANCES`.
      frequencies: w_j of each function, in `unit`: one for each column.
      lengths: the columns that have a length scale of their own; empty where all share one.
      unit: the unit of length scales.
      copies: number of functions (levels of `by`) that share the length scale.
      box, half_ranges: half widths L of the box and S of the values of training, in `unit`.
      sizes: number of functions of each column.
    """

    covariance: str
    frequencies: tuple[tuple[float, ...], ...]
    lengths: tuple[str, ...]
    unit: float
    copies: int
    box: tuple[float, ...]
    half_ranges: tuple[float, ...]
    sizes: tuple[int, ...]

    @property
    def num_lengths(self) -> int:
        """Number of length scales."""
        return len(self.lengths) or 1

    def length_names(self, process: str) -> list[str]:
        """Names of the length scales of a process, as Bambi has them."""
        return [f"{process}_ell[{column}]" for column in self.lengths] or [f"{process}_ell"]

    def root_spectrum(self, lengths: Any, xp: Any) -> Any:
        """Standard deviations of the coefficients, (copies q,), of a process of variance one with
        these length scales, (num_lengths,); `xp` is `jax.numpy` or `numpy`."""
        frequencies = np.array(self.frequencies)
        dim = frequencies.shape[1]
        lengths = xp.broadcast_to(lengths, (dim,))
        squares = xp.sum((lengths * frequencies.astype(lengths.dtype)) ** 2, -1)
        logs = xp.sum(xp.log(lengths)) + self._log_spectrum(squares, dim, xp)
        return xp.tile(xp.exp(0.5 * logs), self.copies)

    def _log_spectrum(self, squares: Any, dim: int, xp: Any) -> Any:
        """The log spectral density where length scales are one, at squares of frequencies."""
        nu = COVARIANCES[self.covariance]
        if math.isinf(nu):
            return 0.5 * dim * math.log(2 * math.pi) - 0.5 * squares
        constant = dim * math.log(2) + 0.5 * dim * math.log(math.pi) + nu * math.log(2 * nu)
        constant += math.lgamma(nu + 0.5 * dim) - math.lgamma(nu)
        return constant - (nu + 0.5 * dim) * xp.log(2 * nu + squares)

    def covariances(
        self, points: Float[np.ndarray, "N d"], lengths: Float[np.ndarray, " lengths"]
    ) -> Float[np.ndarray, "N N"]:
        """The covariances of the process itself, of variance one, at points in `unit`."""
        scaled = points / lengths
        r = np.sqrt(np.sum((scaled[:, None] - scaled) ** 2, -1))
        if self.covariance == "ExpQuad":
            return np.exp(-0.5 * r**2)
        if self.covariance == "Matern52":
            distance = math.sqrt(5) * r
            return (1 + distance + distance**2 / 3) * np.exp(-distance)
        distance = math.sqrt(3) * r
        return (1 + distance) * np.exp(-distance)

    def error(self, lengths: Float[np.ndarray, " lengths"]) -> float:
        """The largest error of a covariance within the values of training, of a process of variance
        one."""
        points = _spread_points(len(self.box)) * np.array(self.half_ranges)
        columns = _sines(points, np.array(self.box), self.sizes)
        columns = columns * self.root_spectrum(lengths, np)[: columns.shape[1]]
        gaps = columns @ columns.T - self.covariances(points, lengths)
        return float(np.abs(gaps).max())

    def remedy(
        self, shortest: Float[np.ndarray, " lengths"], longest: Float[np.ndarray, " lengths"]
    ) -> str:
        """The m and c that show length scales from the shortest to the longest, in `unit`."""
        box_rule, number_rule = RULES[self.covariance]
        half = np.array(self.half_ranges)
        c = np.ceil(10 * np.maximum(LEAST_BOX, box_rule * longest / half)) / 10
        m = np.ceil(number_rule * c * half / shortest)
        if len(half) == 1:
            return f"m={m[0]:.0f}, c={c[0]:g}"
        numbers = ", ".join(f"{x:.0f}" for x in m)
        return f"m=[{numbers}], c=[{', '.join(f'{x:g}' for x in c)}]"


NUM_POINTS = {1: 41, 2: 120, 3: 200}


def _spread_points(dim: int) -> Float[np.ndarray, "N d"]:
    """Points in [-1, 1]^d: an even grid, with its ends, or a Kronecker sequence and the corners."""
    number = NUM_POINTS[dim]
    if dim == 1:
        return np.linspace(-1, 1, number)[:, None]
    steps = np.array([0.7548776662, 0.5698402910, 0.3247179572])[:dim]
    spread = 2 * np.mod(0.5 + np.arange(number)[:, None] * steps, 1) - 1
    corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * dim), -1).reshape(-1, dim)
    return np.concatenate([spread, corners])


def _sines(
    points: Float[np.ndarray, "N d"], box: Float[np.ndarray, " d"], sizes: tuple[int, ...]
) -> Float[np.ndarray, "N q"]:
    """phi_j at points about the middle of the box; the last column's functions change fastest."""
    columns = np.ones((len(points), 1))
    for column, half_width, size in zip(points.T, box, sizes, strict=True):
        angles = np.arange(1, size + 1) * (0.5 * math.pi / half_width)
        factor = np.sin(angles * (column[:, None] + half_width)) / math.sqrt(half_width)
        columns = (columns[:, :, None] * factor[:, None]).reshape(len(points), -1)
    return columns


@dataclasses.dataclass(frozen=True, eq=False)
class HilbertBends:
    """The functions phi_j of one process.

    Attributes:
      middle: the middle of the box.
      box: its half widths.
      sizes: number of functions of each column.
      unit: the unit of columns in phi_j.
    """

    middle: Float[np.ndarray, " d"]
    box: Float[np.ndarray, " d"]
    sizes: tuple[int, ...]
    unit: float

    @property
    def size(self) -> int:
        """q, the number of functions."""
        return math.prod(self.sizes)

    def columns(self, x: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N q"]:
        """The functions, (N, q)."""
        return _sines((x - self.middle) / self.unit, self.box / self.unit, self.sizes)

    def kernel(
        self,
        covariance: str,
        lengths: tuple[str, ...],
        copies: int,
        half_ranges: Float[np.ndarray, " d"],
    ) -> Kernel:
        """The variances of the coefficients."""
        frequencies = [
            np.arange(1, size + 1) * (0.5 * math.pi * self.unit / half_width)
            for size, half_width in zip(self.sizes, self.box, strict=True)
        ]
        grid = np.stack(np.meshgrid(*frequencies, indexing="ij"), -1).reshape(self.size, -1)
        return Kernel(
            covariance,
            tuple(map(tuple, grid.tolist())),
            lengths,
            self.unit,
            copies,
            tuple((self.box / self.unit).tolist()),
            tuple((half_ranges / self.unit).tolist()),
            self.sizes,
        )
