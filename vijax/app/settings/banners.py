"""Keeps XLA's banners about slow compilation off the screen, and nothing else of what it prints.

They are written to the process's standard error by native code, at a level that cannot be switched
off without real errors. So in the program `vijax` native code writes into a pipe, and this file,
run as a program of its own, copies the pipe to the screen without them. It is a process of its own
so that the last words of a crash get through too."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

BEGINS = re.compile(rb"slow_operation_alarm\.cc:\d+\]")
CONTINUES = re.compile(
    rb"""^\s*$ | ^\*+$ | Very\ slow\ compile\? | The\ operation\ took\ | Constant\ folding\ an\ instruction
    | ^\ \ %?\S+\ =\  | displaying\ the\ full\ instruction | This\ isn't\ necessarily\ a\ bug | guards\ against
    | If\ you'd\ like\ to\ file\ a\ bug | XLA_FLAGS=--xla_dump_to""",
    re.VERBOSE,
)


def without_banners(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that are not of such a banner.

    >>> alarm = [b"E xla/service/slow_operation_alarm.cc:73] ", b"*****", b"[Compiling m] Very slow compile?", b"***"]
    >>> list(without_banners([b"one", *alarm, b"two"]))
    [b'one', b'two']
    """
    inside = False
    for line in lines:
        inside = bool(BEGINS.search(line)) or (
            inside and bool(CONTINUES.search(line.rstrip(b"\r\n")))
        )
        if not inside:
            yield line


@contextlib.contextmanager
def kept_off() -> Iterator[None]:
    """Sends what native code prints through the filter; what Python prints goes to the screen as
    before."""
    try:
        screen = os.dup(2)
        reader, writer = os.pipe()
    except OSError:  # no standard error, or no descriptors left
        yield
        return
    command = [sys.executable, "-I", "-S", __file__]
    child = subprocess.Popen(
        command, stdin=reader, stderr=screen, stdout=screen, start_new_session=True
    )
    os.close(reader)
    before = sys.stderr
    sys.stderr = os.fdopen(screen, "w", buffering=1, encoding=before.encoding, errors=before.errors)
    os.dup2(writer, 2)
    os.close(writer)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(screen, 2)  # the pipe's last writing end: the child comes to the end of it
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=5)
        sys.stderr.close()
        sys.stderr = before


if __name__ == "__main__":
    for kept in without_banners(sys.stdin.buffer):
        sys.stdout.buffer.write(kept)
        sys.stdout.buffer.flush()
