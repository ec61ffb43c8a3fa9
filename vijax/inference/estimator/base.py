"""Estimators of the message, grad_mu E_q[l] as a natural-parameter direction: their contract, and
the messages of all globals.

The bound is evaluated once a draw for all globals together, each placed by an estimator of its own;
no estimator knows any model's algebra."""

from __future__ import annotations

import abc
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.families import Family, Product
from vijax.families.numeric import draws as quasi

Placed = tuple[PyTree, Callable[[Any], PyTree]]
"""Statistics at which the bound is evaluated, and (gradient there) -> what this draw contributes to
the message."""


class Reads(NamedTuple):
    """The entries of a global that a batch reads (`vijax.Model.by_entry`), with weights, 1 or 0 in
    padding, and the scale N / S."""

    rows: Int[Array, " entries"]
    weights: Float[Array, " entries"]
    scale: Float[Array, ""]


class Entries(NamedTuple):
    """Entries of a global with weights, 1 or 0 in padding. `ByEntry.reads` may give them in the
    place of the entries alone, whose weights are those of the batch."""

    rows: Int[Array, " entries"]
    weights: Float[Array, " entries"]


def as_entries(entries: Entries | Array, batch: Minibatch) -> Entries:
    """The entries that a batch reads; entries without weights get those of the batch."""
    if isinstance(entries, Entries):
        return entries
    if batch.weights is None:
        return Entries(entries, jnp.ones(entries.shape))
    return Entries(entries, jnp.asarray(batch.weights))


class Estimator(abc.ABC):
    """One way of estimating the message of a global. It says where the global stands (its mean
    statistics, a draw), and turns the gradient of the bound there into a message."""

    # Draws of the globals that a step takes. Where the globals of a model ask for different
    # numbers, it takes the largest for all of them
    num_samples: int = 1
    # True where its draws are quasi-random: evenly spread over a step
    # (`vijax.families.numeric.draws`)
    quasi: bool = False
    # True where the gradient of the bound is read; otherwise the bound need have none
    differentiates: ClassVar[bool] = True
    draws: ClassVar[bool] = True  # True where the bound is evaluated at draws, and so is noisy
    for_points: ClassVar[bool] = (
        False  # True where it moves points; others give way to `at_point` there
    )

    def __post_init__(self) -> None:
        require(isinstance(self.quasi, bool), "quasi", "True or False", repr(self.quasi))

    @abc.abstractmethod
    def place(self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]) -> Placed:
        """Statistics at which the bound is evaluated, and what becomes of its gradient there.

        Args:
          key: random key of the draw.
          q: the global's posterior.
          prior: the prior, towards which the step pulls.
          rho: size of the step, at most 1.
        """

    def place_at(self, noise: Float[Array, " noise"], q: Family, prior: Family) -> Placed:
        """As `place`, at the draw that this noise makes; for estimators that take quasi-random
        draws."""
        raise NotImplementedError(f"{type(self).__name__} takes no quasi-random draws.")

    def read(self, q: Any, prior: Any, reads: Reads) -> Placed:
        """As `place`, for a global of which the batch reads only some entries. Raises ValueError:
        an estimator that cannot."""
        remedy = "The marginals of the entries that a batch reads are known: leave estimator out."
        require(False, "estimator", f"mean_field() for a {type(q).__name__}", repr(self), remedy)
        raise AssertionError

    def message(self, q: Family, said: PyTree, values: Float[Array, " draws"]) -> Family:
        """The message: the mean of the draws' contributions (stacked along a leading axis), given
        the bound at each."""
        return q.with_naturals([jnp.mean(x, 0) for x in tree.parameters(said)])


Bound = Callable[[PyTree, PyTree], tuple[Float[Array, ""], Any]]
"""(stats, theta) -> the scaled local bound, and the further values that the model reports."""
NOTHING: Mapping[str, Reads] = types.MappingProxyType({})


class Message(NamedTuple):
    """The messages of the globals, with the bound that they come from."""

    natural: Any  # the messages, natural-parameter directions in the structure of q: a `Product`
    value: Float[Array, ""]  # the scaled local bound where it was evaluated, averaged over draws
    aux: Any  # the bound's second result, likewise averaged
    theta_grad: PyTree  # the gradient of `value` in theta, likewise averaged


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
    """The messages of some globals (`names`), with all globals placed by their estimators, for a
    step of size `rho`, at most 1; `theta` holds points learnt beside the globals, and `reads` the
    entries that a batch reads, of globals that it does not read whole."""
    moving = [name for name in names if estimators[name].differentiates]

    def one(draw: Draw) -> tuple[dict[str, PyTree], Message]:
        placed = _place(estimators, draw, q, prior, rho, reads)
        stats = {name: s for name, (s, _) in placed.items()}
        at = lambda part, theta: bound({**stats, **part}, theta)
        part = {name: stats[name] for name in moving}
        (value, aux), slopes = jax.value_and_grad(at, argnums=(0, 1), has_aux=True)(part, theta)
        grad, slope = slopes
        return {name: placed[name][1](grad.get(name)) for name in names}, Message(
            None, value, aux, slope
        )

    (said, messages), count = _of_draws(estimators, key, one)
    if count == 1:
        message, values = messages, messages.value[None]
        said = jax.tree.map(lambda x: x[None], said)
    else:  # values that the model reports keep their own types
        message, values = (
            jax.tree.map(lambda x: jnp.mean(x, 0).astype(x.dtype), messages),
            messages.value,
        )
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

    def one(draw: Draw) -> Float[Array, ""]:
        placed = _place(estimators, draw, q, prior, rho, reads)
        return bound({name: s for name, (s, _) in placed.items()}, theta)[0]

    values, count = _of_draws(estimators, key, one)
    return values if count == 1 else jnp.mean(values)


class Draw(NamedTuple):
    """One of the draws of a step: its random key, the key common to all (quasi-random ones belong
    together), its index from zero, and the number of draws."""

    key: PRNGKeyArray
    common: PRNGKeyArray
    number: Int[Array, ""]
    total: int


def _of_draws(
    estimators: Mapping[str, Estimator], key: PRNGKeyArray, one: Callable[[Draw], Any]
) -> tuple[Any, int]:
    """`one` of each draw, stacked where there are several; and their number, the largest that an
    estimator asks for."""
    count = max((rule.num_samples for rule in estimators.values()), default=1)
    common = jax.random.fold_in(key, count)
    if count == 1:
        return one(Draw(key, common, jnp.int32(0), 1)), 1
    each = jax.vmap(lambda key, number: one(Draw(key, common, number, count)))
    return each(jax.random.split(key, count), jnp.arange(count)), count


def _place(
    estimators: Mapping[str, Estimator],
    draw: Draw,
    q: Product,
    prior: Product,
    rho: Array,
    reads: Mapping[str, Reads],
) -> dict[str, Placed]:
    """The place of each global in one draw, independent of the others."""
    keys = dict(zip(q, jax.random.split(draw.key, len(q)), strict=True))
    shifts = dict(zip(q, jax.random.split(draw.common, len(q)), strict=True))

    def one(name: str) -> Placed:
        if name in reads:
            return estimators[name].read(q[name], prior[name], reads[name])
        if estimators[name].quasi:
            size, dtype = q[name].noise_size, jnp.result_type(jax.tree.leaves(q[name])[0])
            noise = quasi.quasi_normal(shifts[name], draw.number, draw.total, size, dtype)
            return estimators[name].place_at(noise, q[name], prior[name])
        return estimators[name].place(keys[name], q[name], prior[name], rho)

    return {name: one(name) for name in q}
