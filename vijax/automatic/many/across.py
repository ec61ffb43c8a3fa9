"""Responses beside each other: a law of one coefficient across responses, and rates of false
signs.

The estimates m_r have standard errors s_r. The coefficients b_r are drawn from a mixture of a point
at zero and of normals N(0, t_k^2), whose weights are those of the highest penalised likelihood
(Stephens 2017, "False discovery rates: a new deal", sections 2 and 3.1; grid and penalty are those
of ashr). The local false sign rate of a response is min(P(b >= 0), P(b <= 0)); the false sign
rate of a list is the mean of the local ones in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

PENALTY = 10.0
"""Weight of the point at zero in the penalty: the share of zeros is rather said too large."""
STEP = np.sqrt(2.0)
MOST_ROUNDS = 2000


class Across(NamedTuple):
    """Coefficients of responses under a common law.

    Attributes:
      mean: posterior means, (R,); NaN where there was no estimate.
      sd: posterior standard deviations, (R,).
      false_sign: local false sign rates, (R,).
      zeros: the share of coefficients that are zero.
      spreads: the sds of the normals.
      shares: their shares.
    """

    mean: Float[np.ndarray, " R"]
    sd: Float[np.ndarray, " R"]
    false_sign: Float[np.ndarray, " R"]
    zeros: float
    spreads: Float[np.ndarray, " K"]
    shares: Float[np.ndarray, " K"]


def across(mean: Float[np.ndarray, " R"], error: Float[np.ndarray, " R"]) -> Across:
    """The common law of coefficients and each of them under it, from estimates and their standard
    errors; NaN where there is none.

    >>> rng = np.random.default_rng(0)
    >>> truth = np.where(np.arange(2000) < 1600, 0.0, 2 * rng.normal(size=2000))
    >>> law = across(truth + rng.normal(size=2000), np.ones(2000))
    >>> bool(0.7 < law.zeros < 0.95), bool(law.false_sign[:1600].mean() > 0.4)
    (True, True)
    """
    from scipy import stats  # slow to import

    is_fitted = np.isfinite(mean) & np.isfinite(error) & (error > 0)
    m, s = mean[is_fitted], error[is_fitted]
    spreads = _grid(m, s)
    variances = np.concatenate([[0.0], spreads**2])
    wide = np.sqrt(variances + s[:, None] ** 2)
    log_liks = stats.norm.logpdf(m[:, None], 0.0, wide)
    shares = _maximise(log_liks)
    with np.errstate(divide="ignore"):
        joint = log_liks + np.log(shares)
    joint -= joint.max(1, keepdims=True)
    posterior = np.exp(joint)
    posterior /= posterior.sum(1, keepdims=True)
    shrink = variances / wide**2
    centre = shrink * m[:, None]
    spread = np.sqrt(shrink) * s[:, None]
    first = (posterior * centre).sum(1)
    second = (posterior * (centre**2 + spread**2)).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = stats.norm.sf(centre[:, 1:] / spread[:, 1:])
    below = (posterior[:, 1:] * below).sum(1)
    above = 1 - posterior[:, 0] - below
    wrong = posterior[:, 0] + np.minimum(np.clip(above, 0, 1), below)
    return Across(
        mean=_fill(is_fitted, first),
        sd=_fill(is_fitted, np.sqrt(np.maximum(second - first**2, 0.0))),
        false_sign=_fill(is_fitted, wrong),
        zeros=float(shares[0]),
        spreads=spreads,
        shares=shares[1:],
    )


def _fill(mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The values where the mask is true, NaN elsewhere."""
    column = np.full(len(mask), np.nan)
    column[mask] = values
    return column


def _grid(mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Standard deviations from a tenth of the smallest error to twice the largest excess."""
    if not len(mean):
        return np.ones(1)
    lowest = 0.1 * float(error.min())
    excess = float((mean**2 - error**2).max())
    highest = 8 * lowest
    if excess > 0:
        highest = max(highest, 2 * np.sqrt(excess))
    number = int(np.ceil(np.log(highest / lowest) / np.log(STEP))) + 1
    return highest / STEP ** np.arange(min(number, 60))[::-1]


def _maximise(log_liks: Float[np.ndarray, "R K"]) -> np.ndarray:
    """The shares of highest penalised likelihood, by EM from equal shares."""
    if not len(log_liks):
        return np.full(log_liks.shape[1], 1 / log_liks.shape[1])
    likelihood = np.exp(log_liks - log_liks.max(1, keepdims=True))
    shares = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    extra = np.zeros(likelihood.shape[1])
    extra[0] = PENALTY - 1
    for _ in range(MOST_ROUNDS):
        posterior = likelihood * shares
        posterior /= posterior.sum(1, keepdims=True)
        new = posterior.sum(0) + extra
        new /= new.sum()
        change = np.abs(new - shares).max()
        shares = new
        if change < 1e-6:
            break
    return shares


def list_rates(false_sign: Float[np.ndarray, " R"]) -> Float[np.ndarray, " R"]:
    """For each response the false sign rate of the list of all that are as sure as it, or surer.

    >>> list_rates(np.array([0.3, 0.1, np.nan])).round(2).tolist()
    [0.2, 0.1, nan]
    """
    order = np.argsort(false_sign, kind="stable")  # those that are no number come last
    values = false_sign[order]
    rates = np.full(len(values), np.nan)
    is_number = np.isfinite(values)
    rates[order[is_number]] = np.cumsum(values[is_number]) / np.arange(1, is_number.sum() + 1)
    return rates
