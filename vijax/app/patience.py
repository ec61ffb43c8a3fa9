"""What is said before a silence: a line, if something takes longer than a reader waits without asking why."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

AFTER_S = 2.0


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
