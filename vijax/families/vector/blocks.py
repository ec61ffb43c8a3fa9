"""A vector of independent blocks of coordinates, each with its multivariate normal.

A block is any set of coordinates. Methods of the vector call a product of the blocks
(`Product`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import Family, family, static_field
from vijax.families.construction import delegate
from vijax.families.laws import NormalLaw
from vijax.families.product import Product
from vijax.tree import register

Places = tuple[tuple[int, ...], ...]
"""Coordinates of each block, in the order of the product."""


@register
@dataclasses.dataclass(frozen=True)
class BlocksStats:
    """Statistics of each block, by name; `value` is the vector."""

    parts: dict[str, Any]
    places: Places = dataclasses.field(metadata={"static": True})

    @property
    def value(self) -> Float[Array, "*shape D"]:
        """x."""
        return join_blocks([stats.value for stats in self.parts.values()], self.places)


def join_blocks(values: list[Array], places: Places) -> Float[Array, "*shape D"]:
    """The vector with these values of its blocks."""
    order = np.argsort(np.concatenate(places))
    return jnp.concatenate(values, -1)[..., order]


def _split(q: Blocks, x: Any) -> dict[str, Array]:
    """The values of each block."""
    x = jnp.asarray(x)
    return {name: x[..., np.array(place)] for name, place in zip(q.parts, q.places, strict=True)}


def _join(q: Blocks, values: dict[str, Array]) -> Float[Array, "*shape D"]:
    return join_blocks(list(values.values()), q.places)


def _product(q: Blocks) -> Product:
    return q.parts


def _parts(q: Blocks, x: Any) -> Any:
    return x.parts


def _as_stats(q: Blocks, parts: dict[str, Any]) -> BlocksStats:
    return BlocksStats(parts, q.places)


def _as_blocks(q: Blocks, parts: Any) -> Any:
    return dataclasses.replace(q, parts=q.parts.replace(parts))


@family
class Blocks(Family):
    """Independent blocks: `parts` by name, and the coordinates of each.

    >>> from vijax.families import MultivariateNormal
    >>> a, b = (MultivariateNormal.from_mean_cov(m, jnp.eye(len(m))) for m in ([1.0, 3.0], [2.0]))
    >>> q = Blocks(Product({"a": a, "b": b}), ((0, 2), (1,)))
    >>> print(q.mean(), q.cov[0])
    [1. 2. 3.] [1. 0. 0.]
    """

    parts: Product
    places: Places = static_field()

    log_normalizer = delegate("log_normalizer", _product)
    dot = delegate("dot", _product, take=_parts)
    log_base_measure = delegate("log_base_measure", _product, take=_parts)
    log_prob = delegate("log_prob", _product, take=_split)
    entropy = delegate("entropy", _product)
    kl = delegate("kl", _product, take=_parts)
    stats = delegate("stats", _product, _as_stats, _split)
    expected_stats = delegate("expected_stats", _product, _as_stats)
    fisher_product = delegate("fisher_product", _product, _as_stats, _parts)
    mean = delegate("mean", _product, _join)
    variance = delegate("variance", _product, _join)
    in_domain = delegate("in_domain", _product, _as_blocks)
    flat = delegate("flat", _product, _as_blocks)
    fisher_solve = delegate("fisher_solve", _product, _as_blocks, _parts)

    def mode(self) -> Float[Array, " D"]:
        return self.mean()

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape D"]:
        return _join(self, self.parts.sample(key, shape))

    def marginal_laws(self) -> NormalLaw:
        return NormalLaw(self.mean(), jnp.sqrt(self.variance()))

    @property
    def cov(self) -> Float[Array, "D D"]:
        """Cov_q[x]: zero between blocks."""
        size = sum(map(len, self.places))
        cov = jnp.zeros((size, size), self.mean().dtype)
        for part, place in zip(self.parts.values(), self.places, strict=True):
            cov = cov.at[np.ix_(place, place)].set(part.cov)  # type: ignore[attr-defined]
        return cov

    @property
    def exponential(self) -> bool:  # type: ignore[override]
        return all(part.exponential for part in self.parts.values())

    @property
    def event_ndims(self) -> tuple[int, ...]:  # type: ignore[override]
        """Trailing event axes of every leaf of every block."""
        return self.parts.event_ndims

    def as_stats(self, leaves: Any) -> BlocksStats:
        """See `Family.as_stats`. Blocks of an optimiser have fewer statistics than parameters."""
        if isinstance(leaves, BlocksStats):
            return leaves
        return _as_stats(self, self.parts.as_stats(leaves))

    def stationary(self) -> Self:
        return _as_blocks(self, self._map_parts(lambda name, part: part.stationary()))

    def slope(self, stats: BlocksStats, prior: Self) -> BlocksStats:
        slope = lambda name, part: part.slope(stats.parts[name], prior.parts[name])
        return _as_stats(self, self._map_parts(slope))

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[BlocksStats, Callable[[BlocksStats], Self]]:
        stats, v = self.parts.pathwise_sample(key)
        return _as_stats(self, stats), lambda eta: _as_blocks(self, v(eta.parts))

    @property
    def noise_size(self) -> int:
        return sum(part.noise_size for part in self.parts.values())

    def from_noise(self, noise: Float[Array, " noise"]) -> Float[Array, " D"]:
        shares = self._split_noise(noise)
        return _join(self, self._map_parts(lambda name, part: part.from_noise(shares[name])))

    def pathwise_from_noise(
        self, noise: Float[Array, " noise"]
    ) -> tuple[BlocksStats, Callable[[BlocksStats], Self]]:
        shares = self._split_noise(noise)
        draws = self._map_parts(lambda name, part: part.pathwise_from_noise(shares[name]))
        stats = _as_stats(self, {name: stats for name, (stats, _) in draws.items()})

        def v_product(eta: BlocksStats) -> Any:
            parts = {name: v(eta.parts[name]) for name, (_, v) in draws.items()}
            return _as_blocks(self, parts)

        return stats, v_product

    def _split_noise(self, noise: Array) -> dict[str, Array]:
        """The noise of each block."""
        ends = np.cumsum([part.noise_size for part in self.parts.values()])
        return dict(zip(self.parts, jnp.split(noise, ends[:-1]), strict=True))

    def _map_parts(self, f: Callable[[str, Any], Any]) -> dict[str, Any]:
        return {name: f(name, part) for name, part in self.parts.items()}
