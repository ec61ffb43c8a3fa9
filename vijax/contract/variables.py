"""Free variables: unknowns without a conjugate prior, by name, shape and support; and their free coordinates.

All free variables of a model together are one vector of real numbers, x = (coordinates of the first, ...), which a
guide has a density of. Their values are a smooth map of it (`vijax.constrain`), and a density of values becomes one of
coordinates with the log determinant of that map (Kucukelbir et al. 2017, section 2.3).
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax import constrain
from vijax.checks import require
from vijax.constrain import Constraint

SUPPORTS: dict[str, Callable[[], Constraint]] = {
    "real": constrain.real,
    "positive": constrain.positive,
    "unit interval": constrain.unit_interval,
    "simplex": constrain.simplex,
    "ordered": constrain.ordered,
    "positive definite": constrain.positive_definite,
    "correlation Cholesky": constrain.correlation_cholesky,
}
"""By the words that `free` takes."""
Z = "free"
"""The name of the free coordinates among the globals."""


@dataclasses.dataclass(frozen=True)
class Free:
    """See `free`."""

    shape: tuple[int, ...]
    support: Constraint
    log_prior: Callable[[Any], Any] | None = None

    @property
    def free_shape(self) -> tuple[int, ...]:
        """Shape of its coordinates."""
        return self.support.free_shape(self.shape)


def free(
    shape: int | tuple[int, ...] = (),
    support: str | Constraint = "real",
    log_prior: Callable[[Any], Any] | None = None,
) -> Free:
    """An unknown without a conjugate prior.

    Args:
      shape: of a value; () is a number.
      support: "real", "positive", "unit interval", "simplex" (over the last axis), "ordered" (increasing over the last
        axis), "positive definite" (over the last two), "correlation Cholesky" (the lower factor of a correlation
        matrix), or a constraint of `vijax.constrain`, such as `vijax.constrain.interval(-1.0, 1.0)`.
      log_prior: value -> its log density, or those of its entries, which are summed; None where the density or energy
        that it belongs to has a term for it.

    Raises:
      ValueError: a support that there is not, or that has no values of that shape.

    >>> free(3, "simplex").free_shape
    (2,)
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    require(all(isinstance(n, int) and n > 0 for n in shape), "shape", "positive integers", shape)
    known = isinstance(support, Constraint) or support in SUPPORTS
    require(known, "support", f"one of {list(SUPPORTS)}, or a constraint of vijax.constrain", repr(support))
    made = Free(shape, support if isinstance(support, Constraint) else SUPPORTS[support](), log_prior)
    made.support.free_shape(shape)  # says so where there can be no such value
    return made


@dataclasses.dataclass(frozen=True)
class Variables:
    """Free variables by name, as one vector of coordinates; hashed by value."""

    leaves: tuple[Free, ...]
    structure: Any

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> Variables:
        """From a mapping of names to `free(...)`, or to trees of such.

        Raises:
          ValueError: anything else.
        """
        remedy = "Such as {'scale': vijax.free(support='positive')}."
        named = isinstance(tree, Mapping) and bool(tree) and all(isinstance(name, str) for name in tree)
        got = type(tree).__name__ if not isinstance(tree, Mapping) else list(tree)
        require(named, "variables", "a mapping of names to vijax.free(...)", got, remedy)
        leaves, structure = jax.tree.flatten(dict(tree), is_leaf=lambda x: isinstance(x, Free))
        for leaf in leaves:
            require(isinstance(leaf, Free), "variables", "vijax.free(...) for each", repr(leaf), remedy)
        return cls(tuple(leaves), structure)

    @property
    def dim(self) -> int:
        """How many coordinates there are."""
        return sum(math.prod(leaf.free_shape) for leaf in self.leaves)

    @property
    def names(self) -> list[str]:
        """Of the variables."""
        return list(self.structure.unflatten(self.leaves))

    @property
    def places(self) -> dict[str, list[int]]:
        """The coordinates of each variable, by its name."""
        sizes = self.structure.unflatten([math.prod(leaf.free_shape) for leaf in self.leaves])
        totals = {name: sum(jax.tree.leaves(size)) for name, size in sizes.items()}
        ends = dict(zip(totals, itertools.accumulate(totals.values()), strict=True))
        return {name: list(range(end - totals[name], end)) for name, end in ends.items()}

    def values(self, x: Float[Array, " D"]) -> tuple[dict[str, Any], Float[Array, ""]]:
        """The values at coordinates, and the log determinant of the map there."""
        parts = list(zip(self.leaves, self._split(x), strict=True))
        log_det = sum((leaf.support.log_det(part) for leaf, part in parts), jnp.zeros((), x.dtype))
        return self.structure.unflatten([leaf.support.point(part) for leaf, part in parts]), log_det

    @property
    def has_priors(self) -> bool:
        """Whether every variable has one of its own."""
        return all(leaf.log_prior is not None for leaf in self.leaves)

    def log_prior(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The log density of coordinates by the variables' own priors, Jacobian included."""
        parts = list(zip(self.leaves, self._split(x), strict=True))
        own = [jnp.sum(leaf.log_prior(leaf.support.point(part))) for leaf, part in parts if leaf.log_prior is not None]
        return sum(own, self.values(x)[1])

    def coordinates(self, values: PyTree) -> Float[Array, " D"]:
        """The coordinates of values."""
        leaves = self.structure.flatten_up_to(dict(values))
        parts = [leaf.support.free(jnp.asarray(x)) for leaf, x in zip(self.leaves, leaves, strict=True)]
        return jnp.concatenate([jnp.ravel(part) for part in parts])

    def numbers(self, x: Float[np.ndarray, "points D"]) -> tuple[list[str], Float[np.ndarray, "points M"]]:
        """All entries of the values at points, with their names; those without a constraint to the last digit."""
        paths, _ = jax.tree_util.tree_flatten_with_path(self.structure.unflatten(range(len(self.leaves))))
        names: list[str] = []
        found, start = [], 0
        for (path, _), leaf in zip(paths, self.leaves, strict=True):
            size = math.prod(leaf.free_shape)
            part, start = x[:, start : start + size], start + size
            if leaf.support != constrain.real():
                free = jnp.asarray(part.reshape(len(x), *leaf.free_shape), jnp.result_type(float))
                part = np.asarray(jax.vmap(leaf.support.point)(free), np.float64).reshape(len(x), -1)
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            places = np.ndindex(leaf.shape) if leaf.shape else [()]
            names += [f"{name}[{', '.join(map(str, i))}]" if i else name for i in places]
            found.append(part)
        return names, np.concatenate(found, 1)

    def names_at(self, chosen: Bool[np.ndarray, " D"]) -> list[str]:
        """Variables of which any coordinate is chosen."""
        paths, _ = jax.tree_util.tree_flatten_with_path(self.structure.unflatten(range(len(self.leaves))))
        sizes = np.cumsum([0, *(math.prod(leaf.free_shape) for leaf in self.leaves)])
        names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
        return [name for i, name in enumerate(names) if np.any(chosen[sizes[i] : sizes[i + 1]])]

    def _split(self, x: Array) -> list[Array]:
        parts, start = [], 0
        for leaf in self.leaves:
            size = math.prod(leaf.free_shape)
            parts.append(x[start : start + size].reshape(leaf.free_shape))
            start += size
        return parts


class FreeVariables(abc.ABC):
    """The free variables of a model: one global, `Z`, of their coordinates. All of its density is in the bound, which
    reads its value among the statistics and need not be linear in it.

    Attributes:
      variables: what they are.
      is_all: the model has no other variables: it is a log density of these coordinates.
    """

    variables: Variables
    is_all: ClassVar[bool] = False

    @property
    def reads_data(self) -> bool:
        """Whether there are data."""
        return True

    def point(self, hyper: Mapping[str, Any], z: Float[Array, " D"]) -> Float[Array, " D"]:
        """The free coordinates at a value of the global."""
        del hyper
        return z

    @abc.abstractmethod
    def values(self, hyper: Mapping[str, Any], draws: Mapping[str, Any]) -> dict[str, Any]:
        """Draws of the globals, those of free variables by the names and in the supports that the user gave."""

    @abc.abstractmethod
    def given_others(self, model: Any, hyper: Mapping[str, Any], posterior: Any, key: PRNGKeyArray) -> Any:
        """The bound as a function of the free coordinates (`vijax.automatic.target.OfFree`) and a tuple of what else it
        reads, q of the other globals as it is; None where the bound is known not to grow without limit."""

    @abc.abstractmethod
    def start_in_words(self) -> str:
        """Where a fit by steps starts, and how to start nearer."""
