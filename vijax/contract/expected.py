"""The columns that the prior of a model expects, and a warning if the data lie far from it.

A prior about zero of scale one is a sensible default for standardised columns. For other columns it
is silently wrong: a prior mean worth a hundredth of a row adds mean^2 / 100 to the sum of squares
of each component, and a prior variance of one dominates in columns of variance .01. The loss is
measured in nats: the fall of the log density of a row due to the prior."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.contract.model import Model

EXPECTED = "expected"
"""The name among `Model.queries`."""
LEAST_BY_ROW = 0.08
"""Smallest cost of the prior, in nats a row, that gives a warning."""
LEAST = 10.0
"""Smallest cost of the prior over all rows: with little data the prior always matters."""
MOST_ROWS = 100_000
"""Largest number of rows for means and variances. Of more rows, evenly spaced ones are read."""
ROUNDING = 1e-9
"""Largest ratio of the deviation of a column to its mean for which the column is constant."""
MOST_NAMED = 3
STANDARDISE = (
    "Bring columns to mean 0 and deviation 1, with the means and deviations of training also for "
    "later data."
)


class FarFromPriorWarning(UserWarning):
    """Columns lie far from the location or the scale of the prior of a model."""


class Columns(NamedTuple):
    """Columns of data."""

    number: Float[np.ndarray, " D"]  # number of entries that are not missing
    mean: Float[np.ndarray, " D"]
    variance: Float[np.ndarray, " D"]


Strain = Callable[[Columns], Float[np.ndarray, " D"]]
"""columns -> cost of the prior for each column, in nats a row."""


class PriorExpectation(NamedTuple):
    """The data that the prior of a model expects."""

    # Data -> the numbers that the prior is about; NaN is a missing number
    columns: Callable[[Any], Float[np.ndarray, "N D"]]
    strain: Strain
    prior: str  # the prior in words, "about 0 and of deviation 1"
    remedy: str


def expecting(model: Model, expected: PriorExpectation | None) -> Model:
    """The model with the expectation of its prior among its queries; unchanged for None."""
    if expected is None:
        return model
    return dataclasses.replace(model, queries={**model.queries, EXPECTED: expected})


def warn_of_far_columns(model: Model, data: Any, stacklevel: int = 3) -> None:
    """Warns of columns of the data so far from the prior of the model that the fit suffers."""
    expected = model.queries.get(EXPECTED)
    if expected is None:
        return
    columns = _moments(np.asarray(expected.columns(data), np.float64))
    strain = np.nan_to_num(np.broadcast_to(expected.strain(columns), columns.mean.shape))
    far = np.flatnonzero((strain > LEAST_BY_ROW) & (strain * columns.number > LEAST))
    if not len(far):
        return
    names = [
        f"{d} (mean {columns.mean[d]:.3g}, deviation {np.sqrt(columns.variance[d]):.3g})"
        for d in far[:MOST_NAMED]
    ]
    listed = ", ".join(names)
    if len(far) > MOST_NAMED:
        listed += f" and {len(far) - MOST_NAMED} more"
    subject, verb = "columns", "lie"
    if len(far) == 1:
        subject, verb = "column", "lies"
    warnings.warn(
        f"data: {subject} {listed} {verb} far from what the prior expects, numbers "
        f"{expected.prior}: it costs about {np.max(strain[far]):.2g} nats a row and column. "
        f"{expected.remedy}",
        FarFromPriorWarning,
        stacklevel=stacklevel,
    )


def _moments(numbers: Float[np.ndarray, "N D"]) -> Columns:
    """Counts, means and variances of columns; zeros for a column without numbers."""
    rows = numbers[:: max(1, -(-len(numbers) // MOST_ROWS))]
    is_present = np.isfinite(rows)
    values = np.where(is_present, rows, 0.0)
    count = np.maximum(np.sum(is_present, axis=0), 1)
    mean = np.sum(values, axis=0) / count
    variance = np.sum(np.where(is_present, (values - mean) ** 2, 0.0), axis=0) / count
    variance = np.where(variance > (ROUNDING * mean) ** 2, variance, 0.0)
    return Columns(np.sum(np.isfinite(numbers), axis=0).astype(float), mean, variance)


# --- columns of data ------------------------------------------------------------------------------
def rows(data: Any) -> Float[np.ndarray, "N D"]:
    """The rows of an array, unchanged."""
    return np.asarray(data)


def steps(data: Any) -> Float[np.ndarray, "N D"]:
    """The steps of all sequences (y, mask)."""
    y, mask = map(np.asarray, data)
    return y[mask.astype(bool)]


# --- the cost of priors ---------------------------------------------------------------------------
def place_scale_strain(
    place: Any, strength: Any, squares: Any, worth: Any, parts: int = 1
) -> Strain:
    """The cost of conjugate priors: a normal prior of a mean, in units of the noise, with a prior
    of the noise.

    Args:
      place: prior mean.
      strength: number of rows that the prior mean is worth.
      squares: prior sum of squares about the mean.
      worth: number of rows that it is worth: columns of variance squares / worth cost nothing.
      parts: number of components that share the rows.
    """

    def strain(columns: Columns) -> np.ndarray:
        variance = _positive(columns.variance)
        pull = strength * (columns.mean - place) ** 2 / variance
        excess = np.maximum(squares / variance - worth, 0.0)
        return 0.5 * np.log1p((pull + excess) * parts / np.maximum(columns.number, 1.0))

    return strain


USUAL_SHARED = 0.25
"""Nats a row that columns usually lose if no weights couple them."""


def weight_strain(precision: float) -> Strain:
    """The cost of a normal prior about zero for means and loadings of the size of the columns.

    It is at most the cost of leaving them at zero, when the noise has to explain them."""

    def strain(columns: Columns) -> np.ndarray:
        share = 0.5 * precision / np.maximum(columns.number, 1.0)
        without_mean = 0.5 * np.log1p(columns.mean**2 / _positive(columns.variance))
        mean_cost = np.minimum(share * columns.mean**2, without_mean)
        return mean_cost + np.minimum(share * columns.variance, USUAL_SHARED)

    return strain


def variance_strain(variance: float, parts: int) -> Strain:
    """The cost of a fixed variance, for columns that vary less, or so much more that no components
    explain it."""

    def strain(columns: Columns) -> np.ndarray:
        ratio = _positive(columns.variance) / variance
        cost = 0.5 * (ratio - 1.0 - np.log(ratio))
        return np.where((ratio < 1.0) | (ratio > (100.0 * parts) ** 2), cost, 0.0)

    return strain


def mean_strain(place: Any, variance: Any, parts: int) -> Strain:
    """The cost of a normal prior of the mean of numbers of variance one."""

    def strain(columns: Columns) -> np.ndarray:
        shift = (columns.mean - place) / (1.0 + variance * np.maximum(columns.number, 1.0) / parts)
        return 0.5 * shift**2

    return strain


def rate_strain(rate: Any, parts: int) -> Strain:
    """The cost of a gamma prior of rates of counts, worth `rate` rows without a count.

    The estimated rate of n rows is too small by the share rate / (rate + n), which costs mean (rate
    / (rate + n))^2 / 2 nats a row."""

    def strain(columns: Columns) -> np.ndarray:
        share = rate / (rate + np.maximum(columns.number, 1.0) / parts)
        return 0.5 * np.maximum(columns.mean, 0.0) * share**2

    return strain


def least(strain: Strain) -> Strain:
    """The smallest cost over components, the leading axis of the given cost."""
    return lambda columns: np.min(np.atleast_2d(strain(columns)), axis=0)


def together(*strains: Strain) -> Strain:
    """The sum of costs."""

    def total(columns: Columns) -> np.ndarray:
        costs = [strain(columns) for strain in strains]
        return np.sum(np.broadcast_arrays(*costs), axis=0)

    return total


def _positive(variance: np.ndarray) -> np.ndarray:
    """Variances; NaN for constant columns, which have no scale."""
    return np.where(variance > 0, variance, np.nan)
