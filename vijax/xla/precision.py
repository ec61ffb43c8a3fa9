"""Double precision for a block of code, under one name for every JAX that is supported."""

from __future__ import annotations

import jax

try:
    enable_x64 = jax.enable_x64
except AttributeError:  # before jax 0.8
    from jax.experimental import enable_x64

__all__ = ["enable_x64"]
