"""Rotations of loadings to simple structure: varimax, and oblimin with factors that correlate.

The likelihood of factor analysis is the same for all rotations of the factors; a rotation chooses
those in which each column loads on few factors. Both are found by gradient projection (Jennrich
2001, 2002), as R's GPArotation and factanal have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.arguments import check_arguments
from vijax.checks import require

Method = Literal["none", "varimax", "oblimin"]
SMALL = 1e-9
"""The gradient at which a rotation has converged, relative to the loadings."""
MOST_STEPS = 2000
TRIES = 20
"""Halvings of a step."""


class Rotation(NamedTuple):
    """Rotated loadings.

    Attributes:
      loadings: loadings of columns on the rotated factors, (D, K); for oblimin the pattern, which
        are regression weights and no correlations.
      correlation: correlations of the factors, (K, K); the identity unless oblimin.
      turn: factors of the model times this are the rotated ones, (K, K).
    """

    loadings: Float[np.ndarray, "D K"]
    correlation: Float[np.ndarray, "K K"]
    turn: Float[np.ndarray, "K K"]


@check_arguments
def rotate(
    loadings: Float[np.ndarray, "D K"],
    method: Method = "varimax",
    *,
    normalise: bool = True,
) -> Rotation:
    """Loadings rotated to simple structure, the strongest factor first, each with a positive sum of
    loadings.

    varimax maximises sum_k var_d(l_dk^2) over orthogonal rotations (Kaiser 1958); oblimin minimises
    sum_{j<k} sum_d l_dj^2 l_dk^2 over oblique ones (quartimin, gamma = 0; Jennrich and Sampson
    1966).

    Args:
      loadings: loadings of D columns on K factors of variance 1, such as
        `fit.posterior["loadings"].mean()[:, :K]` of `vijax.models.factor_analysis`.
      method: "varimax", "oblimin", or "none", which only orders and signs.
      normalise: rows are divided by the root of their communality before, and multiplied after
        (Kaiser's normalisation), as R's `factanal` does.

    Raises:
      ValueError: loadings that are not a matrix of finite numbers with at least as many columns of
        the data as factors.

    >>> turn = np.array([[np.cos(0.5), np.sin(0.5)], [-np.sin(0.5), np.cos(0.5)]])
    >>> simple = np.array([[0.9, 0.0], [0.8, 0.0], [0.0, 0.7], [0.0, 0.6]])
    >>> np.allclose(rotate(simple @ turn).loadings, simple)
    True
    """
    weights = np.asarray(loadings, np.float64)
    is_matrix = weights.ndim == 2 and weights.shape[0] >= weights.shape[1] >= 1
    expected = "a finite matrix, columns of the data by factors, at least as many of the former"
    is_valid = is_matrix and bool(np.isfinite(weights).all())
    require(is_valid, "loadings", expected, f"shape {weights.shape}")
    size = weights.shape[1]
    scale = np.ones((len(weights), 1))
    if normalise:
        communality = np.sqrt((weights**2).sum(1, keepdims=True))
        scale = np.where(communality > 0, communality, 1.0)
    turn = np.eye(size)
    if size > 1 and method == "varimax":
        turn = _descend(weights / scale, _varimax, _to_orthogonal, _orthogonal_gradient)
    elif size > 1 and method == "oblimin":
        turn = _descend(weights / scale, _quartimin, _to_unit_columns, _oblique_gradient)
    # Factors f = turn' x have covariance turn' turn; loadings become loadings inv(turn)'
    pattern = weights @ np.linalg.inv(turn).T
    signs = np.where(pattern.sum(0) < 0, -1.0, 1.0)
    order = np.argsort(-(pattern**2).sum(0), kind="stable")
    turn = (turn * signs)[:, order]
    return Rotation((pattern * signs)[:, order], turn.T @ turn, turn)


Criterion = Callable[[np.ndarray], tuple[float, np.ndarray]]


def _varimax(pattern: Float[np.ndarray, "D K"]) -> tuple[float, np.ndarray]:
    """Minus a quarter of the variances of squared loadings, and the gradient."""
    centred = pattern**2 - (pattern**2).mean(0)
    return -0.25 * float((centred**2).sum()), -pattern * centred


def _quartimin(pattern: Float[np.ndarray, "D K"]) -> tuple[float, np.ndarray]:
    """A quarter of the products of squared loadings on two factors, and the gradient."""
    squares = pattern**2
    products = squares.sum(1, keepdims=True) - squares
    return 0.25 * float((squares * products).sum()), pattern * products


def _descend(
    weights: Float[np.ndarray, "D K"],
    criterion: Criterion,
    project: Callable[[np.ndarray], np.ndarray],
    tangent: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Float[np.ndarray, "K K"]:
    """The rotation with the least criterion, by gradient projection from no rotation."""
    turn = np.eye(weights.shape[1])
    value, gradient = _evaluate(weights, turn, criterion)
    step = 1.0
    for _ in range(MOST_STEPS):
        direction = tangent(turn, gradient)
        slope = float((direction**2).sum())
        if np.sqrt(slope) < SMALL * max(1.0, np.abs(weights).max()):
            break
        step *= 2.0
        for _ in range(TRIES):
            trial = project(turn - step * direction)
            trial_value, trial_gradient = _evaluate(weights, trial, criterion)
            if trial_value < value - 0.5 * step * slope:
                break
            step *= 0.5
        turn, value, gradient = trial, trial_value, trial_gradient
    return turn


def _evaluate(
    weights: np.ndarray, turn: np.ndarray, criterion: Criterion
) -> tuple[float, Float[np.ndarray, "K K"]]:
    """The criterion at a rotation, and its gradient in the rotation."""
    inverse = np.linalg.inv(turn)
    pattern = weights @ inverse.T
    value, gradient = criterion(pattern)
    return value, -(pattern.T @ gradient @ inverse).T


def _to_orthogonal(matrix: np.ndarray) -> np.ndarray:
    u, _, v = np.linalg.svd(matrix)
    return u @ v


def _to_unit_columns(matrix: np.ndarray) -> np.ndarray:
    return matrix / np.linalg.norm(matrix, axis=0)


def _orthogonal_gradient(turn: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    product = turn.T @ gradient
    return gradient - turn @ (0.5 * (product + product.T))


def _oblique_gradient(turn: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    return gradient - turn * (turn * gradient).sum(0)
