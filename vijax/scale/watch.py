"""A watch over the processes of a run.

Each process writes signs of life into a file of its own in the run's folder, and reads the files of
the others. If one is lost, the others name it and end; JAX alone would end them without a word, or
wait.

A file is written in place, for network file systems show a renamed file late. Clocks are never
compared: a process is silent if its own count of signs has stood still for some time on the
reader's clock."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vijax.files import NO_LINK, PERMISSIONS, own_folder

EVERY_S = 1.0
"""Seconds between signs of life."""
SILENT_S = 20.0
"""Seconds of silence after which a process is lost."""
STUCK_S = 300.0
"""Seconds for which a process may keep the others waiting before their next steps."""
LOST = 5
"""Exit code of a process that ends because another is lost."""
LENGTH = 1024
"""Bytes of a file."""


class Marks:
    """The number of chunks of steps that this process has entered, and its seconds between them."""

    def __init__(self) -> None:
        self.entered = 0
        self.between_s = 0.0
        self._last_end = time.monotonic()

    def mark(self) -> None:
        """A chunk begins."""
        self.entered += 1
        self.between_s += time.monotonic() - self._last_end

    def leave(self) -> None:
        """A chunk has ended."""
        self._last_end = time.monotonic()


ENTERED = Marks()


class Sign(NamedTuple):
    """The last sign of life of a process.

    Attributes:
      process: its number.
      host: the machine that it runs on.
      pid: its process id on that machine.
      signs: number of its signs.
      entered: chunks of steps that it has entered.
      between_s: seconds that it spent between chunks: reading data, in process 0 also scores and
          files.
      fault: why it ended, if it did.
      because_of: the lost process because of which it ended.
    """

    process: int
    host: str
    pid: int
    signs: int = 0
    entered: int = 0
    between_s: float = 0.0
    fault: str = ""
    because_of: int | None = None

    def __str__(self) -> str:
        return f"process {self.process} (host {self.host}, pid {self.pid})"


class Sighting(NamedTuple):
    """A sign, with the time when it came and the time when the process entered its present chunk,
    both on the reader's clock."""

    sign: Sign
    at: float
    entered_at: float


def update_sightings(
    sightings: Mapping[int, Sighting], signs: Mapping[int, Sign], now: float
) -> dict[int, Sighting]:
    """The last signs of all processes after another look at their files."""
    updated = dict(sightings)
    for k, sign in signs.items():
        before = updated.get(k)
        if before is None:
            updated[k] = Sighting(sign, now, now)
        elif sign != before.sign:
            is_same_chunk = sign.entered == before.sign.entered
            updated[k] = Sighting(sign, now, before.entered_at if is_same_chunk else now)
    return updated


def find_lost(sightings: Mapping[int, Sighting], reader: int, now: float) -> tuple[int, str] | None:
    """The number of a lost process and a sentence about it; None if no process is lost.

    >>> signs = Sign(0, "a", 7), Sign(1, "b", 9)
    >>> sightings = {0: Sighting(signs[0], 100.0, 100.0), 1: Sighting(signs[1], 70.0, 70.0)}
    >>> find_lost(sightings, 0, 100.0)
    (1, 'process 1 (host b, pid 9) is lost: it has given no sign of life for 30 s')
    """
    companions = [sighting for k, sighting in sightings.items() if k != reader]
    for companion in companions:  # it knows of the loss; the lost process may be this one
        sign = companion.sign
        if sign.because_of not in (None, reader) and sign.because_of in sightings:
            return sign.because_of, sign.fault
    for companion in companions:
        sign = companion.sign
        if sign.fault:
            verb = "went on without this one" if sign.because_of == reader else "ended"
            return sign.process, f"{sign} {verb}: {sign.fault}"
    for companion in companions:
        if now - companion.at > SILENT_S:
            reason = f"it has given no sign of life for {now - companion.at:.0f} s"
            return companion.sign.process, f"{companion.sign} is lost: {reason}"
    return _find_stuck(sightings, companions, now)


def _find_stuck(
    sightings: Mapping[int, Sighting], companions: Sequence[Sighting], now: float
) -> tuple[int, str] | None:
    """A process that is alive, but keeps the others waiting."""
    last = max(x.sign.entered for x in sightings.values())
    since = max(x.entered_at for x in sightings.values() if x.sign.entered == last)
    behind = [x.sign for x in companions if x.sign.entered < last]
    if behind and now - since > STUCK_S:
        reason = f"it is alive, but the others have waited for it for {now - since:.0f} s"
        return behind[0].process, f"{behind[0]} is stuck: {reason}"
    return None


class Watch:
    """The watch of one process, from `begin` to `end`.

    Args:
      folder: folder of the files, the same for all processes.
      process: number of this process.
      total: number of processes.
      remedy: gives the sentence that says how to go on.
      say: prints a line.
      leave: ends this process at once, by an exit code.
    """

    def __init__(
        self,
        folder: Path,
        process: int,
        total: int,
        remedy: Callable[[], str],
        say: Callable[[str], None],
        leave: Callable[[int], Any] = os._exit,
    ):
        self.folder = folder
        self._process = process
        self._total = total
        self._remedy = remedy
        self._say = say
        self._leave = leave
        self._sign = Sign(process, socket.gethostname(), os.getpid())
        self._sightings: dict[int, Sighting] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def write(self, **changes: Any) -> None:
        """Gives a sign of life."""
        marks: dict[str, Any] = {
            "entered": ENTERED.entered,
            "between_s": round(ENTERED.between_s, 3),
        }
        self._sign = self._sign._replace(signs=self._sign.signs + 1, **marks, **changes)
        # If a disk is full or a store is away, the others will say that this process is silent
        with contextlib.suppress(OSError):
            own_folder(self.folder)
            self._write_file(self._sign._replace(fault=self._sign.fault[: LENGTH // 4]))

    def signs(self) -> dict[int, Sign]:
        """The last sign of each process whose file can be read."""
        signs = {}
        for k in range(self._total):
            with contextlib.suppress(OSError, ValueError, TypeError):
                signs[k] = Sign(**json.loads(self._file(k).read_bytes()))
        return signs

    def begin(self) -> None:
        """Begins to watch, in a thread."""
        self._thread.start()

    def end(self, fault: str = "") -> None:
        """Ends the watch; with a fault the other processes end too."""
        self._over.set()
        self._thread.join()
        if fault:
            self.write(fault=fault)
        else:
            with contextlib.suppress(OSError):
                self._file(self._process).unlink()
                self.folder.rmdir()  # only the last process can

    def wait(self) -> None:
        """Waits until the lost process is known, which ends this process; returns if none is."""
        time.sleep(SILENT_S + 10)

    def slowest(self) -> str:
        """The process that keeps the others waiting between chunks, and for how long; empty below
        one second."""
        if not self._sightings:
            return ""
        signs = [x.sign for x in self._sightings.values()]
        slow = max(signs, key=lambda sign: sign.between_s)
        quick = min(signs, key=lambda sign: sign.between_s)
        waited = slow.between_s - quick.between_s
        return f"waited {waited:.0f} s for process {slow.process}" if waited >= 1 else ""

    def look(self, now: float) -> tuple[int, str] | None:
        """Reads the files; returns a lost process as `find_lost` does."""
        self._sightings = update_sightings(self._sightings, self.signs(), now)
        return find_lost(self._sightings, self._process, now)

    def _keep(self) -> None:
        last = time.monotonic()
        while not self._over.wait(EVERY_S):
            now = time.monotonic()
            if now - last > SILENT_S / 2:  # this process stood still: the others may be well
                self._sightings = {}
            last = now
            self.write()
            loss = self.look(now)
            if loss is not None:
                self._end_process(*loss)
                return

    def _end_process(self, process: int, reason: str) -> None:
        self.write(fault=reason, because_of=process)
        self._say(f"vijax: {reason}. {self._remedy()}")
        self._leave(LOST)

    def _file(self, process: int) -> Path:
        return self.folder / f"{process}.json"

    def _write_file(self, sign: Sign) -> None:
        flags = os.O_WRONLY | os.O_CREAT | NO_LINK
        number = os.open(self._file(self._process), flags, PERMISSIONS)
        try:
            os.write(number, json.dumps(sign._asdict()).encode().ljust(LENGTH))
        finally:
            os.close(number)


def call_before_abort(call: Callable[[], Any]) -> Callable[[], None]:
    """Makes `call` run before `abort` ends this process, as JAX's client does if process 0 is lost;
    returns a function that undoes it.

    Python's own handlers are too late: they run when the native code is done. (The handler of a
    signal that `abort` itself raises may call anything, C11 7.14.1.1.)"""
    if os.name != "posix":
        return lambda: None
    handler_type = ctypes.CFUNCTYPE(None, ctypes.c_int)
    handler = handler_type(lambda _: call())
    library = ctypes.CDLL(None)
    library.signal.restype = ctypes.c_void_p
    library.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    before = library.signal(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))

    def undo(_alive: Any = handler) -> None:  # the default keeps the handler alive
        library.signal(signal.SIGABRT, before)

    return undo
