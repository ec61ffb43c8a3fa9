"""A normal of full covariance from expected Hessians.

The normal that is nearest to a density, by the ELBO, has  precision = E_q[-Hessian]  and  E_q[slope] = 0  (Opper and
Archambeau 2009). So its precision is zero where all Hessians are, whatever q is: a sparse density has a sparse
precision, and what is fitted here is the normal of full covariance, not one of a chosen structure.

Steps are natural-gradient ones (Khan and Lin 2017), of size rho,

    precision <- (1 - rho) precision + rho E_q[-Hessian],     mean <- mean + rho precision^-1 E_q[slope],

each on fresh draws, halved until the ELBO on its own draws does not fall; then their running mean.
A Hessian costs as many products with vectors as its pattern has colours
(`vijax.automatic.curvature.pattern`)."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg, sparse

from vijax.automatic.curvature.kinks import has_kinks
from vijax.automatic.curvature.pattern import Pattern, find_pattern
from vijax.automatic.gaussian import Gaussian, draw_noise, root_of_inverse
from vijax.automatic.low_rank import SDS
from vijax.automatic.trust_region import Run
from vijax.verdict.report import Ended
from vijax.verdict.target import Target

MOST_DIM = 3000
"""Variables up to which a full covariance is fitted so: a factor of it is 72 MB."""
SLOPES = 256
"""Draws of a step at which slopes are evaluated."""
FEWEST_HESSIANS, MOST_HESSIANS = 2, 32
"""Of these draws, those at which Hessians are evaluated, at least and at most."""
STEPS = 24
"""Steps that the gradients should suffice for."""
FEWEST_STEPS = 8
"""Where the gradients suffice for fewer steps, another method has to do."""
LEAST_SIZE = 1e-3
"""Least size of a step."""
KEPT = 0.1
"""A step leaves at least so much of a precision in every direction."""
MOST_NATS = 0.5
"""Largest step, in nats, as a share of the number of variables; but never less than ten nats."""
SLACK = 0.05
"""The ELBO on its own draws may fall by this share of the nats of a step."""
SLOWER = 0.5
"""Where a step is longer than this share of the one before it, the noise of draws is what moves
q."""
OUT, FLAT = (-1e6, -1e4, 1e4, 1e6), 1.0
"""Points along a direction at which a density that loses fewer nats is improper, in units of the
first normal."""
FEWEST_AVERAGED = 3
"""Steps that are averaged, at least."""
SHARE = 0.5
"""The share of the gradients that may be spent: where this fails another method needs some."""


class Evaluation(NamedTuple):
    """A normal evaluated on draws."""

    at: Gaussian
    values: Float[np.ndarray, " draws"]
    slope: Float[np.ndarray, " D"]  # mean gradient of the log density
    curvature: sparse.csr_array  # mean of minus the Hessians, (D, D)
    error: Float[np.ndarray, " D"]  # standard error of the whitened slope


class StepResult(NamedTuple):
    """A normal after a step."""

    q: Gaussian
    precision: Float[np.ndarray, "D D"]
    nats: float  # KL(q || the one before)
    size: float  # of the step


def fit(run: Run, begin: Gaussian, seed: int) -> Gaussian | None:
    """Returns the normal of full covariance that is nearest to the density, from independent
    normals on. None where there are too many variables, or too few gradients for it, or the density
    has kinks, of which Hessians know nothing."""
    target = run.target
    left = run.max_gradients - target.num_gradients
    run = run._replace(max_gradients=target.num_gradients + int(SHARE * left))
    if target.dim > MOST_DIM or not run.affords(2 * _fewest_gradients(target.dim)):
        return None
    if has_kinks(target, begin, [seed, 33]):
        return None
    pattern = find_pattern(target, begin, [seed, 30])
    num_hessians = _num_hessians(run, pattern)
    if num_hessians is None:
        return None
    start = Gaussian(begin.mean, np.diag(begin.sds), begin.elbo)
    look = functools.partial(evaluate, target, pattern, num_hessians)
    cost = SLOPES + 2 * num_hessians * pattern.num_products
    reached = _climbed(run, look, start, np.diag(1 / begin.sds**2), cost, seed)
    if reached is None:
        return None
    if reached.size < 1 and is_flat(target, reached.q, reached.precision, begin.sds):
        return reached.q._replace(ended=Ended.UNBOUNDED)
    q = _averaged(run, look, reached, cost, seed)
    if has_kinks(target, q, [seed, 34]):
        return None
    # At an optimum steps are whole: where the last was not, some direction has no curvature of its
    # own.
    return q if reached.size == 1 or q.ended is Ended.INTERRUPTED else q._replace(ended=Ended.SPENT)


def is_flat(
    target: Target, q: Gaussian, precision: Float[np.ndarray, "D D"], sds: Float[np.ndarray, " D"]
) -> bool:
    """Says whether the density stays as it is, or grows, far out along the direction in which q is
    widest, in units of these standard deviations."""
    _, widest = linalg.eigh(precision * sds * sds[:, None], subset_by_index=[0, 0])
    away = sds * widest[:, 0]
    middle, *far = target.values(np.stack([q.mean, *(q.mean + out * away for out in OUT)]))
    return bool(np.all(np.asarray(far) > middle - FLAT))


def _fewest_gradients(dim: int) -> int:
    """Gradients that a pattern takes, two whole Hessians."""
    return 2 * dim


def _num_hessians(run: Run, pattern: Pattern) -> int | None:
    """Hessians of a step that the gradients left suffice for, an even number; None where these are
    too few."""
    left = run.max_gradients - run.target.num_gradients
    each = 2 * pattern.num_products
    if left < FEWEST_STEPS * (SLOPES + FEWEST_HESSIANS * each):
        return None
    affordable = (left / STEPS - SLOPES) / each
    return int(np.clip(2 * (affordable // 2), FEWEST_HESSIANS, MOST_HESSIANS))


def evaluate(
    target: Target,
    pattern: Pattern,
    num_hessians: int,
    q: Gaussian,
    noise: Float[np.ndarray, "draws D"],
) -> Evaluation | None:
    """Evaluates a normal on draws, whose second half is minus the first; None where one has no
    density, or no Hessian."""
    x = q.from_noise(noise)
    values, slopes = target.slopes(x)
    pairs = len(noise) // 2
    chosen = [*range(num_hessians // 2), *range(pairs, pairs + num_hessians // 2)]
    products = np.mean(
        [target.curvatures(x[place], pattern.directions) for place in chosen], axis=0
    )
    if not (np.isfinite(values).all() and np.isfinite(products).all()):
        return None
    curvature = -pattern.matrix(products)
    whitened = slopes @ q.scale
    even = 0.5 * (whitened[:pairs] + whitened[pairs:])
    error = even.std(0, ddof=1) / np.sqrt(pairs)
    return Evaluation(q, values, slopes.mean(0), curvature, error)


def step(seen: Evaluation, precision: Float[np.ndarray, "D D"], size: float) -> StepResult:
    """Takes a natural-gradient step, made smaller until the new precision is positive and the step
    short enough."""
    q, dim = seen.at, len(seen.slope)
    most = max(10.0, MOST_NATS * dim)
    while True:
        new = (1 - size) * precision + size * seen.curvature.toarray()
        if _is_positive(new - KEPT * precision):
            scale = root_of_inverse(new)
            shift = size * (scale @ (scale.T @ seen.slope))
            nats = _divergence(q.scale, precision, scale, shift)
            if nats <= most or size < LEAST_SIZE:
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
    """KL(new || before), of a normal with a new scale whose mean has moved."""
    logs = np.log(np.diag(before)).sum() - np.log(np.diag(scale)).sum()
    trace = float((scale * (precision @ scale)).sum())
    return float(0.5 * (trace - len(shift) + shift @ precision @ shift) + logs)


def bound(
    values: Float[np.ndarray, " draws"],
    q: Gaussian,
    x: Float[np.ndarray, "draws D"],
    curvature: sparse.csr_array,
) -> float:
    """Returns the ELBO on draws. What the curvature makes of second moments of the noise that are
    off is subtracted: two normals on the same draws are compared with the same curvature, and its
    mean is zero."""
    away = x - q.mean
    quadratic = float((away * (curvature @ away.T).T).sum() / len(x))
    expected = float((q.scale * (curvature @ q.scale)).sum())
    return float(values.mean()) + 0.5 * (quadratic - expected) + q.entropy()


def _climbed(
    run: Run, look: functools.partial, q: Gaussian, precision: np.ndarray, cost: int, seed: int
) -> StepResult | None:
    """Takes steps until they are no longer than the noise of draws makes them."""
    target = run.target
    reached = StepResult(
        q, precision, np.inf, 0.5
    )  # the first step may be whole, and the start is none
    for turn in range(10 * STEPS):
        if run.stopped() or not run.affords(cost):
            break
        noise = draw_noise(SLOPES, target.dim, [seed, 31, turn])
        seen = look(reached.q, noise)
        if seen is None:
            return None
        before, size = reached, min(1.0, 2 * reached.size)
        now = bound(seen.values, before.q, before.q.from_noise(noise), seen.curvature)
        while size >= LEAST_SIZE:
            trial = step(seen, before.precision, size)
            x = trial.q.from_noise(noise)
            then = bound(target.values(x), trial.q, x, seen.curvature)
            if then >= now - SLACK * trial.nats - 10 * target.epsilon * float(
                np.abs(seen.values).max()
            ):
                break
            size = trial.size / 2
        else:
            break
        reached = trial._replace(q=trial.q._replace(elbo=then, trace=(*before.q.trace, then)))
        if trial.size == 1.0 and (trial.nats > SLOWER * before.nats or trial.nats < 1e-3):
            break
    return reached


def _averaged(
    run: Run, look: functools.partial, reached: StepResult, cost: int, seed: int
) -> Gaussian:
    """Takes steps of size 1 / t, each on fresh draws, until the noise of all draws moves no mean by
    much."""
    q, precision = reached.q, reached.precision
    elbo, ended, error = q.elbo, Ended.SPENT, np.inf
    for turn in range(1, 100 * STEPS):
        if run.stopped():
            return q._replace(ended=Ended.INTERRUPTED)
        if not run.affords(cost):
            ended = Ended.LIMITED if turn > FEWEST_AVERAGED else Ended.SPENT
            break
        noise = draw_noise(SLOPES, run.target.dim, [seed, 32, turn])
        seen = look(q, noise)
        if seen is None:
            continue
        now = bound(seen.values, q, q.from_noise(noise), seen.curvature)
        elbo = now if turn == 1 else elbo + (now - elbo) / turn
        moved = step(seen, precision, 1 / (turn + 1))
        error = float(seen.error.max() / np.sqrt(turn))
        q, precision = moved.q, moved.precision
        if error < SDS and turn >= FEWEST_AVERAGED:
            ended = Ended.CONVERGED
            break
    return q._replace(elbo=elbo, ended=ended, error=error)
