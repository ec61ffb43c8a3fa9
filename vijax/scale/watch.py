"""A watch over the processes of a run: each writes signs of life into a file of its own in the
run's folder, and reads those of the others. Where one is lost, the others say which and end; JAX
alone would end them without a word, or wait.

A file is written in place, for what is renamed is seen late on network file systems. Clocks are
never compared: a process is silent when its own count of signs has stood still for so long on the
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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vijax.files import NO_LINK, PERMISSIONS, own_folder

EVERY_S, SILENT_S, STUCK_S = 1.0, 20.0, 300.0
"""Seconds between signs of life; of silence after which a process is lost; for which one may keep
the others waiting before their next steps."""
LOST = 5
"""Exit code of a process that ends because another is lost."""
LENGTH = 1024


class Marks:
    """The number of chunks of steps that this process has entered, and its seconds between them."""

    def __init__(self) -> None:
        self.entered, self.between_s, self._left = 0, 0.0, time.monotonic()

    def mark(self) -> None:
        """A chunk begins."""
        self.entered += 1
        self.between_s += time.monotonic() - self._left

    def left(self) -> None:
        """A chunk has ended."""
        self._left = time.monotonic()


ENTERED = Marks()


class Sign(NamedTuple):
    """The last sign of life of a process.

    Attributes:
      process: its number.
      host: the machine that it runs on.
      pid: its number there.
      signs: number of signs that it has given.
      entered: chunks of steps that it has entered.
      between_s: seconds that it spent between chunks: reading data, in process 0 also scores and
          files.
      fault: why it ended, if it did.
      because_of: the process whose loss it ended by.
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
    """A sign, and when it came and when the process entered its present chunk, on the reader's
    clock."""

    sign: Sign
    at: float
    entered_at: float


def update_sightings(
    seen: Mapping[int, Sighting], signs: Mapping[int, Sign], now: float
) -> dict[int, Sighting]:
    """The last signs of all processes after another look at their files."""
    found = dict(seen)
    for k, sign in signs.items():
        before = found.get(k)
        if before is None:
            found[k] = Sighting(sign, now, now)
        elif sign != before.sign:
            moved = sign.entered != before.sign.entered
            found[k] = Sighting(sign, now, now if moved else before.entered_at)
    return found


def find_lost(seen: Mapping[int, Sighting], own: int, now: float) -> tuple[int, str] | None:
    """A process that is lost, and how, in words; None where all is well.

    >>> here, there = Sign(0, "a", 7), Sign(1, "b", 9)
    >>> seen = {0: Sighting(here, 100.0, 100.0), 1: Sighting(there, 70.0, 70.0)}
    >>> find_lost(seen, 0, 100.0)
    (1, 'process 1 (host b, pid 9) is lost: it has given no sign of life for 30 s')
    """
    others = [x for k, x in seen.items() if k != own]
    for other in others:  # it knows already; of those that it speaks of this process may be one
        sign = other.sign
        if sign.because_of is not None and sign.because_of != own and sign.because_of in seen:
            return sign.because_of, sign.fault
    for other in others:
        if other.sign.fault:
            how = "went on without this one" if other.sign.because_of == own else "ended"
            return other.sign.process, f"{other.sign} {how}: {other.sign.fault}"
    for other in others:
        if now - other.at > SILENT_S:
            said = f"it has given no sign of life for {now - other.at:.0f} s"
            return other.sign.process, f"{other.sign} is lost: {said}"
    most = max(x.sign.entered for x in seen.values())
    since = max(x.entered_at for x in seen.values() if x.sign.entered == most)
    behind = [x for x in others if x.sign.entered < most]
    if behind and now - since > STUCK_S:
        said = f"it is alive, but the others have waited for it for {now - since:.0f} s"
        return behind[0].sign.process, f"{behind[0].sign} is stuck: {said}"
    return None


class Watch:
    """The watch of one process, from `begin` to `end`.

    Args:
      folder: folder of the files, the same for all.
      process: number of this process.
      total: number of all.
      remedy: gives the sentence that says how to go on.
      say: says a line.
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
        self.folder, self._own, self._total = folder, process, total
        self._remedy, self._say, self._leave = remedy, say, leave
        self._sign = Sign(process, socket.gethostname(), os.getpid())
        self._seen: dict[int, Sighting] = {}
        self._over, self._thread = (
            threading.Event(),
            threading.Thread(target=self._keep, daemon=True),
        )

    def write(self, **changed: Any) -> None:
        """Gives a sign of life."""
        marks: dict[str, Any] = {
            "entered": ENTERED.entered,
            "between_s": round(ENTERED.between_s, 3),
        }
        self._sign = self._sign._replace(signs=self._sign.signs + 1, **marks, **changed)
        sign = self._sign._replace(fault=self._sign.fault[: LENGTH // 4])
        with contextlib.suppress(
            OSError
        ):  # a full disk or a store that is away: the others will say that it is silent
            own_folder(self.folder)
            number = os.open(
                self.folder / f"{self._own}.json", os.O_WRONLY | os.O_CREAT | NO_LINK, PERMISSIONS
            )
            try:
                os.write(number, json.dumps(sign._asdict()).encode().ljust(LENGTH))
            finally:
                os.close(number)

    def signs(self) -> dict[int, Sign]:
        """The last sign of each process, as far as they can be read."""
        found = {}
        for k in range(self._total):
            with contextlib.suppress(OSError, ValueError, TypeError):
                found[k] = Sign(**json.loads((self.folder / f"{k}.json").read_bytes()))
        return found

    def begin(self) -> None:
        """Begins to watch, in a thread."""
        self._thread.start()

    def end(self, fault: str = "") -> None:
        """Ends it; with a fault the others end too."""
        self._over.set()
        self._thread.join()
        if fault:
            self.write(fault=fault)
        else:
            with contextlib.suppress(OSError):
                (self.folder / f"{self._own}.json").unlink()
                self.folder.rmdir()  # the last one does

    def wait(self) -> None:
        """Waits until it is known who is lost, which ends this process; returns if nobody is."""
        time.sleep(SILENT_S + 10)

    def slowest(self) -> str:
        """Says which process keeps the others waiting between chunks, and how long; empty where it
        is little."""
        if not self._seen:
            return ""
        signs = [x.sign for x in self._seen.values()]
        slow, quick = max(signs, key=lambda s: s.between_s), min(signs, key=lambda s: s.between_s)
        waited = slow.between_s - quick.between_s
        return f"waited {waited:.0f} s for process {slow.process}" if waited >= 1 else ""

    def look(self, now: float) -> tuple[int, str] | None:
        """Reads the files; gives a process that is lost."""
        self._seen = update_sightings(self._seen, self.signs(), now)
        return find_lost(self._seen, self._own, now)

    def _keep(self) -> None:
        last = time.monotonic()
        while not self._over.wait(EVERY_S):
            now = time.monotonic()
            if (
                now - last > SILENT_S / 2
            ):  # it was this process that stood still: the others may be well
                self._seen = {}
            last = now
            self.write()
            found = self.look(now)
            if found is not None:
                self._give_up(*found)
                return

    def _give_up(self, process: int, how: str) -> None:
        self.write(fault=how, because_of=process)
        self._say(f"vijax: {how}. {self._remedy()}")
        self._leave(LOST)


def call_before_abort(call: Callable[[], Any]) -> Callable[[], None]:
    """Has `call` come before this process is ended by `abort`, as JAX's client does where process 0
    is lost; gives what undoes that. Python's own handlers are too late: they run when the native
    code is done. (The handler of a signal that `abort` itself raises may call anything, C11
    7.14.1.1.)"""
    if os.name != "posix":
        return lambda: None
    of_abort = ctypes.CFUNCTYPE(None, ctypes.c_int)
    handler = of_abort(lambda _: call())
    own = ctypes.CDLL(None)
    own.signal.restype = ctypes.c_void_p
    own.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    before = own.signal(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))

    def undo(kept: Any = handler) -> None:
        own.signal(signal.SIGABRT, before)

    return undo
