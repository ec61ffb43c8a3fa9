"""Slots: the places of components in a posterior, and linear changes of them.

The message of the data to a global, lambda - eta, is a sum over observations, each weighted by its
share of a slot. So what merges two slots adds their messages (Hughes and Sudderth 2013, section 4),
what frees a slot puts a zero there, and what makes room pads with zeros: all are one map, m' = M m,
along every axis of slots. Sticks are a sum in disguise: slot k has alpha_k - 1 observations, and
beta_k - concentration those of all slots after it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax import tree
from vijax.families import Dirichlet, Family, Product

Axes = tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
"""For each global, by name, the axes of slots of each of its parameters."""
STICKS = "sticks"
"""The name of the global whose sticks are the weights of slots
(`vijax.families.discrete.stick_breaking`)."""


def axes_of(one: Product, other: Product) -> Axes:
    """The axes of slots: those that differ between priors, or their shapes, of two numbers of
    slots."""

    def differing(a: Any, b: Any) -> tuple[int, ...]:
        return tuple(i for i, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)) if x != y)

    pairs = ((name, tree.parameters(q), tree.parameters(other[name])) for name, q in one.items())
    return tuple((name, tuple(map(differing, a, b))) for name, a, b in pairs)


def mapped(
    axes: Axes, q: Product, prior: Product, change: Float[Array, "L K"], new: Product
) -> Product:
    """The posterior whose messages are those of q along a linear map of its slots.

    Args:
      axes: see `axes_of`.
      q: the posterior of K slots.
      prior: its prior.
      change: the map M, from K slots to L.
      new: the prior of L slots, of which globals that it does not name are left out.
    """
    moved = {}
    for name, where in axes:
        if name not in new:
            continue
        if name == STICKS:
            moved[name] = _with_counts(
                new[name], _change_counts(change, _counts_of_sticks(q[name], prior[name]))
            )
            continue
        message = tree.parameters(tree.subtract(q[name], prior[name]))
        leaves = [_along(change, x, along) for x, along in zip(message, where, strict=True)]
        moved[name] = tree.add(new[name], new[name].with_naturals(leaves))
    return Product(moved)


def joined(axes: Axes, a: Product, b: Product, prior: Product) -> Product:
    """The posterior whose messages are the sums of those of two. What b does not have stays as it
    is in a, and so do parameters that slots share, for a has the observations of all."""
    sums = {}
    for name, where in axes:
        if name not in b:
            sums[name] = a[name]
        elif name == STICKS:
            both = (_counts_of_sticks(q[name], prior[name]) for q in (a, b))
            sums[name] = _with_counts(prior[name], jnp.add(*both))
        else:
            message = tree.parameters(tree.subtract(b[name], prior[name]))
            added = [
                x if along else jnp.zeros_like(x) for x, along in zip(message, where, strict=True)
            ]
            sums[name] = tree.add(a[name], a[name].with_naturals(added))
    return Product(sums)


def counts_of(axes: Axes, q: Product, prior: Product) -> Float[Array, " K"]:
    """The number of observations in each slot: by sticks or weights; of a chain by the transitions
    into it and the starts in it, where its sticks, if it has any, say that it is in use; else by
    the words of a topic."""
    num_slots = slots_in(axes, q)
    by_sticks = _counts_of_sticks(q[STICKS], prior[STICKS])[:num_slots] if STICKS in q else None
    known = {name: where[0] for name, where in axes if isinstance(q[name], Dirichlet) and where[0]}
    is_chain = any(len(along) > 1 for along in known.values())
    if by_sticks is not None and not is_chain:
        return by_sticks
    messages = {name: tree.parameters(tree.subtract(q[name], prior[name]))[0] for name in known}
    last = {name: where[0] for name, where in axes if is_of_entries(q[name], where)}
    sums = []
    for name, along in (last or known).items():
        message = messages[name]
        sums.append(jnp.sum(message, [i for i in range(message.ndim) if i != along[-1]]))
    total = sum(sums, jnp.zeros(num_slots, sums[0].dtype))
    return (
        total
        if by_sticks is None
        else jnp.where(by_sticks < 0.5, jnp.minimum(by_sticks, total), total)
    )


def is_of_entries(q: Family, where: tuple[tuple[int, ...], ...]) -> bool:
    """True of the weights of slots, and of transitions between them: a Dirichlet whose
    probabilities are of slots."""
    return isinstance(q, Dirichlet) and where[0][-1:] == (tree.parameters(q)[0].ndim - 1,)


def scored(q: Product, prior: Product) -> Float[Array, ""]:
    """sum A(lambda) - A(eta): where q is optimal given the classes of observations, the bound is
    this and their entropy, plus a constant (Hughes and Sudderth 2013, section 4)."""
    return q.log_normalizer() - prior.log_normalizer()


def has_counts(axes: Axes, q: Product) -> bool:
    """True where `counts_of` knows how many observations a slot holds."""
    return STICKS in q or any(
        isinstance(q[name], Dirichlet) and bool(where[0]) for name, where in axes
    )


def slots_in(axes: Axes, q: Product) -> int:
    """K."""
    sizes = (
        x.shape[along[0]]
        for name, where in axes
        if name != STICKS
        for x, along in zip(tree.parameters(q[name]), where, strict=True)
        if along
    )
    return int(next(sizes))


def _along(change: Array, x: Array, along: tuple[int, ...]) -> Array:
    for axis in along:
        x = jnp.moveaxis(
            jnp.tensordot(change.astype(x.dtype), x, axes=(1, axis), precision="highest"), 0, axis
        )
    return x


def _counts_of_sticks(q: Any, prior: Any) -> Float[Array, " T1"]:
    """Observations of each stick, and last those of the rest of the stick."""
    return jnp.append(q.alpha - prior.alpha, q.beta[-1:] - prior.beta[-1:])


def _change_counts(change: Float[Array, "L K"], counts: Float[Array, " T1"]) -> Float[Array, " T2"]:
    """The counts after a map of slots; those of the rest, where it is no slot, stay."""
    num_slots = change.shape[1]
    return jnp.append(change.astype(counts.dtype) @ counts[:num_slots], counts[num_slots:])


def _with_counts(prior: Any, counts: Float[Array, " T1"]) -> Family:
    """The sticks that these counts give."""
    after = jnp.cumsum(counts[:0:-1])[::-1]
    return jax.tree.map(jnp.add, prior, type(prior)(counts[:-1], after))
