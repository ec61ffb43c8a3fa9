"""The columns that the prior of a model expects, and a warning where the data lie far from it.

A prior about zero and of scale one is a sensible default for columns that were brought there. For
others it is wrong in silence: a prior mean that is worth a hundredth of a row adds mean^2 / 100 to
the sum of squares of each component, and a prior variance of one is most of what is found in
columns whose own is .01. How much is lost is measured in nats: the fall of the log density of a row
by what the prior adds."""

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
"""Nats a row that the prior must cost at least, before something is said."""
LEAST = 10.0
"""Nats of all rows that it must cost at least: small data are always a matter of the prior."""
MOST_ROWS = 100_000
"""Rows of which means and variances are computed, at most; of more rows evenly spaced ones are
taken."""
ROUNDING = 1e-9
"""The deviation of a column, beside its mean, up to which it is a constant."""
MOST_NAMED = 3
STANDARDISE = (
    "Bring columns to mean 0 and deviation 1, with the means and deviations of training also for "
    "later data."
)


class FarFromPriorWarning(UserWarning):
    """Columns lie far from the place or the scale that the prior of a model is about."""


class Columns(NamedTuple):
    """Columns of data."""

    number: Float[np.ndarray, " D"]  # of entries that are there
    mean: Float[np.ndarray, " D"]
    variance: Float[np.ndarray, " D"]


Strain = Callable[[Columns], Float[np.ndarray, " D"]]
"""columns -> nats, for each column and row, that the prior costs."""


class PriorExpectation(NamedTuple):
    """The expectations that the prior of a model has of its data."""

    columns: Callable[
        [Any], Float[np.ndarray, "N D"]
    ]  # data -> the numbers that the prior is about; NaN are missing
    strain: Strain
    prior: str  # the prior in words, "about 0 and of deviation 1"
    remedy: str


def expecting(model: Model, expected: PriorExpectation | None) -> Model:
    """The model, which says what its prior expects; the model itself where it expects nothing."""
    if expected is None:
        return model
    return dataclasses.replace(model, queries={**model.queries, EXPECTED: expected})


def warn_of_far_columns(model: Model, data: Any, stacklevel: int = 3) -> None:
    """Warns where columns of the data lie so far from the prior of the model that the fit is worse
    for it."""
    expected = model.queries.get(EXPECTED)
    if expected is None:
        return
    columns = _moments(np.asarray(expected.columns(data), np.float64))
    strain = np.nan_to_num(np.broadcast_to(expected.strain(columns), columns.mean.shape))
    far = np.flatnonzero((strain > LEAST_BY_ROW) & (strain * columns.number > LEAST))
    if not len(far):
        return
    told = [
        f"{d} (mean {columns.mean[d]:.3g}, deviation {np.sqrt(columns.variance[d]):.3g})"
        for d in far[:MOST_NAMED]
    ]
    more = f" and {len(far) - MOST_NAMED} more" if len(far) > MOST_NAMED else ""
    which, lie = ("column", "lies") if len(far) == 1 else ("columns", "lie")
    warnings.warn(
        f"data: {which} {', '.join(told)}{more} {lie} far from what the prior expects, numbers "
        f"{expected.prior}: it "
        f"costs about {np.max(strain[far]):.2g} nats a row and column. {expected.remedy}",
        FarFromPriorWarning,
        stacklevel=stacklevel,
    )


def _moments(numbers: Float[np.ndarray, "N D"]) -> Columns:
    """Counts, means and variances of columns; of one without numbers zero."""
    rows = numbers[:: max(1, -(-len(numbers) // MOST_ROWS))]
    there = np.isfinite(rows)
    known = np.where(there, rows, 0.0)
    count = np.maximum(np.sum(there, axis=0), 1)
    mean = np.sum(known, axis=0) / count
    variance = np.sum(np.where(there, (known - mean) ** 2, 0.0), axis=0) / count
    variance = np.where(variance > (ROUNDING * mean) ** 2, variance, 0.0)
    return Columns(np.sum(np.isfinite(numbers), axis=0).astype(float), mean, variance)


# --- columns of data ------------------------------------------------------------------------------
def rows(data: Any) -> Float[np.ndarray, "N D"]:
    """Rows as they are."""
    return np.asarray(data)


def steps(data: Any) -> Float[np.ndarray, "N D"]:
    """The steps of all sequences (y, mask)."""
    y, mask = map(np.asarray, data)
    return y[mask.astype(bool)]


# --- the cost of priors ---------------------------------------------------------------------------
def place_scale_strain(
    place: Any, strength: Any, squares: Any, worth: Any, parts: int = 1
) -> Strain:
    """A normal prior of a mean, in units of the noise, with a prior of this noise: conjugate
    priors.

    Args:
      place: prior mean.
      strength: rows that the prior mean is worth.
      squares: prior sum of squares about the mean.
      worth: rows that it is worth: `squares` of columns of the variance squares / worth cost
          nothing.
      parts: components among which rows are divided.
    """

    def strain(columns: Columns) -> np.ndarray:
        variance = _positive(columns.variance)
        pulled = strength * (columns.mean - place) ** 2 / variance
        widened = np.maximum(squares / variance - worth, 0.0)
        return 0.5 * np.log1p((pulled + widened) * parts / np.maximum(columns.number, 1.0))

    return strain


USUAL_SHARED = 0.25
"""Nats a row that columns usually lose where no weights tie them together."""


def weight_strain(precision: float) -> Strain:
    """A normal prior about zero, in units of its own, of means and loadings that are as large as
    the columns.

    The cost is at most that of leaving them at zero, so that the noise has to explain what they
    would."""

    def strain(columns: Columns) -> np.ndarray:
        share = 0.5 * precision / np.maximum(columns.number, 1.0)
        without_mean = 0.5 * np.log1p(columns.mean**2 / _positive(columns.variance))
        of_means = np.minimum(share * columns.mean**2, without_mean)
        return of_means + np.minimum(share * columns.variance, USUAL_SHARED)

    return strain


def variance_strain(variance: float, parts: int) -> Strain:
    """A variance that is known: columns that vary less, or so much more that no components explain
    it."""

    def strain(columns: Columns) -> np.ndarray:
        ratio = _positive(columns.variance) / variance
        too_wide = 0.5 * (ratio - 1.0 - np.log(ratio))
        return np.where((ratio < 1.0) | (ratio > (100.0 * parts) ** 2), too_wide, 0.0)

    return strain


def mean_strain(place: Any, variance: Any, parts: int) -> Strain:
    """A normal prior of the mean of numbers of variance one, in units of its own."""

    def strain(columns: Columns) -> np.ndarray:
        shift = (columns.mean - place) / (1.0 + variance * np.maximum(columns.number, 1.0) / parts)
        return 0.5 * shift**2

    return strain


def rate_strain(rate: Any, parts: int) -> Strain:
    """A gamma prior of rates of counts, worth `rate` rows without a count.

    A rate found from n rows is short by the part rate / (rate + n), which costs mean (rate / (rate
    + n))^2 / 2 nats a row."""

    def strain(columns: Columns) -> np.ndarray:
        share = rate / (rate + np.maximum(columns.number, 1.0) / parts)
        return 0.5 * np.maximum(columns.mean, 0.0) * share**2

    return strain


def least(strain: Strain) -> Strain:
    """The least cost among components, which lead the numbers of the given one."""
    return lambda columns: np.min(np.atleast_2d(strain(columns)), axis=0)


def together(*strains: Strain) -> Strain:
    """The sum of costs."""
    return lambda columns: np.sum(
        np.broadcast_arrays(*(strain(columns) for strain in strains)), axis=0
    )


def _positive(variance: np.ndarray) -> np.ndarray:
    """Variances; NaN of columns of one number, whose scale nobody knows."""
    return np.where(variance > 0, variance, np.nan)
