"""Counts y = 0, 1, 2, ... with mean e^z."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammaincc
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positives, checked
from vijax.families.numeric.log_factorial import deviance, log_factorial_gap
from vijax.families.numeric.special import stirling_gap
from vijax.families.scalar.poisson_draws import poisson_values
from vijax.inference.likelihood.base import Likelihood, Moments, require_sites
from vijax.xla.by_value import by_value


@by_value
def poisson_log() -> Likelihood:
    """p(y | z) = Poisson(y; e^z). Its expectations are closed, E e^z = e^(m + v/2); its f has no Lipschitz gradient
    (Khan et al. 2016, appendix A.1), so give it `vijax.step_size.backtracking()`.

    >>> round(float(poisson_log().closed_form(3.0, jnp.array(0.0), jnp.array(1e-6)).slope), 4)
    2.0
    """

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        rate = jnp.exp(m + 0.5 * v)
        return Moments(log_prob(y, m) - jnp.exp(m) * jnp.expm1(0.5 * v), y - rate, -rate)

    def log_prob(y: Any, z: Array) -> Array:
        """log p(y | z), without a difference of terms of the size of y log y."""
        count = jnp.asarray(y, z.dtype)
        return -deviance(count, z) - log_factorial_gap(count)

    return Likelihood(
        log_prob,
        name="poisson_log",
        log_concave=True,
        closed_form=closed_form,
        check=lambda y: _check_counts(y, "poisson_log"),
        mean=jnp.exp,
        cdf=lambda y, z: jnp.where(y < 0, 0.0, gammaincc(jnp.floor(jnp.maximum(y, 0.0)) + 1.0, jnp.exp(z))),
        sample=lambda key, z: poisson_values(key, jnp.exp(z)).astype(z.dtype),
    )


@by_value
@checked
def negative_binomial(dispersion: Positives = 1.0) -> Likelihood:
    """p(y | z) = NegativeBinomial(y; mean e^z, variance e^z + e^2z / r).

    Args:
      dispersion: dispersion r; a large one is near Poisson.

    Raises:
      ValueError: r not positive.
    """
    r = jnp.asarray(dispersion)

    def log_prob(y: Any, z: Array) -> Array:
        """Without a difference of terms of the size of y log y."""
        count, size = jnp.asarray(y, z.dtype), r.astype(z.dtype)
        gap = stirling_gap(count + size) - stirling_gap(size) - log_factorial_gap(count)
        return gap - _deviance(count, z, size)

    def cdf(y: Any, z: Array) -> Array:
        success = jax.nn.sigmoid(jnp.log(r) - z)
        return jnp.where(y < 0, 0.0, betainc(r, jnp.floor(jnp.maximum(y, 0.0)) + 1.0, success))

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        key_rate, key_count = jax.random.split(key)
        rate = jax.random.gamma(key_rate, r.astype(z.dtype), z.shape, z.dtype) * jnp.exp(z) / r
        return poisson_values(key_count, rate).astype(z.dtype)

    return Likelihood(
        log_prob,
        name="negative_binomial",
        kinks=lambda y: jnp.log(r)[None],
        analytic=True,
        log_concave=True,
        check=lambda y: _check_counts(y, "negative_binomial"),
        mean=jnp.exp,
        cdf=cdf,
        sample=sample,
    )


def _deviance(count: Float[Array, "*shape"], z: Array, r: Array) -> Float[Array, "*shape"]:
    """By how much the log density of a negative binomial is below its value at a mean of y: with n = y + r,
    v = min(y, r) / n, and d the logarithm of mean / y, or for y > r of y / mean, it is n (log(1 + v (e^d - 1)) - v d),
    of terms of the size of n v d."""
    y = jnp.maximum(count, 1.0)
    n, least = y + r, jnp.minimum(y, r)
    d = jnp.where(y < r, 1.0, -1.0) * (z - jnp.log(y))
    v = least / n
    near = jnp.log1p(v * jnp.expm1(jnp.minimum(d, 1.0)))
    far = jnp.logaddexp(jnp.log1p(-v), jnp.log(v) + jnp.maximum(d, 1.0))
    known = n * (jnp.where(d < 1.0, near, far) - v * d)
    return jnp.where(count > 0, known, r * jax.nn.softplus(z - jnp.log(r)))


def _check_counts(y: Any, name: str) -> None:
    counts = np.asarray(y)
    require_sites((counts >= 0) & (counts == np.floor(counts)), name, "counts 0, 1, 2, ...", counts)
