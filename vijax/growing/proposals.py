"""Moves that are worth a try: pairs of slots to merge, by what the bound would gain at most."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax import tree
from vijax.families import Product
from vijax.growing.slots import STICKS, Axes, mapped, slots_in
from vijax.xla.compiler import once_jit


class Proposal(NamedTuple):
    """A move that was tried.

    Attributes:
      move: "birth", "merge", "delete", "sort" (components in order of their sizes) or "entries"
        (each state in use is entered once more from each); "start" or "end".
      components: the slots that it takes from, as they were numbered then.
      gain: what it gained in the bound, both sides given equally many laps, as far as it was
          followed.
      accepted: it was taken.
      elbo: the bound after it.
      in_use: slots that hold observations after it.
      slots: slots in all.
      laps: laps over the data that it took.
    """

    move: str
    components: tuple[int, ...]
    gain: float
    accepted: bool
    elbo: float
    in_use: int
    slots: int
    laps: int

    def __str__(self) -> str:
        which = " of " * bool(self.components) + " and ".join(map(str, self.components))
        verdict = "accepted" if self.accepted else "rejected"
        return (
            f"{self.move}{which}: {verdict}, {self.gain:+.4g} nats; {self.in_use} in use, bound "
            f"{self.elbo:.7g}"
        )


@functools.partial(once_jit, static_argnums=0)
def merge_gains(axes: Axes, q: Product, prior: Product) -> Float[Array, "K K"]:
    """The most that the bound gains if slot b is merged into slot a, at [a, b].

    Where the globals are optimal given the locals, the bound is sum A(lambda) - A(eta) over the
    globals, plus the entropy of the locals, plus a constant (Hughes and Sudderth 2013, section 4).
    A merge changes the first by what is here, and can only lower the entropy."""
    num_slots = slots_in(axes, q)
    where = dict(axes)
    alone = [name for name in q if name != STICKS and _is_batch_of_slots(q, where, name, num_slots)]
    others = tuple((name, where[name]) for name in q if name not in alone)
    rest, rest_prior = (
        Product({name: x[name] for name, _ in others}) if others else None for x in (q, prior)
    )
    total = lambda q: sum(jnp.sum(q[name].log_normalizer()) for name, _ in others)
    per_slot = lambda q: jnp.sum(q.log_normalizer().reshape(num_slots, -1), -1)

    def into(a: Array) -> Array:
        gains = jnp.zeros(num_slots)
        for name in alone:
            own = tree.apply(lambda x, y: x[a] - y[a], q[name], prior[name])
            both = tree.apply(lambda x, y: x + y, q[name], own)
            before = per_slot(q[name])
            gains += per_slot(both) + per_slot(prior[name]) - before - before[a]
        if rest is None or rest_prior is None:
            return gains
        merged = lambda b: mapped(
            others, rest, rest_prior, merging(jnp.eye(num_slots), a, b), rest_prior
        )
        return gains + jax.vmap(lambda b: total(merged(b)))(jnp.arange(num_slots)) - total(rest)

    return jax.lax.map(into, jnp.arange(num_slots))


def _is_batch_of_slots(q: Product, where: dict, name: str, num_slots: int) -> bool:
    return q[name].batch_shape[:1] == (num_slots,) and all(axes == (0,) for axes in where[name])


def merging(change: Array, a: Array | int, b: Array | int) -> Array:
    """The map that also adds slot b to slot a, and frees b."""
    return change.at[a].add(change[b]).at[b].set(0.0)


def pairs_to_merge(gains: np.ndarray, used: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of slots in use that may gain, the likeliest first, (kept, freed).

    >>> pairs_to_merge(np.array([[0.0, 2.0, -1.0], [2.0, 0.0, 3.0], [-1.0, 3.0, 0.0]]), np.arange(3))
    [(1, 2), (0, 1)]
    """
    found = [
        (float(gains[a, b]), int(a), int(b))
        for i, a in enumerate(used)
        for b in used[i + 1 :]
        if gains[a, b] > 0
    ]
    return [(a, b) for _, a, b in sorted(found, key=lambda x: (-x[0], x[1:]))]


def apart(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs of which no two share a slot, greedily from the first.

    >>> apart([(1, 2), (0, 1), (0, 3)])
    [(1, 2), (0, 3)]
    """
    taken: set[int] = set()
    chosen = []
    for pair in pairs:
        if not taken & set(pair):
            chosen.append(pair)
            taken |= set(pair)
    return chosen
