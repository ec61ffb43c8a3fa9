"""Lines on the screen during a run: documents per second, ELBO per word, held-out score, time to
go; and what is said before a silence."""

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
from vijax.numerals import with_error
from vijax.terminal import printable

COMPILING = "compiling ... (the steps follow when that is done)"
AFTER_S = 2.0
"""Seconds of silence after which a line explains it."""


class Mark(NamedTuple):
    """A moment of a run: steps and documents done, the time, and the seconds not spent on steps."""

    step: int
    documents: float
    seconds: float
    outside: float


class Printer:
    """A callback for `vijax.fit` that reports progress: a bar on a terminal, plain lines in a log.

    Args:
      every_s: seconds between lines (a bar is redrawn up to five times as often).
      score: returns the latest held-out score (with `mean` and `standard_error`), or None.
      outside: returns the seconds spent on scores and checkpoints, which do not count in documents
        per second.
      stream: the stream to print to; standard error by default.
      clock: returns the time in seconds.
      unit: a short name of the data: docs, rows, sequences.
      per: the unit of the bound: word, or the name of a datum.
      more: returns further text, or "".
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
        more: Callable[[], str] = lambda: "",
    ):
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._every_s = every_s / 5 if self._terminal else every_s
        self._score = score
        self._outside = outside
        self._clock = clock
        self._unit = unit
        self._per = per
        self._more = more
        self._first: Mark | None = None
        self._last = Mark(0, 0.0, clock(), outside())
        self._bar: Any = None
        self._announcement: threading.Timer | None = None

    @contextlib.contextmanager
    def announcing(self, after_s: float = AFTER_S) -> Iterator[None]:
        """Says that XLA compiles, if the fit inside reports nothing for `after_s` seconds."""
        with announce_if_slow(self._print, COMPILING, after_s) as self._announcement:
            yield

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def __call__(self, progress: Any) -> None:
        """Reports, if it is time."""
        if self._announcement is not None:
            self._announcement.cancel()
        now = self._clock()
        first = self._first is None
        if first and progress.data_place:
            self._print(progress.data_place)
        if not (first or progress.stopping or now - self._last.seconds >= self._every_s):
            return
        mark = Mark(progress.step, progress.num_groups_seen, now, self._outside())
        text = self._text(progress, mark)
        if first:
            # The time before it includes compilation, which tells nothing about the time to go.
            self._first = mark
        self._last = mark
        if self._terminal:
            self._draw(progress, text)
        else:
            self._print(f"step {progress.step:>6,}/{progress.num_steps:,}   {text}")

    def _text(self, progress: Any, mark: Mark) -> str:
        seconds = (mark.seconds - self._last.seconds) - (mark.outside - self._last.outside)
        rate = (mark.documents - self._last.documents) / max(seconds, 1e-9)
        parts = [
            f"pass {progress.step / progress.steps_per_epoch:.1f}",
            f"{rate:,.0f} {self._unit}/s",
        ]
        # One pass (on full data one step), as in the tables; older steps would lower the mean.
        last_pass = elbo_per_datum(progress)[-max(1, int(progress.steps_per_epoch)) :]
        parts.append(f"ELBO/{self._per} {np.mean(last_pass):.3f}")
        if progress.gain is not None and np.isfinite(progress.gain):
            parts.append(f"still to gain {progress.gain:.1e}")
        score = self._score()
        if score is not None:
            parts.append(f"held-out {with_error(score.mean, score.standard_error)}")
        if self._more():
            parts.append(self._more())
        if not progress.stopping and self._first is not None and mark.step > self._first.step:
            seconds_per_step = (mark.seconds - self._first.seconds) / (mark.step - self._first.step)
            parts.append(f"to go {clock_time((progress.num_steps - mark.step) * seconds_per_step)}")
        return "   ".join(parts)

    def _draw(self, progress: Any, text: str) -> None:
        if self._bar is None:
            form = "{percentage:3.0f}% |{bar:24}| {n_fmt}/{total_fmt}  {desc}"
            tqdm = require_extra("tqdm").tqdm
            # Some terminals (as in containers) do not know their size; tqdm would show nothing.
            size = shutil.get_terminal_size()
            self._bar = tqdm(
                total=progress.num_steps,
                file=self._stream,
                bar_format=form,
                ncols=size.columns,
                nrows=size.lines,
            )
        self._bar.n = progress.step
        self._bar.set_description_str(text.replace("   ", "  "))
        if progress.stopping:
            self._bar.close()
            self._bar = None


def elbo_per_datum(progress: Any) -> np.ndarray:
    """The bound of each step since the last call, per word of documents, else per group of the
    data.

    The documents' part is divided by the words of its own batch, the penalty by the words of the
    whole data set. So a batch of longer documents does not look better, and a ramp (N_t < N) leaves
    the curve of one objective.
    """
    if not progress.num_words or "num_words" not in progress.trace:
        return progress.trace["elbo"] / progress.num_groups
    words = np.maximum(progress.trace["num_words"], 1.0)
    return progress.trace["local_elbo"] / words - progress.trace["penalty"] / progress.num_words


def clock_time(seconds: float) -> str:
    """Seconds as a clock shows them.

    >>> clock_time(3675)
    '1:01:15'
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def say_to_stderr(message: str) -> None:
    """Prints a line that is not a result."""
    print(printable(message), file=sys.stderr, flush=True)


# --- before a silence -----------------------------------------------------------------------------
class Counter:
    """Says how many are done, at most every `every_s` seconds.

    >>> counter = Counter(print, "rows read", 1000, every_s=0.0)
    >>> counter(250)
    250 of 1,000 rows read
    """

    def __init__(self, say: Callable[[str], None], what: str, total: int = 0, every_s: float = 5.0):
        self.say = say
        self.what = what
        self.total = total
        self.every_s = every_s
        self.said = time.perf_counter()

    def __call__(self, done: int, total: int = 0) -> None:
        """`done` are done; `total` if it was not known before."""
        now = time.perf_counter()
        if now - self.said >= self.every_s:
            self.said = now
            self.say(f"{done:,} of {total or self.total:,} {self.what}")


@contextlib.contextmanager
def announce_if_slow(
    say: Callable[[str], None], text: str, after_s: float = AFTER_S
) -> Iterator[threading.Timer]:
    """Says `text` once, if the body takes longer than `after_s` seconds.

    >>> with announce_if_slow(print, "making the model ..."):
    ...     pass
    """
    timer = threading.Timer(after_s, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield timer
    finally:
        timer.cancel()
        timer.join()  # so that no line comes late
