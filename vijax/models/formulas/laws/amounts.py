"""Laws of amounts, which are positive, and of amounts that may be zero: times, sizes, prices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from vijax.families.numeric.special import log_gamma
from vijax.inference import likelihood
from vijax.inference.likelihood import Likelihood
from vijax.models.formulas.laws.law import Aux

HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))


def lognormal(aux: Aux, trials: Any) -> Likelihood:
    """log y ~ N(eta, sigma^2): e^eta is the median, as in brms."""
    sigma = aux["sigma"]

    def log_prob(y: Any, z: Array) -> Array:
        log_y = jnp.log(y)
        return -0.5 * ((log_y - z) / sigma) ** 2 - jnp.log(sigma) - HALF_LOG_TWO_PI - log_y

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        return jnp.exp(z + sigma * jax.random.normal(key, z.shape, z.dtype))

    return Likelihood(log_prob, "lognormal", sample=sample)


def lognormal_mean(aux: Aux, eta: Any) -> Any:
    """exp(eta + sigma^2 / 2)."""
    return np.exp(eta + 0.5 * aux["sigma"] ** 2)


def gamma(aux: Aux, trials: Any) -> Likelihood:
    """Gamma of mean e^eta and shape alpha."""
    return likelihood.gamma_log(aux["alpha"])


def exponential(aux: Aux, trials: Any) -> Likelihood:
    """Exponential of mean e^eta."""
    return likelihood.gamma_log(1.0)


def weibull(aux: Aux, trials: Any) -> Likelihood:
    """Weibull of mean e^eta and shape alpha: (y / s)^alpha is exponential, with s = e^eta / Gamma(1
    + 1 / alpha)."""
    alpha = jnp.asarray(aux["alpha"])
    log_mean = log_gamma(1.0 + 1.0 / alpha)  # of y / s

    def log_prob(y: Any, z: Array) -> Array:
        log_y = jnp.log(y)
        power = alpha * (log_y - z + log_mean)
        return jnp.log(alpha) - log_y + power - jnp.exp(power)

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        draws = jax.random.exponential(key, z.shape, z.dtype)
        return jnp.exp(z - log_mean + jnp.log(draws) / alpha)

    return Likelihood(log_prob, "weibull", sample=sample)


def wald(aux: Aux, trials: Any) -> Likelihood:
    """Inverse Gaussian of mean m = e^eta and variance m^3 / lam."""
    lam = aux["lam"]

    def log_prob(y: Any, z: Array) -> Array:
        excess = y * jnp.exp(-z) - 1.0
        return 0.5 * jnp.log(lam) - HALF_LOG_TWO_PI - 1.5 * jnp.log(y) - 0.5 * lam * excess**2 / y

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        """By the two roots of the quadratic equation of a chi-squared draw (Michael, Schucany and
        Haas 1976), the smaller one without a difference of large numbers."""
        key_normal, key_root = jax.random.split(key)
        w = 0.5 * jnp.exp(z) * jax.random.normal(key_normal, z.shape, z.dtype) ** 2 / lam
        smaller = 1.0 / (1.0 + w + jnp.sqrt(w * (2.0 + w)))  # times the mean
        is_smaller = jax.random.uniform(key_root, z.shape, z.dtype) < 1.0 / (1.0 + smaller)
        return jnp.exp(z) * jnp.where(is_smaller, smaller, 1.0 / smaller)

    return Likelihood(log_prob, "wald", sample=sample)


def or_zero(law: Callable[[Aux, Any], Likelihood]) -> Callable[[Aux, Any], Likelihood]:
    """A law of amounts that are not zero with probability psi, else zero."""

    def with_zeros(aux: Aux, trials: Any) -> Likelihood:
        psi, amounts = aux["psi"], law(aux, trials)

        def log_prob(y: Any, z: Array) -> Array:
            is_zero = y == 0
            positive = amounts.log_prob(jnp.where(is_zero, 0.5, y), z)
            share = jnp.where(is_zero, jnp.log1p(-psi), jnp.log(psi))
            return share + jnp.where(is_zero, 0.0, positive)

        def sample(key: PRNGKeyArray, z: Array) -> Array:
            key_amount, key_zero = jax.random.split(key)
            amount = amounts.sample(key_amount, z)  # type: ignore[misc]
            return jnp.where(jax.random.bernoulli(key_zero, psi, z.shape), amount, 0.0)

        return Likelihood(log_prob, f"hurdle {amounts.name}", sample=sample)

    return with_zeros


def hurdle_gamma_mean(aux: Aux, eta: Any) -> Any:
    """psi e^eta."""
    return aux["psi"] * np.exp(eta)


def hurdle_lognormal_mean(aux: Aux, eta: Any) -> Any:
    """psi exp(eta + sigma^2 / 2)."""
    return aux["psi"] * lognormal_mean(aux, eta)
