"""Spreads of columns to divide by."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

MARGIN = 16.0
"""So many units in the last place of the centre are the spread of a column that is constant."""


def is_rounding(spread: Any, centre: Any) -> Any:
    """True for the spreads of columns about these centres that are no more than rounding: the mean
    of 49 times .1 is not .1 in binary numbers, and so the deviation of such a column is not 0.

    >>> x = np.full((49, 1), 0.1)
    >>> x.std(0) > 0, is_rounding(x.std(0), x.mean(0))
    (array([ True]), array([ True]))
    """
    absolute = np.abs if isinstance(spread, np.ndarray | np.generic) else jnp.abs
    return spread <= MARGIN * jnp.finfo(spread.dtype).eps * absolute(centre)


def spread_or_one(spread: Any, centre: Any) -> Any:
    """The spreads of columns about these centres, and 1 in the place of each that is no more than
    rounding."""
    where = np.where if isinstance(spread, np.ndarray | np.generic) else jnp.where
    return where(is_rounding(spread, centre), 1.0, spread)
