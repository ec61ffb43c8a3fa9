"""Sequences of unequal length, as the models of series take them: a padded array and the mask of its steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, PyTree

from vijax.checks import require


def pad(sequences: Any) -> tuple[Float[np.ndarray, "N T D"], Bool[np.ndarray, "N T"]]:
    """Sequences of unequal length, arrays (T_n, D), as one array and the mask of its steps.

    Raises:
      ValueError: there is no sequence, or they are not of one width.

    >>> y, mask = pad([np.zeros((2, 1)), np.ones((3, 1))])
    >>> y.shape, mask.tolist()
    ((2, 3, 1), [[True, True, False], [True, True, True]])
    """
    rows = [np.atleast_2d(np.asarray(s)) if np.size(s) else np.asarray(s) for s in sequences]
    widths = {row.shape[1] for row in rows if row.ndim == 2}
    require(len(widths) == 1, "sequences", "arrays (T, D) of one width D", f"widths {sorted(widths)}")
    steps = np.array([row.shape[0] if row.ndim == 2 else 0 for row in rows])
    mask = np.arange(max(steps.max(), 1)) < steps[:, None]
    y = np.zeros((*mask.shape, widths.pop()), np.result_type(*rows, np.float32))
    for n, row in enumerate(rows):
        y[n, : steps[n]] = row
    return y, mask


def check_pair(data: PyTree) -> tuple[Float[np.ndarray, "N T D"], Bool[np.ndarray, "N T"]]:
    """The pair (y, mask) as NumPy arrays.

    Raises:
      ValueError: it is no such pair, a mask has gaps, or no step exists.
    """
    pair = isinstance(data, tuple) and len(data) == 2
    require(pair, "data", "a pair (y, mask)", type(data).__name__, "See vijax.models.pad.")
    y, mask = map(np.asarray, data)
    fits = y.ndim == 3 and mask.shape == y.shape[:2]
    require(fits, "data", "y of shape (N, T, D) and mask of shape (N, T)", f"{y.shape} and {mask.shape}")
    mask = mask.astype(bool)
    gaps = np.flatnonzero(np.any(mask[:, 1:] & ~mask[:, :-1], axis=1))
    where = f"a gap in sequence {gaps[0]}" if len(gaps) else ""
    remedy = "A step that was not observed is a row of NaN, where the model takes those. See vijax.models.pad."
    require(not len(gaps), "data", "masks true on the first steps of each sequence", where, remedy)
    require(mask.any(), "data", "at least one step", "sequences that are all empty")
    return y, mask


def check_values(
    bad: Bool[np.ndarray, "N T D"],
    y: Float[np.ndarray, "N T D"],
    mask: Bool[np.ndarray, "N T"],
    expected: str,
    remedy: str = "",
) -> None:
    """Raises ValueError naming sequence, step and column of the first bad value of a step that exists."""
    where = np.argwhere(bad & mask[..., None])
    if len(where):
        n, t, d = map(int, where[0])
        raise ValueError(
            f"data: expected {expected}, got {y[n, t, d]} in sequence {n}, step {t}, column {d} ({len(where)} such "
            f"values). {remedy}".rstrip()
        )
