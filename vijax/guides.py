"""Guides: the densities that free variables are fitted with, in free coordinates.

A guide names a family. Both of these are exponential families, so that every estimator and update of the engine serves
them, natural gradients above all.
"""

from __future__ import annotations

import abc
import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.families import Family, MultivariateNormal, Normal

Z = "free"
"""The name of the free coordinates among the globals."""


class Guide(abc.ABC):
    """A family of densities of a vector."""

    @abc.abstractmethod
    def at(self, mean: Float[Array, " D"], sd: float) -> Family:
        """The member of independent coordinates with this mean and standard deviation."""


@dataclasses.dataclass(frozen=True)
class mean_field(Guide):
    """Independent normal coordinates: 2 D numbers. Variances come out too small where coordinates are correlated."""

    def at(self, mean: Float[Array, " D"], sd: float) -> Normal:
        """See `Guide`."""
        precision = jnp.full_like(mean, 1 / sd**2)
        return Normal(precision * mean, -0.5 * precision)


@dataclasses.dataclass(frozen=True)
class full_rank(Guide):
    """A multivariate normal with any covariance: D (D + 3) / 2 numbers, D^3 operations a step."""

    def at(self, mean: Float[Array, " D"], sd: float) -> MultivariateNormal:
        """See `Guide`."""
        precision = jnp.eye(mean.shape[0], dtype=mean.dtype) / sd**2
        return MultivariateNormal(precision @ mean, -0.5 * precision)
