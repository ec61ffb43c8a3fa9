"""The modes that searches from several starts find, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.automatic.ascent import Mode, modes, never
from vijax.automatic.gaussian import Gaussian, laplace, noise_of
from vijax.automatic.labels import Exchange
from vijax.automatic.refused import check_slopes
from vijax.automatic.spread import BOX, DIP, on_one_hill, spread, starts
from vijax.automatic.target import Target
from vijax.checks import require

MOST_JUDGED, MANY, DENSE = 8, 50, 300
"""Modes of which the bound is asked, half as many beyond so many variables; and variables up to which with the whole
curvature."""
MOST_LOST = 2
"""Ends of searches that were cut short that are asked for their curvature though they are no modes."""
AGAIN, TIMES = 50, 4
"""Steps of a search that begins again, and how often it may."""
ARRIVED = 0.5
"""Nats that Newton's step may still promise at what counts as a mode: a search may stop early in a narrow valley."""


def places(target: Target, seed: int, num_starts: int, stopped: Callable[[], bool] = never) -> list[tuple[Mode, int]]:
    """Modes, best first, with the number of searches that ended there, or were `stopped` there. Half of the searches
    begin within 2 of zero, in free coordinates, the others as far apart as the prior is wide.

    Raises:
      ValueError: the density is finite at no start, or has no gradient.
    """
    near = np.random.default_rng(seed).uniform(-BOX, BOX, (-(-num_starts // 2), target.dim))
    check_slopes(target, target.variables, near)
    of = spread(target)
    begin = np.concatenate([near, starts(target, of, num_starts - len(near), seed)])
    units = np.where(of.is_known & of.is_prior, np.maximum(of.width, 1.0), 1.0)
    outside = lambda at: at._replace(x=at.x * units)
    same_hill = lambda low, high: on_one_hill(target, outside(low), outside(high))
    scaled = _InUnits(target, units)
    found = modes(scaled, begin / units, stopped=stopped, on_one_hill=same_hill)
    remedy = "Look for logarithms of zero and supports that the variables do not declare."
    require(bool(found), "log_density", f"a finite one at any of {num_starts} random starts", "none", remedy)
    (best, count), *others = _distinct(found)
    # A search may stop amid a bent valley, where what it remembers of curvature is of another part: it begins again.
    is_high = lambda mode: mode.value > best.value - 10 - target.dim
    inside = [(best, count), *((_climbed(scaled, mode, stopped) if is_high(mode) else mode, n) for mode, n in others)]
    inside.sort(key=lambda one: -one[0].value)
    return _distinct([Mode(mode.x * units, mode.value, mode.sds * units) for mode, n in inside for _ in range(n)])


def _climbed(target: _InUnits, mode: Mode, stopped: Callable[[], bool]) -> Mode:
    """Where searches end that begin where the one before ended, until one gains no more."""
    for _ in range(TIMES):
        before, mode = mode, modes(target, mode.x[None], AGAIN, stopped=stopped)[0]
        if mode.value < before.value + DIP:
            break
    return mode


class _InUnits:
    """The target of coordinates in units of the prior's widths: a search knows nothing else of how far it is to go."""

    def __init__(self, target: Target, units: Float[np.ndarray, " D"]):
        self._target, self._units = target, units

    def slopes(self, x: Float[np.ndarray, "points D"]) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients."""
        values, slopes = self._target.slopes(x * self._units)
        return values, slopes * self._units


def _distinct(found: list[Mode]) -> list[tuple[Mode, int]]:
    """The modes that differ by more than a search's inaccuracy, with the number of searches that ended there."""
    kept: list[tuple[Mode, int]] = []
    for mode in found:
        at = next((i for i, (other, _) in enumerate(kept) if _are_same(other, mode)), None)
        if at is None:
            kept.append((mode, 1))
        else:
            kept[at] = (kept[at][0], kept[at][1] + 1)
    return kept


def _are_same(one: Mode, other: Mode) -> bool:
    return abs(one.value - other.value) < 0.1 and bool(np.all(abs(one.x - other.x) < one.sds + other.sds))


class Searched(NamedTuple):
    """What the searches found.

    Attributes:
      places: modes, best first, with the number of searches that ended there.
      elbos: rough bounds of the normals there; None where another mode is far above it, or none was asked for.
      labels: that may be exchanged.
      num_starts: how many searches there were.
    """

    places: list[tuple[Mode, int]]
    elbos: list[float | None]
    labels: list[Exchange]
    num_starts: int


class Rough(NamedTuple):
    """The normal at a mode, with its bound on some draws, and how many nats above it Newton's step sees."""

    q: Gaussian
    promised: float


def rough_normals(target: Target, found: list[tuple[Mode, int]], seed: int, is_cut: bool = False) -> list[Rough | None]:
    """The normals at modes, the widest basins among them; None of modes far below the highest, which are not asked, and
    where searches were cut short of all but the first that prove to be no modes."""
    noise = noise_of(32, target.dim, [seed, 99])
    most = MOST_JUDGED if target.dim <= MANY else MOST_JUDGED // 2
    rough: list[Rough | None] = []
    lost = 0
    for mode, _ in found[:most]:
        if mode.value < found[0][0].value - 10 - target.dim or (is_cut and lost == MOST_LOST):
            rough.append(None)
            continue
        q, promised = laplace(target, mode) if target.dim <= DENSE else (Gaussian(mode.x, mode.sds, 0.0), 0.0)
        lost += promised >= ARRIVED
        rough.append(Rough(q._replace(elbo=rough_bound(target, q, noise)), promised))
    return [*rough, *[None] * (len(found) - len(rough))]


def bounds_of(rough: list[Rough | None]) -> list[float | None]:
    """Of those that are at a mode."""
    return [None if one is None or one.promised >= ARRIVED else one.q.elbo for one in rough]


def rough_bound(target: Target, q: Gaussian, noise: Float[np.ndarray, "draws D"]) -> float:
    """The ELBO on some draws."""
    values = target.values(q.at(noise))
    return float(np.where(np.isfinite(values), values, -1e10).mean()) + q.entropy()
