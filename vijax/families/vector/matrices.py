"""Small matrices in batches: triangular factors, symmetric parts, checks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array

from vijax.checks import require
from vijax.families.base import finite
from vijax.families.construction import numpy_or_jax
from vijax.families.numeric.special import excess_over_log
from vijax.xla.compiler import quick_jit


def positive_definite(matrix: Array, name: str) -> Array:
    """The matrix, exactly symmetric; ValueError naming the argument unless it is finite, symmetric
    within rounding and positive definite."""
    require(finite(matrix), name, "finite numbers", matrix)
    xp, matrix = numpy_or_jax(matrix)
    gap = xp.max(xp.abs(matrix - matrix.mT), initial=0.0)
    is_symmetric = gap <= 1e-4 * xp.max(xp.abs(matrix), initial=0.0)
    got = f"entries that differ by {gap}"
    require(is_symmetric, name, "a symmetric matrix", got, "Average it with its transpose.")
    matrix = symmetric(matrix)
    remedy = "Add jitter to its diagonal."
    require(is_definite(matrix), name, "a positive definite matrix", matrix, remedy)
    return matrix


def is_definite(matrix: Any) -> Any:
    """True if a symmetric matrix has a Cholesky factor; for a traced matrix booleans of its shape,
    which are all true if it has one."""
    if isinstance(matrix, jax.core.Tracer):
        return jnp.isfinite(jnp.linalg.cholesky(matrix))
    try:
        return np.isfinite(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return False


def symmetric(x: Array) -> Array:
    """(x + x') / 2."""
    return 0.5 * (x + x.mT)


def matvec(matrix: Array, x: Array) -> Array:
    """Matrix times vector; a NumPy array for two NumPy arrays."""
    are_numpy = isinstance(matrix, np.ndarray) and isinstance(x, np.ndarray)
    xp: Any = np if are_numpy else jnp
    return xp.einsum("...ij,...j->...i", matrix, x)


def outer(x: Array, y: Array) -> Array:
    """x y'; use `outer_statistic` if a gradient is taken."""
    return x[..., :, None] * y[..., None, :]


def outer_statistic(x: Array, y: Array) -> Array:
    """x y', safe to differentiate in reverse: the gradient of an einsum is a matrix product.

    The gradient of `outer` is `jnp.sum(g * y, axis=-1)`, which XLA's CPU compiler (jaxlib 0.10.2)
    computes wrongly in float32 if y has more axes than g, by `vmap`, and the last axis is small."""
    return jnp.einsum("...i,...j->...ij", x, y)


def unit_like(x: Array) -> Array:
    """The identity matrix, with an axis of size 1 for each batch axis of x."""
    return jnp.eye(x.shape[-1], dtype=x.dtype)[(None,) * (x.ndim - 2)]


def half_log_det(factor: Array) -> Array:
    """log |L|, half the log-determinant of L L'."""
    return jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)


def excess_of_ratio(factor: Array, other: Array) -> Array:
    """tr S - D - log|S| for S = P' P^-1, from the factors of P and P': twice the divergence of two
    normals with one mean. No term is negative."""
    return excess_of_triangle(solve(factor, other))


def excess_of_triangle(root: Array) -> Array:
    """tr S - D - log|S| for S = R R', R triangular."""
    diagonal = jnp.diagonal(root, axis1=-2, axis2=-1)
    off_diagonal = root * (1.0 - unit_like(root))
    return jnp.sum(excess_over_log(diagonal**2), -1) + jnp.sum(off_diagonal**2, (-2, -1))


def inverse(factor: Array) -> Array:
    """(L L')^-1, exactly symmetric."""
    eye = jnp.eye(factor.shape[-1], dtype=factor.dtype)
    root = solve(factor, jnp.broadcast_to(eye, factor.shape))
    return root.mT @ root


@quick_jit
def invert_positive_definite(matrix: Array) -> Array:
    """The inverse of a positive definite matrix, exactly symmetric, as one program."""
    return inverse(jnp.linalg.cholesky(matrix))


def solve_lower(factor: Array, x: Array) -> Array:
    """L^-1 x for vectors x."""
    return solve(factor, x[..., None])[..., 0]


def solve_upper(factor: Array, x: Array) -> Array:
    """L'^-1 x for vectors x."""
    return solve(factor, x[..., None], trans=1)[..., 0]


def solve(factor: Array, x: Array, trans: int = 0) -> Array:
    """L^-1 x, or L'^-1 x, for the columns of x; batch axes broadcast."""
    batch = jnp.broadcast_shapes(factor.shape[:-2], x.shape[:-2])
    factor, x = (jnp.broadcast_to(a, batch + a.shape[-2:]) for a in (factor, x))
    return solve_triangular(factor, x, lower=True, trans=trans)
