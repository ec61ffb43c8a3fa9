"""Links of parameters with formulas: logarithm, and log odds of a probability."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from vijax.models.formulas.laws import SUPPORTS

LARGEST_LOG, LARGEST_LOGIT = 14.0, 15.0
"""Largest predictors of parameters, by absolute value: float32 holds the sixth power of e^14, which
second derivatives by a variance have, and tells sigmoid(15) from one."""


def inverse_link(name: str, eta: Any, xp: Any = jnp) -> Any:
    """A parameter of a law with this predictor; `xp` is `jax.numpy` or `numpy`. Effects of a
    cutpoint's own are the predictor itself."""
    if name.startswith("cs["):
        return eta
    if SUPPORTS.get(name) == "unit interval":
        return 1 / (1 + xp.exp(-xp.clip(eta, -LARGEST_LOGIT, LARGEST_LOGIT)))
    return xp.exp(xp.clip(eta, -LARGEST_LOG, LARGEST_LOG))
