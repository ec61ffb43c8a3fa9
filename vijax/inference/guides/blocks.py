"""Guides of independent blocks of variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Array, Float

from vijax.checks import require
from vijax.families import Family, Product
from vijax.families.vector.blocks import Blocks
from vijax.inference.guides.base import Guide
from vijax.inference.guides.normals import full_rank, triangular


@dataclasses.dataclass(frozen=True)
class block(Guide):
    """A multivariate normal within each block of variables, independent between blocks: it keeps the covariances that
    matter, where a full covariance is too large. A block of d coordinates takes d^2 numbers and d^3 operations a step.

    Every algorithm takes it: `vijax.ngvi(model, guide=vijax.guides.block([("a", "b")]))`.

    Args:
      groups: names of variables that share a block, for each such group. A variable in no group is a block of its own;
        so without any group each variable is a block.
      by_triangle: True where blocks are given by mean and triangle, for optimisers; `vijax.advi` sets it.

    Raises:
      ValueError: a group that is no sequence of names, a name in two groups; when used, one that no variable has.

    >>> import jax.numpy as jnp
    >>> guide = block([("a", "b")]).over({"a": [0, 1], "b": [2], "c": [3]})
    >>> q = guide.at(jnp.zeros(4), 0.5)
    >>> list(q.parts), q.places
    (['a+b', 'c'], ((0, 1, 2), (3,)))
    """

    groups: Sequence[Sequence[str]] = ()
    by_triangle: bool = False

    def __post_init__(self) -> None:
        known = not isinstance(self.groups, str) and all(
            not isinstance(group, str) and all(isinstance(name, str) for name in group) for group in self.groups
        )
        require(known, "groups", "sequences of names, such as [('slope', 'intercept')]", repr(self.groups))
        groups = tuple(tuple(group) for group in self.groups)
        names = [name for group in groups for name in group]
        twice = sorted({name for name in names if names.count(name) > 1})
        require(not twice, "groups", "each name once", f"{twice} in several places")
        object.__setattr__(self, "groups", groups)

    def at(self, mean: Float[Array, " D"], sd: float) -> Family:
        """Raises an error: it has to know the variables first (`over`)."""
        require(False, "guide", "one that knows the variables", "block()", "Give it to a model with free variables.")
        raise AssertionError

    def over(self, places: Mapping[str, Sequence[int]]) -> Guide:
        """See `Guide`."""
        named = [name for group in self.groups for name in group]
        unknown = [name for name in named if name not in places]
        require(not unknown, "groups", f"names among the free variables {list(places)}", unknown)
        groups = [*(group for group in self.groups if group), *((name,) for name in places if name not in named)]
        coordinates = {"+".join(group): tuple(i for name in group for i in places[name]) for group in groups}
        each = triangular() if self.by_triangle else full_rank()
        return _Placed(tuple(sorted(coordinates.items())), each)

    def for_optimisers(self) -> Guide:
        """The same blocks, by means and triangles."""
        return dataclasses.replace(self, by_triangle=True)


@dataclasses.dataclass(frozen=True)
class _Placed(Guide):
    """Blocks of known coordinates."""

    coordinates: tuple[tuple[str, tuple[int, ...]], ...]
    each: Guide

    def at(self, mean: Float[Array, " D"], sd: float) -> Blocks:
        """See `Guide`."""
        parts = {name: self.each.at(mean[np.array(at)], sd) for name, at in self.coordinates}
        return Blocks(Product(parts), tuple(at for _, at in self.coordinates))
