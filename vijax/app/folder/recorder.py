"""Files that a run writes as it runs, metrics and checkpoints. A failed write does not stop it."""

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

    Lines of metrics are written before the checkpoint of their step, so that a run resumed from it
    has all of them. Lines that could not be written (a full disk) stay in memory until the next
    write.

    Args:
      folder: folder of the run.
      config: its flat configuration.
      score: returns the held-out score of a `Progress`; None: no scores.
      evaluate_every: steps between scores; 0 for one at the end only.
      checkpoint_every_s: seconds between checkpoints.
      warn: called with a warning of a file that could not be written.
      seconds: seconds that this run took before it was resumed.
      team: the processes that fit together; all of them take part in saving a state.
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
        self._folder = folder
        self._config = config
        self._score = score
        self._warn = warn
        self._team = team or Alone()
        self._evaluate_every = evaluate_every
        self._checkpoint_every_s = checkpoint_every_s
        self._pending: list[dict[str, Any]] = []
        self._written_at = self._saved_at = time.perf_counter()

    def __call__(self, progress: Any) -> None:
        """Records the steps since the last call."""
        start_time = time.perf_counter()
        self._record(progress)
        self.spent += time.perf_counter() - start_time

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
        if self._team.any_asks(
            progress.stopping or now - self._saved_at >= self._checkpoint_every_s
        ):
            self._save(progress)
            self._saved_at = self._written_at = time.perf_counter()
        elif now - self._written_at >= 1.0:
            self._write(durably=False)
            self._written_at = now

    def _due(self, progress: Any) -> bool:
        """True at the end, or if a multiple of `evaluate_every` lies in the new steps."""
        last_step = progress.step - len(progress.trace["step"])
        is_multiple = (
            self._evaluate_every > 0
            and progress.step // self._evaluate_every > last_step // self._evaluate_every
        )
        return is_multiple or progress.step >= progress.num_steps

    def take_score(self, progress: Any) -> bool:
        """Takes the score of a state; False if there is none, or the numbers allow none."""
        if self._score is None:
            return False
        step = int(progress.state.step)
        try:
            self.latest_score = self._score(progress)
            self.score_step = step
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            self._warn(f"no held-out score at step {step}: {error}. The run goes on.")
            return False
        return True

    def _save(self, progress: Any) -> None:
        folder = self._folder / "checkpoints"
        state = self._team.with_stored_tables(folder, progress.step, progress.whole)
        if not self._write(durably=True):
            return
        try:
            checkpoint.save(folder, progress.step, state, self._config)
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
    trace = progress.trace
    elbo = elbo_per_datum(progress)
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
