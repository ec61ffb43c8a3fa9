"""Arrays of numbers as float64, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax.checks import require


def log_weights_of(argument: str, x: Any) -> np.ndarray:
    """Log ratios (S,): numbers or -inf, not all of them -inf; ValueError naming the argument otherwise.

    >>> print(log_weights_of("log_ratios", [0, -np.inf]))
    [  0. -inf]
    """
    x = np.asarray(x, np.float64)
    require(x.ndim == 1 and x.size, argument, "one number for each draw, shape (S,)", f"shape {x.shape}")
    strange = np.isnan(x) | (x == np.inf)
    remedy = "+inf is a draw that the approximation could not have made, NaN a density that was not computed."
    got = f"{strange.sum()} that are NaN or +inf, of {x.size}"
    require(not strange.any(), argument, "numbers, or -inf where the posterior is zero", got, remedy)
    require(np.isfinite(x).any(), argument, "a draw at which the posterior is not zero", f"-inf at all {x.size}")
    return x


def finite_array(argument: str, x: Any) -> np.ndarray:
    """Any array of finite numbers; ValueError naming the argument otherwise."""
    x = np.asarray(x, np.float64)
    require(np.isfinite(x), argument, "finite numbers", x)
    return x
