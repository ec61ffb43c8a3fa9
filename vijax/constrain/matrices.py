"""Positive definite matrices: covariances, precisions."""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from vijax.constrain.base import Constraint
from vijax.constrain.triangles import diagonal_of, entries_of, fill, require_square
from vijax.families.vector.matrices import transpose


@dataclasses.dataclass(frozen=True)
class positive_definite(Constraint):
    """Symmetric positive definite matrices X = L L' of the last two axes, by the lower triangle of L, row by row, with
    the logarithms of its diagonal.

    The density is with respect to the entries of X on and below the diagonal, as a Wishart's is. Where the condition
    number of X is beyond the precision (about 1e7 in float32), X has lost its factor: `free` does not return the
    coordinates, and `holds` may be false. `point` and `log_det` stay finite.

    >>> print(positive_definite().point(jnp.zeros(3)))
    [[1. 0.]
     [0. 1.]]
    """

    def free(self, x: Float[Array, "*batch D D"]) -> Float[Array, "*batch D*(D+1)/2"]:
        """The Cholesky factor, its diagonal as logarithms."""
        require_square("x", x)
        factor = jnp.linalg.cholesky(x)
        return entries_of(_with_diagonal(factor, jnp.log(diagonal_of(factor))), True)

    def point(self, free: Float[Array, "*batch D*(D+1)/2"]) -> Float[Array, "*batch D D"]:
        """L L'."""
        logs = fill(free, True)
        factor = _with_diagonal(logs, jnp.exp(diagonal_of(logs)))
        return factor @ transpose(factor)

    def log_det(self, free: Float[Array, "*batch D*(D+1)/2"]) -> Float[Array, ""]:
        """sum_i log 2 + (D - i + 2) log L_ii, i = 1..D: Muirhead 1982, theorem 2.1.9, and one log L_ii of exp."""
        logs = diagonal_of(fill(free, True))
        powers = jnp.arange(logs.shape[-1] + 1, 1, -1, dtype=logs.dtype)
        return jnp.sum(math.log(2.0) + powers * logs)

    def holds(self, x: Float[Array, "*batch D D"]) -> Bool[Array, "*batch D D"]:
        """Whole matrices: symmetric to rounding, and with a Cholesky factor."""
        require_square("x", x)
        largest = jnp.max(jnp.abs(x), (-2, -1), keepdims=True)
        is_symmetric = jnp.abs(x - transpose(x)) <= 1e-4 * largest
        is_definite = jnp.isfinite(jnp.linalg.cholesky(x))
        return jnp.broadcast_to(jnp.all(is_symmetric & is_definite, (-2, -1), keepdims=True), jnp.shape(x))


def _with_diagonal(
    matrix: Float[Array, "*batch D D"], diagonal: Float[Array, "*batch D"]
) -> Float[Array, "*batch D D"]:
    """A triangle with its diagonal replaced."""
    return jnp.tril(matrix, -1) + diagonal[..., None] * jnp.eye(matrix.shape[-1], dtype=matrix.dtype)
