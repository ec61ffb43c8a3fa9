"""Guides of one normal: independent coordinates, any covariance, one of low rank."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.arguments import Size, checked
from vijax.checks import require
from vijax.families import MultivariateNormal, Normal
from vijax.families.construction import constructor, on_host
from vijax.families.vector.free_normals import LowRankNormal, TriangularNormal
from vijax.inference.guides.base import Guide


@dataclasses.dataclass(frozen=True)
class mean_field(Guide):
    """Independent normal coordinates: 2 D numbers. Variances come out too small where coordinates are correlated."""

    @constructor
    def at(self, mean: Float[Array, " D"], sd: float) -> Normal:
        """See `Guide`."""
        xp, mean, _ = on_host(mean, sd)
        precision = xp.full_like(mean, 1 / sd**2)
        return Normal(precision * mean, -0.5 * precision)


@dataclasses.dataclass(frozen=True)
class full_rank(Guide):
    """A multivariate normal with any covariance: D (D + 3) / 2 numbers, D^3 operations a step."""

    is_correlated: ClassVar[bool] = True

    @constructor
    def at(self, mean: Float[Array, " D"], sd: float) -> MultivariateNormal:
        """See `Guide`."""
        xp, mean, _ = on_host(mean, sd)
        precision = xp.diag(xp.full_like(mean, 1 / sd**2))
        return MultivariateNormal(precision @ mean, -0.5 * precision)

    def for_optimisers(self) -> Guide:
        """The same densities, by mean and triangle."""
        return triangular()


@dataclasses.dataclass(frozen=True)
class triangular(Guide):
    """The same densities as `full_rank`, by their mean and the lower factor of their covariance: for optimisers only,
    whose steps then take D^2 operations. `vijax.advi` uses it where `full_rank` is asked for."""

    def at(self, mean: Float[Array, " D"], sd: float) -> TriangularNormal:
        """See `Guide`."""
        return TriangularNormal(mean, jnp.log(sd) * jnp.eye(mean.size, dtype=mean.dtype))


@checked
@dataclasses.dataclass(frozen=True)
class low_rank(Guide):
    """A normal of covariance diag(sd^2) + U U' with U of `rank` columns (Ong, Nott and Smith 2018): D (rank + 2)
    numbers and O(D rank^2) operations a step, for thousands of variables with a few directions of strong dependence.

    Its variances are right along those directions alone. It is no exponential family, so that natural gradients do not
    apply: `vijax.advi(model, guide=vijax.guides.low_rank(10))` moves mean, log sd and U by an optimiser.

    Args:
      rank: columns of the factor U.

    Raises:
      ValueError: a rank below one; when used, one above the number of coordinates.

    >>> low_rank(2).at(jnp.zeros(1000), 1.0).factor.shape
    (1000, 2)
    """

    rank: Size = 10

    def at(self, mean: Float[Array, " D"], sd: float) -> LowRankNormal:
        """See `Guide`; the columns of U are cosines of a tenth of this size, because at zero they would not move."""
        remedy = "Use vijax.guides.full_rank()."
        require(self.rank <= mean.size, "rank", f"at most {mean.size}, the coordinates", self.rank, remedy)
        phases = jnp.pi * (jnp.arange(mean.size)[:, None] + 0.5) * (jnp.arange(self.rank) + 1) / mean.size
        factor = 0.1 * sd / self.rank**0.5 * jnp.cos(phases).astype(mean.dtype)
        return LowRankNormal(mean, jnp.full_like(mean, jnp.log(sd)), factor)
