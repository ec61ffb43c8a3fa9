"""The tails of the normal distribution: Mills' ratio in JAX, and cumulative hazards in float64 on
the host.

    R(a) = (1 - Phi(a)) / phi(a) = 1 / (a + T_1),     T_k(a) = k / (a + T_{k+1}),

is a continued fraction, and T_1 T_2 ... T_k is E[y^k] of y = z - a for a standard normal z given z
> a. For a > 0.4 the fraction is summed from its end, in positive terms only, so that no digit is
lost however far the tail. For other a it starts from T_1 = 1 / R - a and goes forward, which loses
next to none. The end is the solution of T(n) (a + T(n + 1)) = n for large n: with p = a / 2, w =
sqrt(n + p^2) it is

    T(n) = (w - p) [1 - 1 / (4 w^2) + (w + 5 p) / (32 w^5) + O(n^-3)],

and its error shrinks on the way by about exp(-2 a sqrt(n)).

The cumulative hazard is H(y) = -log P(z > a + y | z > a), with slope g(z) = 1 / R(z), the hazard,
and g' = g (g - z). For small y both H and its inverse are series about the cut, because the
difference of two logarithms would be rounding; elsewhere H = a y + y^2 / 2 + log R(a) - log R(a +
y) for a > 1, and for other a the logarithms of Phi."""

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
    far = jnp.maximum(a, SWITCH)
    num_terms = 180 if a.dtype == jnp.float64 else 40

    def step(i: Array, tail: Array) -> Array:
        return (num_terms - i).astype(far.dtype) / (far + tail)

    p, n = 0.5 * far, num_terms + 1
    w2 = n + p * p
    w = jnp.sqrt(w2)
    end = (
        n / (w + p) * (1.0 - (1.0 - (w + 5.0 * p) / (8.0 * w * w2)) / (4.0 * w2))
    )  # T(n) by its expansion
    backward = [lax.fori_loop(0, num_terms - 4, step, end)]
    for k in (4.0, 3.0, 2.0, 1.0):
        backward.insert(0, k / (far + backward[0]))
    near = jnp.minimum(a, SWITCH)
    forward = [hazard(near) - near]
    for k in (1.0, 2.0, 3.0):
        forward.append(k / forward[-1] - near)
    t1, t2, t3, t4 = (
        jnp.where(a > SWITCH, b, f) for b, f in zip(backward[:4], forward, strict=True)
    )
    return t1, t2, t3, t4


def hazard(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """1 / R(a), for a that is not far in the upper tail."""
    return jnp.exp(-0.5 * a * a) / (math.sqrt(2 * math.pi) * ndtr(-a))


def log_mills(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log R(a)."""
    near = jnp.minimum(a, SWITCH)
    body = log_ndtr(-near) + 0.5 * near * near + 0.5 * math.log(2 * math.pi)
    far = jnp.maximum(a, SWITCH)
    return jnp.where(a > SWITCH, -jnp.log(far + mills_tails(far)[0]), body)


# --- on the host ----------------------------------------------------------------------------------
def cumulative_hazard(
    y: Float[np.ndarray, "*shape"], a: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """H(y), y >= 0, in float64.

    >>> cumulative_hazard(np.array([1e-9, 1e-6]), np.array([0.0, 1e6])).round(12).tolist()
    [7.98e-10, 1.000000000001]
    """
    g = _hazard(a)
    near = y * (np.abs(a) + g + 1.0) < _NEAR
    v, whole = np.where(near, y, 0.0), np.where(near, 1.0, y)
    return np.where(near, _series(v, *_slopes_of_hazard(a, g)), _beyond(whole, a))


def excess(
    hazard: Float[np.ndarray, "*shape"], a: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """The y with H(y) = `hazard`, > 0, in float64.

    >>> excess(np.array([8e-10, 1.0]), np.array([0.0, 1e6])).round(12).tolist()
    [1.003e-09, 1e-06]
    """
    r = 1.0 / np.maximum(_hazard(a), 1e-200)  # so that nothing overflows
    near = hazard * (1.0 + (np.abs(a) + 1.0) * r) < _NEAR
    v, whole = np.where(near, hazard, 0.0), np.where(near, 1.0, hazard)
    return np.where(
        near, _series(v, *_slopes_of_inverse(a, np.where(near, r, 1.0))), _inverse_beyond(whole, a)
    )


def _hazard(a: np.ndarray) -> np.ndarray:
    """g(a); 0 where it underflows."""
    with np.errstate(over="ignore"):
        return math.sqrt(2 / math.pi) / special.erfcx(a / math.sqrt(2))


def _series(v: np.ndarray, *slopes: np.ndarray) -> np.ndarray:
    """Taylor's series, from the derivatives at 0."""
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


def _beyond(y: np.ndarray, a: np.ndarray) -> np.ndarray:
    far, kept = np.maximum(a, 1.0), np.minimum(a, 1.0)
    log_ratio = lambda a: np.log(special.erfcx(a / math.sqrt(2)))
    tail = y * (far + 0.5 * y) + log_ratio(far) - log_ratio(far + y)
    return np.where(a > 1.0, tail, special.log_ndtr(-kept) - special.log_ndtr(-kept - y))


def _inverse_beyond(hazard: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The inverse for a > 1, by Newton's steps from the right of a convex function, from where each
    comes nearer."""
    far, kept = np.maximum(a, 1.0), np.minimum(a, 1.0)
    y = 2 * hazard / (far + np.sqrt(far**2 + 2 * hazard))
    for _ in range(6):
        y = np.maximum(y - (_beyond(y, far) - hazard) / _hazard(far + y), 0.0)
    middle = -special.ndtri_exp(special.log_ndtr(-kept) - hazard) - kept
    return np.where(a > 1.0, y, middle)
