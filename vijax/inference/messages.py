"""Messages: what stands between the estimate of a batch's message and the update of the globals.

Without memory a batch speaks for all data: its bound is scaled by N / S. `by_part` remembers messages part by part
(incremental inference: Neal and Hinton 1998; Hughes and Sudderth 2013).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from vijax import tree
from vijax.checks import require, require_integers
from vijax.contract.batch import Minibatch
from vijax.contract.model import Hyper, LocalElbo
from vijax.families import Product
from vijax.inference.estep import EStep
from vijax.inference.estimator import mean_field
from vijax.inference.estimator.joint import Message
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.step_size import backtracking
from vijax.inference.update import retract

AHEAD = 0.4
"""How far to look, of the way that the globals went since the part was last visited."""
ROUNDING = 4
"""By how many units in the last place what is remembered must be better, to stay: less may be rounding, which would
keep every other part where it is when steps are small."""


@dataclasses.dataclass(frozen=True)
class Messages:
    """How the message of a batch becomes that of all data; without memory, unless a subclass has one.

    The methods are given the `Spec` of the algorithm, for its model and its other choices.

    Attributes:
      num_parts: into how many parts the data are cut once for all, or None.
    """

    num_parts: ClassVar[int | None] = None

    def check(self, spec: Spec) -> None:
        """Raises ValueError at other choices that these messages do not go with."""

    def init(self, spec: Spec, q: Product) -> Any:
        """The memory of step 0."""
        del spec, q
        return None

    def is_of(self, spec: Spec, memory: Any) -> bool:
        """Whether it goes on from this memory."""
        del spec
        return memory is None

    def bound(self, spec: Spec, state: State, batch: Minibatch, said: LocalElbo, hyper: Hyper, stats: PyTree) -> Array:
        """The bound whose gradient is asked for, from what the model says of a batch: here that of all data."""
        total = said.num_groups if batch.num_groups is None else jnp.asarray(batch.num_groups, said.total.dtype)
        # A batch of padding alone says nothing, rather than 0/0.
        scale = spec.ramp(state.step, total, said.num_groups) / jnp.maximum(said.num_groups, 1)
        coupling = spec.model.global_elbo
        return scale * said.total + (0.0 if coupling is None else coupling(hyper, stats))

    def look(self, spec: Spec, memory: Any, batch: Minibatch, q: Product) -> Product:
        """Where the bound of a batch is evaluated."""
        del spec, memory, batch
        return q

    def all(self, spec: Spec, memory: Any, batch: Minibatch, at: At, message: Message) -> tuple[Any, Message]:
        """The memory after a batch, and the message of all data from that of the batch."""
        del spec, batch, at
        return memory, message


@dataclasses.dataclass(frozen=True)
class scaled(Messages):
    """The message of a batch, N / S times."""


class At(NamedTuple):
    """Attributes:
    q: where the globals stand.
    there: where the bound of the batch was evaluated.
    prior: towards which the step pulls.
    hyper: the hyperparameters.
    """

    q: Product
    there: Product
    prior: Product
    hyper: Hyper


@dataclasses.dataclass(frozen=True)
class by_part(Messages):
    """A message remembered for each of `num_parts` parts of the data.

    The data are cut once into B parts, and a step visits one. It replaces that part's message and keeps the others', so
    that lambda = eta + sum_b m_b holds all the data at every step, without a step size. At fixed locals a bound is
    linear in the statistics, l_b(s) = <m_b, s> + c_b, and so the whole bound is known at every step:

        ELBO = sum_b (<m_b, s> + c_b) - KL(q || prior)

    Each step maximises it, first in the locals of one part, then in the globals, so that it never falls once all parts
    were visited. During the first pass the parts not seen yet have no message. In its place comes (lambda - eta) / B
    for each of them, so that the first pass leaves a good start gradually.

    Where all move slowly the same way, a pass of Gauss-Seidel does what two of Jacobi do, and no more. So a part's
    locals are found where the globals are going: at lambda + 0.4 (lambda - lambda_b), lambda_b where they stood when it
    was last visited. That is successive over-relaxation by 1.4 (Salakhutdinov and Roweis 2003 do so with the parameters
    of EM). Any locals give a bound, so nothing is lost but a visit where those found are worse here than the ones
    remembered, which then stay. With a slow mode whose share of the error left by `cavi` is J, a pass of `cavi` is
    worth 1/J - 1 of the way, one of this 4.7 times that (2 without looking ahead).

    Args:
      num_parts: B.
    """

    num_parts: int  # type: ignore[misc]

    def check(self, spec: Spec) -> None:
        """See `Messages`."""
        require_integers(num_parts=self.num_parts)
        remedy = "Use vijax.pg_svi(model, memory=True): the sites are the messages, one for each observation."
        require(spec.model.by_entry is None, "model", "one whose messages are of whole batches", "sites", remedy)
        plain = all(isinstance(choice, mean_field) for choice in spec.estimator.choices())
        remedy = "Leave it out, or use vijax.svi or vijax.ssvi, which average over the draws of many steps."
        require(plain, "estimator", "mean_field() where messages are remembered", spec.estimator, remedy)
        expected = "none where messages are remembered: they hold at fixed hyperparameters"
        require(not spec.learn, "learn", expected, spec.learn, "Use vijax.cavi or vijax.svi to learn them.")
        fixed = not isinstance(spec.step_size, backtracking)
        remedy = "Leave it out: steps of size one need no trials here."
        require(fixed, "step_size", "a schedule where messages are remembered", spec.step_size, remedy)

    def init(self, spec: Spec, q: Product) -> Parts:
        """See `Messages`."""
        return unvisited(q, self.num_parts, _looks_ahead(spec))

    def is_of(self, spec: Spec, memory: Any) -> bool:
        """See `Messages`."""
        if not isinstance(memory, Parts):
            return False
        return (len(memory.constant), memory.visited_at is not None) == (self.num_parts, _looks_ahead(spec))

    def bound(self, spec: Spec, state: State, batch: Minibatch, said: LocalElbo, hyper: Hyper, stats: PyTree) -> Array:
        """See `Messages`; that of the part alone."""
        del spec, state, batch, hyper, stats
        return said.total

    def look(self, spec: Spec, memory: Parts, batch: Minibatch, q: Product) -> Product:
        """See `Messages`: where the globals stand, or where they are going."""
        return ahead(memory, self._part(batch), q).prepared() if _looks_ahead(spec) else q

    def all(self, spec: Spec, memory: Parts, batch: Minibatch, at: At, message: Message) -> tuple[Parts, Message]:
        """See `Messages`. The term that couples the globals belongs to no part, and is computed anew at every step."""
        q, index, said, at_once = at.q, self._part(batch), message.aux, _moves_at_once(spec)
        stats, natural, value = spec.point(q), message.natural, message.value
        excess = tree.subtract(q.only(natural), at.prior.only(natural))
        total = said.num_groups if batch.num_groups is None else jnp.asarray(batch.num_groups, said.total.dtype)
        if _looks_ahead(spec):
            value, memory = moved_back(natural, value, spec.point(at.there), stats), visited(memory, index, q)
        seen = recall(memory, index, natural, excess, value, stats, said.num_groups, total, at_once, _is_exact(spec))
        natural, value = seen.natural, seen.value
        if (coupling := spec.model.global_elbo) is not None:
            once, slope = jax.value_and_grad(lambda part: coupling(at.hyper, {**stats, **part}))(
                {name: stats[name] for name in natural}
            )
            natural, value = tree.add(natural, natural.with_naturals(slope)), value + once
        return seen.parts, message._replace(natural=natural, value=value)

    def _part(self, batch: Minibatch) -> Int[Array, ""]:
        remedy = f"Give Minibatch(data, N, weights, part=i), i from 0 to {self.num_parts} - 1; vijax.fit does."
        require(batch.part is not None, "batch", "which part of the data it is", "none", remedy)
        return jnp.asarray(batch.part, jnp.int32)


def _looks_ahead(spec: Spec) -> bool:
    """Whether the locals of a part are found where the globals are going: any locals must give a bound that may be
    remembered, and all globals move together."""
    return _is_exact(spec) and _moves_at_once(spec)


def _moves_at_once(spec: Spec) -> bool:
    """Whether a step moves all globals together."""
    return all(blocks is None or len(blocks) == 1 for blocks in (spec.model.blocks, spec.blocks))


def _is_exact(spec: Spec) -> bool:
    """Whether what is remembered of a part is a lower bound of it at any globals."""
    return spec.model.locals.is_linear and isinstance(spec.estep, EStep) and spec.estep.is_ascent


# --- what is remembered -------------------------------------------------------------------------------------------
class Parts(NamedTuple):
    """Attributes:
    natural: the message of each part, natural parameters with a leading axis of B; zero before its first visit.
    constant: c_b, what of its bound does not depend on the globals.
    groups: how many groups it has; 0 before its first visit.
    visited_at: the globals as they stood at its last visit, like `natural`; None where no part looks ahead.
    """

    natural: Product
    constant: Float[Array, " parts"]
    groups: Float[Array, " parts"]
    visited_at: Product | None


class Recalled(NamedTuple):
    """Attributes:
    parts: with the visited one's message replaced.
    natural: the message of all the data.
    value: the bound of all the data.
    """

    parts: Parts
    natural: Product
    value: Float[Array, ""]


def unvisited(q: Product, num_parts: int, looks_ahead: bool = True) -> Parts:
    """No part seen yet."""
    zeros = tree.apply(lambda x: jnp.zeros((num_parts, *x.shape), x.dtype), q)
    none = jnp.zeros(num_parts, jax.tree.leaves(q)[0].dtype)
    return Parts(zeros, none, none, tree.apply(jnp.copy, zeros) if looks_ahead else None)


def ahead(parts: Parts, index: Int[Array, ""], q: Product) -> Product:
    """Where the globals are going, as a part has seen them move; where they stand until all parts were visited. What
    would have left the domain at twice the distance stays, so that nothing comes near its edge."""
    far = jnp.where(jnp.all(parts.groups > 0), 2 * AHEAD, 0.0)
    there = tree.apply(lambda x, every: x + far.astype(x.dtype) * (x - every[index]), q, parts.visited_at)
    return tree.mix(0.5, q, retract(there, q, q, jnp.zeros(())).posterior)


def visited(parts: Parts, index: Int[Array, ""], q: Product) -> Parts:
    """With where the globals stood when a part was visited."""
    return parts._replace(visited_at=tree.apply(lambda every, x: every.at[index].set(x), parts.visited_at, q))


def moved_back(natural: Product, value: Float[Array, ""], there: PyTree, stats: PyTree) -> Float[Array, ""]:
    """The bound that locals found `there` give where the globals stand: at fixed locals it is linear."""
    return value + _dot(natural, jax.tree.map(jnp.subtract, stats, there))


def recall(
    parts: Parts,
    index: Int[Array, ""],
    natural: Product,
    excess: Product,
    value: Float[Array, ""],
    stats: PyTree,
    groups: Float[Array, ""],
    num_groups: Any,
    at_once: bool,
    keeps_better: bool,
) -> Recalled:
    """Replaces the message of one part.

    Args:
      parts: as they were.
      index: which part was visited.
      natural: its new message, of the globals of one block.
      excess: lambda - eta of those globals; the parts not seen yet get their share of it as a message.
      value: its bound there.
      stats: of those globals, where they stand.
      groups: how many groups it has.
      num_groups: N.
      at_once: `natural` has all globals, and the bound is taken to be linear in their statistics together. Otherwise
        a part's bound counts as it was at its last visit.
      keeps_better: where the bound is linear, whether the part keeps the locals that it remembers if they are better at
        these globals than the new ones: an E-step may find another optimum. Only right if what is remembered is a
        lower bound at any globals, that is, if the bound is exactly linear at fixed locals and `value` is that of the
        locals behind `natural`.
    """
    old = tree.apply(lambda x: x[index], parts.natural.only(natural))
    constant = value - _dot(natural, stats) if at_once else value
    if at_once and keeps_better:
        rounding = ROUNDING * jnp.finfo(value.dtype).eps * jnp.abs(value)
        kept = (parts.groups[index] > 0) & (_dot(old, stats) + parts.constant[index] > value + rounding)
        natural = tree.select(kept, old, natural)
        constant = jnp.where(kept, parts.constant[index], constant)
    put = lambda every, one: every.at[index].set(one.astype(every.dtype))
    replaced = tree.apply(put, parts.natural.only(natural), natural)
    parts = parts._replace(
        natural=parts.natural.replace(replaced),
        constant=put(parts.constant, constant),
        groups=put(parts.groups, jnp.asarray(groups)),
    )
    seen = jnp.sum(parts.groups)
    unseen = 1 - seen / num_groups
    known = tree.apply(lambda x: jnp.sum(x, 0), replaced)
    total = tree.apply(lambda x, y: x + jnp.where(unseen > 0, unseen * y, 0.0), known, excess)
    bound = (_dot(known, stats) if at_once else 0.0) + jnp.sum(parts.constant)
    return Recalled(parts, total, num_groups / jnp.maximum(seen, 1) * bound)


def _dot(natural: Product, stats: PyTree) -> Float[Array, ""]:
    """<natural, stats>, over all globals and their batch axes."""
    terms = [jnp.sum(q.dot(stats[name])) for name, q in natural.items()]
    return sum(terms[1:], terms[0])
