"""The generalised Pareto distribution, fitted to excesses that are given by their logarithms.

    p(x > t) = (1 + k t / sigma)^(-1 / k)

All computations are in logarithms: excesses of importance ratios may differ by a factor of exp(1000).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

_PRIOR_OF_K = 10.0, 0.5
"""Weight, in observations, and centre of the prior of k."""


class GeneralisedPareto(NamedTuple):
    """A generalised Pareto distribution.

    Attributes:
      k: the shape; moments of order below 1 / k exist.
      log_sigma: logarithm of the scale.
    """

    k: float
    log_sigma: float

    def log_quantile(self, p: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """log sigma ((1 - p)^-k - 1) / k, shape of p.

        >>> print(np.exp(GeneralisedPareto(1.0, 0.0).log_quantile(np.array([0.5, 0.75]))).round(6))
        [1. 3.]
        """
        exponential = -np.log1p(-p)
        y = self.k * exponential
        size = np.where(y == 0, 1.0, np.abs(y))
        ratio = np.where(y == 0, 1.0, -np.expm1(-size) / size)  # of (exp(y) - 1) / y without exp(max(y, 0))
        return self.log_sigma + np.log(exponential) + np.maximum(y, 0.0) + np.log(ratio)


def fit(log_excess: Float[np.ndarray, " n"]) -> GeneralisedPareto:
    """The empirical Bayes estimate of Zhang and Stephens 2009, and a weak prior of k = .5 (Vehtari et al. 2024).

    Args:
      log_excess: logarithms of n >= 5 positive excesses, in increasing order.

    Zhang and Stephens average over b = -k / sigma, 1/max - a / (3 quartile) for a grid of a > 0. Here 1 - b x is
    written (1 - x/max) + a x / (3 quartile), a sum of positive terms.

    >>> law = fit(np.log(np.arange(1.0, 101.0)))  # uniform: k is -1 without the prior
    >>> round(law.k, 2)
    -0.83
    """
    n = len(log_excess)
    size = 30 + int(np.sqrt(n))
    a = np.sqrt(size / (np.arange(1, size + 1) - 0.5)) - 1
    k, log_scale = _profile(log_excess, a)
    log_likelihood = -n * (log_scale + k + 1)
    weights = special.softmax(np.where(np.isfinite(log_likelihood), log_likelihood, -np.inf))
    (k,), (log_sigma,) = _profile(log_excess, np.array([weights @ a]))
    count, centre = _PRIOR_OF_K
    return GeneralisedPareto(float((n * k + count * centre) / (n + count)), float(log_sigma))


def _profile(log_x: Float[np.ndarray, " n"], a: Float[np.ndarray, " grid"]) -> tuple[np.ndarray, np.ndarray]:
    """The most probable shape at each b, mean of log(1 - b x), and the logarithm of its scale -k / b."""
    log_quartile = log_x[int(len(log_x) / 4 + 0.5) - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_rest = np.log(-np.expm1(log_x - log_x[-1]))
        k = np.logaddexp(log_rest, np.log(a / 3)[:, None] + log_x - log_quartile).mean(1)
        b_in_quartiles = np.exp(log_quartile - log_x[-1]) - a / 3
        return k, np.log(-k / b_in_quartiles) + log_quartile
