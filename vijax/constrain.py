"""Constraints of points, and free coordinates in which they are learnt: any real numbers there stand for a point."""

from __future__ import annotations

import abc
import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from vijax.checks import require


class Constraint(abc.ABC):
    """A set of arrays and a smooth map onto it from free coordinates."""

    @abc.abstractmethod
    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*free"]:
        """Coordinates of a point."""

    @abc.abstractmethod
    def point(self, free: Float[Array, "*free"]) -> Float[Array, "*shape"]:
        """The point that coordinates stand for."""

    @abc.abstractmethod
    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """Which numbers of an array satisfy it."""


@dataclasses.dataclass(frozen=True)
class real(Constraint):
    """Any number: the weights of a network."""

    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """x."""
        return x

    def point(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """x."""
        return free

    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """x is finite."""
        return jnp.isfinite(x)


@dataclasses.dataclass(frozen=True)
class positive(Constraint):
    """x > 0, by its logarithm."""

    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """log x."""
        return jnp.log(x)

    def point(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """exp."""
        return jnp.exp(free)

    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """0 < x < inf."""
        return (x > 0) & jnp.isfinite(x)


@dataclasses.dataclass(frozen=True)
class interval(Constraint):
    """low < x < high, by the logit of its place between them.

    >>> between = interval(-1.0, 1.0)
    >>> round(float(between.point(between.free(jnp.array(0.25)))), 6)
    0.25
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        require(self.low < self.high, "high", f"a number above low={self.low}", self.high)

    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """log (x - low) / (high - x)."""
        return jnp.log(x - self.low) - jnp.log(self.high - x)

    def point(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Between the ends."""
        return self.low + (self.high - self.low) * jax.nn.sigmoid(free)

    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """low < x < high."""
        return (x > self.low) & (x < self.high)


@dataclasses.dataclass(frozen=True)
class simplex(Constraint):
    """Positive numbers that sum to one over the last axis, by their logarithms less that of the last."""

    def free(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch K-1"]:
        """log x_k / x_K."""
        log = jnp.log(x)
        return log[..., :-1] - log[..., -1:]

    def point(self, free: Float[Array, "*batch K-1"]) -> Float[Array, "*batch K"]:
        """softmax."""
        return jax.nn.softmax(jnp.concatenate([free, jnp.zeros_like(free[..., :1])], -1), -1)

    def holds(self, x: Float[Array, "*batch K"]) -> Bool[Array, "*batch K"]:
        """Positive, and of sum one to rounding."""
        return (x > 0) & (jnp.abs(jnp.sum(x, -1, keepdims=True) - 1) < 1e-4)
