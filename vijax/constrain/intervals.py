"""Open intervals."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from vijax.checks import require
from vijax.constrain.base import Constraint
from vijax.constrain.inside import next_to, require_finite


@dataclasses.dataclass(frozen=True)
class interval(Constraint):
    """low < x < high, by the logit of the position between the ends.

    Points that rounding would put on an end are the next number: in float32 sigmoid(17) is 1.

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
        """log (x - low) / (high - x)."""
        return jnp.log(x - self.low) - jnp.log(self.high - x)

    def point(self, free: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The point between the ends, measured from the nearer one."""
        width = self.high - self.low
        x = jnp.where(free < 0, self.low + width * jax.nn.sigmoid(free), self.high - width * jax.nn.sigmoid(-free))
        least, most = next_to(self.low, 1, x.dtype), next_to(self.high, -1, x.dtype)
        require(least <= most, "high", f"a number of {x.dtype} apart from low={self.low}", self.high)
        return jnp.clip(x, least, most)

    def log_det(self, free: Float[Array, "*shape"]) -> Float[Array, ""]:
        """log(high - low) + log sigmoid(free) + log sigmoid(-free), summed."""
        return jnp.sum(np.log(self.high - self.low) - jax.nn.softplus(free) - jax.nn.softplus(-free))

    def holds(self, x: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
        """low < x < high."""
        return (x > self.low) & (x < self.high)


def unit_interval() -> interval:
    """Probabilities: 0 < x < 1, by the logit.

    >>> print(unit_interval().point(jnp.array(0.0)))
    0.5
    """
    return interval(0.0, 1.0)
