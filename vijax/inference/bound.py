"""The bound of a batch as a function of the statistics; the entries that the batch reads; the first
group whose bound is not finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.families import Product
from vijax.inference.estimator import Reads
from vijax.inference.estimator.base import NOTHING, as_entries, value
from vijax.inference.learning import with_points
from vijax.inference.spec import Spec
from vijax.inference.state import State


def scaled_bound(spec: Spec, state: State, batch: Minibatch, key: PRNGKeyArray) -> Callable:
    """A function: (stats, theta) -> bound, `LocalElbo` of the batch. The bound is of all data, or
    of the visited part if messages are remembered by part."""

    def bound(stats: PyTree, theta: PyTree) -> tuple[Float[Array, ""], LocalElbo]:
        hyper = with_points(spec.model, state.hyper, theta)
        local_elbo = spec.model.local_elbo(hyper, stats, batch, key, spec.estep)
        return spec.messages.bound(spec, state, batch, local_elbo, hyper, stats), local_elbo

    return bound


def batch_reads(spec: Spec, state: State, batch: Minibatch) -> dict[str, Reads]:
    """The entries that the batch reads, by name of the global. A global without a name here is read
    whole."""
    if spec.model.by_entry is None:
        return {}
    dtype = state.step_size.dtype
    reads = {}
    for name, entries in spec.model.by_entry.reads(batch).items():
        rows, weights = as_entries(entries, batch)
        weights = jnp.asarray(weights, dtype)
        count = jnp.maximum(jnp.sum(weights), 1)
        total = count if batch.num_groups is None else jnp.asarray(batch.num_groups, dtype)
        reads[name] = Reads(rows, weights, spec.ramp(state.step, total, count) / count)
    return reads


def add_context(model: Model, hyper: Hyper, posterior: Product) -> Product:
    """The posterior with the context for these hyperparameters (`ByEntry.context`)."""
    if model.by_entry is None:
        return posterior
    return posterior.with_context(model.by_entry.context(hyper))


def gradient_through_context(
    spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch, theta: PyTree
) -> PyTree:
    """The gradient of the objective in the learnt points, at fixed natural parameters. These are
    relative to a context that depends on the points."""
    estimators, reads = spec.estimators(state.posterior), batch_reads(spec, state, batch)
    key_global, key_local = jax.random.split(key)
    bound = scaled_bound(spec, state, batch, key_local)

    def objective(theta: PyTree) -> Float[Array, ""]:
        hyper = with_points(spec.model, state.hyper, theta)
        q = add_context(spec.model, hyper, state.posterior).prepare()
        rho = jnp.ones((), state.step_size.dtype)
        prior = spec.prior(hyper)
        data_term = value(estimators, key_global, q, prior, rho, bound, theta, reads)
        return data_term - spec.penalty(q, hyper, state.memory)

    return jax.grad(objective)(theta)


def first_bad(
    per_group: PyTree, weights: Any, reads: Mapping[str, Reads] = NOTHING
) -> Int[Array, ""]:
    """Index in the batch of the first group whose bound is not finite, or the entry that this group
    reads. -1 if there is none, or if the bounds are not one array."""
    if not isinstance(per_group, jax.Array) or per_group.ndim != 1:
        return jnp.full((), -1, jnp.int32)
    bad = ~jnp.isfinite(per_group)
    if weights is not None:
        bad = bad & (jnp.asarray(weights) > 0)
    index = jnp.min(jnp.where(bad, jnp.arange(bad.size, dtype=jnp.int32), bad.size - 1))
    rows = [entries.rows for entries in reads.values() if entries.rows.shape == bad.shape]
    if rows:
        index = rows[0][index].astype(jnp.int32)
    return jnp.where(jnp.any(bad), index, -1)
