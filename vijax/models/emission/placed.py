"""Gaussian emissions whose priors have the location and the scale of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree

from vijax.checks import require
from vijax.data.schema.number_arrays import array_of_numbers
from vijax.models.emission.base import Emission
from vijax.models.emission.gaussian import (
    diagonal_gaussian,
    full_gaussian,
    spherical_gaussian,
    tied_gaussian,
    unit_gaussian,
)
from vijax.models.emission.missing import incomplete
from vijax.spreads import spread_or_one


def placed(
    make: Callable[..., Emission], num_components: int, data: PyTree, **settings: Any
) -> Emission:
    """A Gaussian emission whose prior has the means and the variances of the columns.

    The priors of the constructors are about zero and of scale one. For columns far from zero they
    are badly wrong: a prior mean that is worth `strength` = 0.01 rows adds mean^2 / 100 to the sum
    of squares of each component. With this prior a fit is equivariant: shifted and scaled data give
    the same answer, shifted and scaled.

    Args:
      make: a constructor of `vijax.models.emission`: `full_gaussian`, `tied_gaussian`,
        `diagonal_gaussian`, `spherical_gaussian` (one variance for all columns) or `unit_gaussian`
        (only its location follows the data).
      num_components: K, number of components.
      data: rows (N, D), or sequences as `vijax.models.pad` makes them; NaN are left out. For rows
        with NaN the emission is `incomplete`.
      settings: other settings of the constructor, such as `strength`.

    Raises:
      ValueError: another constructor, or data without numbers.

    >>> rows = 37.0 + 0.5 * np.array([[-1.0], [0.0], [1.0]])
    >>> prior = placed(full_gaussian, 2, rows).prior
    >>> print(prior.location[0], (prior.degrees[0] * prior.scale[0]).round(2))  # the mean, and one over the variance
    [37.] [[6.]]
    """
    require(make in PLACES, "make", "a Gaussian constructor of vijax.models.emission", make)
    rows = _rows(data)
    is_finite = not np.isinf(rows).any()
    require(is_finite, "data", "finite numbers, or NaN where one is missing", "an infinite one")
    is_number = np.isfinite(rows)
    require(
        bool(is_number.any(axis=0).all()),
        "data",
        "a number in every column",
        "a column without one",
    )
    mean = np.nanmean(np.where(is_number, rows, np.nan), axis=0)
    variance = np.nanvar(np.where(is_number, rows, np.nan), axis=0)
    variance = spread_or_one(np.sqrt(variance), mean) ** 2
    emission = make(num_components, len(mean), **{**PLACES[make](mean, variance), **settings})
    if isinstance(data, tuple) or is_number.all():
        return emission
    return incomplete(emission)


def _rows(data: PyTree) -> Float[np.ndarray, "N D"]:
    """The rows of the data; of sequences their steps."""
    if isinstance(data, tuple):
        y, mask = (array_of_numbers("data", part) for part in data)
        return np.asarray(y, float)[np.asarray(mask).astype(bool)]
    rows = np.asarray(array_of_numbers("data", data), float)
    require(
        rows.ndim == 2 and len(rows) > 0,
        "data",
        "rows (N, D), or a pair (y, mask)",
        f"shape {rows.shape}",
    )
    return rows


def _matrix_settings(mean: np.ndarray, variance: np.ndarray) -> dict[str, Any]:
    degrees = len(mean) + 2.0
    return {"location": mean, "degrees": degrees, "scale": np.diag(1 / variance) / degrees}


PLACES: dict[Callable[..., Emission], Callable[[np.ndarray, np.ndarray], dict[str, Any]]] = {
    full_gaussian: _matrix_settings,
    tied_gaussian: _matrix_settings,
    diagonal_gaussian: lambda mean, variance: {"location": mean, "rate": variance},
    spherical_gaussian: lambda mean, variance: {"location": mean, "rate": float(variance.mean())},
    unit_gaussian: lambda mean, variance: {"location": mean},
}
"""The settings of each constructor at means and variances of columns."""
