"""A standard normal z given z > a, by its excess y = z - a, in float64 on the host: far in either tail, near the cut.

The cumulative hazard is H(y) = -log P(z > a + y | z > a), whose slope is the hazard g(z) = 1 / R(z), R Mills' ratio,
and g' = g (g - z). Where y is small both H and its inverse are summed as series about the cut, or the difference of two
logarithms would be rounding; elsewhere, for a > 1, H = a y + y^2 / 2 + log R(a) - log R(a + y), and for other a the
logarithms of Phi.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy import special

_NEAR = 1e-3
"""The limit of y (|a| + g) below which series of four terms are right to rounding."""


def cumulative_hazard(y: Float[np.ndarray, "*shape"], a: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """H(y), y >= 0.

    >>> cumulative_hazard(np.array([1e-9, 1e-6]), np.array([0.0, 1e6])).round(12).tolist()
    [7.98e-10, 1.000000000001]
    """
    g = _hazard(a)
    near = y * (np.abs(a) + g + 1.0) < _NEAR
    v, whole = np.where(near, y, 0.0), np.where(near, 1.0, y)
    return np.where(near, _series(v, _slopes_of_hazard(a, g)), _beyond(whole, a))


def excess(hazard: Float[np.ndarray, "*shape"], a: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """y with H(y) = `hazard`, > 0.

    >>> excess(np.array([8e-10, 1.0]), np.array([0.0, 1e6])).round(12).tolist()
    [1.003e-09, 1e-06]
    """
    r = 1.0 / np.maximum(_hazard(a), 1e-200)  # so that nothing overflows
    near = hazard * (1.0 + (np.abs(a) + 1.0) * r) < _NEAR
    v, whole = np.where(near, hazard, 0.0), np.where(near, 1.0, hazard)
    return np.where(near, _series(v, _slopes_of_inverse(a, np.where(near, r, 1.0))), _inverse_beyond(whole, a))


def _hazard(a: np.ndarray) -> np.ndarray:
    """g(a); 0 where it underflows."""
    with np.errstate(over="ignore"):
        return math.sqrt(2 / math.pi) / special.erfcx(a / math.sqrt(2))


def _log_ratio(a: np.ndarray) -> np.ndarray:
    """log R(a), a >= 1."""
    return np.log(special.erfcx(a / math.sqrt(2)))


def _series(v: np.ndarray, slopes: tuple[np.ndarray, ...]) -> np.ndarray:
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
    tail = y * (far + 0.5 * y) + _log_ratio(far) - _log_ratio(far + y)
    return np.where(a > 1.0, tail, special.log_ndtr(-kept) - special.log_ndtr(-kept - y))


def _inverse_beyond(hazard: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The inverse for a > 1, by Newton's steps from the right of a convex function, from where each comes nearer."""
    far, kept = np.maximum(a, 1.0), np.minimum(a, 1.0)
    y = 2 * hazard / (far + np.sqrt(far**2 + 2 * hazard))
    for _ in range(6):
        y = np.maximum(y - (_beyond(y, far) - hazard) / _hazard(far + y), 0.0)
    middle = -special.ndtri_exp(special.log_ndtr(-kept) - hazard) - kept
    return np.where(a > 1.0, y, middle)
