"""Numbers of the working precision next to an end of an open interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vijax.checks import require


def next_to(end: float, sign: int, dtype: Any) -> Any:
    """The normal number of the working precision that is next to `end`, above it for sign 1, below it for -1.

    Points come no nearer, because rounding would put them outside: in float32 1 + exp(-30) is 1.

    >>> print(next_to(1.0, 1, np.float32))
    1.0000001
    """
    near = np.nextafter(np.asarray(end, dtype), np.asarray(sign * np.inf, dtype))
    tiny = np.finfo(dtype).tiny  # smaller ones are flushed to zero by XLA
    return np.asarray(sign * tiny if abs(near) < tiny else near, dtype)


def require_finite(**ends: float) -> None:
    """ValueError naming the first end that is no finite number."""
    for name, end in ends.items():
        remedy = "For an infinite end use above, below or real."
        require(math.isfinite(end), name, "a finite number", end, remedy)
