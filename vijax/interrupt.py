"""Ctrl-C while a fit runs: the first lets the chunk of steps finish, the second stops at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

FINISHING = "interrupted: finishing the current chunk; press again to stop at once"


def _say_at_once(line: str) -> None:
    """To standard error by the bare system call: a signal may have come in the middle of a print, which cannot be
    entered again."""
    start = "\n" if os.isatty(2) else ""  # below a progress bar
    with contextlib.suppress(OSError):
        os.write(2, f"{start}{line}\n".encode())


@contextlib.contextmanager
def interrupt_flag() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C, which lets the current chunk finish, and says so; a second one interrupts at once."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(signum: int, frame: Any) -> None:
        if flag.is_set() and callable(before):
            before(signum, frame)
        if not flag.is_set():
            _say_at_once(FINISHING)
        flag.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before)
