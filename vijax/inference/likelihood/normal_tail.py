"""The tail of the normal distribution by one polynomial: Mills' ratio R = (1 - Phi) / phi; and log
Phi with derivatives without cancellation.

    1 / R(x) = x + g(x),    g(x) = 1 / (x + 2 / (x + 3 / (x + ...))),

and (1 + x) g(x) is nearly a polynomial in (x - 4) / (x + 4), since its singularities are far from x
>= 0. With h = x + g, for z = -x < 0, log Phi = -x^2 / 2 - log sqrt(2 pi) - log h, its derivative is
h, and its second derivative -h g."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from vijax.families.numeric.excess import horner

DEGREE = {True: 12, False: 24}
"""Degree of the polynomial in float32 and in float64; its errors are 6e-8 and 5e-15."""
CENTRE = 4.0
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


def excess(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """g(x) for x >= 0: the mean of a normal variable beyond x, minus x.

    >>> [f"{float(g):.5f}" for g in excess(jnp.array([0.0, 100.0]))]
    ['0.79788', '0.01000']
    """
    coefficients = _coefficients(DEGREE[x.dtype != jnp.float64])
    return horner(coefficients, (x - CENTRE) / (x + CENTRE)) / (1.0 + x)


@jax.custom_jvp
def log_ndtr(z: Float[Array, ""]) -> Float[Array, ""]:
    """log Phi(z). Value and first two derivatives are accurate in both tails.

    >>> float(jax.grad(log_ndtr)(jnp.float32(-1e4)))
    10000.0
    """
    x, _, h, above = _parts(z)
    return jnp.where(z < 0, -0.5 * x * x - _LOG_ROOT_TWO_PI - jnp.log(h), jnp.log1p(-above))


@jax.custom_jvp
def _slope(z: Array) -> Array:
    _, _, h, above = _parts(z)
    return jnp.where(z < 0, h, above * h / (1.0 - above))


def _curvature(z: Array) -> Array:
    _, g, h, _ = _parts(z)
    slope = _slope(z)
    return jnp.where(z < 0, -h * g, -slope * (slope + jnp.maximum(z, 0.0)))


def _parts(z: Array) -> tuple[Array, Array, Array, Array]:
    """x = |z|, g(x), h(x), and the probability beyond x."""
    x = jnp.where(z < 0, -z, z)  # with a slope of one at zero
    g = excess(x)
    h = x + g
    return x, g, h, jnp.exp(-0.5 * x * x - _LOG_ROOT_TWO_PI) / h


log_ndtr.defjvps(lambda dz, _, z: _slope(z) * dz)
_slope.defjvps(lambda dz, _, z: _curvature(z) * dz)


@functools.cache
def _coefficients(degree: int) -> tuple[float, ...]:
    """The coefficients of (1 + x) g(x) in t = (x - c) / (x + c), by interpolation."""
    polynomial = np.polynomial.Chebyshev.interpolate(_scaled_excess, degree)
    return tuple(polynomial.convert(kind=np.polynomial.Polynomial).coef.tolist())


def _scaled_excess(t: np.ndarray) -> np.ndarray:
    """(1 + x) g(x): from R for x up to 1.5, from the fraction beyond."""
    x = CENTRE * (1 + t) / (1 - t)
    large = np.maximum(x, 1.5)
    fraction = np.zeros_like(x)
    for k in range(400, 0, -1):
        fraction = k / (large + fraction)
    small = np.minimum(x, 1.5)
    from_ratio = math.sqrt(2 / math.pi) / special.erfcx(small / math.sqrt(2)) - small
    return (1 + x) * np.where(x > 1.5, fraction, from_ratio)
