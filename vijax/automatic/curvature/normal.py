"""A normal of full covariance from expected Hessians.

The normal nearest to a density, by the ELBO, has  precision = E_q[-Hessian]  and  E_q[slope] = 0
(Opper and Archambeau 2009). So its precision is zero where all Hessians are zero, for any q: a
sparse density has a sparse precision. The fitted normal has a full covariance, without an assumed
structure.

Steps are natural-gradient ones (Khan and Lin 2017), of size rho,

    precision <- (1 - rho) precision + rho E_q[-Hessian],     mean <- mean + rho precision^-1 E_q[slope],

each on fresh draws, halved until the ELBO on its own draws does not fall; then their running mean
follows. A Hessian costs as many products with vectors as its pattern has colours
(`vijax.automatic.curvature.pattern`)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg, sparse

from vijax.automatic.curvature.kinks import has_kinks
from vijax.automatic.curvature.pattern import Pattern, find_pattern
from vijax.automatic.gaussian import Gaussian, draw_noise, root_of_inverse
from vijax.automatic.low_rank import SDS
from vijax.automatic.trust_region import Run
from vijax.lbfgs import Mode
from vijax.verdict.report import Ended
from vijax.verdict.target import Target

MOST_DIM = 3000
"""Largest number of variables: a factor of the covariance is then 72 MB."""
MOST_DENSE = 1500
"""Largest number of variables of which all Hessians may be whole matrices: each takes as many
products."""
SLOPES = 256
"""Draws of a step at which slopes are evaluated."""
FEWEST_HESSIANS = 2  # draws of a step at which Hessians are evaluated, at least
MOST_HESSIANS = 32  # draws of a step at which Hessians are evaluated, at most
STEPS = 24
"""Steps for which the gradients should suffice."""
FEWEST_STEPS = 8
"""If the gradients suffice for fewer steps, another method is used."""
MOST_SPARSE = 0.2
"""A larger share of entries is multiplied faster as a whole matrix."""
LEAST_SIZE = 1e-3
"""Least size of a step."""
KEPT = 0.1
"""A step leaves at least this share of a precision in every direction."""
MOST_NATS = 0.5
"""Largest step, in nats, as a share of the number of variables; but never less than ten nats."""
SLACK = 0.05
"""The ELBO on its own draws may fall by this share of the nats of a step."""
SLOWER = 0.5
"""If a step is longer than this share of the step before, it is noise of the draws."""
OUT = (-1e6, -1e4, 1e4, 1e6)
"""Points along a direction at which a density may be improper, in units of the first normal."""
FLAT = 1.0  # nats that a proper density loses at these points, at least
FEWEST_AVERAGED = 3
"""Steps that are averaged, at least."""
SHARE = 0.5
"""The share of the gradients that may be spent: if this fails another method needs some."""


Curvature = Any  # a matrix (D, D), sparse (SciPy's) or whole


class Evaluation(NamedTuple):
    """A normal evaluated on draws."""

    q: Gaussian
    values: Float[np.ndarray, " draws"]
    slope: Float[np.ndarray, " D"]  # mean gradient of the log density
    # mean of minus the Hessians, (D, D); sparse unless most entries differ from zero
    curvature: Curvature
    error: Float[np.ndarray, " D"]  # standard error of the whitened slope


class StepResult(NamedTuple):
    """A normal after a step."""

    q: Gaussian
    precision: Float[np.ndarray, "D D"]
    nats: float  # KL(q || the one before)
    size: float  # of the step


def fit(run: Run, begin: Gaussian, seed: int) -> Gaussian | None:
    """The normal of full covariance nearest to the density, from independent normals (`begin`).
    None if there are too many variables, or too few gradients, or the density has kinks, which
    Hessians do not contain."""
    target = run.target
    run = _with_share(run)
    if target.dim > MOST_DIM or not run.affords(2 * _fewest_gradients(target.dim)):
        return None
    if has_kinks(target, begin, [seed, 33]):
        return None
    pattern = find_pattern(target, begin, [seed, 30])
    start = Gaussian(begin.mean, np.diag(begin.sds), begin.elbo)
    return _fit_from(run, start, np.diag(1 / begin.sds**2), pattern, seed)


def fit_at_mode(run: Run, mode: Mode, seed: int) -> Gaussian | None:
    """The normal of full covariance nearest to the density, from the curvature at its only mode.
    None where this may not serve: the Hessian there is sparse or not negative definite, there are
    kinks, or steps do not converge."""
    target = run.target
    run = _with_share(run)
    if target.dim > MOST_DENSE or not run.affords(2 * _fewest_gradients(target.dim)):
        return None
    hessian = target.curvatures(mode.x, np.eye(target.dim))
    precision = -0.5 * (hessian + hessian.T)
    if not (np.isfinite(precision).all() and _is_positive(precision)):
        return None
    if np.count_nonzero(precision) < MOST_SPARSE * target.dim**2:
        return None
    begin = Gaussian(mode.x, root_of_inverse(precision), -np.inf)
    if has_kinks(target, begin, [seed, 33]):
        return None
    q = _fit_from(run, begin, precision, Pattern.dense(target.dim), seed)
    if q is None or q.ended not in (Ended.CONVERGED, Ended.INTERRUPTED):
        return None
    return q


def _with_share(run: Run) -> Run:
    """The run with the gradients that may be spent here."""
    num_gradients = run.target.num_gradients
    budget = int(SHARE * (run.max_gradients - num_gradients))
    return run._replace(max_gradients=num_gradients + budget)


def _fit_from(
    run: Run, start: Gaussian, start_precision: np.ndarray, pattern: Pattern, seed: int
) -> Gaussian | None:
    """The normal after steps from a start; None if gradients are too few, or there are kinks."""
    target = run.target
    sds = start.sds
    num_hessians = _num_hessians(run, pattern)
    if num_hessians is None:
        return None
    evaluate_q = functools.partial(evaluate, target, pattern, num_hessians)
    cost = SLOPES + 2 * num_hessians * pattern.num_products
    last = _climb(run, evaluate_q, start, start_precision, cost, seed)
    if last is None:
        return None
    if last.size < 1 and is_flat(target, last.q, last.precision, sds):
        return last.q._replace(ended=Ended.UNBOUNDED)
    q = _average(run, evaluate_q, last, cost, seed)
    if has_kinks(target, q, [seed, 34]):
        return None
    # At an optimum steps are whole. If the last step was not, some direction has no curvature.
    if last.size == 1 or q.ended is Ended.INTERRUPTED:
        return q
    return q._replace(ended=Ended.SPENT)


def is_flat(
    target: Target, q: Gaussian, precision: Float[np.ndarray, "D D"], sds: Float[np.ndarray, " D"]
) -> bool:
    """True where the density does not fall far out along the direction in which q is widest, in
    units of these standard deviations."""
    _, widest = linalg.eigh(precision * sds * sds[:, None], subset_by_index=[0, 0])
    direction = sds * widest[:, 0]
    points = np.stack([q.mean, *(q.mean + distance * direction for distance in OUT)])
    middle, *outer = target.values(points)
    return bool(np.all(np.asarray(outer) > middle - FLAT))


def _fewest_gradients(dim: int) -> int:
    """Gradients that a pattern takes: two whole Hessians."""
    return 2 * dim


def _num_hessians(run: Run, pattern: Pattern) -> int | None:
    """Hessians of a step that the remaining gradients allow, an even number; None if they are too
    few."""
    budget = run.max_gradients - run.target.num_gradients
    cost = 2 * pattern.num_products  # of a Hessian
    if budget < FEWEST_STEPS * (SLOPES + FEWEST_HESSIANS * cost):
        return None
    affordable = (budget / STEPS - SLOPES) / cost
    return int(np.clip(2 * (affordable // 2), FEWEST_HESSIANS, MOST_HESSIANS))


def evaluate(
    target: Target,
    pattern: Pattern,
    num_hessians: int,
    q: Gaussian,
    noise: Float[np.ndarray, "draws D"],
) -> Evaluation | None:
    """Evaluates a normal on draws, whose second half is minus the first; None if a draw has no
    density, or no Hessian."""
    x = q.from_noise(noise)
    values, slopes = target.slopes(x)
    pairs = len(noise) // 2
    rows = [*range(num_hessians // 2), *range(pairs, pairs + num_hessians // 2)]
    products = np.mean([target.curvatures(x[row], pattern.directions) for row in rows], axis=0)
    if not (np.isfinite(values).all() and np.isfinite(products).all()):
        return None
    curvature: Curvature = -pattern.matrix(products)
    if curvature.nnz > MOST_SPARSE * target.dim**2:
        curvature = curvature.toarray()
    whitened = slopes @ q.scale
    even = 0.5 * (whitened[:pairs] + whitened[pairs:])
    error = even.std(0, ddof=1) / np.sqrt(pairs)
    return Evaluation(q, values, slopes.mean(0), curvature, error)


def step(before: Evaluation, precision: Float[np.ndarray, "D D"], size: float) -> StepResult:
    """Takes a natural-gradient step, made smaller until the new precision is positive definite and
    the step short enough."""
    q = before.q
    curvature = before.curvature
    if sparse.issparse(curvature):
        curvature = curvature.toarray()
    max_nats = max(10.0, MOST_NATS * len(before.slope))
    while True:
        new = (1 - size) * precision + size * curvature
        if _is_positive(new - KEPT * precision):
            scale = root_of_inverse(new)
            shift = size * (scale @ (scale.T @ before.slope))
            nats = _divergence(q.scale, precision, scale, shift)
            if nats <= max_nats or size < LEAST_SIZE:
                return StepResult(q._replace(mean=q.mean + shift, scale=scale), new, nats, size)
        size *= 0.6


def _is_positive(matrix: Float[np.ndarray, "D D"]) -> bool:
    return linalg.lapack.dpotrf(matrix, lower=True)[1] == 0


def _divergence(
    before: Float[np.ndarray, "D D"],
    precision: Float[np.ndarray, "D D"],
    scale: Float[np.ndarray, "D D"],
    shift: Float[np.ndarray, " D"],
) -> float:
    """KL(new || before) of normals: from the old scale and precision to a new scale and mean."""
    logs = np.log(np.diag(before)).sum() - np.log(np.diag(scale)).sum()
    trace = float((scale * (precision @ scale)).sum())
    return float(0.5 * (trace - len(shift) + shift @ precision @ shift) + logs)


def bound(
    values: Float[np.ndarray, " draws"],
    q: Gaussian,
    x: Float[np.ndarray, "draws D"],
    curvature: Curvature,
) -> float:
    """The ELBO on draws, less the error by the curvature and the second moments of the noise. Two
    normals on the same draws are compared with the same curvature; the mean of this error is
    zero."""
    offsets = x - q.mean
    quadratic = float((offsets * (curvature @ offsets.T).T).sum() / len(x))
    expected = float((q.scale * (curvature @ q.scale)).sum())
    return float(values.mean()) + 0.5 * (quadratic - expected) + q.entropy()


def _climb(
    run: Run,
    evaluate_q: functools.partial,
    q: Gaussian,
    precision: np.ndarray,
    cost: int,
    seed: int,
) -> StepResult | None:
    """Takes steps until they are no longer than the noise of draws makes them."""
    target = run.target
    last = StepResult(q, precision, np.inf, 0.5)  # size 0.5: the first step may be whole
    for turn in range(10 * STEPS):
        if run.stopped() or not run.affords(cost):
            break
        noise = draw_noise(SLOPES, target.dim, [seed, 31, turn])
        before = evaluate_q(last.q, noise)
        if before is None:
            return None
        size = min(1.0, 2 * last.size)
        elbo = bound(before.values, last.q, last.q.from_noise(noise), before.curvature)
        rounding = 10 * target.epsilon * float(np.abs(before.values).max())
        while size >= LEAST_SIZE:
            trial = step(before, last.precision, size)
            x = trial.q.from_noise(noise)
            trial_elbo = bound(target.values(x), trial.q, x, before.curvature)
            if trial_elbo >= elbo - SLACK * trial.nats - rounding:
                break
            size = trial.size / 2
        else:
            break
        is_noise = trial.nats > SLOWER * last.nats or trial.nats < 1e-3
        trace = (*last.q.trace, trial_elbo)
        last = trial._replace(q=trial.q._replace(elbo=trial_elbo, trace=trace))
        if trial.size == 1.0 and is_noise:
            break
    return last


def _average(
    run: Run, evaluate_q: functools.partial, last: StepResult, cost: int, seed: int
) -> Gaussian:
    """Takes steps of size 1 / t, each on fresh draws, until the noise of all draws moves no mean by
    much."""
    q, precision = last.q, last.precision
    elbo = q.elbo
    end = Ended.SPENT
    error = np.inf
    for turn in range(1, 100 * STEPS):
        if run.stopped():
            return q._replace(ended=Ended.INTERRUPTED)
        if not run.affords(cost):
            end = Ended.LIMITED if turn > FEWEST_AVERAGED else Ended.SPENT
            break
        noise = draw_noise(SLOPES, run.target.dim, [seed, 32, turn])
        before = evaluate_q(q, noise)
        if before is None:
            continue
        turn_elbo = bound(before.values, q, q.from_noise(noise), before.curvature)
        elbo = turn_elbo if turn == 1 else elbo + (turn_elbo - elbo) / turn
        result = step(before, precision, 1 / (turn + 1))
        error = float(before.error.max() / np.sqrt(turn))
        q, precision = result.q, result.precision
        if error < SDS and turn >= FEWEST_AVERAGED:
            end = Ended.CONVERGED
            break
    return q._replace(elbo=elbo, ended=end, error=error)
