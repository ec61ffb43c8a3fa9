"""What a fit of a log density that Ctrl-C stopped leaves behind, so that a later call goes on from there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.automatic.gaussian import Gaussian
from vijax.automatic.lbfgs import Mode
from vijax.automatic.modes import Found
from vijax.automatic.target import Target
from vijax.checks import require


class Sitting(NamedTuple):
    """State of the fit of a normal when it takes new draws.

    Attributes:
      mean: of the normal.
      scale: of the normal.
      elbo: on the draws before.
      size: number of draws now.
      level: how often the number of fixed draws was raised.
      averaged: number of sets of draws, the fixed one included, over which steps are averaged so far; 0 while draws are
        fixed.
      doubt: nats that the noise of the fixed draws made of a step, where steps are averaged.
      error: the same of the means, in standard deviations.
      wide: standard deviations of the first normal: q may get so wide beside them that the density may be improper.
      origin: mean of the first normal.
    """

    mean: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, "D D"]
    elbo: float
    size: int
    level: int
    averaged: int
    doubt: float
    error: float
    wide: Float[np.ndarray, " D"]
    origin: Float[np.ndarray, " D"]

    @classmethod
    def begin(cls, start: Gaussian) -> Sitting:
        """Returns the state at the first draws."""
        size = max(32, 4 * len(start.mean))
        return cls(start.mean, start.scale, start.elbo, size, 0, 0, 0.0, 0.0, start.sds, start.mean)

    @property
    def q(self) -> Gaussian:
        """The normal."""
        return Gaussian(self.mean, self.scale, self.elbo)


class Stage(NamedTuple):
    """The modes that the searches found, padded to the number of starts, and the state of the normal when its present
    draws were new. Everything after that is done again, to the same numbers.

    Attributes:
      x: the modes, (starts, D).
      values: log density there; NaN in padding.
      sds: rough standard deviations.
      counts: number of searches that ended there.
      elbos: bounds of the normals at the modes, -inf where there is none.
      sitting: state of a normal of full covariance; None of independent ones, which begin at the best mode again.
      gradients: evaluated so far.
    """

    x: Float[np.ndarray, "starts D"]
    values: Float[np.ndarray, " starts"]
    sds: Float[np.ndarray, "starts D"]
    counts: Float[np.ndarray, " starts"]
    elbos: Float[np.ndarray, " starts"]
    sitting: Sitting | None
    gradients: int

    def found(self) -> list[Found]:
        """Returns the modes."""
        known = np.flatnonzero(~np.isnan(self.values))
        mode = lambda i: Mode(self.x[i], float(self.values[i]), self.sds[i])
        return [Found(mode(i), int(self.counts[i]), float(self.elbos[i])) for i in known]


def stage_of(found: list[Found], num_starts: int, sitting: Sitting | None, gradients: int) -> Stage:
    """Returns the stage after the searches."""

    def padded(rows: list[Any]) -> Float[np.ndarray, starts * shape]:
        filled = np.full((num_starts, *np.shape(rows[0])), np.nan)
        filled[: len(rows)] = rows
        return filled

    return Stage(
        padded([one.mode.x for one in found]),
        padded([one.mode.value for one in found]),
        padded([one.mode.sds for one in found]),
        padded([one.num_starts for one in found]),
        padded([one.elbo for one in found]),
        sitting,
        gradients,
    )


def stage_like(dim: int, num_starts: int, is_full: bool) -> Stage:
    """Returns a stage of these shapes, to read one from a file."""
    mode = Mode(np.zeros(dim), 0.0, np.zeros(dim))
    start = Gaussian(np.zeros(dim), np.eye(dim), 0.0)
    return stage_of([Found(mode, 1, 0.0)], num_starts, Sitting.begin(start) if is_full else None, 0)


class Watcher:
    """Says whether Ctrl-C was pressed, and keeps the last stage that was reached.

    Attributes:
      stage: None before the searches have ended.
      begun: the stage at which the fit of one normal began, in this call.
    """

    def __init__(self, asked: threading.Event, stage: Stage | None):
        self._asked, self.stage, self.begun = asked, stage, stage

    def stopped(self) -> bool:
        """Says whether to stop."""
        return self._asked.is_set()

    def searched(self, target: Target, search: Callable[[], list[Found]], num_starts: int) -> list[Found]:
        """Returns the modes of the stage that was reached, or of a search."""
        if self.stage is None:
            found = search()
            self.stage = None if self.stopped() else stage_of(found, num_starts, None, target.num_gradients)
            return found
        target.num_gradients = self.stage.gradients
        return self.stage.found()

    def notes(self, target: Target) -> Callable[[Sitting], None]:
        """Returns a function that keeps each new state of the fit."""

        def note(sitting: Sitting) -> None:
            assert self.stage is not None
            self.stage = self.stage._replace(sitting=sitting, gradients=target.num_gradients)

        return note


def check_stage(stage: Any, dim: int, num_starts: int, is_full: bool) -> None:
    """Raises ValueError on a stage of another model or number of starts, and on anything else."""
    if stage is None:
        return
    remedy = "Give fit.report.stage of a fit that was stopped, with the same arguments."
    require(isinstance(stage, Stage), "stage", "what fit.report.stage is", type(stage).__name__, remedy)
    expected = f"one of {num_starts} starts of {dim} coordinates"
    got = f"one of {len(stage.x)} starts of {stage.x.shape[1]} coordinates"
    require(stage.x.shape == (num_starts, dim), "stage", expected, got, remedy)
    require((stage.sitting is not None) == is_full, "stage", "one of the same method", "one of another", remedy)
