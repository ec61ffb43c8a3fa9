"""The contract of estimators of the message, grad_mu E_q[l] as a natural-parameter direction; and
the messages of all globals.

Each global is placed by its own estimator, and the bound is evaluated once a draw for all globals
together. No estimator depends on the algebra of a model."""

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

Placement = tuple[PyTree, Callable[[Any], PyTree]]
"""The statistics at which the bound is evaluated; and a function: gradient of the bound there ->
contribution of this draw to the message."""


class Reads(NamedTuple):
    """The entries of a global that a batch reads (`vijax.Model.by_entry`), their weights (1, or 0
    in padding), and the scale N / S."""

    rows: Int[Array, " entries"]
    weights: Float[Array, " entries"]
    scale: Float[Array, ""]


class Entries(NamedTuple):
    """Entries of a global with weights, 1 or 0 in padding. `ByEntry.reads` may return them instead
    of entries alone, which get the weights of the batch."""

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
    """A way to estimate the message of a global: it chooses statistics of the global (the mean
    statistics, a draw), and turns the gradient of the bound there into a message."""

    # Number of draws of the globals in a step. If the globals ask for different numbers, the step
    # takes the largest for all
    num_samples: int = 1
    # True if its draws are quasi-random: evenly spread over a step
    # (`vijax.families.numeric.draws`)
    quasi: bool = False
    # True if it reads the gradient of the bound; otherwise the bound need have none
    differentiates: ClassVar[bool] = True
    # True if the bound is evaluated at draws, and so is noisy
    draws: ClassVar[bool] = True
    # True if it may be used where a point is sought (a posterior draw counts as a point); any other
    # estimator is replaced by `at_point` there
    for_points: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(isinstance(self.quasi, bool), "quasi", "True or False", repr(self.quasi))

    @abc.abstractmethod
    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> Placement:
        """The statistics at which the bound is evaluated, and the use of its gradient there.

        Args:
          key: random key of the draw.
          q: the global's posterior.
          prior: the prior that the step pulls towards.
          rho: size of the step, at most 1.
        """

    def place_noise(self, noise: Float[Array, " noise"], q: Family, prior: Family) -> Placement:
        """As `place`, at the draw that is made from this noise; for estimators with quasi-random
        draws."""
        raise NotImplementedError(f"{type(self).__name__} takes no quasi-random draws.")

    def read(self, q: Any, prior: Any, reads: Reads) -> Placement:
        """As `place`, for a global of which the batch reads only some entries. Raises ValueError if
        the estimator cannot."""
        remedy = "The marginals of the entries that a batch reads are known: leave estimator out."
        require(False, "estimator", f"mean_field() for a {type(q).__name__}", repr(self), remedy)
        raise AssertionError

    def message(self, q: Family, contributions: PyTree, values: Float[Array, " draws"]) -> Family:
        """The message: here the mean of the contributions of the draws, stacked along a leading
        axis; `values` is the bound at each draw."""
        return q.with_naturals([jnp.mean(x, 0) for x in tree.parameters(contributions)])


Bound = Callable[[PyTree, PyTree], tuple[Float[Array, ""], Any]]
"""(stats, theta) -> the scaled local bound, and further values that the model reports."""
NOTHING: Mapping[str, Reads] = types.MappingProxyType({})


class Message(NamedTuple):
    """The messages of the globals, and the bound they come from; all averaged over draws."""

    natural: Any  # the messages: a `Product` of natural-parameter directions
    value: Float[Array, ""]  # the scaled local bound
    aux: Any  # the second result of the bound
    theta_grad: PyTree  # the gradient of `value` in theta


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
      estimators: the estimator of each global, by name.
      names: the globals whose messages are wanted.
      key: random key of the draws.
      q: the globals.
      prior: the prior that the step pulls towards.
      rho: size of the step, at most 1.
      bound: see `Bound`.
      theta: points learnt beside the globals.
      reads: the entries that a batch reads, of globals that it does not read whole.
    """
    differentiable = [name for name in names if estimators[name].differentiates]

    def contribute(draw: Draw) -> tuple[dict[str, PyTree], Message]:
        placements = _place(estimators, draw, q, prior, rho, reads)
        stats = {name: s for name, (s, _) in placements.items()}
        value_of_part = lambda part, theta: bound({**stats, **part}, theta)
        part = {name: stats[name] for name in differentiable}
        differentiate = jax.value_and_grad(value_of_part, argnums=(0, 1), has_aux=True)
        (value, aux), (grad, theta_grad) = differentiate(part, theta)
        contributions = {name: placements[name][1](grad.get(name)) for name in names}
        return contributions, Message(None, value, aux, theta_grad)

    (contributions, messages), count = _map_draws(estimators, key, contribute)
    values = messages.value
    if count == 1:
        message = messages
        values = values[None]
        contributions = jax.tree.map(lambda x: x[None], contributions)
    else:  # values that the model reports keep their types
        message = jax.tree.map(lambda x: jnp.mean(x, 0).astype(x.dtype), messages)
    natural = {
        name: estimators[name].message(q[name], contributions[name], values) for name in names
    }
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
    """The bound alone, at the draws that `estimate` takes under the same key."""

    def evaluate(draw: Draw) -> Float[Array, ""]:
        placements = _place(estimators, draw, q, prior, rho, reads)
        return bound({name: s for name, (s, _) in placements.items()}, theta)[0]

    values, count = _map_draws(estimators, key, evaluate)
    return values if count == 1 else jnp.mean(values)


class Draw(NamedTuple):
    """One of the draws of a step: its random key, the key common to all draws (for quasi-random
    ones), its index from zero, and the number of draws."""

    key: PRNGKeyArray
    common: PRNGKeyArray
    number: Int[Array, ""]
    total: int


def _map_draws(
    estimators: Mapping[str, Estimator], key: PRNGKeyArray, function: Callable[[Draw], Any]
) -> tuple[Any, int]:
    """The function at each draw, stacked if there are several; and the number of draws, the largest
    that an estimator asks for."""
    count = max((rule.num_samples for rule in estimators.values()), default=1)
    common = jax.random.fold_in(key, count)
    if count == 1:
        return function(Draw(key, common, jnp.int32(0), 1)), 1
    map_draws = jax.vmap(lambda key, number: function(Draw(key, common, number, count)))
    return map_draws(jax.random.split(key, count), jnp.arange(count)), count


def _place(
    estimators: Mapping[str, Estimator],
    draw: Draw,
    q: Product,
    prior: Product,
    rho: Array,
    reads: Mapping[str, Reads],
) -> dict[str, Placement]:
    """The placement of each global in one draw, independent of the others."""
    keys = dict(zip(q, jax.random.split(draw.key, len(q)), strict=True))
    shifts = dict(zip(q, jax.random.split(draw.common, len(q)), strict=True))

    def place(name: str) -> Placement:
        if name in reads:
            return estimators[name].read(q[name], prior[name], reads[name])
        if estimators[name].quasi:
            size, dtype = q[name].noise_size, jnp.result_type(jax.tree.leaves(q[name])[0])
            noise = quasi.quasi_normal(shifts[name], draw.number, draw.total, size, dtype)
            return estimators[name].place_noise(noise, q[name], prior[name])
        return estimators[name].place(keys[name], q[name], prior[name], rho)

    return {name: place(name) for name in q}
