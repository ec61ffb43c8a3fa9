"""Moves of hidden Markov models.

A birth divides the steps of one state among several (Hughes, Stephenson and Sudderth 2015). It
takes the likeliest path, and gives the steps of that state new labels: by k-means on the
observations, or with a stretch of a sequence as a state of its own. The globals, transitions
included, are those of the new paths.

Entries bring back transitions that laps cannot. If no path has a transition, E log pi is psi of a
concentration near zero, some -1,000. So all paths avoid it, and laps end in an optimum without it.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax import tree
from vijax.contract.batch import Minibatch
from vijax.contract.init import Context, nearest_labels
from vijax.families import Product
from vijax.growing.slots import Axes, has_entries, score
from vijax.inference.compose import Algorithm
from vijax.models.energies.energy import model_energy
from vijax.xla.compiler import cached_program, step_jit

ROUNDS = 100
"""Rounds of Lloyd's algorithm at most."""
LENGTHS = 4, 8, 16, 32, 64
"""Steps of a stretch that becomes a state."""


def divide_state(
    alg: Algorithm,
    q: Product,
    batches: Minibatch,
    key: PRNGKeyArray,
    slot: int,
    places: Int[Array, " J"],
    by_stretch: bool = False,
) -> tuple[Product, Float[Array, ""]]:
    """The globals of the likeliest paths after the steps of a state are divided, and what
    `slots.score` gains by it.

    Args:
      alg: an algorithm of the model.
      q: the posterior.
      batches: all data, along a leading axis.
      key: random key of k-means, or of the stretch.
      slot: the state that is divided.
      places: the slots of its pieces.
      by_stretch: the second piece has the steps of one stretch, whose length and middle are drawn;
        the first piece has all others. Otherwise k-means divides the steps.
    """
    make = lambda step: step_jit(functools.partial(_divide_state, step))
    return cached_program(alg.step, "divide_state", make)(q, batches, key, slot, places, by_stretch)


def _divide_state(
    step_ref: weakref.ref,
    q: Product,
    batches: Minibatch,
    key: PRNGKeyArray,
    slot: Any,
    places: Array,
    by_stretch: Any,
) -> tuple[Product, Array]:
    step: Any = step_ref()
    spec = step.spec
    model = spec.model
    hyper = tree.as_arrays(model.hyper)
    energy = model_energy(model)
    prior = energy.prior(hyper)  # of the globals that paths determine: without sticks
    flat = lambda x: x.reshape(-1, *x.shape[2:])
    weights = flat(batches.weights)
    batch = Minibatch(jax.tree.map(flat, batches.data), None, weights)
    ((name, chain),) = model.local_elbo(hyper, spec.point(q), batch, key, spec.estep).local.items()
    path = jnp.argmax(chain.probs, -1)
    is_step = jnp.sum(chain.probs, -1) > 0.5
    inside = (path == slot) & is_step & (weights[:, None] > 0)

    def cluster() -> Array:
        points, is_observed = _observations(batch)
        point_weights = (inside.ravel() & is_observed).astype(points.dtype)
        labels = nearest_labels(key, points, point_weights, len(places), ROUNDS)
        return labels.reshape(path.shape).astype(jnp.int32)

    labels = jax.lax.cond(by_stretch, lambda: stretch(key, inside).astype(jnp.int32), cluster)
    context = Context(energy, hyper, prior, batch)

    def globals_on_path(path: Array) -> Product:
        return context.conditional({name: jax.vmap(lambda q, z: q.stats(z))(chain, path)})

    before = globals_on_path(path)
    after = globals_on_path(jnp.where(inside, places[labels], path))
    return after, score(after, prior) - score(before, prior)


def _observations(batch: Minibatch) -> tuple[Float[Array, "steps D"], Bool[Array, " steps"]]:
    """The observations of all steps, zeros where one is missing; and which are not missing."""
    y = jax.tree.leaves(batch.data)[0]
    points = y.reshape(-1, y.shape[-1]).astype(jnp.result_type(float))
    is_observed = ~jnp.isnan(points).any(axis=-1)
    return jnp.where(is_observed[:, None], points, 0.0), is_observed


def stretch(key: PRNGKeyArray, inside: Bool[Array, "N T"]) -> Bool[Array, "N T"]:
    """The steps of a stretch: its middle is drawn among the steps inside, its length among
    `LENGTHS`.

    >>> steps = stretch(jax.random.key(0), jnp.arange(300).reshape(3, 100) >= 100)
    >>> int(jnp.sum(jnp.any(steps, 1))), int(jnp.sum(steps[0]))
    (1, 0)
    """
    key_middle, key_length = jax.random.split(key)
    middle = jax.random.categorical(key_middle, jnp.where(inside.ravel(), 0.0, -jnp.inf))
    length = jax.random.choice(key_length, jnp.array(LENGTHS))
    sequence, step = jnp.divmod(middle, inside.shape[1])
    is_near = jnp.abs(2 * (jnp.arange(inside.shape[1]) - step) + 1) <= length
    return is_near[None] & (jnp.arange(len(inside)) == sequence)[:, None]


@functools.partial(step_jit, static_argnums=0)
def add_entries(axes: Axes, q: Product, used: Float[Array, " K"]) -> Product:
    """The posterior with one more transition from each state in use to each of them, and one more
    start in each.

    Args:
      axes: see `slots.slot_axes`.
      q: the posterior.
      used: 1 for states in use, 0 for others.
    """
    posteriors = dict(q.items())
    for name, parameter_axes in axes:
        if has_entries(q[name], parameter_axes):
            (concentration,) = tree.parameters(q[name])
            entries = functools.reduce(jnp.multiply.outer, [used] * len(parameter_axes[0]))
            posteriors[name] = q[name].with_naturals([concentration + entries])
    return Product(posteriors)
