"""Ctrl-C while Python cannot run its handlers, as while XLA compiles."""

import signal
import subprocess
import sys
import time

import pytest

from vijax.app.cli import main
from vijax.fitting.interrupt import BUSY

BLOCKED = """
import ctypes, signal, sys
from vijax.fitting.interrupt import heard_while_busy, interrupt_flag
signal.signal(signal.SIGINT, signal.default_int_handler)
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
library.pthread_mutex_lock(mutex)
with heard_while_busy(grace_s=0.2), interrupt_flag():
    print("blocked", flush=True)
    library.pthread_mutex_lock(mutex)  # native code that never ends, and holds no lock of Python's
"""

HEARD = """
import signal, time
from vijax.fitting.interrupt import heard_while_busy, interrupt_flag
signal.signal(signal.SIGINT, signal.default_int_handler)
with heard_while_busy(grace_s=0.2, leave=print), interrupt_flag() as asked:
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.5)
    assert asked.is_set()
"""


def test_the_first_is_answered_and_the_second_ends_the_process():
    process = subprocess.Popen(
        [sys.executable, "-c", BLOCKED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "blocked\n"
        time.sleep(1.0)  # it says so just before it is
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == BUSY + "\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr.read() == "stopped at once\n"
    finally:
        process.kill()
        process.communicate()


def test_where_python_answers_nothing_is_added():
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", HEARD], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (done.stderr, time.monotonic() - began)
    assert done.stderr == "interrupted: finishing what is under way; press again to stop at once\n"
    assert done.stdout == ""


AT_THE_END = """
import signal, sys
sys.argv = ["vijax", "version"]
from vijax.app import cli
if len("{stopped}"):
    def stop(given): raise KeyboardInterrupt
    cli._run = stop
code = cli.main()
signal.raise_signal(signal.SIGINT)
sys.exit(code)
"""


@pytest.mark.parametrize(("stopped", "code"), [("", 0), ("yes", 130)])
def test_a_late_one_does_not_change_the_exit_code(stopped, code):
    """When the command is done, or another Ctrl-C has stopped it, and only the end of the process
    is left."""
    program = AT_THE_END.format(stopped=stopped)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == ("\nvijax: stopped\n" if stopped else "")


def test_inside_another_program_the_handler_is_left():
    before = signal.getsignal(signal.SIGINT)
    assert main(["version"]) == 0
    assert signal.getsignal(signal.SIGINT) is before
