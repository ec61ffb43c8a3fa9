"""Predictive checks: do central intervals hold as many observations as they should?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.trust.numbers import finite_array


class Coverage(NamedTuple):
    """Shares of observations within central predictive intervals.

    Attributes:
      levels: the shares as they should be, (levels,).
      share: the shares as they are, (levels,).
      standard_error: standard error of a share whose true value is its level, for independent observations, (levels,).
    """

    levels: Float[np.ndarray, " levels"]
    share: Float[np.ndarray, " levels"]
    standard_error: Float[np.ndarray, " levels"]

    def __str__(self) -> str:
        rows = zip(self.levels, self.share, self.standard_error, strict=True)
        return ", ".join(f"{share:.3f} of {level:g} (± {error:.3f})" for level, share, error in rows)


def coverage(draws: Any, observed: Any, *, levels: Sequence[float] = (0.5, 0.8, 0.95)) -> Coverage:
    """The share of observations that are within central intervals of predictive draws.

    Intervals are closed, from the quantiles at p (S + 1): for continuous data they hold exactly their share, however
    few the draws; for counts they hold more. Observations that were fitted are held too often: hold some out.

    Args:
      draws: S predictive draws of the observations, (S, *shape).
      observed: the observations, (*shape).
      levels: probabilities of the intervals, between 0 and 1.

    Raises:
      ValueError: shapes that do not fit, numbers that are not finite, a level for which there are too few draws.

    Source: Gelman et al. 2013, Bayesian Data Analysis, section 6.3; the quantiles by Weibull's rule (Hyndman and Fan
    1996, type 6).

    >>> rng = np.random.default_rng(0)
    >>> print(coverage(rng.normal(size=(999, 1000)), rng.normal(size=1000)))
    0.522 of 0.5 (± 0.016), 0.796 of 0.8 (± 0.013), 0.949 of 0.95 (± 0.007)
    """
    draws, observed = finite_array("draws", draws), finite_array("observed", observed)
    fits = draws.ndim > 0 and draws.shape[1:] == observed.shape and observed.size
    require(fits, "draws", f"an axis of draws before {observed.shape}, not empty", f"shape {draws.shape}")
    wanted = np.asarray(levels, np.float64)
    require((wanted > 0) & (wanted < 1) & (wanted.ndim == 1), "levels", "numbers between 0 and 1", levels)
    fewest = 2 / (1 - wanted.max()) - 1
    enough = len(draws) >= fewest - 1e-6
    require(enough, "draws", f"{fewest:.0f} draws or more for level {wanted.max():g}", len(draws), "Draw more.")
    low, high = (np.quantile(draws, p, axis=0, method="weibull") for p in ((1 - wanted) / 2, (1 + wanted) / 2))
    inside = (low <= observed) & (observed <= high)
    share = inside.reshape(wanted.size, -1).mean(1)
    return Coverage(wanted, share, np.sqrt(wanted * (1 - wanted) / observed.size))
