"""Free variables: unknowns without a conjugate prior, by name, shape and support; and their free
coordinates.

All free variables of a model together are one vector of real numbers x, whose density a guide has.
The values are a smooth map of x (`vijax.constrain`), and the log determinant of the map turns a
density of values into one of x (Kucukelbir et al. 2017, section 2.3)."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax import constrain
from vijax.checks import require, traceable
from vijax.constrain import Constraint
from vijax.xla.frozen import snapshot

SUPPORTS: dict[str, Callable[[], Constraint]] = {
    "real": constrain.real,
    "positive": constrain.positive,
    "unit interval": constrain.unit_interval,
    "simplex": constrain.simplex,
    "ordered": constrain.ordered,
    "positive definite": constrain.positive_definite,
    "correlation Cholesky": constrain.correlation_cholesky,
}
"""The supports that `free` knows by name."""
Z = "free"
"""The name of the free coordinates among the globals."""


class Law(NamedTuple):
    """The law of the free coordinates of a variable, given other variables."""

    loc: Any  # the mean, of a shape that broadcasts to the coordinates
    # The standard deviation, of such a shape; or a lower factor of the covariance over the last
    # axis
    scale: Any


OfOthers = str | float | Callable[[Mapping[str, Any]], Any]
"""A number that depends on other variables: the name of one, a function of their values, or a
constant."""


@dataclasses.dataclass(frozen=True)
class DeclaredLaw:
    """The law of a variable given others, from the arguments of `free`."""

    loc: OfOthers
    scale: OfOthers

    def evaluate(self, values: Mapping[str, Any]) -> Law:
        """The law at values of the others."""
        return Law(_evaluate(self.loc, values), _evaluate(self.scale, values))


def _evaluate(part: OfOthers, values: Mapping[str, Any]) -> Any:
    """The value of a part of a law: of a variable, of a function of variables, or a constant."""
    if isinstance(part, str):
        return values[part]
    return part(values) if callable(part) else part


@dataclasses.dataclass(frozen=True)
class Free:
    """A free variable, the result of `free`."""

    shape: tuple[int, ...]
    support: Constraint
    log_prior: Callable[[Any], Any] | None = None
    law: DeclaredLaw | None = None

    @functools.cached_property
    def free_shape(self) -> tuple[int, ...]:
        """Shape of its coordinates; ValueError if no value has the shape of the variable."""
        return self.support.free_shape(self.shape)

    @property
    def size(self) -> int:
        """The number of its coordinates."""
        return math.prod(self.free_shape)


def free(
    shape: int | tuple[int, ...] = (),
    support: str | Constraint = "real",
    log_prior: Callable[[Any], Any] | None = None,
    *,
    loc: OfOthers | None = None,
    scale: OfOthers | None = None,
) -> Free:
    """An unknown without a conjugate prior.

    Args:
      shape: shape of a value; () is a number.
      support: "real", "positive", "unit interval", "simplex" (over the last axis), "ordered"
        (increasing over the last axis), "positive definite" (over the last two), "correlation
        Cholesky" (the lower factor of a correlation matrix), or a constraint of `vijax.constrain`,
        such as `vijax.constrain.interval(-1.0, 1.0)`.
      log_prior: value -> its log density, or the log densities of its entries, which are summed;
        None if the density or energy of the model has a term for it.
      loc: if the law of this variable depends on others, its mean: the name of another variable, a
        function of the values of the others, or a number (0 if only `scale` is given).
      scale: its standard deviation likewise; or a function that returns a lower factor of the
        covariance of its last axis. Both are for its free coordinates: for logarithms, if the
        support is "positive". They add no term to the density, which has a prior anyway. From them
        `vijax.auto` makes coordinates in which the posterior is near a normal even if the data say
        little (effects of groups, walks, fields). The law need not be normal.

    Raises:
      ValueError: an unknown support, or a shape that its values cannot have; a `loc` without a
        `scale`.

    Effects of eight groups:

    >>> effects = free(8, loc="mean", scale="spread")

    >>> free(3, "simplex").free_shape
    (2,)
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    require(all(isinstance(n, int) and n > 0 for n in shape), "shape", "positive integers", shape)
    is_support = isinstance(support, Constraint) or support in SUPPORTS
    expected = f"one of {list(SUPPORTS)}, or a constraint of vijax.constrain"
    require(is_support, "support", expected, repr(support))
    has_scale = loc is None or scale is not None
    remedy = "Give both, or loc alone as log_prior."
    require(has_scale, "scale", "one beside loc", None, remedy)
    log_prior, loc, scale = snapshot(log_prior), snapshot(loc), snapshot(scale)
    law = None
    if scale is not None:
        law = DeclaredLaw(0.0 if loc is None else loc, scale)
    constraint = support if isinstance(support, Constraint) else SUPPORTS[support]()
    variable = Free(shape, constraint, log_prior, law)
    variable.free_shape  # noqa: B018  # raises ValueError if no value has this shape
    return variable


@dataclasses.dataclass(frozen=True)
class Variables:
    """Free variables by name, as one vector of coordinates; hashed by value."""

    leaves: tuple[Free, ...]
    structure: Any

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Variables:
        """The variables of a mapping of names to `free(...)`, or to trees of `free(...)`;
        ValueError for anything else."""
        is_mapping = isinstance(tree, Mapping)
        has_names = is_mapping and bool(tree) and all(isinstance(name, str) for name in tree)
        expected = "a mapping of names to vijax.free(...)"
        names = list(tree) if is_mapping else type(tree).__name__
        remedy = "Such as {'scale': vijax.free(support='positive')}."
        require(has_names, "variables", expected, names, remedy)
        leaves, structure = jax.tree.flatten(dict(tree), is_leaf=lambda x: isinstance(x, Free))
        expected = "vijax.free(...) for each"
        for leaf in leaves:
            require(isinstance(leaf, Free), "variables", expected, repr(leaf), remedy)
        return cls(tuple(leaves), structure)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return sum(leaf.size for leaf in self.leaves)

    @property
    def names(self) -> list[str]:
        """Names of the variables."""
        return list(self.structure.unflatten(self.leaves))

    @property
    def places(self) -> dict[str, list[int]]:
        """The indices of the coordinates of each variable, by its name."""
        indices = self.structure.unflatten(self._split(np.arange(self.dim)))
        join = lambda x: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(x)])
        return {name: join(x).tolist() for name, x in indices.items()}

    def values(self, x: Float[Array, " D"]) -> tuple[dict[str, Any], Float[Array, ""]]:
        """The values at these coordinates, and the log determinant of the map there."""
        parts = list(zip(self.leaves, self._split(x), strict=True))
        log_det = sum((leaf.support.log_det(part) for leaf, part in parts), jnp.zeros((), x.dtype))
        return self.structure.unflatten([leaf.support.point(part) for leaf, part in parts]), log_det

    @property
    def has_priors(self) -> bool:
        """True if every variable has its own prior."""
        return all(leaf.log_prior is not None for leaf in self.leaves)

    def log_prior(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """The log density of coordinates under the priors of the variables, with the Jacobian."""
        parts = list(zip(self.leaves, self._split(x), strict=True))
        with traceable("log_prior"):
            priors = [
                leaf.log_prior(leaf.support.point(part))
                for leaf, part in parts
                if leaf.log_prior is not None
            ]
        terms = [jnp.sum(prior) for prior in priors]
        return sum(terms, self.values(x)[1])

    def coordinates(self, values: PyTree) -> Float[Array, " D"]:
        """The coordinates of values."""
        leaves = self.structure.flatten_up_to(dict(values))
        parts = [
            leaf.support.free(jnp.asarray(x)) for leaf, x in zip(self.leaves, leaves, strict=True)
        ]
        return jnp.concatenate([jnp.ravel(part) for part in parts])

    def numbers(
        self, x: Float[np.ndarray, "points D"]
    ) -> tuple[list[str], Float[np.ndarray, "points M"]]:
        """The names of all entries of the values, and the entries at these points. Entries of real
        variables are exact."""
        names: list[str] = []
        columns = []
        for name, leaf, part in zip(self._paths(), self.leaves, self._split(x), strict=True):
            if leaf.support != constrain.real():
                free = jnp.asarray(part, jnp.result_type(float))
                part = np.asarray(jax.vmap(leaf.support.point)(free), np.float64)
            for index in np.ndindex(leaf.shape):
                names.append(f"{name}[{', '.join(map(str, index))}]" if index else name)
            columns.append(part.reshape(len(x), -1))
        return names, np.concatenate(columns, 1)

    def names_where(self, mask: Bool[np.ndarray, " D"]) -> list[str]:
        """Names of the variables with a coordinate in the mask."""
        pairs = zip(self.names_of_coordinates, mask, strict=True)
        return list(dict.fromkeys(name for name, is_in in pairs if is_in))

    @property
    def names_of_coordinates(self) -> list[str]:
        """The name of the variable of each coordinate."""
        names: list[str] = []
        for name, leaf in zip(self._paths(), self.leaves, strict=True):
            names += [name] * leaf.size
        return names

    def _paths(self) -> list[str]:
        """A name for each leaf: scale, or scale.first in a tree."""
        paths, _ = jax.tree_util.tree_flatten_with_path(self.structure.unflatten(self.leaves))
        return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]

    @property
    def shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """The name of each leaf, with the shape of its value."""
        return [(name, leaf.shape) for name, leaf in zip(self._paths(), self.leaves, strict=True)]

    def _split(self, x: Any) -> list[Any]:
        """The coordinates of each leaf, in its shape; the axis of points leads."""
        parts, start = [], 0
        for leaf in self.leaves:
            part = x[..., start : start + leaf.size]
            parts.append(part.reshape((*x.shape[:-1], *leaf.free_shape)))
            start += leaf.size
        return parts


ENTRY = re.compile(r"(.+)\[([\d, ]+)\]")
"""The name of an entry of an array: its variable, and its index."""


def check_apart(shapes: Sequence[tuple[str, tuple[int, ...]]], argument: str) -> None:
    """Raises ValueError if two numbers would have one name in a summary, such as "a[0]" for an
    entry of a vector "a" and for a variable of this name.

    Args:
      shapes: names of variables, with their shapes.
      argument: name of the argument in the message.

    >>> check_apart([("a", (2,)), ("a[0]", ())], "variables")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: variables: expected names that tell all numbers apart, got 'a[0]', an entry of 'a' ...
    """
    expected, remedy = "names that tell all numbers apart", "Rename one."
    counts = Counter(name for name, _ in shapes)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    problem = f"{repeated[0]!r} twice" if repeated else ""
    require(not repeated, argument, expected, problem, remedy)
    by_name = dict(shapes)
    for name in by_name:
        match = ENTRY.fullmatch(name)
        if match is None:
            continue
        variable, index = match[1], match[2]
        is_entry = len(by_name.get(variable, ())) == index.count(",") + 1
        problem = f"{name!r}, an entry of {variable!r} too"
        require(not is_entry, argument, expected, problem, remedy)


class FreeVariables(abc.ABC):
    """The free variables of a model: one global, `Z`, with their coordinates. The density is in the
    bound, which reads the coordinates among the statistics and need not be linear in them."""

    variables: Variables  # the free variables
    # True if the model has no other variables: it is a log density of these coordinates
    is_all: ClassVar[bool] = False

    @property
    def reads_data(self) -> bool:
        """True if the density has data."""
        return True

    def point(self, hyper: Mapping[str, Any], z: Float[Array, " D"]) -> Float[Array, " D"]:
        """The free coordinates at a value of the global."""
        return z

    @abc.abstractmethod
    def values(self, hyper: Mapping[str, Any], draws: Mapping[str, Any]) -> dict[str, Any]:
        """Draws of the globals; draws of free variables have the user's names and supports."""

    def visible(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values that a user sees."""
        return values

    @abc.abstractmethod
    def given_others(
        self, model: Any, hyper: Mapping[str, Any], posterior: Any, key: PRNGKeyArray
    ) -> Any:
        """The bound as a function of the free coordinates (`vijax.verdict.target.FreeFunction`) at
        fixed q of the other globals, and a tuple of its other arguments. None if the bound is known
        to have a limit."""

    @abc.abstractmethod
    def start_in_words(self) -> str:
        """A sentence on the start of a fit by steps, and a way to start nearer."""
