"""The tails of the normal distribution: Mills' ratio in JAX, and cumulative hazards in float64 on
the host.

    R(a) = (1 - Phi(a)) / phi(a) = 1 / (a + T_1),     T_k(a) = k / (a + T_{k+1}),

is a continued fraction, and T_1 T_2 ... T_k is E[y^k] for y = z - a and a standard normal z given z
> a. For a > 0.4 the fraction is summed backward from its end. All terms are positive, so no digit
is lost however far the tail. For other a the recursion goes forward from T_1 = 1 / R - a, which
loses next to no digits. The end is the solution of T(n) (a + T(n + 1)) = n for large n: with p = a
/ 2, w = sqrt(n + p^2) it is

    T(n) = (w - p) [1 - 1 / (4 w^2) + (w + 5 p) / (32 w^5) + O(n^-3)],

and the recursion shrinks its error by about exp(-2 a sqrt(n)).

The cumulative hazard is H(y) = -log P(z > a + y | z > a), with slope g(z) = 1 / R(z), the hazard,
and g' = g (g - z). For small y both H and its inverse are series about the cut, because a
difference of two logarithms would be mere rounding. For larger y, H = a y + y^2 / 2 + log R(a) -
log R(a + y) if a > 1, and a difference of log Phi for other a."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Float
from scipy import special

SWITCH = 0.4
_NEAR = 1e-3
"""The limit of y (|a| + g) below which series of four terms are right to rounding."""


def mills_tails(a: Float[Array, "*shape"]) -> tuple[Array, Array, Array, Array]:
    """T_1(a), ..., T_4(a).

    >>> [round(float(t), 4) for t in mills_tails(jnp.float32(40.0))]
    [0.025, 0.0499, 0.0748, 0.0997]
    """
    backward = _backward_tails(jnp.maximum(a, SWITCH))
    forward = _forward_tails(jnp.minimum(a, SWITCH))
    t1, t2, t3, t4 = (jnp.where(a > SWITCH, b, f) for b, f in zip(backward, forward, strict=True))
    return t1, t2, t3, t4


def _backward_tails(a: Array) -> list[Array]:
    """T_1, ..., T_4 from the end of the continued fraction, for a in the tail."""
    num_terms = 180 if a.dtype == jnp.float64 else 40

    def step(i: Array, tail: Array) -> Array:
        return (num_terms - i).astype(a.dtype) / (a + tail)

    p, n = 0.5 * a, num_terms + 1
    w2 = n + p * p
    w = jnp.sqrt(w2)
    # T(n) by its expansion
    end = n / (w + p) * (1.0 - (1.0 - (w + 5.0 * p) / (8.0 * w * w2)) / (4.0 * w2))
    tails = [lax.fori_loop(0, num_terms - 4, step, end)]
    for k in (4.0, 3.0, 2.0, 1.0):
        tails.insert(0, k / (a + tails[0]))
    return tails[:4]


def _forward_tails(a: Array) -> list[Array]:
    """T_1, ..., T_4 from T_1 = 1 / R(a) - a, for a outside the tail."""
    tails = [hazard(a) - a]
    for k in (1.0, 2.0, 3.0):
        tails.append(k / tails[-1] - a)
    return tails


def hazard(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """1 / R(a), for an a that is not far in the upper tail."""
    return jnp.exp(-0.5 * a * a) / (math.sqrt(2 * math.pi) * ndtr(-a))


def log_mills(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log R(a)."""
    body_a = jnp.minimum(a, SWITCH)
    body = log_ndtr(-body_a) + 0.5 * body_a * body_a + 0.5 * math.log(2 * math.pi)
    tail_a = jnp.maximum(a, SWITCH)
    return jnp.where(a > SWITCH, -jnp.log(tail_a + mills_tails(tail_a)[0]), body)


# --- on the host ----------------------------------------------------------------------------------
def cumulative_hazard(
    y: Float[np.ndarray, "*shape"], a: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """H(y), y >= 0, in float64.

    >>> cumulative_hazard(np.array([1e-9, 1e-6]), np.array([0.0, 1e6])).round(12).tolist()
    [7.98e-10, 1.000000000001]
    """
    g = _hazard(a)
    is_small = y * (np.abs(a) + g + 1.0) < _NEAR
    series = _series(np.where(is_small, y, 0.0), *_slopes_of_hazard(a, g))
    return np.where(is_small, series, _large_hazard(np.where(is_small, 1.0, y), a))


def excess(
    hazard: Float[np.ndarray, "*shape"], a: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """The y with H(y) = `hazard`, > 0, in float64.

    >>> excess(np.array([8e-10, 1.0]), np.array([0.0, 1e6])).round(12).tolist()
    [1.003e-09, 1e-06]
    """
    r = 1.0 / np.maximum(_hazard(a), 1e-200)  # so that nothing overflows
    is_small = hazard * (1.0 + (np.abs(a) + 1.0) * r) < _NEAR
    slopes = _slopes_of_inverse(a, np.where(is_small, r, 1.0))
    series = _series(np.where(is_small, hazard, 0.0), *slopes)
    return np.where(is_small, series, _large_excess(np.where(is_small, 1.0, hazard), a))


def _hazard(a: np.ndarray) -> np.ndarray:
    """g(a); 0 where it underflows."""
    with np.errstate(over="ignore"):
        return math.sqrt(2 / math.pi) / special.erfcx(a / math.sqrt(2))


def _series(v: np.ndarray, *slopes: np.ndarray) -> np.ndarray:
    """Taylor's series in v from the derivatives at 0."""
    total = np.zeros_like(v)
    for n in range(len(slopes), 0, -1):
        total = v / n * (slopes[n - 1] + total)
    return total


def _slopes_of_hazard(a: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
    """g and its first three derivatives."""
    first = g * (g - a)
    second = first * (2 * g - a) - g
    return g, first, second, second * (2 * g - a) + 2 * first * (first - 1.0)


def _slopes_of_inverse(a: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, ...]:
    """r = R(a + y) as a function of H, and three derivatives of it: r' = r (z r - 1)."""
    first = r * (a * r - 1.0)
    second = r**3 + (2 * a * r - 1.0) * first
    third = first * (5 * r**2 + 2 * a * first) + (2 * a * r - 1.0) * second
    return r, first, second, third


def _large_hazard(y: np.ndarray, a: np.ndarray) -> np.ndarray:
    """H(y) where the difference of logarithms keeps its digits."""
    tail_a = np.maximum(a, 1.0)
    log_ratio = lambda a: np.log(special.erfcx(a / math.sqrt(2)))
    tail = y * (tail_a + 0.5 * y) + log_ratio(tail_a) - log_ratio(tail_a + y)
    body_a = np.minimum(a, 1.0)
    body = special.log_ndtr(-body_a) - special.log_ndtr(-body_a - y)
    return np.where(a > 1.0, tail, body)


def _large_excess(hazard: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The inverse of `_large_hazard`: for a > 1 by Newton's steps, which start to the right of the
    root of a convex function, so that each step comes nearer."""
    tail_a = np.maximum(a, 1.0)
    y = 2 * hazard / (tail_a + np.sqrt(tail_a**2 + 2 * hazard))
    for _ in range(6):
        y = np.maximum(y - (_large_hazard(y, tail_a) - hazard) / _hazard(tail_a + y), 0.0)
    body_a = np.minimum(a, 1.0)
    body = -special.ndtri_exp(special.log_ndtr(-body_a) - hazard) - body_a
    return np.where(a > 1.0, y, body)
