"""Increasing vectors."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from vijax.constrain.base import Constraint
from vijax.constrain.vector_shape import require_vector


@dataclasses.dataclass(frozen=True)
class ordered(Constraint):
    """Numbers that increase along the last axis, by the first and the logarithms of the differences: cutpoints.

    A difference below the rounding of the entries is lost: they are then equal, and `holds` is false.

    >>> print(ordered().point(jnp.array([-1.0, 0.0, 0.0])))
    [-1.  0.  1.]
    """

    def free(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """x_1, log(x_k - x_{k-1})."""
        require_vector("x", jnp.shape(x), 1)
        return jnp.concatenate([x[..., :1], jnp.log(jnp.diff(x, axis=-1))], -1)

    def point(self, free: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """The first, and sums of exponentials from there."""
        require_vector("free", jnp.shape(free), 1)
        return jnp.cumsum(jnp.concatenate([free[..., :1], jnp.exp(free[..., 1:])], -1), -1)

    def log_det(self, free: Float[Array, "*batch K"]) -> Float[Array, ""]:
        """The sum of all coordinates but the first."""
        require_vector("free", jnp.shape(free), 1)
        return jnp.sum(free[..., 1:])

    def holds(self, x: Float[Array, "*batch K"]) -> Bool[Array, "*batch K"]:
        """True where an entry is finite and above the one before it."""
        require_vector("x", jnp.shape(x), 1)
        return jnp.isfinite(x) & (jnp.diff(x, axis=-1, prepend=-jnp.inf) > 0)
