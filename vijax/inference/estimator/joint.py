"""The messages of all globals from one evaluation of the bound a draw, each global by an estimator of its own."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax.families import Product
from vijax.families.numeric import draws as quasi
from vijax.inference.estimator.base import Estimator, Reads

Bound = Callable[[PyTree, PyTree], tuple[Float[Array, ""], Any]]
"""(stats, theta) -> the scaled local bound, and the further values that the model reports."""
NOTHING: Mapping[str, Reads] = types.MappingProxyType({})


class Message(NamedTuple):
    """The messages of the globals, with the bound that they come from.

    Attributes:
      natural: the messages, natural-parameter directions in the structure of q: a `Product`.
      value: the scaled local bound where it was evaluated, averaged over draws.
      aux: the bound's second result, likewise averaged.
      theta_grad: the gradient of `value` in theta, likewise averaged.
    """

    natural: Any
    value: Float[Array, ""]
    aux: Any
    theta_grad: PyTree


def estimate(
    estimators: Mapping[str, Estimator],
    names: Sequence[str],
    key: PRNGKeyArray,
    q: Product,
    prior: Product,
    rho: Float[Array, ""],
    bound: Bound,
    theta: PyTree,
    reads: Mapping[str, Reads] = NOTHING,
) -> Message:
    """The messages of some globals, with all globals placed by their estimators.

    Args:
      estimators: the estimator of every global, by name.
      names: the globals whose messages are wanted.
      key: random key of the draws.
      q: posterior.
      prior: the prior, towards which the step pulls.
      rho: size of the step that the messages are for, at most 1.
      bound: (stats, theta) -> (value, aux).
      theta: points learnt beside the globals.
      reads: of globals of which the batch reads some entries.
    """
    moving = [name for name in names if estimators[name].differentiates]

    count = num_draws(estimators)

    def one(key: PRNGKeyArray, index: Array) -> tuple[dict[str, PyTree], Message]:
        placed = place(estimators, key, q, prior, rho, reads, point=Point(together, index, count))
        stats = {name: s for name, (s, _) in placed.items()}
        at = lambda part, theta: bound({**stats, **part}, theta)
        part = {name: stats[name] for name in moving}
        (value, aux), slopes = jax.value_and_grad(at, argnums=(0, 1), has_aux=True)(part, theta)
        grad, slope = slopes
        return {name: placed[name][1](grad.get(name)) for name in names}, Message(None, value, aux, slope)

    together = jax.random.fold_in(key, count)
    if count == 1:
        said, message = one(key, jnp.int32(0))
        said, values = jax.tree.map(lambda x: x[None], said), message.value[None]
    else:
        said, messages = jax.vmap(one)(jax.random.split(key, count), jnp.arange(count))
        message, values = _averaged(messages), messages.value
    natural = {name: estimators[name].message(q[name], said[name], values) for name in names}
    return message._replace(natural=q.only(names).replace(natural))


def value(
    estimators: Mapping[str, Estimator],
    key: PRNGKeyArray,
    q: Product,
    prior: Product,
    rho: Array,
    bound: Bound,
    theta: Any,
    reads: Mapping[str, Reads] = NOTHING,
) -> Float[Array, ""]:
    """The bound alone, at the same draws at which `estimate` with the same key evaluates it."""

    count = num_draws(estimators)

    def one(key: PRNGKeyArray, index: Array) -> Float[Array, ""]:
        placed = place(estimators, key, q, prior, rho, reads, point=Point(together, index, count))
        return bound({name: s for name, (s, _) in placed.items()}, theta)[0]

    together = jax.random.fold_in(key, count)
    if count == 1:
        return one(key, jnp.int32(0))
    return jnp.mean(jax.vmap(one)(jax.random.split(key, count), jnp.arange(count)))


def place(
    estimators: Mapping[str, Estimator],
    key: PRNGKeyArray,
    q: Product,
    prior: Product,
    rho: Array,
    reads: Mapping[str, Reads] = NOTHING,
    *,
    point: Point,
) -> dict[str, tuple[PyTree, Callable[[Any], PyTree]]]:
    """The place of each global in one draw, independent of the others."""
    keys = dict(zip(q, jax.random.split(key, len(q)), strict=True))
    shifts = dict(zip(q, jax.random.split(point.key, len(q)), strict=True))

    def one(name: str) -> tuple[PyTree, Callable[[Any], PyTree]]:
        if name in reads:
            return estimators[name].read(q[name], prior[name], reads[name])
        if estimators[name].quasi:
            size, dtype = q[name].noise_size, jnp.result_type(jax.tree.leaves(q[name])[0])
            noise = quasi.normal_at(shifts[name], point.number, point.total, size, dtype)
            return estimators[name].place_at(noise, q[name], prior[name])
        return estimators[name].place(keys[name], q[name], prior[name], rho)

    return {name: one(name) for name in q}


class Point(NamedTuple):
    """The index of a draw among the draws of a step: quasi-random ones belong together.

    Attributes:
      key: random key common to all draws.
      number: index of this draw, from zero.
      total: number of draws.
    """

    key: PRNGKeyArray
    number: Int[Array, ""]
    total: int


def num_draws(estimators: Mapping[str, Estimator]) -> int:
    """The largest number of draws that any estimator asks for."""
    return max((rule.num_samples for rule in estimators.values()), default=1)


def _averaged(draws: Message) -> Message:
    """Means over the leading axis of draws; values that the model reports keep their own types."""
    return jax.tree.map(lambda x: jnp.mean(x, 0).astype(x.dtype), draws)
