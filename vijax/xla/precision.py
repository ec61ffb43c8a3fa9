"""Double precision for a block of code, under one name for every JAX that is supported."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.experimental

_place: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # there before jax 0.8
enable_x64 = _place.enable_x64


def matching_precision(arrays: Any) -> contextlib.AbstractContextManager:
    """The working precision in which arrays were made: float64 where one of them is of it, else as
    it is now.

    >>> import numpy as np, jax.numpy as jnp
    >>> with matching_precision([np.zeros(2)]):
    ...     print(jnp.ones(2).dtype)
    float64
    """
    is_double = any(getattr(leaf, "dtype", None) == "float64" for leaf in jax.tree.leaves(arrays))
    return enable_x64(True) if is_double else contextlib.nullcontext()
