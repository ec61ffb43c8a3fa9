"""A normal of many variables with some directions of dependence, next to independent ones.

With standard deviations s and orthonormal directions V, of which each has a stretch e^b,

    x = m + s (I + V (e^b - I) V') z,    z ~ N(0, I):

beside independent normals (b = 0) it is as wide as it has to be along the directions, or as narrow: a common factor of
the variables needs the one, a sum of them that the data know well the other. D (r + 2) numbers, O(D r) operations.

The directions are those in which the curvature of the log density, in units of s, is furthest from its bulk: the ends
of its spectrum, by Lanczos' iterations with products of Hessians and vectors. Natural-gradient steps follow on fresh
draws, each no longer than its own draws allow, and then their running mean. Directions are taken where the bound is
higher with them on the same draws, beyond their noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.automatic.ascent import Mode, never
from vijax.automatic.diagonal import on_draws, unit_noise
from vijax.automatic.gaussian import Ended, Gaussian, noise_of
from vijax.automatic.on_draws import OnDraws
from vijax.automatic.runaway import ASKED, grows_along
from vijax.automatic.target import Target

RANK = 32
"""Directions, at most."""
KRYLOV, HESSIANS = 100, 4
"""Products of which the directions are made, each the mean over so many draws."""
SPECTRUM = 2 * KRYLOV * HESSIANS
"""Gradients that they cost."""
MIDDLE = 0.3
"""Standard deviation at a start in the middle."""
FIXED, FRESH, JUDGED = 32, 64, 512
"""Draws: fixed ones of independent normals, those of a step after them, and those on which two fits are compared."""
ROUNDS, STEPS = 2, 10
"""Times that directions are sought, and first steps on fresh draws each time."""
WHOLE, LEAST = 0.5, 1e-3
"""Size of such a step, and the smallest that is tried."""
FURTHEST = 1.0
"""Nats that the mean may go in a step."""
SDS = 0.02
"""What the noise of draws may make of the means where a fit ends, in standard deviations, over all of them."""
POWER = 12
"""Products by which the largest curvature is known."""
OFF, MOST, FAR = 0.5, 0.3, 1e6
"""How far whitened slopes may be from zero at an end that is called one; by how much the logarithm of a standard
deviation moves in a step; and how many times as wide as at its start a normal gets whose density may be improper."""


def rank_of(dim: int) -> int:
    """Directions of so many variables.

    >>> rank_of(1000), rank_of(9)
    (32, 8)
    """
    return min(RANK, dim - 1)


def fit(target: Target, start: Mode, seed: int, max_gradients: int, stopped: Callable[[], bool] = never) -> Gaussian:
    """The better of independent normals and of what they become with directions.

    Args:
      target: the density.
      start: a mode of it.
      seed: of the draws.
      max_gradients: no step is taken that would need more, those of the target so far included; ten of independent
        normals are taken at least.
      stopped: asked before each step; then the fit ends as it stands.

    Returns:
      A normal with `directions` and `stretch`, of which all are 1 where directions gain nothing.
    """
    plain = _independent(target, start, seed, max_gradients, stopped)
    size = rank_of(target.dim)
    q = plain._replace(directions=np.zeros((target.dim, size)), stretch=np.ones(size))
    q, rho = _stepped(target, q, [seed, 40], max_gradients, stopped)
    for turn in range(ROUNDS):
        if stopped() or target.num_gradients + 2 * SPECTRUM + STEPS * FRESH > max_gradients:
            break
        found = directed(target, q, [seed, 50 + turn])
        found, its_rho = _stepped(target, found, [seed, 60 + turn], max_gradients, stopped)
        gain, error = compared(target, q, found, [seed, 70 + turn])
        if gain <= 2 * error:
            break
        q, rho = found, its_rho
    q = _polished(target, q, start, rho, [seed, 80], max_gradients - SPECTRUM, stopped)
    if not q.num_directions or q.ended not in (Ended.CONVERGED, Ended.LIMITED, Ended.SPENT):
        return q
    found = directed(target, q, [seed, 90])  # standard deviations have moved since the last time, and been noisy
    gain, error = compared(target, q, found, [seed, 91])
    return found if gain > 2 * error else q


def _independent(target: Target, start: Mode, seed: int, max_gradients: int, stopped: Callable[[], bool]) -> Gaussian:
    """The better of independent normals on fixed draws, from a mode and from the middle of where searches begin: the
    highest mode of a hierarchy is where a scale is zero, and no place to begin."""
    fixed = OnDraws(target, unit_noise(FIXED, target.dim, seed))
    middle = start._replace(x=np.zeros(target.dim), sds=np.full(target.dim, MIDDLE))
    most = max((max_gradients - target.num_gradients) // (6 * FIXED), 10)
    found = [on_draws(fixed, start, most, stopped=stopped)]
    point = np.concatenate([middle.x, np.log(middle.sds)])
    if not stopped() and np.isfinite(fixed.slopes(point[None])[0][0]):
        found.append(on_draws(fixed, middle, most, stopped=stopped))
    return max(found, key=lambda q: q.elbo)


def compared(target: Target, one: Gaussian, other: Gaussian, seed: list[int]) -> tuple[float, float]:
    """By how many nats the bound of `other` is higher, on the same noise, and the standard error of that."""
    noise = noise_of(JUDGED, target.dim, seed)
    gaps = target.values(other.at(noise)) - target.values(one.at(noise)) + other.entropy() - one.entropy()
    if not np.isfinite(gaps).all():
        return -np.inf, 0.0
    pairs = 0.5 * (gaps[: len(gaps) // 2] + gaps[len(gaps) // 2 :])  # noise and its mirror image
    return float(pairs.mean()), float(pairs.std(ddof=1) / np.sqrt(len(pairs)))


# --- directions ---------------------------------------------------------------------------------------------------
def directed(target: Target, q: Gaussian, seed: list[int]) -> Gaussian:
    """With the directions in which the curvature, in units of the standard deviations, is furthest from its bulk."""
    plain = q._replace(directions=None, stretch=None)
    values, vectors = spectrum(target, plain, KRYLOV, seed)
    if not len(values):
        return q
    values = np.maximum(values, 1e-6)
    size = rank_of(target.dim)
    chosen, bulk = _furthest(values, target.dim, size)
    directions, stretch = np.zeros((target.dim, size)), np.ones(size)
    directions[:, : len(chosen)] = vectors[:, chosen]
    stretch[: len(chosen)] = np.sqrt(bulk / values[chosen])
    return q._replace(scale=q.scale / np.sqrt(bulk), directions=directions, stretch=stretch)


def _furthest(values: np.ndarray, dim: int, size: int) -> tuple[np.ndarray, float]:
    """Of curvatures in increasing order, the ends of the spectrum of a matrix of trace D, at most `size` places at both
    ends together that leave least to lose; and the mean of all others, which the standard deviations adapt to.

    What k curvatures of mean c cost where they are taken for equal: (k log c - sum of their logarithms) / 2 nats."""
    total = max(float(dim), values.sum()) if len(values) < dim else values.sum()
    size = min(size, len(values))
    costs, logs = np.full(size + 1, np.inf), np.log(values)
    rests = np.zeros(size + 1)
    for low in range(size + 1):
        left = slice(low, len(values) - (size - low))
        taken = values.sum() - values[left].sum()
        count = dim - size
        rests[low] = (total - taken) / count
        if rests[low] > 0:
            costs[low] = count * np.log(rests[low]) - logs[left].sum()
    low = int(np.argmin(costs))
    chosen = np.r_[0:low, len(values) - (size - low) : len(values)]
    return chosen, max(float(rests[low]), 1e-3)


def spectrum(target: Target, q: Gaussian, size: int, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the spectrum of the curvature where q is, in its own units (all 1 at the optimum of a normal target)."""
    x = q.at(noise_of(HESSIANS, target.dim, seed))

    def curvature(v: np.ndarray) -> np.ndarray:
        pushed = target.products(x, np.broadcast_to(q.scale * q.stretched(v), x.shape)).mean(0)
        return -q.stretched(q.scale * pushed)

    return lanczos(curvature, target.dim, min(size, target.dim), seed)


def lanczos(
    product: Callable[[np.ndarray], np.ndarray], dim: int, size: int, seed: list[int]
) -> tuple[Float[np.ndarray, " size"], Float[np.ndarray, "D size"]]:
    """Ritz values and vectors of a symmetric matrix, by `size` products, orthogonal to rounding (Golub and Van Loan
    2013, section 10.1).

    >>> values, vectors = lanczos(lambda v: np.arange(1.0, 6.0) * v, 5, 5, [0])
    >>> values.round(6).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    basis = np.zeros((dim, size))
    v = np.random.default_rng(seed).normal(size=dim)
    middle, beside = np.zeros(size), np.zeros(size)
    for i in range(size):
        basis[:, i] = v / np.linalg.norm(v)
        v = product(basis[:, i])
        if not np.isfinite(v).all():  # the density is no smooth function there
            basis, middle, beside = basis[:, :i], middle[:i], beside[:i]
            break
        middle[i] = basis[:, i] @ v
        for _ in range(2):  # twice is enough
            v = v - basis[:, : i + 1] @ (basis[:, : i + 1].T @ v)
        beside[i] = np.linalg.norm(v)
        if beside[i] < 1e-10 * abs(middle[: i + 1]).max():  # all directions that the start has a part in
            basis, middle, beside = basis[:, : i + 1], middle[: i + 1], beside[: i + 1]
            break
    inside = np.diag(middle) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    values, vectors = np.linalg.eigh(inside)
    return values, basis @ vectors


# --- steps ----------------------------------------------------------------------------------------------------------
class Gradient(NamedTuple):
    """Of the ELBO on draws.

    Attributes:
      value: of the ELBO.
      mean: in m.
      log_sd: in log s.
      b: in b.
      whitened: gradients of the log density in z, of each draw.
      is_bad: whether a draw has no density.
    """

    value: float
    mean: Float[np.ndarray, " D"]
    log_sd: Float[np.ndarray, " D"]
    b: Float[np.ndarray, " r"]
    whitened: Float[np.ndarray, "draws D"]
    is_bad: bool


def gradient(target: Target, q: Gaussian, noise: Float[np.ndarray, "draws D"]) -> Gradient:
    """The ELBO of a normal with directions, on draws, and its gradient."""
    assert q.directions is not None
    assert q.stretch is not None
    x = q.at(noise)
    values, slopes = target.slopes(x)
    scaled = slopes * q.scale
    is_used = (q.directions**2).sum(0) > 0
    b = ((scaled @ q.directions) * (noise @ q.directions) * q.stretch).mean(0) + is_used
    log_sd = (slopes * (x - q.mean)).mean(0) + 1
    value = float(values.mean()) + q.entropy()
    return Gradient(value, slopes.mean(0), log_sd, b, q.stretched(scaled), not np.isfinite(values).all())


def moved(q: Gaussian, asked: Gradient, rho: float) -> Gaussian:
    """A natural-gradient step of size rho, its mean within a trust region. (2 is the information of log s and b.)"""
    assert q.stretch is not None
    by = lambda slope: np.exp(np.clip(0.5 * rho * slope, -MOST, MOST))
    shift = rho * asked.whitened.mean(0)
    shift *= min(1.0, np.sqrt(2 * FURTHEST) / max(float(np.linalg.norm(shift)), 1e-30))
    mean = q.mean + q.scale * q.stretched(shift)
    return q._replace(mean=mean, scale=q.scale * by(asked.log_sd), stretch=q.stretch * by(asked.b))


def _stepped(
    target: Target, q: Gaussian, seed: list[int], max_gradients: int, stopped: Callable[[], bool]
) -> tuple[Gaussian, float]:
    """After some steps, each halved until it does not lower the ELBO on its own draws; and the size of the last."""
    rho = WHOLE
    for turn in range(STEPS):
        if stopped() or target.num_gradients + FRESH > max_gradients:
            break
        noise = noise_of(FRESH, target.dim, [*seed, turn])
        asked = gradient(target, q, noise)
        if asked.is_bad:
            break
        slack = 10 * target.epsilon * abs(asked.value)
        while rho >= LEAST:
            trial = moved(q, asked, rho)
            if float(target.values(trial.at(noise)).mean()) + trial.entropy() >= asked.value - slack:
                q = trial._replace(elbo=asked.value)
                break
            rho /= 2
        rho = float(np.clip(2 * rho, LEAST, WHOLE))
    return q, rho


def _polished(
    target: Target,
    q: Gaussian,
    start: Mode,
    rho: float,
    seed: list[int],
    max_gradients: int,
    stopped: Callable[[], bool],
) -> Gaussian:
    """Steps of size 1 / t on fresh draws, from that of the last ones on: a running mean of what they ask for, whose
    noise falls with all draws taken."""
    top = float(np.max(spectrum(target, q, POWER, [*seed, 0])[0], initial=1.0))
    first = int(np.ceil(max(1 / rho, top)))  # a larger step of the mean would overshoot
    count, slope, curvature = first, np.zeros(target.dim), np.ones(target.dim)
    q = q._replace(ended=Ended.LIMITED)
    while target.num_gradients + FRESH <= max_gradients and q.ended is Ended.LIMITED:
        if stopped():
            return q._replace(ended=Ended.INTERRUPTED)
        count += 1
        noise = noise_of(FRESH, target.dim, [*seed, count])
        asked = gradient(target, q, noise)
        if asked.is_bad:
            continue
        left = asked.whitened + noise  # of a normal target nothing
        pairs = 0.5 * (left[: FRESH // 2] + left[FRESH // 2 :])  # noise and its mirror image
        error = float(np.sqrt((pairs**2).mean() / ((count - first) * len(pairs))))
        late = 2 / (count - first + 1)  # later steps count more: they are nearer to where q ends
        slope += late * (asked.whitened.mean(0) - slope)
        curvature += late * (1 - asked.log_sd - curvature)
        elbo = q.elbo + (asked.value - q.elbo) / (count - first)
        q = moved(q, asked, 1 / count)._replace(error=error, elbo=elbo)
        near = max(np.abs(slope).max(), np.abs(curvature - 1).max()) < max(OFF / 2, 5 * error)
        q = q._replace(ended=Ended.CONVERGED if near and error < SDS and count >= 2 * first else Ended.LIMITED)
    return q._replace(ended=_ended(target, q, start, slope, curvature))


def _ended(target: Target, q: Gaussian, start: Mode, slope: np.ndarray, curvature: np.ndarray) -> Ended:
    """As q says, if it is at an optimum: where whitened slopes are 0 and curvatures 1. A coordinate of which the
    density says nothing has none, and its standard deviation grows for ever."""
    off = max(OFF, 5 * q.error)  # noise of the means themselves
    flat = curvature < 1 - off
    wide = bool((flat & (q.scale > FAR * np.clip(start.sds, 1e-6, 1.0))).any())
    if wide and grows_along(target, q.drawn(ASKED, 0)[0]).any():
        return Ended.UNBOUNDED
    return Ended.SPENT if max(np.abs(slope).max(), np.abs(curvature - 1).max()) > off else q.ended
