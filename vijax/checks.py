"""Checks of arguments: errors that name the argument, what was expected, what came, and the remedy."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


class RowError(ValueError):
    """A row of data with a value that is not allowed.

    Attributes:
      row: the number of the row, from 0.
      column: the number of the column, from 0.

    >>> error = RowError("data: expected counts, got -1.0 in", 5, 1, "(3 such values). Remove them.")
    >>> print(error)
    data: expected counts, got -1.0 in row 5, column 1, counted from 0 (3 such values). Remove them.
    >>> error.at("line 7, column 'weight'")
    "data: expected counts, got -1.0 in line 7, column 'weight' (3 such values). Remove them."
    """

    def __init__(self, before: str, row: int, column: int, after: str):
        super().__init__(f"{before} row {row}, column {column}, counted from 0 {after}")
        self.row, self.column, self._before, self._after = row, column, before, after

    def at(self, place: str) -> str:
        """Returns the message with another name for row and column."""
        return f"{self._before} {place} {self._after}"


def require(ok: Any, argument: str, expected: str, got: Any, remedy: str = "") -> None:
    """Raises ValueError naming the argument where `ok` is false; traced values pass.

    >>> require(np.array([2.0, -1.0]) > 0, "rate", "positive numbers", np.array([2.0, -1.0]))
    Traceback (most recent call last):
    ...
    ValueError: rate: expected positive numbers, got [2.0, -1.0].
    """
    if isinstance(ok, jax.core.Tracer):
        return
    if not np.all(np.asarray(ok)):  # NumPy, not jnp: under jit even a constant would become a tracer
        raise ValueError(f"{argument}: expected {expected}, got {brief(got)}." + (f" {remedy}" if remedy else ""))


def require_integers(least: int = 1, **sizes: Any) -> None:
    """Raises ValueError naming the first argument that is no integer, or is below `least`.

    >>> require_integers(dim=2, num_states=1.5)
    Traceback (most recent call last):
    ...
    ValueError: num_states: expected an integer >= 1, got 1.5.
    """
    for name, size in sizes.items():
        whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
        require(whole and size >= least, name, f"an integer >= {least}", repr(size) if isinstance(size, str) else size)


def require_positive(**values: Any) -> None:
    """Raises ValueError naming the first argument that is no positive finite number (or array of them); traced values
    pass.

    >>> require_positive(scale=2.0, alpha="0.1")
    Traceback (most recent call last):
    ...
    ValueError: alpha: expected a positive number, got the string '0.1'. Write the number without quotes.
    """
    for name, value in values.items():
        require_numbers(name, value, expected="a positive number")
        if not isinstance(value, jax.core.Tracer):
            numbers = np.asarray(value)
            require((numbers > 0) & np.isfinite(numbers), name, "a positive number", value)


def require_numbers(argument: str, *values: Any, expected: str = "numbers") -> None:
    """Raises ValueError on strings, None, and lists that hold them, where numbers are expected."""
    for value in values:
        if isinstance(value, str | bytes):
            remedy = "Write the number without quotes."
            require(False, argument, expected, f"the string {value!r}", remedy)
        leaves = [value] if hasattr(value, "dtype") else jax.tree.leaves(value, is_leaf=lambda x: x is None)
        require(all(map(_is_numeric, leaves)), argument, expected, repr(value))


def finite_array(argument: str, x: Any) -> np.ndarray:
    """Returns numbers as a float64 array; raises ValueError naming the argument where one is not finite."""
    x = np.asarray(x, np.float64)
    require(np.isfinite(x), argument, "finite numbers", x)
    return x


def _is_numeric(leaf: Any) -> bool:
    kind = getattr(getattr(leaf, "dtype", None), "kind", "f")
    return leaf is not None and not isinstance(leaf, str | bytes) and kind not in "USO"


def brief(x: Any) -> str:
    """Returns a value as text for an error message, a large array by its shape and range."""
    if isinstance(x, jax.core.Tracer) or not hasattr(x, "dtype"):
        return str(x)
    x = np.asarray(x)
    if x.size <= 8:
        return str(x.tolist())
    finite = x[np.isfinite(x)]
    if not finite.size:
        return f"an array of shape {x.shape}, none finite"
    bad = f", {x.size - finite.size} not finite" if finite.size < x.size else ""
    return f"an array of shape {x.shape} with values in [{finite.min():.6g}, {finite.max():.6g}]{bad}"
