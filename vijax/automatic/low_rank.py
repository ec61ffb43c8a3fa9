"""A normal of many variables: independent but for some directions of dependence.

With standard deviations s and orthonormal directions V, each with a stretch e^b,

    x = m + s (I + V (e^b - I) V') z,    z ~ N(0, I).

Without stretch (b = 0) these are independent normals. Along the directions q can be wider, as a
common factor of the variables needs, or narrower, as a sum that the data determine well needs. It
has D (r + 2) numbers, and takes O(D r) operations.

The directions are the ends of the spectrum of the curvature of the log density, in units of s, by
Lanczos' iterations with products of Hessians and vectors. Natural-gradient steps follow on fresh
draws, each shortened until the bound on its own draws does not fall, and then their running mean.
Directions stay if they raise the bound on the same draws, beyond noise."""

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
KRYLOV = 100  # Hessian-vector products for the directions
HESSIANS = 4  # draws over which each product is averaged
SPECTRUM = 2 * KRYLOV * HESSIANS  # gradients that the products cost
MIDDLE = 0.3  # standard deviation at a start in the middle of the box of searches
FIXED = 32  # fixed draws of independent normals
FRESH = 64  # fresh draws of a later step
JUDGED = 512  # draws on which two fits are compared
ROUNDS = 2  # how often directions are computed
STEPS = 10  # first steps on fresh draws in each round
WHOLE = 0.5  # largest size of such a step
LEAST = 1e-3  # its smallest size
FURTHEST = 1.0  # nats that the mean may move in a step
# A fit has converged when the noise of its draws moves all means by fewer standard deviations.
SDS = 0.02
POWER = 12  # Hessian-vector products that measure the largest curvature
OFF = 0.5  # size of whitened slopes at an optimum, at most
MOST = 0.3  # move of the logarithm of a standard deviation in a step, at most


def choose_rank(dim: int) -> int:
    """The number of directions for `dim` variables.

    >>> choose_rank(1000), choose_rank(9)
    (32, 8)
    """
    return min(RANK, dim - 1)


def fit(run: Run, plain: Gaussian, start: Mode, seed: int) -> Gaussian:
    """The better of independent normals and of normals with directions. All stretches are 1 if
    directions gain nothing. It takes no step that needs more gradients than the run has.

    Args:
      run: the limits.
      plain: the normals of `independent`, to begin at.
      start: a mode of the density.
      seed: seed of all draws.
    """
    target = run.target
    size = choose_rank(target.dim)
    q = plain._replace(directions=np.zeros((target.dim, size)), stretch=np.ones(size))
    q, rho = _take_steps(run, q, [seed, 40])
    for turn in range(ROUNDS):
        if run.stopped() or not run.affords(2 * SPECTRUM + STEPS * FRESH):
            break
        trial = add_directions(target, q, [seed, 50 + turn])
        trial, trial_rho = _take_steps(run, trial, [seed, 60 + turn])
        gain, error = compare_bounds(target, q, trial, [seed, 70 + turn])
        if gain <= 2 * error:
            break
        q, rho = trial, trial_rho
    limited_run = run._replace(max_gradients=run.max_gradients - SPECTRUM)
    q = _average_fresh_draws(limited_run, q, start, rho, [seed, 80])
    if not q.num_directions or q.ended not in (Ended.CONVERGED, Ended.LIMITED, Ended.SPENT):
        return q
    # Since directions were last computed, standard deviations have moved, and they were noisy.
    trial = add_directions(target, q, [seed, 90])
    gain, error = compare_bounds(target, q, trial, [seed, 91])
    return trial if gain > 2 * error else q


def independent(run: Run, start: Mode, seed: int) -> Gaussian:
    """The better of independent normals on fixed draws from a mode and from the middle of the box
    of searches: the highest mode of a hierarchy is where a scale is zero, a bad start. It takes ten
    first steps even if the run has no gradients for them."""
    target = run.target
    objective = OnDraws(target, unit_noise(FIXED, target.dim, seed))
    middle = start._replace(x=np.zeros(target.dim), sds=np.full(target.dim, MIDDLE))
    max_steps = max((run.max_gradients - target.num_gradients) // (6 * FIXED), 10)
    normals = [climb(objective, start, max_steps, stopped=run.stopped)]
    point = np.concatenate([middle.x, np.log(middle.sds)])
    if not run.stopped() and np.isfinite(objective.slopes(point[None])[0][0]):
        normals.append(climb(objective, middle, max_steps, stopped=run.stopped))
    return max(normals, key=lambda q: q.elbo)


def compare_bounds(
    target: Target, a: Gaussian, b: Gaussian, seed: list[int]
) -> tuple[float, float]:
    """The gain of the bound from `a` to `b` on the same noise, in nats, and its standard error."""
    noise = draw_noise(JUDGED, target.dim, seed)
    gaps = (
        target.values(b.from_noise(noise))
        - target.values(a.from_noise(noise))
        + b.entropy()
        - a.entropy()
    )
    if not np.isfinite(gaps).all():
        return -np.inf, 0.0
    pairs = 0.5 * (gaps[: len(gaps) // 2] + gaps[len(gaps) // 2 :])  # noise and its mirror image
    return float(pairs.mean()), float(pairs.std(ddof=1) / np.sqrt(len(pairs)))


# --- directions -----------------------------------------------------------------------------------
def add_directions(target: Target, q: Gaussian, seed: list[int]) -> Gaussian:
    """q with the directions in which the curvature, in units of the standard deviations, is
    furthest from its bulk."""
    plain = q._replace(directions=None, stretch=None)
    values, vectors = spectrum(target, plain, KRYLOV, seed)
    if not len(values):
        return q
    values = np.maximum(values, 1e-6)
    size = choose_rank(target.dim)
    ends, bulk = _choose_ends(values, target.dim, size)
    directions = np.zeros((target.dim, size))
    directions[:, : len(ends)] = vectors[:, ends]
    stretch = np.ones(size)
    stretch[: len(ends)] = np.sqrt(bulk / values[ends])
    return q._replace(scale=q.scale / np.sqrt(bulk), directions=directions, stretch=stretch)


def _choose_ends(values: np.ndarray, dim: int, size: int) -> tuple[np.ndarray, float]:
    """The places at both ends of a spectrum, at most `size` together, that leave the smallest loss;
    and the mean of all other curvatures, to which the standard deviations adapt.

    The curvatures are in increasing order, of a matrix of trace D. If k curvatures of mean c are
    treated as equal, the loss is (k log c - sum of their logarithms) / 2 nats."""
    total = max(float(dim), values.sum()) if len(values) < dim else values.sum()
    size = min(size, len(values))
    logs = np.log(values)
    costs = np.full(size + 1, np.inf)
    means = np.zeros(size + 1)
    for low in range(size + 1):
        bulk = slice(low, len(values) - (size - low))
        end_sum = values.sum() - values[bulk].sum()
        count = dim - size
        means[low] = (total - end_sum) / count
        if means[low] > 0:
            costs[low] = count * np.log(means[low]) - logs[bulk].sum()
    low = int(np.argmin(costs))
    ends = np.r_[0:low, len(values) - (size - low) : len(values)]
    return ends, max(float(means[low]), 1e-3)


def spectrum(
    target: Target, q: Gaussian, size: int, seed: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the spectrum of the curvature at q, in the units of q, and their vectors. At the
    optimum of a normal target all are 1."""
    x = q.from_noise(draw_noise(HESSIANS, target.dim, seed))

    def curvature(v: np.ndarray) -> np.ndarray:
        vectors = np.broadcast_to(q.scale * q.apply_stretch(v), x.shape)
        product = target.products(x, vectors).mean(0)
        return -q.apply_stretch(q.scale * product)

    return lanczos(curvature, target.dim, min(size, target.dim), seed)


def lanczos(
    product: Callable[[np.ndarray], np.ndarray], dim: int, size: int, seed: list[int]
) -> tuple[Float[np.ndarray, " size"], Float[np.ndarray, "D size"]]:
    """Ritz values and vectors of a symmetric matrix, by `size` products, orthogonal to rounding
    (Golub and Van Loan 2013, section 10.1).

    >>> values, vectors = lanczos(lambda v: np.arange(1.0, 6.0) * v, 5, 5, [0])
    >>> values.round(6).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    basis = np.zeros((dim, size))
    v = np.random.default_rng(seed).normal(size=dim)
    diagonal = np.zeros(size)
    off_diagonal = np.zeros(size)
    count = size
    for i in range(size):
        basis[:, i] = v / np.linalg.norm(v)
        v = product(basis[:, i])
        if not np.isfinite(v).all():  # the density is not smooth there
            count = i
            break
        diagonal[i] = basis[:, i] @ v
        for _ in range(2):  # twice is enough
            v = v - basis[:, : i + 1] @ (basis[:, : i + 1].T @ v)
        off_diagonal[i] = np.linalg.norm(v)
        if off_diagonal[i] <= 1e-10 * abs(diagonal[: i + 1]).max():  # the space of the start ends
            count = i + 1
            break
    beside = off_diagonal[: max(count - 1, 0)]
    matrix = np.diag(diagonal[:count]) + np.diag(beside, 1) + np.diag(beside, -1)
    values, vectors = np.linalg.eigh(matrix)
    return values, basis[:, :count] @ vectors


# --- steps ----------------------------------------------------------------------------------------
class Gradient(NamedTuple):
    """The ELBO of q on draws, and its gradient."""

    q: Gaussian
    elbo: float
    mean: Float[np.ndarray, " D"]  # gradient in m
    log_sd: Float[np.ndarray, " D"]  # gradient in log s
    b: Float[np.ndarray, " r"]  # gradient in b
    whitened: Float[np.ndarray, "draws D"]  # gradients of the log density in z, of each draw
    # These less the gradients of log N(0, I); zero for a normal target at its optimum
    residuals: Float[np.ndarray, "draws D"]


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


def move(before: Gradient, radius: float, rho: float) -> Gaussian:
    """q after a natural-gradient step of size rho, its mean within the radius. (The information of
    log s and b is 2.)"""
    q = before.q
    assert q.stretch is not None
    factor = lambda slope: np.exp(np.clip(0.5 * rho * slope, -MOST, MOST))
    shift = rho * before.whitened.mean(0)
    shift *= min(1.0, np.sqrt(2 * radius) / max(float(np.linalg.norm(shift)), 1e-30))
    mean = q.mean + q.scale * q.apply_stretch(shift)
    scale = q.scale * factor(before.log_sd)
    return q._replace(mean=mean, scale=scale, stretch=q.stretch * factor(before.b))


def _take_steps(run: Run, q: Gaussian, seed: list[int]) -> tuple[Gaussian, float]:
    """q after some steps, each halved until it does not lower the ELBO on its own draws; and the
    last size."""
    target = run.target
    rho = WHOLE
    for turn in range(STEPS):
        if run.stopped() or not run.affords(FRESH):
            break
        noise = draw_noise(FRESH, target.dim, [*seed, turn])
        before = gradient(target, q, noise)
        if before is None:
            break
        slack = 10 * target.epsilon * abs(before.elbo)
        while rho >= LEAST:
            trial = move(before, FURTHEST, rho)
            values = target.values(trial.from_noise(noise))
            if float(values.mean()) + trial.entropy() >= before.elbo - slack:
                q = trial._replace(elbo=before.elbo)
                break
            rho /= 2
        rho = float(np.clip(2 * rho, LEAST, WHOLE))
    return q, rho


def _average_fresh_draws(
    run: Run, q: Gaussian, start: Mode, rho: float, seed: list[int]
) -> Gaussian:
    """Averages steps on fresh draws, beginning at the size of the last steps."""
    target = run.target
    largest = float(np.max(spectrum(target, q, POWER, [*seed, 0])[0], initial=1.0))
    first = int(np.ceil(max(1 / rho, largest)))  # a larger step of the mean would overshoot
    slope = np.zeros(target.dim)
    curvature = np.ones(target.dim)

    def judge(q: Gaussian, before: Gradient, count: int) -> tuple[Gaussian, Ended | None]:
        nonlocal slope, curvature
        num_steps = count - first
        half = FRESH // 2
        pairs = 0.5 * (before.residuals[:half] + before.residuals[half:])  # noise and its mirror
        error = float(np.sqrt((pairs**2).mean() / (num_steps * len(pairs))))
        weight = 2 / (num_steps + 1)  # later steps count more: they are nearer to the end of q
        slope = slope + weight * (before.whitened.mean(0) - slope)
        curvature = curvature + weight * (1 - before.log_sd - curvature)
        is_near = _distance(slope, curvature) < max(OFF / 2, 5 * error)
        q = q._replace(error=error, elbo=q.elbo + (before.elbo - q.elbo) / num_steps)
        is_converged = is_near and error < SDS and count >= 2 * first
        return q, Ended.CONVERGED if is_converged else None

    q = average_steps(run, gradient, move, q, FRESH, seed, first, lambda t: FURTHEST, judge)
    if q.ended is Ended.INTERRUPTED:
        return q
    return q._replace(ended=_end(target, q, start, slope, curvature))


def _distance(slope: np.ndarray, curvature: np.ndarray) -> float:
    """The distance from an optimum, where whitened slopes are 0 and curvatures 1."""
    return max(np.abs(slope).max(), np.abs(curvature - 1).max())


def _end(
    target: Target, q: Gaussian, start: Mode, slope: np.ndarray, curvature: np.ndarray
) -> Ended:
    """Why the fit ended: `q.ended` at an optimum. A coordinate about which the density says nothing
    has no curvature, and its standard deviation grows for ever."""
    tolerance = max(OFF, 5 * q.error)  # noise of the means
    is_flat = curvature < 1 - tolerance
    is_wide = q.scale > limits.WIDENED * np.clip(start.sds, 1e-6, 1.0)
    if (is_flat & is_wide).any() and grows_along(target, q.draw(ASKED, 0)[0]).any():
        return Ended.UNBOUNDED
    return Ended.SPENT if _distance(slope, curvature) > tolerance else q.ended
