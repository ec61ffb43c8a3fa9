"""Half-lines: positive numbers, and numbers above or below a bound."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from vijax.constrain.base import Constraint
from vijax.constrain.inside import next_to, require_finite


class HalfLine(Constraint):
    """sign (x - end) > 0, by its logarithm.

    Points that rounding would put on the end are the next number.
    """

    end: float
    sign: int

    def free(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """log |x - end|."""
        return jnp.log(self.sign * (x - self.end))

    def point(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The end plus or minus exp."""
        x = self.end + self.sign * jnp.exp(free)
        nearest = next_to(self.end, self.sign, x.dtype)
        return jnp.maximum(x, nearest) if self.sign > 0 else jnp.minimum(x, nearest)

    def log_det(self, free: Float[Array, "*shape"]) -> Float[Array, ""]:
        """The sum of the coordinates."""
        return jnp.sum(free)

    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """Finite, and on the right side of the end."""
        return (self.sign * (x - self.end) > 0) & jnp.isfinite(x)


@dataclasses.dataclass(frozen=True)
class positive(HalfLine):
    """x > 0, by its logarithm.

    >>> print(positive().point(jnp.array(0.0)))
    1.0
    """

    end = 0.0
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

    def __post_init__(self) -> None:
        require_finite(low=self.low)

    @property
    def end(self) -> float:  # type: ignore[override]
        """low."""
        return self.low


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

    def __post_init__(self) -> None:
        require_finite(high=self.high)

    @property
    def end(self) -> float:  # type: ignore[override]
        """high."""
        return self.high
