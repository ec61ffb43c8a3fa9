"""Probabilities of K classes."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from vijax.constrain.base import Constraint
from vijax.constrain.vector_shape import require_vector


@dataclasses.dataclass(frozen=True)
class simplex(Constraint):
    """Positive numbers that sum to one over the last axis, by the log ratio of each to the last.

    >>> weights = simplex().point(jnp.log(jnp.array([2.0, 1.0])))
    >>> print(weights, simplex().holds(weights))
    [0.5  0.25 0.25] [ True  True  True]
    """

    def free(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch K-1"]:
        """log x_k / x_K."""
        require_vector("x", jnp.shape(x), 2)
        log = jnp.log(x)
        return log[..., :-1] - log[..., -1:]

    def point(self, free: Float[Array, "*batch K-1"]) -> Float[Array, "*batch K"]:
        """softmax."""
        return jax.nn.softmax(_with_last(free), -1)

    def log_det(self, free: Float[Array, "*batch K-1"]) -> Float[Array, ""]:
        """sum_k log x_k over all K: of the density with respect to the first K - 1, as that of a Dirichlet is."""
        return jnp.sum(jax.nn.log_softmax(_with_last(free), -1))

    def holds(self, x: Float[Array, "*batch K"]) -> Bool[Array, "*batch K"]:
        """Positive, and of sum one to rounding."""
        require_vector("x", jnp.shape(x), 2)
        return (x > 0) & (jnp.abs(jnp.sum(x, -1, keepdims=True) - 1) < 1e-4)


def _with_last(free: Float[Array, "*batch K-1"]) -> Float[Array, "*batch K"]:
    """Logits with a zero appended for the last class."""
    require_vector("free", jnp.shape(free), 1)
    return jnp.concatenate([free, jnp.zeros_like(free[..., :1])], -1)
