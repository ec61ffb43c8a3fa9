"""A vector whose coordinates are in independent blocks, each of a multivariate normal of its own.

A block is any set of coordinates. Methods of the whole go through a product of the blocks (`Product`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import Family, family, static_field
from vijax.families.product import Product
from vijax.families.univariate import NormalLaw
from vijax.tree import register

Places = tuple[tuple[int, ...], ...]
"""The coordinates of each block, in the order of the product."""


@register
@dataclasses.dataclass(frozen=True)
class BlocksStats:
    """Statistics of each block, by name; `value` is the vector."""

    parts: dict[str, Any]
    places: Places = dataclasses.field(metadata={"static": True})

    @property
    def value(self) -> Float[Array, "*shape D"]:
        """x."""
        return together([stats.value for stats in self.parts.values()], self.places)


@family
class Blocks(Family):
    """Independent blocks: `parts` by name, and the coordinates of each.

    >>> from vijax.families import MultivariateNormal
    >>> one, two = (MultivariateNormal.from_mean_cov(m, jnp.eye(len(m))) for m in ([1.0, 3.0], [2.0]))
    >>> q = Blocks(Product({"a": one, "b": two}), ((0, 2), (1,)))
    >>> print(q.mean(), q.cov[0])
    [1. 2. 3.] [1. 0. 0.]
    """

    parts: Product
    places: Places = static_field()

    # --- what a family must say -------------------------------------------------------------------------------
    def log_normalizer(self) -> Float[Array, ""]:
        """A, summed over the blocks."""
        return self.parts.log_normalizer()

    def stats(self, x: Any) -> BlocksStats:
        """Statistics of each block."""
        return self._stats(self.parts.stats(self._apart(x)))

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape D"]:
        """Independent draws of the blocks."""
        return self._together(self.parts.sample(key, shape))

    def mean(self) -> Float[Array, " D"]:
        """The means of all blocks, as one vector."""
        return self._together(self.parts.mean())

    def mode(self) -> Float[Array, " D"]:
        """The mean."""
        return self.mean()

    def in_domain(self) -> Self:
        """Each block's own mask."""
        return self._like(self.parts.in_domain())

    def flat(self) -> Self:
        """Each block's flat law."""
        return self._like(self.parts.flat())

    def marginal_laws(self) -> NormalLaw:
        """Normal laws of the means and variances."""
        return NormalLaw(self.mean(), jnp.sqrt(self.variance()))

    def variance(self) -> Float[Array, " D"]:
        """The variance of each coordinate."""
        return self._together(self.parts.variance())

    @property
    def cov(self) -> Float[Array, "D D"]:
        """Cov_q[x]: zero between blocks."""
        size = sum(map(len, self.places))
        found = jnp.zeros((size, size), self.mean().dtype)
        for part, at in zip(self.parts.values(), self.places, strict=True):
            found = found.at[np.ix_(at, at)].set(part.cov)  # type: ignore[attr-defined]
        return found

    # --- block by block ---------------------------------------------------------------------------------------
    @property
    def exponential(self) -> bool:  # type: ignore[override]
        """True where all blocks are exponential families."""
        return all(part.exponential for part in self.parts.values())

    @property
    def event_ndims(self) -> tuple[int, ...]:  # type: ignore[override]
        """Trailing event axes of every leaf of every block."""
        return self.parts.event_ndims

    def as_stats(self, leaves: Any) -> BlocksStats:
        """See `Family.as_stats`. A block that an optimiser moves has fewer statistics than parameters."""
        return leaves if isinstance(leaves, BlocksStats) else self._stats(self.parts.as_stats(leaves))

    def dot(self, stats: BlocksStats) -> Float[Array, ""]:
        """The sum of the blocks' products."""
        return self.parts.dot(stats.parts)

    def log_base_measure(self, stats: BlocksStats) -> Float[Array, ""]:
        """The sum over blocks."""
        return self.parts.log_base_measure(stats.parts)

    def expected_stats(self) -> BlocksStats:
        """Each block's."""
        return self._stats(self.parts.expected_stats())

    def log_prob(self, x: Any) -> Float[Array, "*shape"]:
        """The sum over blocks."""
        return self.parts.log_prob(self._apart(x))

    def entropy(self) -> Float[Array, ""]:
        """The sum over blocks."""
        return self.parts.entropy()

    def kl(self, other: Self) -> Float[Array, ""]:
        """The sum over blocks."""
        return self.parts.kl(other.parts)

    def stationary(self) -> Self:
        """Each block's."""
        return self._like(self._each(lambda name, part: part.stationary()))

    def slope(self, stats: BlocksStats, prior: Self) -> BlocksStats:
        """Each block's."""
        return self._stats(self._each(lambda name, part: part.slope(stats.parts[name], prior.parts[name])))

    def fisher_product(self, tangent: Self) -> BlocksStats:
        """Each block's."""
        return self._stats(self.parts.fisher_product(tangent.parts))

    def fisher_solve(self, cotangent: BlocksStats) -> Self:
        """Each block's."""
        return self._like(self.parts.fisher_solve(cotangent.parts))

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[BlocksStats, Callable[[BlocksStats], Self]]:
        """Each block's."""
        stats, v = self.parts.pathwise_sample(key)
        return self._stats(stats), lambda eta: self._like(v(eta.parts))

    @property
    def noise_size(self) -> int:
        """The sum over blocks."""
        return sum(part.noise_size for part in self.parts.values())

    def from_noise(self, noise: Float[Array, " noise"]) -> Float[Array, " D"]:
        """Each block's, from its share of the noise."""
        return self._together(self._each(lambda name, part: part.from_noise(self._shares(noise)[name])))

    def pathwise_at(self, noise: Float[Array, " noise"]) -> tuple[BlocksStats, Callable[[BlocksStats], Self]]:
        """Each block's draw and map."""
        draws = self._each(lambda name, part: part.pathwise_at(self._shares(noise)[name]))
        stats = self._stats({name: stats for name, (stats, _) in draws.items()})
        return stats, lambda eta: self._like({name: v(eta.parts[name]) for name, (_, v) in draws.items()})

    def _shares(self, noise: Array) -> dict[str, Array]:
        ends = np.cumsum([part.noise_size for part in self.parts.values()])
        return dict(zip(self.parts, jnp.split(noise, ends[:-1]), strict=True))

    # --- plumbing ---------------------------------------------------------------------------------------------
    def _apart(self, x: Any) -> dict[str, Array]:
        x = jnp.asarray(x)
        return {name: x[..., np.array(at)] for name, at in zip(self.parts, self.places, strict=True)}

    def _together(self, values: dict[str, Array]) -> Float[Array, "*shape D"]:
        return together(list(values.values()), self.places)

    def _stats(self, parts: dict[str, Any]) -> BlocksStats:
        return BlocksStats(parts, self.places)

    def _each(self, f: Callable[[str, Any], Any]) -> dict[str, Any]:
        return {name: f(name, part) for name, part in self.parts.items()}

    def _like(self, parts: Any) -> Self:
        return dataclasses.replace(self, parts=self.parts.replace(parts))


def together(values: list[Array], places: Places) -> Float[Array, "*shape D"]:
    """The vector made of these blocks."""
    order = np.argsort(np.concatenate(places))
    return jnp.concatenate(values, -1)[..., order]
