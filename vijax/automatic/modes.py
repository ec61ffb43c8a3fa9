"""Searches for the modes of a log density, from starts near zero and from starts as far apart as
the prior is wide.

The prior's width is measured for each coordinate, with all others at zero, by the quantiles of one
standard deviation along a line. A density whose prior is not given separately, or says nothing of a
coordinate, is looked at further and further out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from vijax.automatic.density_checks import Exchange, check_slopes
from vijax.automatic.gaussian import Gaussian, draw_noise, laplace
from vijax.checks import require
from vijax.lbfgs import Mode, Point, Slopes, maximise, never
from vijax.verdict.target import MOST_NUMBERS, Target

MOST_JUDGED, MANY, DENSE = 8, 50, 300
"""The bound is computed at so many modes, and at half as many beyond `MANY` variables; the full
Hessian is used up to `DENSE` variables."""
# searches that were cut short away from a mode: the Hessian is computed at the ends of so many
MOST_LOST = 2
AGAIN, TIMES = 50, 4  # steps of a search that begins again, and how often it may
# nats that Newton's step may still promise at a mode: a search may stop early in a narrow valley
ARRIVED = 0.5


MANY_WIDTHS, SOME_WIDTHS = 300, 24
"""Variables from which on a density that is one function is measured at so many entries of each
variable."""


class Candidate(NamedTuple):
    """A mode that was found."""

    mode: Mode  # the mode
    num_starts: int  # number of searches that ended there
    # Rough bound of the normal with the curvature there; -inf where it was not computed, or it is
    # no mode
    elbo: float = -np.inf


class SearchResult(NamedTuple):
    """The result of all searches."""

    candidates: list[Candidate]  # modes, best first
    labels: list[Exchange]  # exchanges of labels that leave the density as it is
    num_starts: int  # number of searches


def find_modes(
    target: Target, seed: int, num_starts: int, stopped: Callable[[], bool] = never
) -> list[Candidate]:
    """Returns the modes, best first. Half of the searches begin within 2 of zero, in free
    coordinates, the others as far apart as the prior is wide. Raises ValueError: the density is
    finite at no start, or has no gradient."""
    near = np.random.default_rng(seed).uniform(-BOX, BOX, (-(-num_starts // 2), target.dim))
    check_slopes(target, target.variables, near)
    of = prior_scales(target)
    begin = np.concatenate([near, wide_starts(target, of, num_starts - len(near), seed)])
    units = np.where(of.is_known & of.is_prior, np.maximum(of.width, 1.0), 1.0)
    outside = lambda at: at._replace(x=at.x * units)
    same_hill = lambda low, high: share_hill(target, outside(low), outside(high))

    def scaled(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = target.slopes(x * units)
        return values, slopes * units

    ends = maximise(scaled, begin / units, stopped=stopped, on_one_hill=same_hill)
    remedy = "Look for logarithms of zero and supports that the variables do not declare."
    require(
        bool(ends),
        "log_density",
        f"a finite one at any of {num_starts} random starts",
        "none",
        remedy,
    )
    best, *others = _distinct(ends)
    # In a bent valley a search may stop because its memory is of the curvature elsewhere: it begins
    # again.
    is_high = lambda mode: mode.value > best.mode.value - 10 - target.dim
    again = lambda mode: _searched_again(scaled, mode, stopped) if is_high(mode) else mode
    repeated = [best, *(one._replace(mode=again(one.mode)) for one in others)]
    repeated.sort(key=lambda one: -one.mode.value)
    in_place = lambda mode: Mode(mode.x * units, mode.value, mode.sds * units)
    return _distinct([in_place(one.mode) for one in repeated for _ in range(one.num_starts)])


def _searched_again(slopes: Slopes, mode: Mode, stopped: Callable[[], bool]) -> Mode:
    """Searches from a mode, and from where that ends, until a search gains nothing. That one has
    seen no curvature, so its end does not count."""
    for _ in range(TIMES):
        then = maximise(slopes, mode.x[None], AGAIN, stopped=stopped)[0]
        if then.value < mode.value + DIP:
            break
        mode = then
    return mode


def _distinct(ends: list[Mode]) -> list[Candidate]:
    """Returns the modes that differ by more than a search's inaccuracy, with the number of searches
    that ended there."""
    found: list[Candidate] = []
    for mode in ends:
        at = next((i for i, one in enumerate(found) if _are_same(one.mode, mode)), None)
        if at is None:
            found.append(Candidate(mode, 1))
        else:
            found[at] = found[at]._replace(num_starts=found[at].num_starts + 1)
    return found


def _are_same(one: Mode, other: Mode) -> bool:
    return abs(one.value - other.value) < 0.1 and bool(
        np.all(abs(one.x - other.x) < one.sds + other.sds)
    )


# --- their bounds ---------------------------------------------------------------------------------
def with_bounds(
    target: Target, found: list[Candidate], seed: int, is_cut: bool = False
) -> tuple[list[Candidate], Gaussian]:
    """Returns the modes with rough bounds of the normals there, and the normal with the highest
    bound.

    Modes far below the highest have no bound. Where searches were cut short (`is_cut`), normals are
    computed at the first few of their ends that are no modes: these have no bound either, but may
    be the best normal."""
    noise = draw_noise(32, target.dim, [seed, 99])
    most = MOST_JUDGED if target.dim <= MANY else MOST_JUDGED // 2
    judged, normals, lost = list(found), [], 0
    for i, one in enumerate(found[:most]):
        mode = one.mode
        if mode.value < found[0].mode.value - 10 - target.dim or (is_cut and lost == MOST_LOST):
            continue
        q, promised = (
            laplace(target, mode) if target.dim <= DENSE else (Gaussian(mode.x, mode.sds, 0.0), 0.0)
        )
        normals.append(q._replace(elbo=rough_bound(target, q, noise)))
        if promised >= ARRIVED:
            lost += 1
        else:
            judged[i] = one._replace(elbo=normals[-1].elbo)
    return judged, max(normals, key=lambda q: q.elbo)


def rough_bound(target: Target, q: Gaussian, noise: Float[np.ndarray, "draws D"]) -> float:
    """Returns the ELBO on some draws."""
    values = target.values(q.from_noise(noise))
    return float(np.where(np.isfinite(values), values, -1e10).mean()) + q.entropy()


# --- starts ---------------------------------------------------------------------------------------
BOX = 2.0  # half the width of the box in which half of all searches begin
LINE = np.concatenate([-(2.0 ** np.arange(34, -4, -1)), [0.0], 2.0 ** np.arange(-3, 35)])
"""Points at which a prior is evaluated: its width is then known to a small factor, up to 1e10."""
FINE = np.interp(np.arange(8 * len(LINE) - 7) / 8, np.arange(len(LINE)), LINE)
"""Points of the integral over the line; between two of them the logarithm of the prior is taken to
be straight."""
AT_EDGE = (
    0.02  # a prior with more than this share of its mass at the ends of the line counts as unknown
)
OUT = 1.0, 3.0, 9.0
"""Where the prior is unknown starts are so many times as far out as the density itself, or the box,
reaches: a third of them each."""
CANDIDATES, TRIED = 16, 4
"""Random points for each start; and the highest of them that are checked, for each start, to be on
different hills."""
BETWEEN = np.array(
    [0.0625, 0.25, 0.5, 0.75]
)  # points between two others at which a valley is looked for
DIP = 0.1  # least depth of a valley, in nats


class Scales(NamedTuple):
    """Middle and width of the prior of each coordinate."""

    middle: Float[np.ndarray, " D"]
    width: Float[np.ndarray, " D"]  # standard deviations
    # False where the prior says nothing: the middle is then 0, the width that of the box
    is_known: Bool[np.ndarray, " D"]
    is_prior: bool  # whether it is of a prior; false of a density that is one function


def prior_scales(target: Target) -> Scales:
    """Measures middle and width of the prior, coordinate by coordinate.

    A density of many variables without a separate prior, each value of which reads all data, is
    measured at some entries of each variable; the others are taken to be as wide as these are in
    the middle."""
    dim = target.dim
    places = [np.asarray(entries) for entries in target.variables.places.values()]
    is_sampled = dim > MANY_WIDTHS and not target.has_prior
    measured = (
        np.sort(np.concatenate([subsample(entries) for entries in places]))
        if is_sampled
        else np.arange(dim)
    )
    widths = _widths(target, measured)
    is_known = np.array([one is not None for one in widths])
    middle, width = np.array([one or (0.0, BOX) for one in widths]).T
    scales = Scales(middle, width, is_known, target.has_prior)
    return scales if len(measured) == dim else _for_all(scales, measured, places)


def subsample(entries: Int[np.ndarray, " n"]) -> Int[np.ndarray, " some"]:
    """Entries of a variable at which the density is measured: all of a small one, else some, evenly
    spread.

    >>> some_of(np.arange(5)).tolist(), len(some_of(np.arange(1000)))
    ([0, 1, 2, 3, 4], 24)
    """
    if len(entries) <= SOME_WIDTHS:
        return entries
    return entries[np.linspace(0, len(entries) - 1, SOME_WIDTHS).round().astype(int)]


def _for_all(some: Scales, measured: Int[np.ndarray, " some"], places: list[np.ndarray]) -> Scales:
    """Scales of all entries of each variable, from those of some."""
    dim = sum(map(len, places))
    middle, width, is_known = np.zeros(dim), np.full(dim, BOX), np.zeros(dim, bool)
    for entries in places:
        own = np.isin(measured, entries)
        is_known[entries] = some.is_known[own].all()
        width[entries] = np.median(some.width[own])
        middle[entries] = np.median(some.middle[own])
    middle[measured], width[measured], is_known[measured] = some.middle, some.width, some.is_known
    return some._replace(middle=middle, width=width, is_known=is_known)


def _widths(
    target: Target, coordinates: Int[np.ndarray, " some"]
) -> list[tuple[float, float] | None]:
    """Middle and width along these coordinates, all others zero; None where they are not known."""
    widths: list[tuple[float, float] | None] = []
    at_once = max(MOST_NUMBERS // (target.dim * len(LINE)), 1)
    for start in range(0, len(coordinates), at_once):
        chosen = coordinates[start : start + at_once]
        at = np.zeros((len(LINE), len(chosen), target.dim))
        at[:, np.arange(len(chosen)), chosen] = LINE[:, None]
        values = target.log_priors(at.reshape(-1, target.dim)).reshape(len(LINE), len(chosen))
        widths += [_along_line(column) for column in values.T]
    return widths


def _along_line(values: Float[np.ndarray, " points"]) -> tuple[float, float] | None:
    """Returns middle and half distance of the quantiles of one standard deviation; None where the
    mass is at the ends.

    >>> middle, width = _along_line(-0.5 * ((LINE - 3) / 8) ** 2)
    >>> print(f"{middle:.0f} {width:.0f}")
    3 8
    >>> _along_line(0 * LINE) is None
    True
    """
    from scipy import interpolate  # here, because it takes long to import

    known = np.isfinite(values)
    if not known.any():
        return None
    heights = np.maximum(np.where(known, values, -np.inf) - values[known].max(), -700.0)
    heights = np.exp(interpolate.PchipInterpolator(LINE, heights)(FINE))
    total = np.concatenate([[0.0], np.cumsum(0.5 * (heights[1:] + heights[:-1]) * np.diff(FINE))])
    low, high = np.interp(LINE[[1, -2]], FINE, total)
    if low + total[-1] - high > AT_EDGE * total[-1]:
        return None
    low, high = np.interp([0.16, 0.84], total / total[-1], FINE)
    return 0.5 * (low + high), max(0.5 * (high - low), 1e-6)


def wide_starts(target: Target, of: Scales, count: int, seed: int) -> Float[np.ndarray, "count D"]:
    """Returns starts from random points as far apart as the prior is wide: high ones on different
    hills, and others at random."""
    rng, size = np.random.default_rng([seed, 5]), CANDIDATES * count
    further = np.asarray(OUT)[rng.permutation(size) % len(OUT)][:, None]
    width = (
        np.where(of.is_known, of.width, BOX * further)
        if of.is_prior
        else np.maximum(of.width, BOX) * further
    )
    x = of.middle + width * rng.normal(size=(size, target.dim))
    values = target.values(x)
    order = np.argsort(-values, kind="stable")
    order = order[np.isfinite(values[order])]
    chosen: list[int] = []
    point = lambda i: Point(x[i], float(values[i]), 0.0)
    for i in order[: TRIED * count]:
        apart = (((x[chosen] - x[i]) / width[i]) ** 2).sum(1)
        near = [chosen[k] for k in np.argsort(apart, kind="stable")[:2]]
        if len(chosen) < count and not any(share_hill(target, point(i), point(j)) for j in near):
            chosen.append(int(i))
    rest = [int(i) for i in rng.permutation(order) if i not in chosen]
    return x[[*chosen, *rest][:count]]


def share_hill(target: Target, low: Mode | Point, high: Mode | Point) -> bool:
    """Says whether there is no valley on the way from the lower of two points to the higher one
    (Ursem 1999)."""
    between = low.x + BETWEEN[:, None] * (high.x - low.x)
    rounding = 10 * target.epsilon * abs(high.value)
    return bool(target.values(between).min() >= low.value - DIP - rounding)
