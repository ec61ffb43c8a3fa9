"""The law of quantile regression."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from vijax.inference.likelihood import Likelihood
from vijax.models.formulas.laws.law import Aux
from vijax.models.formulas.laws.tails import Tails, log_complement


def asymmetric_laplace(aux: Aux, trials: Any) -> Likelihood:
    """q (1 - q) / sigma exp(-rho((y - eta) / sigma)), rho(r) = r (q - 1[r < 0]): eta is the
    q-quantile (Yu and Moyeed 2001, equation 3; parameters as in brms)."""
    sigma, q = aux["sigma"], aux["quantile"]

    def log_prob(y: Any, z: Array) -> Array:
        return jnp.log(q * (1.0 - q)) + _log_density(*jnp.broadcast_arrays(y - z, sigma, q))

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        """A difference of two exponential draws, of means sigma / q and sigma / (1 - q)."""
        above, below = jax.random.exponential(key, (2, *z.shape), z.dtype)
        return z + sigma * (above / q - below / (1.0 - q))

    return Likelihood(log_prob, "asymmetric laplace", sample=sample)


@jax.custom_jvp
def _log_density(residual: Array, sigma: Array, q: Array) -> Array:
    """-rho(residual / sigma) - log sigma. Its first derivatives are its own. The second one by the
    residual, which is zero but for the kink, is that of its mean: minus the information
    q (1 - q) / sigma^2, by which searches and quadratures choose their steps and nodes."""
    return -residual * _slope(residual, sigma, q) / sigma - jnp.log(sigma)


@_log_density.defjvp
def _log_density_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    residual, sigma, q = primals
    by_residual, by_sigma, _ = tangents
    slope = _slope(residual, sigma, q)
    fixed = jax.lax.stop_gradient(slope)
    change = -by_residual * slope / sigma
    change = change + by_sigma * (residual * fixed / sigma - 1.0) / sigma
    return _log_density(residual, sigma, q), change


@jax.custom_jvp
def _slope(residual: Array, sigma: Array, q: Array) -> Array:
    """q above the quantile, q - 1 below it."""
    return jnp.where(residual < 0, q - 1.0, q)


@_slope.defjvp
def _slope_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    residual, sigma, q = primals
    return _slope(residual, sigma, q), tangents[0] * q * (1.0 - q) / sigma


def asymmetric_laplace_tails(aux: Aux, y: Any, eta: Any) -> Tails:
    """P(Y <= y) is q at eta, and falls exponentially on both sides."""
    q = jnp.asarray(aux["quantile"])
    r = (y - eta) / aux["sigma"]
    below = jnp.log(q) + (1.0 - q) * jnp.minimum(r, 0.0)
    above = jnp.log1p(-q) - q * jnp.maximum(r, 0.0)
    is_upper = r > 0
    log_cdf = jnp.where(is_upper, log_complement(above), below)
    log_sf = jnp.where(is_upper, above, log_complement(below))
    return Tails(log_cdf, log_sf)
