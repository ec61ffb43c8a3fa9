"""The amount of memory, for errors before an allocation that cannot succeed."""

from __future__ import annotations

import jax

from vijax.memory import machine_memory


def total_memory() -> float:
    """Bytes of the default device's memory, or of the machine's; inf if neither is known."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return float(stats["bytes_limit"])
    total, _ = machine_memory()
    return float(total or "inf")
