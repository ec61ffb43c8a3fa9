"""The base class of constraints."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Constraint(abc.ABC):
    """A set of arrays and a smooth map onto it from free coordinates.

    Wrong shapes raise ValueError, also under `jit`. Values are not checked: for a point outside the
    set `free` is NaN or infinite, and `holds` is false."""

    @abc.abstractmethod
    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*free"]:
        """The coordinates of a point."""

    @abc.abstractmethod
    def point(self, free: Float[Array, "*free"]) -> Float[Array, "*shape"]:
        """The point of these coordinates."""

    @abc.abstractmethod
    def log_det(self, free: Float[Array, "*free"]) -> Float[Array, ""]:
        """log |det d point / d free|, summed over the whole array."""

    @abc.abstractmethod
    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """True for each number of an array that satisfies the constraint."""

    def free_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the free coordinates of an array of this shape; ValueError if no array of
        this shape satisfies the constraint.

        >>> from vijax.constrain import positive_definite, simplex
        >>> simplex().free_shape((7, 3)), positive_definite().free_shape((4, 4))
        ((7, 2), (10,))
        """
        x = jax.ShapeDtypeStruct(tuple(shape), jnp.result_type(float))
        return jax.eval_shape(self.free, x).shape
