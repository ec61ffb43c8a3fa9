"""Ctrl-C: the first lets the present steps finish, the second stops at once; both are answered
while XLA is busy.

Python runs its signal handlers between its own instructions, so none runs while XLA compiles or
computes. The program `vijax` therefore also listens on the file descriptor to which Python writes
every signal at once (`signal.set_wakeup_fd`). The library does not: another program may need that
descriptor itself. Once the program has its exit code it ignores further Ctrl-C. Until its modules
are imported, Python handles Ctrl-C: nothing has begun then."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

FINISHING = "interrupted: finishing what is under way; press again to stop at once"
BUSY = (
    "interrupted: XLA is compiling (or computing); the run stops when that is done; press again "
    "to stop at once"
)
STOPPED_AT_ONCE = 130


def say_at_once(line: str) -> None:
    """Writes to standard error by the bare system call: a signal may come during a print, and a
    second print must not begin then."""
    with contextlib.suppress(OSError):
        number = _stderr()
        start = "\n" if os.isatty(number) else ""  # below a progress bar
        os.write(number, f"{start}{line}\n".encode())


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # replaced by an object that is no file
        return 2


class Interrupt:
    """A handler of SIGINT: the first signal sets `asked` and prints a message; later signals go to
    the handler that it replaced."""

    def __init__(self, before: Any):
        self.asked = threading.Event()
        self.heard = 0
        self._before = before

    def __call__(self, signum: int, frame: Any) -> None:
        """Handles one Ctrl-C."""
        self.heard += 1
        if self.asked.is_set() and callable(self._before):
            self._before(signum, frame)
        if not self.asked.is_set():
            say_at_once(FINISHING)
        self.asked.set()


@contextlib.contextmanager
def interrupt_flag() -> Iterator[threading.Event]:
    """A flag that the first Ctrl-C sets; a second Ctrl-C interrupts at once. Outside the main
    thread the flag is never set."""
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    before = signal.getsignal(signal.SIGINT)
    handler = Interrupt(before)
    signal.signal(signal.SIGINT, handler)
    try:
        yield handler.asked
    finally:
        signal.signal(signal.SIGINT, before)


def ignore_interrupts() -> None:
    """Ignores Ctrl-C in a program that has finished its task, or has said that it stopped. Python
    then removes its handlers and ends, in about a second: a Ctrl-C would end it without a message
    and with another exit code (-2 for 130)."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def heard_while_busy(
    grace_s: float = 0.5, leave: Callable[[int], Any] = os._exit
) -> Iterator[None]:
    """Answers Ctrl-C also while Python cannot: the first prints that XLA is busy, the second ends
    the process, from which a run recovers as from a power cut.

    Args:
      grace_s: time for Python to answer by itself.
      leave: ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    readable, writable = os.pipe()
    if hasattr(os, "set_blocking"):  # on Windows from Python 3.12 on, and not needed
        os.set_blocking(writable, False)
    before = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    over = threading.Event()
    listener = threading.Thread(target=_listen, args=(readable, over, grace_s, leave), daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        over.set()
        os.write(writable, b"\0")  # wakes the listener
        listener.join()
        os.close(readable)
        os.close(writable)


def _listen(
    readable: int, over: threading.Event, grace_s: float, leave: Callable[[int], Any]
) -> None:
    presses = 0
    while not over.is_set():
        if os.read(readable, 1) != bytes([signal.SIGINT]):
            continue
        presses += 1
        if _is_answered(presses, over, grace_s):
            continue
        if presses == 1:
            say_at_once(BUSY)
        else:
            say_at_once("stopped at once")
            leave(STOPPED_AT_ONCE)


def _is_answered(presses: int, over: threading.Event, grace_s: float) -> bool:
    """True if Python handles this many signals within `grace_s` seconds."""
    until = time.monotonic() + grace_s
    while time.monotonic() < until:
        handler = signal.getsignal(signal.SIGINT)
        if over.is_set() or (isinstance(handler, Interrupt) and handler.heard >= presses):
            return True
        time.sleep(0.02)
    return False
