"""Searches for the modes of a log density, from starts near zero and from starts as far apart as
the prior is wide.

The prior's width is measured for each coordinate, with all others at zero, by the quantiles of one
standard deviation along a line. If the prior is not separate, or tells nothing about a coordinate,
starts are at increasing distances."""

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

MOST_JUDGED = 8  # modes whose bound is computed
MANY = 50  # variables beyond which the bound of half as many modes is computed
DENSE = 300  # variables up to which the full Hessian is used
MOST_LOST = 2  # ends of searches that were cut short at which the Hessian is computed
AGAIN = 50  # steps of a search that begins again
TIMES = 4  # how often it may begin again
# Nats that Newton's step may still promise at a mode: a search may stop early in a narrow valley.
ARRIVED = 0.5


MANY_WIDTHS = 300  # variables beyond which a density without a separate prior is sampled
SOME_WIDTHS = 24  # entries of each variable at which it is then measured


class Candidate(NamedTuple):
    """A mode, as the end of searches."""

    mode: Mode  # the mode
    num_starts: int  # number of searches that ended there
    # Rough bound of the normal with the curvature there; -inf if it was not computed, or it is no
    # mode
    elbo: float = -np.inf


class SearchResult(NamedTuple):
    """The result of all searches."""

    candidates: list[Candidate]  # modes, best first
    labels: list[Exchange]  # exchanges of labels that leave the density as it is
    num_starts: int  # number of searches


def find_modes(
    target: Target, seed: int, num_starts: int, stopped: Callable[[], bool] = never
) -> list[Candidate]:
    """The modes, best first. Half of the searches begin within 2 of zero, in free coordinates, the
    others as far apart as the prior is wide. Raises ValueError: the density is finite at no start,
    or has no gradient."""
    near_starts = np.random.default_rng(seed).uniform(-BOX, BOX, (-(-num_starts // 2), target.dim))
    check_slopes(target, target.variables, near_starts)
    scales = prior_scales(target)
    wide = wide_starts(target, scales, num_starts - len(near_starts), seed)
    starts = np.concatenate([near_starts, wide])
    units = np.where(scales.is_known & scales.is_prior, np.maximum(scales.width, 1.0), 1.0)
    unscale = lambda point: point._replace(x=point.x * units)
    same_hill = lambda low, high: share_hill(target, unscale(low), unscale(high))

    def scaled_slopes(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = target.slopes(x * units)
        return values, slopes * units

    ends = maximise(scaled_slopes, starts / units, stopped=stopped, on_one_hill=same_hill)
    expected = f"a finite one at any of {num_starts} random starts"
    remedy = "Look for logarithms of zero and supports that the variables do not declare."
    require(bool(ends), "log_density", expected, "none", remedy)
    best, *lower = _merge(ends)
    # In a bent valley a search may stop because it remembers the curvature of another place: it
    # begins again.
    candidates = [best]
    for candidate in lower:
        if candidate.mode.value > best.mode.value - 10 - target.dim:
            mode = _search_again(scaled_slopes, candidate.mode, stopped)
            candidate = candidate._replace(mode=mode)
        candidates.append(candidate)
    candidates.sort(key=lambda candidate: -candidate.mode.value)
    modes = []
    for candidate in candidates:
        x, value, sds = candidate.mode
        modes += [Mode(x * units, value, sds * units)] * candidate.num_starts
    return _merge(modes)


def _search_again(slopes: Slopes, mode: Mode, stopped: Callable[[], bool]) -> Mode:
    """Searches from a mode, and from the end of that search, until a search gains nothing. The last
    search has met no curvature, so its end does not count."""
    for _ in range(TIMES):
        end = maximise(slopes, mode.x[None], AGAIN, stopped=stopped)[0]
        if end.value < mode.value + DIP:
            break
        mode = end
    return mode


def _merge(ends: list[Mode]) -> list[Candidate]:
    """The modes that differ by more than a search's inaccuracy, with the number of searches that
    ended there."""
    candidates: list[Candidate] = []
    for end in ends:
        for i, candidate in enumerate(candidates):
            if _are_same(candidate.mode, end):
                candidates[i] = candidate._replace(num_starts=candidate.num_starts + 1)
                break
        else:
            candidates.append(Candidate(end, 1))
    return candidates


def _are_same(a: Mode, b: Mode) -> bool:
    has_value = abs(a.value - b.value) < 0.1
    return has_value and bool(np.all(abs(a.x - b.x) < a.sds + b.sds))


# --- their bounds ---------------------------------------------------------------------------------
def with_bounds(
    target: Target, candidates: list[Candidate], seed: int, is_cut: bool = False
) -> tuple[list[Candidate], Gaussian]:
    """The modes with rough bounds of the normals there, and the normal with the highest bound.

    Modes far below the highest have no bound. If searches were cut short (`is_cut`), normals are
    computed at the first few of their ends that are no modes: these have no bound either, but may
    be the best normal."""
    noise = draw_noise(32, target.dim, [seed, 99])
    most = MOST_JUDGED if target.dim <= MANY else MOST_JUDGED // 2
    with_bound = list(candidates)
    normals = []
    num_lost = 0
    for i, candidate in enumerate(candidates[:most]):
        mode = candidate.mode
        is_low = mode.value < candidates[0].mode.value - 10 - target.dim
        if is_low or (is_cut and num_lost == MOST_LOST):
            continue
        q, promise = Gaussian(mode.x, mode.sds, 0.0), 0.0
        if target.dim <= DENSE:
            q, promise = laplace(target, mode)
        normals.append(q._replace(elbo=rough_bound(target, q, noise)))
        if promise >= ARRIVED:
            num_lost += 1
        else:
            with_bound[i] = candidate._replace(elbo=normals[-1].elbo)
    return with_bound, max(normals, key=lambda q: q.elbo)


def rough_bound(target: Target, q: Gaussian, noise: Float[np.ndarray, "draws D"]) -> float:
    """The ELBO on some draws."""
    values = target.values(q.from_noise(noise))
    return float(np.where(np.isfinite(values), values, -1e10).mean()) + q.entropy()


# --- starts ---------------------------------------------------------------------------------------
BOX = 2.0  # half the width of the box in which half of all searches begin
LINE = np.concatenate([-(2.0 ** np.arange(34, -4, -1)), [0.0], 2.0 ** np.arange(-3, 35)])
"""Points at which a prior is evaluated: its width is then known to a small factor, up to 1e10."""
FINE = np.interp(np.arange(8 * len(LINE) - 7) / 8, np.arange(len(LINE)), LINE)
"""Points of the integral over the line; the logarithm of the prior is linear between them."""
AT_EDGE = 0.02  # share of a prior's mass at the ends of the line, above which it is unknown
OUT = 1.0, 3.0, 9.0
"""Distances of the starts if the prior is unknown, for a third of them each, in widths of the
density itself or of the box."""
CANDIDATES = 16  # random points for each start
TRIED = 4  # the highest of these, for each start, which must be on different hills
# Points between two others at which a valley is looked for
BETWEEN = np.array([0.0625, 0.25, 0.5, 0.75])
DIP = 0.1  # least depth of a valley, in nats


class Scales(NamedTuple):
    """Middle and width of the prior of each coordinate."""

    middle: Float[np.ndarray, " D"]
    width: Float[np.ndarray, " D"]  # standard deviations
    # False where the prior tells nothing: then the middle is 0, and the width is the box's
    is_known: Bool[np.ndarray, " D"]
    is_prior: bool  # False if they are measured on a density without a separate prior


def prior_scales(target: Target) -> Scales:
    """Measures middle and width of the prior, coordinate by coordinate.

    Without a separate prior each value reads all data. With many variables such a density is
    measured at some entries of each variable; others have the median of these."""
    dim = target.dim
    places = [np.asarray(entries) for entries in target.variables.places.values()]
    rows = np.arange(dim)
    if dim > MANY_WIDTHS and not target.has_prior:
        rows = np.sort(np.concatenate([subsample(entries) for entries in places]))
    widths = _widths(target, rows)
    is_known = np.array([pair is not None for pair in widths])
    middle, width = np.array([pair or (0.0, BOX) for pair in widths]).T
    scales = Scales(middle, width, is_known, target.has_prior)
    return scales if len(rows) == dim else _extend(scales, rows, places)


def subsample(entries: Int[np.ndarray, " n"]) -> Int[np.ndarray, " some"]:
    """Entries of a variable at which the density is measured: all of a small variable, else some,
    evenly spread.

    >>> subsample(np.arange(5)).tolist(), len(subsample(np.arange(1000)))
    ([0, 1, 2, 3, 4], 24)
    """
    if len(entries) <= SOME_WIDTHS:
        return entries
    return entries[np.linspace(0, len(entries) - 1, SOME_WIDTHS).round().astype(int)]


def _extend(scales: Scales, rows: Int[np.ndarray, " some"], places: list[np.ndarray]) -> Scales:
    """Scales of all entries of each variable, from scales of the entries `rows`."""
    dim = sum(map(len, places))
    middle = np.zeros(dim)
    width = np.full(dim, BOX)
    is_known = np.zeros(dim, bool)
    for entries in places:
        is_in = np.isin(rows, entries)
        is_known[entries] = scales.is_known[is_in].all()
        width[entries] = np.median(scales.width[is_in])
        middle[entries] = np.median(scales.middle[is_in])
    middle[rows] = scales.middle
    width[rows] = scales.width
    is_known[rows] = scales.is_known
    return scales._replace(middle=middle, width=width, is_known=is_known)


def _widths(
    target: Target, coordinates: Int[np.ndarray, " some"]
) -> list[tuple[float, float] | None]:
    """Middle and width along these coordinates, all others zero; None where they are not known."""
    widths: list[tuple[float, float] | None] = []
    at_once = max(MOST_NUMBERS // (target.dim * len(LINE)), 1)
    for start in range(0, len(coordinates), at_once):
        chunk = coordinates[start : start + at_once]
        x = np.zeros((len(LINE), len(chunk), target.dim))
        x[:, np.arange(len(chunk)), chunk] = LINE[:, None]
        values = target.log_priors(x.reshape(-1, target.dim)).reshape(len(LINE), len(chunk))
        widths += [_line_width(column) for column in values.T]
    return widths


def _line_width(values: Float[np.ndarray, " points"]) -> tuple[float, float] | None:
    """Middle and half distance of the quantiles of one standard deviation; None where the mass is
    at the ends.

    >>> middle, width = _line_width(-0.5 * ((LINE - 3) / 8) ** 2)
    >>> print(f"{middle:.0f} {width:.0f}")
    3 8
    >>> _line_width(0 * LINE) is None
    True
    """
    from scipy import interpolate  # its import takes long

    is_finite = np.isfinite(values)
    if not is_finite.any():
        return None
    heights = np.maximum(np.where(is_finite, values, -np.inf) - values[is_finite].max(), -700.0)
    heights = np.exp(interpolate.PchipInterpolator(LINE, heights)(FINE))
    total = np.concatenate([[0.0], np.cumsum(0.5 * (heights[1:] + heights[:-1]) * np.diff(FINE))])
    low, high = np.interp(LINE[[1, -2]], FINE, total)
    if low + total[-1] - high > AT_EDGE * total[-1]:
        return None
    low, high = np.interp([0.16, 0.84], total / total[-1], FINE)
    return 0.5 * (low + high), max(0.5 * (high - low), 1e-6)


def wide_starts(
    target: Target, scales: Scales, count: int, seed: int
) -> Float[np.ndarray, "count D"]:
    """Starts from random points as far apart as the prior is wide: high points on different hills,
    then random ones."""
    rng = np.random.default_rng([seed, 5])
    size = CANDIDATES * count
    distances = np.asarray(OUT)[rng.permutation(size) % len(OUT)][:, None]
    if scales.is_prior:
        width = np.where(scales.is_known, scales.width, BOX * distances)
    else:
        width = np.maximum(scales.width, BOX) * distances
    x = scales.middle + width * rng.normal(size=(size, target.dim))
    values = target.values(x)
    order = np.argsort(-values, kind="stable")
    order = order[np.isfinite(values[order])]
    starts: list[int] = []
    point = lambda i: Point(x[i], float(values[i]), 0.0)
    for i in order[: TRIED * count]:
        gaps = (((x[starts] - x[i]) / width[i]) ** 2).sum(1)
        nearest = [starts[k] for k in np.argsort(gaps, kind="stable")[:2]]
        if len(starts) < count and not any(share_hill(target, point(i), point(j)) for j in nearest):
            starts.append(int(i))
    starts += [int(i) for i in rng.permutation(order) if i not in starts]
    return x[starts[:count]]


def share_hill(target: Target, low: Mode | Point, high: Mode | Point) -> bool:
    """True if there is no valley on the way from the lower of two points to the higher one (Ursem
    1999)."""
    between = low.x + BETWEEN[:, None] * (high.x - low.x)
    rounding = 10 * target.epsilon * abs(high.value)
    return bool(target.values(between).min() >= low.value - DIP - rounding)
