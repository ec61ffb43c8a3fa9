"""Coordinates of variables whose law is given others: effects of groups about a common mean, walks, fields.

A variable x of N(m, L L') given others, m and L being functions of them, makes a bad coordinate: where L is small its
posterior is narrow, and it moves with m (the funnel of Neal 2003). Neither x itself nor (x - m) / L will do where the
data are strong for some entries and weak for others (Papaspiliopoulos, Roberts and Skold 2003). If the data say of x
about

    h' x - x' J x / 2,    J diagonal,

then the law of x given the others and the data is normal, and its standard noise z is the coordinate:

    B = I + L' J L = R R',    x = m + L B^-1 L' (h - J m) + L R'^-1 z,    log |d x / d z| = log |L| - log |R|.

Where the data are normal, z is N(0, I) in the posterior whatever the others are, and these have their own marginal
law: nothing is left of the funnel, however little or much the data say. Without data (h = J = 0) it is the
non-centred form; with many it is nearly x. Where they are not normal, h and J are those of a normal near the posterior
(`vijax.automatic.coordinates` learns them), and what is left is small.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from vijax.checks import require, traceable
from vijax.contract.variables import DeclaredLaw, Free, Law, Variables

LOG_2PI = float(np.log(2 * np.pi))


Visit = Callable[[str, Law | None], Any]
"""(name of a variable, its law given those visited before, or None) -> its value."""
Walk = Callable[[Visit], None]
"""Visits every variable, those on which the law of another depends before it."""


class Reference(NamedTuple):
    """The normal that stands for what the data say of each coordinate: h x - J x^2 / 2."""

    linear: Float[Array | np.ndarray, " D"]  # h
    # J, not negative; infinite for variables that are their own coordinates
    information: Float[Array | np.ndarray, " D"]

    @classmethod
    def without_data(cls, dim: int) -> Reference:
        """That of data which say nothing."""
        return cls(np.zeros(dim, jnp.result_type(float)), np.zeros(dim, jnp.result_type(float)))

    @classmethod
    def of_free(cls, dim: int) -> Reference:
        """That of free coordinates: all variables stay as they are."""
        return cls(np.zeros(dim, jnp.result_type(float)), np.full(dim, np.inf, jnp.result_type(float)))

    @property
    def is_of_free(self) -> bool:
        """True where all variables stay as they are."""
        return bool(np.isinf(np.asarray(self.information)).all())


class Placed(NamedTuple):
    """Free coordinates that belong to coordinates z, and what goes with them."""

    free: Float[Array, " D"]
    log_volume: Float[Array, ""]  # log |d x / d z|
    log_law: Float[Array, ""]  # log density of the variables that stay as they are, by their laws


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """Variables of which some have a law that depends on others.

    Attributes:
      variables: all of them.
      walk: visits them in order.
      levels: names of those with a law, by depth: a law depends on variables of lower levels alone.
    """

    variables: Variables
    walk: Walk
    levels: tuple[tuple[str, ...], ...]

    @functools.cached_property
    def places(self) -> dict[str, tuple[Free, slice]]:
        """Each variable and its coordinates, by name; of trees none."""
        leaves = self.variables.structure.unflatten(self.variables.leaves)
        return {
            name: (leaves[name], slice(rows[0], rows[-1] + 1))
            for name, rows in self.variables.places.items()
            if isinstance(leaves[name], Free)
        }

    def mask_of(self, names: tuple[str, ...]) -> Bool[np.ndarray, " D"]:
        """The coordinates of some variables."""
        mask = np.zeros(self.variables.dim, bool)
        for name in names:
            mask[self.places[name][1]] = True
        return mask

    def placed(self, reference: Reference, z: Float[Array, " D"]) -> Placed:
        """The free coordinates at z."""
        x, log_volume, log_law = jnp.asarray(z), jnp.zeros((), z.dtype), jnp.zeros((), z.dtype)

        def visit(name: str, law: Law | None) -> Any:
            nonlocal x, log_volume, log_law
            leaf, rows = self.places[name]
            if law is not None:
                given = _Given.of(law, leaf, reference, rows)
                x = x.at[rows].set(jnp.where(given.stays, z[rows], given.point(z[rows])))
                log_volume = log_volume + jnp.where(given.stays, 0.0, given.log_volume)
                log_law = log_law + jnp.where(given.stays, given.log_law(z[rows]), 0.0)
            return leaf.support.point(x[rows].reshape(leaf.free_shape))

        self.walk(visit)
        return Placed(x, log_volume, log_law)

    def coordinates(self, reference: Reference, x: Float[Array, " D"]) -> Float[Array, " D"]:
        """The z at free coordinates."""
        z = jnp.asarray(x)

        def visit(name: str, law: Law | None) -> Any:
            nonlocal z
            leaf, rows = self.places[name]
            if law is not None:
                given = _Given.of(law, leaf, reference, rows)
                z = z.at[rows].set(jnp.where(given.stays, x[rows], given.noise(x[rows])))
            return leaf.support.point(x[rows].reshape(leaf.free_shape))

        self.walk(visit)
        return z


class _Given(NamedTuple):
    """The law of a variable given others and the data: center + root z, root a vector or a lower factor."""

    center: Float[Array, "*shape n"]
    root: Float[Array, "*shape n"] | Float[Array, "*shape n n"]
    loc: Float[Array, "*shape n"]  # of the law without data
    scale: Float[Array, "*shape n"] | Float[Array, "*shape n n"]
    log_volume: Float[Array, ""]  # log |d x / d z|
    stays: Bool[Array, ""]  # whether the variable is its own coordinate
    is_full: bool

    @classmethod
    def of(cls, law: Law, leaf: Free, reference: Reference, rows: slice) -> _Given:
        """The law of a variable at these rows, given what a reference says of the data."""
        shape = leaf.free_shape or (1,)
        linear, information = (jnp.asarray(part[rows]).reshape(shape) for part in reference)
        stays = jnp.isinf(information.ravel()[0])
        information = jnp.where(stays, 0.0, information)
        is_full = jnp.ndim(law.scale) == len(leaf.free_shape) + 1
        dtype = linear.dtype
        loc = jnp.broadcast_to(jnp.asarray(law.loc, dtype), shape)
        if not is_full:
            scale = jnp.broadcast_to(jnp.asarray(law.scale, dtype), shape)
            root = scale / jnp.sqrt(1 + information * scale * scale)
            center = loc + root * (root * (linear - information * loc))  # no square of a large scale times zero
            return cls(center, root, loc, scale, jnp.sum(jnp.log(root)), stays, False)
        scale = jnp.broadcast_to(jnp.asarray(law.scale, dtype), (*shape, shape[-1]))
        turned = jnp.swapaxes(scale, -1, -2)
        inner = jnp.eye(shape[-1], dtype=dtype) + turned @ (information[..., None] * scale)
        root = jnp.linalg.cholesky(inner)
        pulled = (turned @ (linear - information * loc)[..., None])[..., 0]
        solved = jax.scipy.linalg.cho_solve((root, True), pulled[..., None])
        center = loc + (scale @ solved)[..., 0]
        # x - center = L R'^-1 z, whose factor need not be a triangle.
        wide = jnp.swapaxes(jax.scipy.linalg.solve_triangular(root, turned, lower=True), -1, -2)
        volume = jnp.sum(_logs_of_diagonal(scale)) - jnp.sum(_logs_of_diagonal(root))
        return cls(center, wide, loc, scale, volume, stays, True)

    def point(self, z: Float[Array, " size"]) -> Float[Array, " size"]:
        """The coordinates at standard noise."""
        noise = z.reshape(self.center.shape)
        moved = (self.root @ noise[..., None])[..., 0] if self.is_full else self.root * noise
        return (self.center + moved).reshape(z.shape)

    def noise(self, x: Float[Array, " size"]) -> Float[Array, " size"]:
        """The standard noise of coordinates."""
        gap = x.reshape(self.center.shape) - self.center
        noise = jnp.linalg.solve(self.root, gap[..., None])[..., 0] if self.is_full else gap / self.root
        return noise.reshape(x.shape)

    def log_law(self, x: Float[Array, " size"]) -> Float[Array, ""]:
        """The log density without data."""
        gap = x.reshape(self.loc.shape) - self.loc
        if self.is_full:
            noise = jax.scipy.linalg.solve_triangular(self.scale, gap[..., None], lower=True)[..., 0]
            logs = _logs_of_diagonal(self.scale)
        else:
            noise, logs = gap / self.scale, jnp.log(self.scale)
        return -0.5 * jnp.sum(noise**2 + LOG_2PI) - jnp.sum(jnp.broadcast_to(logs, noise.shape))


def _logs_of_diagonal(factor: Float[Array, "*shape n n"]) -> Float[Array, "*shape n"]:
    return jnp.log(jnp.abs(jnp.diagonal(factor, axis1=-2, axis2=-1)))


# --- laws that are declared -------------------------------------------------------------------------------------------
class _Reads(Mapping[str, Any]):
    """Values by name that remembers which were asked for and are not known yet."""

    def __init__(self, values: Mapping[str, Any]):
        self._values = values

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise _NotYetError(name)
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class _NotYetError(KeyError):
    """A law reads a variable that comes after it."""


def declared(variables: Variables) -> Hierarchy | None:
    """The hierarchy of variables with `vijax.free(..., loc=, scale=)`; None where there are none.

    Raises:
      ValueError: laws that depend on each other in a circle, or read a name that is no variable; shapes that do not
        fit.
    """
    leaves = variables.structure.unflatten(variables.leaves)
    named = {name: leaf.law for name, leaf in leaves.items() if isinstance(leaf, Free) and leaf.law is not None}
    inside = [leaf for name in leaves if not isinstance(leaves[name], Free) for leaf in jax.tree.leaves(leaves[name])]
    remedy = "Give it a name of its own."
    require(all(leaf.law is None for leaf in inside), "loc, scale", "none inside a tree of variables", "some", remedy)
    if not named:
        return None
    order, levels = _in_order(variables, leaves, named)

    def walk(visit: Visit) -> None:
        values: dict[str, Any] = {}
        for name in leaves:
            if name not in named and isinstance(leaves[name], Free):
                values[name] = visit(name, None)
        for name in order:
            values[name] = visit(name, named[name].given(values))

    return Hierarchy(variables, walk, levels)


def _in_order(
    variables: Variables, leaves: Mapping[str, Any], named: Mapping[str, DeclaredLaw]
) -> tuple[list[str], tuple[tuple[str, ...], ...]]:
    """The variables with a law, those that others depend on first; and their levels."""
    shapes = jax.eval_shape(lambda x: variables.values(x)[0], jax.ShapeDtypeStruct((variables.dim,), jnp.float32))
    known = {name: shapes[name] for name in leaves if name not in named}
    levels: list[tuple[str, ...]] = []
    while len(known) < len(leaves):
        level = tuple(name for name in named if name not in known and _is_ready(name, named[name], known, leaves))
        waiting = [name for name in named if name not in known]
        remedy = "Let one of them depend on others alone."
        require(bool(level), "loc, scale", "laws that do not depend on each other in a circle", waiting, remedy)
        known |= {name: shapes[name] for name in level}
        levels.append(level)
    return [name for level in levels for name in level], tuple(levels)


def _is_ready(name: str, own: DeclaredLaw, known: Mapping[str, Any], leaves: Mapping[str, Any]) -> bool:
    """Tells whether all that a law reads is known; ValueError where it reads what is no variable, or does not fit."""
    argument = f"loc, scale of {name!r}"
    try:
        with traceable(argument):
            law = jax.eval_shape(lambda values: own.given(_Reads(values)), dict(known))
    except _NotYetError as error:
        (other,) = error.args
        is_other = other in leaves and other != name
        require(is_other, argument, f"functions of the other variables, {[n for n in leaves if n != name]}", other)
        return False
    shape = leaves[name].free_shape
    _check_shape(argument, "loc", jnp.shape(law.loc), shape)
    of_scale = jnp.shape(law.scale)
    if len(of_scale) == len(shape) + 1:
        is_square = of_scale[-1] == of_scale[-2] == shape[-1]
        require(is_square, argument, f"a factor of shape {(*shape, shape[-1])}", f"one of {of_scale}")
    else:
        _check_shape(argument, "scale", of_scale, shape)
    return True


def _check_shape(argument: str, part: str, got: tuple[int, ...], shape: tuple[int, ...]) -> None:
    fits = len(got) <= len(shape) and all(n in (1, m) for n, m in zip(got[::-1], shape[::-1], strict=False))
    require(fits, argument, f"a {part} that broadcasts to the coordinates, {shape}", f"one of shape {got}")
