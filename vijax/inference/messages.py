"""Messages of all data, from the estimated message of a batch: they stand between estimate and
update.

Without memory a batch speaks for all data: its bound is scaled by N / S. `by_part` remembers
messages part by part (incremental inference: Neal and Hinton 1998; Hughes and Sudderth 2013)."""

from __future__ import annotations

import dataclasses
import functools
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
from vijax.inference.estimator.base import Message
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.step_size import backtracking
from vijax.inference.update import retract

AHEAD = 0.4
"""The distance to look ahead, as a share of the way that the globals went since the part was last
visited."""
ROUNDING = 4
"""Units in the last place by which a remembered message must be better, to stay: less may be
rounding, which would keep every other part where it is when steps are small."""


@dataclasses.dataclass(frozen=True)
class Messages:
    """The rule by which the message of a batch becomes that of all data; without memory, unless a
    subclass has one.

    The methods are given the `Spec` of the algorithm, for its model and its other choices."""

    num_parts: ClassVar[int | None] = (
        None  # number of parts into which the data are cut once for all, or None
    )

    def check(self, spec: Spec) -> None:
        """Raises ValueError at other choices that these messages do not go with."""

    def init(self, spec: Spec, q: Product) -> Any:
        """The memory of step 0."""
        return None

    def accepts(self, spec: Spec, memory: Any) -> bool:
        """True where it can go on from this memory."""
        return memory is None

    def bound(
        self,
        spec: Spec,
        state: State,
        batch: Minibatch,
        said: LocalElbo,
        hyper: Hyper,
        stats: PyTree,
    ) -> Array:
        """The bound whose gradient is wanted, from the model's bound of a batch: here scaled to all
        data."""
        total = (
            said.num_groups
            if batch.num_groups is None
            else jnp.asarray(batch.num_groups, said.total.dtype)
        )
        # A batch of padding alone says nothing, rather than 0/0.
        scale = spec.ramp(state.step, total, said.num_groups) / jnp.maximum(said.num_groups, 1)
        coupling = spec.model.global_elbo
        return scale * said.total + (0.0 if coupling is None else coupling(hyper, stats))

    def look(self, spec: Spec, memory: Any, batch: Minibatch, q: Product) -> Product:
        """The globals at which the bound of a batch is evaluated."""
        return q

    def all(
        self, spec: Spec, memory: Any, batch: Minibatch, at: At, message: Message
    ) -> tuple[Any, Message]:
        """The memory after a batch, and the message of all data from that of the batch."""
        return memory, message


@dataclasses.dataclass(frozen=True)
class scaled(Messages):
    """The message of a batch, N / S times."""


class At(NamedTuple):
    """The globals as they stand (q) and where the bound of the batch was evaluated (there); the
    prior towards which the step pulls, and the hyperparameters."""

    q: Product
    there: Product
    prior: Product
    hyper: Hyper


@dataclasses.dataclass(frozen=True)
class by_part(Messages):
    """A message remembered for each of `num_parts` parts of the data.

    The data are cut once into B parts, and a step visits one. It replaces that part's message and
    keeps the others', so that lambda = eta + sum_b m_b holds all the data at every step, without a
    step size. At fixed locals a bound is linear in the statistics, l_b(s) = <m_b, s> + c_b, and so
    the whole bound is known at every step:

        ELBO = sum_b (<m_b, s> + c_b) - KL(q || prior)

    Each step maximises it, first in the locals of one part, then in the globals, so that it never
    falls once all parts were visited. During the first pass the parts not seen yet have no message.
    In its place comes (lambda - eta) / B for each of them, so that the first pass leaves a good
    start gradually.

    Where all move slowly the same way, a pass of Gauss-Seidel does what two of Jacobi do, and no
    more. So a part's locals are found where the globals are going: at lambda + 0.4 (lambda -
    lambda_b), lambda_b where they stood when it was last visited. That is successive
    over-relaxation by 1.4 (Salakhutdinov and Roweis 2003 do so with the parameters of EM). Any
    locals give a bound, so nothing is lost but a visit where those found are worse here than the
    ones remembered, which then stay. With a slow mode whose share of the error left by `cavi` is J,
    a pass of `cavi` is worth 1/J - 1 of the way, one of this 4.7 times that (2 without looking
    ahead).

    Args:
      num_parts: B.
    """

    num_parts: int  # type: ignore[misc]

    @property
    def table(self) -> Table:
        """The table that keeps the messages of all parts."""
        return WHOLE

    def check(self, spec: Spec) -> None:
        require_integers(num_parts=self.num_parts)
        remedy = (
            "Use vijax.pg_svi(model, memory=True): the sites are the messages, one for each "
            "observation."
        )
        require(
            spec.model.by_entry is None,
            "model",
            "one whose messages are of whole batches",
            "sites",
            remedy,
        )
        plain = all(isinstance(choice, mean_field) for choice in spec.estimator.choices())
        remedy = (
            "Leave it out, or use vijax.svi or vijax.ssvi, which average over the draws of many "
            "steps."
        )
        require(
            plain, "estimator", "mean_field() where messages are remembered", spec.estimator, remedy
        )
        expected = "none where messages are remembered: they hold at fixed hyperparameters"
        require(
            not spec.learn,
            "learn",
            expected,
            spec.learn,
            "Use vijax.cavi or vijax.svi to learn them.",
        )
        fixed = not isinstance(spec.step_size, backtracking)
        remedy = "Leave it out: steps of size one need no trials here."
        require(
            fixed, "step_size", "a schedule where messages are remembered", spec.step_size, remedy
        )

    def init(self, spec: Spec, q: Product) -> Parts:
        return unvisited(q, self.num_parts, _looks_ahead(spec))

    def accepts(self, spec: Spec, memory: Any) -> bool:
        if not isinstance(memory, Parts):
            return False
        return (len(memory.constant), memory.visited_at is not None) == (
            self.num_parts,
            _looks_ahead(spec),
        )

    def bound(
        self,
        spec: Spec,
        state: State,
        batch: Minibatch,
        said: LocalElbo,
        hyper: Hyper,
        stats: PyTree,
    ) -> Array:
        """See `Messages`; here the bound of the part alone."""
        return said.total

    def look(self, spec: Spec, memory: Parts, batch: Minibatch, q: Product) -> Product:
        """See `Messages`: the globals as they stand, or where they are going."""
        return memory.ahead(self._part(batch), q, self.table).prepare() if _looks_ahead(spec) else q

    def all(
        self, spec: Spec, memory: Parts, batch: Minibatch, at: At, message: Message
    ) -> tuple[Parts, Message]:
        """See `Messages`. The term that couples the globals belongs to no part, and is computed
        anew at every step."""
        q, index, said, at_once = at.q, self._part(batch), message.aux, _moves_at_once(spec)
        stats, natural, value = spec.point(q), message.natural, message.value
        excess = tree.subtract(q.only(natural), at.prior.only(natural))
        total = (
            said.num_groups
            if batch.num_groups is None
            else jnp.asarray(batch.num_groups, said.total.dtype)
        )
        if _looks_ahead(spec):
            value = moved_back(natural, value, spec.point(at.there), stats)
            memory = memory.visited(index, q, self.table)
        known = natural, excess, value, stats, said.num_groups, total
        parts, natural, value = memory.recall(index, *known, at_once, _is_exact(spec), self.table)
        if (coupling := spec.model.global_elbo) is not None:
            once, slope = jax.value_and_grad(lambda part: coupling(at.hyper, {**stats, **part}))(
                {name: stats[name] for name in natural}
            )
            natural, value = tree.add(natural, natural.with_naturals(slope)), value + once
        return parts, message._replace(natural=natural, value=value)

    def _part(self, batch: Minibatch) -> Int[Array, ""]:
        remedy = (
            f"Give Minibatch(data, N, weights, part=i), i from 0 to {self.num_parts} - 1; "
            "vijax.fit does."
        )
        require(batch.part is not None, "batch", "which part of the data it is", "none", remedy)
        return jnp.asarray(batch.part, jnp.int32)


def _looks_ahead(spec: Spec) -> bool:
    """True where the locals of a part are found where the globals are going: any locals must give a
    bound that may be remembered, and all globals move together."""
    return _is_exact(spec) and _moves_at_once(spec)


def _moves_at_once(spec: Spec) -> bool:
    """True where a step moves all globals together."""
    return all(blocks is None or len(blocks) == 1 for blocks in (spec.model.blocks, spec.blocks))


def _is_exact(spec: Spec) -> bool:
    """True where a remembered message is a lower bound of its part at any globals."""
    return spec.model.locals.is_linear and isinstance(spec.estep, EStep) and spec.estep.is_ascent


# --- the memory of parts --------------------------------------------------------------------------
class Table:
    """The arrays of B parts as one, with a leading axis of B, whole on this device. `like` is an
    array of the shape of that of one part."""

    def at(self, every: Float[Array, "B ..."], index: Int[Array, ""], like: Array) -> Array:
        """That of one part."""
        return every[index]

    def put(
        self, every: Float[Array, "B ..."], index: Int[Array, ""], one: Array
    ) -> Float[Array, "B ..."]:
        """All of them, that of one part replaced."""
        return every.at[index].set(one.astype(every.dtype))

    def sum(self, every: Float[Array, "B ..."], like: Array) -> Array:
        """The sum of those of all parts."""
        return jnp.sum(every, 0)


WHOLE = Table()


class Parts(NamedTuple):
    """The memory of all parts."""

    # The message of each part, natural parameters with a leading axis of B; zero before its first
    # visit
    natural: Product
    constant: Float[
        Array, " parts"
    ]  # c_b, the share of its bound that does not depend on the globals
    groups: Float[Array, " parts"]  # number of its groups; 0 before its first visit
    # The globals as they stood at its last visit, like `natural`; None where no part looks ahead
    visited_at: Product | None

    def ahead(self, index: Int[Array, ""], q: Product, table: Table = WHOLE) -> Product:
        """The globals further on the way that a part has seen them go; as they stand, until all
        parts were visited. A parameter that would have left the domain at twice the distance stays,
        so that none comes near the edge."""
        far = jnp.where(jnp.all(self.groups > 0), 2 * AHEAD, 0.0)
        on = lambda x, every: x + far.astype(x.dtype) * (x - table.at(every, index, x))
        there = tree.apply(on, q, self.visited_at)
        return tree.mix(0.5, q, retract(there, q, q, jnp.zeros(())).posterior)

    def visited(self, index: Int[Array, ""], q: Product, table: Table = WHOLE) -> Parts:
        """The memory once a part was visited with the globals at q."""
        return self._replace(
            visited_at=tree.apply(lambda every, x: table.put(every, index, x), self.visited_at, q)
        )

    def recall(
        self,
        index: Int[Array, ""],
        natural: Product,
        excess: Product,
        value: Float[Array, ""],
        stats: PyTree,
        groups: Float[Array, ""],
        num_groups: Any,
        at_once: bool,
        keeps_better: bool,
        table: Table = WHOLE,
    ) -> tuple[Parts, Product, Float[Array, ""]]:
        """The memory with the message of one part replaced; the message and the bound of all the
        data.

        Args:
          index: which part was visited.
          natural: its new message, of the globals of one block.
          excess: lambda - eta of those globals; the parts not seen yet get their share of it as a
              message.
          value: its bound there.
          stats: statistics of those globals, where they stand.
          groups: how many groups it has.
          num_groups: N.
          at_once: `natural` has all globals, and the bound is taken to be linear in their
            statistics together. Otherwise a part's bound counts as it was at its last visit.
          keeps_better: where the bound is linear, True if the part keeps the locals that it
            remembers where they are better at these globals than the new ones: an E-step may find
            another optimum. That is only right if the bound is exactly linear at fixed locals and
            `value` is that of the locals behind `natural`.
          table: how messages are kept.
        """
        remembered = self.natural.only(natural)
        old = tree.apply(lambda every, one: table.at(every, index, one), remembered, natural)
        constant = value - _dot(natural, stats) if at_once else value
        if at_once and keeps_better:
            rounding = ROUNDING * jnp.finfo(value.dtype).eps * jnp.abs(value)
            kept = (self.groups[index] > 0) & (
                _dot(old, stats) + self.constant[index] > value + rounding
            )
            natural = tree.select(kept, old, natural)
            constant = jnp.where(kept, self.constant[index], constant)
        replaced = tree.apply(lambda every, one: table.put(every, index, one), remembered, natural)
        parts = self._replace(
            natural=self.natural.replace(replaced),
            constant=self.constant.at[index].set(constant.astype(self.constant.dtype)),
            groups=self.groups.at[index].set(jnp.asarray(groups, self.groups.dtype)),
        )
        seen = jnp.sum(parts.groups)
        unseen = 1 - seen / num_groups
        known = tree.apply(table.sum, replaced, natural)
        total = tree.apply(lambda x, y: x + jnp.where(unseen > 0, unseen * y, 0.0), known, excess)
        bound = (_dot(known, stats) if at_once else 0.0) + jnp.sum(parts.constant)
        return parts, total, num_groups / jnp.maximum(seen, 1) * bound


def unvisited(q: Product, num_parts: int, looks_ahead: bool = True) -> Parts:
    """The memory before any part was seen."""
    zeros = tree.apply(lambda x: jnp.zeros((num_parts, *x.shape), x.dtype), q)
    none = jnp.zeros(num_parts, jax.tree.leaves(q)[0].dtype)
    return Parts(zeros, none, none, tree.apply(jnp.copy, zeros) if looks_ahead else None)


def moved_back(
    natural: Product, value: Float[Array, ""], there: PyTree, stats: PyTree
) -> Float[Array, ""]:
    """The bound that locals found `there` give where the globals stand: at fixed locals it is
    linear."""
    return value + _dot(natural, jax.tree.map(jnp.subtract, stats, there))


def _dot(natural: Product, stats: PyTree) -> Float[Array, ""]:
    """<natural, stats>, over all globals and their batch axes."""
    return functools.reduce(jnp.add, [jnp.sum(q.dot(stats[name])) for name, q in natural.items()])
