"""Double precision for a block of code, under one name for every JAX that is supported."""

from __future__ import annotations

from typing import Any

import jax
import jax.experimental

_place: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # there before jax 0.8
enable_x64 = _place.enable_x64
