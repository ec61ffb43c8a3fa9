"""Checks that natural parameters of the working precision can represent the law that a constructor was asked for.

The information form stores precision @ mean beside the precision, and location^2 beside the spread. The parameters of
the law are a difference or an inverse of these, so the condition number and (mean / standard deviation)^2 of a law cost
digits: float32 has seven. Constructors of concrete values compute in float64 the law that the stored numbers stand for,
and raise where more than `LIMIT` of it is lost. Values that are being traced cannot be looked at, and pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from vijax.checks import require

LIMIT = 1e-3
"""Largest accepted loss: relative for rates and for variances in any direction, in standard deviations for means."""

_DOUBLE = "work in float64: jax.config.update('jax_enable_x64', True)"
CENTRE = f"Centre the data (subtract the location from them), or {_DOUBLE}."
RESCALE = f"Measure each coordinate in units of its own spread, or {_DOUBLE}."


def require_held(name: str, lost: Callable[..., Any], *arrays: Any, remedy: str) -> None:
    """ValueError naming the argument where `lost` of the arrays, in float64, exceeds `LIMIT`.

    >>> require_held("rate", lambda wanted, got: abs(got / wanted - 1), 1e-3, 0.0, remedy=CENTRE)
    Traceback (most recent call last):
    ...
    ValueError: rate: expected a value that rounding the natural parameters changes by less than 0.1 %, got one that \
it changes by 100 %. Centre the data (subtract the location from them), or work in float64: \
jax.config.update('jax_enable_x64', True).
    """
    if any(isinstance(x, jax.core.Tracer) for x in arrays):
        return
    with np.errstate(all="ignore"):
        worst = float(np.max(lost(*(np.asarray(x, np.float64) for x in arrays)), initial=0.0))
    expected = f"a value that rounding the natural parameters changes by less than {100 * LIMIT:g} %"
    got = f"one that it changes by {100 * worst:.3g} %"
    require(worst <= LIMIT, name, expected, got, remedy)


def lost_rate(wanted: np.ndarray, got: np.ndarray) -> np.ndarray:
    """The relative change of a rate."""
    return np.abs(got / wanted - 1.0)


def lost_spread(cov: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """|C' P C - I| (Frobenius) for cov = C C': the relative change of variances, in any direction; 1 where cov is
    singular."""
    try:
        root = np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        return np.ones(cov.shape[:-2])
    return np.linalg.norm(root.swapaxes(-1, -2) @ precision @ root - np.eye(cov.shape[-1]), axis=(-2, -1))


def lost_mean(linear: np.ndarray, precision: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The distance of P^-1 linear from the mean, in standard deviations: |F^-1 (linear - P mean)|, P = F F'."""
    try:
        root = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return np.ones(mean.shape[:-1])
    gap = linear - np.einsum("...ij,...j->...i", precision, mean)
    return np.linalg.norm(np.linalg.solve(root, gap[..., None])[..., 0], axis=-1)
