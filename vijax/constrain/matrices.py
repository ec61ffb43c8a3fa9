"""Constraints of square matrices in the last two axes: positive definite matrices, and Cholesky
factors of correlation matrices."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from vijax.checks import require
from vijax.constrain.base import Constraint


@dataclasses.dataclass(frozen=True)
class positive_definite(Constraint):
    """Symmetric positive definite matrices X = L L' in the last two axes. The coordinates are the
    lower triangle of L, row by row, with the logarithms of its diagonal.

    The density is with respect to the entries of X on and below the diagonal, as a Wishart's is. If
    the condition number of X exceeds the precision (about 1e7 in float32), X does not determine its
    factor: `free` does not return the coordinates, and `holds` may be false. `point` and `log_det`
    stay finite.

    >>> print(positive_definite().point(jnp.zeros(3)))
    [[1. 0.]
     [0. 1.]]
    """

    def free(self, x: Float[Array, "*batch D D"]) -> Float[Array, "*batch D*(D+1)/2"]:
        require_square("x", x)
        factor = jnp.linalg.cholesky(x)
        return read_triangle(_with_diagonal(factor, jnp.log(read_diagonal(factor))), True)

    def point(self, free: Float[Array, "*batch D*(D+1)/2"]) -> Float[Array, "*batch D D"]:
        logs = fill(free, True)
        factor = _with_diagonal(logs, jnp.exp(read_diagonal(logs)))
        return factor @ factor.mT

    def log_det(self, free: Float[Array, "*batch D*(D+1)/2"]) -> Float[Array, ""]:
        """sum_i log 2 + (D - i + 2) log L_ii, i = 1..D (Muirhead 1982, theorem 2.1.9, plus one log
        L_ii for the exponential)."""
        logs = read_diagonal(fill(free, True))
        powers = jnp.arange(logs.shape[-1] + 1, 1, -1, dtype=logs.dtype)
        return jnp.sum(math.log(2.0) + powers * logs)

    def holds(self, x: Float[Array, "*batch D D"]) -> Bool[Array, "*batch D D"]:
        """True for matrices that are symmetric to rounding and have a Cholesky factor."""
        require_square("x", x)
        largest = jnp.max(jnp.abs(x), (-2, -1), keepdims=True)
        is_symmetric = jnp.abs(x - x.mT) <= 1e-4 * largest
        is_definite = jnp.isfinite(jnp.linalg.cholesky(x))
        holds = jnp.all(is_symmetric & is_definite, (-2, -1), keepdims=True)
        return jnp.broadcast_to(holds, jnp.shape(x))


def _with_diagonal(matrix: Array, diagonal: Array) -> Float[Array, "*batch D D"]:
    """The strict lower triangles with these diagonals."""
    return jnp.tril(matrix, -1) + diagonal[..., None] * _unit_like(matrix)


def _unit_like(x: Array) -> Array:
    """The identity matrix, with an axis of size 1 for each batch axis of x."""
    return jnp.eye(x.shape[-1], dtype=x.dtype)[(None,) * (x.ndim - 2)]


@dataclasses.dataclass(frozen=True)
class correlation_cholesky(Constraint):
    """Lower triangular L with a positive diagonal and rows of length one, so that L L' is a
    correlation matrix. The coordinates are the ratios L_ij / L_ii below the diagonal, row by row.

    The map is `CorrelationCholesky` of TensorFlow Probability. The density is with respect to the
    entries below the diagonal, as in Lewandowski, Kurowicka and Joe (2009), LKJ.

    >>> factor = correlation_cholesky().point(jnp.array([1.0]))
    >>> print((factor @ factor.T).round(3))
    [[1.    0.707]
     [0.707 1.   ]]
    """

    def free(self, x: Float[Array, "*batch D D"]) -> Float[Array, "*batch D*(D-1)/2"]:
        require_square("x", x)
        return read_triangle(x / read_diagonal(x)[..., None], False)

    def point(self, free: Float[Array, "*batch D*(D-1)/2"]) -> Float[Array, "*batch D D"]:
        rows = fill(free, False)
        rows = rows + _unit_like(rows)
        return rows / jnp.linalg.norm(rows, axis=-1, keepdims=True)

    def log_det(self, free: Float[Array, "*batch D*(D-1)/2"]) -> Float[Array, ""]:
        """-(i + 1) / 2 log(1 + |row i|^2), summed over the rows i = 1..D."""
        squares = jnp.sum(fill(free, False) ** 2, -1)
        powers = 0.5 * jnp.arange(2, squares.shape[-1] + 2, dtype=squares.dtype)
        return -jnp.sum(powers * jnp.log1p(squares))

    def holds(self, x: Float[Array, "*batch D D"]) -> Bool[Array, "*batch D D"]:
        """True for zeros above the diagonal, positive numbers on it and finite numbers below, in
        rows of length one to rounding."""
        size = require_square("x", x)
        has_length_one = jnp.abs(jnp.sum(x**2, -1, keepdims=True) - 1) < 1e-4
        diagonal = jnp.eye(size, dtype=bool)
        upper = ~jnp.tri(size, dtype=bool)
        return has_length_one & jnp.where(
            diagonal, x > 0, jnp.where(upper, x == 0, jnp.isfinite(x))
        )


def require_square(argument: str, x: Any) -> int:
    """The size D of matrices (*batch, D, D); ValueError naming the argument for other shapes."""
    shape = jnp.shape(x)
    square = len(shape) >= 2 and shape[-1] == shape[-2] and shape[-1] > 0
    require(square, argument, "square matrices in the last two axes", f"shape {shape}")
    return shape[-1]


def fill(entries: Float[Array, "*batch entries"], diagonal: bool) -> Float[Array, "*batch D D"]:
    """Lower triangular matrices of these entries, row by row, with the diagonal or without it;
    ValueError if the entries do not fill a triangle.

    >>> print(fill(jnp.array([1.0, 2.0, 3.0]), True))
    [[1. 0.]
     [2. 3.]]
    """
    shape = jnp.shape(entries)
    count = shape[-1] if shape else -1
    rows = (math.isqrt(8 * max(count, 0) + 1) - 1) // 2
    triangular = rows * (rows + 1) == 2 * count and count >= diagonal
    sign, size = ("+", rows) if diagonal else ("-", rows + 1)
    require(triangular, "free", f"a last axis of D (D {sign} 1) / 2 entries", f"shape {shape}")
    zeros = jnp.zeros((*shape[:-1], size, size), entries.dtype)
    return zeros.at[..., *np.tril_indices(size, diagonal - 1)].set(entries)


def read_triangle(
    matrix: Float[Array, "*batch D D"], diagonal: bool
) -> Float[Array, "*batch entries"]:
    """The entries of the lower triangles: the inverse of `fill`."""
    return matrix[..., *np.tril_indices(matrix.shape[-1], diagonal - 1)]


def read_diagonal(matrix: Float[Array, "*batch D D"]) -> Float[Array, "*batch D"]:
    """The diagonals of the matrices."""
    return jnp.diagonal(matrix, axis1=-2, axis2=-1)
