"""Keeps XLA's banners about slow compilation off the screen, and nothing else that it prints.

Native code writes them to standard error, at a level that cannot be switched off without losing
real errors. So in the program `vijax` native code writes into a pipe, and this file, run as a
program of its own, copies the pipe to the screen without them. As a separate process it also passes
on the last words of a crash.
"""

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


def drop_banners(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that do not belong to a banner.

    >>> alarm = [b"E xla/service/slow_operation_alarm.cc:73] ", b"*****", b"[Compiling m] Very slow compile?", b"***"]
    >>> list(drop_banners([b"one", *alarm, b"two"]))
    [b'one', b'two']
    """
    is_banner = False
    for line in lines:
        begins = bool(BEGINS.search(line))
        continues = is_banner and bool(CONTINUES.search(line.rstrip(b"\r\n")))
        is_banner = begins or continues
        if not is_banner:
            yield line


@contextlib.contextmanager
def filter_stderr() -> Iterator[None]:
    """Sends what native code prints through the filter; what Python prints goes to the screen."""
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
    stderr = sys.stderr
    sys.stderr = os.fdopen(screen, "w", buffering=1, encoding=stderr.encoding, errors=stderr.errors)
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
        sys.stderr = stderr


if __name__ == "__main__":
    for line in drop_banners(sys.stdin.buffer):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
