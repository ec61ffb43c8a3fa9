"""Polynomials, and differences that keep their digits: m - 1 - log m, a b - c d, and the gamma
density, which consists of them."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float


def horner(coefficients: Sequence[float], x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The polynomial with these coefficients, constant first, in the dtype of `x`."""
    total = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + jnp.asarray(c, x.dtype)
    return total


def horner_slope(
    coefficients: Sequence[float], x: Float[Array, "*shape"], x2: Float[Array, "*shape"]
) -> Array:
    """(p(x) - p(x')) / (x - x') of the polynomial with these coefficients."""
    value, slope = jnp.full_like(x, coefficients[-1]), jnp.zeros_like(x)
    for c in reversed(coefficients[:-1]):
        slope, value = slope * x2 + value, value * x + jnp.asarray(c, x.dtype)
    return slope


@jax.custom_jvp
@jax.jit
def log_excess(
    excess: Float[Array, "*shape"], log: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """m - 1 - log m, which is not negative, from m - 1 and log m.

    No digit of m - 1 is lost: near m = 1 it is a series in m - 1 (Loader 2000), elsewhere the
    difference. Only the difference reads `log`."""
    is_small = jnp.abs(excess) < 0.5
    series = log_excess_series(jnp.where(is_small, excess, 0.0))
    return jnp.where(is_small, series, excess - log)


def log_excess_series(e: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """e - log(1 + e), |e| < 1/2, by log(1 + e) = 2 artanh(s), s = e / (2 + e)."""
    s = e / (2.0 + e)
    num_terms = 18 if e.dtype == jnp.float64 else 6
    return s * (e - 2.0 * s * s * horner([1.0 / (2 * k + 3) for k in range(num_terms)], s * s))


@log_excess.defjvp
def _log_excess_jvp(primals: tuple, tangents: tuple) -> tuple:
    (excess, log), (d_excess, d_log) = primals, tangents
    is_small = jnp.abs(excess) < 0.5
    slope = jnp.where(is_small, excess, 0.0) / (1.0 + jnp.where(is_small, excess, 0.0))
    return log_excess(excess, log), jnp.where(is_small, slope * d_excess, d_excess - d_log)


@jax.custom_jvp
@jax.jit
def product_difference(a: Array, b: Array, c: Array, d: Array) -> Array:
    """a b - c d, right to the last bits: in float32 every factor is split into two halves whose
    products are exact. In float64 it is the plain difference."""
    if jnp.result_type(a, b, c, d) != jnp.float32:
        return a * b - c * d
    (a1, a2), (b1, b2), (c1, c2), (d1, d2) = map(_halves, (a, b, c, d))
    return (a1 * b1 - c1 * d1) + ((a1 * b2 + a2 * b1 + a2 * b2) - (c1 * d2 + c2 * d1 + c2 * d2))


def less_half_product(raw: Array, x: Array, y: Array, strength: Array) -> Array:
    """raw - x y / (2 strength), right to the last bits: a raw rate without the square of a
    location. The rounding of the quotient is corrected to first order; NumPy arrays are computed in
    NumPy's wider floats."""
    if isinstance(raw, np.ndarray):
        wide = np.longdouble if raw.dtype == np.float64 else np.float64
        x, y, strength = (np.asarray(z, wide) for z in (x, y, strength))
        return (raw - x * y / (2.0 * strength)).astype(raw.dtype)
    return _less_half_product(raw, x, y, strength)


@jax.jit
def _less_half_product(raw: Array, x: Array, y: Array, strength: Array) -> Array:
    half = y / (2.0 * strength)
    ones = jnp.ones_like(half)
    rounding = product_difference(y, ones, half, 2.0 * strength) / (2.0 * strength)
    return product_difference(raw, ones, x, half) - x * rounding


def _halves(x: Array) -> tuple[Array, Array]:
    """The leading 12 bits of a float32, and the trailing 12."""
    x = jnp.asarray(x, jnp.float32)
    leading_bits = lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(0xFFFFF000)
    leading = lax.bitcast_convert_type(leading_bits, jnp.float32)
    return leading, x - leading


@product_difference.defjvp
def _product_difference_jvp(primals: tuple, tangents: tuple) -> tuple:
    (a, b, c, d), (da, db, dc, dd) = primals, tangents
    return product_difference(a, b, c, d), a * db + b * da - c * dd - d * dc


@jax.custom_jvp
def clip_rounding(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """max(x, 0) for an x that only rounding makes negative; the derivative is that of x."""
    return jnp.maximum(x, 0.0)


clip_rounding.defjvps(lambda dx, _, x: dx)


def log_gamma_kernel(x: Array, shape: Array, rate: Array, excess: Array) -> Float[Array, "*shape"]:
    """(a - 1) log x - b x + a log(b / a) + a for shape a and rate b, from `excess`, (b x - a) / a
    without cancellation: the part of a log density that gammas, betas and Dirichlets share.

    It is -a (m - 1 - log m) - log x with m = b x / a (the deviance form), which has no difference
    of terms of size a. At x = 0 it is the limit: infinite for a < 1, 1 + log b for a = 1, -inf for
    a > 1. It is -inf at x < 0 and at infinity. No derivative is NaN."""
    is_valid = (x > 0) & jnp.isfinite(x)
    safe = jnp.where(is_valid, x, 1.0)
    log_x = jnp.log(safe)
    log_mean_ratio = log_x + jnp.log(rate / shape)
    regular = -shape * log_excess(jnp.where(is_valid, excess, 0.0), log_mean_ratio) - log_x
    infinite = jnp.where(shape < 1.0, jnp.inf, -jnp.inf)
    limit = jnp.where(shape == 1.0, 1.0 + jnp.log(rate), infinite)
    invalid = jnp.where(x == 0, limit, jnp.where(jnp.isnan(x), jnp.nan, -jnp.inf))
    return jnp.where(is_valid, regular, invalid)


def total_log_density(terms: Float[Array, "*shape n"]) -> Float[Array, "*shape"]:
    """The sum over the last axis; -inf if a term is -inf, even if another one is inf."""
    is_impossible = terms == -jnp.inf
    total = jnp.sum(jnp.where(is_impossible, 0.0, terms), axis=-1)
    return jnp.where(jnp.any(is_impossible, axis=-1), -jnp.inf, total)
