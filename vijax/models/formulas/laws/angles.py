"""The law of angles: directions of wind, times of day, in radians."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e
from jaxtyping import Array, PRNGKeyArray
from scipy import special

from vijax.inference.likelihood import Likelihood
from vijax.models.formulas.laws.law import Aux

LARGE = 30.0
"""Concentration from which on Bessel's function is its asymptotic series, 1e-10 off."""
SERIES = tuple(
    math.prod((2 * j - 1) ** 2 for j in range(1, k + 1)) / (math.factorial(k) * 8**k)
    for k in range(7)
)
"""Coefficients of 1 / kappa^k in sqrt(2 pi kappa) e^-kappa I0(kappa) (Abramowitz and Stegun 1964,
9.7.1)."""
ROUNDING = 1e-5
"""Radians beyond pi that are rounding."""
NORMAL = 1e5
"""Concentration from which on draws are normal: their fourth moments are 1e-5 off."""
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def von_mises(aux: Aux, trials: Any) -> Likelihood:
    """exp(kappa cos(y - m)) / (2 pi I0(kappa)), with m = 2 arctan(eta), as in Bambi and brms."""
    kappa = jnp.asarray(aux["kappa"])

    def log_prob(y: Any, z: Array) -> Array:
        half = jnp.sin(0.5 * y - jnp.arctan(z))  # cos(y - m) = 1 - 2 half^2, without a difference
        return -2.0 * kappa * half**2 - log_scaled_bessel(kappa) - 2.0 * HALF_LOG_TWO_PI

    def sample(key: PRNGKeyArray, z: Array) -> Array:
        y = 2.0 * jnp.arctan(z) + draw_von_mises(key, jnp.broadcast_to(kappa, z.shape), z.dtype)
        return jnp.arctan2(jnp.sin(y), jnp.cos(y))

    return Likelihood(log_prob, "von mises", sample=sample)


def log_scaled_bessel(kappa: Array) -> Array:
    """log(e^-kappa I0(kappa)), with derivatives that keep their digits at large kappa."""
    kappa = jnp.asarray(kappa, jnp.result_type(float, kappa))
    is_large = kappa > LARGE
    large = jnp.where(is_large, kappa, LARGE)
    series = jnp.zeros_like(large)
    for coefficient in reversed(SERIES[1:]):
        series = (series + coefficient) / large
    large_value = jnp.log1p(series) - 0.5 * jnp.log(large) - HALF_LOG_TWO_PI
    return jnp.where(is_large, large_value, jnp.log(i0e(jnp.where(is_large, 1.0, kappa))))


def draw_von_mises(key: PRNGKeyArray, kappa: Array, dtype: Any) -> Array:
    """Draws about zero, by rejection from the wrapped Cauchy law (Best and Fisher 1979); some two
    thirds are accepted."""
    kappa = jnp.asarray(kappa, dtype)
    key_normal, key_tries = jax.random.split(key)
    concentration = jnp.clip(kappa, 1e-4, NORMAL)
    root = jnp.sqrt(1.0 + 4.0 * concentration**2)
    tau = 1.0 + root
    # Best and Fisher's rho and r - 1, r = (1 + rho^2) / (2 rho), without differences.
    rho = jnp.sqrt(tau) * 2.0 * concentration / (tau * (jnp.sqrt(tau) + math.sqrt(2.0)))
    excess = (1.0 - rho) ** 2 / (2.0 * rho)

    def propose(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, half, is_open = state
        u, v = jax.random.uniform(jax.random.fold_in(key_tries, count), (2, *kappa.shape), dtype)
        # With t = tan(pi u / 2)^2, 1 - cos of the proposal is 2 t excess / (2 + excess + t excess).
        tangent = jnp.tan(0.5 * jnp.pi * u) ** 2
        share = tangent * excess / (2.0 + excess + tangent * excess)  # sin^2 of half the angle
        cut = concentration * (excess + 2.0 * share)  # kappa (r - cos)
        accepts = jnp.log(jnp.maximum(v, 1e-30)) <= 1.0 + jnp.log(cut) - cut
        half = jnp.where(is_open & accepts, share, half)
        return count + 1, half, is_open & ~accepts

    start = (jnp.asarray(0), jnp.zeros_like(kappa), jnp.ones(kappa.shape, bool))
    share = jax.lax.while_loop(lambda state: jnp.any(state[2]), propose, start)[1]
    size = 2.0 * jnp.arcsin(jnp.sqrt(jnp.clip(share, 0.0, 1.0)))
    key_sign, key_size = jax.random.split(key_normal)
    angle = size * jax.random.rademacher(key_sign, kappa.shape, dtype)
    normal = jax.random.normal(key_size, kappa.shape, dtype) / jnp.sqrt(jnp.maximum(kappa, 1.0))
    return jnp.where(kappa > NORMAL, normal, angle)


def are_angles(y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """True for numbers from -pi to pi, but for rounding."""
    return np.abs(y) <= np.pi + ROUNDING


def mean_vector(aux: Aux, eta: Any) -> Any:
    """The mean of e^(i y): of the direction 2 arctan(eta), and the length I1(kappa) / I0(kappa)."""
    length = special.i1e(aux["kappa"]) / special.i0e(aux["kappa"])
    return length * np.exp(2j * np.arctan(eta))


def wrap_angles(x: Any) -> Any:
    """Angles, from -pi to pi.

    >>> wrap_angles(np.array([0.0, 7.0])).round(4).tolist()
    [0.0, 0.7168]
    """
    return np.arctan2(np.sin(x), np.cos(x))


def unwrap(angles: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Draws of angles, (S, ...), and others, within pi of the mean direction of the first: their
    ends and means are then those of numbers.

    >>> unwrap(np.array([3.1, -3.1]))[0].round(3).tolist()
    [3.1, 3.183]
    """
    centre = np.angle(np.exp(1j * np.asarray(angles, float)).mean(0))
    return [centre + wrap_angles(x - centre) for x in (angles, *others)]
