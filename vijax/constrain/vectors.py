"""Constraints of vectors, along the last axis: the simplex, and increasing numbers."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from vijax.checks import require
from vijax.constrain.base import Constraint


@dataclasses.dataclass(frozen=True)
class simplex(Constraint):
    """Positive numbers that sum to one over the last axis, by their log ratios to the last number.

    >>> weights = simplex().point(jnp.log(jnp.array([2.0, 1.0])))
    >>> print(weights, simplex().holds(weights))
    [0.5  0.25 0.25] [ True  True  True]
    """

    def free(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch K-1"]:
        require_vector("x", jnp.shape(x), 2)
        log = jnp.log(x)
        return log[..., :-1] - log[..., -1:]

    def point(self, free: Float[Array, "*batch K-1"]) -> Float[Array, "*batch K"]:
        return jax.nn.softmax(_with_last(free), -1)

    def log_det(self, free: Float[Array, "*batch K-1"]) -> Float[Array, ""]:
        """sum_k log x_k over all K. The density is with respect to the first K - 1 numbers, as a
        Dirichlet's is."""
        return jnp.sum(jax.nn.log_softmax(_with_last(free), -1))

    def holds(self, x: Float[Array, "*batch K"]) -> Bool[Array, "*batch K"]:
        require_vector("x", jnp.shape(x), 2)
        return (x > 0) & (jnp.abs(jnp.sum(x, -1, keepdims=True) - 1) < 1e-4)


def _with_last(free: Float[Array, "*batch K-1"]) -> Float[Array, "*batch K"]:
    """The coordinates with a zero appended: the logits of all K numbers."""
    require_vector("free", jnp.shape(free), 1)
    return jnp.concatenate([free, jnp.zeros_like(free[..., :1])], -1)


@dataclasses.dataclass(frozen=True)
class ordered(Constraint):
    """Numbers that increase along the last axis, such as cutpoints. The coordinates are the first
    number and the logarithms of the differences.

    Rounding removes a difference that is too small beside its entries: these become equal, and
    `holds` is false.

    >>> print(ordered().point(jnp.array([-1.0, 0.0, 0.0])))
    [-1.  0.  1.]
    """

    def free(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        require_vector("x", jnp.shape(x), 1)
        return jnp.concatenate([x[..., :1], jnp.log(jnp.diff(x, axis=-1))], -1)

    def point(self, free: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """The first number, and cumulative sums of exponentials from it."""
        require_vector("free", jnp.shape(free), 1)
        return jnp.cumsum(jnp.concatenate([free[..., :1], jnp.exp(free[..., 1:])], -1), -1)

    def log_det(self, free: Float[Array, "*batch K"]) -> Float[Array, ""]:
        require_vector("free", jnp.shape(free), 1)
        return jnp.sum(free[..., 1:])

    def holds(self, x: Float[Array, "*batch K"]) -> Bool[Array, "*batch K"]:
        require_vector("x", jnp.shape(x), 1)
        return jnp.isfinite(x) & (jnp.diff(x, axis=-1, prepend=-jnp.inf) > 0)


def require_vector(argument: str, shape: tuple[int, ...], least: int) -> None:
    """ValueError naming the argument unless its last axis has at least `least` entries."""
    noun = "entry" if least == 1 else "entries"
    expected = f"a last axis of at least {least} {noun}"
    require(len(shape) > 0 and shape[-1] >= least, argument, expected, f"shape {shape}")
