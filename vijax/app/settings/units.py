"""Quantities in the units of the data, for a run that has standardised its columns: x = mean +
deviation * standardised.

mean and deviation of a column deviation_d * m_d + mean_d, deviation_d * s_d coefficients b of
standardised rows b_d / deviation_d, and the intercept less sum_d b_d mean_d / deviation_d
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

STANDARDISED = "In units of standardised columns (mean 0, deviation 1 in the training rows)."


def to_covariance(precision: Any) -> Float[np.ndarray, "*batch D D"]:
    """Inverses of precision matrices, pseudo-inverses of singular ones. They are taken in units in
    which the diagonal is one: else a column in large units would seem to have no variance.

    >>> to_covariance(np.diag([1e-12, 1e12])).round(20).tolist()
    [[1000000000000.0, 0.0], [0.0, 1e-12]]
    """
    precision = np.asarray(precision, float)
    diagonal = np.diagonal(precision, axis1=-2, axis2=-1)
    deviations = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    units = deviations[..., :, None] * deviations[..., None, :]
    return units * np.linalg.pinv(units * precision, hermitian=True)


class Units(NamedTuple):
    """The means and deviations by which the columns of a table were standardised.

    >>> units = Units(np.array([70.0]), np.array([10.0]), True)
    >>> units.points(np.array([[0.5]])).tolist(), units.spread(np.array([0.1])).tolist()
    ([[75.0]], [1.0])
    """

    mean: Float[np.ndarray, " D"]  # the number that was subtracted from each column
    deviation: Float[np.ndarray, " D"]  # the number by which each was divided
    scaled: bool  # True if the table was standardised

    def points(self, x: Any) -> np.ndarray:
        """Rows (or means of columns), the last axis over columns."""
        if not self.scaled:
            return np.asarray(x)
        return np.asarray(x, float) * self.deviation + self.mean

    def spread(self, deviation: Any) -> np.ndarray:
        """Standard deviations of columns, or differences between rows."""
        if not self.scaled:
            return np.asarray(deviation)
        return np.asarray(deviation, float) * self.deviation

    def cov(self, cov: Any) -> np.ndarray:
        """A covariance of columns."""
        if not self.scaled:
            return np.asarray(cov)
        return np.asarray(cov, float) * np.outer(self.deviation, self.deviation)

    def coefficients(self, intercept: bool) -> Float[np.ndarray, "P P"]:
        """The matrix that turns coefficients of standardised rows into coefficients of the original
        rows. Its rows are designs whose predictions are the coefficients.

        >>> x, b = np.array([80.0]), np.array([2.0, 1.0])  # standardised: 1, prediction 3
        >>> slope, constant = Units(np.array([70.0]), np.array([10.0]), True).coefficients(True) @ b
        >>> float(slope * x[0] + constant)
        3.0
        """
        size = len(self.mean)
        inverse = np.diag(1 / self.deviation)
        if not intercept:
            return inverse
        last = np.append(-self.mean / self.deviation, 1.0)
        return np.vstack([np.hstack([inverse, np.zeros((size, 1))]), last])

    def note(self, text: str = "") -> str:
        """A note on a quantity in the units of the fit.

        >>> Units(np.zeros(2), np.array([3.0, 3.0]), True).note()
        'In units of columns less their means, divided by one number for all, 3.'
        """
        if not self.scaled:
            return text
        unit = STANDARDISED
        if np.all(self.deviation == 1):
            unit = "In units of columns less their means."
        elif len(self.deviation) > 1 and np.all(self.deviation == self.deviation[0]):
            unit = (
                "In units of columns less their means, divided by one number for all, "
                f"{self.deviation[0]:.4g}."
            )
        return f"{text} {unit}".strip()


def log_scales(table: Any) -> Float[np.ndarray, " N"]:
    """The sum of log deviations over the known entries of each row, zero if nothing was scaled. The
    log density of a standardised row less this is the log density of the original row.

    >>> from vijax.data.tables.table import Table
    >>> table = Table(("a", "b"), np.array([[10.0, 1.0], [30.0, np.nan]])).standardise()
    >>> log_scales(table).round(4).tolist()  # log 10 of the first column; the second one keeps its scale
    [2.3026, 2.3026]
    """
    logs = np.log(table_units(table).deviation)
    return np.where(np.isfinite(table.x), logs, 0.0).sum(axis=1)


def table_units(table: Any) -> Units:
    """The units of a table's columns."""
    size = len(table.columns)
    if table.scaling is None:
        return Units(np.zeros(size), np.ones(size), False)
    mean = np.asarray(table.scaling.mean, float)
    return Units(mean, np.asarray(table.scaling.deviation, float), True)
