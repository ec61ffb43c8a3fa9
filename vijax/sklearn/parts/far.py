"""Components of a Gaussian mixture that lie so far from zero, for their spread, that rounding hides
it."""

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
"""Fits from new places at most: each is nearer to its components than the last."""
LOST = 1e-4
"""Share of a variance that rounding may take."""


FAR = 1e4
"""Distance of all rows from zero, in units of their extent, from which they are read about their
centre."""


def choose_centre(X: np.ndarray) -> Any:
    """The middle of the extent of each column, whatever the order and the weights of rows, where
    one is far from zero; else 0.

    >>> choose_centre(np.array([[1e7], [1e7 + 2]])).tolist(), choose_centre(np.array([[1.0], [3.0]]))
    ([10000001.0], 0.0)
    """
    low, high = X.min(axis=0), X.max(axis=0)
    middle, extent = low + 0.5 * (high - low), high - low
    return middle if np.any(np.abs(middle) > FAR * extent) else 0.0


class Moments(NamedTuple):
    """Means and least variances of the components, by responsibilities: in two passes, in which
    nothing cancels."""

    mean: Float[np.ndarray, "K D"]
    least: Float[np.ndarray, " K"]


def moments(
    X: np.ndarray, probs: np.ndarray, weights: np.ndarray, kind: str, noise: float
) -> Moments:
    """The moments of rows in components, with the variance of the noise about every row."""
    shares = probs * weights[:, None]
    sizes = shares.sum(axis=0)
    shares = shares / np.maximum(sizes, 1e-300)
    mean = shares.T @ X
    least = [
        _least_variance(X - place, share, kind) + noise
        for place, share in zip(mean, shares.T, strict=True)
    ]
    return Moments(mean, np.asarray(least))


def _least_variance(left: np.ndarray, share: np.ndarray, kind: str) -> float:
    """The least variance in any direction that a kind of covariance has, of rows less their
    mean."""
    if kind == "full":
        variances = np.linalg.eigvalsh((left * share[:, None]).T @ left)
        return max(float(variances[0]), 0.0)
    variances = share @ left**2
    return float(variances.mean() if kind == "spherical" else variances.min())


def may_lose(X: np.ndarray, noise: float) -> bool:
    """True where a component of one row, as wide as the noise, could not be told from one without a
    variance."""
    reach = np.abs(X).max()
    return bool(EPS * reach**2 > LOST * noise)


def is_lost(found: Moments, places: Any) -> bool:
    """True where the squared distances of means from the places have so many digits that variances
    are lost."""
    far = np.max((found.mean - places) ** 2, axis=1)
    return bool(np.any(EPS * far > LOST * found.least))


@cache_by_value
def start_from_classes(probs: Any) -> Init:
    """The start that these probabilities of classes, by row, imply; rows behind them are
    padding."""
    known = np.asarray(probs, np.float64)

    def start(key: Any, context: Context) -> Product:
        missing = len(context.weights()) - len(known)
        padded = np.concatenate([known, np.repeat(known[-1:], missing, axis=0)])
        (name,) = (name for name, q in context.templates().items() if isinstance(q, Categorical))
        stats = Categorical(jnp.log(jnp.maximum(padded, 1e-300))).expected_stats()
        return context.conditional({**context.start_stats(), name: stats})

    return start
