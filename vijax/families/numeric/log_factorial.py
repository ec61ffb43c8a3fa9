"""Log-factorials of counts and their expectations, without the terms of size x log x, which cancel
on paper.

    log x! = x log x - x + G(x),     G(x) = log(2 pi x) / 2 + O(1 / x)

The expectation of log x! is not a function of E[x], but needs no sum over x. By log x! = int_0^inf
[x e^-t - (1 - e^{-x t}) / (e^t - 1)] dt / t it follows from E[e^{-x t}], and its excess over log
Gamma(1 + E[x]) is the integral of a positive bounded function, of order 1 where the terms of the
sum would be of order 1e7. For x ~ Binomial(n, p), with s = 1 - e^-t and a = -log(1 - p s), E[e^{-x
t}] = e^{-n a} and

    E[log x!] - log Gamma(1 + n p) = int_0^inf (e^{-n a} - e^{-n p t}) / (t (e^t - 1)) dt.

For a Poisson law of mean m the same holds with n a = m s and n p = m."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import zeta

from vijax.families.numeric import special
from vijax.families.numeric.excess import horner, log_excess

_POWERS = np.arange(2, 50)
_SERIES = [1.0 - np.euler_gamma, *((-1.0) ** _POWERS * (zeta(_POWERS) - 1.0) / _POWERS)]
_STEP = 0.1
_TAU = np.arange(-3.0, 5.95, _STEP)
_NODES = np.exp(_TAU - np.exp(-_TAU))
_WEIGHTS = _NODES * (1.0 + np.exp(-_TAU)) * _STEP


def log_factorial_gap(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """G(x) = log Gamma(1 + x) - x log x + x, for x >= 0; G(0) = 0.

    >>> round(float(log_factorial_gap(jnp.float32(1e6))), 5), float(log_factorial_gap(jnp.float32(0.0)))
    (7.82669, 0.0)
    """
    small = jnp.clip(x, jnp.finfo(x.dtype).tiny, 1.0)
    large = jnp.maximum(x, 1.0)
    # log Gamma(1 + x) = -log(1 + x) + (1 - gamma) x + sum_k (-1)^k (zeta(k) - 1) x^k / k, k from 2,
    # with small relative error (Abramowitz and Stegun 1964, 6.1.33)
    below = small * horner(_SERIES, small) - jnp.log1p(small) - small * jnp.log(small) + small
    above = special.legendre_gap(large) - large * special.log_minus_digamma(large) + jnp.log(large)
    return jnp.where(x > 0, jnp.where(x < 1.0, below, above), 0.0)


def deviance(x: Float[Array, "*shape"], log_mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """x log(x / m) - x + m for counts x, m = exp(log_mean), without a large difference."""
    count = jnp.maximum(x, 1.0)
    mean = jnp.exp(log_mean)
    excess = log_excess((mean - count) / count, log_mean - jnp.log(count))
    return jnp.where(x > 0, count * excess, mean)


def is_count(x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """True where x is 0, 1, 2, ..."""
    return (x >= 0) & (x == jnp.floor(x)) & jnp.isfinite(x)


def poisson_gap(mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """E[log x!] - m log m + m for x ~ Poisson(m): log(2 pi e m) / 2 + O(1 / m)."""
    exponents = lambda t: (-mean * jnp.expm1(-t), mean * special.expm1_minus_identity(-t))
    return log_factorial_gap(mean) + _excess(mean, exponents)


def binomial_gap(total: float | Array, p: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """E[log x!] - m log m + m for x ~ Binomial(total, p), m = total p."""

    def exponents(t: Array) -> tuple[Array, Array]:
        a = -jnp.log1p(p * jnp.expm1(-t))
        d = p * special.expm1_minus_identity(-t) - special.expm1_minus_identity(-a)
        return total * a, total * d

    return log_factorial_gap(total * p) + _excess(total * p, exponents)


def _excess(mean: Array, exponents: Callable[[Array], tuple[Array, Array]]) -> Array:
    """The integral of e^{-b} (1 - e^{-d}) / (t (e^t - 1)) over t > 0, where `exponents` gives b(t)
    and d(t): by the trapezium rule after a doubly exponential substitution, in units of the
    integrand's length 1 / (1 + mean)."""
    length = jax.lax.stop_gradient(1.0 / (1.0 + mean))

    def add(sum_so_far: Array, node_and_weight: Array) -> tuple[Array, None]:
        node, weight = node_and_weight
        t = length * node
        b, d = exponents(t)
        height = -jnp.exp(-b) * jnp.expm1(-d) / (t * jnp.expm1(t))
        return sum_so_far + height * (length * weight), None

    rule = jnp.stack([jnp.asarray(_NODES, mean.dtype), jnp.asarray(_WEIGHTS, mean.dtype)], axis=1)
    return jax.lax.scan(add, jnp.zeros_like(mean), rule)[0]
