"""A bend of standard normal noise that makes it skewed.

A standard normal z becomes

    u(z) = (z + a (sqrt(1 + z^2) - m)) / sqrt(1 + v a^2),    |a| < 1,

with mean 0, variance 1 (m and v are the mean and the variance of sqrt(1 + z^2)) and a skewness of
about 3 c a, where c is the covariance of z^2 and sqrt(1 + z^2). u is increasing, has the tail of a
normal of another scale on either side, and has an inverse in closed form. For a = 0 it is z, to the
last bit."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

MEAN, VARIANCE, COVARIANCE = 1.3545308, 0.1652463, 0.5648908
"""m, v and c of the formulas above."""
MOST_BENT = 0.6
"""Largest |a|: a skewness of 1."""
SKEWNESS = 3 * COVARIANCE
"""Skewness of a small a, divided by it."""


def bent(
    z: Float[Array, "*shape"], amount: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Array]:
    """u(z) - z and its slope, du / dz; `amount` is a."""
    unit = jnp.sqrt(1 + VARIANCE * amount * amount)
    hyperbola = jnp.sqrt(1 + z * z)
    return (amount * (hyperbola - MEAN) + z * (1 - unit)) / unit, (
        1 + amount * z / hyperbola
    ) / unit


def unbent(u: Float[Array, "*shape"], amount: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The z of u(z)."""
    w = u * jnp.sqrt(1 + VARIANCE * amount * amount) + amount * MEAN
    return (w - amount * jnp.sqrt(w * w + (1 - amount * amount))) / (1 - amount * amount)


class Bend(NamedTuple):
    """Coordinates that are bent one by one about a center: x = center + width u((z - center) /
    width)."""

    center: Float[Array | np.ndarray, " D"]
    width: Float[Array | np.ndarray, " D"]
    amount: Float[Array | np.ndarray, " D"]

    @classmethod
    def none(cls, dim: int) -> Bend:
        """A bend that changes nothing."""
        dtype = jnp.result_type(float)
        return cls(np.zeros(dim, dtype), np.ones(dim, dtype), np.zeros(dim, dtype))

    def point(self, z: Float[Array, " D"]) -> tuple[Float[Array, " D"], Float[Array, ""]]:
        """x, and log |d x / d z|."""
        width = jnp.asarray(self.width)
        change, slope = bent((z - self.center) / width, jnp.asarray(self.amount))
        return z + width * change, jnp.sum(jnp.log(slope))

    def coordinates(self, x: Float[Array, " D"]) -> Float[Array, " D"]:
        """z."""
        amount = jnp.asarray(self.amount)
        z = self.center + self.width * unbent((x - self.center) / self.width, amount)
        return jnp.where(amount == 0, x, z)
