"""Rows of sequences of which single cells are missing, for emissions with and without a law of
missing cells."""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.models.emission import Emission

REMEDY = (
    "Make the emission by vijax.models.emission.incomplete(emission), which reads them, and fit "
    "again."
)


class MissingCellsWarning(UserWarning):
    """Steps lack some of their cells, and count as not seen."""


def reads_missing(emission: Emission) -> bool:
    """True if a step with some of its cells counts by them; labels are no cells."""
    return (emission.unlabelled or emission).takes_missing


def observed_columns(
    emission: Emission, rows: Float[np.ndarray, "*N C"]
) -> Float[np.ndarray, "*N D"]:
    """The rows without labels."""
    if emission.has_labels:
        return rows[..., :-1]
    return rows


def warn_of_partial(emission: Emission, rows: Float[np.ndarray, "N C"], argument: str) -> None:
    """Warns of cells that are not read, because others of their step are missing."""
    if reads_missing(emission):
        return
    cells = observed_columns(emission, rows)
    is_missing = np.isnan(cells)
    is_partial = is_missing.any(axis=1) & ~is_missing.all(axis=1)
    if is_partial.any():
        unread = int((~is_missing[is_partial]).sum())
        warnings.warn(
            f"{argument}: {int(is_missing.sum()):,} of {cells.size:,} cells are missing; "
            f"{int(is_partial.sum()):,} steps that lack only some count as not seen, and "
            f"{unread:,} cells of theirs are not read. {REMEDY}",
            MissingCellsWarning,
            stacklevel=3,
        )


def check_row(emission: Emission, row: Float[np.ndarray, " C"]) -> None:
    """Raises ValueError for a row that the emission cannot have; warns of cells that are not
    read."""
    remedy = "A row, or a cell, that was not seen is NaN."
    require(not np.isinf(row).any(), "row", "finite numbers or NaN", f"{row}", remedy)
    is_missing = np.isnan(row)
    is_read = not is_missing.any()
    if emission.takes_missing:
        is_read = not is_missing.all()
    if is_read:
        emission.check(row[None])
    warn_of_partial(emission, row[None], "row")
