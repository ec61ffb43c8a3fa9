"""Bounds of a batch computed row by row, each by the key of its group, so that draws do not depend
on how a batch is cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from vijax.checks import require
from vijax.contract.batch import Documents, Minibatch, fill_padding
from vijax.contract.estep import EStep
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.families.discrete.by_word import TransposedDirichletStats
from vijax.inference.estep.logistic_normal import LogisticNormalEStep
from vijax.inference.expectation.scalar import MonteCarlo


def draws_locals(
    model: Model, hyper: Hyper, stats: PyTree, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> bool:
    """True if the bound of a batch depends on its key. For a bound without an E-step this is read
    from its program."""
    if isinstance(estep, LogisticNormalEStep):  # its bound is an average over draws
        return True
    if isinstance(estep, EStep):
        return estep.draws
    if estep is not None:
        return isinstance(estep, MonteCarlo)
    bound = lambda key: model.local_elbo(hyper, stats, batch, key, estep).total
    program = jax.make_jaxpr(bound)(key).jaxpr
    return any(program.invars[0] is x for equation in program.eqns for x in equation.invars)


def bound_by_row(
    model: Model,
    hyper: Hyper,
    stats: Mapping[str, Any],
    batch: Minibatch,
    key: PRNGKeyArray,
    estep: Any,
    device: Array,
    by_row: Iterable[str] = (),
) -> LocalElbo:
    """`Model.local_elbo` as the sum of the bounds of single groups, each with the key `fold_in(key,
    row)`.

    Args:
      model: the model.
      hyper: its points.
      stats: statistics of its globals.
      batch: the groups of this device. Without `Minibatch.rows` the row of a group is its index in
        the whole batch.
      key: the same key on every device.
      estep: the E-step.
      device: index of this device; every device before it has as many groups.
      by_row: names of globals whose statistics have a row for each group.
    """
    if model.form.documents is not None:
        return _document_bound(model, hyper, stats, batch, key, estep, device)
    data = jax.tree.map(jnp.asarray, batch.data)
    size = jnp.shape(jax.tree.leaves(data)[0])[0]
    if batch.weights is not None:
        data = fill_padding(data, jnp.asarray(batch.weights))

    def bound(
        row: Array, data: PyTree, weights: Any, local: PyTree, entries: dict[str, Any]
    ) -> LocalElbo:
        group = batch._replace(data=data, weights=weights, local=local, rows=row)
        group_key = jax.random.fold_in(key, row[0])
        return model.local_elbo(hyper, {**stats, **entries}, group, group_key, estep)

    rows = _rows(batch.rows, device, size)
    row_stats = {name: stats[name] for name in by_row}
    return _sum_bounds(bound, rows, data, batch.weights, batch.local, row_stats)


def _document_bound(
    model: Model,
    hyper: Hyper,
    stats: Mapping[str, Any],
    batch: Minibatch,
    key: PRNGKeyArray,
    estep: Any,
    device: Array,
) -> LocalElbo:
    """The bound of documents of several lengths. Each document reads the columns of its own words,
    so that no gradient for all words is made for each document."""
    is_plain = all(type(docs) is Documents for docs in batch.data)
    expected = "documents that may use all topics, where the E-step draws"
    remedy = "Leave active (algorithm.active_topics) out, or take an E-step that does not draw."
    require(is_plain, "active", expected, "active topics", remedy)
    bounds = [
        _bucket_bound(model, hyper, stats, batch, i, key, estep, device)
        for i in range(len(batch.data))
    ]
    sums = [bound._replace(per_group=None, local=None) for bound in bounds]
    total = jax.tree.map(lambda *x: sum(x), *sums)
    per_group = tuple(bound.per_group[0] for bound in bounds)
    local = tuple(bound.local[0] for bound in bounds)
    return total._replace(per_group=per_group, local=local)


def _bucket_bound(
    model: Model,
    hyper: Hyper,
    stats: Mapping[str, Any],
    batch: Minibatch,
    index: int,
    key: PRNGKeyArray,
    estep: Any,
    device: Array,
) -> LocalElbo:
    """The bound of the documents of one length, `batch.data[index]`."""
    tables = model.form.documents.by_word  # type: ignore[union-attr]
    docs = batch.data[index]
    batch_rows = None if batch.rows is None else batch.rows[index]
    start = None if batch.local is None else batch.local[index]
    if batch_rows is None:  # rows count from zero in each length
        key = jax.random.fold_in(key, index)

    def bound(row: Array, docs: Documents, local: PyTree) -> LocalElbo:
        word_stats = {name: _take_words(stats[name], docs.words[0]) for name in tables}
        docs = dataclasses.replace(docs, words=jnp.arange(docs.words.shape[1])[None])
        document = batch._replace(
            data=(docs,),
            local=None if local is None else (local,),
            rows=None if batch_rows is None else (row,),
        )
        document_key = jax.random.fold_in(key, row[0])
        return model.local_elbo(hyper, {**stats, **word_stats}, document, document_key, estep)

    rows = _rows(batch_rows, device, docs.words.shape[0])
    return _sum_bounds(bound, rows, docs, start)


def _take_words(stats: Any, words: Array) -> Any:
    """The statistics of some words."""
    axis = -2 if isinstance(stats, TransposedDirichletStats) else -1
    return jax.tree.map(lambda x: jnp.take(x, words, axis=axis), stats)


def _rows(batch_rows: Any, device: Array, size: int) -> Array:
    """The row of each group of this device: that of the batch, or the index in the whole batch."""
    if batch_rows is None:
        return device * size + jnp.arange(size)
    return jnp.asarray(batch_rows)


def _sum_bounds(bound: Callable[..., LocalElbo], *groups: PyTree) -> LocalElbo:
    """The sum of the bounds of single groups, with the bounds and locals of all groups in order."""
    bounds = jax.vmap(bound)(*jax.tree.map(lambda x: jnp.asarray(x)[:, None], groups))
    totals = jax.tree.map(lambda x: jnp.sum(x, 0), bounds._replace(per_group=None, local=None))
    flatten = lambda x: x.reshape(-1, *x.shape[2:]) if x.ndim > 1 else x
    per_group = jax.tree.map(flatten, bounds.per_group)
    return totals._replace(per_group=per_group, local=jax.tree.map(flatten, bounds.local))
