"""What is said before a silence: a line, if something takes longer than a reader waits without asking why."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

AFTER_S = 2.0


class Counter:
    """Says how many are done, as often as a reader wants to know.

    >>> told = Counter(print, "rows read", 1000, every_s=0.0)
    >>> told(250)
    250 of 1,000 rows read
    """

    def __init__(self, say: Callable[[str], None], what: str, total: int, every_s: float = 5.0):
        self.say, self.what, self.total, self.every_s = say, what, total, every_s
        self.said = time.perf_counter()

    def __call__(self, done: int) -> None:
        """So many are done."""
        now = time.perf_counter()
        if now - self.said >= self.every_s:
            self.said = now
            self.say(f"{done:,} of {self.total:,} {self.what}")


@contextlib.contextmanager
def announced(say: Callable[[str], None], text: str, after_s: float = AFTER_S) -> Iterator[None]:
    """Says `text` once, if what is done within takes longer than so many seconds.

    >>> with announced(print, "making the model ..."):
    ...     pass
    """
    timer = threading.Timer(after_s, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # so that no line comes late
