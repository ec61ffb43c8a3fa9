"""Tests of the ranks that true parameters have among draws: uniform where the posterior is right, symmetric where its
centre is."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from vijax.checks import require, require_integers

_PER_BIN = 10
_MOST_BINS = 20


def uniformity(ranks: Any, num_draws: int) -> Float[np.ndarray, "*shape"]:
    """Chi-square p-values of the hypothesis that the ranks are uniform.

    Args:
      ranks: ranks from n simulations, integers 0..L, (n, *shape).
      num_draws: L.

    Returns:
      p-values, (*shape): n / 10 bins, but 20 at most.

    Raises:
      ValueError: fewer than 20 simulations; ranks beyond 0..L.

    Source: Talts, Betancourt, Simpson, Vehtari and Gelman 2018, theorem 1 and section 4.1.

    >>> print(uniformity(np.arange(100), 99))
    1.0
    """
    ranks = _checked(ranks, num_draws)
    num = len(ranks)
    bins = np.array_split(np.arange(num_draws + 1), min(num // _PER_BIN, _MOST_BINS, num_draws + 1))
    observed = np.stack([np.sum((ranks >= b[0]) & (ranks <= b[-1]), 0) for b in bins])
    expected = num * np.array([b.size for b in bins]) / (num_draws + 1)
    expected = expected.reshape(-1, *[1] * (ranks.ndim - 1))
    return special.chdtrc(len(bins) - 1, np.sum((observed - expected) ** 2 / expected, 0))


def symmetry(ranks: Any, num_draws: int) -> Float[np.ndarray, "*shape"]:
    """Kolmogorov-Smirnov p-values of the hypothesis that the ranks are symmetric about L / 2.

    The largest |F(x) - (1 - F(-x))| of the centred ranks is compared with its law under symmetry: that of the largest
    distance of a random walk of n steps (Butler 1969), here of Brownian motion. Yao et al. compare p with 1 - p as if
    they were two independent samples, which rejects a right centre more than twice as often as it says.

    Args:
      ranks: ranks from n simulations, integers 0..L, (n, *shape).
      num_draws: L.

    Returns:
      p-values, (*shape).

    Raises:
      ValueError: as `uniformity`.

    Source: Yao, Vehtari, Simpson and Gelman 2018, algorithm 2.

    >>> print(symmetry(np.repeat([0, 99], 50), 99), symmetry(np.arange(100) // 2, 99).round(6))
    1.0 0.0
    """
    ranks = _checked(ranks, num_draws)
    centred = (2 * ranks - num_draws).reshape(len(ranks), -1)
    found = [_beyond(_largest_distance(column)) for column in centred.T]
    return np.reshape(found, ranks.shape[1:])


def _largest_distance(x: Int[np.ndarray, " n"]) -> float:
    """Largest distance from zero of the walk of the signs, largest |x| first, over sqrt(n); ties are one step."""
    x = x[x != 0]
    sizes, places = np.unique(-np.abs(x), return_inverse=True)
    steps = np.bincount(places, np.sign(x), len(sizes))
    return float(np.max(np.abs(np.cumsum(steps)), initial=0.0) / np.sqrt(max(x.size, 1)))


def _beyond(distance: float) -> float:
    """The probability that Brownian motion reaches this distance from zero before time 1 (Feller 1971, X.5)."""
    if distance < 0.1:  # where the series would need more terms, it is 1 to rounding
        return 1.0
    odd = 2 * np.arange(50) + 1
    within = 4 / np.pi * np.sum((-1.0) ** np.arange(50) / odd * np.exp(-((np.pi * odd / distance) ** 2) / 8))
    return float(np.clip(1 - within, 0.0, 1.0))


def _checked(ranks: Any, num_draws: int) -> Int[np.ndarray, " n *shape"]:
    require_integers(num_draws=num_draws)
    ranks = np.asarray(ranks)
    require(ranks.dtype.kind in "iu", "ranks", "integers", f"numbers of type {ranks.dtype}")
    enough = ranks.ndim > 0 and len(ranks) >= 2 * _PER_BIN
    require(enough, "ranks", f"{2 * _PER_BIN} simulations or more", f"shape {ranks.shape}")
    require((ranks >= 0) & (ranks <= num_draws), "ranks", f"integers from 0 to {num_draws}", ranks)
    return ranks.astype(np.int64)
