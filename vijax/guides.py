"""Guides: the densities that free variables are fitted with, in free coordinates.

A guide names a family. `mean_field` and `full_rank` are exponential families, so that every estimator and update of the
engine serves them, natural gradients above all. `triangular` (the densities of `full_rank`, by mean and triangle),
`low_rank` and `mixture` are none, and an optimiser moves them (`vijax.advi`).
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.checks import require, require_integers
from vijax.families import Family, MultivariateNormal, Normal, quasi
from vijax.families.low_rank_normal import LowRankNormal
from vijax.families.normal_mixture import NormalMixture
from vijax.families.triangular_normal import TriangularNormal

Z = "free"
"""The name of the free coordinates among the globals."""


class Guide(abc.ABC):
    """A family of densities of a vector.

    Attributes:
      is_correlated: whether it has the covariances of all pairs, so that a frame of its own has them too.
    """

    is_correlated: ClassVar[bool] = False

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

    is_correlated: ClassVar[bool] = True

    def at(self, mean: Float[Array, " D"], sd: float) -> MultivariateNormal:
        """See `Guide`."""
        precision = jnp.eye(mean.shape[0], dtype=mean.dtype) / sd**2
        return MultivariateNormal(precision @ mean, -0.5 * precision)


@dataclasses.dataclass(frozen=True)
class triangular(Guide):
    """The same densities as `full_rank`, by their mean and the lower factor of their covariance: for optimisers alone,
    whose steps take D^2 operations there. `vijax.advi` uses it where `full_rank` is asked for."""

    def at(self, mean: Float[Array, " D"], sd: float) -> TriangularNormal:
        """See `Guide`."""
        return TriangularNormal(mean, jnp.log(sd) * jnp.eye(mean.size, dtype=mean.dtype))


@dataclasses.dataclass(frozen=True)
class low_rank(Guide):
    """A normal of covariance diag(sd^2) + U U' with U of `rank` columns (Ong, Nott and Smith 2018): D (rank + 2)
    numbers and O(D rank^2) operations a step, for thousands of variables with a few directions of strong dependence.

    Its variances are right along those directions alone. It is no exponential family, so that natural gradients do not
    apply: `vijax.advi(model, guide=vijax.guides.low_rank(10))` moves mean, log sd and U by an optimiser.

    Args:
      rank: columns of U.

    Raises:
      ValueError: a rank below one; when used, one above the number of coordinates.

    >>> low_rank(2).at(jnp.zeros(1000), 1.0).factor.shape
    (1000, 2)
    """

    rank: int

    def __post_init__(self) -> None:
        require_integers(rank=self.rank)

    def at(self, mean: Float[Array, " D"], sd: float) -> LowRankNormal:
        """See `Guide`; the columns of U are cosines of a tenth of that size, for at zero they would not move."""
        remedy = "Use vijax.guides.full_rank()."
        require(self.rank <= mean.size, "rank", f"at most {mean.size}, the coordinates", self.rank, remedy)
        phases = jnp.pi * (jnp.arange(mean.size)[:, None] + 0.5) * (jnp.arange(self.rank) + 1) / mean.size
        factor = 0.1 * sd / self.rank**0.5 * jnp.cos(phases).astype(mean.dtype)
        return LowRankNormal(mean, jnp.full_like(mean, jnp.log(sd)), factor)


@dataclasses.dataclass(frozen=True)
class mixture(Guide):
    """A mixture of normals, each with a covariance of its own: K (D + 1) (D + 2) / 2 numbers, for posteriors that are
    skewed, bent, heavy-tailed or have several modes.

    `vijax.auto` adds its components one by one where it sees a need, and finds modes by itself: try that first. In
    `vijax.advi(model, guide=vijax.guides.mixture(4))` an optimiser moves all of it, by draws that are differentiable in
    the weights too (Figurnov, Mohamed and Mnih 2018). There components begin side by side, and a mode that no start was
    near is not found.

    Args:
      components: K.

    Raises:
      ValueError: fewer than one.

    >>> q = mixture(3).at(jnp.array([1.0, -1.0]), 2.0)
    >>> print(q.center.shape, q.mean().round(3), q.std().round(3))
    (3, 2) [ 1. -1.] [2. 2.]
    """

    components: int
    is_correlated: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_integers(components=self.components)

    def at(self, mean: Float[Array, " D"], sd: float) -> NormalMixture:
        """See `Guide`: half of the variance is between the components."""
        places = quasi.fixed_normals(self.components, mean.size, mean.dtype)
        places = places - jnp.mean(places, 0)
        share = 0.5 if self.components > 1 else 0.0
        places = sd * share**0.5 * places / jnp.maximum(jnp.std(places, 0), 1e-6)
        scale = jnp.log(sd * (1 - share) ** 0.5) * jnp.eye(mean.size, dtype=mean.dtype)
        each = jnp.broadcast_to(scale, (self.components, *scale.shape))
        return NormalMixture(jnp.zeros(self.components, mean.dtype), mean + places, each)


BY_DRAWS = (mixture,)
"""Guides whose entropy has no closed form (`vijax.families.by_draws`)."""
