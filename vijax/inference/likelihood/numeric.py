"""Likelihoods with mean e^z: counts y = 0, 1, 2, ..., and positive observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammainc, gammaincc, gammaln
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positives, check_arguments
from vijax.families.numeric.log_factorial import deviance, log_factorial_gap
from vijax.families.numeric.special import stirling_gap
from vijax.families.scalar.poisson import poisson_values
from vijax.inference.likelihood.base import Likelihood, Moments, support
from vijax.xla.by_value import cache_by_value


@cache_by_value
def poisson_log() -> Likelihood:
    """p(y | z) = Poisson(y; e^z). Its expectations are closed, E e^z = e^(m + v/2); its f has no
    Lipschitz gradient (Khan et al. 2016, appendix A.1), so give it
    `vijax.step_size.backtracking()`.

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
        check=_counts("poisson_log"),
        mean=jnp.exp,
        cdf=lambda y, z: jnp.where(
            y < 0, 0.0, gammaincc(jnp.floor(jnp.maximum(y, 0.0)) + 1.0, jnp.exp(z))
        ),
        sample=lambda key, z: poisson_values(key, jnp.exp(z)).astype(z.dtype),
    )


@cache_by_value
@check_arguments
def negative_binomial(dispersion: Positives = 1.0) -> Likelihood:
    """p(y | z) = NegativeBinomial(y; mean e^z, variance e^z + e^2z / r).

    Args:
      dispersion: dispersion r; a large one is near Poisson.
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
        check=_counts("negative_binomial"),
        mean=jnp.exp,
        cdf=cdf,
        sample=sample,
    )


def _deviance(count: Float[Array, "*shape"], z: Array, r: Array) -> Float[Array, "*shape"]:
    """The log density of a negative binomial at a mean of y, minus its log density.

    With n = y + r, v = min(y, r) / n, and d the logarithm of mean / y (of y / mean for y > r), it
    is n (log(1 + v (e^d - 1)) - v d), of terms of the size of n v d. At y = 0 it is r log(1 + mean
    / r)."""
    none = jnp.where(count > 0, 0.0, 1.0).astype(z.dtype)
    n = count + r
    v = jnp.minimum(count, r) / n
    sign = jnp.where(count < r, 1.0, -1.0).astype(z.dtype)
    d = sign * (z - jnp.log(jnp.where(count > 0, count, r)))
    d = jnp.clip(d, jnp.finfo(z.dtype).min, jnp.finfo(z.dtype).max)  # v d must be finite
    return n * (_log_mixture(v, none, d) - v * d)


FAR = 80.0
"""Above it log(1 + v (e^d - 1)) is linear in d. Its exponential is below the largest float32."""


@jax.custom_jvp
def _log_mixture(v: Array, none: Array, d: Array) -> Array:
    """log(1 + v (e^d - 1) + none e^d), where none is a flag without a slope.

    With a = v + none and c = 1 - v its slope in d is sigma(d + log(a / c)). Neither this nor its
    slope in v has a power of e^d."""
    capped = jnp.minimum(d, FAR)
    return jnp.log1p(v * jnp.expm1(capped) + none * jnp.exp(capped)) + (d - capped)


@_log_mixture.defjvp
def _log_mixture_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (v, none, d), (dv, _, dd) = primals, tangents
    a, c = v + none, 1.0 - v
    share = jax.nn.sigmoid(d + jnp.log(a) - jnp.log1p(-v))
    return _log_mixture(v, none, d), share * dd + (share / a - (1.0 - share) / c) * dv


def _counts(name: str) -> Callable[[Any], None]:
    return support(name, "counts 0, 1, 2, ...", lambda y: (y >= 0) & (y == np.floor(y)))


@cache_by_value
@check_arguments
def gamma_log(shape: Positives = 1.0) -> Likelihood:
    """p(y | z) = Gamma(y; mean e^z, shape k), variance e^2z / k, for times, sizes, prices: gamma
    regression with logarithmic link (McCullagh and Nelder 1989, section 8).

    Its expectations are closed, E e^-z = e^(v/2 - m). As for Poisson, f has no Lipschitz gradient
    (Khan et al. 2016, appendix A.1), so give it `vijax.step_size.backtracking()`.

    Args:
      shape: shape k of the gamma distribution; 1 for exponential times.

    >>> round(float(gamma_log(2.0).closed_form(3.0, jnp.array(0.0), jnp.array(1e-6)).slope), 4)
    4.0
    """
    k = jnp.asarray(shape)

    def constant(y: Any) -> Array:
        return k * jnp.log(k) - gammaln(k) + (k - 1.0) * jnp.log(y)

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        ratio = k * y * jnp.exp(0.5 * v - m)
        return Moments(constant(y) - k * m - ratio, ratio - k, -ratio)

    return Likelihood(
        lambda y, z: constant(y) - k * z - k * y * jnp.exp(-z),
        name="gamma_log",
        kinks=lambda y: jnp.log(y)[None],
        log_concave=True,
        closed_form=closed_form,
        check=support("gamma_log", "positive finite numbers", lambda y: (y > 0) & np.isfinite(y)),
        mean=jnp.exp,
        cdf=lambda y, z: gammainc(k, k * jnp.maximum(y, 0.0) * jnp.exp(-z)),
        sample=lambda key, z: (
            jax.random.gamma(key, k.astype(z.dtype), z.shape, z.dtype) * jnp.exp(z) / k
        ),
    )
