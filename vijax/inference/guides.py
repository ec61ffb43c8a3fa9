"""Guides: families of densities of free variables, in free coordinates.

`mean_field`, `full_rank` and `block` are exponential families, so every estimator and update works
with them, natural gradients above all. `triangular` (the densities of `full_rank`, by mean and
triangle), `low_rank`, `mixture` and `flow` are no exponential families, and an optimiser moves them
(`vijax.advi`)."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.arguments import Size, check_arguments
from vijax.checks import require
from vijax.contract.variables import Z as Z
from vijax.families import Family, MultivariateNormal, Normal, Product
from vijax.families.construction import constructor, numpy_or_jax
from vijax.families.numeric import draws as quasi
from vijax.families.vector.blocks import Blocks
from vijax.families.vector.coupling_flow import CouplingFlow, Sizes, parts
from vijax.families.vector.free_normals import LowRankNormal, TriangularNormal
from vijax.families.vector.normal_mixture import NormalMixture
from vijax.xla.compiler import quick_jit


class Guide(abc.ABC):
    """A family of densities of a vector."""

    # True if it has the covariances of all pairs of coordinates, and so does a frame for it
    is_correlated: ClassVar[bool] = False
    # True if its entropy has no closed form, so that gradients "stick the landing"
    sticks: ClassVar[bool] = False

    @abc.abstractmethod
    def member(self, mean: Float[Array, " D"], sd: float) -> Family:
        """The member with independent coordinates of this mean and standard deviation."""

    def assign(self, places: Mapping[str, Sequence[int]]) -> Guide:
        """This guide for variables with these coordinates, by name; only `block` needs them."""
        return self

    def optimiser_form(self) -> Guide:
        """The same densities, with parameters for an optimiser."""
        return self


@dataclasses.dataclass(frozen=True)
class mean_field(Guide):
    """Independent normal coordinates: 2 D numbers. Variances are too small if coordinates are
    correlated."""

    @constructor
    def member(self, mean: Float[Array, " D"], sd: float) -> Normal:
        xp, mean, _ = numpy_or_jax(mean, sd)
        precision = xp.full_like(mean, 1 / sd**2)
        return Normal(precision * mean, -0.5 * precision)


@dataclasses.dataclass(frozen=True)
class full_rank(Guide):
    """A multivariate normal with any covariance: D (D + 3) / 2 numbers, D^3 operations a step."""

    is_correlated: ClassVar[bool] = True

    @constructor
    def member(self, mean: Float[Array, " D"], sd: float) -> MultivariateNormal:
        xp, mean, _ = numpy_or_jax(mean, sd)
        precision = xp.diag(xp.full_like(mean, 1 / sd**2))
        return MultivariateNormal(precision @ mean, -0.5 * precision)

    def optimiser_form(self) -> Guide:
        """The same densities, by mean and triangle."""
        return triangular()


@dataclasses.dataclass(frozen=True)
class triangular(Guide):
    """The densities of `full_rank`, by their mean and the lower factor of their covariance. It is
    for optimisers only, whose steps then take D^2 operations; `vijax.advi` uses it for
    `full_rank`."""

    def member(self, mean: Float[Array, " D"], sd: float) -> TriangularNormal:
        return TriangularNormal(mean, jnp.log(sd) * jnp.eye(mean.size, dtype=mean.dtype))


@check_arguments
@dataclasses.dataclass(frozen=True)
class low_rank(Guide):
    """A normal of covariance diag(sd^2) + U U' with U of `rank` columns (Ong, Nott and Smith 2018):
    D (rank + 2) numbers and O(D rank^2) operations a step, for thousands of variables with a few
    directions of strong dependence.

    Its variances are right only along those directions. It is no exponential family, so natural
    gradients do not apply: `vijax.advi(model, guide=vijax.guides.low_rank(10))` moves mean, log sd
    and U by an optimiser.

    Args:
      rank: columns of the factor U.

    Raises:
      ValueError: a rank below one; when used, one above the number of coordinates.

    >>> low_rank(2).member(jnp.zeros(1000), 1.0).factor.shape
    (1000, 2)
    """

    rank: Size = 10

    def member(self, mean: Float[Array, " D"], sd: float) -> LowRankNormal:
        """See `Guide`. The columns of U are cosines of a tenth of this size: at zero they would
        never move."""
        expected = f"at most {mean.size}, the coordinates"
        remedy = "Use vijax.guides.full_rank()."
        require(self.rank <= mean.size, "rank", expected, self.rank, remedy)
        index = jnp.arange(mean.size, dtype=float)[:, None]
        wave = jnp.arange(1.0, self.rank + 1)[None]
        phases = jnp.pi * (index + 0.5) * wave / mean.size
        factor = 0.1 * sd / self.rank**0.5 * jnp.cos(phases).astype(mean.dtype)
        return LowRankNormal(mean, jnp.full_like(mean, jnp.log(sd)), factor)


@dataclasses.dataclass(frozen=True)
class block(Guide):
    """A multivariate normal for each block of variables, independent between blocks: it keeps the
    covariances that matter, if a full covariance is too large. A block of d coordinates takes d^2
    numbers and d^3 operations a step.

    Every algorithm takes it: `vijax.ngvi(model, guide=vijax.guides.block([("a", "b")]))`.

    Args:
      groups: groups of names of variables that share a block. A variable in no group is a block by
        itself; so without groups each variable is a block.
      by_triangle: True for blocks by mean and triangle, for optimisers; `vijax.advi` sets it.

    Raises:
      ValueError: a group is no sequence of names, or a name is in two groups; when used, a name is
        no variable.

    >>> import jax.numpy as jnp
    >>> guide = block([("a", "b")]).assign({"a": [0, 1], "b": [2], "c": [3]})
    >>> q = guide.member(jnp.zeros(4), 0.5)
    >>> list(q.parts), q.places
    (['a+b', 'c'], ((0, 1, 2), (3,)))
    """

    groups: Sequence[Sequence[str]] = ()
    by_triangle: bool = False

    def __post_init__(self) -> None:
        is_nested = not isinstance(self.groups, str) and all(map(_is_names, self.groups))
        expected = "sequences of names, such as [('slope', 'intercept')]"
        require(is_nested, "groups", expected, repr(self.groups))
        groups = tuple(tuple(group) for group in self.groups)
        names = [name for group in groups for name in group]
        repeated = sorted({name for name in names if names.count(name) > 1})
        require(not repeated, "groups", "each name once", f"{repeated} in several places")
        object.__setattr__(self, "groups", groups)

    def member(self, mean: Float[Array, " D"], sd: float) -> Family:
        """Raises ValueError: the guide needs the variables first (`assign`)."""
        expected = "one that knows the variables"
        remedy = "Give it to a model with free variables."
        require(False, "guide", expected, "block()", remedy)
        raise AssertionError

    def assign(self, places: Mapping[str, Sequence[int]]) -> Guide:
        names = [name for group in self.groups for name in group]
        unknown = [name for name in names if name not in places]
        require(not unknown, "groups", f"names among the free variables {list(places)}", unknown)
        groups = [tuple(group) for group in self.groups if group]
        groups += [(name,) for name in places if name not in names]
        coordinates = {
            "+".join(group): tuple(i for name in group for i in places[name]) for group in groups
        }
        block_guide = triangular() if self.by_triangle else full_rank()
        return _CoordinateBlocks(tuple(sorted(coordinates.items())), block_guide)

    def optimiser_form(self) -> Guide:
        """The same blocks, by means and triangles."""
        return dataclasses.replace(self, by_triangle=True)


def _is_names(group: Any) -> bool:
    """True for a sequence of names."""
    return not isinstance(group, str) and all(isinstance(name, str) for name in group)


@dataclasses.dataclass(frozen=True)
class _CoordinateBlocks(Guide):
    """Blocks of coordinates, each with a guide of this kind."""

    coordinates: tuple[tuple[str, tuple[int, ...]], ...]
    block_guide: Guide

    def member(self, mean: Float[Array, " D"], sd: float) -> Blocks:
        parts = {
            name: self.block_guide.member(mean[np.array(places)], sd)
            for name, places in self.coordinates
        }
        return Blocks(Product(parts), tuple(places for _, places in self.coordinates))


@check_arguments
@dataclasses.dataclass(frozen=True)
class mixture(Guide):
    """A mixture of normals, each with its own covariance: K (D + 1) (D + 2) / 2 numbers, for
    posteriors that are skewed, bent, heavy-tailed or have several modes.

    Try `vijax.auto` first: it adds components one by one as needed, and finds modes by itself. In
    `vijax.advi(model, guide=vijax.guides.mixture(4))` an optimiser moves all parameters, by draws
    that are differentiable in the weights too (Figurnov, Mohamed and Mnih 2018). Its components
    begin side by side, and it does not find a mode far from all of them.

    Args:
      components: K, how many normals.

    >>> q = mixture(3).member(jnp.array([1.0, -1.0]), 2.0)
    >>> print(q.center.shape, q.mean().round(3), q.std().round(3))
    (3, 2) [ 1. -1.] [2. 2.]
    """

    components: Size = 8
    is_correlated: ClassVar[bool] = True
    sticks: ClassVar[bool] = True

    def member(self, mean: Float[Array, " D"], sd: float) -> NormalMixture:
        """See `Guide`; half of the variance is between the components."""
        return _side_by_side(mean, sd, self.components)


@functools.partial(quick_jit, static_argnums=2)
def _side_by_side(mean: Float[Array, " D"], sd: Any, components: int) -> NormalMixture:
    """A mixture of this mean and standard deviation, with components next to each other."""
    places = quasi.fixed_normals(components, mean.size, mean.dtype)
    places = places - jnp.mean(places, 0)[None]
    share = 0.5 if components > 1 else 0.0
    places = sd * share**0.5 * places / jnp.maximum(jnp.std(places, 0), 1e-6)[None]
    scale = jnp.log(sd * (1 - share) ** 0.5) * jnp.eye(mean.size, dtype=mean.dtype)
    scales = jnp.broadcast_to(scale, (components, *scale.shape))
    return NormalMixture(jnp.zeros(components, mean.dtype), mean[None] + places, scales)


@check_arguments
@dataclasses.dataclass(frozen=True)
class flow(Guide):
    """A flow of affine coupling layers (real NVP), for posteriors of any smooth shape. It needs
    `flowjax`.

    Agrawal and Domke 2024 (arXiv:2412.08824) recommend high capacity, the evidence lower bound,
    gradients that stick the landing (which `vijax.advi` takes), many draws a step, Adam at a small
    constant rate, and many steps:

        vijax.advi(model, guide=vijax.guides.flow(), num_samples=256, optimizer=optax.adam(1e-3))

    They take hundreds of thousands of gradients; `vijax.auto`, with a mixture of normals, needs
    some ten thousand.

    Args:
      layers: coupling layers.
      width: units of a hidden layer of their networks.
      depth: hidden layers of their networks.

    Raises:
      ValueError: sizes that are no positive integers; when used, fewer than two coordinates.
      ImportError: no flowjax, when used.
    """

    layers: Size = 10
    width: Size = 32
    depth: Size = 2
    sticks: ClassVar[bool] = True

    def member(self, mean: Float[Array, " D"], sd: float) -> CouplingFlow:
        """See `Guide`; only approximately, because the networks begin near the identity."""
        remedy = "Use vijax.guides.mixture(components)."
        require(mean.size > 1, "guide", "another guide for a single coordinate", "flow()", remedy)
        sizes = Sizes(mean.size, self.layers, self.width, self.depth)
        weights = tuple(jnp.asarray(leaf, mean.dtype) for leaf in parts(sizes).weights)
        return CouplingFlow(mean, jnp.full_like(mean, jnp.log(sd)), weights, sizes)
