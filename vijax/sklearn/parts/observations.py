"""Observations of a regression, by name: the likelihood, its learnt hyperparameters, and the mean and variance of y."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from vijax.inference import likelihood
from vijax.inference.likelihood import Likelihood


class Observed(NamedTuple):
    """One kind of observation.

    Attributes:
      make: hyperparameters -> p(y | z).
      start: the hyperparameters of its own that are learnt, with their first values.
      moments: (m, v, hyperparameters) -> mean and variance of y where z ~ N(m, v).
      is_real: y may be any number, and is measured in units of its spread.
    """

    make: Callable[[Mapping[str, Any]], Likelihood]
    start: Mapping[str, float]
    moments: Callable[[np.ndarray, np.ndarray, Mapping[str, float]], tuple[np.ndarray, np.ndarray]]
    is_real: bool


def _of_normal(extra: Callable[[Mapping[str, float]], float]) -> Any:
    return lambda m, v, hyper: (m, v + extra(hyper))


def _of_rate(extra: Callable[[np.ndarray, Mapping[str, float]], np.ndarray]) -> Any:
    """Moments for a mean e^z: E[e^z], its variance, and `extra`, E[variance of y given z] as a function of E[e^2z]."""

    def moments(m: np.ndarray, v: np.ndarray, hyper: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        mean, second = np.exp(m + 0.5 * v), np.exp(2 * m + 2 * v)
        return mean, second - mean**2 + extra(mean, second, hyper)  # type: ignore[call-arg]

    return moments


Observation = Literal["gaussian", "student_t", "poisson", "negative_binomial", "gamma"]
OBSERVED: dict[str, Observed] = {
    "gaussian": Observed(
        lambda h: likelihood.gaussian(h["noise"]), {"noise": 0.1}, _of_normal(lambda h: h["noise"]), True
    ),
    "student_t": Observed(
        lambda h: likelihood.student_t(4.0, h["noise"]),
        {"noise": 0.3},
        _of_normal(lambda h: 2.0 * h["noise"] ** 2),  # nu / (nu - 2) at nu = 4
        True,
    ),
    "poisson": Observed(lambda h: likelihood.poisson_log(), {}, _of_rate(lambda m, s, h: m), False),  # type: ignore[arg-type, misc]
    "negative_binomial": Observed(
        lambda h: likelihood.negative_binomial(h["dispersion"]),
        {"dispersion": 5.0},
        _of_rate(lambda m, s, h: m + s / h["dispersion"]),  # type: ignore[arg-type, misc]
        False,
    ),
    "gamma": Observed(
        lambda h: likelihood.gamma_log(h["shape"]),
        {"shape": 2.0},
        _of_rate(lambda m, s, h: s / h["shape"]),  # type: ignore[arg-type, misc]
        False,
    ),
}
"""The registry of `likelihood=` of the regressors."""
