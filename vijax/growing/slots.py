"""Slots: the places of components in a posterior, and linear changes of them.

The message of the data to a global, lambda - eta, is a sum over observations, each weighted by its
share of a slot. So a merge adds the messages of two slots (Hughes and Sudderth 2013, section 4), a
freed slot has message zero, and more room means more zeros: all three are one map, m' = M m, along
every axis of slots. Sticks are a sum in disguise: slot k has alpha_k - 1 observations, and
beta_k - concentration is the number in all slots after it."""

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


def slot_axes(prior: Product, resized: Product) -> Axes:
    """The axes of slots: those whose lengths differ between two priors (or their shapes) with
    different numbers of slots."""

    def differing_axes(a: Any, b: Any) -> tuple[int, ...]:
        return tuple(i for i, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)) if x != y)

    axes = []
    for name, q in prior.items():
        parameters = tree.parameters(q), tree.parameters(resized[name])
        axes.append((name, tuple(map(differing_axes, *parameters))))
    return tuple(axes)


def map_messages(
    axes: Axes, q: Product, prior: Product, change: Float[Array, "L K"], new: Product
) -> Product:
    """The posterior whose messages are the messages of q after a linear map of its slots.

    Args:
      axes: see `slot_axes`.
      q: the posterior of K slots.
      prior: its prior.
      change: the map M, from K slots to L.
      new: the prior of L slots; globals that it does not name are left out.
    """
    posteriors = {}
    for name, parameter_axes in axes:
        if name not in new:
            continue
        if name == STICKS:
            counts = _map_counts(change, _stick_counts(q[name], prior[name]))
            posteriors[name] = _add_counts(new[name], counts)
            continue
        message = tree.parameters(tree.subtract(q[name], prior[name]))
        leaves = [
            _map_along(change, x, along) for x, along in zip(message, parameter_axes, strict=True)
        ]
        posteriors[name] = tree.add(new[name], new[name].with_naturals(leaves))
    return Product(posteriors)


def add_messages(axes: Axes, a: Product, b: Product, prior: Product) -> Product:
    """The posterior whose messages are the sums of the messages of a and b. Globals that b lacks
    are taken from a, and so are parameters that slots share, for a has the observations of all."""
    sums = {}
    for name, parameter_axes in axes:
        if name not in b:
            sums[name] = a[name]
        elif name == STICKS:
            counts = _stick_counts(a[name], prior[name]) + _stick_counts(b[name], prior[name])
            sums[name] = _add_counts(prior[name], counts)
        else:
            message = tree.parameters(tree.subtract(b[name], prior[name]))
            leaves = [
                x if along else jnp.zeros_like(x)
                for x, along in zip(message, parameter_axes, strict=True)
            ]
            sums[name] = tree.add(a[name], a[name].with_naturals(leaves))
    return Product(sums)


def count_observations(axes: Axes, q: Product, prior: Product) -> Float[Array, " K"]:
    """The number of observations in each slot.

    Sticks or weights count them. A state of a chain has the transitions into it and the starts in
    it, unless the chain has sticks and they say that it is not in use. A topic has its words."""
    num_slots = count_slots(axes, q)
    stick_counts = None
    if STICKS in q:
        stick_counts = _stick_counts(q[STICKS], prior[STICKS])[:num_slots]
    weights = {
        name: along[0] for name, along in axes if isinstance(q[name], Dirichlet) and along[0]
    }
    is_chain = any(len(along) > 1 for along in weights.values())
    if stick_counts is not None and not is_chain:
        return stick_counts
    messages = {name: tree.parameters(tree.subtract(q[name], prior[name]))[0] for name in weights}
    entries = {name: along[0] for name, along in axes if has_entries(q[name], along)}
    sums = []
    for name, along in (entries or weights).items():
        message = messages[name]
        sums.append(jnp.sum(message, [i for i in range(message.ndim) if i != along[-1]]))
    total = sum(sums, jnp.zeros(num_slots, sums[0].dtype))
    if stick_counts is None:
        return total
    return jnp.where(stick_counts < 0.5, jnp.minimum(stick_counts, total), total)


def has_entries(q: Family, parameter_axes: tuple[tuple[int, ...], ...]) -> bool:
    """True for weights of slots and for transitions between them: a Dirichlet whose probabilities
    are those of slots."""
    return isinstance(q, Dirichlet) and parameter_axes[0][-1:] == (tree.parameters(q)[0].ndim - 1,)


def score(q: Product, prior: Product) -> Float[Array, ""]:
    """sum A(lambda) - A(eta). If q is optimal given the classes of observations, the bound is this
    plus the entropy of the classes, plus a constant (Hughes and Sudderth 2013, section 4)."""
    return q.log_normalizer() - prior.log_normalizer()


def has_counts(axes: Axes, q: Product) -> bool:
    """True if `count_observations` can count the observations of slots."""
    return STICKS in q or any(
        isinstance(q[name], Dirichlet) and bool(along[0]) for name, along in axes
    )


def count_slots(axes: Axes, q: Product) -> int:
    """K."""
    sizes = (
        x.shape[along[0]]
        for name, parameter_axes in axes
        if name != STICKS
        for x, along in zip(tree.parameters(q[name]), parameter_axes, strict=True)
        if along
    )
    return int(next(sizes))


def _map_along(change: Array, x: Array, axes: tuple[int, ...]) -> Array:
    for axis in axes:
        product = jnp.tensordot(change.astype(x.dtype), x, axes=(1, axis), precision="highest")
        x = jnp.moveaxis(product, 0, axis)
    return x


def _stick_counts(q: Any, prior: Any) -> Float[Array, " T1"]:
    """Observations of each stick, and last those of the remainder of the stick."""
    return jnp.append(q.alpha - prior.alpha, q.beta[-1:] - prior.beta[-1:])


def _map_counts(change: Float[Array, "L K"], counts: Float[Array, " T1"]) -> Float[Array, " T2"]:
    """The counts after a map of slots. The count of the remainder is unchanged unless the remainder
    has a slot."""
    num_slots = change.shape[1]
    return jnp.append(change.astype(counts.dtype) @ counts[:num_slots], counts[num_slots:])


def _add_counts(prior: Any, counts: Float[Array, " T1"]) -> Family:
    """The posterior of sticks after these counts."""
    beyond = jnp.cumsum(counts[:0:-1])[::-1]
    return jax.tree.map(jnp.add, prior, type(prior)(counts[:-1], beyond))
