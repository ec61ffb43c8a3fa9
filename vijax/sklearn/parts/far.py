"""Components of a Gaussian mixture so far from zero that rounding hides their spread."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from vijax.contract.init import Context, Init
from vijax.families import Categorical, Product
from vijax.xla.by_value import cache_by_value

EPS = float(np.finfo(np.float64).eps)
ROUNDS = 6
"""Fits from new places, at most: each is nearer to its components than the last."""
LOST = 1e-4
"""Share of a variance that rounding may change."""
FAR = 1e4
"""Distance of all rows from zero, in units of their extent, above which their centre is
subtracted."""


def choose_centre(X: np.ndarray) -> Any:
    """The middle of the extent of each column, if one is far from zero; else 0. It does not depend
    on the order and the weights of rows.

    >>> choose_centre(np.array([[1e7], [1e7 + 2]])).tolist(), choose_centre(np.array([[1.0], [3.0]]))
    ([10000001.0], 0.0)
    """
    low = X.min(axis=0)
    extent = X.max(axis=0) - low
    middle = low + 0.5 * extent
    return middle if np.any(np.abs(middle) > FAR * extent) else 0.0


class Moments(NamedTuple):
    """Means and least variances of the components, from responsibilities, in two passes, so that
    nothing cancels."""

    mean: Float[np.ndarray, "K D"]
    least: Float[np.ndarray, " K"]


def moments(
    X: np.ndarray, probs: np.ndarray, weights: np.ndarray, kind: str, noise: float
) -> Moments:
    """The moments of components from rows, with noise of a given variance about every row."""
    shares = probs * weights[:, None]
    sizes = shares.sum(axis=0)
    shares = shares / np.maximum(sizes, 1e-300)
    mean = shares.T @ X
    variances = [
        _least_variance(X - centre, share, kind) + noise
        for centre, share in zip(mean, shares.T, strict=True)
    ]
    return Moments(mean, np.asarray(variances))


def _least_variance(residuals: np.ndarray, share: np.ndarray, kind: str) -> float:
    """The least variance of rows less their mean, in the directions of a kind of covariance."""
    if kind == "full":
        variances = np.linalg.eigvalsh((residuals * share[:, None]).T @ residuals)
        return max(float(variances[0]), 0.0)
    variances = share @ residuals**2
    return float(variances.mean() if kind == "spherical" else variances.min())


def may_lose(X: np.ndarray, noise: float) -> bool:
    """True if rounding could hide the variance of a component of one row, as wide as the noise."""
    reach = np.abs(X).max()
    return bool(EPS * reach**2 > LOST * noise)


def is_lost(components: Moments, places: Any) -> bool:
    """True if rounding of the squared distances of means from the places hides variances."""
    distance = np.max((components.mean - places) ** 2, axis=1)
    return bool(np.any(EPS * distance > LOST * components.least))


@cache_by_value
def start_from_classes(probs: Any) -> Init:
    """The start that these probabilities of classes, by row, imply; later rows are padding."""
    row_probs = np.asarray(probs, np.float64)

    def start(key: Any, context: Context) -> Product:
        missing = len(context.weights()) - len(row_probs)
        padded = np.concatenate([row_probs, np.repeat(row_probs[-1:], missing, axis=0)])
        (name,) = (name for name, q in context.templates().items() if isinstance(q, Categorical))
        stats = Categorical(jnp.log(jnp.maximum(padded, 1e-300))).expected_stats()
        return context.conditional({**context.start_stats(), name: stats})

    return start
