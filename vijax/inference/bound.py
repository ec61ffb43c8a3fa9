"""The bound of a batch, scaled to all groups; the entries that the batch reads; the first group
that is not finite."""

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
from vijax.inference.estimator.base import NOTHING, Entries, value
from vijax.inference.learning import with_points
from vijax.inference.spec import Spec
from vijax.inference.state import State


def scaled_bound(spec: Spec, state: State, batch: Minibatch, key: PRNGKeyArray) -> Callable:
    """(stats, theta) -> the bound of all data, or of the part whose message is remembered; and what
    the model said."""

    def bound(stats: PyTree, theta: PyTree) -> tuple[Float[Array, ""], LocalElbo]:
        hyper = with_points(spec.model, state.hyper, theta)
        said = spec.model.local_elbo(hyper, stats, batch, key, spec.estep)
        return spec.messages.bound(spec, state, batch, said, hyper, stats), said

    return bound


def batch_reads(spec: Spec, state: State, batch: Minibatch) -> dict[str, Reads]:
    """The entries of globals that the batch reads, by name; other globals are read whole."""
    if spec.model.by_entry is None:
        return {}
    dtype, found = state.step_size.dtype, {}
    for name, some in spec.model.by_entry.reads(batch).items():
        rows, weights = Entries.of(some, batch)
        weights = jnp.asarray(weights, dtype)
        count = jnp.maximum(jnp.sum(weights), 1)
        total = count if batch.num_groups is None else jnp.asarray(batch.num_groups, dtype)
        found[name] = Reads(rows, weights, spec.ramp(state.step, total, count) / count)
    return found


def add_context(model: Model, hyper: Hyper, posterior: Product) -> Product:
    """The posterior with the context that belongs to these hyperparameters."""
    return (
        posterior
        if model.by_entry is None
        else posterior.with_context(model.by_entry.context(hyper))
    )


def gradient_through_context(
    spec: Spec, key: PRNGKeyArray, state: State, batch: Minibatch, theta: PyTree
) -> PyTree:
    """The objective's gradient in the points that are learnt, at fixed natural parameters, which
    are relative to a context that depends on these points."""
    estimators, reads = spec.estimators(state.posterior), batch_reads(spec, state, batch)
    key_global, key_local = jax.random.split(key)
    bound = scaled_bound(spec, state, batch, key_local)

    def objective(theta: PyTree) -> Float[Array, ""]:
        hyper = with_points(spec.model, state.hyper, theta)
        q = add_context(spec.model, hyper, state.posterior).prepare()
        rho = jnp.ones((), state.step_size.dtype)
        said = value(estimators, key_global, q, spec.prior(hyper), rho, bound, theta, reads)
        return said - spec.penalty(q, hyper)

    return jax.grad(objective)(theta)


def first_bad(
    per_group: PyTree, weights: Any, reads: Mapping[str, Reads] = NOTHING
) -> Int[Array, ""]:
    """The place in the batch of the first group whose bound is not finite, or the entry that it
    reads; -1 if there is none, or if the bounds are not in one array."""
    if not isinstance(per_group, jax.Array) or per_group.ndim != 1:
        return jnp.full((), -1, jnp.int32)
    bad = ~jnp.isfinite(per_group)
    if weights is not None:
        bad = bad & (jnp.asarray(weights) > 0)
    place = jnp.min(jnp.where(bad, jnp.arange(bad.size, dtype=jnp.int32), bad.size - 1))
    rows = [some.rows for some in reads.values() if some.rows.shape == bad.shape]
    return jnp.where(jnp.any(bad), rows[0][place].astype(jnp.int32) if rows else place, -1)
