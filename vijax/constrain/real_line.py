"""All numbers."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from vijax.constrain.base import Constraint


@dataclasses.dataclass(frozen=True)
class real(Constraint):
    """Any number: the weights of a network.

    >>> print(real().log_det(jnp.array([3.0, -2.0])))
    0.0
    """

    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """x."""
        return x

    def point(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """x."""
        return free

    def log_det(self, free: Float[Array, "*shape"]) -> Float[Array, ""]:
        """0."""
        return jnp.sum(jnp.zeros_like(free))

    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """x is finite."""
        return jnp.isfinite(x)
