"""The density of the Polya-gamma law PG(b, c), for every b > 0, as the integral of its Laplace
transform.

With l = -c^2 / 2 the law has E exp(-s w) = exp(-A(l)) cosh(sqrt(s' / 2))^-b, s' = s + c^2 / 2.
Hence its density is

    p(x) = 1 / (2 pi i) int exp(s' x + l x - A) cosh(sqrt(s' / 2))^-b ds',       A(l) = -b log cosh(c / 2),

over a path with the poles s' / 2 = -(k + 1/2)^2 pi^2 on its left. On the parabola s' / 2 = zeta^2 -
pi^2 / 4, zeta = sigma + i v, the poles are on the imaginary axis of zeta, the first at 0. The
integrand falls like exp(-2 x v^2) and is analytic within sigma of the path, so the trapezium rule
converges geometrically. With sigma at the saddle point, where x = b tanh(z) / (4 z), z = sqrt(s' /
2), the integrand is a bell of width W, sigma >= 2 sqrt(b) W. No two large terms cancel, even in the
tails; there the alternating series (Polson, Scott and Windle 2013, eq. 5) adds terms of order one
to a sum of exp(-5 x). The factor of the bell is computed separately, as the difference of exponents
at the saddle and at c / 2; its terms are large only where the density is small."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_FOCUS = math.pi**2 / 4
# In widths of the bell; errors of exp(-4 pi / 0.3) and exp(-13^2 / 4), both below 1e-17.
_STEP = 0.3
_REACH = 13.0
_OFFSETS = np.arange(0.0, _REACH, _STEP)
_WEIGHTS = np.where(_OFFSETS == 0, 0.5, 1.0) * _STEP
_SMALLEST_RATIO = 1e-5
"""The 4 x / b below which the first term of the series is exact to rounding."""


class Bell(NamedTuple):
    """The integrand about its saddle; the nodes are the last axis."""

    weights: Array  # complex values at the nodes, divided by the factor: 1 at the saddle
    excess: Array  # s' + l at the nodes: s' less c^2 / 2, the s' of the mean
    level: Float[Array, "*shape"]  # logarithm of the factor

    def total(self, values: Array | float = 1.0) -> Float[Array, "*shape"]:
        """The integral of values times the integrand, divided by the factor."""
        return jnp.sum(jnp.real(self.weights * values), axis=-1)


def log_density(
    x: Float[Array, "*shape"], natural: Float[Array, "*shape"], b: float
) -> Float[Array, "*shape"]:
    """log p(x) of PG(b, c) at x > 0, natural = -c^2 / 2; the arguments broadcast."""
    x, natural = jnp.broadcast_arrays(x, natural)
    ratio = 4.0 * x / b
    bell = _bell(_clip(x, b), natural, b)
    first_term = (
        b * (math.log(2.0) - b / (8.0 * x))
        + math.log(b)
        - 0.5 * jnp.log(2 * math.pi * x)
        - jnp.log(x)
    )
    first_term = first_term + natural * x + b * log_cosh(0.5 * tilt(natural))
    return jnp.where(ratio < _SMALLEST_RATIO, first_term, jnp.log(bell.total()) + bell.level)


def score(
    x: Float[Array, "*shape"], natural: Float[Array, "*shape"], b: float
) -> Float[Array, "*shape"]:
    """d log p(x) / dx, the mean of s' + l over the path."""
    x, natural = jnp.broadcast_arrays(x, natural)
    bell = _bell(_clip(x, b), natural, b)
    mean = bell.total(bell.excess) / bell.total()
    return jnp.where(4.0 * x / b < _SMALLEST_RATIO, b**2 / (8.0 * x**2), mean)


def slope(x: Array, natural: Array, b: float, mean: Array) -> Float[Array, "*shape"]:
    """dx / dl at a fixed quantile, -(dF / dl) / p(x) (implicit reparameterisation; Figurnov,
    Mohamed and Mnih 2018).

    dF / dl = E[(w - mean); w <= x] is the integral of (x - mean - 1 / u) / u times the integrand, u
    = s' + l. At the pole u = 0 the residue is zero, so the path may pass it on either side, but at
    some distance."""
    x, natural, mean = jnp.broadcast_arrays(x, natural, mean)
    bell = _bell(_clip(x, b), natural, b, around_pole=True)
    u = bell.excess
    return -bell.total(((x - mean)[..., None] - 1.0 / u) / u) / bell.total()


def _clip(x: Array, b: float) -> Array:
    """x, no smaller than the bell serves."""
    return jnp.maximum(x, 0.25 * b * _SMALLEST_RATIO)


def tilt(natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """c >= 0 from the natural parameter."""
    return jnp.sqrt(jnp.maximum(-2.0 * natural, 0.0))


def log_cosh(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log cosh x for x >= 0."""
    return x + jnp.log1p(jnp.exp(-2.0 * x)) - math.log(2.0)


def _bell(x: Array, natural: Array, b: float, around_pole: bool = False) -> Bell:
    """The bell as a constant: the integrals do not depend on the path, and derivatives have their
    own formulas."""
    x, natural = jax.lax.stop_gradient((x, natural))
    c = tilt(natural)
    sigma = jnp.sqrt(_saddle(4.0 * x / b))
    pole = jnp.sqrt(0.25 * c**2 + _FOCUS)
    # 1 / W^2 = -4 b sigma^2 (log cosh z)'', in z^2
    width = 1.0 / jnp.sqrt(-2.0 * b * sigma**2 * _tanhc(sigma**2)[1])
    if around_pole:
        sigma = jnp.where(jnp.abs(sigma - pole) < width, pole + width, sigma)
    offsets, shares = (
        jnp.asarray(table, x.dtype)[(None,) * width.ndim] for table in (_OFFSETS, _WEIGHTS)
    )
    v = width[..., None] * offsets
    change = jax.lax.complex(-(v**2), 2.0 * sigma[..., None] * v)  # zeta^2 - sigma^2
    zeta = jax.lax.complex(jnp.broadcast_to(sigma[..., None], v.shape), v)
    growth = 2.0 * x[..., None] * change - b * _log_cosh_ratio(sigma, change)
    weights = jnp.exp(growth) * zeta * shares
    gap = (sigma - pole) * (sigma + pole)  # z^2 - c^2 / 4 at the saddle
    exponent = 2.0 * x * gap - b * _log_cosh_quotient(sigma, gap, c)
    level = exponent + jnp.log(width * (4.0 / math.pi))
    return Bell(weights, 2.0 * (gap[..., None] + change), level)


def _saddle(ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The sigma^2 with tanh(z) / z = ratio, z^2 = sigma^2 - pi^2 / 4, by Newton's steps."""

    def step(_: int, square: Array) -> Array:
        value, derivative = _tanhc(square)
        log_step = (jnp.log(ratio) - jnp.log(value)) * value / (derivative * square)
        return square * jnp.exp(jnp.clip(log_step, -1.0, 1.0))

    start = 1.0 / ratio**2 + (2.0 - 0.533 / (1.0 + ratio)) / ratio
    return jax.lax.fori_loop(0, 5, step, start)


def _tanhc(square: Float[Array, "*shape"]) -> tuple[Array, Array]:
    """tanh(z) / z and its derivative in z^2, at z^2 = square - pi^2 / 4."""
    r = square - _FOCUS
    is_small = jnp.abs(r) < 0.01
    z, theta, complement = _roots(square)
    safe = jnp.where(is_small, 1.0, r)
    real = jnp.tanh(z) / jnp.where(is_small, 1.0, z)
    imaginary = 1.0 / (jnp.tan(complement) * jnp.where(is_small, 1.0, theta))
    value = jnp.where(r > 0, real, imaginary)
    squared_sech = jnp.where(r > 0, 1.0 - jnp.tanh(z) ** 2, 1.0 / jnp.sin(complement) ** 2)
    slope = (squared_sech - value) / (2.0 * safe)
    value_series = 1.0 - r / 3 + 2 * r**2 / 15
    slope_series = -1 / 3 + 4 * r / 15 - 17 * r**2 / 105
    return jnp.where(is_small, value_series, value), jnp.where(is_small, slope_series, slope)


def _roots(square: Float[Array, "*shape"]) -> tuple[Array, Array, Array]:
    """The root z of z^2 = square - pi^2 / 4 where it is real, and theta = z / i and pi / 2 - theta
    where it is imaginary; finite numbers elsewhere."""
    r = square - _FOCUS
    z = jnp.sqrt(jnp.maximum(r, 1e-12))
    theta = jnp.sqrt(jnp.maximum(-r, 1e-12))
    return z, theta, jnp.where(r < 0, square, _FOCUS) / (0.5 * math.pi + theta)


def _log_cosh_ratio(sigma: Float[Array, "*shape"], change: Array) -> Array:
    """log cosh(z) / cosh(z_0) at z^2 = z_0^2 + change, D = z - z_0: for real z_0 as D + log(1 +
    e^-2z) - log(1 + e^-2z_0), for imaginary z_0 as log(cosh D + tanh(z_0) sinh D), which is
    accurate near the zeros of cosh."""
    r = (sigma - math.sqrt(_FOCUS)) * (sigma + math.sqrt(_FOCUS))
    z, theta, complement = (part[..., None] for part in _roots(sigma**2))
    is_real = r[..., None] > 0
    zero = jnp.zeros_like(z)
    start = jnp.where(is_real, jax.lax.complex(z, zero), jax.lax.complex(zero, theta))
    distance = change / (start + jnp.sqrt(start**2 + change))
    real = distance + jnp.log(1.0 + jnp.exp(-2.0 * (z + distance))) - jnp.log1p(jnp.exp(-2.0 * z))
    imaginary_distance = jnp.where(is_real, 0.0, distance)
    tanh = jax.lax.complex(zero, 1.0 / jnp.tan(complement))
    imaginary = jnp.log(jnp.cosh(imaginary_distance) + tanh * jnp.sinh(imaginary_distance))
    return jnp.where(is_real, real, imaginary)


def _log_cosh_quotient(sigma: Array, gap: Array, c: Array) -> Float[Array, "*shape"]:
    """log cosh(z_0) / cosh(c / 2), z_0^2 = c^2 / 4 + gap, without a difference of large terms."""
    z, _, complement = _roots(sigma**2)
    real = gap / (z + 0.5 * c) + jnp.log1p(jnp.exp(-2.0 * z)) - jnp.log1p(jnp.exp(-c))
    imaginary = jnp.log(jnp.sin(complement)) - log_cosh(0.5 * c)
    return jnp.where(sigma**2 > _FOCUS, real, imaginary)
