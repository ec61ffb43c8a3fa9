"""Laws of a response given its predictor, by the names that Bambi has for them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import expit

from vijax.inference import likelihood
from vijax.inference.likelihood import Likelihood

Aux = Mapping[str, Any]
"""Values of the parameters beside the predictor, by name."""


@dataclasses.dataclass(frozen=True)
class Law:
    """p(y | eta) of a response, with the predictor eta.

    Attributes:
      name: its name.
      link: "identity", "log" or "logit": the function of the mean that eta is.
      aux: names of its parameters beside eta, all positive.
      expected: the responses that it allows, in words.
      allows: (responses, trials) -> which of them it allows.
      of: (parameters, trials) -> the likelihood of a row.
      of_location: True where y may be moved and stretched: eta, sigma and y have one unit.
    """

    name: str
    link: str
    aux: tuple[str, ...]
    expected: str
    allows: Callable[[np.ndarray, np.ndarray], np.ndarray]
    of: Callable[[Aux, Any], Likelihood]
    of_location: bool = False

    def log_prob(self, aux: Aux, trials: Any, y: Any, eta: Any) -> Float[Array, ""]:
        """log p(y | eta) of one row."""
        return self.of(aux, trials).log_prob(y, eta)

    def mean(self, eta: Any) -> Any:
        """The mean of y, of a proportion per trial."""
        return np.exp(eta) if self.link == "log" else expit(eta) if self.link == "logit" else eta

    def linked(self, y: np.ndarray, trials: np.ndarray) -> float:
        """The predictor at which the mean is that of the data, a little inside its range."""
        mean = y.sum() / trials.sum()
        inside = 0.5 / trials.sum()
        if self.link == "log":
            return float(np.log(mean + inside))
        share = float(np.clip(mean, inside, 1 - inside))
        return math.log(share / (1 - share)) if self.link == "logit" else float(mean)


def _binomial(aux: Aux, trials: Any) -> Likelihood:
    def log_prob(y: Any, z: Array) -> Array:
        chosen = gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0)
        return y * z - trials * jax.nn.softplus(z) + chosen

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        return jax.random.binomial(key, jnp.broadcast_to(trials, z.shape), jax.nn.sigmoid(z)).astype(z.dtype)

    return Likelihood(log_prob, "binomial", sample=sample)


def _bernoulli(aux: Aux, trials: Any) -> Likelihood:
    draw = lambda key, z: jax.random.bernoulli(key, jax.nn.sigmoid(z)).astype(z.dtype)
    return Likelihood(lambda y, z: y * z - jax.nn.softplus(z), "bernoulli", sample=draw)


def _beta(aux: Aux, trials: Any) -> Likelihood:
    """Beta(m kappa, (1 - m) kappa), m = sigmoid(eta) (Ferrari and Cribari-Neto 2004, equation 4)."""
    kappa = aux["kappa"]

    def log_prob(y: Any, z: Array) -> Array:
        a, b = kappa * jax.nn.sigmoid(z), kappa * jax.nn.sigmoid(-z)
        return gammaln(kappa) - gammaln(a) - gammaln(b) + (a - 1) * jnp.log(y) + (b - 1) * jnp.log1p(-y)

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        return jax.random.beta(key, kappa * jax.nn.sigmoid(z), kappa * jax.nn.sigmoid(-z))

    return Likelihood(log_prob, "beta", sample=sample)


def _counts(y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    return (y >= 0) & (y == np.floor(y))


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
            of_location=True,
        ),
        Law(
            "t",
            "identity",
            ("sigma", "nu"),
            "finite numbers",
            lambda y, n: np.isfinite(y),
            lambda aux, n: likelihood.student_t(aux["nu"], aux["sigma"]),
            of_location=True,
        ),
        Law("bernoulli", "logit", (), "0 and 1, or two categories", lambda y, n: np.isin(y, (0, 1)), _bernoulli),
        Law(
            "binomial",
            "logit",
            (),
            "successes among trials, p(successes, trials) in the formula",
            lambda y, n: _counts(y, n) & (y <= n),
            _binomial,
        ),
        Law("poisson", "log", (), _COUNTS, _counts, lambda aux, n: likelihood.poisson_log()),
        Law(
            "negativebinomial",
            "log",
            ("alpha",),
            _COUNTS,
            _counts,
            lambda aux, n: likelihood.negative_binomial(aux["alpha"]),
        ),
        Law(
            "gamma",
            "log",
            ("alpha",),
            "positive numbers",
            lambda y, n: y > 0,
            lambda aux, n: likelihood.gamma_log(aux["alpha"]),
        ),
        Law("beta", "logit", ("kappa",), "numbers inside (0, 1)", lambda y, n: (y > 0) & (y < 1), _beta),
    )
}
"""The laws by name. `nu` are degrees of freedom, `alpha` of counts r of variance m + m^2 / r and of the gamma law its
shape, `kappa` the precision of a beta law."""
