"""Agreement of chains, or of restarts: rank-normalised split R-hat, and the effective number of
draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.checks import finite_array, require


def rhat(draws: Any) -> Float[np.ndarray, "*shape"]:
    """Rank-normalised split R-hat: the larger of the values for the draws and for their distances
    from the median.

    Args:
      draws: draws of each chain or restart, (chains, draws, *shape), four draws or more.

    Returns:
      R-hat by entry, (*shape): above 1.01 the chains disagree. NaN where all draws are equal; inf
      where draws are equal within half chains and differ between them.

    Raises:
      ValueError: too few axes or draws; numbers that are not finite.

    Source: Vehtari, Gelman, Simpson, Carpenter and Bürkner 2021, eq. 1 to 4 (of halves) and 14.

    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(rhat(draws) < 1.01), bool(rhat(draws + np.array([[0.0], [0.0], [0.0], [2.0]])) > 1.2)
    (True, True)
    """
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves, (0, 1)))
    return np.maximum(_split_rhat(_normal_scores(halves)), _split_rhat(_normal_scores(folded)))


def bulk_ess(draws: Any) -> Float[np.ndarray, "*shape"]:
    """Effective number of independent draws in the bulk of a distribution, after rank
    normalisation.

    Args:
      draws: draws of each chain, (chains, draws, *shape), ten draws or more.

    Returns:
      The number by entry, (*shape): it should be at least 100 a chain. NaN where all draws are
      equal.

    Source: Vehtari, Gelman, Simpson, Carpenter and Bürkner 2021, section 3.2; Geyer 1992, the
    initial monotone sequence.

    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(1700 < bulk_ess(draws) < 2300)
    True
    """
    z = _normal_scores(_halves(draws, 10))
    chains, length = z.shape[:2]
    covariances = _autocovariances(z)
    within = covariances[0] * length / (length - 1)
    total = covariances[0] + z.mean(1).var(0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = 1 - (within - covariances) / total
    correlations[0] = np.where(total > 0, 1.0, np.nan)
    return _effective_size(chains * length, correlations)


def _effective_size(
    count: int, correlations: Float[np.ndarray, " lags *shape"]
) -> Float[np.ndarray, "*shape"]:
    """count / (1 + 2 sum of the correlations). The sum is over pairs of lags up to the first pair
    that is not positive; pairs are lowered so that they decrease."""
    lags = (len(correlations) - 3) // 2 * 2
    pairs = correlations[:lags:2] + correlations[1:lags:2]
    is_summed = np.logical_and.accumulate(~(pairs <= 0))
    time = -1 + 2 * np.sum(np.where(is_summed, np.minimum.accumulate(pairs), 0.0), 0)
    is_last = np.diff(is_summed.astype(int), axis=0, append=0) == -1
    next_even = np.maximum(correlations[2 : lags + 1 : 2], 0.0)
    half_pair = np.sum(np.where(is_last, next_even, 0.0), 0)  # of the first pair not summed
    return count / np.maximum(time + half_pair, 1 / np.log10(count))


def _halves(draws: Any, fewest: int = 4) -> Float[np.ndarray, "halves draws *shape"]:
    """Chains cut in two, without the middle draw of an odd number."""
    draws = finite_array("draws", draws)
    has_draws = draws.ndim >= 2 and draws.shape[0] > 0 and draws.shape[1] >= fewest
    expected = f"axes (chains, draws, ...) of {fewest} draws or more"
    require(has_draws, "draws", expected, f"shape {draws.shape}")
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(
    x: Float[np.ndarray, "chains draws *shape"],
) -> Float[np.ndarray, "chains draws *shape"]:
    """Quantiles of the standard normal at (rank - 3/8) / (S + 1/4), eq. 14; ties have their mean
    rank."""
    from scipy.stats import rankdata  # its import takes as long as JAX's

    ranks = rankdata(x.reshape(-1, *x.shape[2:]), axis=0).reshape(x.shape)
    return special.ndtri((ranks - 0.375) / (x.shape[0] * x.shape[1] + 0.25))


def _split_rhat(z: Float[np.ndarray, "chains draws *shape"]) -> Float[np.ndarray, "*shape"]:
    length = z.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = z.mean(1).var(0, ddof=1) / z.var(1, ddof=1).mean(0)
    return np.sqrt(ratio + (length - 1) / length)


def _autocovariances(
    z: Float[np.ndarray, "chains draws *shape"],
) -> Float[np.ndarray, " lags *shape"]:
    """Autocovariances at lags 0..draws-1, divided by the number of draws, means over chains; by
    Fourier transform."""
    length = z.shape[1]
    spectrum = np.fft.rfft(z - z.mean(1, keepdims=True), 2 * length, axis=1)
    return np.fft.irfft(np.mean(np.abs(spectrum) ** 2, 0), 2 * length, axis=0)[:length] / length
