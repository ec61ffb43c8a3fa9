"""Held-out scores of models that do not read documents."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree

from vijax.contract.batch import Minibatch
from vijax.evaluate.score import ratio_estimate
from vijax.families.base import as_array
from vijax.fitting.result import Fit
from vijax.predict.questions import bounds_of, inferred


class RowScore(NamedTuple):
    """Log predictive density of held-out data, nats.

    Attributes:
      mean: mean per row (step of a sequence, entry).
      standard_error: standard error of `mean`.
      number: number of rows.
      per: name of a row.
      remarks: further facts, such as errors.
      parts: the log density of each row (or group of rows), and its number of rows.

    >>> print(RowScore.of([-1.0, -3.0], per="row", remarks="1 error"))
    -2.000 ± 1.000 nats per row (2 rows; 1 error)
    """

    mean: float
    standard_error: float
    number: int
    per: str
    remarks: str = ""
    parts: tuple[np.ndarray, np.ndarray] = (np.zeros(0), np.zeros(0))

    @classmethod
    def of(cls, log_densities: Any, per: str, remarks: str = "", sizes: Any = None) -> RowScore:
        """The score of rows from the log density of each; or of groups of rows of given sizes."""
        totals: Float[np.ndarray, " n"] = np.asarray(log_densities, np.float64)
        sizes = np.ones(len(totals)) if sizes is None else np.asarray(sizes, np.float64)
        return cls(*ratio_estimate(totals, sizes), int(sizes.sum()), per, remarks, (totals, sizes))

    def __str__(self) -> str:
        units = f"{self.number:,} {self.per if self.per != 'entry' else 'entrie'}s"
        alone = "" if np.isfinite(self.standard_error) else "all in one group, so that its error is not known"
        remarks = "".join(f"; {remark}" for remark in (self.remarks, alone) if remark)
        error = "" if alone else f" ± {self.standard_error:.3f}"
        return f"{self.mean:.3f}{error} nats per {self.per} ({units}{remarks})"


def sequences(number: int) -> str:
    """The number of sequences, in words.

    >>> sequences(1), sequences(5)
    ('1 sequence', '5 sequences')
    """
    return f"{number} sequence{'s' if number != 1 else ''}"


def bounds(fit: Fit, data: PyTree, key: Any) -> Float[np.ndarray, " groups"]:
    """Bounds on the log densities of held-out groups, with their locals inferred and the globals fixed."""
    spec = fit.alg.spec
    batch = Minibatch(jax.tree.map(as_array, data), None)
    per_group = inferred(bounds_of, spec, fit.state.hyper, fit.posterior, batch, key)
    return np.asarray(per_group, np.float64)
