"""Programs over data: laps of an algorithm from a posterior, the shares of slots, and the division
of a slot's observations."""

from __future__ import annotations

import functools
import weakref
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax import tree
from vijax.contract.batch import Minibatch, weighted_sum
from vijax.contract.init import Context
from vijax.families import Categorical, MarkovChain, Product
from vijax.growing import restarts
from vijax.growing.slots import Axes, add_messages, count_observations, map_messages, score
from vijax.inference.compose import Algorithm
from vijax.inference.step import initial_state
from vijax.models.energies.energy import model_energy
from vijax.xla.compiler import cached_program, count_numbers, once_jit, step_jit

LEAST = 2
"""Laps that a candidate is given in any case; moves may ask for more."""
HOPE = 10
"""A candidate gets more laps while this many laps like its last would bring it level."""
SETTLED = 1e-7
"""A gain of a lap, relative to the bound, below which it has settled; in float32 four units in the
last place."""


def _work(*args: Any) -> int:
    """The work of all laps of a program, for `once_jit`: some thousand until growth ends."""
    return 1000 * count_numbers(args)


class Ascent(NamedTuple):
    """The end of some laps.

    Attributes:
      posterior: q after them.
      elbo: the bound before the last step: never above the bound of q.
      laps: number of laps.
      local: the words that documents have of each topic; None for models without topics.
    """

    posterior: Product
    elbo: Float[Array, ""]
    laps: Int[Array, ""]
    local: Any


def climb(
    alg: Algorithm,
    q: Product,
    batches: Minibatch,
    key: PRNGKeyArray,
    target: float,
    most: int,
    least: int = LEAST,
) -> Ascent:
    """Laps of an algorithm over all data, from a posterior, until the bound has settled.

    Args:
      alg: the algorithm, whose bound after a lap is exact.
      q: the posterior at the start; the algorithm's memory starts empty.
      batches: the batches of a lap, along a leading axis; for documents with the words of each
          topic as `local`.
      key: random key.
      target: laps also end if there is no hope to reach this bound.
      most: laps at most.
      least: laps in any case.
    """
    make = lambda step: once_jit(functools.partial(_climb, step), _work)
    return cached_program(alg.step, "climb", make)(q, batches, key, target, most, least)


def _climb(
    step_ref: weakref.ref,
    q: Product,
    batches: Minibatch,
    key: PRNGKeyArray,
    target: Any,
    most: Any,
    least: Any,
) -> Ascent:
    step: Any = step_ref()
    spec = step.spec
    start = initial_state(spec, tree.as_arrays(spec.model.hyper), q)

    def lap(carry: tuple) -> tuple:
        state, local, elbo, _, i = carry

        def step_on(state: Any, batch: Minibatch) -> tuple[Any, tuple[Any, Any]]:
            key_step = jax.random.fold_in(key, state.step)
            if local is not None:
                return restarts.step_from(step, key_step, i, state, batch)
            after, info = step(key_step, state, batch)
            return after, (info, None)

        after, (info, words) = jax.lax.scan(step_on, state, batches._replace(local=local))
        return after, words, info.elbo[-1], elbo, i + 1

    def has_hope(carry: tuple) -> Array:
        _, _, elbo, before, i = carry
        gain = elbo - before
        is_rising = (gain > least_gain(elbo)) & (elbo + HOPE * gain > target)
        return (i < most) & ((i < least) | is_rising)

    low = jnp.full((), -jnp.inf, start.step_size.dtype)
    first = start, batches.local, low, low, jnp.int32(0)
    state, local, elbo, _, laps = jax.lax.while_loop(has_hope, lap, first)
    return Ascent(state.posterior, elbo, laps, local)


def least_gain(elbo: Any) -> Any:
    """The gain of a lap up to which the bound has settled."""
    return max(SETTLED, 4 * float(jnp.finfo(jnp.result_type(elbo)).eps)) * jnp.abs(elbo)


class Rows(NamedTuple):
    """Observations by their likeliest slot, each of shape (B, S); for sequences (B, S, T), except
    the bounds.

    Attributes:
      slot: the likeliest slot; -1 for padding.
      share: its probability.
      bound: the bound of the observation, low if it is explained badly.
    """

    slot: Int[Array, "B S"]
    share: Float[Array, "B S"]
    bound: Float[Array, "B S"]


def rows(alg: Algorithm, q: Product, batches: Minibatch) -> Rows:
    """The likeliest slot of each observation."""
    make = lambda step: once_jit(functools.partial(_rows, step))
    return cached_program(alg.step, "rows", make)(q, batches)


def _rows(step_ref: weakref.ref, q: Product, batches: Minibatch) -> Rows:
    step: Any = step_ref()
    spec = step.spec
    hyper = tree.as_arrays(spec.model.hyper)
    stats = spec.point(q)

    def read_batch(batch: Minibatch) -> Rows:
        bounds = spec.model.local_elbo(hyper, stats, batch, jax.random.key(0), spec.estep)
        probs = next(iter(bounds.local.values())).probs
        is_row = jnp.sum(probs, -1) > 0.5  # false for padded steps
        if batch.weights is not None:
            is_row &= jnp.expand_dims(batch.weights > 0, range(1, is_row.ndim))
        slot = jnp.where(is_row, jnp.argmax(probs, -1), -1)
        return Rows(slot, jnp.max(probs, -1), bounds.per_group)

    return jax.lax.map(read_batch, batches)


def count_steps(alg: Algorithm, q: Product, batches: Minibatch) -> Float[Array, " K"]:
    """The expected number of steps in each state of a chain."""
    make = lambda step: step_jit(functools.partial(_count_steps, step))
    return cached_program(alg.step, "count_steps", make)(q, batches)


def _count_steps(step_ref: weakref.ref, q: Product, batches: Minibatch) -> Array:
    step: Any = step_ref()
    spec = step.spec
    hyper = tree.as_arrays(spec.model.hyper)
    stats = spec.point(q)

    def count_batch(batch: Minibatch) -> Array:
        bounds = spec.model.local_elbo(hyper, stats, batch, jax.random.key(0), spec.estep)
        probs = next(iter(bounds.local.values())).probs
        return jnp.tensordot(jnp.asarray(batch.weights, probs.dtype), jnp.sum(probs, 1), 1)

    return jnp.sum(jax.lax.map(count_batch, batches), 0)


def class_law(alg: Algorithm, q: Product, batches: Minibatch) -> Categorical | MarkovChain | None:
    """The law of the one class of an observation, or of the states of a sequence, as shapes; None
    if the model has other locals."""
    spec = alg.spec
    batch = jax.tree.map(lambda x: x[0], batches)
    hyper = tree.as_arrays(spec.model.hyper)

    def find_locals() -> Any:
        key = jax.random.key(0)
        return spec.model.local_elbo(hyper, spec.point(q), batch, key, spec.estep).local

    local = jax.eval_shape(find_locals)
    if not isinstance(local, dict) or len(local) != 1:
        return None
    (law,) = local.values()
    return law if isinstance(law, Categorical | MarkovChain) else None


class Division(NamedTuple):
    """Weighted observations divided into the components of a small model.

    Attributes:
      posterior: of the small model.
      sizes: observations of each component.
      entropy: of the classes.
    """

    posterior: Product
    sizes: Float[Array, " J"]
    entropy: Float[Array, ""]


def divide(
    alg: Algorithm,
    axes: Axes,
    key: PRNGKeyArray,
    batches: Minibatch,
    weights: Float[Array, "B S"],
    seed: int,
    most: int,
) -> Division:
    """A small model of weighted observations.

    Args:
      alg: coordinate ascent of the small model.
      axes: see `slots.slot_axes`.
      key: random key of the start.
      batches: all data, as for `climb`.
      weights: the weight of each observation.
      seed: the number of one observation, which starts alone in a component, with all others in
        another one; below zero the model starts by itself.
      most: laps at most.
    """
    make = lambda step: once_jit(
        functools.partial(_divide, step, alg.init), _work, static_argnums=0
    )
    return cached_program(alg.step, "divide", make)(axes, key, batches, weights, seed, most)


def _divide(
    step_ref: weakref.ref,
    init: Any,
    axes: Axes,
    key: Any,
    batches: Minibatch,
    weights: Array,
    seed: Any,
    most: Any,
) -> Division:
    step: Any = step_ref()
    model = step.spec.model
    hyper = tree.as_arrays(model.hyper)
    flat = lambda x: x.reshape(-1, *x.shape[2:])
    batch = Minibatch(jax.tree.map(flat, batches.data), None, flat(weights))
    prior = model.prior(hyper)

    def start_from_seed() -> Product:
        context = Context(model_energy(model), hyper, prior, batch)
        ((name, q),) = context.templates().items()
        labels = jnp.zeros(weights.size, jnp.int32).at[seed].set(1)
        return context.conditional({name: q.stats(labels)})

    def start_by_itself() -> Product:
        return init(key, batch).posterior

    is_row = len(jax.tree.leaves(batch.data)) == 1  # a sequence comes with its mask
    start_rows = lambda: jax.lax.cond(seed >= 0, start_from_seed, start_by_itself)
    start = start_rows() if is_row else start_by_itself()
    single = jax.tree.map(lambda x: x[None], batch)
    q = _climb(step_ref, start, single, key, -jnp.inf, most, LEAST).posterior
    classes = model.local_elbo(hyper, step.spec.point(q), batch, key, step.spec.estep).local
    entropy = weighted_sum(flat(weights), next(iter(classes.values())).entropy())
    return Division(q, count_observations(axes, q, prior), entropy)


# --- programs of posteriors alone -----------------------------------------------------------------
@functools.partial(once_jit, static_argnums=0)
def map_slots(axes: Axes, q: Product, prior: Product, change: Array, new: Product) -> Product:
    """`slots.map_messages`, compiled."""
    return map_messages(axes, q, prior, change, new)


@functools.partial(once_jit, static_argnums=0)
def fill_slots(
    axes: Axes,
    q: Product,
    prior: Product,
    change: Array,
    small: Product,
    small_prior: Product,
    places: Array,
) -> tuple[Product, Float[Array, ""]]:
    """`map_slots`, with the components of a small posterior added by `places`, the map from its
    slots; and the gain of `slots.score` over adding all of them in one place."""
    small_axes = tuple(entry for entry in axes if entry[0] in small)
    shared_prior = Product({name: prior[name] for name in small})
    base = map_messages(axes, q, prior, change, prior)

    def add_small(places: Array) -> Product:
        pieces = map_messages(small_axes, small, small_prior, places, shared_prior)
        return add_messages(axes, base, pieces, prior)

    together = jnp.zeros_like(places).at[jnp.argmax(places[:, 0])].set(1.0)
    gain = score(add_small(places), prior) - score(add_small(together), prior)
    return add_small(places), gain


@functools.partial(once_jit, static_argnums=0)
def count(axes: Axes, q: Product, prior: Product) -> Float[Array, " K"]:
    """`slots.count_observations`, compiled."""
    return count_observations(axes, q, prior)
