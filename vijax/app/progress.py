"""What a running fit tells: documents per second, ELBO per word, what it may still gain, held-out score, time to go."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TextIO

import numpy as np

from vijax.extras import require_extra

COMPILING = "compiling ... (the steps follow when that is done)"


class Mark(NamedTuple):
    """A moment of a run: steps and documents done, when, and the seconds that went into other than training."""

    step: int
    documents: float
    seconds: float
    outside: float


class Printer:
    """A callback for `vijax.fit` that reports progress: a bar on a terminal, plain lines in a log.

    Between reports a call costs a comparison of two times; a report costs well under a millisecond. So at the default
    cadence the cost is below 0.1 % of the time.

    Args:
      every_s: seconds between lines (a bar is redrawn up to five times as often).
      score: gives the latest held-out score (anything with `mean` and `standard_error`), or None.
      outside: seconds spent so far on scores and checkpoints, which do not count against documents per second.
      stream: where to print; standard error by default.
      clock: seconds.
      unit: what is read, in short: docs, rows, sequences.
      per: what the bound is per: word, or else whatever a datum is called.
    """

    def __init__(
        self,
        every_s: float = 5.0,
        score: Callable[[], Any] = lambda: None,
        outside: Callable[[], float] = lambda: 0.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.perf_counter,
        unit: str = "docs",
        per: str = "word",
    ):
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._every_s = every_s / 5 if self._terminal else every_s
        self._score, self._outside, self._clock = score, outside, clock
        self._unit, self._per = unit, per
        self._first: Mark | None = None
        self._last = Mark(0, 0.0, clock(), outside())
        self._bar: Any = None
        self._announcement: threading.Timer | None = None

    @contextlib.contextmanager
    def announcing(self, after_s: float = 2.0) -> Iterator[None]:
        """Says that XLA compiles if there is nothing else to say for so long: around a fit, before its first report."""
        self._announcement = threading.Timer(after_s, lambda: print(COMPILING, file=self._stream, flush=True))
        self._announcement.daemon = True
        self._announcement.start()
        try:
            yield
        finally:
            self._announcement.cancel()

    def __call__(self, seen: Any) -> None:
        """Reports, if it is time to."""
        if self._announcement is not None:
            self._announcement.cancel()
        now = self._clock()
        first = self._first is None
        if not (first or seen.stopping or now - self._last.seconds >= self._every_s):
            return
        mark = Mark(seen.step, seen.num_groups_seen, now, self._outside())
        text = self._text(seen, mark)
        if first:
            self._first = mark  # what came before it includes compilation, which says nothing about time to go
        self._last = mark
        if self._terminal:
            self._draw(seen, text)
        else:
            print(f"step {seen.step:>6,}/{seen.num_steps:,}   {text}", file=self._stream, flush=True)

    def _text(self, seen: Any, mark: Mark) -> str:
        parts = [f"pass {seen.step / seen.steps_per_epoch:.1f}", f"{_rate(self._last, mark):,.0f} {self._unit}/s"]
        elbo = elbo_per_datum(seen)
        parts.append(f"ELBO/{self._per} {np.mean(elbo):.3f}")
        if seen.gain is not None and np.isfinite(seen.gain):
            parts.append(f"still to gain {seen.gain:.1e}")
        score = self._score()
        if score is not None:
            parts.append(f"held-out {score.mean:.3f} ± {score.standard_error:.3f}")
        if not seen.stopping and self._first is not None and mark.step > self._first.step:
            parts.append(f"to go {_to_go(self._first, mark, seen.num_steps)}")
        return "   ".join(parts)

    def _draw(self, seen: Any, text: str) -> None:
        if self._bar is None:
            form = "{percentage:3.0f}% |{bar:24}| {n_fmt}/{total_fmt}  {desc}"
            tqdm = require_extra("tqdm").tqdm
            # Some terminals (in containers, say) do not know their size; tqdm would then show nothing.
            size = shutil.get_terminal_size()
            self._bar = tqdm(
                total=seen.num_steps, file=self._stream, bar_format=form, ncols=size.columns, nrows=size.lines
            )
        self._bar.n = seen.step
        self._bar.set_description_str(text.replace("   ", "  "))
        if seen.stopping:
            self._bar.close()
            self._bar = None


def elbo_per_datum(seen: Any) -> np.ndarray:
    """The bound of each step since the last call, per word of documents, else per group of the data.

    The documents' part is over the words of the very batch it is of, the penalty over those of the whole data set. So
    a batch of longer documents is not a better one, and a ramp (N_t < N) leaves the curve of one objective.
    """
    if not seen.num_words or "num_words" not in seen.trace:
        return seen.trace["elbo"] / seen.num_groups
    words = np.maximum(seen.trace["num_words"], 1.0)
    return seen.trace["local_elbo"] / words - seen.trace["penalty"] / seen.num_words


def _rate(before: Mark, now: Mark) -> float:
    seconds = (now.seconds - before.seconds) - (now.outside - before.outside)
    return (now.documents - before.documents) / max(seconds, 1e-9)


def _to_go(first: Mark, now: Mark, num_steps: int) -> str:
    return clock_time((num_steps - now.step) * (now.seconds - first.seconds) / (now.step - first.step))


def clock_time(seconds: float) -> str:
    """Seconds as a clock shows them.

    >>> clock_time(3675)
    '1:01:15'
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
