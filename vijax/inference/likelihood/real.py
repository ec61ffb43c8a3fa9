"""Real observations."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammainc, gammaln, ndtr
from jaxtyping import Array

from vijax.arguments import Positives, checked
from vijax.families.base import as_float
from vijax.inference.likelihood.base import Likelihood, Moments, require_sites
from vijax.xla.by_value import by_value


@by_value
@checked
def gaussian(variance: Positives = 1.0) -> Likelihood:
    """p(y | z) = N(y; z, s^2): the conjugate case, where one step of size 1 is exact inference.

    Args:
      variance: variance s^2 of the noise.

    Raises:
      ValueError: the variance is not positive.
    """
    s2 = jnp.asarray(variance)

    def log_prob(y: Any, z: Array) -> Array:
        return -0.5 * (y - z) ** 2 / s2 - 0.5 * jnp.log(2 * math.pi * s2)

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        return Moments(log_prob(y, m) - 0.5 * v / s2, (y - m) / s2, jnp.broadcast_to(-1.0 / s2, jnp.shape(m)))

    return Likelihood(
        log_prob,
        name="gaussian",
        log_concave=True,
        closed_form=closed_form,
        check=lambda y: require_sites(np.isfinite(np.asarray(y)), "gaussian", "finite numbers", y),
        mean=lambda z: z,
        cdf=lambda y, z: ndtr((y - z) / jnp.sqrt(s2)),
        sample=lambda key, z: z + jnp.sqrt(s2).astype(z.dtype) * jax.random.normal(key, z.shape, z.dtype),
    )


@by_value
@checked
def gamma_log(shape: Positives = 1.0) -> Likelihood:
    """p(y | z) = Gamma(y; mean e^z, shape k), variance e^2z / k: times, sizes, prices. A gamma regression with
    logarithmic link (McCullagh and Nelder 1989, section 8).

    Its expectations are closed, E e^-z = e^(v/2 - m); like Poisson's its f has no Lipschitz gradient (Khan et al. 2016,
    appendix A.1), so give it `vijax.step_size.backtracking()`.

    Args:
      shape: shape k of the gamma distribution; 1 for exponential times.

    Raises:
      ValueError: the shape is not positive.

    >>> round(float(gamma_log(2.0).closed_form(3.0, jnp.array(0.0), jnp.array(1e-6)).slope), 4)
    4.0
    """
    k = jnp.asarray(shape)

    def known(y: Any) -> Array:
        return k * jnp.log(k) - gammaln(k) + (k - 1.0) * jnp.log(y)

    def closed_form(y: Any, m: Array, v: Array) -> Moments:
        ratio = k * y * jnp.exp(0.5 * v - m)
        return Moments(known(y) - k * m - ratio, ratio - k, -ratio)

    return Likelihood(
        lambda y, z: known(y) - k * z - k * y * jnp.exp(-z),
        name="gamma_log",
        kinks=lambda y: jnp.log(y)[None],
        log_concave=True,
        closed_form=closed_form,
        check=lambda y: require_sites(_positive(y), "gamma_log", "positive finite numbers", y),
        mean=jnp.exp,
        cdf=lambda y, z: gammainc(k, k * jnp.maximum(y, 0.0) * jnp.exp(-z)),
        sample=lambda key, z: jax.random.gamma(key, k.astype(z.dtype), z.shape, z.dtype) * jnp.exp(z) / k,
    )


@by_value
@checked
def student_t(degrees: Positives = 4.0, scale: Positives = 1.0) -> Likelihood:
    """p(y | z) = Student-t(y; location z, scale s, nu degrees of freedom). Not log-concave: sites of outliers may have
    negative precision.

    Args:
      degrees: degrees of freedom.
      scale: scale s of the noise.

    Raises:
      ValueError: either is not positive.
    """
    nu, s = as_float(degrees), as_float(scale)

    def log_prob(y: Any, z: Array) -> Array:
        constant = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * jnp.log(nu * math.pi) - jnp.log(s)
        return constant - 0.5 * (nu + 1) * jnp.log1p(((y - z) / s) ** 2 / nu)

    def cdf(y: Any, z: Array) -> Array:
        t = (y - z) / s
        tail = 0.5 * betainc(0.5 * nu, jnp.full_like(nu, 0.5), nu / (nu + t**2))
        return jnp.where(t > 0, 1.0 - tail, tail)

    return Likelihood(
        log_prob,
        name="student_t",
        kinks=lambda y: jnp.atleast_1d(y),
        width=s * jnp.sqrt(nu),
        analytic=True,
        check=lambda y: require_sites(np.isfinite(np.asarray(y)), "student_t", "finite numbers", y),
        mean=lambda z: z,
        cdf=cdf,
        sample=lambda key, z: z + s * jax.random.t(key, nu.astype(z.dtype), z.shape, z.dtype),
    )


def _positive(y: Any) -> Any:
    values = np.asarray(y)
    return (values > 0) & np.isfinite(values)
