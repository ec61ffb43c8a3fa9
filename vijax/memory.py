"""Free memory, with which data are compared before they are read: some files claim to be larger
than they are."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from pathlib import Path
from typing import Any, ClassVar

MIB = 1 << 20
GIB = 1 << 30
UNKNOWN = 64 * GIB
"""Bytes that count as free if the system does not say."""


def free_bytes() -> int:
    """Bytes of memory that this process can still get: the least that is left of the machine, of
    its container and below its own limit."""
    sizes = [_machine_bytes(), _container_bytes(), _limit_bytes()]
    return max(0, min((size for size in sizes if size is not None), default=UNKNOWN))


def size_text(number: int) -> str:
    """A number of bytes with a unit.

    >>> size_text(1376), size_text(3 << 20), size_text(549755813888)
    ('1,376 bytes', '3 MiB', '512 GiB')
    """
    if number >= 1000 * GIB:
        return f"{number / GIB:,.0f} GiB"
    if number >= GIB:
        return f"{number / GIB:,.3g} GiB"
    if number >= MIB:
        return f"{number / MIB:,.3g} MiB"
    return f"{number:,} bytes"


def _machine_bytes() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    _, free = machine_memory()
    return free


def machine_memory() -> tuple[int | None, int | None]:
    """Bytes of the machine's memory, and those of it that are free or may be; None if the system
    does not say."""
    if hasattr(os, "sysconf"):
        with contextlib.suppress(OSError, ValueError):
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            return total, total
    library = getattr(ctypes, "windll", None)
    status = _MemoryStatus(ctypes.sizeof(_MemoryStatus))
    if library is None or not library.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None, None
    return status.total, status.free


class _MemoryStatus(ctypes.Structure):
    """Windows' MEMORYSTATUSEX."""

    _fields_: ClassVar[list[tuple[str, Any]]] = [
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("total", "free", "total_paged", "free_paged")),
        *((name, ctypes.c_uint64) for name in ("total_virtual", "free_virtual", "extended")),
    ]


def _container_bytes() -> int | None:
    """Bytes left below the limit of a control group, version 2."""
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        limit, current = (
            int((group / name).read_text(encoding="utf-8"))
            for name in ("memory.max", "memory.current")
        )
        return limit - current
    return None


def _limit_bytes() -> int | None:
    """Bytes left below a limit of the address space, as `ulimit -v` sets it."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
        return limit - pages * resource.getpagesize()
    return limit
