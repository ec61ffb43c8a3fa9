"""Spreads of columns to divide by."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

MARGIN = 16.0
"""The spread of a constant column, at most, in units in the last place of its centre."""


def is_rounding(spread: Any, centre: Any) -> Any:
    """True for the spreads of columns, about these centres, that are only rounding: the mean of 49
    times .1 is not .1 in binary numbers, so that the deviation of this column is not 0.

    >>> x = np.full((49, 1), 0.1)
    >>> x.std(0) > 0, is_rounding(x.std(0), x.mean(0))
    (array([ True]), array([ True]))
    """
    absolute = np.abs if isinstance(spread, np.ndarray | np.generic) else jnp.abs
    return spread <= MARGIN * jnp.finfo(spread.dtype).eps * absolute(centre)


def spread_or_one(spread: Any, centre: Any) -> Any:
    """The spreads of columns about these centres; 1 in place of those that are only rounding."""
    module = np if isinstance(spread, np.ndarray | np.generic) else jnp
    return module.where(is_rounding(spread, centre), 1.0, spread)
