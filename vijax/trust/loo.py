"""Predictive accuracy without held-out data: leave-one-out by importance sampling, and the WAIC."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.arrays import to_array
from vijax.checks import require
from vijax.verdict.psis import check_log_weights, psis


class Elpd(NamedTuple):
    """Expected log predictive density of new data, in nats, summed over N groups.

    Attributes:
      elpd: the sum; higher is better.
      standard_error: standard error of the sum, over groups; inf for a single group.
      p_eff: effective number of parameters: the log predictive density of the fitted data less
          `elpd`.
      pointwise: `elpd` by group, (N,).
      p_eff_pointwise: `p_eff` by group, (N,). From `waic`, values above 0.4 are a warning: take
          `loo`.
      khat: from `loo`, the k-hat of each group, (N,): above 0.7 the group's term is not reliable
        (`in_words`). None from `waic`.
    """

    elpd: float
    standard_error: float
    p_eff: float
    pointwise: Float[np.ndarray, " N"]
    p_eff_pointwise: Float[np.ndarray, " N"]
    khat: Float[np.ndarray, " N"] | None

    def __str__(self) -> str:
        worst = "" if self.khat is None else f", largest k-hat {self.khat.max():.2f}"
        size = f"{self.pointwise.size} groups, {self.p_eff:.1f} effective parameters{worst}"
        return f"{self.elpd:.2f} ± {self.standard_error:.2f} nats ({size})"


def loo(log_lik: Any, *, log_ratios: Any = None) -> Elpd:
    """Leave-one-out cross-validation by Pareto-smoothed importance sampling.

    Args:
      log_lik: log p(y_n | theta_s) of S draws and N groups, (S, N).
      log_ratios: None for draws of the posterior; for draws of an approximation q, log p(theta_s,
        y) - log q(theta_s), up to a constant, (S,).

    Raises:
      ValueError: shapes that do not fit; a log likelihood that is not finite at a draw of positive
          weight.

    Source: Vehtari, Gelman and Gabry 2017, eq. 10 (elpd), 23 (standard error); the ratios of draws
    of q by Magnusson, Andersen, Jonasson and Vehtari 2019.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=20)
    >>> mean = rng.normal(y.sum() / 21, 21**-0.5, 4000)  # the posterior of N(mu, 1) under mu ~ N(0, 1)
    >>> print(loo(-0.5 * (y - mean[:, None]) ** 2 - 0.5 * np.log(2 * np.pi)))
    -26.47 ± 2.59 nats (20 groups, 0.7 effective parameters, largest k-hat 0.23)
    """
    log_lik, log_ratios = _check_arguments(log_lik, log_ratios)
    smoothed = [psis(log_ratios - column) for column in log_lik.T]
    log_weights = np.stack([weights.log_weights for weights in smoothed], 1)
    pointwise = special.logsumexp(log_weights + log_lik, axis=0)
    p_eff = _log_density(log_lik, psis(log_ratios).log_weights) - pointwise
    return _make_elpd(pointwise, p_eff, np.array([weights.khat for weights in smoothed]))


def waic(log_lik: Any, *, log_ratios: Any = None) -> Elpd:
    """The widely applicable information criterion, as an elpd (times -2 for the deviance scale).

    Args:
      log_lik, log_ratios: see `loo`.

    Source: Watanabe 2010; Vehtari, Gelman and Gabry 2017, who advise `loo`.

    >>> log_lik = np.log([[0.2, 0.5], [0.3, 0.5]])
    >>> print(np.round(waic(log_lik).pointwise, 4))
    [-1.4685 -0.6931]
    """
    log_lik, log_ratios = _check_arguments(log_lik, log_ratios)
    log_weights = psis(log_ratios).log_weights
    weights = np.exp(log_weights)
    mean = weights @ log_lik
    p_eff = weights @ (log_lik - mean) ** 2 / (1 - weights @ weights)
    return _make_elpd(_log_density(log_lik, log_weights) - p_eff, p_eff, None)


def _check_arguments(
    log_lik: Any, log_ratios: Any
) -> tuple[Float[np.ndarray, "S N"], Float[np.ndarray, " S"]]:
    """The arguments as float64, without draws of weight zero, whose likelihood does not matter.
    Raises ValueError where they do not fit or are not finite."""
    log_lik = to_array(log_lik, "log_lik").astype(np.float64)
    has_draws = log_lik.ndim == 2 and log_lik.shape[0] > 1 and log_lik.shape[1] > 0
    expected = "an array (draws, groups) of two draws or more"
    require(has_draws, "log_lik", expected, f"shape {log_lik.shape}")
    num_draws = len(log_lik)
    ratios = np.zeros(num_draws)
    if log_ratios is not None:
        ratios = check_log_weights("log_ratios", log_ratios)
    expected = f"one number for each of the {num_draws} draws"
    require(len(ratios) == num_draws, "log_ratios", expected, f"shape {ratios.shape}")
    has_weight = np.isfinite(ratios)
    count = has_weight.sum()
    expected = "two draws or more at which the posterior is not zero"
    require(count > 1, "log_ratios", expected, f"{count}")
    log_lik = log_lik[has_weight]
    ratios = ratios[has_weight]
    is_finite = np.isfinite(log_lik).all(0)
    actual = f"others for groups {np.flatnonzero(~is_finite)[:5].tolist()}"
    remedy = "No draw of a posterior gives an observation the likelihood zero."
    require(is_finite.all(), "log_lik", "finite numbers", actual, remedy)
    return log_lik, ratios


def _log_density(
    log_lik: Float[np.ndarray, "S N"], log_weights: Float[np.ndarray, " S"]
) -> Float[np.ndarray, " N"]:
    return special.logsumexp(log_lik + log_weights[:, None], axis=0)


def _make_elpd(pointwise: np.ndarray, p_eff: np.ndarray, khat: np.ndarray | None) -> Elpd:
    return Elpd(*total(pointwise), float(p_eff.sum()), pointwise, p_eff, khat)


def total(pointwise: Float[np.ndarray, " N"]) -> tuple[float, float]:
    """The sum over N groups, and its standard error; inf for a single group."""
    n = pointwise.size
    error = float(np.sqrt(n * pointwise.var(ddof=1))) if n > 1 else float("inf")
    return float(pointwise.sum()), error
