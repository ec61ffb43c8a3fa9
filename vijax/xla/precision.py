"""Double precision for a block of code, under one name for every JAX that is supported."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.experimental

_module: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # before jax 0.8
enable_x64 = _module.enable_x64


def matching_precision(arrays: Any) -> contextlib.AbstractContextManager:
    """A context with the precision in which arrays were made: float64 if one of them has it, else
    the present one.

    >>> import numpy as np, jax.numpy as jnp
    >>> with matching_precision([np.zeros(2)]):
    ...     print(jnp.ones(2).dtype)
    float64
    """
    is_double = any(getattr(leaf, "dtype", None) == "float64" for leaf in jax.tree.leaves(arrays))
    return enable_x64(True) if is_double else contextlib.nullcontext()
