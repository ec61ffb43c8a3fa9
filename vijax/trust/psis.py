"""Pareto-smoothed importance sampling: the largest weights are replaced by quantiles of a distribution fitted to them,
whose shape tells how reliable the weights are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.trust.generalised_pareto import GeneralisedPareto, fit
from vijax.trust.numbers import log_weights_of

_FEWEST = 5
"""Distinct values in a tail that can be judged."""


class Smoothed(NamedTuple):
    """Importance weights after smoothing.

    Attributes:
      log_weights: normalised, so that their exponentials sum to one, (S,).
      khat: shape of the tail of the ratios; inf where it cannot be judged, the weights then being the raw ones.
      ess: 1 / sum of the squared weights, the effective number of S independent draws; reliable where khat is good.
    """

    log_weights: Float[np.ndarray, " S"]
    khat: float
    ess: float


def psis(log_ratios: Any) -> Smoothed:
    """Smooths the importance ratios of independent draws.

    Args:
      log_ratios: log p(theta_s, y) - log q(theta_s) of S draws of q, up to a constant, (S,); -inf where p is zero.

    Returns:
      Log weights, shape (S,), k-hat and the effective number of draws. The tail is the min(S / 5, 3 sqrt(S)) largest.
      Where it has fewer than five distinct values k-hat is inf: all ratios equal (a perfect approximation, or one that
      is a point), fewer than five ratios above -inf, fewer than 21 draws. One ratio far beyond all others is smoothed
      down too: with 4000 draws, it takes 20 nats to bring k-hat above 0.7.

    Raises:
      ValueError: a ratio that is NaN or +inf, all of them -inf, another shape.

    Source: Vehtari, Simpson, Gelman, Yao and Gabry 2024, Pareto smoothed importance sampling, JMLR 25(72), algorithm 1.
      The computation is in logarithms, so that ratios of any size can be judged.

    >>> draws = np.random.default_rng(0).normal(size=4000)  # of N(0, 1), for a posterior N(0, 1.2^2)
    >>> smoothed = psis(-0.5 * draws**2 / 1.44 + 0.5 * draws**2)
    >>> mean_square = np.exp(smoothed.log_weights) @ draws**2
    >>> 0.1 < smoothed.khat < 0.5, bool(abs(mean_square - 1.44) < 0.1)
    (True, True)
    """
    log_ratios = log_weights_of("log_ratios", log_ratios)
    raw = log_ratios - np.max(log_ratios)
    cutoff = _cutoff(raw)
    tail = np.flatnonzero(raw > cutoff)
    law = _law(raw[tail], cutoff)
    if law is not None:
        tail = tail[np.argsort(raw[tail], kind="stable")]
        places = (np.arange(tail.size) + 0.5) / tail.size
        raw[tail] = np.minimum(np.logaddexp(cutoff, law.log_quantile(places)), 0.0)
    log_weights = raw - special.logsumexp(raw)
    return Smoothed(log_weights, law.k if law else np.inf, float(np.exp(-special.logsumexp(2 * log_weights))))


def _cutoff(raw: Float[np.ndarray, " S"]) -> float:
    """The largest ratio below the tail."""
    length = int(np.ceil(min(raw.size / 5, 3 * np.sqrt(raw.size))))
    if length >= raw.size:
        return float(np.max(raw))
    return float(np.partition(raw, -length - 1)[-length - 1])


def _law(tail: Float[np.ndarray, " n"], cutoff: float) -> GeneralisedPareto | None:
    """The distribution of the excesses over the cutoff; None where it cannot be judged."""
    if len(np.unique(tail)) < _FEWEST:
        return None
    tail = np.sort(tail)
    law = fit(tail + np.log(-np.expm1(cutoff - tail)))
    return law if np.all(np.isfinite(law)) else None
