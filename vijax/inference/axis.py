"""A mesh axis over which the groups of a batch are split: what a step says to the other devices."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from vijax.checks import require


@dataclasses.dataclass(frozen=True)
class Axis:
    """By its name; without one, the device has the whole batch and everything stays as it is.

    The bound is differentiated on each device, of its own groups, and then summed: a gradient taken through a sum over
    devices would count them.
    """

    name: str | None = None

    def total(self, x: PyTree) -> PyTree:
        """The sum over devices."""
        return x if self.name is None else jax.lax.psum(x, self.name)

    @property
    def size(self) -> int:
        """How many devices: a matter of shapes."""
        return 1 if self.name is None else jax.lax.psum(1, self.name)

    def share(self, x: Array) -> Array:
        """Of what every device knows, its part: these add up to it."""
        return x / self.size if self.name else x

    def key(self, key: PRNGKeyArray) -> PRNGKeyArray:
        """Another one on each device."""
        return key if self.name is None else jax.random.fold_in(key, jax.lax.axis_index(self.name))

    def first(self, place: Int[Array, ""], size: int) -> Int[Array, ""]:
        """The least place in the batch, from each device's in its own part of `size` groups; below 0 is none."""
        if self.name is None:
            return place
        most = jnp.iinfo(jnp.int32).max
        here = jnp.where(place < 0, most, place + size * jax.lax.axis_index(self.name))
        least = jax.lax.pmin(here, self.name)
        return jnp.where(least == most, -1, least)

    def check_local(self, local: PyTree, data: PyTree) -> None:
        """ValueError where a device has the locals of other groups than those of its part of the batch."""
        if self.name is None or local is None:
            return
        kept, here = (jnp.shape(jax.tree.leaves(x)[0])[0] for x in (local, data))
        expected = f"locals of the {here} groups that this device has of the batch"
        remedy = (
            "Split State.local over the axis, as the data: specs = jax.tree.map(lambda _: P(), state), and then "
            f"specs._replace(local=P({self.name!r})) for the state in in_specs and out_specs."
        )
        require(kept == here, "state", expected, f"State.local of {kept}", remedy)
