"""Moves of hidden Markov models.

Births divide the steps of one state among several (Hughes, Stephenson and Sudderth 2015). The
likeliest state of each step is relabelled where it is the one to be divided: by k-means on the
observations, or a stretch of a sequence becomes a state of its own. The paths that result give the
globals, transitions included.

Entries bring back transitions that laps cannot. Where no path has one, E log pi is psi of a
concentration near zero, some -1,000: paths go another way, and the optimum is one of paths that do.
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
from vijax.growing.slots import Axes, is_of_entries, scored
from vijax.inference.compose import Algorithm
from vijax.models.energies.energy import model_energy
from vijax.xla.compiler import cached_program, step_jit

ROUNDS = 100
"""Rounds of Lloyd's algorithm at most."""
LENGTHS = 4, 8, 16, 32, 64
"""Steps of a stretch that becomes a state."""


def relabelled(
    alg: Algorithm,
    q: Product,
    batches: Minibatch,
    key: PRNGKeyArray,
    slot: int,
    places: Int[Array, " J"],
    by_stretch: bool = False,
) -> tuple[Product, Float[Array, ""]]:
    """The globals of the likeliest paths in which the steps of a state are divided; the gain of
    `slots.scored` by it.

    Args:
      alg: an algorithm of the model.
      q: the posterior.
      batches: all data, along a leading axis.
      key: random key of k-means, or of the stretch.
      slot: the state that is divided.
      places: the slots of its pieces.
      by_stretch: the steps of a stretch, drawn by its length and by the step in its middle, are the
        second piece, and all others the first.
    """
    make = lambda step: step_jit(functools.partial(_relabelled, step))
    return cached_program(alg.step, "relabelled", make)(q, batches, key, slot, places, by_stretch)


def _relabelled(
    step_of: weakref.ref,
    q: Product,
    batches: Minibatch,
    key: PRNGKeyArray,
    slot: Any,
    places: Array,
    by_stretch: Any,
) -> tuple[Product, Array]:
    step: Any = step_of()
    spec = step.spec
    model, hyper = spec.model, tree.as_arrays(spec.model.hyper)
    energy = model_energy(model)
    prior = energy.prior(hyper)  # of what paths say something of: no sticks
    flat = lambda x: x.reshape(-1, *x.shape[2:])
    batch = Minibatch(jax.tree.map(flat, batches.data), None, flat(batches.weights))
    ((name, chain),) = model.local_elbo(hyper, spec.point(q), batch, key, spec.estep).local.items()
    path = jnp.argmax(chain.probs, -1)
    inside = (
        (path == slot) & (jnp.sum(chain.probs, -1) > 0.5) & (flat(batches.weights)[:, None] > 0)
    )
    y = jax.tree.leaves(batch.data)[0]
    points = y.reshape(-1, y.shape[-1]).astype(jnp.result_type(float))
    seen = ~jnp.isnan(points).any(axis=-1)
    points = jnp.where(seen[:, None], points, 0.0)
    weights = (inside.ravel() & seen).astype(points.dtype)
    labels = jax.lax.cond(
        by_stretch,
        lambda: stretch(key, inside).astype(jnp.int32),
        lambda: (
            nearest_labels(key, points, weights, len(places), ROUNDS)
            .reshape(path.shape)
            .astype(jnp.int32)
        ),
    )
    context = Context(energy, hyper, prior, batch)
    of_path = lambda path: context.conditional(
        {name: jax.vmap(lambda q, z: q.stats(z))(chain, path)}
    )
    before, after = of_path(path), of_path(jnp.where(inside, places[labels], path))
    return after, scored(after, prior) - scored(before, prior)


def stretch(key: PRNGKeyArray, inside: Bool[Array, "N T"]) -> Bool[Array, "N T"]:
    """Steps about one that is drawn of those inside, in its sequence: a stretch of a length that is
    drawn too.

    >>> drawn = stretch(jax.random.key(0), jnp.arange(300).reshape(3, 100) >= 100)
    >>> int(jnp.sum(jnp.any(drawn, 1))), int(jnp.sum(drawn[0]))
    (1, 0)
    """
    of_step, of_length = jax.random.split(key)
    chosen = jax.random.categorical(of_step, jnp.where(inside.ravel(), 0.0, -jnp.inf))
    length = jax.random.choice(of_length, jnp.array(LENGTHS))
    sequence, step = jnp.divmod(chosen, inside.shape[1])
    near = jnp.abs(2 * (jnp.arange(inside.shape[1]) - step) + 1) <= length
    return near[None] & (jnp.arange(len(inside)) == sequence)[:, None]


@functools.partial(step_jit, static_argnums=0)
def entered(axes: Axes, q: Product, used: Float[Array, " K"]) -> Product:
    """The posterior with one transition more from each state in use to each, and one start more in
    each.

    Args:
      axes: see `slots.axes_of`.
      q: the posterior.
      used: one for states in use, zero for others.
    """
    more = dict(q.items())
    for name, where in axes:
        if is_of_entries(q[name], where):
            (concentration,) = tree.parameters(q[name])
            each = functools.reduce(jnp.multiply.outer, [used] * len(where[0]))
            more[name] = q[name].with_naturals([concentration + each])
    return Product(more)
