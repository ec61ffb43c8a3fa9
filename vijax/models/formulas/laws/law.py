"""A law of a response given its predictor."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from jaxtyping import Array, Float
from scipy.special import expit

from vijax.inference.likelihood import Likelihood

Aux = Mapping[str, Any]
"""Values of the parameters beside the predictor, by name."""
WIDEST = 10.0
"""Largest tangent of half a direction at which a search begins."""


@dataclasses.dataclass(frozen=True)
class Law:
    """p(y | eta) of a response, with the predictor eta.

    Attributes:
      name: its name.
      link: eta as a function of the mean: "identity", "log" or "logit". Laws with extra zeros take
        the mean without these; ordered categories the odds of a higher category. "softmax": log
        odds of each category against the base. "tan_half": the tangent of half the mean direction.
      aux: names of its parameters beside eta; `SUPPORTS` has their supports.
      expected: the responses that it allows, in words.
      allows: (responses, trials) -> True for each response that it allows.
      likelihood: (parameters, trials) -> the likelihood of a row.
      is_location_scale: True if y may be shifted and scaled: eta, sigma and y have one unit.
      mean_function: (parameters, eta) -> the mean of y, of angles that of e^(iy); None where it is
        the inverse of the link.
      categories: "ordered": the cutpoints include the intercept. "named": the first category is the
        base, and eta has a column for each other category. Else "".
      is_cut: True for counts that are cut off at zero (hurdle): `exp(eta)` is their mean before the
        cut.
      takes_trials: True for successes among trials.
      tails: (parameters, y, eta) -> logarithms of the probabilities up to y and beyond it, for
        censored and truncated responses; None for laws without them.
      location: the number whose link is eta, in words, with a place for the name of the response.
      fixed: parameters that are known: the quantile of a quantile regression.
    """

    name: str
    link: str
    aux: tuple[str, ...]
    expected: str
    allows: Callable[[np.ndarray, np.ndarray], np.ndarray]
    likelihood: Callable[[Aux, Any], Likelihood]
    is_location_scale: bool = False
    mean_function: Callable[[Aux, Any], Any] | None = None
    categories: Literal["", "ordered", "named"] = ""
    is_cut: bool = False
    takes_trials: bool = False
    tails: Callable[[Aux, Any, Any], Any] | None = None
    location: str = "the mean of {}"
    fixed: tuple[tuple[str, float], ...] = ()

    @property
    def is_ordered(self) -> bool:
        """True for ordered categories."""
        return self.categories == "ordered"

    @property
    def has_steps(self) -> bool:
        """True for ordered categories that are reached one after another: cutpoints need not rise,
        and each may have effects of its own."""
        return self.name == "sratio"

    @property
    def is_named(self) -> bool:
        """True for categories against a base."""
        return self.categories == "named"

    @property
    def has_counts(self) -> bool:
        """True for counts by category, of which a row has a number for each."""
        return self.name == "multinomial"

    @property
    def is_count(self) -> bool:
        """True for laws of counts."""
        return self.expected.startswith("counts")

    @property
    def is_circular(self) -> bool:
        """True for laws of angles, of which pi and -pi are one."""
        return self.link == "tan_half"

    @property
    def takes_row_errors(self) -> bool:
        """True if rows may have standard errors, or precisions, of their own."""
        return self.name in ("gaussian", "t")

    @property
    def response_words(self) -> str:
        """The number that is predicted of a response, in words, with a place for its name."""
        if self.is_circular or self.quantile is not None:
            return self.location
        return "the mean of {}"

    @property
    def has_variance(self) -> bool:
        """False for angles, and for laws that stand for a quantile alone."""
        return not self.is_circular and self.quantile is None

    @property
    def has_ratios(self) -> bool:
        """True if `exp` of a coefficient is a ratio of means or odds."""
        return self.link in ("log", "logit", "softmax")

    @property
    def quantile(self) -> float | None:
        """The quantile that eta is; None for other laws."""
        return dict(self.fixed).get("quantile")

    def with_quantile(self, quantile: float) -> Law:
        """The law of another quantile."""
        words = f"the {quantile:g} quantile of {{}}"
        return dataclasses.replace(self, fixed=(("quantile", quantile),), location=words)

    def all_parameters(self, aux: Aux) -> Aux:
        """The parameters with those that are known."""
        return {**dict(self.fixed), **aux}

    def find_tails(self, aux: Aux, y: Any, eta: Any) -> Any:
        """The tails at y."""
        assert self.tails is not None
        return self.tails(self.all_parameters(aux), y, eta)

    @property
    def modelled_parameters(self) -> tuple[str, ...]:
        """The parameters that may have formulas of their own."""
        return tuple(name for name in self.aux if name != "threshold")

    def log_prob(self, aux: Aux, trials: Any, y: Any, eta: Any) -> Float[Array, ""]:
        """log p(y | eta) of one row."""
        return self.likelihood(self.all_parameters(aux), trials).log_prob(y, eta)

    def sample(self, aux: Aux, trials: Any, key: Any, eta: Any) -> Any:
        """Responses with these predictors."""
        draw = self.likelihood(self.all_parameters(aux), trials).sample
        return draw(key, eta)  # type: ignore[misc]

    def mean(self, aux: Aux, eta: Float[np.ndarray, "S N *C"]) -> Float[np.ndarray, "S N *K"]:
        """The mean of y at draws of parameters, (S,) each, or (S, N) where they differ by row: per
        trial for successes among trials, the probability of each category for categories, (S, N,
        K); of angles the mean direction; the quantile of a quantile regression."""
        return self.read_averages(self.to_average(aux, eta))

    def read_averages(self, averages: np.ndarray) -> Float[np.ndarray, "*shape"]:
        """The means that averages of `to_average` are."""
        if self.is_circular:
            return np.angle(averages)
        return averages

    def to_average(self, aux: Aux, eta: Float[np.ndarray, "S N *C"]) -> np.ndarray:
        """The numbers averaged over rows and groups: means; of angles the means of e^(iy)."""
        if self.mean_function is not None:
            columns = {name: add_row_axis(name, np.asarray(x)) for name, x in aux.items()}
            return self.mean_function(columns, eta)
        if self.link == "log":
            return np.exp(eta)
        if self.link == "logit":
            return expit(eta)
        return eta

    def count_categories(
        self, y: np.ndarray, weights: np.ndarray, least: int = 0
    ) -> Float[np.ndarray, " K"]:
        """The weighted number of each category; `least` is the least number of categories."""
        if self.has_counts:
            return weights @ y
        return np.bincount(y.astype(int), weights, least)

    def predictor_at_mean(
        self, y: np.ndarray, trials: np.ndarray, weights: np.ndarray
    ) -> float | np.ndarray:
        """The predictor whose mean is the mean of the weighted data, a little inside its range."""
        if self.is_named:
            logs = np.log(self.count_categories(y, weights) + 0.5)
            return logs[1:] - logs[0]
        if self.is_circular:
            return float(np.clip(np.tan(0.5 * mean_direction(y, weights)), -WIDEST, WIDEST))
        total = weights @ trials
        mean = weights @ y / total
        margin = 0.5 / total
        if self.link == "log":
            return float(np.log(mean + margin))
        share = float(np.clip(mean, margin, 1 - margin))
        if self.link == "logit":
            return math.log(share / (1 - share))
        return float(mean)


def mean_direction(y: np.ndarray, weights: np.ndarray) -> float:
    """The direction of the sum of weighted unit vectors, from -pi to pi."""
    return float(np.angle(weights @ np.exp(1j * y)))


def add_row_axis(name: str, x: np.ndarray) -> np.ndarray:
    """Draws of a parameter with an axis for rows, unless they have one."""
    if x.ndim > 1 and name != "threshold":
        return x
    return x[:, None]
