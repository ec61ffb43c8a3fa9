"""Columns of one variable: B-splines and orthogonal polynomials."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from vijax.data.formulas.row_statistics import quantiles

Basis = Float[np.ndarray, "N K"]


def inner_knots(
    values: np.ndarray, weights: np.ndarray, num_columns: int, degree: int
) -> Float[np.ndarray, " knots"]:
    """Knots between the ends, at weighted quantiles of the values, as in R's `bs`.

    >>> inner_knots(np.arange(11.0), np.ones(11), 4, 3).tolist()
    [5.0]
    """
    return quantiles(values, weights, np.linspace(0, 1, num_columns - degree + 2)[1:-1])


def with_ends(
    inner: np.ndarray, low: float, high: float, degree: int
) -> Float[np.ndarray, " knots"]:
    """Inner knots between repeated ends."""
    return np.concatenate([np.repeat(low, degree + 1), np.sort(inner), np.repeat(high, degree + 1)])


def splines(values: np.ndarray, knots: np.ndarray, degree: int) -> Basis:
    """B-splines without the first, as the sum of all is constant. Beyond the ends the polynomials
    of the outer pieces continue."""
    from scipy.interpolate import BSpline  # here, because it takes long to import

    number = len(knots) - degree - 1
    return np.asarray(BSpline(knots, np.eye(number), degree, extrapolate=True)(values))[:, 1:]


def recurrence(
    values: np.ndarray, weights: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """The recurrence of polynomials that are orthogonal on these weighted values: centres
    (degree,) and squared lengths (degree + 1,). Kennedy and Gentle 1980, section 8.4."""
    previous = np.zeros(len(values))
    current = np.ones(len(values))
    centres = np.zeros(degree)
    squares = np.zeros(degree + 1)
    squares[0] = weights.sum()
    for k in range(degree):
        centres[k] = np.sum(weights * values * current**2) / squares[k]
        ratio = squares[k] / squares[k - 1] if k else 0.0
        following = (values - centres[k]) * current - ratio * previous
        previous = current
        current = following
        squares[k + 1] = np.sum(weights * current**2)
    return centres, squares


def polynomials(values: np.ndarray, centres: np.ndarray, squares: np.ndarray) -> Basis:
    """Orthogonal polynomials from the first degree on, of length one on the values of the
    recurrence, as in R's `poly`.

    >>> x = np.arange(5.0)
    >>> basis = polynomials(x, *recurrence(x, np.ones(5), 2))
    >>> np.allclose(basis.T @ basis, np.eye(2)), np.allclose(basis.sum(0), 0)
    (True, True)
    """
    previous = np.zeros(len(values))
    current = np.ones(len(values))
    columns = []
    for k, centre in enumerate(centres):
        ratio = squares[k] / squares[k - 1] if k else 0.0
        following = (values - centre) * current - ratio * previous
        previous = current
        current = following
        columns.append(current / np.sqrt(squares[k + 1]))
    return np.stack(columns, 1)
