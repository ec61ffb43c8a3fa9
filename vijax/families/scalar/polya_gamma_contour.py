"""The density of the Polya-gamma law PG(b, c), for every b > 0, as the integral of its Laplace
transform.

With l = -c^2 / 2 the law has E exp(-s w) = exp(-A(l)) cosh(sqrt(s' / 2))^-b, s' = s + c^2 / 2, so
that its density is

    p(x) = 1 / (2 pi i) int exp(s' x + l x - A) cosh(sqrt(s' / 2))^-b ds',       A(l) = -b log cosh(c / 2),

over a path that has the poles s' / 2 = -(k + 1/2)^2 pi^2 on its left. Along the parabola s' / 2 =
zeta^2 - pi^2 / 4, zeta = sigma + i v, they are on zeta's imaginary axis, the first at 0. The
integrand falls like exp(-2 x v^2) and is analytic within sigma of the path, so that the trapezium
rule converges geometrically. With sigma at the saddle point, where x = b tanh(z) / (4 z), z =
sqrt(s' / 2), it is a bell of width W, sigma >= 2 sqrt(b) W, and no two large terms cancel, even in
the tails, where the alternating series (Polson, Scott and Windle 2013, eq. 5) adds terms of order
one to a sum of exp(-5 x). The factor of the bell is taken off first, as the difference of exponents
at the saddle and at c / 2; none of its terms is large where the density is not small."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_FOCUS = math.pi**2 / 4
_STEP, _REACH = (
    0.3,
    13.0,
)  # in widths of the bell: errors of exp(-4 pi / 0.3) and exp(-13^2 / 4), both below 1e-17
_OFFSETS = np.arange(0.0, _REACH, _STEP)
_WEIGHTS = np.where(_OFFSETS == 0, 0.5, 1.0) * _STEP
_LEFT = 1e-5  # of 4 x / b, below which the first term of the series is all there is


class Bell(NamedTuple):
    """The integrand about its saddle; the nodes are the last axis."""

    weights: Array  # its complex values at the nodes, one at the saddle
    excess: Array  # s' + l at the nodes, s' less the place c^2 / 2 that belongs to the mean
    level: Float[Array, "*shape"]  # logarithm of the factor that was taken off

    def total(self, values: Array | float = 1.0) -> Float[Array, "*shape"]:
        """The integral of values times the integrand, without the factor that was taken off."""
        return jnp.sum(jnp.real(self.weights * values), axis=-1)


def log_density(
    x: Float[Array, "*shape"], natural: Float[Array, "*shape"], b: float
) -> Float[Array, "*shape"]:
    """log p(x) of PG(b, c) at x > 0, natural = -c^2 / 2; broadcast together."""
    x, natural = jnp.broadcast_arrays(x, natural)
    ratio = 4.0 * x / b
    bell = _bell(jnp.maximum(x, 0.25 * b * _LEFT), natural, b)
    left = (
        b * (math.log(2.0) - b / (8.0 * x))
        + math.log(b)
        - 0.5 * jnp.log(2 * math.pi * x)
        - jnp.log(x)
    )
    left = left + natural * x + b * log_cosh(0.5 * tilt(natural))
    return jnp.where(ratio < _LEFT, left, jnp.log(bell.total()) + bell.level)


def score(
    x: Float[Array, "*shape"], natural: Float[Array, "*shape"], b: float
) -> Float[Array, "*shape"]:
    """d log p(x) / dx, the mean of s' + l over the path."""
    x, natural = jnp.broadcast_arrays(x, natural)
    bell = _bell(jnp.maximum(x, 0.25 * b * _LEFT), natural, b)
    return jnp.where(
        4.0 * x / b < _LEFT, b**2 / (8.0 * x**2), bell.total(bell.excess) / bell.total()
    )


def slope(x: Array, natural: Array, b: float, mean: Array) -> Float[Array, "*shape"]:
    """dx / dl at a fixed quantile, -(dF / dl) / p(x) (implicit reparameterisation; Figurnov,
    Mohamed and Mnih 2018).

    dF / dl = E[(w - mean); w <= x] is the same integral with (x - mean - 1 / u) / u, u = s' + l,
    beside the integrand. At its pole u = 0 the residue is zero, so that the path may pass it on
    either side, at some distance."""
    x, natural, mean = jnp.broadcast_arrays(x, natural, mean)
    bell = _bell(jnp.maximum(x, 0.25 * b * _LEFT), natural, b, around_pole=True)
    u = bell.excess
    return -bell.total(((x - mean)[..., None] - 1.0 / u) / u) / bell.total()


def tilt(natural: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """c >= 0."""
    return jnp.sqrt(jnp.maximum(-2.0 * natural, 0.0))


def log_cosh(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log cosh x for x >= 0."""
    return x + jnp.log1p(jnp.exp(-2.0 * x)) - math.log(2.0)


def _bell(x: Array, natural: Array, b: float, around_pole: bool = False) -> Bell:
    """The bell, as a constant: the integrals do not depend on the path, and derivatives have their
    own formulas."""
    x, natural = jax.lax.stop_gradient((x, natural))
    c = tilt(natural)
    sigma = jnp.sqrt(_saddle(4.0 * x / b))
    pole = jnp.sqrt(0.25 * c**2 + _FOCUS)
    width = 1.0 / jnp.sqrt(
        -2.0 * b * sigma**2 * _tanhc(sigma**2)[1]
    )  # 1 / W^2 = -4 b sigma^2 (log cosh z)'', in z^2
    if around_pole:
        sigma = jnp.where(jnp.abs(sigma - pole) < width, pole + width, sigma)
    offsets, shares = (
        jnp.asarray(at, x.dtype)[(None,) * width.ndim] for at in (_OFFSETS, _WEIGHTS)
    )
    v = width[..., None] * offsets
    ahead = jax.lax.complex(-(v**2), 2.0 * sigma[..., None] * v)  # zeta^2 - sigma^2
    zeta = jax.lax.complex(jnp.broadcast_to(sigma[..., None], v.shape), v)
    growth = 2.0 * x[..., None] * ahead - b * _log_cosh_ratio(sigma, ahead)
    weights = jnp.exp(growth) * zeta * shares
    past = (sigma - pole) * (sigma + pole)  # of z^2 - c^2 / 4 at the saddle
    level = 2.0 * x * past - b * _log_cosh_over(sigma, past, c) + jnp.log(width * (4.0 / math.pi))
    return Bell(weights, 2.0 * (past[..., None] + ahead), level)


def _saddle(ratio: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """sigma^2 with tanh(z) / z = ratio, z^2 = sigma^2 - pi^2 / 4, by Newton's steps in the
    logarithm of sigma^2."""

    def step(_: int, square: Array) -> Array:
        value, derivative = _tanhc(square)
        log_step = (jnp.log(ratio) - jnp.log(value)) * value / (derivative * square)
        return square * jnp.exp(jnp.clip(log_step, -1.0, 1.0))

    start = 1.0 / ratio**2 + (2.0 - 0.533 / (1.0 + ratio)) / ratio
    return jax.lax.fori_loop(0, 5, step, start)


def _tanhc(square: Float[Array, "*shape"]) -> tuple[Array, Array]:
    """tanh(z) / z and its derivative in z^2, at z^2 = square - pi^2 / 4."""
    r = square - _FOCUS
    near = jnp.abs(r) < 0.01
    z, theta, rest = _parts(square)
    safe = jnp.where(near, 1.0, r)
    value = jnp.where(
        r > 0,
        jnp.tanh(z) / jnp.where(near, 1.0, z),
        1.0 / (jnp.tan(rest) * jnp.where(near, 1.0, theta)),
    )
    squared = jnp.where(r > 0, 1.0 - jnp.tanh(z) ** 2, 1.0 / jnp.sin(rest) ** 2)  # of sech
    series = 1.0 - r / 3 + 2 * r**2 / 15, -1 / 3 + 4 * r / 15 - 17 * r**2 / 105
    return jnp.where(near, series[0], value), jnp.where(
        near, series[1], (squared - value) / (2.0 * safe)
    )


def _parts(square: Float[Array, "*shape"]) -> tuple[Array, Array, Array]:
    """Parts of z^2 = square - pi^2 / 4: z where it is real; theta = z / i and pi / 2 - theta where
    it is not; finite elsewhere too."""
    r = square - _FOCUS
    z = jnp.sqrt(jnp.maximum(r, 1e-12))
    theta = jnp.sqrt(jnp.maximum(-r, 1e-12))
    return z, theta, jnp.where(r < 0, square, _FOCUS) / (0.5 * math.pi + theta)


def _log_cosh_ratio(sigma: Float[Array, "*shape"], ahead: Array) -> Array:
    """log cosh(z) / cosh(z_0) at z^2 = z_0^2 + ahead, D = z - z_0: for real z_0 as D + log(1 +
    e^-2z) - log(1 + e^-2z_0), for imaginary ones as log(cosh D + tanh(z_0) sinh D), which is
    accurate near the zeros of cosh."""
    r = (sigma - math.sqrt(_FOCUS)) * (sigma + math.sqrt(_FOCUS))
    z, theta, rest = (part[..., None] for part in _parts(sigma**2))
    is_real, zero = r[..., None] > 0, jnp.zeros_like(z)
    start = jnp.where(is_real, jax.lax.complex(z, zero), jax.lax.complex(zero, theta))
    distance = ahead / (start + jnp.sqrt(start**2 + ahead))
    real = distance + jnp.log(1.0 + jnp.exp(-2.0 * (z + distance))) - jnp.log1p(jnp.exp(-2.0 * z))
    short = jnp.where(is_real, 0.0, distance)
    imaginary = jnp.log(
        jnp.cosh(short) + jax.lax.complex(zero, 1.0 / jnp.tan(rest)) * jnp.sinh(short)
    )
    return jnp.where(is_real, real, imaginary)


def _log_cosh_over(sigma: Array, past: Array, c: Array) -> Float[Array, "*shape"]:
    """log cosh(z_0) / cosh(c / 2), z_0^2 = c^2 / 4 + past, without the difference of large
    terms."""
    z, _, rest = _parts(sigma**2)
    real = past / (z + 0.5 * c) + jnp.log1p(jnp.exp(-2.0 * z)) - jnp.log1p(jnp.exp(-c))
    return jnp.where(sigma**2 > _FOCUS, real, jnp.log(jnp.sin(rest)) - log_cosh(0.5 * c))
