"""Modes of a log density from several starts side by side, by L-BFGS (Liu and Nocedal 1989).

Each search is a generator that is told value and slope at the point it asked for, so that all searches share one call
of the density. SciPy's would be called once a point.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float
from scipy import linalg

Asks = Generator[np.ndarray, tuple[float, np.ndarray], "Mode"]
MEMORY = 20
ENOUGH = 1e-3
"""Nats that the quadratic model still promises where a search ends: the start of a fit need not be exact."""


class HasSlopes(Protocol):
    """What is climbed."""

    def slopes(self, x: Float[np.ndarray, "points D"], /) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients."""


class Mode(NamedTuple):
    """Where a search ended.

    Attributes:
      x: the point.
      value: log density there.
      sds: rough standard deviations, from what the search saw of the curvature.
    """

    x: Float[np.ndarray, " D"]
    value: float
    sds: Float[np.ndarray, " D"]


def never() -> bool:
    """Nobody asks to stop."""
    return False


def modes(
    target: HasSlopes,
    starts: Float[np.ndarray, "starts D"],
    max_steps: int = 200,
    enough: float = ENOUGH,
    stopped: Callable[[], bool] = never,
) -> list[Mode]:
    """Where the searches from these starts end, best first; those that began where the density is zero are left out.
    A search ends where it promises less than `enough` nats, or when it is `stopped`."""
    searches = {i: _search(x, max_steps, enough, stopped) for i, x in enumerate(starts)}
    points = {i: next(search) for i, search in searches.items()}
    found = []
    while points:
        values, slopes = target.slopes(np.stack(list(points.values())))
        for i, value, slope in zip(list(points), values, slopes, strict=True):
            try:
                points[i] = searches[i].send((float(value), slope))
            except StopIteration as end:
                del points[i]
                if np.isfinite(end.value.value):
                    found.append(end.value)
    return sorted(found, key=lambda mode: -mode.value)


def _search(x: np.ndarray, max_steps: int, enough: float, stopped: Callable[[], bool]) -> Asks:
    """One search, upwards."""
    value, slope = yield x
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(max_steps if np.isfinite(value) else 0):
        direction = _applied(pairs, slope)
        promised = slope @ direction
        if (promised < 2 * enough and pairs) or stopped():
            break
        size = 1.0 if pairs else min(1.0, 1.0 / max(float(np.linalg.norm(slope)), 1e-30))
        for _ in range(30):
            new_value, new_slope = yield x + size * direction
            gain = new_value - value
            if gain >= 1e-4 * size * promised:
                break
            # The top of the parabola through both values and the slope here, if that is a step at all.
            top = 0.5 * size * promised / max(size * promised - gain, 1e-300) if np.isfinite(gain) else 0.1
            size *= min(max(top, 0.1), 0.5)
        else:
            break
        step, change = size * direction, slope - new_slope
        if step @ change > 1e-10 * (step @ step):
            pairs = [*pairs[1 - MEMORY :], (step, change)]
        x, value, slope = x + step, new_value, new_slope
    return Mode(x, value, np.sqrt(np.maximum(_diagonal(pairs, len(x)), 1e-300)))


def _applied(pairs: list[tuple[np.ndarray, np.ndarray]], slope: np.ndarray) -> np.ndarray:
    """H slope, H the approximate inverse of minus the Hessian (the two loops of Nocedal 1980)."""
    q, kept = slope.copy(), []
    for s, y in reversed(pairs):
        a = (s @ q) / (s @ y)
        q -= a * y
        kept.append(a)
    if pairs:
        s, y = pairs[-1]
        q *= (s @ y) / (y @ y)
    for (s, y), a in zip(pairs, reversed(kept), strict=True):
        q += (a - (y @ q) / (s @ y)) * s
    return q


def _diagonal(pairs: list[tuple[np.ndarray, np.ndarray]], dim: int) -> np.ndarray:
    """The diagonal of H, in O(D m^2) for m pairs (Byrd, Nocedal and Schnabel 1994, theorem 2.2)."""
    if not pairs:
        return np.ones(dim)
    s, y = (np.stack(part) for part in zip(*pairs, strict=True))
    products = s @ y.T
    level = products[-1, -1] / (y[-1] @ y[-1])
    inverse = linalg.solve_triangular(np.triu(products), np.eye(len(s)))
    core = inverse.T @ (np.diag(np.diag(products)) + level * y @ y.T) @ inverse
    return level + ((core @ s) * s).sum(0) - 2 * level * ((inverse.T @ y) * s).sum(0)
