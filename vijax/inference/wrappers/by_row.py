"""Bounds of a batch found row by row, each by a key of its own group: its draws do not depend on
how a batch is cut."""

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
    """True where the bound of a batch depends on its key; of a bound without an E-step its program
    says so."""
    if isinstance(estep, EStep):
        return estep.draws or isinstance(
            estep, LogisticNormalEStep
        )  # whose bound is an average over draws
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
    own: Iterable[str] = (),
) -> LocalElbo:
    """`Model.local_elbo`, the sum of those of batches of one group, each by `fold_in(key, row)`.

    Args:
      model: the model.
      hyper: its points.
      stats: statistics of its globals.
      batch: the groups that this device has; their rows are their places in the whole batch, if it
          does not say them.
      key: the same key on every device.
      estep: the E-step.
      device: the number of this device; those before it have as many groups.
      own: names of globals whose statistics have a row for each group.
    """
    if model.form.documents is not None:
        return _of_documents(model, hyper, stats, batch, key, estep, device)
    data = jax.tree.map(jnp.asarray, batch.data)
    size = jnp.shape(jax.tree.leaves(data)[0])[0]
    data = data if batch.weights is None else fill_padding(data, jnp.asarray(batch.weights))

    def one(
        row: Array, data: PyTree, weights: Any, local: PyTree, entries: dict[str, Any]
    ) -> LocalElbo:
        alone = batch._replace(data=data, weights=weights, local=local, rows=row)
        return model.local_elbo(
            hyper, {**stats, **entries}, alone, jax.random.fold_in(key, row[0]), estep
        )

    rows = _rows(batch.rows, device, size)
    return _summed(one, rows, data, batch.weights, batch.local, {name: stats[name] for name in own})


def _of_documents(
    model: Model,
    hyper: Hyper,
    stats: Mapping[str, Any],
    batch: Minibatch,
    key: PRNGKeyArray,
    estep: Any,
    device: Array,
) -> LocalElbo:
    """The bound of documents of several lengths. Each reads the columns of its own words, so that
    no gradient of all words is made for each of them."""
    tables = model.form.documents.by_word  # type: ignore[union-attr]
    plain = all(type(docs) is Documents for docs in batch.data)
    remedy = "Leave active (active_topics) out, or take an E-step that does not draw."
    require(
        plain,
        "axis",
        "documents that may use all topics, where the E-step draws",
        "active topics",
        remedy,
    )
    found = []
    for i, docs in enumerate(batch.data):
        known = None if batch.rows is None else batch.rows[i]
        of_length = key if known is not None else jax.random.fold_in(key, i)

        def one(
            row: Array, docs: Documents, local: PyTree, known: Any = known, key: Any = of_length
        ) -> LocalElbo:
            mine = {name: _columns(stats[name], docs.words[0]) for name in tables}
            docs = dataclasses.replace(docs, words=jnp.arange(docs.words.shape[1])[None])
            rows, start = (None if known is None else (row,)), (None if local is None else (local,))
            alone = batch._replace(data=(docs,), local=start, rows=rows)
            return model.local_elbo(
                hyper, {**stats, **mine}, alone, jax.random.fold_in(key, row[0]), estep
            )

        start = None if batch.local is None else batch.local[i]
        found.append(_summed(one, _rows(known, device, docs.words.shape[0]), docs, start))
    together = jax.tree.map(
        lambda *x: sum(x), *(said._replace(per_group=None, local=None) for said in found)
    )
    each = lambda name: tuple(getattr(said, name)[0] for said in found)
    return together._replace(per_group=each("per_group"), local=each("local"))


def _columns(stats: Any, words: Array) -> Any:
    """The statistics of some words."""
    axis = -2 if isinstance(stats, TransposedDirichletStats) else -1
    return jax.tree.map(lambda x: jnp.take(x, words, axis=axis), stats)


def _rows(known: Any, device: Array, size: int) -> Array:
    return device * size + jnp.arange(size) if known is None else jnp.asarray(known)


def _summed(one: Callable[..., LocalElbo], *groups: PyTree) -> LocalElbo:
    """The sum of the bounds of batches of one group; the groups' own bounds and locals one after
    the other."""
    said = jax.vmap(one)(*jax.tree.map(lambda x: jnp.asarray(x)[:, None], groups))
    totals = jax.tree.map(lambda x: jnp.sum(x, 0), said._replace(per_group=None, local=None))
    joined = lambda x: x.reshape(-1, *x.shape[2:]) if x.ndim > 1 else x
    return totals._replace(
        per_group=jax.tree.map(joined, said.per_group), local=jax.tree.map(joined, said.local)
    )
