"""Moves that are tried, and pairs of slots whose merge may raise the bound."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax import tree
from vijax.families import Family, Product
from vijax.growing.slots import STICKS, Axes, count_slots, map_messages
from vijax.xla.compiler import once_jit


class Proposal(NamedTuple):
    """A move that was tried.

    Attributes:
      move: "birth", "merge", "delete", "sort" (components in order of their sizes) or "entries"
        (each state in use is entered once more from each); "start" or "end".
      components: the slots that it takes from, by their numbers before the move.
      gain: its gain in the bound over the present fit after equally many laps; after fewer laps if
          it was given up.
      accepted: it was accepted.
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
        components = " of " * bool(self.components) + " and ".join(map(str, self.components))
        verdict = "accepted" if self.accepted else "rejected"
        return (
            f"{self.move}{components}: {verdict}, {self.gain:+.4g} nats; "
            f"{self.in_use} in use, bound {self.elbo:.7g}"
        )


@functools.partial(once_jit, static_argnums=0)
def merge_gains(axes: Axes, q: Product, prior: Product) -> Float[Array, "K K"]:
    """The most that the bound gains if slot b is merged into slot a, at [a, b].

    If the globals are optimal given the locals, the bound is sum A(lambda) - A(eta) over the
    globals, plus the entropy of the locals, plus a constant (Hughes and Sudderth 2013, section 4).
    A merge changes the sum by this gain, and can only lower the entropy."""
    num_slots = count_slots(axes, q)
    axes_by_name = dict(axes)
    # Globals with one posterior for each slot are merged slot by slot, which is less work
    separate = [
        name
        for name in q
        if name != STICKS and _is_batch_of_slots(q, axes_by_name, name, num_slots)
    ]
    joint_axes = tuple((name, axes_by_name[name]) for name in q if name not in separate)
    joint_gains = _joint_gains(joint_axes, q, prior, num_slots) if joint_axes else None

    def log_normalizers(q: Family) -> Array:
        return jnp.sum(q.log_normalizer().reshape(num_slots, -1), -1)

    def gains(a: Array) -> Array:
        total = jnp.zeros(num_slots)
        for name in separate:
            message = tree.apply(lambda x, y: x[a] - y[a], q[name], prior[name])
            merged = tree.apply(lambda x, y: x + y, q[name], message)
            before = log_normalizers(q[name])
            total += log_normalizers(merged) + log_normalizers(prior[name]) - before - before[a]
        return total if joint_gains is None else joint_gains(total, a)

    return jax.lax.map(gains, jnp.arange(num_slots))


def _joint_gains(
    axes: Axes, q: Product, prior: Product, num_slots: int
) -> Callable[[Array, Array], Array]:
    """(gains of other globals, a) -> these gains and those of the globals of `axes`."""
    q = Product({name: q[name] for name, _ in axes})
    prior = Product({name: prior[name] for name, _ in axes})

    def total(q: Product) -> Array:
        sums = (jnp.sum(q[name].log_normalizer()) for name, _ in axes)
        return functools.reduce(jnp.add, sums)

    def add(gains: Array, a: Array) -> Array:
        def total_of_merge(b: Array) -> Array:
            change = merge_map(jnp.eye(num_slots), a, b)
            return total(map_messages(axes, q, prior, change, prior))

        return gains + jax.vmap(total_of_merge)(jnp.arange(num_slots)) - total(q)

    return add


def _is_batch_of_slots(q: Product, axes_by_name: dict, name: str, num_slots: int) -> bool:
    is_batch = q[name].batch_shape[:1] == (num_slots,)
    return is_batch and all(axes == (0,) for axes in axes_by_name[name])


def merge_map(change: Array, a: Array | int, b: Array | int) -> Array:
    """The map that also adds slot b to slot a, and frees b."""
    return change.at[a].add(change[b]).at[b].set(0.0)


def pairs_to_merge(gains: np.ndarray, used: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of slots in use that may gain, the likeliest first, (kept, freed).

    >>> pairs_to_merge(np.array([[0.0, 2.0, -1.0], [2.0, 0.0, 3.0], [-1.0, 3.0, 0.0]]), np.arange(3))
    [(1, 2), (0, 1)]
    """
    pairs = []
    for i, a in enumerate(used):
        for b in used[i + 1 :]:
            if gains[a, b] > 0:
                pairs.append((-float(gains[a, b]), int(a), int(b)))
    return [(a, b) for _, a, b in sorted(pairs)]


def disjoint_pairs(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs that share no slot, chosen greedily from the first.

    >>> disjoint_pairs([(1, 2), (0, 1), (0, 3)])
    [(1, 2), (0, 3)]
    """
    slots: set[int] = set()
    disjoint = []
    for pair in pairs:
        if not slots & set(pair):
            disjoint.append(pair)
            slots |= set(pair)
    return disjoint
