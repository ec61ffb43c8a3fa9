"""Programs over data: laps of an algorithm from a posterior, the shares of slots, and the division
of some."""

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
from vijax.growing.slots import Axes, counts_of, joined, mapped, scored
from vijax.inference.compose import Algorithm, initial_state
from vijax.models.energies.energy import model_energy
from vijax.xla.compiler import cached_program, count_numbers, once_jit, step_jit

LEAST = 2
"""Laps that a candidate is given in any case; moves may ask for more."""
HOPE = 10
"""A candidate goes on while so many laps like its last would bring it level."""
SETTLED = 1e-7
"""A gain of a lap, relative to the bound, below which it has settled; in float32 four units in the
last place."""


def _work_of_laps(*args: Any) -> int:
    """The work of all laps of a program, for `once_jit`: there are some thousand until growth
    ends."""
    return 1000 * count_numbers(args)


class Climbed(NamedTuple):
    """The end of some laps.

    Attributes:
      posterior: q after them.
      elbo: the bound before the last step: never above that of q.
      laps: how many there were.
      local: the words that documents have of each topic, of models of topics; else None.
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
) -> Climbed:
    """Laps of an algorithm over all data, from a posterior, until the bound has settled.

    Args:
      alg: the algorithm, whose bound after a lap is exact.
      q: where it starts; what the algorithm remembers is begun anew.
      batches: the batches of a lap, along a leading axis; of documents with the words of each topic
          as `local`.
      key: random key.
      target: it also ends where there is no hope to come up to this.
      most: laps at most.
      least: laps in any case.
    """
    program = cached_program(
        alg.step, "climb", lambda step: once_jit(functools.partial(_climb, step), _work_of_laps)
    )
    return program(q, batches, key, target, most, least)


def _climb(
    step_of: weakref.ref,
    q: Product,
    batches: Minibatch,
    key: PRNGKeyArray,
    target: Any,
    most: Any,
    least: Any,
) -> Climbed:
    step: Any = step_of()
    spec = step.spec
    start = initial_state(spec, tree.as_arrays(spec.model.hyper), q)

    def lap(carry: tuple) -> tuple:
        state, local, elbo, _, i = carry

        def one(state: Any, batch: Minibatch) -> tuple[Any, tuple[Any, Any]]:
            of_step = jax.random.fold_in(key, state.step)
            if local is not None:
                return restarts.step_from(step, of_step, i, state, batch)
            after, info = step(of_step, state, batch)
            return after, (info, None)

        after, (info, found) = jax.lax.scan(one, state, batches._replace(local=local))
        return after, found, info.elbo[-1], elbo, i + 1

    def goes_on(carry: tuple) -> Array:
        _, _, elbo, before, i = carry
        gain = elbo - before
        more = (gain > settled(elbo)) & (elbo + HOPE * gain > target)
        return (i < most) & ((i < least) | more)

    low = jnp.full((), -jnp.inf, start.step_size.dtype)
    begun = start, batches.local, low, low, jnp.int32(0)
    state, local, elbo, _, laps = jax.lax.while_loop(goes_on, lap, begun)
    return Climbed(state.posterior, elbo, laps, local)


def settled(elbo: Any) -> Any:
    """The gain of a lap that counts as none."""
    return max(SETTLED, 4 * float(jnp.finfo(jnp.result_type(elbo)).eps)) * jnp.abs(elbo)


class Rows(NamedTuple):
    """Observations by their likeliest slot, each of shape (B, S); of sequences (B, S, T), but for
    the bounds.

    Attributes:
      slot: the likeliest slot; -1 of padding.
      share: its probability.
      bound: the bound of the observation: low where it is explained badly.
    """

    slot: Int[Array, "B S"]
    share: Float[Array, "B S"]
    bound: Float[Array, "B S"]


def rows(alg: Algorithm, q: Product, batches: Minibatch) -> Rows:
    """The likeliest slot of each observation."""
    return cached_program(alg.step, "rows", lambda step: once_jit(functools.partial(_rows, step)))(
        q, batches
    )


def _rows(step_of: weakref.ref, q: Product, batches: Minibatch) -> Rows:
    step: Any = step_of()
    spec = step.spec
    hyper, stats = tree.as_arrays(spec.model.hyper), spec.point(q)

    def of(batch: Minibatch) -> Rows:
        found = spec.model.local_elbo(hyper, stats, batch, jax.random.key(0), spec.estep)
        probs = next(iter(found.local.values())).probs
        is_row = jnp.sum(probs, -1) > 0.5  # not of padded steps
        if batch.weights is not None:
            is_row &= jnp.expand_dims(batch.weights > 0, range(1, is_row.ndim))
        return Rows(
            jnp.where(is_row, jnp.argmax(probs, -1), -1), jnp.max(probs, -1), found.per_group
        )

    return jax.lax.map(of, batches)


def steps_in(alg: Algorithm, q: Product, batches: Minibatch) -> Float[Array, " K"]:
    """The expected number of steps in each state of a chain."""
    return cached_program(
        alg.step, "steps", lambda step: step_jit(functools.partial(_steps_in, step))
    )(q, batches)


def _steps_in(step_of: weakref.ref, q: Product, batches: Minibatch) -> Array:
    step: Any = step_of()
    spec = step.spec
    hyper, stats = tree.as_arrays(spec.model.hyper), spec.point(q)

    def of(batch: Minibatch) -> Array:
        found = spec.model.local_elbo(hyper, stats, batch, jax.random.key(0), spec.estep)
        probs = next(iter(found.local.values())).probs
        return jnp.tensordot(jnp.asarray(batch.weights, probs.dtype), jnp.sum(probs, 1), 1)

    return jnp.sum(jax.lax.map(of, batches), 0)


def classes_of(alg: Algorithm, q: Product, batches: Minibatch) -> Any:
    """The law of the one class of an observation, or of the states of a sequence, as shapes; None
    where its locals are others."""
    spec, batch = alg.spec, jax.tree.map(lambda x: x[0], batches)
    hyper = tree.as_arrays(spec.model.hyper)
    bound = lambda: (
        spec.model.local_elbo(hyper, spec.point(q), batch, jax.random.key(0), spec.estep).local
    )
    local = jax.eval_shape(bound)
    known = isinstance(local, dict) and len(local) == 1
    law = next(iter(local.values())) if known else None
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


def divided(
    alg: Algorithm,
    axes: Axes,
    key: PRNGKeyArray,
    batches: Minibatch,
    weights: Float[Array, "B S"],
    seed: int,
    most: int,
) -> Division:
    """A small model of observations with weights.

    Args:
      alg: coordinate ascent of the small model.
      axes: see `slots.axes_of`.
      key: random key of the start.
      batches: all data, as `climb` has them.
      weights: the weight of each observation.
      seed: the place of one observation, which at the start is alone in its component, all others
        in another; below zero the model starts by itself.
      most: laps at most.
    """
    make = lambda step: once_jit(
        functools.partial(_divided, step, alg.init), _work_of_laps, static_argnums=0
    )
    return cached_program(alg.step, "divided", make)(axes, key, batches, weights, seed, most)


def _divided(
    step_of: weakref.ref,
    init: Any,
    axes: Axes,
    key: Any,
    batches: Minibatch,
    weights: Array,
    seed: Any,
    most: Any,
) -> Division:
    step: Any = step_of()
    model = step.spec.model
    hyper = tree.as_arrays(model.hyper)
    flat = lambda x: x.reshape(-1, *x.shape[2:])
    batch = Minibatch(jax.tree.map(flat, batches.data), None, flat(weights))
    prior = model.prior(hyper)

    def alone() -> Product:
        context = Context(model_energy(model), hyper, prior, batch)
        ((name, q),) = context.templates().items()
        labels = jnp.zeros(weights.size, jnp.int32).at[seed].set(1)
        return context.conditional({name: q.stats(labels)})

    def usual() -> Product:
        return init(key, batch).posterior

    is_row = len(jax.tree.leaves(batch.data)) == 1  # a sequence comes with its mask
    start = jax.lax.cond(seed >= 0, alone, usual) if is_row else usual()
    one = jax.tree.map(lambda x: x[None], batch)
    found = _climb(step_of, start, one, key, -jnp.inf, most, LEAST)
    classes = model.local_elbo(
        hyper, step.spec.point(found.posterior), batch, key, step.spec.estep
    ).local
    entropy = weighted_sum(flat(weights), next(iter(classes.values())).entropy())
    return Division(found.posterior, counts_of(axes, found.posterior, prior), entropy)


# --- programs of posteriors alone -----------------------------------------------------------------
@functools.partial(once_jit, static_argnums=0)
def changed(axes: Axes, q: Product, prior: Product, change: Array, new: Product) -> Product:
    """`slots.mapped`, compiled."""
    return mapped(axes, q, prior, change, new)


@functools.partial(once_jit, static_argnums=0)
def filled(
    axes: Axes,
    q: Product,
    prior: Product,
    change: Array,
    small: Product,
    small_prior: Product,
    places: Array,
) -> tuple[Product, Float[Array, ""]]:
    """`changed`, and the components of a small posterior added in the places that a map from its
    slots names; and what `slots.scored` gains by it, beside all of them in one place."""
    named = Product({name: prior[name] for name in small})
    ours = tuple((name, where) for name, where in axes if name in small)
    left = mapped(axes, q, prior, change, prior)
    added = lambda places: joined(
        axes, left, mapped(ours, small, small_prior, places, named), prior
    )
    together = jnp.zeros_like(places).at[jnp.argmax(places[:, 0])].set(1.0)
    return added(places), scored(added(places), prior) - scored(added(together), prior)


@functools.partial(once_jit, static_argnums=0)
def counted(axes: Axes, q: Product, prior: Product) -> Float[Array, " K"]:
    """`slots.counts_of`, compiled."""
    return counts_of(axes, q, prior)
