"""Means, sds, intervals and tails of weighted draws, for responses side by side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from vijax.verdict.psis import psis

FEW = 25.0
"""Effective draws beyond zero below which the probability of a tail is that of a Student law with
the mean, sd and kurtosis of the draws."""
LARGEST_KURTOSIS = 30.0
OF_UNKNOWNS = ("mean", "sd", "low", "high", "below", "above")
"""Estimates that are numbers of one unknown, (R, K)."""


class Estimates(NamedTuple):
    """Posteriors of the unknowns of some responses.

    Attributes:
      mean: posterior means, (R, K).
      sd: posterior standard deviations, (R, K).
      low: lower ends of the central intervals, (R, K).
      high: upper ends of the central intervals, (R, K).
      below: the posterior probability of less than zero, (R, K).
      above: the posterior probability of more than zero, (R, K).
      covariance: covariances of the unknowns, (R, K, K).
      khat: shape of the tail of the importance weights, (R,).
      effective: effective number of draws, (R,).
    """

    mean: Float[np.ndarray, "R K"]
    sd: Float[np.ndarray, "R K"]
    low: Float[np.ndarray, "R K"]
    high: Float[np.ndarray, "R K"]
    below: Float[np.ndarray, "R K"]
    above: Float[np.ndarray, "R K"]
    covariance: Float[np.ndarray, "R K K"]
    khat: Float[np.ndarray, " R"]
    effective: Float[np.ndarray, " R"]


def estimate(
    log_ratios: Float[np.ndarray, "R S"],
    draws: Float[np.ndarray, "R S K"],
    has_sign: Bool[np.ndarray, " K"],
    level: float,
) -> Estimates:
    """The posteriors from draws and their log ratios; NaN where all ratios are zero. `has_sign` is
    False for unknowns that are positive, which have no tail below zero."""
    weights = np.full(log_ratios.shape, np.nan)
    khat = np.full(len(draws), np.inf)
    effective = np.zeros(len(draws))
    for i, row in enumerate(log_ratios):
        if np.isfinite(row).any():
            smoothed = psis(row)
            weights[i] = np.exp(smoothed.log_weights)
            khat[i], effective[i] = smoothed.khat, smoothed.ess
    mean = np.einsum("rs,rsk->rk", weights, draws)
    residuals = draws - mean[:, None]
    weighted = weights[..., None] * residuals
    covariance = np.einsum("rsk,rsl->rkl", weighted, residuals)
    variance = np.einsum("rkk->rk", covariance)
    fourth = np.einsum("rsk,rsk->rk", weighted, residuals**3)
    sd = np.sqrt(variance)
    ends = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
    low, high = _quantiles(draws, weights, ends)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, kurtosis = mean / sd, fourth / variance**2
    below = _share(weights, draws < 0, _student_tail(ratio, kurtosis), has_sign)
    above = _share(weights, draws >= 0, _student_tail(-ratio, kurtosis), has_sign)
    return Estimates(mean, sd, low, high, below, above, covariance, khat, effective)


def _share(
    weights: Float[np.ndarray, "R S"],
    is_there: Bool[np.ndarray, "R S K"],
    tail: Float[np.ndarray, "R K"],
    has_sign: Bool[np.ndarray, " K"],
) -> np.ndarray:
    """The weight of the draws on one side of zero; the tail of a law where these are few."""
    share = np.einsum("rs,rsk->rk", weights, is_there)
    squares = np.einsum("rs,rsk->rk", weights**2, is_there)
    effective = share**2 / np.maximum(squares, 1e-300)
    is_few = has_sign & (effective < FEW) & np.isfinite(tail)
    return np.where(is_few, tail, share)


def _student_tail(ratio: np.ndarray, kurtosis: np.ndarray) -> np.ndarray:
    """The probability of less than zero under the Student law with a mean of `ratio` sds; its
    degrees of freedom are 4 + 6 / (kurtosis - 3)."""
    from scipy import stats  # slow to import

    excess = np.clip(kurtosis - 3, 1e-3, LARGEST_KURTOSIS)
    degrees = 4 + 6 / excess
    return stats.t.cdf(-ratio * np.sqrt(degrees / (degrees - 2)), degrees)


def _quantiles(
    draws: Float[np.ndarray, "R S K"], weights: Float[np.ndarray, "R S"], ends: tuple[float, ...]
) -> list[np.ndarray]:
    """Quantiles of weighted draws: between the middles of the steps of their distribution."""
    order = np.argsort(draws, axis=1)
    values = np.take_along_axis(draws, order, 1)
    sorted_weights = np.take_along_axis(np.broadcast_to(weights[..., None], draws.shape), order, 1)
    middles = np.cumsum(sorted_weights, 1) - 0.5 * sorted_weights
    quantiles = []
    for end in ends:
        after = np.clip((middles < end).sum(1), 1, draws.shape[1] - 1)[:, None]
        at = lambda x, place: np.take_along_axis(x, place, 1)[:, 0]
        before, beyond = at(middles, after - 1), at(middles, after)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.clip(np.nan_to_num((end - before) / (beyond - before), nan=0.5), 0.0, 1.0)
        low, high = at(values, after - 1), at(values, after)
        quantiles.append(low + share * (high - low))
    return quantiles
