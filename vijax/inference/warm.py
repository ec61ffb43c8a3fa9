"""Locals remembered by group: an E-step goes on from where it was when it last saw these groups (warm starts).

Where an E-step climbs to a fixed point, most of its rounds in a later epoch repeat those of the epoch before: the
globals have moved little since. So the state keeps the locals of all N groups, a batch says which of them it holds
(`Minibatch.rows`), and its E-step begins there. Groups that were not seen yet begin where they always do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper
from vijax.inference.spec import Spec


class Visited(NamedTuple):
    """Attributes:
    local: the locals of every group as last seen, N leading.
    seen: which groups were.
    """

    local: PyTree
    seen: Bool[Array, " N"]


def unvisited(spec: Spec, hyper: Hyper, batch: Minibatch | None) -> Visited:
    """No group seen yet; memory for all.

    Raises:
      ValueError: the batch says neither how many groups there are nor which of them it holds.
    """
    remedy = "vijax.fit gives them; in a loop of your own Minibatch(data, N, rows=...)."
    known = batch is not None and batch.rows is not None and isinstance(batch.num_groups, float | int | np.number)
    require(known, "batch", "the first minibatch, with N and its rows, for warm starts", "none, or without", remedy)
    assert batch is not None
    assert spec.model.locals.start is not None
    total = int(batch.num_groups)  # type: ignore[arg-type]
    like = jax.eval_shape(spec.model.locals.start, hyper, batch)
    if isinstance(batch.rows, tuple):  # of documents of several lengths: locals of one kind
        like = like[0]
    table = jax.tree.map(lambda x: jnp.zeros((total, *x.shape[1:]), x.dtype), like)
    return Visited(table, jnp.zeros(total, bool))


def starts(spec: Spec, hyper: Hyper, visited: Visited, batch: Minibatch) -> PyTree:
    """Where the E-step of a batch begins."""
    require(batch.rows is not None, "batch", "which groups it holds, for warm starts", "none", "Give Minibatch(rows=).")
    assert spec.model.locals.start is not None
    cold = spec.model.locals.start(hyper, batch)

    def of(rows: Array, cold: PyTree) -> PyTree:
        seen = visited.seen.at[rows].get(mode="fill", fill_value=False)
        last = jax.tree.map(lambda table: table.at[rows].get(mode="clip"), visited.local)
        return jax.tree.map(lambda x, y: jnp.where(seen.reshape(-1, *(1,) * (x.ndim - 1)), x, y), last, cold)

    if isinstance(batch.rows, tuple):
        return tuple(of(rows, some) for rows, some in zip(batch.rows, cold, strict=True))
    return of(batch.rows, cold)


def remembered(visited: Visited, batch: Minibatch, local: PyTree, ok: Bool[Array, ""]) -> Visited:
    """With what was found of a batch's groups, if the step was taken. Padding, whose rows are N, is nowhere."""
    many = isinstance(batch.rows, tuple)
    for rows, found in zip(batch.rows, local, strict=True) if many else [(batch.rows, local)]:
        at = jnp.where(ok, jnp.asarray(rows), visited.seen.size)
        table = jax.tree.map(lambda old, new, at=at: old.at[at].set(new, mode="drop"), visited.local, found)
        visited = Visited(table, visited.seen.at[at].set(True, mode="drop"))
    return visited


def check_warm(spec: Any) -> None:
    """ValueError where there is nothing to go on from."""
    if not spec.warm_starts:
        return
    remedy = "Leave warm_starts out: its E-step is a closed form."
    has = spec.model.locals.start is not None
    require(has, "warm_starts", "a model whose E-step climbs to a fixed point", "one that has no start", remedy)
    able = getattr(spec.estep, "goes_on", False)
    remedy = "Use vijax.estep.mean_field() or vijax.estep.cvb0(), or leave warm_starts out."
    require(able, "warm_starts", "an E-step that can begin anywhere", repr(spec.estep), remedy)
    remedy = "Leave one of them out."
    require(spec.num_parts is None, "warm_starts", "no memory of messages beside it", f"{spec.num_parts} parts", remedy)
    require(spec.axis.name is None, "warm_starts", "one device", f"the axis {spec.axis.name!r}", remedy)
