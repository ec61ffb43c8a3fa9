"""Cholesky factors of correlation matrices."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from vijax.constrain.base import Constraint
from vijax.constrain.triangles import diagonal_of, entries_of, fill, require_square


@dataclasses.dataclass(frozen=True)
class correlation_cholesky(Constraint):
    """Lower triangular L with positive diagonal and rows of length one, so that L L' is a correlation matrix. Its
    coordinates are the ratios L_ij / L_ii below the diagonal, row by row.

    The map is `CorrelationCholesky` of TensorFlow Probability. The density is with respect to the entries below the
    diagonal, as in Lewandowski, Kurowicka and Joe (2009), LKJ.

    >>> factor = correlation_cholesky().point(jnp.array([1.0]))
    >>> print((factor @ factor.T).round(3))
    [[1.    0.707]
     [0.707 1.   ]]
    """

    def free(self, x: Float[Array, "*batch D D"]) -> Float[Array, "*batch D*(D-1)/2"]:
        """L_ij / L_ii."""
        require_square("x", x)
        return entries_of(x / diagonal_of(x)[..., None], False)

    def point(self, free: Float[Array, "*batch D*(D-1)/2"]) -> Float[Array, "*batch D D"]:
        """Rows of the coordinates and a one, divided by their length."""
        rows = fill(free, False)
        rows = rows + jnp.eye(rows.shape[-1], dtype=rows.dtype)
        return rows / jnp.linalg.norm(rows, axis=-1, keepdims=True)

    def log_det(self, free: Float[Array, "*batch D*(D-1)/2"]) -> Float[Array, ""]:
        """-(i + 1) / 2 log(1 + |row i|^2), summed over the rows i = 1..D."""
        squares = jnp.sum(fill(free, False) ** 2, -1)
        powers = 0.5 * jnp.arange(2, squares.shape[-1] + 2, dtype=squares.dtype)
        return -jnp.sum(powers * jnp.log1p(squares))

    def holds(self, x: Float[Array, "*batch D D"]) -> Bool[Array, "*batch D D"]:
        """Zero above the diagonal, positive on it, in rows of length one to rounding."""
        size = require_square("x", x)
        has_length_one = jnp.abs(jnp.sum(x**2, -1, keepdims=True) - 1) < 1e-4
        on, over = jnp.eye(size, dtype=bool), ~jnp.tri(size, dtype=bool)
        return has_length_one & jnp.where(on, x > 0, jnp.where(over, x == 0, jnp.isfinite(x)))
