"""Means and spreads of rows that count by their weights."""

from __future__ import annotations

import numpy as np


def mean_and_spread(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means of columns, and their standard deviations: a row of weight 2 is the same as two rows.

    >>> mean, spread = mean_and_spread(np.array([0.0, 3.0]), np.array([2.0, 1.0]))
    >>> print(round(mean, 2), round(spread**2, 2), np.var([0.0, 0.0, 3.0]))
    1.0 2.0 2.0
    """
    if np.all(weights == 1):
        return x.mean(axis=0), x.std(axis=0)
    mean = np.average(x, axis=0, weights=weights)
    return mean, np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
