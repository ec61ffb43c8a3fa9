"""A step of `memoized`: one part of the data is visited, the messages of the others are remembered."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.families import Product
from vijax.inference.estep import EStep
from vijax.inference.estimator.joint import Message
from vijax.inference.parts import Parts, ahead, moved_back, recall, visited
from vijax.inference.spec import Spec
from vijax.inference.state import State


def where_to_look(spec: Spec, batch: Minibatch, state: State, q: Product) -> Product:
    """Where the bound of a batch is evaluated: where the globals stand, or where they are going."""
    return ahead(state.parts, _part_of(spec, batch), q).prepared() if looks_ahead(spec) else q


def of_all_parts(
    spec: Spec,
    state: State,
    batch: Minibatch,
    parts: Parts,
    q: Product,
    there: Product,
    excess: Product,
    message: Message,
) -> tuple[Parts, Message]:
    """The message of all the data, from that of one part, taken `there`, and those remembered of the others. The term
    that couples the globals belongs to no part, and is computed anew at every step."""
    stats, said, coupling, index = spec.point(q), message.aux, spec.model.global_elbo, _part_of(spec, batch)
    total = said.num_groups if batch.num_groups is None else jnp.asarray(batch.num_groups, said.total.dtype)
    natural, value, at_once = message.natural, message.value, _moves_at_once(spec)
    if looks_ahead(spec):
        value, parts = moved_back(natural, value, spec.point(there), stats), visited(parts, index, q)
    seen = recall(parts, index, natural, excess, value, stats, said.num_groups, total, at_once, _is_exact(spec))
    natural, value = seen.natural, seen.value
    if coupling is not None:
        once, slope = jax.value_and_grad(lambda part: coupling(state.hyper, {**stats, **part}))(
            {name: stats[name] for name in natural}
        )
        natural, value = tree.add(natural, natural.with_naturals(slope)), value + once
    return seen.parts, message._replace(natural=natural, value=value)


def looks_ahead(spec: Spec) -> bool:
    """Whether the locals of a part are found where the globals are going: any locals must give a bound that may be
    remembered, and all globals move together."""
    return spec.num_parts is not None and _is_exact(spec) and _moves_at_once(spec)


def _moves_at_once(spec: Spec) -> bool:
    """Whether a step moves all globals together."""
    return spec.model.blocks is None or len(spec.model.blocks) == 1


def _is_exact(spec: Spec) -> bool:
    """Whether what is remembered of a part is a lower bound of it at any globals."""
    return spec.model.locals.is_linear and isinstance(spec.estep, EStep) and spec.estep.is_ascent


def _part_of(spec: Spec, batch: Minibatch) -> Int[Array, ""]:
    remedy = f"Give Minibatch(data, N, weights, part=i), i from 0 to {spec.num_parts} - 1; vijax.fit does."
    require(batch.part is not None, "batch", "which part of the data it is", "none", remedy)
    return jnp.asarray(batch.part, jnp.int32)
