"""Observations in groups, padded to one length, as the hierarchical regressions read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, PyTree

from vijax.checks import require

Groups = tuple[Float[np.ndarray, "J n D"], Float[np.ndarray, "J n"], Bool[np.ndarray, "J n"]]


def group_rows(x: Any, y: Any, labels: Any, num_groups: int | None = None) -> Groups:
    """Rows of a table by group, padded to the longest.

    Args:
      x: inputs, (N, D).
      y: responses, (N,).
      labels: the group of each row, integers from 0.
      num_groups: J; by default the largest label plus one. Groups without rows are allowed.

    Returns:
      (x, y, mask) of shapes (J, n, D), (J, n) and (J, n), the mask true on the rows that exist, which come first, in
      the order given.

    Raises:
      ValueError: shapes that do not fit, or labels that are not integers in [0, J).

    >>> x, y, mask = group_rows([[1.0], [2.0], [3.0]], [0.5, 1.5, 2.5], [1, 0, 1])
    >>> y.tolist(), mask.tolist()
    ([[1.5, 0.0], [0.5, 2.5]], [[True, False], [True, True]])
    """
    x, y, labels = np.asarray(x), np.asarray(y), np.asarray(labels)
    fits = x.ndim == 2 and y.shape == labels.shape == x.shape[:1] and len(x) > 0
    require(fits, "x, y, labels", "shapes (N, D), (N,) and (N,)", f"{x.shape}, {y.shape} and {labels.shape}")
    require(np.issubdtype(labels.dtype, np.integer), "labels", "integers", labels.dtype)
    size = int(labels.max()) + 1 if num_groups is None else num_groups
    require((labels >= 0) & (labels < size), "labels", f"integers in [0, {size})", labels)
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=size)
    place = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    group, width = labels[order], int(counts.max())
    padded_x = np.zeros((size, width, x.shape[1]), np.result_type(x, np.float32))
    padded_y = np.zeros((size, width), np.result_type(y, np.float32))
    padded_x[group, place], padded_y[group, place] = x[order], y[order]
    return padded_x, padded_y, np.arange(width) < counts[:, None]


def check_groups(data: PyTree, dim: int, valid: Callable[[np.ndarray], np.ndarray], expected: str) -> None:
    """Raises ValueError unless data are (x, y, mask) as `group_rows` returns them, with finite and `valid` responses
    (an `expected`) in existing rows; names the group and the row of the first bad one."""
    triple = isinstance(data, tuple) and len(data) == 3
    require(triple, "data", "a triple (x, y, mask)", type(data).__name__, "See vijax.models.group_rows.")
    x, y, mask = map(np.asarray, data)
    fits = x.ndim == 3 and x.shape[2] == dim and y.shape == mask.shape == x.shape[:2] and x.size > 0
    shapes = f"{x.shape}, {y.shape} and {mask.shape}"
    require(fits, "data", f"x of shape (J, n, {dim}), y and mask of shape (J, n)", shapes)
    require(np.isin(mask, (0, 1)), "data", "a mask of true and false", mask)
    mask = mask.astype(bool)
    require(mask.any(), "data", "at least one row", "groups that are all empty")
    fine = {"finite inputs": np.isfinite(x).all(axis=2), expected: np.isfinite(y) & valid(y)}
    for what, ok in fine.items():
        bad = np.argwhere(mask & ~ok)
        first = f"row {bad[0, 1]} of group {bad[0, 0]}, counted from 0" if len(bad) else ""
        where = f"{len(bad)} rows that are not, the first {first}"
        require(not len(bad), "data", what, where, "Remove or impute those rows.")
    padding = np.isfinite(x).all(axis=2) & np.isfinite(y)
    require(padding, "data", "finite numbers in padded rows too", "others", "See vijax.models.group_rows.")
