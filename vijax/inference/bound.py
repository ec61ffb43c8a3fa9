"""What a step reads of a batch: the bound of its groups, scaled to all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.families import Product
from vijax.inference.axis import Axis
from vijax.inference.estimator import Reads
from vijax.inference.points import with_points
from vijax.inference.spec import Spec
from vijax.inference.state import State


def scaled_bound(spec: Spec, state: State, batch: Minibatch, key: PRNGKeyArray) -> Callable:
    """(stats, theta) -> (N_t / S) l, and what the model said."""

    def bound(stats: PyTree, theta: PyTree) -> tuple[Float[Array, ""], LocalElbo]:
        hyper = with_points(spec.model, state.hyper, theta)
        said = spec.model.local_elbo(hyper, stats, batch, key, spec.estep)
        own, said = said.total, _of_all_devices(spec.axis, said)
        if spec.num_parts is not None:  # what it remembers of all parts is put together later
            return own, said
        total = said.num_groups if batch.num_groups is None else jnp.asarray(batch.num_groups, said.total.dtype)
        # A batch of padding alone says nothing, rather than 0/0.
        scale = spec.ramp(state.step, total, said.num_groups) / jnp.maximum(said.num_groups, 1)
        coupling = spec.model.global_elbo
        return scale * own + (0.0 if coupling is None else spec.axis.share(coupling(hyper, stats))), said

    return bound


def _of_all_devices(axis: Axis, said: LocalElbo) -> LocalElbo:
    """What the model said, counted over all devices."""
    if axis.name is None:
        return said
    counts = {name: getattr(said, name) for name in ("total", "num_groups", "num_words", "retractions")}
    known = {name: jax.lax.stop_gradient(x) for name, x in counts.items() if x is not None}
    return said._replace(**axis.total(known))


def reads_of(spec: Spec, state: State, batch: Minibatch) -> dict[str, Reads]:
    """Of which entries of the globals the batch reads."""
    if spec.model.by_entry is None:
        return {}
    dtype, found = state.step_size.dtype, {}
    for name, rows in spec.model.by_entry.reads(batch).items():
        weights = jnp.ones(rows.shape, dtype) if batch.weights is None else jnp.asarray(batch.weights, dtype)
        count = jnp.maximum(spec.axis.total(jnp.sum(weights)), 1)
        total = count if batch.num_groups is None else jnp.asarray(batch.num_groups, dtype)
        found[name] = Reads(rows, weights, spec.ramp(state.step, total, count) / count, spec.axis)
    return found


def in_context(model: Model, hyper: Hyper, posterior: Product) -> Product:
    """The posterior with the context that belongs to these hyperparameters."""
    return posterior if model.by_entry is None else posterior.with_context(model.by_entry.context(hyper))


def first_bad(spec: Spec, said: LocalElbo, batch: Minibatch, reads: Mapping[str, Reads]) -> Int[Array, ""]:
    """The first group whose bound is not finite, or -1."""
    none = jnp.full((), -1, jnp.int32)
    if not isinstance(said.per_group, jax.Array) or said.per_group.ndim != 1:
        return none
    bad = ~jnp.isfinite(said.per_group)
    if batch.weights is not None:
        bad = bad & (jnp.asarray(batch.weights) > 0)
    place = jnp.min(jnp.where(bad, jnp.arange(bad.size, dtype=jnp.int32), bad.size - 1))
    rows = [some.rows for some in reads.values() if some.rows.shape == bad.shape]
    if rows:
        return spec.axis.first(jnp.where(jnp.any(bad), rows[0][place].astype(jnp.int32), none), 0)
    return spec.axis.first(jnp.where(jnp.any(bad), place, none), bad.size)
