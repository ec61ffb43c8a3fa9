"""The files that a run writes while it goes: metrics and checkpoints, each at its own pace. Neither
stops the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.folder.team import Alone
from vijax.app.settings.progress import elbo_per_datum
from vijax.evaluate import metrics
from vijax.fitting import checkpoint

PER_STEP = ("step_size", "retractions", "result")


class Recorder:
    """A callback for `vijax.fit`.

    Lines of metrics are on the disk before the checkpoint of their step is: cut back to a
    checkpoint's step, they are whole. Lines that cannot be written for want of space are kept in
    memory, and written at the next turn.

    Args:
      folder: folder of the run.
      config: its flat configuration.
      score: gives the held-out score of a `Progress`; None takes no scores.
      evaluate_every: steps between scores; 0 for one at the end only.
      checkpoint_every_s: seconds between checkpoints.
      warn: called with a warning of a file that could not be written.
      seconds: seconds that earlier sittings of this run took.
      team: the processes that fit together, which have to take part where a state is saved.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        score: Callable[[Any], Any] | None,
        evaluate_every: int,
        checkpoint_every_s: float,
        warn: Callable[[str], None],
        seconds: float = 0.0,
        team: Alone | None = None,
    ):
        self.latest_score: Any = None
        self.score_step = -1
        self.spent = 0.0  # seconds for scores and files
        self.seconds = self._seconds_before = seconds
        self._folder, self._config, self._score, self._warn = folder, config, score, warn
        self._team = team or Alone()
        self._evaluate_every, self._checkpoint_every_s = evaluate_every, checkpoint_every_s
        self._pending: list[dict[str, Any]] = []
        self._written_at = self._saved_at = time.perf_counter()

    def __call__(self, progress: Any) -> None:
        """Records the steps since the last call."""
        began = time.perf_counter()
        self._record(progress)
        self.spent += time.perf_counter() - began

    def _record(self, progress: Any) -> None:
        self.seconds = self._seconds_before + progress.elapsed_s
        self._pending += step_records(progress, self.seconds)
        if self._due(progress) and self.take_score(progress):
            place = {"step": progress.step, "epoch": progress.step / progress.steps_per_epoch}
            score = {
                "score": self.latest_score.mean,
                "standard_error": self.latest_score.standard_error,
            }
            self._pending.append({"kind": "held_out", **place, **score})
        now = time.perf_counter()
        if self._team.agreed(progress.stopping or now - self._saved_at >= self._checkpoint_every_s):
            self._save(progress)
            self._saved_at = self._written_at = time.perf_counter()
        elif now - self._written_at >= 1.0:
            self._write(durably=False)
            self._written_at = now

    def _due(self, progress: Any) -> bool:
        """True where a multiple of `evaluate_every` lies in the steps since the last call, and at
        the end."""
        before = progress.step - len(progress.trace["step"])
        due = (
            self._evaluate_every > 0
            and progress.step // self._evaluate_every > before // self._evaluate_every
        )
        return due or progress.step >= progress.num_steps

    def take_score(self, progress: Any) -> bool:
        """Takes the score of a state; False where there is none, or the numbers are too bad for
        one."""
        if self._score is None:
            return False
        step = int(progress.state.step)
        try:
            self.latest_score, self.score_step = self._score(progress), step
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            self._warn(f"no held-out score at step {step}: {error}. The run goes on.")
            return False
        return True

    def _save(self, progress: Any) -> None:
        folder = self._folder / "checkpoints"
        whole = self._team.stored(folder, progress.step, progress.whole)
        if not self._write(durably=True):
            return
        try:
            checkpoint.save(folder, progress.step, whole, self._config)
        except checkpoint.CheckpointError as error:
            self._warn(f"{error}. The run goes on.")

    def _write(self, durably: bool) -> bool:
        try:
            metrics.append(self._folder / "metrics.jsonl", self._pending, durably)
        except OSError as error:
            self._warn(
                f"{self._folder / 'metrics.jsonl'}: {error.strerror}; no checkpoint this time. "
                "The run goes on."
            )
            return False
        self._pending = []
        return True


def step_records(progress: Any, seconds: float) -> list[dict[str, Any]]:
    """One record for each step since the last call."""
    trace, elbo = progress.trace, elbo_per_datum(progress)
    return [
        {
            "kind": "step",
            "step": int(step) + 1,
            "epoch": (int(step) + 1) / progress.steps_per_epoch,
            "elbo": trace["elbo"][i],
            f"elbo_per_{'word' if progress.num_words else 'datum'}": elbo[i],
            **{name: trace[name][i] for name in PER_STEP if name in trace},
            "seconds": round(seconds, 3),
        }
        for i, step in enumerate(trace["step"])
    ]
