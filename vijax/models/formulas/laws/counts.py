"""Laws of counts, also with extra zeros or cut off at zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from vijax.families.numeric.logistic import softplus
from vijax.families.scalar.poisson import poisson_values
from vijax.inference import likelihood
from vijax.inference.likelihood import Likelihood
from vijax.models.formulas.laws.law import Aux


def poisson(aux: Aux, trials: Any) -> Likelihood:
    """Poisson of mean e^eta."""
    return likelihood.poisson_log()


def negative_binomial(aux: Aux, trials: Any) -> Likelihood:
    """Negative binomial of mean e^eta, and r = alpha."""
    return likelihood.negative_binomial(aux["alpha"])


def inflated_mean(aux: Aux, eta: Any) -> Any:
    """psi e^eta."""
    return aux["psi"] * np.exp(eta)


def are_counts(y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """True for each 0, 1, 2, ..."""
    return (y >= 0) & (y == np.floor(y))


LEAST, MOST, BELOW_ONE = -46.0, 80.0, 1 - 2.0**-24
"""Bounds of predictors and of a probability, at which terms that are multiplied by zero are finite.
(A `where` about an expensive term, or about its derivative, becomes a branch for each element and
costs five times as much.)"""


def with_zeros(counts_law: Callable[[Aux, Any], Likelihood]) -> Callable[[Aux, Any], Likelihood]:
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


def hurdle(counts_law: Callable[[Aux, Any], Likelihood]) -> Callable[[Aux, Any], Likelihood]:
    """A law of positive counts with probability psi, else zero (Mullahy 1986, section 2)."""

    def law(aux: Aux, trials: Any) -> Likelihood:
        psi, counts = aux["psi"], counts_law(aux, trials)

        def log_prob(y: Any, z: Array) -> Array:
            z = jnp.minimum(z, MOST)
            log_zero = _log_none(aux, jnp.maximum(z, LEAST))
            log_positive = jnp.log(-jnp.expm1(log_zero))  # log P(y > 0)
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


def mean_of_hurdle(aux: Aux, eta: Any) -> Any:
    """The mean of counts that are cut off at zero, and zeros."""
    mean = np.exp(eta)
    none = -aux["alpha"] * np.log1p(mean / aux["alpha"]) if "alpha" in aux else -mean
    return aux["psi"] * mean / -np.expm1(none)
