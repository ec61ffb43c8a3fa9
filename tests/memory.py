"""Keeps a test process small: compiled programs stay in memory for as long as their functions are
known to jax."""

import ctypes
import gc
import os
import sys
from pathlib import Path

import jax
import pytest

# bytes, below the 2 GB that a test process may reach, by what compiling the largest program takes
BOUND = 1.2e9
# bytes above what is left after letting go, so that little is not let go of again and again
ROOM = 0.4e9
MOST_MAPS = (
    25_000  # every program takes some of the 65,530 memory maps of Linux; without one more XLA dies
)
LINUX = sys.platform == "linux"


class Memory:
    """After a test that leaves the process large, lets go of all programs and gives the memory back
    to the system."""

    def __init__(self):
        self.bound = BOUND

    def pytest_collection_finish(self):
        """Programs that ran while tests were collected leave (.3 of 1.0 GB); Python's collector
        looks no more at what was imported, and less often at what jax makes while it traces."""
        if LINUX:
            let_go()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        result = yield
        last_of_file = nextitem is None or nextitem.path != item.path
        if LINUX and (
            resident_bytes() > self.bound or (last_of_file and memory_maps() > MOST_MAPS)
        ):
            let_go()
            self.bound = max(BOUND, resident_bytes() + ROOM)
        return result


def resident_bytes() -> int:
    """What the process holds now, of Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def memory_maps() -> int:
    return Path("/proc/self/maps").read_text().count("\n")


def let_go() -> None:
    """Clears jax's caches; glibc keeps what is freed unless it is asked to trim."""
    jax.clear_caches()
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim:
        trim(0)
