"""How far a fit of a log density has come: what Ctrl-C leaves, and a later call goes on from."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.automatic.ascent import Mode
from vijax.automatic.gaussian import Gaussian, Sitting
from vijax.checks import require


class Stage(NamedTuple):
    """The modes that the searches found, padded to the number of starts, and where the normal stood when its present
    draws were new. Everything after that is done again, to the same numbers.

    Attributes:
      x: the modes, (starts, D).
      values: log density there; NaN in padding.
      sds: rough standard deviations.
      counts: searches that ended there.
      elbos: of the normals at the modes, NaN where there is none.
      sitting: of a normal of full covariance; None of independent ones, which begin at the best mode again.
      gradients: evaluated so far.
    """

    x: Float[np.ndarray, "starts D"]
    values: Float[np.ndarray, " starts"]
    sds: Float[np.ndarray, "starts D"]
    counts: Float[np.ndarray, " starts"]
    elbos: Float[np.ndarray, " starts"]
    sitting: Sitting | None
    gradients: int

    def found(self) -> tuple[list[tuple[Mode, int]], list[float | None]]:
        """The modes with their numbers of searches, and their bounds."""
        known = [i for i, value in enumerate(self.values) if not np.isnan(value)]
        modes = [(Mode(self.x[i], float(self.values[i]), self.sds[i]), int(self.counts[i])) for i in known]
        return modes, [None if np.isnan(self.elbos[i]) else float(self.elbos[i]) for i in known]


def stage_of(
    found: list[tuple[Mode, int]],
    elbos: list[float | None],
    num_starts: int,
    sitting: Sitting | None,
    gradients: int,
) -> Stage:
    """After the searches."""
    padded = lambda rows: np.stack([*rows, *[np.full_like(rows[0], np.nan)] * (num_starts - len(rows))])
    return Stage(
        padded([mode.x for mode, _ in found]),
        padded([np.float64(mode.value) for mode, _ in found]),
        padded([mode.sds for mode, _ in found]),
        padded([np.float64(count) for _, count in found]),
        padded([np.float64(np.nan if elbo is None else elbo) for elbo in elbos]),
        sitting,
        gradients,
    )


def stage_like(dim: int, num_starts: int, is_full: bool) -> Stage:
    """Arrays of the shapes of a stage, to read one from a file."""
    mode = Mode(np.zeros(dim), 0.0, np.zeros(dim))
    start = Gaussian(np.zeros(dim), np.eye(dim), 0.0)
    return stage_of([(mode, 1)], [0.0], num_starts, Sitting.begin(start) if is_full else None, 0)


class Watcher:
    """Whether Ctrl-C was pressed, and the last stage that was reached.

    Attributes:
      stage: None before the searches have ended.
      begun: the stage at which the fit of one normal began, in this call.
    """

    def __init__(self, asked: threading.Event, stage: Stage | None):
        self._asked, self.stage, self.begun = asked, stage, stage

    def stopped(self) -> bool:
        """Whether to stop."""
        return self._asked.is_set()

    def searched(
        self, target: Any, search: Callable[[], list[tuple[Mode, int]]], num_starts: int
    ) -> list[tuple[Mode, int]]:
        """The modes of the stage that was reached, or of a search."""
        if self.stage is None:
            found = search()
            none: list[float | None] = [None] * len(found)
            self.stage = None if self.stopped() else stage_of(found, none, num_starts, None, target.num_gradients)
            return found
        target.num_gradients = self.stage.gradients
        return self.stage.found()[0]

    def notes(self, target: Any) -> Callable[[Sitting], None]:
        """A function that is told of each new set of draws."""

        def note(sitting: Sitting) -> None:
            assert self.stage is not None
            self.stage = self.stage._replace(sitting=sitting, gradients=target.num_gradients)

        return note


def check_stage(stage: Any, dim: int, num_starts: int, is_full: bool) -> None:
    """Raises ValueError on what is no stage, or one of another model or number of starts."""
    if stage is None:
        return
    remedy = "Give fit.report.stage of a fit that was stopped, with the same arguments."
    require(isinstance(stage, Stage), "stage", "what fit.report.stage is", type(stage).__name__, remedy)
    expected = f"one of {num_starts} starts of {dim} coordinates"
    got = f"one of {len(stage.x)} starts of {stage.x.shape[1]} coordinates"
    require(stage.x.shape == (num_starts, dim), "stage", expected, got, remedy)
    require((stage.sitting is not None) == is_full, "stage", "one of the same method", "one of another", remedy)
