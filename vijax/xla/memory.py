"""The amount of memory, for errors before an allocation that cannot succeed."""

from __future__ import annotations

import os

import jax


def total_memory() -> float:
    """Bytes of the default device's memory, or of the machine's; inf if neither is known."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return float(stats["bytes_limit"])
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return float("inf")
    return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
