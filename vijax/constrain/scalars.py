"""Constraints of single numbers: the real line, half-lines, intervals."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from vijax.checks import require
from vijax.constrain.base import Constraint


@dataclasses.dataclass(frozen=True)
class real(Constraint):
    """Any number, such as a weight of a network.

    >>> print(real().log_det(jnp.array([3.0, -2.0])))
    0.0
    """

    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return x

    def point(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return free

    def log_det(self, free: Float[Array, "*shape"]) -> Float[Array, ""]:
        return jnp.sum(jnp.zeros_like(free))

    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        return jnp.isfinite(x)


class HalfLine(Constraint):
    """sign (x - end) > 0, by its logarithm; the end is the only field, or 0 without a field. If
    rounding puts a point on the end, the point is the number next to it."""

    sign: int

    def __post_init__(self) -> None:
        require_finite(**vars(self))

    @property
    def end(self) -> float:
        """The end of the half-line."""
        return next(iter(vars(self).values()), 0.0)

    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.log(self.sign * (x - self.end))

    def point(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The end plus or minus exp(free)."""
        x = self.end + self.sign * jnp.exp(free)
        nearest = next_to(self.end, self.sign, x.dtype)
        return jnp.maximum(x, nearest) if self.sign > 0 else jnp.minimum(x, nearest)

    def log_det(self, free: Float[Array, "*shape"]) -> Float[Array, ""]:
        return jnp.sum(free)

    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        return (self.sign * (x - self.end) > 0) & jnp.isfinite(x)


@dataclasses.dataclass(frozen=True)
class positive(HalfLine):
    """x > 0, by its logarithm.

    >>> print(positive().point(jnp.array(0.0)))
    1.0
    """

    sign = 1


@dataclasses.dataclass(frozen=True)
class above(HalfLine):
    """x > low, by log(x - low).

    Raises:
      ValueError: a bound that is not finite.

    >>> print(above(2.0).point(jnp.array(0.0)))
    3.0
    """

    low: float
    sign = 1


@dataclasses.dataclass(frozen=True)
class below(HalfLine):
    """x < high, by log(high - x).

    Raises:
      ValueError: a bound that is not finite.

    >>> print(below(2.0).point(jnp.array(0.0)))
    1.0
    """

    high: float
    sign = -1


@dataclasses.dataclass(frozen=True)
class interval(Constraint):
    """low < x < high, by the logit of the position between the ends. If rounding puts a point on an
    end, the point is the number next to it: in float32 sigmoid(17) is 1.

    Raises:
      ValueError: bounds that are not finite, or not in order.

    >>> between = interval(-1.0, 1.0)
    >>> round(float(between.point(between.free(jnp.array(0.25)))), 6)
    0.25
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        require(self.low < self.high, "high", f"a number above low={self.low}", self.high)
        require_finite(low=self.low, high=self.high)

    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.log(x - self.low) - jnp.log(self.high - x)

    def point(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The point between the ends, measured from the nearer end."""
        width = self.high - self.low
        from_low = self.low + width * jax.nn.sigmoid(free)
        from_high = self.high - width * jax.nn.sigmoid(-free)
        x = jnp.where(free < 0, from_low, from_high)
        smallest = next_to(self.low, 1, x.dtype)
        largest = next_to(self.high, -1, x.dtype)
        expected = f"a number of {x.dtype} apart from low={self.low}"
        require(smallest <= largest, "high", expected, self.high)
        return jnp.clip(x, smallest, largest)

    def log_det(self, free: Float[Array, "*shape"]) -> Float[Array, ""]:
        log_width = np.log(self.high - self.low)
        return jnp.sum(log_width - jax.nn.softplus(free) - jax.nn.softplus(-free))

    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        return (x > self.low) & (x < self.high)


def unit_interval() -> interval:
    """Probabilities: 0 < x < 1, by the logit.

    >>> print(unit_interval().point(jnp.array(0.0)))
    0.5
    """
    return interval(0.0, 1.0)


def next_to(end: float, sign: int, dtype: Any) -> Any:
    """The normal number of this dtype next to `end`: above it for sign 1, below it for -1.

    Points come no nearer: rounding would put them on the end, as 1 + exp(-30) is 1 in float32.

    >>> print(next_to(1.0, 1, np.float32))
    1.0000001
    """
    neighbour = np.nextafter(np.asarray(end, dtype), np.asarray(sign * np.inf, dtype))
    tiny = np.finfo(dtype).tiny  # XLA flushes smaller numbers to zero
    if abs(neighbour) < tiny:
        neighbour = sign * tiny
    return np.asarray(neighbour, dtype)


def require_finite(**ends: float) -> None:
    """ValueError naming the first end that is not finite."""
    remedy = "For an infinite end use above, below or real."
    for name, end in ends.items():
        require(math.isfinite(end), name, "a finite number", end, remedy)
