"""Laws of a response given its predictor, by the names that Bambi has for them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import expit, softmax

from vijax.families.numeric.classes import log_sum_exp_classes
from vijax.families.numeric.logistic import softplus
from vijax.families.numeric.special import log_gamma
from vijax.families.scalar.poisson import poisson_values
from vijax.inference import likelihood
from vijax.inference.likelihood import Likelihood

Aux = Mapping[str, Any]
"""Values of the parameters beside the predictor, by name."""


@dataclasses.dataclass(frozen=True)
class Law:
    """p(y | eta) of a response, with the predictor eta.

    Attributes:
      name: its name.
      link: eta as a function of the mean: "identity", "log" or "logit". Laws with extra zeros take
        the mean without these; ordered categories the odds of a higher category. "softmax": log
        odds of each category against the base.
      aux: names of its parameters beside eta; `SUPPORTS` has their supports.
      expected: the responses that it allows, in words.
      allows: (responses, trials) -> True for each response that it allows.
      likelihood: (parameters, trials) -> the likelihood of a row.
      is_location_scale: True if y may be shifted and scaled: eta, sigma and y have one unit.
      mean_function: (parameters, eta) -> the mean of y; None where it is the inverse of the link.
      categories: "ordered": the cutpoints include the intercept. "named": the first category is the
        base, and eta has a column for each other category. Else "".
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

    @property
    def is_cut(self) -> bool:
        """True for counts that are cut off at zero (hurdle): `exp(eta)` is their mean before the
        cut."""
        return self.mean_function is _mean_of_hurdle

    @property
    def is_ordered(self) -> bool:
        """True for ordered categories."""
        return self.categories == "ordered"

    @property
    def is_named(self) -> bool:
        """True for categories against a base."""
        return self.categories == "named"

    def log_prob(self, aux: Aux, trials: Any, y: Any, eta: Any) -> Float[Array, ""]:
        """log p(y | eta) of one row."""
        return self.likelihood(aux, trials).log_prob(y, eta)

    def mean(self, aux: Aux, eta: Float[np.ndarray, "S N *C"]) -> Float[np.ndarray, "S N *K"]:
        """The mean of y at draws of parameters, (S,) each: per trial for successes among trials,
        the probability of each category for categories, (S, N, K)."""
        if self.mean_function is not None:
            columns = {name: np.asarray(x)[:, None] for name, x in aux.items()}
            return self.mean_function(columns, eta)
        if self.link == "log":
            return np.exp(eta)
        if self.link == "logit":
            return expit(eta)
        return eta

    def predictor_at_mean(
        self, y: np.ndarray, trials: np.ndarray, weights: np.ndarray
    ) -> float | np.ndarray:
        """The predictor whose mean is the mean of the weighted data, a little inside its range."""
        if self.is_named:
            logs = np.log(np.bincount(y.astype(int), weights) + 0.5)
            return logs[1:] - logs[0]
        total = weights @ trials
        mean = weights @ y / total
        margin = 0.5 / total
        if self.link == "log":
            return float(np.log(mean + margin))
        share = float(np.clip(mean, margin, 1 - margin))
        if self.link == "logit":
            return math.log(share / (1 - share))
        return float(mean)


def _binomial(aux: Aux, trials: Any) -> Likelihood:
    def log_prob(y: Any, z: Array) -> Array:
        log_ways = log_gamma(trials + 1.0) - log_gamma(y + 1.0) - log_gamma(trials - y + 1.0)
        return y * z - trials * softplus(z) + log_ways

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        successes = jax.random.binomial(key, jnp.broadcast_to(trials, z.shape), jax.nn.sigmoid(z))
        return successes.astype(z.dtype)

    return Likelihood(log_prob, "binomial", sample=sample)


def _bernoulli(aux: Aux, trials: Any) -> Likelihood:
    draw = lambda key, z: jax.random.bernoulli(key, jax.nn.sigmoid(z)).astype(z.dtype)
    return Likelihood(lambda y, z: y * z - softplus(z), "bernoulli", sample=draw)


def _beta(aux: Aux, trials: Any) -> Likelihood:
    """Beta(m kappa, (1 - m) kappa), m = sigmoid(eta) (Ferrari and Cribari-Neto 2004, equation
    4)."""
    kappa = aux["kappa"]

    def log_prob(y: Any, z: Array) -> Array:
        a, b = kappa * jax.nn.sigmoid(z), kappa * jax.nn.sigmoid(-z)
        return (
            log_gamma(kappa)
            - log_gamma(a)
            - log_gamma(b)
            + (a - 1) * jnp.log(y)
            + (b - 1) * jnp.log1p(-y)
        )

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        return jax.random.beta(key, kappa * jax.nn.sigmoid(z), kappa * jax.nn.sigmoid(-z))

    return Likelihood(log_prob, "beta", sample=sample)


def _categorical(aux: Aux, trials: Any) -> Likelihood:
    """log p(y = k) = eta_k - log(1 + sum_j e^eta_j), eta_0 = 0 of the base (McFadden 1974, equation
    12)."""
    with_base = lambda z: jnp.concatenate([jnp.zeros((*z.shape[:-1], 1), z.dtype), z], -1)

    def log_prob(y: Any, z: Float[Array, " *C"]) -> Array:
        # Category by category: compilers do not vectorise sums over so short an axis.
        predictors = list(z.reshape(-1))
        log_odds = sum(jnp.where(y == k, x, 0.0) for k, x in enumerate(predictors, 1))
        return log_odds - log_sum_exp_classes([jnp.zeros_like(predictors[0]), *predictors])

    sample = lambda key, z: jax.random.categorical(key, with_base(z)).astype(z.dtype)
    return Likelihood(log_prob, "categorical", sample=sample)


def _are_counts(y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    return (y >= 0) & (y == np.floor(y))


LEAST, MOST, BELOW_ONE = -46.0, 80.0, 1 - 2.0**-24
"""Bounds of predictors and of a probability, at which terms that are multiplied by zero are finite.
(A `where` about an expensive term, or about its derivative, becomes a branch for each element and
costs five times as much.)"""


def _with_zeros(counts_law: Callable[[Aux, Any], Likelihood]) -> Callable[[Aux, Any], Likelihood]:
    """A law of counts with probability psi, else zero (Lambert 1992, equation 1; psi is 1 minus
    Lambert's p)."""

    def law(aux: Aux, trials: Any) -> Likelihood:
        psi, counts = aux["psi"], counts_law(aux, trials)

        def log_prob(y: Any, z: Array) -> Array:
            z = jnp.minimum(z, MOST)
            zero = jnp.log1p(-jnp.minimum(psi, BELOW_ONE))
            log_zero_counts = softplus(jnp.log(psi) + _log_none(aux, z) - zero)
            return (
                jnp.where(y == 0, zero, jnp.log(psi))
                + (y > 0) * counts.log_prob(y, z)
                + (y == 0) * log_zero_counts
            )

        def sample(key: PRNGKeyArray, z: Array) -> Array:
            key_counts, key_zero = jax.random.split(key)
            counted = counts.sample(key_counts, z)  # type: ignore[misc]
            return jnp.where(jax.random.bernoulli(key_zero, psi, z.shape), counted, 0.0)

        return Likelihood(log_prob, f"zero-inflated {counts.name}", sample=sample)

    return law


def _hurdle(counts_law: Callable[[Aux, Any], Likelihood]) -> Callable[[Aux, Any], Likelihood]:
    """A law of positive counts with probability psi, else zero (Mullahy 1986, section 2)."""

    def law(aux: Aux, trials: Any) -> Likelihood:
        psi, counts = aux["psi"], counts_law(aux, trials)

        def log_prob(y: Any, z: Array) -> Array:
            z = jnp.minimum(z, MOST)
            log_positive = jnp.log(
                -jnp.expm1(_log_none(aux, jnp.maximum(z, LEAST)))
            )  # log P(y > 0)
            share = jnp.where(y == 0, jnp.log1p(-psi), jnp.log(psi))
            return share + (y > 0) * (counts.log_prob(y, z) - log_positive)

        def sample(key: PRNGKeyArray, z: Array) -> Array:
            key_counts, key_zero = jax.random.split(key)
            positive = _positive_counts(key_counts, z, aux.get("alpha"))
            return jnp.where(jax.random.bernoulli(key_zero, psi, z.shape), positive, 0.0)

        return Likelihood(log_prob, f"hurdle {counts.name}", sample=sample)

    return law


def _log_none(aux: Aux, z: Array) -> Array:
    """log P(y = 0) of the negative binomial law if there is an alpha, else of the Poisson law."""
    if "alpha" in aux:
        return -aux["alpha"] * softplus(z - jnp.log(aux["alpha"]))
    return -jnp.exp(z)


def _positive_counts(key: PRNGKeyArray, z: Array, alpha: Any) -> Array:
    """Positive counts of the negative binomial law if there is an alpha, else of the Poisson law.

    A count is the number of arrivals in one unit of time at a rate: e^z, or a draw from the gamma
    law of mean e^z and shape alpha. The first arrival before time one is drawn by inversion, then
    the rate given it, then the other arrivals."""
    key_first, key_rate, key_others = jax.random.split(key, 3)
    mean = jnp.exp(z)
    u = jax.random.uniform(key_first, z.shape, z.dtype)
    if alpha is None:
        first = -jnp.log1p(u * jnp.expm1(-mean)) / mean
        rate = mean
    else:
        none = -alpha * jnp.log1p(mean / alpha)  # log P(y = 0)
        first = jnp.expm1(-jnp.log1p(u * jnp.expm1(none)) / alpha) * alpha / mean
        rate = jax.random.gamma(key_rate, alpha + 1.0, z.shape, z.dtype) / (alpha / mean + first)
    return 1.0 + poisson_values(key_others, rate * jnp.clip(1.0 - first, 0.0, 1.0)).astype(z.dtype)


def _mean_of_hurdle(aux: Aux, eta: Any) -> Any:
    mean = np.exp(eta)
    none = -aux["alpha"] * np.log1p(mean / aux["alpha"]) if "alpha" in aux else -mean
    return aux["psi"] * mean / -np.expm1(none)


def _ordered_probabilities(aux: Aux, eta: Any) -> Any:
    """Probabilities of ordered categories."""
    below = expit(aux["threshold"] - eta[..., None])
    ends = np.zeros((*below.shape[:-1], 1))
    return np.diff(np.concatenate([ends, below, 1 + ends], -1))


def _named_probabilities(aux: Aux, eta: Any) -> Any:
    """Probabilities of categories; the base comes first."""
    return softmax(np.concatenate([np.zeros((*eta.shape[:-1], 1)), eta], -1), -1)


def _poisson(aux: Aux, trials: Any) -> Likelihood:
    return likelihood.poisson_log()


def _negative_binomial(aux: Aux, trials: Any) -> Likelihood:
    return likelihood.negative_binomial(aux["alpha"])


def _inflated_mean(aux: Aux, eta: Any) -> Any:
    return aux["psi"] * np.exp(eta)


_COUNTS = "counts 0, 1, 2, ..."
LAWS = {
    law.name: law
    for law in (
        Law(
            "gaussian",
            "identity",
            ("sigma",),
            "finite numbers",
            lambda y, n: np.isfinite(y),
            lambda aux, n: likelihood.gaussian(aux["sigma"] ** 2),
            is_location_scale=True,
        ),
        Law(
            "t",
            "identity",
            ("sigma", "nu"),
            "finite numbers",
            lambda y, n: np.isfinite(y),
            lambda aux, n: likelihood.student_t(aux["nu"], aux["sigma"]),
            is_location_scale=True,
        ),
        Law(
            "bernoulli",
            "logit",
            (),
            "0 and 1, or two categories",
            lambda y, n: np.isin(y, (0, 1)),
            _bernoulli,
        ),
        Law(
            "binomial",
            "logit",
            (),
            "successes among trials, p(successes, trials) in the formula",
            lambda y, n: _are_counts(y, n) & (y <= n),
            _binomial,
        ),
        Law("poisson", "log", (), _COUNTS, _are_counts, _poisson),
        Law("negativebinomial", "log", ("alpha",), _COUNTS, _are_counts, _negative_binomial),
        Law(
            "zero_inflated_poisson",
            "log",
            ("psi",),
            _COUNTS,
            _are_counts,
            _with_zeros(_poisson),
            mean_function=_inflated_mean,
        ),
        Law(
            "zero_inflated_negativebinomial",
            "log",
            ("alpha", "psi"),
            _COUNTS,
            _are_counts,
            _with_zeros(_negative_binomial),
            mean_function=_inflated_mean,
        ),
        Law(
            "hurdle_poisson",
            "log",
            ("psi",),
            _COUNTS,
            _are_counts,
            _hurdle(_poisson),
            mean_function=_mean_of_hurdle,
        ),
        Law(
            "hurdle_negativebinomial",
            "log",
            ("alpha", "psi"),
            _COUNTS,
            _are_counts,
            _hurdle(_negative_binomial),
            mean_function=_mean_of_hurdle,
        ),
        Law(
            "cumulative",
            "logit",
            ("threshold",),
            "two ordered categories or more",
            lambda y, n: _are_counts(y, n) & (y.max() > 0),
            lambda aux, n: likelihood.ordinal_logit(aux["threshold"]),
            mean_function=_ordered_probabilities,
            categories="ordered",
        ),
        Law(
            "categorical",
            "softmax",
            (),
            "two categories or more",
            lambda y, n: _are_counts(y, n) & (y.max() > 0),
            _categorical,
            mean_function=_named_probabilities,
            categories="named",
        ),
        Law(
            "gamma",
            "log",
            ("alpha",),
            "positive numbers",
            lambda y, n: y > 0,
            lambda aux, n: likelihood.gamma_log(aux["alpha"]),
        ),
        Law(
            "beta",
            "logit",
            ("kappa",),
            "numbers inside (0, 1)",
            lambda y, n: (y > 0) & (y < 1),
            _beta,
        ),
    )
}
"""The laws by name. `nu`: degrees of freedom. `alpha`: r of counts with variance m + m^2 / r; the
shape of the gamma law. `kappa`: the precision of the beta law. `psi`: the probability that a row is
a count of the plain law (zero-inflated), or that its count is not zero (hurdle). `threshold`: the
cutpoints of ordered categories."""
SUPPORTS = {"psi": "unit interval", "threshold": "ordered"}
"""Supports of parameters that are not positive numbers."""
