"""The loops that fit a normal to a log density, their limits, and the place from which a stopped
fit goes on.

No step size is to be chosen. On fixed draws (as in Burroni et al. 2024) natural-gradient steps are
taken inside a trust region in nats that widens and narrows with the gain of the steps (as in Arenz
et al. 2023), until the noise of the draws is all that is left; then there are four times as many
draws. Once that noise is worth less than `NEAR` nats, or there may be no more draws, steps on draws
that are fresh each time are averaged. A fit is repeatable to the bit.

The steps are those of `vijax.ngvi`, which ends at the same normal after as many gradients where the
posterior is near normal. `vijax.ngvi` does not know how many draws and steps that takes, nor when
no normal will do: the loops here add that."""

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

NATS, SDS = 2e-3, 0.015
"""A fit has converged where the noise of its draws makes less of a step: nats, and standard
deviations of the mean."""
WIDEST = 10.0  # largest radius, in nats
SLOW = 0.3  # where a step gains less than this share of the gap, most of the gap is one of shape
FEWEST_STEPS = (
    4  # more fixed draws are taken only if gradients are left for so many evaluations of them
)
# nats of noise in a step below which fresh draws are averaged: the steps are then nearly linear in
# q
NEAR = 0.3


class Run(NamedTuple):
    """The limits of a fit."""

    target: Target  # the density
    max_gradients: int  # of the target, those evaluated before included
    stopped: Callable[[], bool] = (
        never  # asked before each step; where it says True the fit ends as it stands
    )

    def affords(self, gradients: int) -> bool:
        """Says whether so many gradients are left."""
        return self.target.num_gradients + gradients <= self.max_gradients


class Sitting(NamedTuple):
    """State of the fit of a normal when it takes new draws."""

    mean: Float[np.ndarray, " D"]  # of the normal
    scale: Float[np.ndarray, "D D"]  # of the normal
    elbo: float  # on the draws before
    size: int  # number of draws now
    level: int  # how often the number of fixed draws was raised
    # Number of sets of draws, the fixed one included, over which steps are averaged so far; 0 while
    # draws are fixed
    averaged: int
    doubt: float  # nats that the noise of the fixed draws made of a step, where steps are averaged
    error: float  # the same of the means, in standard deviations
    # Standard deviations of the first normal: q may get so wide beside them that the density may be
    # improper
    wide: Float[np.ndarray, " D"]
    origin: Float[np.ndarray, " D"]  # mean of the first normal

    @classmethod
    def begin(cls, start: Gaussian) -> Sitting:
        """Returns the state at the first draws."""
        size = cls.first_size(len(start.mean))
        return cls(start.mean, start.scale, start.elbo, size, 0, 0, 0.0, 0.0, start.sds, start.mean)

    @classmethod
    def first_size(cls, dim: int) -> int:
        """Returns the number of the first draws of so many variables."""
        return max(32, 4 * dim)

    @property
    def q(self) -> Gaussian:
        """The normal."""
        return Gaussian(self.mean, self.scale, self.elbo)


Seen = TypeVar("Seen")


def average_steps(
    run: Run,
    look: Callable[[Target, Gaussian, np.ndarray], Seen | None],
    moved: Callable[[Seen, float, float], Gaussian],
    q: Gaussian,
    size: int,
    seed: list[int],
    first: int,
    radius: Callable[[int], float],
    after: Callable[[Gaussian, Seen, int], tuple[Gaussian, Ended | None]],
) -> Gaussian:
    """Takes steps of size 1 / t, each on fresh draws: the running mean of the steps that all draws
    ask for, whose noise falls with all draws taken, and none is evaluated twice (Robbins and Monro
    1951).

    Args:
      run: the limits.
      look: evaluates a normal of the family of q on draws, one gradient each; None where the draws
          say nothing.
      moved: returns q after a natural-gradient step, from the evaluation, a radius in nats and a
          size.
      q: the normal to begin at.
      size: draws of a step.
      seed: of the draws.
      first: t of the step before the first.
      radius: t -> radius of the step in nats.
      after: takes q after a step, the evaluation before it, and t; returns q with its error, and
        why the fit ends, or None.
    """
    for count in itertools.count(first + 1):
        if run.stopped():
            return q._replace(ended=Ended.INTERRUPTED)
        if not run.affords(size):
            break
        seen = look(run.target, q, draw_noise(size, len(q.mean), [*seed, count]))
        if seen is None:
            continue
        q, ended = after(moved(seen, radius(count), 1 / count), seen, count)
        if ended is not None:
            return q._replace(ended=ended)
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
    """Returns the normal nearest to the target, by the ELBO, on at most `max_draws` fixed draws.

    No step is taken, and no set of draws begun, that needs more gradients than the run has. `note`
    is called with the place to go on from, at each new set of draws. `misfits` is called with a
    normal and its gap, less the part that the noise of draws makes of it, where that noise is all
    that is left, or a step gains little beside the gap. If it returns True, no normal will do, and
    the fit ends."""
    trace: list[float] = []
    while not begin.averaged:
        now, begin, ended = _on_fixed_draws(run, begin, [seed, begin.level], trace, misfits)
        doubt, error = now.asked.nats, float(now.asked.sds.max())
        if ended is None and misfits(now.at, now.gap - doubt):
            ended = Ended.LIMITED
        if ended is not None:
            return now.at._replace(elbo=now.elbo, ended=ended, trace=tuple(trace), error=error)
        begin = begin._replace(mean=now.at.mean, scale=now.at.scale, elbo=now.elbo)
        more = min(4 * begin.size, max_draws)
        if doubt < NEAR or more <= begin.size or not run.affords(FEWEST_STEPS * more):
            begin = begin._replace(averaged=1, doubt=doubt, error=error)
        else:
            begin = begin._replace(size=more, level=begin.level + 1)
            note(begin)
    return _on_fresh_draws(run, begin, [seed, begin.level], note, misfits)._replace(
        trace=tuple(trace)
    )


def _on_fixed_draws(
    run: Run,
    begin: Sitting,
    seed: list[int],
    trace: list[float],
    misfits: Callable[[Gaussian, float], bool],
) -> tuple[Evaluation, Sitting, Ended | None]:
    """Takes steps on one set of draws until their noise is all that is left. Returns the last
    normal, where to begin next, and why the fit ends, if it does."""
    noise = draw_noise(begin.size, len(begin.mean), seed)
    begin = begin._replace(size=len(noise))
    now, radius, refused = evaluate(run.target, begin.q, noise), 1.0, 0
    while True:
        if run.stopped():
            return now, begin, Ended.INTERRUPTED
        doubt = now.asked.nats
        trial = step(now.at, now.asked.slope, now.asked.curvature, radius)
        if trial.is_whole and trial.nats < max(0.5 * doubt, 1e-7):  # nothing but noise
            is_sure = doubt < NATS and now.asked.sds.max() < SDS
            return now._replace(at=trial.to), begin, Ended.CONVERGED if is_sure else None
        if not run.affords(len(noise)):
            return now, begin, Ended.LIMITED if trial.nats < doubt else Ended.SPENT
        then = evaluate(run.target, trial.to, noise)
        if not then.elbo >= now.elbo - 1e-3 * trial.nats - 10 * run.target.epsilon * now.size:
            refused, radius = refused + 1, trial.nats / 4
            if refused > 3 or radius < doubt:
                return now, begin, None
            continue
        if not trial.is_whole or trial.nats > 0.25 * radius:
            radius = min(2 * radius, WIDEST)
        gain, now, refused = then.elbo - now.elbo, then, 0
        trace.append(now.elbo)
        if _is_far(now.at, begin):
            if grows_along(
                run.target, now.at.from_noise(draw_noise(ASKED, len(begin.mean), [seed[0], 98]))
            ).any():
                return now, begin, Ended.UNBOUNDED
            begin = begin._replace(
                wide=now.at.sds, origin=now.at.mean
            )  # proper, and of another size
        if gain < SLOW * (now.gap - doubt) and misfits(now.at, now.gap - doubt):
            return now, begin, Ended.SPENT


def _on_fresh_draws(
    run: Run,
    begin: Sitting,
    seed: list[int],
    note: Callable[[Sitting], None],
    misfits: Callable[[Gaussian, float], bool],
) -> Gaussian:
    """Averages steps on fresh draws, the fixed ones before counted as the first. The radius is NEAR
    / t nats: else a set with a draw far out, where slopes are steep, would undo many before it."""

    def after(q: Gaussian, seen: Evaluation, count: int) -> tuple[Gaussian, Ended | None]:
        elbo, error = (
            seen.at.elbo + (seen.elbo - seen.at.elbo) / count,
            float(begin.error / np.sqrt(count)),
        )
        q = q._replace(elbo=elbo, error=error)
        note(begin._replace(mean=q.mean, scale=q.scale, elbo=q.elbo, averaged=count))
        if begin.doubt / count < NATS and begin.error < SDS * np.sqrt(count):
            return q, Ended.CONVERGED
        is_asked = not count & (count - 1)  # seldom: each time is a chance to err
        return q, Ended.LIMITED if is_asked and misfits(q, seen.gap - begin.doubt / count) else None

    moved = lambda seen, radius, rho: (
        step(seen.at, seen.asked.slope, seen.asked.curvature, radius, rho).to
    )
    q = begin.q._replace(error=float(begin.error / np.sqrt(begin.averaged)))
    return average_steps(
        run, evaluate, moved, q, begin.size, seed, begin.averaged, lambda t: NEAR / t, after
    )


def _is_far(q: Gaussian, begin: Sitting) -> bool:
    """Says whether a variance, or a distance gone, is beyond all scales of the start: the density
    is of another size, or improper."""
    scales = np.maximum(begin.wide, 1e-12)
    far, wide = np.abs(q.mean - begin.origin) / scales, q.sds / scales
    return bool(max(far.max(), wide.max()) > 1e6)


# --- where a stopped fit goes on ------------------------------------------------------------------
class Stage(NamedTuple):
    """The modes that the searches found, padded to the number of starts, and the state of the
    normal when its present draws were new. Everything after that is done again, to the same
    numbers."""

    x: Float[np.ndarray, "starts D"]  # the modes, (starts, D)
    values: Float[np.ndarray, " starts"]  # log density there; NaN in padding
    sds: Float[np.ndarray, "starts D"]  # rough standard deviations
    counts: Float[np.ndarray, " starts"]  # number of searches that ended there
    elbos: Float[
        np.ndarray, " starts"
    ]  # bounds of the normals at the modes, -inf where there is none
    # State of a normal of full covariance; None of independent ones, which begin at the best mode
    # again
    sitting: Sitting | None
    gradients: int  # evaluated so far
    # Coordinates of a hierarchy in which all of this is; None where the density has none
    reference: Reference | None = None
    # Standard deviations by which float32 would move means or sds, where all of this is of float64
    # for that; else 0
    moved: float = 0.0

    def candidates(self) -> list[Candidate]:
        """Returns the modes."""
        known = np.flatnonzero(~np.isnan(self.values))
        mode = lambda i: Mode(self.x[i], float(self.values[i]), self.sds[i])
        return [Candidate(mode(i), int(self.counts[i]), float(self.elbos[i])) for i in known]


def make_stage(
    found: list[Candidate], num_starts: int, sitting: Sitting | None, gradients: int
) -> Stage:
    """Returns the stage after the searches."""

    def padded(rows: Any) -> np.ndarray:
        filled = np.full((num_starts, *np.shape(rows[0])), np.nan)
        filled[: len(rows)] = rows
        return filled

    rows = [(*one.mode, one.num_starts, one.elbo) for one in found]
    x, values, sds, counts, elbos = map(padded, zip(*rows, strict=True))
    return Stage(x, values, sds, counts, elbos, sitting, gradients)


def stage_like(dim: int, num_starts: int, is_full: bool, is_placed: bool = False) -> Stage:
    """Returns a stage of these shapes, to read one from a file; of coordinates of a hierarchy or
    not."""
    mode = Mode(np.zeros(dim), 0.0, np.zeros(dim))
    start = Gaussian(np.zeros(dim), np.eye(dim), 0.0)
    stage = make_stage(
        [Candidate(mode, 1, 0.0)], num_starts, Sitting.begin(start) if is_full else None, 0
    )
    return stage._replace(reference=Reference.no_information(dim) if is_placed else None)


class Watcher:
    """Keeps the last stage that was reached before Ctrl-C (`asked`)."""

    def __init__(self, asked: threading.Event, stage: Stage | None):
        self._asked = asked
        self.stage = stage  # None before the searches have ended
        self.first_stage = stage  # the stage at which this call began to fit one normal

    def find_modes(
        self, target: Target, search: Callable[[], list[Candidate]], num_starts: int
    ) -> list[Candidate]:
        """Returns the modes of the stage that was reached, or of a search."""
        if self.stage is None:
            found = search()
            stage = make_stage(found, num_starts, None, target.num_gradients)._replace(
                reference=target.file_reference
            )
            self.stage = None if self._asked.is_set() else stage
            return found
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
    require(
        isinstance(stage, Stage), "stage", "what fit.report.stage is", type(stage).__name__, remedy
    )
    expected = f"one of {num_starts} starts of {dim} coordinates"
    got = f"one of {len(stage.x)} starts of {stage.x.shape[1]} coordinates"
    require(stage.x.shape == (num_starts, dim), "stage", expected, got, remedy)
    require(
        (stage.sitting is not None) == is_full,
        "stage",
        "one of the same method",
        "one of another",
        remedy,
    )
    is_alike = (stage.reference is not None) == is_placed
    require(
        is_alike,
        "stage",
        "one of the same model",
        "one of another, with other laws of variables",
        remedy,
    )
