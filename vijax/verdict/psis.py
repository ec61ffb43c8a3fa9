"""Pareto-smoothed importance sampling: quantiles of a fitted distribution replace the largest
weights; its shape, k-hat, says how reliable the weights are.

The distribution is a generalised Pareto distribution of the excesses over a cutoff,

    p(x > t) = (1 + k t / sigma)^(-1 / k).

All computations are in logarithms: importance ratios may differ by a factor of exp(1000).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.arrays import to_array
from vijax.checks import require
from vijax.verdict import limits

FEWEST = 5  # distinct values in a tail that k-hat needs, at least


class Smoothed(NamedTuple):
    """Importance weights after smoothing.

    Attributes:
      log_weights: normalised, so that their exponentials sum to one, (S,).
      khat: shape of the tail of the ratios; inf where it cannot be estimated: then the weights are
          not smoothed.
      ess: 1 / sum of the squared weights, the effective number of S independent draws; reliable
          where khat is good.
    """

    log_weights: Float[np.ndarray, " S"]
    khat: float
    ess: float


def psis(log_ratios: Any) -> Smoothed:
    """Smooths the importance ratios of independent draws.

    Args:
      log_ratios: log p(theta_s, y) - log q(theta_s) of S draws of q, up to a constant, (S,); -inf
          where p is zero.

    Returns:
      Log weights, shape (S,), k-hat and the effective number of draws. The tail are the
      min(S / 5, 3 sqrt(S)) largest ratios. If it has fewer than five distinct values, k-hat is inf:
      all ratios are equal (a perfect approximation, or a point), fewer than five ratios are above
      -inf, or there are fewer than 21 draws. A single extreme ratio is smoothed down too: with 4000
      draws, it takes 20 nats to bring k-hat above 0.7.

    Raises:
      ValueError: a ratio that is NaN or +inf, all of them -inf, another shape.

    Source: Vehtari, Simpson, Gelman, Yao and Gabry 2024, Pareto smoothed importance sampling, JMLR
      25(72), algorithm 1. The computation is in logarithms, so that ratios of any size can be
      judged.

    >>> draws = np.random.default_rng(0).normal(size=4000)  # of N(0, 1), for a posterior N(0, 1.2^2)
    >>> smoothed = psis(-0.5 * draws**2 / 1.44 + 0.5 * draws**2)
    >>> mean_square = np.exp(smoothed.log_weights) @ draws**2
    >>> 0.1 < smoothed.khat < 0.5, bool(abs(mean_square - 1.44) < 0.1)
    (True, True)
    """
    log_ratios = check_log_weights("log_ratios", log_ratios)
    raw = log_ratios - np.max(log_ratios)
    cutoff = _cutoff(raw)
    tail = np.flatnonzero(raw > cutoff)
    law = _law(raw[tail], cutoff)
    if law is not None:
        tail = tail[np.argsort(raw[tail], kind="stable")]
        places = (np.arange(tail.size) + 0.5) / tail.size
        raw[tail] = np.minimum(np.logaddexp(cutoff, law.log_quantile(places)), 0.0)
    log_weights = raw - special.logsumexp(raw)
    khat = law.k if law else np.inf
    return Smoothed(log_weights, khat, float(np.exp(-special.logsumexp(2 * log_weights))))


def _cutoff(raw: Float[np.ndarray, " S"]) -> float:
    """The largest ratio below the tail."""
    length = int(np.ceil(min(raw.size / 5, 3 * np.sqrt(raw.size))))
    if length >= raw.size:
        return float(np.max(raw))
    return float(np.partition(raw, -length - 1)[-length - 1])


def _law(tail: Float[np.ndarray, " n"], cutoff: float) -> GeneralisedPareto | None:
    """The distribution of the excesses over the cutoff; None where it cannot be estimated."""
    if len(np.unique(tail)) < FEWEST:
        return None
    tail = np.sort(tail)
    law = fit_pareto(tail + np.log(-np.expm1(cutoff - tail)))
    return law if np.all(np.isfinite(law)) else None


def check_log_weights(argument: str, x: Any) -> np.ndarray:
    """Log ratios as an array (S,). Raises ValueError unless they are numbers or -inf, and not all
    are -inf.

    >>> print(check_log_weights("log_ratios", [0, -np.inf]))
    [  0. -inf]
    """
    x = to_array(x, argument).astype(np.float64)
    has_draws = x.ndim == 1 and x.size
    require(has_draws, argument, "one number for each draw, shape (S,)", f"shape {x.shape}")
    is_invalid = np.isnan(x) | (x == np.inf)
    expected = "numbers, or -inf where the posterior is zero"
    actual = f"{is_invalid.sum()} that are NaN or +inf, of {x.size}"
    remedy = (
        "+inf is a draw that the approximation could not have made, NaN a density that was not "
        "computed."
    )
    require(not is_invalid.any(), argument, expected, actual, remedy)
    expected = "a draw at which the posterior is not zero"
    require(np.isfinite(x).any(), argument, expected, f"-inf at all {x.size}")
    return x


# --- k-hat in words -------------------------------------------------------------------------------
NOT_OF_MEANS = (
    "It does not say that means are wrong: fits with such a k-hat often have means and standard "
    "deviations that are right to a few hundredths of a posterior standard deviation."
)


def in_words(khat: float) -> str:
    """A sentence or two on how good a k-hat of `psis` or `loo` is.

    The bounds are from Vehtari, Simpson, Gelman, Yao and Gabry 2024, section 3.2.

    >>> print(in_words(0.31))
    k-hat 0.31: good. Importance weights are reliable, and so is what they correct.
    """
    require(not math.isnan(khat), "khat", "a number, or inf", khat)
    if khat == math.inf:
        return (
            "k-hat inf: importance weights cannot be judged, for their tail has fewer than five "
            "distinct values. Take more draws, or judge by other means."
        )
    return f"k-hat {khat:.2f}: {_describe(khat)}"


def _describe(khat: float) -> str:
    if khat < limits.KHAT_GOOD:
        return "good. Importance weights are reliable, and so is what they correct."
    if khat <= limits.KHAT_RELIABLE:
        return (
            "usable. Importance weights are reliable enough, but what they correct converges "
            "slowly."
        )
    if khat <= limits.KHAT_USELESS:
        return f"importance weights are unreliable: do not correct by them. {NOT_OF_MEANS}"
    return (
        "importance weights are useless: a few draws have all the weight, however many are "
        f"drawn. {NOT_OF_MEANS}"
    )


# --- the generalised Pareto distribution ----------------------------------------------------------
PRIOR_OF_K = 10.0, 0.5  # weight, in observations, and centre of the prior of k


class GeneralisedPareto(NamedTuple):
    """A generalised Pareto distribution."""

    k: float  # the shape; moments of order below 1 / k exist
    log_sigma: float  # logarithm of the scale

    def log_quantile(self, p: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """log sigma ((1 - p)^-k - 1) / k, shape of p.

        >>> print(np.exp(GeneralisedPareto(1.0, 0.0).log_quantile(np.array([0.5, 0.75]))).round(6))
        [1. 3.]
        """
        exponential = -np.log1p(-p)
        y = self.k * exponential
        size = np.where(y == 0, 1.0, np.abs(y))
        # (exp(y) - 1) / y less its factor exp(max(y, 0))
        ratio = np.where(y == 0, 1.0, -np.expm1(-size) / size)
        return self.log_sigma + np.log(exponential) + np.maximum(y, 0.0) + np.log(ratio)


def fit_pareto(log_excess: Float[np.ndarray, " n"]) -> GeneralisedPareto:
    """The empirical Bayes estimate of Zhang and Stephens 2009, with a weak prior around k = .5
    (Vehtari et al. 2024).

    Args:
      log_excess: logarithms of n >= 5 positive excesses, in increasing order.

    Zhang and Stephens average over b = -k / sigma, 1/max - a / (3 quartile) for a grid of a > 0.
    Here 1 - b x is written as (1 - x/max) + a x / (3 quartile), a sum of positive terms.

    >>> law = fit_pareto(np.log(np.arange(1.0, 101.0)))  # uniform: k is -1 without the prior
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
    count, centre = PRIOR_OF_K
    return GeneralisedPareto(float((n * k + count * centre) / (n + count)), float(log_sigma))


def _profile(
    log_x: Float[np.ndarray, " n"], a: Float[np.ndarray, " grid"]
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable shape at each b, mean of log(1 - b x), and the logarithm of its scale,
    -k / b."""
    log_quartile = log_x[int(len(log_x) / 4 + 0.5) - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_below_max = np.log(-np.expm1(log_x - log_x[-1]))
        k = np.logaddexp(log_below_max, np.log(a / 3)[:, None] + log_x - log_quartile).mean(1)
        b_in_quartiles = np.exp(log_quartile - log_x[-1]) - a / 3
        return k, np.log(-k / b_in_quartiles) + log_quartile
