"""Small computations one after the other.

XLA's CPU runtime keeps a queue of the calls that may run. If it holds more than eight, a second
thread is woken to take half of them. That is useful for long calls; but the calls of a small step
take a tenth of a microsecond each, and it doubles the processor time for nothing. Calls that wait
on one condition enter the queue together: here four at a time. (Two at a time are longer chains, at
whose side other calls queue up: a step of a small mixture took 1.7 times as much.)"""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from vijax import tree
from vijax.xla.device import count_parts

Tree = TypeVar("Tree")
SMALL = 1 << 17
"""Numbers in a tree above which a second thread is worth waking."""


def select(condition: Bool[Array, ""], a: Tree, b: Tree) -> Tree:
    """`vijax.tree.select`; small trees on a CPU are selected four leaves at a time.

    >>> print(select(jnp.array(True), [1, 2, 3], [4, 5, 6]))
    [Array(1, dtype=int32...), Array(2, dtype=int32...), Array(3, dtype=int32...)]
    """
    xs, structure = jax.tree.flatten(a)
    if not _is_worthwhile() or sum(map(jnp.size, xs)) >= SMALL:
        return tree.select(condition, a, b)
    leaves: list[Array] = []
    for x, y in zip(xs, jax.tree.leaves(b), strict=True):
        if leaves and len(leaves) % 4 == 0:
            condition = delay(condition, leaves[-1])
        leaves.append(jnp.where(condition, x, y))
    return jax.tree.unflatten(structure, leaves)


def delay(condition: Bool[Array, ""], done: PyTree) -> Bool[Array, ""]:
    """The condition, which can be read only once the last leaf of `done` is computed.

    >>> print(delay(jnp.array(True), jnp.nan))
    True
    """
    if not _is_worthwhile() or not jax.tree.leaves(done):
        return condition
    x = jnp.ravel(jax.tree.leaves(done)[-1])[:1]
    # XLA does not see that this is false, and so computes x first
    never = jnp.any((x < 0) & (x > 0))
    return condition & ~never


def await_numbers(condition: Bool[Array, ""], *numbers: Array) -> Bool[Array, ""]:
    """The condition, which can be read only once these numbers are computed. XLA copies an array
    that it is to change in place, unless the change waits for all that read the array.

    >>> print(await_numbers(jnp.array(True), jnp.array(jnp.nan), jnp.array(2)))
    True
    """
    for x in numbers:
        condition = condition & ~((x < 0) & (x > 0))  # XLA does not see that this is always true
    return condition


def _is_worthwhile() -> bool:
    """True on a CPU. Of arrays that XLA splits over devices the first number would be gathered with
    all others."""
    return jax.default_backend() == "cpu" and count_parts() == 1
