"""Components that the prior has made wider than their rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

MOST_WIDENED = 2.0
"""Ratio of a component's sd and the deviation of its rows from which a note is given."""
LEAST_ROWS = 10
"""Number of rows below which the prior may outweigh them."""
NEEDS_DOUBLE = 1e-5
"""Relative variance below which sums of squares in float32 keep too few digits."""


def deviations_of_rows(
    x: Float[np.ndarray, "N D"], probs: Float[np.ndarray, "N K"]
) -> Float[np.ndarray, "K D"]:
    """Standard deviations of the rows of each component, about their mean, in float64; NaN without
    rows. Missing cells are left out.

    >>> x = 1e6 + np.array([[-1.0], [1.0]])
    >>> deviations_of_rows(x, np.ones((2, 1))).tolist()
    [[1.0]]
    """
    x, probs = np.asarray(x, np.float64), np.asarray(probs, np.float64)
    is_there = np.isfinite(x)
    x = np.where(is_there, x, 0.0)
    totals = probs.T @ is_there
    totals = np.where(totals > 0, totals, np.nan)
    means = probs.T @ x / totals
    squares = [
        share @ np.where(is_there, x - mean, 0.0) ** 2
        for share, mean in zip(probs.T, means, strict=True)
    ]
    return np.sqrt(np.array(squares) / totals)


def widening_note(
    spreads: Float[np.ndarray, "K D"],
    of_rows: Float[np.ndarray, "K D"],
    columns: Sequence[str],
    deviations: Float[np.ndarray, " D"],
    rows: Float[np.ndarray, " K"],
    unit: str,
) -> str:
    """A note on the component that the prior widens most, with settings that let its rows decide;
    "" if none is.

    Args:
      spreads: sds of the components.
      of_rows: deviations of their rows, in the same units.
      columns: names of the columns.
      deviations: the deviation of each column.
      rows: the expected rows of each component.
      unit: the name of a row.
    """
    is_known = (of_rows > 0) & (np.asarray(rows)[:, None] >= LEAST_ROWS)
    ratios = np.where(is_known, spreads / np.where(is_known, of_rows, 1.0), 0.0)
    k, d = map(int, np.unravel_index(np.argmax(ratios), ratios.shape))
    if ratios[k, d] <= MOST_WIDENED:
        return ""
    is_widened = ratios > MOST_WIDENED
    shares = np.where(is_widened, of_rows / np.where(deviations > 0, deviations, 1.0), np.inf)
    variance = 10.0 ** np.floor(2 * np.log10(shares.min()))
    double = ", fit.precision=float64" if variance < NEEDS_DOUBLE else ""
    comparison = (
        f"sd {columns[d]} of {k} is {spreads[k, d]:.4g}, and its {unit}s have a deviation of "
        f"{of_rows[k, d]:.4g}"
    )
    prior = f"model.emission.rate={variance:g}, model.emission.strength={variance:g}"
    settings = f"model.emission.name=diagonal_gaussian, {prior}, data.standardise=true{double}"
    return (
        f"The prior widens what lies close together: {comparison}. The prior is as wide as the "
        f"whole column, and worth a few {unit}s. To let the {unit}s say it: {settings}."
    )
