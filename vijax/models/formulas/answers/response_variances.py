"""Variances of the response given its predictor, by law."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import expit, gammaln

from vijax.models.formulas.laws.law import add_row_axis

Aux = Mapping[str, Any]
Moments = tuple[Any, Any]
"""The mean and the variance of a response."""


def _negative_binomial(aux: Aux, eta: Any) -> Moments:
    mean = np.exp(eta)
    return mean, mean + mean**2 / aux["alpha"]


def _poisson(aux: Aux, eta: Any) -> Moments:
    return np.exp(eta), np.exp(eta)


def _gamma(aux: Aux, eta: Any) -> Moments:
    mean = np.exp(eta)
    return mean, mean**2 / aux["alpha"]


def _weibull(aux: Aux, eta: Any) -> Moments:
    """E(y^2) / E(y)^2 = Gamma(1 + 2 / alpha) / Gamma(1 + 1 / alpha)^2."""
    alpha = aux["alpha"]
    ratio = np.exp(gammaln(1 + 2 / alpha) - 2 * gammaln(1 + 1 / alpha))
    mean = np.exp(eta)
    return mean, mean**2 * (ratio - 1)


def _lognormal(aux: Aux, eta: Any) -> Moments:
    mean = np.exp(eta + 0.5 * aux["sigma"] ** 2)
    return mean, mean**2 * np.expm1(aux["sigma"] ** 2)


def _wald(aux: Aux, eta: Any) -> Moments:
    mean = np.exp(eta)
    return mean, mean**3 / aux["lam"]


def _student_t(aux: Aux, eta: Any) -> Moments:
    """sigma^2 nu / (nu - 2); infinite up to two degrees of freedom."""
    nu = aux["nu"]
    factor = np.where(nu > 2, nu / np.where(nu > 2, nu - 2, 1), np.inf)
    return eta, aux["sigma"] ** 2 * factor + 0 * eta


def _beta(aux: Aux, eta: Any) -> Moments:
    mean = expit(eta)
    return mean, mean * (1 - mean) / (1 + aux["kappa"])


def _bernoulli(aux: Aux, eta: Any) -> Moments:
    mean = expit(eta)
    return mean, mean * (1 - mean)


def _with_zeros(law: Callable[[Aux, Any], Moments]) -> Callable[[Aux, Any], Moments]:
    """A response of the law with probability psi, else zero."""

    def moments(aux: Aux, eta: Any) -> Moments:
        mean, variance = law(aux, eta)
        psi = aux["psi"]
        return psi * mean, psi * (variance + mean**2) - (psi * mean) ** 2

    return moments


def _hurdle(law: Callable[[Aux, Any], Moments]) -> Callable[[Aux, Any], Moments]:
    """A positive count of the law with probability psi, else zero."""

    def moments(aux: Aux, eta: Any) -> Moments:
        mean, variance = law(aux, eta)
        log_none = -mean
        if "alpha" in aux:
            log_none = -aux["alpha"] * np.log1p(mean / aux["alpha"])
        share = aux["psi"] / -np.expm1(log_none)
        return share * mean, share * (variance + mean**2) - (share * mean) ** 2

    return moments


MOMENTS: dict[str, Callable[[Aux, Any], Moments]] = {
    "gaussian": lambda aux, eta: (eta, aux["sigma"] ** 2 + 0 * eta),
    "t": _student_t,
    "bernoulli": _bernoulli,
    "poisson": _poisson,
    "negativebinomial": _negative_binomial,
    "zero_inflated_poisson": _with_zeros(_poisson),
    "zero_inflated_negativebinomial": _with_zeros(_negative_binomial),
    "hurdle_poisson": _hurdle(_poisson),
    "hurdle_negativebinomial": _hurdle(_negative_binomial),
    "exponential": lambda aux, eta: (np.exp(eta), np.exp(2 * eta)),
    "gamma": _gamma,
    "weibull": _weibull,
    "wald": _wald,
    "lognormal": _lognormal,
    "hurdle_gamma": _with_zeros(_gamma),
    "hurdle_lognormal": _with_zeros(_lognormal),
    "beta": _beta,
    "zero_inflated_beta": _with_zeros(_beta),
}
"""Functions (parameters, predictors) -> (mean, variance), by law. Successes among trials are in
`share_moments`; categories have none."""


def share_moments(law: str, aux: Aux, eta: Any, trials: Float[np.ndarray, " N"]) -> Moments:
    """Mean and variance of the share of successes among trials.

    For the beta-binomial law the variance is p (1 - p) (1 + (n - 1) / (1 + kappa)) / n (Griffiths
    1973, section 2)."""
    mean = expit(eta)
    variance = mean * (1 - mean) / trials
    if law == "beta_binomial":
        variance = variance * (1 + (trials - 1) / (1 + aux["kappa"]))
    if law == "zero_inflated_binomial":
        return _with_zeros(lambda aux, eta: (mean, variance))(aux, eta)
    return mean, variance


def moments(
    law: str, aux: Mapping[str, np.ndarray], eta: Float[np.ndarray, "S N"], trials: np.ndarray
) -> Moments | None:
    """Means and variances of responses at draws of parameters, (S,) each, or (S, N) where they
    differ by row; None for laws that have no moments here."""
    columns = {name: add_row_axis(name, np.asarray(x, float)) for name, x in aux.items()}
    if law in ("binomial", "beta_binomial", "zero_inflated_binomial"):
        return share_moments(law, columns, eta, trials)
    if law not in MOMENTS:
        return None
    return MOMENTS[law](columns, eta)
