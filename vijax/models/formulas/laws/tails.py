"""Logarithms of P(Y <= y) and P(Y > y), right in both tails in float32 too.

The smaller of the two is the density at y times an integral of its ratio to that density,

    P(U beyond u) = f(u) integral_0^L e^g(t) dt,   g(t) = log f(u + t) - log f(u) <= 0,

on a scale on which log f is concave: log y for gamma laws, asinh(y / sqrt(nu)) for Student's, log
odds for the beta law behind negative binomial sums. Up to L, where g is below -`DROP`, it is a
Gauss-Legendre sum. It has derivatives of any order in all arguments, and no difference of large
numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float

from vijax.families.numeric.special import log_gamma, stirling_gap
from vijax.models.formulas.laws.law import Aux
from vijax.models.formulas.laws.shares import log_rise

NODES, WEIGHTS = (0.5 * x for x in np.polynomial.legendre.leggauss(48))
"""Half of the nodes in (-1, 1), and of their weights."""
DROP = 34.0
"""Nats below its start at which an integrand is left out."""
FARTHEST = 80.0
"""Largest number whose exponential float32 holds."""
WIDE = 1.0
"""Largest width for which a parabola bounds an integrand."""


class Tails(NamedTuple):
    """Logarithms of the probabilities up to y and beyond it."""

    log_cdf: Any
    log_sf: Any


def normal(aux: Aux, y: Any, eta: Any) -> Tails:
    """The tails of N(eta, sigma^2)."""
    z = (y - eta) / aux["sigma"]
    return Tails(log_ndtr(z), log_ndtr(-z))


def lognormal(aux: Aux, y: Any, eta: Any) -> Tails:
    """The tails of y > 0 with log y ~ N(eta, sigma^2)."""
    return _with_floor(jnp.asarray(y) <= 0, normal(aux, _safe_log(y), eta))


def exponential(aux: Aux, y: Any, eta: Any) -> Tails:
    """The tails of the exponential law of mean e^eta."""
    return _with_floor(jnp.asarray(y) <= 0, _from_sf(-jnp.exp(_safe_log(y) - eta)))


def weibull(aux: Aux, y: Any, eta: Any) -> Tails:
    """The tails of the Weibull law of mean e^eta and shape alpha."""
    alpha = jnp.asarray(aux["alpha"])
    log_scale = eta - log_gamma(1.0 + 1.0 / alpha)
    tails = _from_sf(-jnp.exp(alpha * (_safe_log(y) - log_scale)))
    return _with_floor(jnp.asarray(y) <= 0, tails)


def gamma(aux: Aux, y: Any, eta: Any) -> Tails:
    """The tails of the gamma law of mean e^eta and shape alpha."""
    alpha = jnp.asarray(aux["alpha"])
    tails = _gamma_tails(alpha, _safe_log(y) - eta + jnp.log(alpha))
    return _with_floor(jnp.asarray(y) <= 0, tails)


def poisson(aux: Aux, y: Any, eta: Any) -> Tails:
    """The tails of counts of mean e^eta: P(Y <= y) is P(G > e^eta) with G of shape y + 1. -1 is
    below all."""
    tails = _gamma_tails(jnp.maximum(y, 0.0) + 1.0, eta)
    return _with_floor(jnp.asarray(y) < 0, Tails(tails.log_sf, tails.log_cdf))


def student_t(aux: Aux, y: Any, eta: Any) -> Tails:
    """The tails of eta + sigma T, with nu degrees of freedom."""
    nu = jnp.asarray(aux["nu"])
    z = (y - eta) / aux["sigma"]
    size = jnp.abs(z)
    radius = jnp.sqrt(nu + size**2)
    slope = size / radius  # tanh u at z = sqrt(nu) sinh u
    below = 0.5 * nu / (radius * (radius + size))  # (1 - slope) / 2
    log_ratio = lambda t: -nu * (t + jnp.log1p(below * jnp.expm1(-2 * t)))
    length = _length(nu * slope, nu, DROP / nu + np.log(2.0))
    half = 0.5 * (nu + 1)
    # log Gamma(half) - log Gamma(nu / 2) - log(nu / 2) / 2
    log_constant = log_rise(0.5, 0.5 * nu) - 0.5 * np.log(2 * np.pi)
    log_density = log_constant - half * jnp.log1p(size**2 / nu) + jnp.log(radius)
    return _place(log_density + _log_integral(log_ratio, length), z > 0)


def negative_binomial(aux: Aux, y: Any, eta: Any) -> Tails:
    """The tails of counts of mean e^eta and r = alpha: P(Y <= y) is P(B < p) with B of the law
    Beta(r, y + 1) and p = r / (r + e^eta). -1 is below all."""
    r = jnp.asarray(aux["alpha"])
    b = jnp.maximum(y, 0.0) + 1.0
    log_odds = jnp.log(r) - eta
    is_upper = log_odds > jnp.log(r) - jnp.log(b)
    mode = jnp.log(r) - jnp.log(b)
    lower = _log_beta_tail(r, b, jnp.minimum(log_odds, mode))
    upper = _log_beta_tail(b, r, -jnp.maximum(log_odds, mode))
    odds = jnp.exp(eta) / r
    log_density = log_rise(b, r) - r * jnp.log1p(odds) + b * (eta - jnp.log1p(odds)) - log_gamma(b)
    tails = _place(log_density + jnp.where(is_upper, upper, lower), is_upper)
    return _with_floor(jnp.asarray(y) < 0, tails)


# --- parts ----------------------------------------------------------------------------------------
def _from_sf(log_sf: Array) -> Tails:
    return Tails(log_complement(log_sf), log_sf)


def _place(log_tail: Array, is_upper: Array) -> Tails:
    """Both logarithms, from that of the upper or the lower tail."""
    log_other = log_complement(log_tail)
    return Tails(jnp.where(is_upper, log_other, log_tail), jnp.where(is_upper, log_tail, log_other))


def _safe_log(y: Any) -> Array:
    """log y; finite where `_with_floor` does not read it."""
    return jnp.log(jnp.where(jnp.asarray(y) > 0, y, 1.0))


def _with_floor(is_below: Array, tails: Tails) -> Tails:
    """The tails of a law that has no responses where `is_below` is true."""
    return Tails(
        jnp.where(is_below, -jnp.inf, tails.log_cdf), jnp.where(is_below, 0.0, tails.log_sf)
    )


def log_complement(log_p: Array) -> Array:
    """log(1 - p), for p below one."""
    log_p = jnp.minimum(log_p, -jnp.finfo(jnp.asarray(log_p).dtype).tiny)
    is_large = log_p > -0.7
    near_one = jnp.log(-jnp.expm1(jnp.where(is_large, log_p, -0.7)))
    return jnp.where(is_large, near_one, jnp.log1p(-jnp.exp(jnp.where(is_large, -0.7, log_p))))


def _gamma_tails(a: Any, log_x: Any) -> Tails:
    """The tails of the gamma law of shape a and rate one, at x."""
    log_a = jnp.log(a)
    is_upper = log_x > log_a
    excess = log_x - log_a
    upper = _log_upper_gamma(a, jnp.exp(jnp.maximum(log_x, log_a)))
    lower = _log_lower_gamma(a, jnp.exp(jnp.minimum(log_x, log_a)))
    # The density of log x: a log x - x - log Gamma(a).
    log_density = -a * (jnp.expm1(excess) - excess) - stirling_gap(a)
    return _place(log_density + jnp.where(is_upper, upper, lower), is_upper)


def _log_upper_gamma(a: Any, x: Any) -> Array:
    log_ratio = lambda t: (a - x) * t - x * (jnp.expm1(t) - t)
    return _log_integral(log_ratio, _length(x - a, x, jnp.log1p(2 * DROP / x)))


def _log_lower_gamma(a: Any, x: Any) -> Array:
    log_ratio = lambda t: (x - a) * t - x * (t + jnp.expm1(-t))
    return _log_integral(log_ratio, _length(a - x, x, (DROP + x) / a))


def _log_beta_tail(a: Any, b: Any, log_odds: Any) -> Array:
    """The integral below log odds of Beta(a, b), over the density of log odds there."""
    p, q = jax.nn.sigmoid(log_odds), jax.nn.sigmoid(-log_odds)

    def log_ratio(t: Any) -> Array:
        clipped = jnp.minimum(t, FARTHEST)
        # (a + b) log(q + p e^-t): of the terms beside q or p e^-t, the smaller one is added.
        above = b * t - (a + b) * (jnp.log1p(q * jnp.expm1(clipped)) + t - clipped)
        return jnp.where(p > 0.5, above, -a * t - (a + b) * jnp.log1p(p * jnp.expm1(-t)))

    slope = a * q - b * p
    widest = (DROP - (a + b) * jnp.log(jnp.maximum(q, 1e-30))) / a
    return _log_integral(log_ratio, _length(slope, (a + b) * p * q, widest))


def _length(slope: Any, curvature: Any, widest: Any) -> Array:
    """L, from minus the slope and the curvature of g at zero."""
    tiny = jnp.finfo(jnp.asarray(slope).dtype).tiny
    by_curvature = jnp.sqrt(3 * DROP / jnp.maximum(curvature, 1e-6))
    length = jnp.minimum(DROP / jnp.maximum(slope, 1e3 * tiny), widest)
    return jnp.where(by_curvature < WIDE, jnp.minimum(length, by_curvature), length)


def _log_integral(log_ratio: Callable, length: Any) -> Float[Array, "*shape"]:
    """The logarithm of the integral of e^g from 0 to L; L is no variable of derivatives."""
    length = jax.lax.stop_gradient(length)
    dtype = jnp.asarray(length).dtype
    total = jnp.zeros_like(length)
    places = jnp.asarray(NODES + 0.5, dtype)
    weights = jnp.asarray(WEIGHTS, dtype)

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        place, weight = node
        return total + weight * jnp.exp(jnp.minimum(log_ratio(place * length), 0.0)), None

    total = jax.lax.scan(add, total, (places, weights), unroll=8)[0]
    return jnp.log(length) + jnp.log(total)
