"""Lower triangles of square matrices as vectors, row by row."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.checks import require


def require_square(argument: str, x: Any) -> int:
    """D of matrices (*batch, D, D); ValueError naming the argument of anything else."""
    shape = jnp.shape(x)
    square = len(shape) >= 2 and shape[-1] == shape[-2] and shape[-1] > 0
    require(square, argument, "square matrices in the last two axes", f"shape {shape}")
    return shape[-1]


def size_of(free: Any, diagonal: bool) -> int:
    """The size D of matrices whose lower triangles have as many entries as the last axis, with or without diagonal.

    >>> size_of(np.zeros(6), True), size_of(np.zeros(6), False)
    (3, 4)
    """
    shape = jnp.shape(free)
    count = shape[-1] if shape else -1
    rows = (math.isqrt(8 * max(count, 0) + 1) - 1) // 2
    triangular = rows * (rows + 1) == 2 * count and count >= diagonal
    require(triangular, "free", f"a last axis of D (D {'+' if diagonal else '-'} 1) / 2 entries", f"shape {shape}")
    return rows if diagonal else rows + 1


def fill(entries: Float[Array, "*batch entries"], diagonal: bool) -> Float[Array, "*batch D D"]:
    """Lower triangular matrices of these entries.

    >>> print(fill(jnp.array([1.0, 2.0, 3.0]), True))
    [[1. 0.]
     [2. 3.]]
    """
    size = size_of(entries, diagonal)
    zeros = jnp.zeros((*entries.shape[:-1], size, size), entries.dtype)
    return zeros.at[..., *_places(size, diagonal)].set(entries)


def entries_of(matrix: Float[Array, "*batch D D"], diagonal: bool) -> Float[Array, "*batch entries"]:
    """Entries of the lower triangles: the inverse of `fill`."""
    return matrix[..., *_places(matrix.shape[-1], diagonal)]


def diagonal_of(matrix: Float[Array, "*batch D D"]) -> Float[Array, "*batch D"]:
    """Diagonals."""
    return jnp.diagonal(matrix, axis1=-2, axis2=-1)


def _places(size: int, diagonal: bool) -> tuple[np.ndarray, np.ndarray]:
    return np.tril_indices(size, 0 if diagonal else -1)
