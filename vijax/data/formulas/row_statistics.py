"""Statistics of training rows that count by their weights: a row of weight 2 is the same as two
rows. Weights that are not whole numbers count relative to their mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

Values = Float[np.ndarray, " N"]
Weights = Float[np.ndarray, " N"]


def mean_and_spread(x: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means and standard deviations of columns: a row of weight 2 is the same as two rows.

    >>> mean, spread = mean_and_spread(np.array([0.0, 3.0]), np.array([2.0, 1.0]))
    >>> print(round(mean, 2), round(spread**2, 2), np.var([0.0, 0.0, 3.0]))
    1.0 2.0 2.0
    """
    if np.all(weights == 1):
        return x.mean(axis=0), x.std(axis=0)
    mean = np.average(x, axis=0, weights=weights)
    return mean, np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))


def quantiles(x: Values, weights: Weights, levels: Any) -> np.ndarray:
    """Quantiles of rows that stand as often as their weights say, with straight lines between them
    (definition 7 of Hyndman and Fan 1996, as `numpy.quantile`).

    >>> quantiles(np.array([5.0, 1.0]), np.array([1.0, 3.0]), [0.5, 0.9]).round(6).tolist()
    [1.0, 3.8]
    >>> np.quantile([1, 1, 1, 5], [0.5, 0.9]).round(6).tolist()
    [1.0, 3.8]
    """
    if np.all(weights == 1):
        return np.quantile(x, levels)
    order = np.argsort(x, kind="stable")
    ends = np.cumsum(count_weights(weights)[order])
    places = np.asarray(levels, float) * max(ends[-1] - 1.0, 0.0)
    below = np.floor(places)
    low, high = (x[order][_find_rows(ends, place)] for place in (below, below + 1))
    return low + (high - low) * (places - below)


def _find_rows(ends: Values, places: np.ndarray) -> np.ndarray:
    """The sorted row that stands at each place, counted from 0."""
    rows = np.searchsorted(ends, places, side="right")
    return np.minimum(rows, len(ends) - 1)


def count_weights(weights: Weights) -> Weights:
    """Whole weights as they are; others relative to their mean.

    >>> count_weights(np.array([0.75, 0.25])).tolist()
    [1.5, 0.5]
    """
    if np.all(weights == np.floor(weights)):
        return weights
    return weights / weights.mean()


STATISTICS: dict[str, Callable[[Values, Weights], Any]] = {
    "mean": lambda x, weights: mean_and_spread(x, weights)[0],
    "median": lambda x, weights: quantiles(x, weights, 0.5),
    "min": lambda x, weights: np.min(x),
    "max": lambda x, weights: np.max(x),
    "std": lambda x, weights: mean_and_spread(x, weights)[1],
}
"""One number of all training rows."""
