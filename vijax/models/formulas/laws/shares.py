"""Laws of shares, and of successes whose chance varies from row to row."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray
from scipy.special import expit

from vijax.families.numeric.logistic import softplus
from vijax.families.numeric.special import log_gamma, stirling_gap
from vijax.inference.likelihood import Likelihood
from vijax.models.formulas.laws.classes import binomial
from vijax.models.formulas.laws.law import Aux


def beta(aux: Aux, trials: Any) -> Likelihood:
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


def beta_binomial(aux: Aux, trials: Any) -> Likelihood:
    """Successes whose chance has the law Beta(m kappa, (1 - m) kappa), m = sigmoid(eta) (Griffiths
    1973, section 2)."""
    kappa = jnp.asarray(aux["kappa"])

    def log_prob(y: Any, z: Array) -> Array:
        failures = trials - y
        log_ways = log_gamma(trials + 1.0) - log_gamma(y + 1.0) - log_gamma(failures + 1.0)
        of_mean = y * z - trials * softplus(z)  # the binomial law
        spread = (
            log_rise(y, kappa * jax.nn.sigmoid(z))
            + log_rise(failures, kappa * jax.nn.sigmoid(-z))
            - log_rise(trials, kappa)
        )
        return log_ways + of_mean + spread

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        key_chance, key_count = jax.random.split(key)
        chance = jax.random.beta(key_chance, kappa * jax.nn.sigmoid(z), kappa * jax.nn.sigmoid(-z))
        draws = jax.random.binomial(key_count, jnp.broadcast_to(trials, z.shape), chance)
        return draws.astype(z.dtype)

    return Likelihood(log_prob, "beta-binomial", sample=sample)


def log_rise(count: Any, a: Array) -> Array:
    """log Gamma(a + n) - log Gamma(a) - n log a: zero for n = 0 and for large a, without a
    difference of large numbers."""
    a = jnp.maximum(a, jnp.finfo(a.dtype).tiny)
    gap = stirling_gap(a + count) - stirling_gap(a)
    return (a + count) * jnp.log1p(count / a) - count + gap


def zero_inflated_binomial(aux: Aux, trials: Any) -> Likelihood:
    """Successes of the binomial law with probability psi, else none."""
    psi, counts = aux["psi"], binomial(aux, trials)

    def log_prob(y: Any, z: Array) -> Array:
        log_counts = jnp.log(psi) + counts.log_prob(y, z)
        return jnp.where(y == 0, jnp.logaddexp(jnp.log1p(-psi), log_counts), log_counts)

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        key_count, key_zero = jax.random.split(key)
        counted = counts.sample(key_count, z)  # type: ignore[misc]
        return jnp.where(jax.random.bernoulli(key_zero, psi, z.shape), counted, 0.0)

    return Likelihood(log_prob, "zero-inflated binomial", sample=sample)


def inflated_share(aux: Aux, eta: Any) -> Any:
    """psi sigmoid(eta)."""
    return aux["psi"] * expit(eta)
