"""Coordinates of variables whose law depends on other variables: effects of groups about a common
mean, walks, fields.

Let x be N(m, L L') given other variables, where m and L are functions of these. Then x is a bad
coordinate: for small L its posterior is narrow and moves with m (the funnel of Neal 2003). Neither
x nor (x - m) / L is good if the data are strong for some entries and weak for others
(Papaspiliopoulos, Roberts and Skold 2003). If the log likelihood in x is roughly

    h' x - x' J x / 2,    J diagonal,

then the law of x given the others and the data is normal, and its standard noise z is the
coordinate:

    B = I + L' J L = R R',    x = m + L B^-1 L' (h - J m) + L R'^-1 z,    log |d x / d z| = log |L| - log |R|.

For normal data z is N(0, I) in the posterior at any values of the other variables, and these have
their marginal law: no funnel is left, for weak and for strong data. Without data (h = J = 0) z is
the non-centred form; for strong data it is nearly x, shifted and scaled. For other data h and J
belong to a normal near the posterior (`vijax.automatic.coordinates` learns them), and only a small
dependence is left.

The information may depend on other variables, too: J is n / s^2 for unknown noise s, and h / J, the
value of x that the data suggest, changes with the coefficients of other columns. So log J and h / J
are affine in the variables without a law (`vijax.models.energies.reference.Trends`)."""

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
"""(name of a variable, its law given the variables visited before, or None) -> its value."""
Walk = Callable[[Visit], None]
"""Visits every variable, after those on which its law depends."""


class FreePoint(NamedTuple):
    """Free coordinates x at coordinates z, with the log volume and the log density there."""

    free: Float[Array, " D"]
    log_volume: Float[Array, ""]  # log |d x / d z|
    log_law: Float[Array, ""]  # log density, by their laws, of variables that are coordinates


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """Variables, some with a law that depends on others.

    Attributes:
      variables: all variables.
      walk: visits them in order.
      levels: names of the variables with a law, by depth: a law depends only on lower levels.
    """

    variables: Variables
    walk: Walk
    levels: tuple[tuple[str, ...], ...]

    @functools.cached_property
    def places(self) -> dict[str, tuple[Free, slice]]:
        """Each variable and its coordinates, by name; trees are left out."""
        leaves = self.variables.structure.unflatten(self.variables.leaves)
        return {
            name: (leaves[name], slice(rows[0], rows[-1] + 1))
            for name, rows in self.variables.places.items()
            if isinstance(leaves[name], Free)
        }

    def coordinate_mask(self, names: tuple[str, ...]) -> Bool[np.ndarray, " D"]:
        """True for the coordinates of these variables."""
        mask = np.zeros(self.variables.dim, bool)
        for name in names:
            mask[self.places[name][1]] = True
        return mask

    def to_free(self, reference: Reference, z: Float[Array, " D"]) -> FreePoint:
        """The free coordinates at z."""
        x = jnp.asarray(z)
        log_volume = log_law = jnp.zeros((), z.dtype)
        information = reference.information_at(x)
        stays = jnp.isinf(jnp.asarray(reference.information))

        def visit(name: str, law: Law | None) -> Any:
            nonlocal x, log_volume, log_law
            leaf, rows = self.places[name]
            if law is not None:
                shape = leaf.free_shape or (1,)
                conditional = conditional_law(law, information.part(rows, shape))
                as_is = stays[rows][0]
                noise = z[rows].reshape(shape)
                point = conditional.point(noise)
                x = x.at[rows].set(jnp.where(as_is, z[rows], point.x.ravel()))
                log_volume = log_volume + jnp.where(as_is, 0.0, point.log_volume)
                log_law = log_law + jnp.where(as_is, conditional.log_law(noise), 0.0)
            return leaf.support.point(x[rows].reshape(leaf.free_shape))

        self.walk(visit)
        return FreePoint(x, log_volume, log_law)

    def coordinates(self, reference: Reference, x: Float[Array, " D"]) -> Float[Array, " D"]:
        """The z at free coordinates."""
        z = jnp.asarray(x)
        information = reference.information_at(z)
        stays = jnp.isinf(jnp.asarray(reference.information))

        def visit(name: str, law: Law | None) -> Any:
            nonlocal z
            leaf, rows = self.places[name]
            if law is not None:
                shape = leaf.free_shape or (1,)
                noise = conditional_law(law, information.part(rows, shape)).noise(
                    x[rows].reshape(shape)
                )
                z = z.at[rows].set(jnp.where(stays[rows][0], x[rows], noise.ravel()))
            return leaf.support.point(x[rows].reshape(leaf.free_shape))

        self.walk(visit)
        return z
