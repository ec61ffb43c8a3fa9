"""Coordinates of variables whose law is given others: effects of groups about a common mean, walks,
fields.

A variable x of N(m, L L') given others, m and L being functions of them, makes a bad coordinate:
where L is small its posterior is narrow, and it moves with m (the funnel of Neal 2003). Neither x
itself nor (x - m) / L will do where the data are strong for some entries and weak for others
(Papaspiliopoulos, Roberts and Skold 2003). If the data say of x about

    h' x - x' J x / 2,    J diagonal,

then the law of x given the others and the data is normal, and its standard noise z is the
coordinate:

    B = I + L' J L = R R',    x = m + L B^-1 L' (h - J m) + L R'^-1 z,    log |d x / d z| = log |L| - log |R|.

Where the data are normal, z is N(0, I) in the posterior whatever the others are, and these have
their own marginal law: nothing is left of the funnel, however little or much the data say. Without
data (h = J = 0) it is the non-centred form; with many it is nearly x. Where they are not normal, h
and J are those of a normal near the posterior (`vijax.automatic.coordinates` learns them), and what
is left is small.

The data speak by other variables, too: J is n / s^2 where their noise s is unknown, and h / J, the
value that they propose, moves with the coefficients of what else explains them. So log J and h / J
are affine in the variables that have no law of their own
(`vijax.models.energies.reference.Trends`)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from vijax.contract.variables import Free, Law, Variables
from vijax.models.energies.conditional_law import conditional_law
from vijax.models.energies.reference import Reference

Visit = Callable[[str, Law | None], Any]
"""(name of a variable, its law given those visited before, or None) -> its value."""
Walk = Callable[[Visit], None]
"""Visits every variable, those on which the law of another depends before it."""


class FreePoint(NamedTuple):
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

    def coordinate_mask(self, names: tuple[str, ...]) -> Bool[np.ndarray, " D"]:
        """The coordinates of some variables."""
        mask = np.zeros(self.variables.dim, bool)
        for name in names:
            mask[self.places[name][1]] = True
        return mask

    def to_free(self, reference: Reference, z: Float[Array, " D"]) -> FreePoint:
        """The free coordinates at z."""
        x, log_volume, log_law = jnp.asarray(z), jnp.zeros((), z.dtype), jnp.zeros((), z.dtype)
        said, stays = reference.information_at(x), jnp.isinf(jnp.asarray(reference.information))

        def visit(name: str, law: Law | None) -> Any:
            nonlocal x, log_volume, log_law
            leaf, rows = self.places[name]
            if law is not None:
                shape = leaf.free_shape or (1,)
                given = conditional_law(law, said.part(rows, shape))
                as_is, noise = stays[rows][0], z[rows].reshape(shape)
                moved = given.point(noise)
                x = x.at[rows].set(jnp.where(as_is, z[rows], moved.x.ravel()))
                log_volume = log_volume + jnp.where(as_is, 0.0, moved.log_volume)
                log_law = log_law + jnp.where(as_is, given.log_law(noise), 0.0)
            return leaf.support.point(x[rows].reshape(leaf.free_shape))

        self.walk(visit)
        return FreePoint(x, log_volume, log_law)

    def coordinates(self, reference: Reference, x: Float[Array, " D"]) -> Float[Array, " D"]:
        """The z at free coordinates."""
        z = jnp.asarray(x)
        said, stays = reference.information_at(z), jnp.isinf(jnp.asarray(reference.information))

        def visit(name: str, law: Law | None) -> Any:
            nonlocal z
            leaf, rows = self.places[name]
            if law is not None:
                shape = leaf.free_shape or (1,)
                noise = conditional_law(law, said.part(rows, shape)).noise(x[rows].reshape(shape))
                z = z.at[rows].set(jnp.where(stays[rows][0], x[rows], noise.ravel()))
            return leaf.support.point(x[rows].reshape(leaf.free_shape))

        self.walk(visit)
        return z
