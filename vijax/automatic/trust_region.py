"""The loops that fit a normal to a log density, their limits, and the stage from which a stopped
fit resumes.

There is no step size to choose. On fixed draws (as in Burroni et al. 2024) natural-gradient steps
are taken inside a trust region in nats that widens and narrows with the gain of the steps (as in
Arenz et al. 2023), until only the noise of the draws is left; then there are four times as many
draws. Once that noise is below `NEAR` nats, or the number of draws is at its limit, steps on fresh
draws are averaged. A fit is repeatable to the bit.

The steps are those of `vijax.ngvi`, which ends at the same normal after as many gradients if the
posterior is near normal. `vijax.ngvi` does not know how many draws and steps it needs, nor when no
normal will do: these loops add that."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from vijax.automatic.gaussian import Evaluation, Gaussian, draw_noise, evaluate, step
from vijax.automatic.modes import Candidate
from vijax.checks import require
from vijax.lbfgs import Mode, never
from vijax.models.energies.reference import Reference
from vijax.verdict.improper import ASKED, grows_along
from vijax.verdict.report import Ended
from vijax.verdict.target import Target

NATS = 2e-3
"""A fit has converged where the noise of its draws makes steps of fewer nats."""
SDS = 0.015
"""And where that noise moves the mean by fewer standard deviations."""
WIDEST = 10.0  # largest radius, in nats
SLOW = 0.3  # if a step gains less than this share of the gap, most of the gap is one of shape
FEWEST_STEPS = 4  # evaluations on more fixed draws that the gradients left must allow
# Nats of noise in a step, below which fresh draws are averaged: the steps are then nearly linear in
# q.
NEAR = 0.3


class Run(NamedTuple):
    """The limits of a fit."""

    target: Target  # the density
    max_gradients: int  # of the target, with those evaluated before
    stopped: Callable[[], bool] = never  # called before each step; True ends the fit

    def affords(self, gradients: int) -> bool:
        """True where so many gradients are left."""
        return self.target.num_gradients + gradients <= self.max_gradients


class Sitting(NamedTuple):
    """State of the fit of a normal when it takes new draws."""

    mean: Float[np.ndarray, " D"]  # of the normal
    scale: Float[np.ndarray, "D D"]  # of the normal
    elbo: float  # on the draws before
    size: int  # number of draws now
    level: int  # how often the number of fixed draws was raised
    # Number of sets of draws, with the fixed one, over which steps are averaged so far; 0 while
    # draws are fixed
    averaged: int
    doubt: float  # nats of a step by the noise of the fixed draws, when steps are averaged
    error: float  # error of the means by this noise, in standard deviations
    # Standard deviations of the first normal: if q gets very wide beside them, the density may be
    # improper
    wide: Float[np.ndarray, " D"]
    origin: Float[np.ndarray, " D"]  # mean of the first normal

    @classmethod
    def begin(cls, start: Gaussian) -> Sitting:
        """The state at the first draws."""
        size = cls.first_size(len(start.mean))
        return cls(start.mean, start.scale, start.elbo, size, 0, 0, 0.0, 0.0, start.sds, start.mean)

    @classmethod
    def first_size(cls, dim: int) -> int:
        """The number of the first draws for `dim` variables."""
        return max(32, 4 * dim)

    @property
    def q(self) -> Gaussian:
        """The normal."""
        return Gaussian(self.mean, self.scale, self.elbo)


Result = TypeVar("Result")


def average_steps(
    run: Run,
    evaluate: Callable[[Target, Gaussian, np.ndarray], Result | None],
    move: Callable[[Result, float, float], Gaussian],
    q: Gaussian,
    size: int,
    seed: list[int],
    first: int,
    radius: Callable[[int], float],
    judge: Callable[[Gaussian, Result, int], tuple[Gaussian, Ended | None]],
) -> Gaussian:
    """Takes steps of size 1 / t, each on fresh draws: the running mean of the steps by all draws,
    whose noise falls with the number of draws. No draw is evaluated twice (Robbins and Monro 1951).

    Args:
      run: the limits.
      evaluate: evaluates a normal of the family of q on draws, one gradient each; None for draws
        without a density.
      move: returns q after a natural-gradient step, from the evaluation, a radius in nats and a
        size.
      q: the normal to begin at.
      size: draws of a step.
      seed: seed of the draws.
      first: t of the step before the first.
      radius: t -> radius of the step in nats.
      judge: takes q after a step, the evaluation before it, and t; returns q with its error, and
        why the fit ends, or None.
    """
    for count in itertools.count(first + 1):
        if run.stopped():
            return q._replace(ended=Ended.INTERRUPTED)
        if not run.affords(size):
            break
        result = evaluate(run.target, q, draw_noise(size, len(q.mean), [*seed, count]))
        if result is None:
            continue
        q, end = judge(move(result, radius(count), 1 / count), result, count)
        if end is not None:
            return q._replace(ended=end)
    return q._replace(ended=Ended.LIMITED)


# --- normals of full covariance -------------------------------------------------------------------
def fit(
    run: Run,
    begin: Sitting,
    seed: int,
    max_draws: int,
    note: Callable[[Sitting], None] = lambda sitting: None,
    misfits: Callable[[Gaussian, float], bool] = lambda q, gap: False,
) -> Gaussian:
    """The normal nearest to the target, by the ELBO, on at most `max_draws` fixed draws.

    It takes no step and begins no set of draws that needs more gradients than the run has.

    Args:
      run: the limits.
      begin: the state to begin at.
      seed: seed of all draws.
      max_draws: number of fixed draws, at most.
      note: called with the state to resume from, at each new set of draws.
      misfits: called with a normal and its gap less the part by the noise of draws, when only this
        noise is left or a step gains little beside the gap. If it returns True, no normal will do,
        and the fit ends.
    """
    trace: list[float] = []
    while not begin.averaged:
        current, begin, end = _use_fixed_draws(run, begin, [seed, begin.level], trace, misfits)
        doubt = current.regression.nats
        error = float(current.regression.sds.max())
        if end is None and misfits(current.q, current.gap - doubt):
            end = Ended.LIMITED
        if end is not None:
            return current.q._replace(elbo=current.elbo, ended=end, trace=tuple(trace), error=error)
        begin = begin._replace(mean=current.q.mean, scale=current.q.scale, elbo=current.elbo)
        size = min(4 * begin.size, max_draws)
        if doubt < NEAR or size <= begin.size or not run.affords(FEWEST_STEPS * size):
            begin = begin._replace(averaged=1, doubt=doubt, error=error)
        else:
            begin = begin._replace(size=size, level=begin.level + 1)
            note(begin)
    q = _use_fresh_draws(run, begin, [seed, begin.level], note, misfits)
    return q._replace(trace=tuple(trace))


def _use_fixed_draws(
    run: Run,
    begin: Sitting,
    seed: list[int],
    trace: list[float],
    misfits: Callable[[Gaussian, float], bool],
) -> tuple[Evaluation, Sitting, Ended | None]:
    """Takes steps on one set of draws until only their noise is left. Returns the last normal, the
    state to begin at next, and why the fit ends, or None."""
    target = run.target
    noise = draw_noise(begin.size, len(begin.mean), seed)
    begin = begin._replace(size=len(noise))
    current = evaluate(target, begin.q, noise)
    radius = 1.0
    num_refused = 0
    while True:
        if run.stopped():
            return current, begin, Ended.INTERRUPTED
        doubt = current.regression.nats
        trial = step(current.q, current.regression.slope, current.regression.curvature, radius)
        if trial.is_whole and trial.nats < max(0.5 * doubt, 1e-7):  # nothing but noise
            is_sure = doubt < NATS and current.regression.sds.max() < SDS
            return current._replace(q=trial.to), begin, Ended.CONVERGED if is_sure else None
        if not run.affords(len(noise)):
            return current, begin, Ended.LIMITED if trial.nats < doubt else Ended.SPENT
        after = evaluate(target, trial.to, noise)
        if not after.elbo >= current.elbo - 1e-3 * trial.nats - 10 * target.epsilon * current.size:
            num_refused += 1
            radius = trial.nats / 4
            if num_refused > 3 or radius < doubt:
                return current, begin, None
            continue
        if not trial.is_whole or trial.nats > 0.25 * radius:
            radius = min(2 * radius, WIDEST)
        gain = after.elbo - current.elbo
        current = after
        num_refused = 0
        trace.append(current.elbo)
        if _is_far(current.q, begin):
            draws = current.q.from_noise(draw_noise(ASKED, len(begin.mean), [seed[0], 98]))
            if grows_along(target, draws).any():
                return current, begin, Ended.UNBOUNDED
            # It is proper, and of another size.
            begin = begin._replace(wide=current.q.sds, origin=current.q.mean)
        if gain < SLOW * (current.gap - doubt) and misfits(current.q, current.gap - doubt):
            return current, begin, Ended.SPENT


def _use_fresh_draws(
    run: Run,
    begin: Sitting,
    seed: list[int],
    note: Callable[[Sitting], None],
    misfits: Callable[[Gaussian, float], bool],
) -> Gaussian:
    """Averages steps on fresh draws, with the fixed draws as the first set. The radius is NEAR / t
    nats: otherwise a set with an outlying draw, where slopes are steep, would undo many sets before
    it."""

    def judge(q: Gaussian, before: Evaluation, count: int) -> tuple[Gaussian, Ended | None]:
        elbo = before.q.elbo + (before.elbo - before.q.elbo) / count
        q = q._replace(elbo=elbo, error=float(begin.error / np.sqrt(count)))
        note(begin._replace(mean=q.mean, scale=q.scale, elbo=q.elbo, averaged=count))
        if begin.doubt / count < NATS and begin.error < SDS * np.sqrt(count):
            return q, Ended.CONVERGED
        is_power_of_two = not count & (count - 1)  # seldom: each check may err
        if is_power_of_two and misfits(q, before.gap - begin.doubt / count):
            return q, Ended.LIMITED
        return q, None

    def move(before: Evaluation, radius: float, rho: float) -> Gaussian:
        scores = before.regression
        return step(before.q, scores.slope, scores.curvature, radius, rho).to

    q = begin.q._replace(error=float(begin.error / np.sqrt(begin.averaged)))
    return average_steps(
        run, evaluate, move, q, begin.size, seed, begin.averaged, lambda t: NEAR / t, judge
    )


def _is_far(q: Gaussian, begin: Sitting) -> bool:
    """True where a variance, or the distance from the start, is beyond all scales of the start: the
    density is of another size, or improper."""
    scales = np.maximum(begin.wide, 1e-12)
    distances = np.abs(q.mean - begin.origin) / scales
    widths = q.sds / scales
    return bool(max(distances.max(), widths.max()) > 1e6)


# --- the stage of a stopped fit -------------------------------------------------------------------
class Stage(NamedTuple):
    """The modes of the searches, padded to the number of starts, and the state of the normal when
    its present draws were new. A resumed fit repeats all that follows, with the same numbers."""

    x: Float[np.ndarray, "starts D"]  # the modes, (starts, D)
    values: Float[np.ndarray, " starts"]  # log density there; NaN in padding
    sds: Float[np.ndarray, "starts D"]  # rough standard deviations
    counts: Float[np.ndarray, " starts"]  # number of searches that ended there
    # Bounds of the normals at the modes, -inf where there is none
    elbos: Float[np.ndarray, " starts"]
    # State of a normal of full covariance; None for independent normals, which start again at the
    # best mode
    sitting: Sitting | None
    gradients: int  # evaluated so far
    # Reference of the coordinates of all of this; None for a density without a hierarchy
    reference: Reference | None = None
    # If the fit is in float64, the standard deviations by which float32 would move means or sds;
    # else 0
    moved: float = 0.0

    def candidates(self) -> list[Candidate]:
        """The modes."""
        places = np.flatnonzero(~np.isnan(self.values))
        mode = lambda i: Mode(self.x[i], float(self.values[i]), self.sds[i])
        return [Candidate(mode(i), int(self.counts[i]), float(self.elbos[i])) for i in places]


def make_stage(
    candidates: list[Candidate], num_starts: int, sitting: Sitting | None, gradients: int
) -> Stage:
    """The stage after the searches."""

    def pad(rows: Any) -> np.ndarray:
        table = np.full((num_starts, *np.shape(rows[0])), np.nan)
        table[: len(rows)] = rows
        return table

    rows = [(*candidate.mode, candidate.num_starts, candidate.elbo) for candidate in candidates]
    x, values, sds, counts, elbos = map(pad, zip(*rows, strict=True))
    return Stage(x, values, sds, counts, elbos, sitting, gradients)


def stage_like(dim: int, num_starts: int, is_full: bool, is_placed: bool = False) -> Stage:
    """A stage of these shapes, to read a stage from a file; `is_placed` for coordinates of a
    hierarchy."""
    mode = Mode(np.zeros(dim), 0.0, np.zeros(dim))
    start = Gaussian(np.zeros(dim), np.eye(dim), 0.0)
    sitting = Sitting.begin(start) if is_full else None
    stage = make_stage([Candidate(mode, 1, 0.0)], num_starts, sitting, 0)
    return stage._replace(reference=Reference.no_information(dim) if is_placed else None)


class Watcher:
    """Keeps the last stage before Ctrl-C, which sets `asked`."""

    def __init__(self, asked: threading.Event, stage: Stage | None):
        self._asked = asked
        self.stage = stage  # None before the searches have ended
        self.first_stage = stage  # the stage at which this call began to fit one normal

    def find_modes(
        self, target: Target, search: Callable[[], list[Candidate]], num_starts: int
    ) -> list[Candidate]:
        """The modes of the stage, or of a new search."""
        if self.stage is None:
            candidates = search()
            stage = make_stage(candidates, num_starts, None, target.num_gradients)
            stage = stage._replace(reference=target.file_reference)
            self.stage = None if self._asked.is_set() else stage
            return candidates
        target.num_gradients = self.stage.gradients
        return self.stage.candidates()

    def note(self, target: Target, sitting: Sitting) -> None:
        """Keeps a new state of the fit."""
        assert self.stage is not None
        self.stage = self.stage._replace(sitting=sitting, gradients=target.num_gradients)


def check_stage(
    stage: Any, dim: int, num_starts: int, is_full: bool, is_placed: bool = False
) -> None:
    """Raises ValueError on a stage of another model or number of starts, and on anything else."""
    if stage is None:
        return
    remedy = "Give fit.report.stage of a fit that was stopped, with the same arguments."
    is_stage = isinstance(stage, Stage)
    require(is_stage, "stage", "what fit.report.stage is", type(stage).__name__, remedy)
    expected = f"one of {num_starts} starts of {dim} coordinates"
    actual = f"one of {len(stage.x)} starts of {stage.x.shape[1]} coordinates"
    require(stage.x.shape == (num_starts, dim), "stage", expected, actual, remedy)
    has_method = (stage.sitting is not None) == is_full
    require(has_method, "stage", "one of the same method", "one of another", remedy)
    has_laws = (stage.reference is not None) == is_placed
    actual = "one of another, with other laws of variables"
    require(has_laws, "stage", "one of the same model", actual, remedy)
