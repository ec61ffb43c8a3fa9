"""A normal of many variables: independent but for some directions of dependence.

With standard deviations s and orthonormal directions V, of which each has a stretch e^b,

    x = m + s (I + V (e^b - I) V') z,    z ~ N(0, I):

beside independent normals (b = 0) it is as wide as it has to be along the directions, or as narrow:
a common factor of the variables needs the one, a sum of them that the data know well the other. D
(r + 2) numbers, O(D r) operations.

The directions are those in which the curvature of the log density, in units of s, is furthest from
its bulk: the ends of its spectrum, by Lanczos' iterations with products of Hessians and vectors.
Natural-gradient steps follow on fresh draws, each shortened until the bound on its own draws does
not fall, and then their running mean. Directions are kept where the bound is higher with them on
the same draws, beyond their noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.automatic.dadvi import OnDraws, climb, unit_noise
from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.automatic.trust_region import Run, average_steps
from vijax.lbfgs import Mode
from vijax.verdict import limits
from vijax.verdict.improper import ASKED, grows_along
from vijax.verdict.report import Ended
from vijax.verdict.target import Target

RANK = 32  # largest number of directions
KRYLOV, HESSIANS = 100, 4
"""Hessian-vector products from which directions are computed, each the mean over so many draws."""
SPECTRUM = 2 * KRYLOV * HESSIANS  # gradients that they cost
MIDDLE = 0.3  # standard deviation at a start in the middle of where searches begin
FIXED, FRESH, JUDGED = 32, 64, 512
"""Draws: the fixed ones of independent normals; those of a step after them; those on which two fits
are compared."""
ROUNDS, STEPS = (
    2,
    10,
)  # how often directions are computed, and the number of first steps on fresh draws each time
WHOLE, LEAST = 0.5, 1e-3  # largest and smallest size of such a step
FURTHEST = 1.0  # nats that the mean may move in a step
# a fit has converged where the noise of its draws moves all means by fewer standard deviations
SDS = 0.02
POWER = 12  # Hessian-vector products that measure the largest curvature
OFF = 0.5  # whitened slopes at an optimum are at most so far from zero
MOST = 0.3  # the logarithm of a standard deviation moves at most so much in a step


def choose_rank(dim: int) -> int:
    """Returns the number of directions of so many variables.

    >>> choose_rank(1000), choose_rank(9)
    (32, 8)
    """
    return min(RANK, dim - 1)


def fit(run: Run, plain: Gaussian, start: Mode, seed: int) -> Gaussian:
    """Returns the better of independent normals and of those with directions, from a mode of the
    density and the `plain` normals of `independent` on. All stretches are 1 where directions gain
    nothing. No step is taken that needs more gradients than the run has."""
    target = run.target
    size = choose_rank(target.dim)
    q = plain._replace(directions=np.zeros((target.dim, size)), stretch=np.ones(size))
    q, rho = _stepped(run, q, [seed, 40])
    for turn in range(ROUNDS):
        if run.stopped() or not run.affords(2 * SPECTRUM + STEPS * FRESH):
            break
        found = add_directions(target, q, [seed, 50 + turn])
        found, its_rho = _stepped(run, found, [seed, 60 + turn])
        gain, error = compare_bounds(target, q, found, [seed, 70 + turn])
        if gain <= 2 * error:
            break
        q, rho = found, its_rho
    q = _on_fresh_draws(
        run._replace(max_gradients=run.max_gradients - SPECTRUM), q, start, rho, [seed, 80]
    )
    if not q.num_directions or q.ended not in (Ended.CONVERGED, Ended.LIMITED, Ended.SPENT):
        return q
    found = add_directions(
        target, q, [seed, 90]
    )  # standard deviations have moved since the last time, and been noisy
    gain, error = compare_bounds(target, q, found, [seed, 91])
    return found if gain > 2 * error else q


def independent(run: Run, start: Mode, seed: int) -> Gaussian:
    """Returns the better of independent normals on fixed draws from a mode and from the middle of
    where searches begin: the highest mode of a hierarchy is where a scale is zero, and no place to
    begin. Ten first steps are taken even where the run has no gradients for them."""
    target = run.target
    fixed = OnDraws(target, unit_noise(FIXED, target.dim, seed))
    middle = start._replace(x=np.zeros(target.dim), sds=np.full(target.dim, MIDDLE))
    most = max((run.max_gradients - target.num_gradients) // (6 * FIXED), 10)
    reached = [climb(fixed, start, most, stopped=run.stopped)]
    point = np.concatenate([middle.x, np.log(middle.sds)])
    if not run.stopped() and np.isfinite(fixed.slopes(point[None])[0][0]):
        reached.append(climb(fixed, middle, most, stopped=run.stopped))
    return max(reached, key=lambda q: q.elbo)


def compare_bounds(
    target: Target, one: Gaussian, other: Gaussian, seed: list[int]
) -> tuple[float, float]:
    """Returns the gain of the bound from `one` to `other` on the same noise, in nats, and its
    standard error."""
    noise = draw_noise(JUDGED, target.dim, seed)
    gaps = (
        target.values(other.from_noise(noise))
        - target.values(one.from_noise(noise))
        + other.entropy()
        - one.entropy()
    )
    if not np.isfinite(gaps).all():
        return -np.inf, 0.0
    pairs = 0.5 * (gaps[: len(gaps) // 2] + gaps[len(gaps) // 2 :])  # noise and its mirror image
    return float(pairs.mean()), float(pairs.std(ddof=1) / np.sqrt(len(pairs)))


# --- directions -----------------------------------------------------------------------------------
def add_directions(target: Target, q: Gaussian, seed: list[int]) -> Gaussian:
    """Gives q the directions in which the curvature, in units of the standard deviations, is
    furthest from its bulk."""
    plain = q._replace(directions=None, stretch=None)
    values, vectors = spectrum(target, plain, KRYLOV, seed)
    if not len(values):
        return q
    values = np.maximum(values, 1e-6)
    size = choose_rank(target.dim)
    chosen, bulk = _furthest(values, target.dim, size)
    directions, stretch = np.zeros((target.dim, size)), np.ones(size)
    directions[:, : len(chosen)] = vectors[:, chosen]
    stretch[: len(chosen)] = np.sqrt(bulk / values[chosen])
    return q._replace(scale=q.scale / np.sqrt(bulk), directions=directions, stretch=stretch)


def _furthest(values: np.ndarray, dim: int, size: int) -> tuple[np.ndarray, float]:
    """Chooses places at both ends of a spectrum, at most `size` together, that leave least to lose;
    and returns the mean of all other curvatures, to which the standard deviations adapt.

    The curvatures are in increasing order, of a matrix of trace D. To take k curvatures of mean c
    for equal costs (k log c - sum of their logarithms) / 2 nats."""
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


def spectrum(
    target: Target, q: Gaussian, size: int, seed: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns ends of the spectrum of the curvature where q is, in the units of q, and their
    vectors. At the optimum of a normal target all are 1."""
    x = q.from_noise(draw_noise(HESSIANS, target.dim, seed))

    def curvature(v: np.ndarray) -> np.ndarray:
        pushed = target.products(x, np.broadcast_to(q.scale * q.apply_stretch(v), x.shape)).mean(0)
        return -q.apply_stretch(q.scale * pushed)

    return lanczos(curvature, target.dim, min(size, target.dim), seed)


def lanczos(
    product: Callable[[np.ndarray], np.ndarray], dim: int, size: int, seed: list[int]
) -> tuple[Float[np.ndarray, " size"], Float[np.ndarray, "D size"]]:
    """Computes Ritz values and vectors of a symmetric matrix, by `size` products, orthogonal to
    rounding (Golub and Van Loan 2013, section 10.1).

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
        if (
            beside[i] <= 1e-10 * abs(middle[: i + 1]).max()
        ):  # all directions that the start has a part in
            basis, middle, beside = basis[:, : i + 1], middle[: i + 1], beside[: i + 1]
            break
    inside = np.diag(middle) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    values, vectors = np.linalg.eigh(inside)
    return values, basis @ vectors


# --- steps ----------------------------------------------------------------------------------------
class Gradient(NamedTuple):
    """The ELBO of q on draws, and its gradient."""

    at: Gaussian
    elbo: float
    mean: Float[np.ndarray, " D"]  # gradient in m
    log_sd: Float[np.ndarray, " D"]  # gradient in log s
    b: Float[np.ndarray, " r"]  # gradient in b
    whitened: Float[np.ndarray, "draws D"]  # gradients of the log density in z, of each draw
    left: Float[
        np.ndarray, "draws D"
    ]  # the same beyond those of N(0, I); zero for a normal target at its optimum


def gradient(target: Target, q: Gaussian, noise: Float[np.ndarray, "draws D"]) -> Gradient | None:
    """Evaluates a normal with directions on draws; None where a draw has no density."""
    assert q.directions is not None
    assert q.stretch is not None
    x = q.from_noise(noise)
    values, slopes = target.slopes(x)
    if not np.isfinite(values).all():
        return None
    scaled = slopes * q.scale
    is_used = (q.directions**2).sum(0) > 0
    b = ((scaled @ q.directions) * (noise @ q.directions) * q.stretch).mean(0) + is_used
    log_sd = (slopes * (x - q.mean)).mean(0) + 1
    whitened = q.apply_stretch(scaled)
    elbo = float(values.mean()) + q.entropy()
    return Gradient(q, elbo, slopes.mean(0), log_sd, b, whitened, whitened + noise)


def move(seen: Gradient, radius: float, rho: float) -> Gaussian:
    """Takes a natural-gradient step of size rho, its mean within the radius. (The information of
    log s and b is 2.)"""
    q = seen.at
    assert q.stretch is not None
    by = lambda slope: np.exp(np.clip(0.5 * rho * slope, -MOST, MOST))
    shift = rho * seen.whitened.mean(0)
    shift *= min(1.0, np.sqrt(2 * radius) / max(float(np.linalg.norm(shift)), 1e-30))
    mean = q.mean + q.scale * q.apply_stretch(shift)
    return q._replace(mean=mean, scale=q.scale * by(seen.log_sd), stretch=q.stretch * by(seen.b))


def _stepped(run: Run, q: Gaussian, seed: list[int]) -> tuple[Gaussian, float]:
    """Takes some steps, each halved until it does not lower the ELBO on its own draws; and returns
    the last size."""
    target, rho = run.target, WHOLE
    for turn in range(STEPS):
        if run.stopped() or not run.affords(FRESH):
            break
        noise = draw_noise(FRESH, target.dim, [*seed, turn])
        seen = gradient(target, q, noise)
        if seen is None:
            break
        slack = 10 * target.epsilon * abs(seen.elbo)
        while rho >= LEAST:
            trial = move(seen, FURTHEST, rho)
            if (
                float(target.values(trial.from_noise(noise)).mean()) + trial.entropy()
                >= seen.elbo - slack
            ):
                q = trial._replace(elbo=seen.elbo)
                break
            rho /= 2
        rho = float(np.clip(2 * rho, LEAST, WHOLE))
    return q, rho


def _on_fresh_draws(run: Run, q: Gaussian, start: Mode, rho: float, seed: list[int]) -> Gaussian:
    """Averages steps on fresh draws, from the size of the last ones on."""
    target = run.target
    top = float(np.max(spectrum(target, q, POWER, [*seed, 0])[0], initial=1.0))
    first = int(np.ceil(max(1 / rho, top)))  # a larger step of the mean would overshoot
    slope, curvature = np.zeros(target.dim), np.ones(target.dim)

    def after(q: Gaussian, seen: Gradient, count: int) -> tuple[Gaussian, Ended | None]:
        nonlocal slope, curvature
        taken = count - first
        pairs = 0.5 * (
            seen.left[: FRESH // 2] + seen.left[FRESH // 2 :]
        )  # noise and its mirror image
        error = float(np.sqrt((pairs**2).mean() / (taken * len(pairs))))
        late = 2 / (taken + 1)  # later steps count more: they are nearer to where q ends
        slope = slope + late * (seen.whitened.mean(0) - slope)
        curvature = curvature + late * (1 - seen.log_sd - curvature)
        near = max(np.abs(slope).max(), np.abs(curvature - 1).max()) < max(OFF / 2, 5 * error)
        q = q._replace(error=error, elbo=q.elbo + (seen.elbo - q.elbo) / taken)
        return q, Ended.CONVERGED if near and error < SDS and count >= 2 * first else None

    q = average_steps(run, gradient, move, q, FRESH, seed, first, lambda t: FURTHEST, after)
    return (
        q
        if q.ended is Ended.INTERRUPTED
        else q._replace(ended=_ended(target, q, start, slope, curvature))
    )


def _ended(
    target: Target, q: Gaussian, start: Mode, slope: np.ndarray, curvature: np.ndarray
) -> Ended:
    """Returns why the fit ended: as q says, if it is at an optimum, where whitened slopes are 0 and
    curvatures 1. A coordinate of which the density says nothing has none, and its standard
    deviation grows for ever."""
    off = max(OFF, 5 * q.error)  # noise of the means themselves
    flat = curvature < 1 - off
    wide = bool((flat & (q.scale > limits.WIDENED * np.clip(start.sds, 1e-6, 1.0))).any())
    if wide and grows_along(target, q.draw(ASKED, 0)[0]).any():
        return Ended.UNBOUNDED
    return Ended.SPENT if max(np.abs(slope).max(), np.abs(curvature - 1).max()) > off else q.ended
