"""A log density without some of its unknowns, whose integral is known, and draws of these given the
others.

Given the other unknowns, log p of the coordinates z that are integrated out is a sum of forms
(`forms`) of single coordinates, and of normals of blocks of coordinates. Slopes of log p in z at a
few points determine all of them. With K minus the Hessian of a block of n,

    log of the integral of p = log p(mode) - log |K| / 2 + n log(2 pi) / 2,

and the slopes give K and the mode, too. The integral is exact."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.adapters.conjugate.forms import HALF_LOG_TWO_PI, Form
from vijax.contract.variables import Free, Law, Variables
from vijax.models.energies.coordinates import Visit, Walk

Values = Mapping[str, Any]
MULTIPLIERS = np.array([0x9E3779B1, 0x85EBCA77], np.uint32)
"""Odd numbers whose powers mix the digits of a draw into the two words of a random key."""


class Single(NamedTuple):
    """Coordinates that do not depend on each other, of one form."""

    form: Form
    rows: Int[np.ndarray, " n"]


class Blocks(NamedTuple):
    """Normal blocks of one size.

    Attributes:
      rows: the coordinates of each block; a block that is smaller has places for `dim`, the number
        of all coordinates.
      is_coupled: pairs of coordinates that depend on each other.
      colours: the set of slopes from which each coordinate's column is read.
    """

    rows: Int[np.ndarray, "G n"]
    is_coupled: Bool[np.ndarray, "G n n"]
    colours: Int[np.ndarray, "G n"]


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The unknowns that are integrated out, and how.

    Attributes:
      variables: these unknowns.
      singles: coordinates by form.
      blocks: normal blocks, by size.
      middle: the points of the first slopes.
      width: the distance between these points.
      colours: for each set of slopes but the first, the coordinates that are moved, (C, m).
    """

    variables: Variables
    singles: tuple[Single, ...]
    blocks: tuple[Blocks, ...]
    middle: Float[np.ndarray, " m"]
    width: Float[np.ndarray, " m"]
    colours: Bool[np.ndarray, "C m"]

    @property
    def names(self) -> list[str]:
        """Names of the unknowns."""
        return self.variables.names

    def remaining(self, variables: Mapping[str, Free]) -> dict[str, Free]:
        """The unknowns that stay, of all."""
        return {name: x for name, x in variables.items() if name not in self.names}

    def remaining_levels(self, levels: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
        """The levels without the unknowns of the plan."""
        shorter = [tuple(name for name in level if name not in self.names) for level in levels]
        return tuple(level for level in shorter if level)

    def walk(self, walk: Walk) -> Walk:
        """A walk that visits the unknowns that stay; the law of none depends on the others."""

        def shorter(visit: Visit) -> None:
            values = self.placeholders()

            def visit_remaining(name: str, law: Law | None) -> Any:
                if name in values:
                    return values[name]
                return visit(name, law)

            walk(visit_remaining)

        return shorter

    def placeholders(self) -> dict[str, Any]:
        """Values of the unknowns, where none is read."""
        return self.variables.values(jnp.asarray(self.middle, jnp.result_type(float)))[0]


class Normals(NamedTuple):
    """Normals of blocks about a point, log p = g' (z - point) - (z - point)' K (z - point) / 2."""

    factor: Float[Array, "G n n"]  # lower factor of K
    root: Float[Array, "G n"]  # factor^-1 g

    @classmethod
    def from_precision(cls, slope: Array, precision: Array) -> Normals:
        """From g and K."""
        factor = jnp.linalg.cholesky(precision)
        return cls(factor, _solve(factor, slope))

    def log_integral(self) -> Float[Array, ""]:
        """The sum over blocks of log of the integral, less log p at the mean, but for 2 pi."""
        return -jnp.sum(jnp.log(jnp.diagonal(self.factor, axis1=-2, axis2=-1)))

    def shift(self, noise: Array | float = 0.0) -> Float[Array, "G n"]:
        """The means, or draws, relative to the point."""
        return _solve(jnp.swapaxes(self.factor, -1, -2), self.root + noise, lower=False)


def _solve(factor: Array, right: Array, lower: bool = True) -> Array:
    solve = lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=lower)
    return jax.vmap(solve)(factor, right)


class Conditional(NamedTuple):
    """The density of the coordinates that are integrated out, given the others."""

    point: Float[Array, " m"]  # where slopes were taken
    singles: tuple[tuple[Array, Array], ...]  # a and b
    normals: tuple[Normals, ...]  # about the point

    def mode(self, plan: Plan) -> Float[Array, " m"]:
        """The mode."""
        z = self.point
        for single, (a, b) in zip(plan.singles, self.singles, strict=True):
            z = z.at[single.rows].set(single.form.middle(a, b)[0])
        for blocks, normals in zip(plan.blocks, self.normals, strict=True):
            z = z.at[blocks.rows].add(normals.shift(), mode="drop")
        return z

    def log_integral(self, plan: Plan, mode: Float[Array, " m"]) -> Float[Array, ""]:
        """log of the integral of p over all these coordinates, less log p at the mode."""
        total = jnp.zeros((), mode.dtype)
        for single, (a, b) in zip(plan.singles, self.singles, strict=True):
            total = total + jnp.sum(single.form.log_integral(mode[single.rows], a, b))
        for blocks, normals in zip(plan.blocks, self.normals, strict=True):
            count = int((blocks.rows < len(plan.middle)).sum())
            total = total + normals.log_integral() + count * HALF_LOG_TWO_PI
        return total

    def draw(self, plan: Plan, key: PRNGKeyArray) -> Float[Array, " m"]:
        """A draw of the coordinates."""
        z = self.point
        keys = iter(jax.random.split(key, len(plan.singles) + len(plan.blocks)))
        for single, (a, b) in zip(plan.singles, self.singles, strict=True):
            z = z.at[single.rows].set(single.form.draw(next(keys), a, b))
        for blocks, normals in zip(plan.blocks, self.normals, strict=True):
            noise = jax.random.normal(next(keys), normals.root.shape, z.dtype)
            z = z.at[blocks.rows].add(normals.shift(noise), mode="drop")
        return z


def conditional(plan: Plan, log_p: Callable[[Array], Array], dtype: Any) -> Conditional:
    """The conditional of the coordinates of a plan, from slopes of log p as a function of them."""
    start = np.asarray(plan.middle - 0.5 * plan.width, dtype)
    end = start + np.asarray(plan.width, dtype)
    low = jnp.asarray(start)
    width = jnp.asarray(end - start)  # as rounding leaves it, which tells where start is far from 0
    points = jnp.concatenate([low[None], low + jnp.where(plan.colours, width, 0.0)])
    slopes = jax.vmap(jax.grad(log_p))(points)
    pairs = [_solve_single(single, points[:2], slopes[:2]) for single in plan.singles]
    normals = []
    for blocks in plan.blocks:
        precision = _precision(blocks, slopes[0] - slopes[1:], width)
        normals.append(Normals.from_precision(_take(slopes[0], blocks.rows), precision))
    return Conditional(low, tuple(pairs), tuple(normals))


def _solve_single(single: Single, points: Array, slopes: Array) -> tuple[Any, Any]:
    """a and b by slopes at two points."""
    rows = single.rows
    first, second = (points[0, rows], points[1, rows]), (slopes[0, rows], slopes[1, rows])
    return single.form.solve(first, second)


def _take(x: Array, rows: Int[np.ndarray, "G n"]) -> Array:
    """Entries of x; zero at places beyond it."""
    return x.at[rows].get(mode="fill", fill_value=0.0)


def _precision(blocks: Blocks, falls: Array, width: Array) -> Float[Array, "G n n"]:
    """K of each block, from the falls of slopes where coordinates of each colour are moved by their
    widths; one on the diagonal of places without a coordinate."""
    rows = blocks.rows
    columns = falls.at[blocks.colours[:, None, :], rows[:, :, None]].get(
        mode="fill", fill_value=0.0
    )
    columns = columns / width.at[rows].get(mode="fill", fill_value=1.0)[:, None, :]
    matrix = jnp.where(blocks.is_coupled, columns, 0.0)
    matrix = 0.5 * (matrix + jnp.swapaxes(matrix, -1, -2))
    is_missing = rows >= falls.shape[1]
    return matrix + is_missing[:, :, None] * np.eye(rows.shape[1], dtype=np.float32)


def describe(names: Sequence[str]) -> str:
    """A sentence on the unknowns that were integrated out, for verdicts.

    >>> describe(["a", "b"])
    "Integrated out: 'a', 'b'; their draws are from their law given the others."
    """
    listed = ", ".join(repr(name) for name in names)
    return f"Integrated out: {listed}; their draws are from their law given the others."


# --- functions of the other unknowns --------------------------------------------------------------
@dataclasses.dataclass(frozen=True, eq=False)
class Marginal:
    """The log density of the other unknowns: values -> log of the integral of the joint density."""

    plan: Plan
    log_joint: Callable[[Values], Array]

    def __call__(self, values: Values) -> Float[Array, ""]:
        """The log density at values of the others."""
        law = self.conditional(values)
        mode = law.mode(self.plan)
        return self._log_p(values, mode) + law.log_integral(self.plan, mode)

    def conditional(self, values: Values) -> Conditional:
        """The conditional of the unknowns that are integrated out, given the others."""
        log_p = functools.partial(self._log_p, values)
        return conditional(self.plan, log_p, jnp.result_type(float))

    @functools.cached_property
    def _log_p(self) -> Callable[[Values, Array], Array]:
        """log p of the values of the others and coordinates of the plan, traced once."""

        def log_p(values: Values, z: Array) -> Array:
            inner, log_det = self.plan.variables.values(z)
            return self.log_joint({**values, **inner}) + log_det

        return jax.jit(log_p)

    def draw(self, values: Values) -> dict[str, Any]:
        """Values of the unknowns that were integrated out, drawn given the others. The random key
        is made of the digits of the others: the same draw of these has the same values
        everywhere."""
        z = self.conditional(values).draw(self.plan, key_from_digits(values))
        return self.plan.variables.values(z)[0]


@dataclasses.dataclass(frozen=True, eq=False)
class AllValues:
    """The values beside the unknowns that stay: draws of those that were integrated out, and what
    the model derives from all of them."""

    marginal: Marginal
    derived: Callable[[Values], Mapping[str, Any]] | None

    def __call__(self, values: Values) -> dict[str, Any]:
        """The values by name."""
        draws = self.marginal.draw(values)
        if self.derived is None:
            return draws
        return {**draws, **self.derived({**values, **draws})}


@dataclasses.dataclass(frozen=True, eq=False)
class PlaceholderFunction:
    """A function of all values that does not read those of the unknowns of a plan."""

    plan: Plan
    function: Callable[[Values], Any]

    def __call__(self, values: Values) -> Any:
        """The function at values of the others."""
        return self.function({**self.plan.placeholders(), **values})


def key_from_digits(values: Values) -> PRNGKeyArray:
    """A random key made of all digits of some numbers.

    >>> import jax
    >>> draws = jnp.linspace(0.0, 1.0, 4000)
    >>> noise = jax.vmap(lambda x: jax.random.normal(key_from_digits({"x": x})))(draws)
    >>> print(f"{abs(float(noise.mean())):.1f} {float(noise.std()):.1f}")
    0.0 1.0
    """
    numbers = jnp.concatenate([jnp.ravel(values[name]) for name in sorted(values)])
    words = jax.lax.bitcast_convert_type(numbers, jnp.uint32).ravel()
    powers = np.cumprod(np.broadcast_to(MULTIPLIERS[:, None], (2, words.size)), 1, dtype=np.uint32)
    mixed = _scramble(words) * powers
    words = _scramble(jnp.sum(mixed, 1, dtype=jnp.uint32))
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _scramble(words: Array) -> Array:
    """Words whose bits all depend on all bits of the words (the end of MurmurHash3)."""
    words = words ^ (words >> 16)
    words = words * np.uint32(0x85EBCA6B)
    words = words ^ (words >> 13)
    words = words * np.uint32(0xC2B2AE35)
    return words ^ (words >> 16)
