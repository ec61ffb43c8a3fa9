"""Differences that would be nothing but rounding if computed as written: m - 1 - log m, a b - c d."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from vijax.families.numeric.polynomial import horner


@jax.custom_jvp
@jax.jit
def log_excess(excess: Float[Array, "*shape"], log: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """m - 1 - log m, which is not negative, from m - 1 and log m.

    A caller that can write m - 1 without cancellation (as a difference of parameters, say) loses no digit of it here:
    near m = 1 this is a series in m - 1 (Loader 2000), elsewhere the difference, which alone reads `log`."""
    near = _is_near(excess)
    return jnp.where(near, log_excess_series(jnp.where(near, excess, 0.0)), excess - log)


def _is_near(excess: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
    return jnp.abs(excess) < 0.5


def log_excess_series(e: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """e - log(1 + e), |e| < 1/2, by log(1 + e) = 2 artanh(s), s = e / (2 + e)."""
    s = e / (2.0 + e)
    num_terms = 18 if e.dtype == jnp.float64 else 6
    return s * (e - 2.0 * s * s * horner([1.0 / (2 * k + 3) for k in range(num_terms)], s * s))


@log_excess.defjvp
def _log_excess_jvp(primals: tuple, tangents: tuple) -> tuple:
    (excess, log), (d_excess, d_log) = primals, tangents
    near = _is_near(excess)
    slope = jnp.where(near, excess, 0.0) / (1.0 + jnp.where(near, excess, 0.0))
    return log_excess(excess, log), jnp.where(near, slope * d_excess, d_excess - d_log)


@jax.custom_jvp
def product_difference(a: Array, b: Array, c: Array, d: Array) -> Array:
    """a b - c d, right to the last bits of the difference: in float32 every factor is cut into two halves, whose
    products are exact. (In float64 the plain difference.)"""
    if jnp.result_type(a, b, c, d) != jnp.float32:
        return a * b - c * d
    (a1, a2), (b1, b2), (c1, c2), (d1, d2) = map(_halves, (a, b, c, d))
    return (a1 * b1 - c1 * d1) + ((a1 * b2 + a2 * b1 + a2 * b2) - (c1 * d2 + c2 * d1 + c2 * d2))


def less_half_product(raw: Array, x: Array, y: Array, strength: Array) -> Array:
    """raw - x y / (2 strength), right to the last bits of the difference, as `product_difference` is: the rate that
    remains of a raw rate without the square of a location. The rounding of the quotient is taken off again, to first
    order; NumPy's wider numbers serve where they are at hand."""
    if isinstance(raw, np.ndarray):
        wide = np.longdouble if raw.dtype == np.float64 else np.float64
        x, y, strength = (np.asarray(z, wide) for z in (x, y, strength))
        return (raw - x * y / (2.0 * strength)).astype(raw.dtype)
    half = y / (2.0 * strength)
    one = jnp.ones_like(half)
    rest = product_difference(y, one, half, 2.0 * strength) / (2.0 * strength)
    return product_difference(raw, one, x, half) - x * rest


def _halves(x: Array) -> tuple[Array, Array]:
    """The leading 12 bits of a float32, and the other 12."""
    x = jnp.asarray(x, jnp.float32)
    leading = lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(0xFFFFF000), jnp.float32)
    return leading, x - leading


@product_difference.defjvp
def _product_difference_jvp(primals: tuple, tangents: tuple) -> tuple:
    (a, b, c, d), (da, db, dc, dd) = primals, tangents
    return product_difference(a, b, c, d), a * db + b * da - c * dd - d * dc


@jax.custom_jvp
def without_rounding_below_zero(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """max(x, 0) for an x that is positive but for rounding: its derivative is that of x."""
    return jnp.maximum(x, 0.0)


without_rounding_below_zero.defjvps(lambda dx, _, x: dx)
