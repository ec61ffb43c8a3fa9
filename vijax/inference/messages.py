"""The message of all data, made from the estimated message of a batch.

Without memory the bound of a batch is scaled by N / S. `by_part` remembers a message for each part
of the data (incremental inference: Neal and Hinton 1998; Hughes and Sudderth 2013)."""

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
"""Distance to look ahead, as a share of the globals' way since the last visit of the part."""
ROUNDING = 4
"""Units in the last place by which a remembered message must be better to be kept. A smaller
difference may be rounding, and would freeze every second part when steps are small."""


@dataclasses.dataclass(frozen=True)
class Messages:
    """The rule that turns the message of a batch into the message of all data. This base class has
    no memory.

    Each method takes the `Spec` of the algorithm, for its model and its other choices."""

    # Number of parts into which the data are cut once for all; None if they are not cut
    num_parts: ClassVar[int | None] = None

    def check(self, spec: Spec) -> None:
        """Raises ValueError if another choice of the algorithm does not go with these messages."""

    def init(self, spec: Spec, q: Product) -> Any:
        """The memory at step 0."""
        return None

    def accepts(self, spec: Spec, memory: Any) -> bool:
        """True if steps can continue from this memory."""
        return memory is None

    def bound(
        self,
        spec: Spec,
        state: State,
        batch: Minibatch,
        local_elbo: LocalElbo,
        hyper: Hyper,
        stats: PyTree,
    ) -> Array:
        """The bound whose gradient is the message: here the model's bound of the batch, scaled to
        all data."""
        total = count_groups(batch, local_elbo)
        groups = local_elbo.num_groups
        # A batch of padding alone has scale 0, not 0 / 0.
        scale = spec.ramp(state.step, total, groups) / jnp.maximum(groups, 1)
        coupling = spec.model.global_elbo
        return scale * local_elbo.total + (0.0 if coupling is None else coupling(hyper, stats))

    def look(self, spec: Spec, memory: Any, batch: Minibatch, q: Product) -> Product:
        """The globals at which the bound of a batch is evaluated."""
        return q

    def all(
        self, spec: Spec, memory: Any, batch: Minibatch, globals_: Globals, message: Message
    ) -> tuple[Any, Message]:
        """The memory after a batch, and the message of all data."""
        return memory, message


def count_groups(batch: Minibatch, local_elbo: LocalElbo) -> Array:
    """N: the number of groups in all data, or in the batch if the batch does not know it."""
    if batch.num_groups is None:
        return local_elbo.num_groups
    return jnp.asarray(batch.num_groups, local_elbo.total.dtype)


@dataclasses.dataclass(frozen=True)
class scaled(Messages):
    """The message of a batch, times N / S."""


class Globals(NamedTuple):
    """The globals of a step.

    Attributes:
      q: the present globals.
      lookahead: the globals at which the bound of the batch was evaluated.
      prior: the prior towards which the step pulls.
      hyper: the hyperparameters.
    """

    q: Product
    lookahead: Product
    prior: Product
    hyper: Hyper


@dataclasses.dataclass(frozen=True)
class by_part(Messages):
    """A message remembered for each of `num_parts` parts of the data.

    The data are cut once into B parts, and a step visits one part. It replaces the message of this
    part and keeps the others, so lambda = eta + sum_b m_b contains all the data at every step, and
    no step size is needed. At fixed locals a bound is linear in the statistics, l_b(s) = <m_b, s> +
    c_b, so the bound of all data is known at every step:

        ELBO = sum_b (<m_b, s> + c_b) - KL(q || prior)

    Each step maximises it, first in the locals of one part, then in the globals, so it never falls
    once all parts were visited. During the first pass a part without a visit has no message, and
    (lambda - eta) / B stands in for it: so the first pass leaves a good start gradually.

    Where all globals move slowly in one direction, a pass of Gauss-Seidel is worth only two passes
    of Jacobi. Therefore the locals of a part are computed ahead of the globals, at lambda + 0.4
    (lambda - lambda_b), where lambda_b are the globals at its last visit. This is successive
    over-relaxation by 1.4 (Salakhutdinov and Roweis 2003 apply it to the parameters of EM). Any
    locals give a bound: if the new ones are worse at the present globals than the remembered ones,
    the remembered ones are kept, and only this visit is wasted. If `cavi` leaves a share J of the
    error in a slow mode, a pass of `cavi` covers 1/J - 1 of the way, and a pass of `by_part` 4.7
    times as much (twice as much without looking ahead).

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
        is_whole = spec.model.by_entry is None
        expected = "one whose messages are of whole batches"
        remedy = (
            "Use vijax.pg_svi(model, memory=True): the sites are the messages, one for each "
            "observation."
        )
        require(is_whole, "model", expected, "sites", remedy)
        is_plain = all(isinstance(choice, mean_field) for choice in spec.estimator.choices())
        expected = "mean_field() where messages are remembered"
        remedy = (
            "Leave it out, or use vijax.svi or vijax.ssvi, which average over the draws of many "
            "steps."
        )
        require(is_plain, "estimator", expected, spec.estimator, remedy)
        expected = "none where messages are remembered: they hold at fixed hyperparameters"
        remedy = "Use vijax.cavi or vijax.svi to learn them."
        require(not spec.learn, "learn", expected, spec.learn, remedy)
        is_schedule = not isinstance(spec.step_size, backtracking)
        expected = "a schedule where messages are remembered"
        remedy = "Leave it out: steps of size one need no trials here."
        require(is_schedule, "step_size", expected, spec.step_size, remedy)

    def init(self, spec: Spec, q: Product) -> Parts:
        return empty_parts(q, self.num_parts, _looks_ahead(spec))

    def accepts(self, spec: Spec, memory: Any) -> bool:
        if not isinstance(memory, Parts):
            return False
        has_ahead = memory.visited_at is not None
        return len(memory.constant) == self.num_parts and has_ahead == _looks_ahead(spec)

    def bound(
        self,
        spec: Spec,
        state: State,
        batch: Minibatch,
        local_elbo: LocalElbo,
        hyper: Hyper,
        stats: PyTree,
    ) -> Array:
        """See `Messages`; here the bound of the part alone."""
        return local_elbo.total

    def look(self, spec: Spec, memory: Parts, batch: Minibatch, q: Product) -> Product:
        """See `Messages`: the present globals, or the globals ahead of them."""
        if not _looks_ahead(spec):
            return q
        return memory.ahead(self._part(batch), q, self.table).prepare()

    def all(
        self, spec: Spec, memory: Parts, batch: Minibatch, globals_: Globals, message: Message
    ) -> tuple[Parts, Message]:
        """See `Messages`. The term that couples the globals belongs to no part, and is computed at
        every step."""
        q, index = globals_.q, self._part(batch)
        stats, natural, value = spec.point(q), message.natural, message.value
        excess = tree.subtract(q.only(natural), globals_.prior.only(natural))
        total = count_groups(batch, message.aux)
        if _looks_ahead(spec):
            value = move_bound(natural, value, spec.point(globals_.lookahead), stats)
            memory = memory.with_visit(index, q, self.table)
        parts, natural, value = memory.recall(
            index,
            natural,
            excess,
            value,
            stats,
            groups=message.aux.num_groups,
            num_groups=total,
            at_once=_moves_at_once(spec),
            keeps_better=_is_exact(spec),
            table=self.table,
        )
        if (coupling := spec.model.global_elbo) is not None:
            term = lambda part: coupling(globals_.hyper, {**stats, **part})
            moving = {name: stats[name] for name in natural}
            coupling_value, slope = jax.value_and_grad(term)(moving)
            natural = tree.add(natural, natural.with_naturals(slope))
            value = value + coupling_value
        return parts, message._replace(natural=natural, value=value)

    def _part(self, batch: Minibatch) -> Int[Array, ""]:
        """The index of the part that the batch is. Raises ValueError if it is unknown."""
        remedy = (
            f"Give Minibatch(data, N, weights, part=i), i from 0 to {self.num_parts} - 1; "
            "vijax.fit does."
        )
        require(batch.part is not None, "batch", "which part of the data it is", "none", remedy)
        return jnp.asarray(batch.part, jnp.int32)


def _looks_ahead(spec: Spec) -> bool:
    """True if the locals of a part are computed ahead of the globals. Then any locals must give a
    bound that may be remembered, and all globals must move together."""
    return _is_exact(spec) and _moves_at_once(spec)


def _moves_at_once(spec: Spec) -> bool:
    """True if a step moves all globals together."""
    return all(blocks is None or len(blocks) == 1 for blocks in (spec.model.blocks, spec.blocks))


def _is_exact(spec: Spec) -> bool:
    """True if a remembered message is a lower bound of its part at any globals."""
    return spec.model.locals.is_linear and isinstance(spec.estep, EStep) and spec.estep.is_ascent


# --- the memory of parts --------------------------------------------------------------------------
class Table:
    """Access to an array of all B parts, with a leading axis of B, on one device. `like` has the
    shape of the array of one part."""

    def read(self, array: Float[Array, "B ..."], index: Int[Array, ""], like: Array) -> Array:
        """The array of one part."""
        return array[index]

    def put(
        self, array: Float[Array, "B ..."], index: Int[Array, ""], part: Array
    ) -> Float[Array, "B ..."]:
        """The array of all parts, with one part replaced."""
        return array.at[index].set(part.astype(array.dtype))

    def sum(self, array: Float[Array, "B ..."], like: Array) -> Array:
        """The sum over all parts."""
        return jnp.sum(array, 0)


WHOLE = Table()


class Parts(NamedTuple):
    """The memory of all parts."""

    # The message of each part: natural parameters with a leading axis of B; zero before the first
    # visit
    natural: Product
    # c_b, the part of the bound that does not depend on the globals
    constant: Float[Array, " parts"]
    # Number of groups in the part; 0 before the first visit
    groups: Float[Array, " parts"]
    # The globals at the last visit of each part, like `natural`; None if no part looks ahead
    visited_at: Product | None

    def ahead(self, index: Int[Array, ""], q: Product, table: Table = WHOLE) -> Product:
        """The globals, extrapolated along their way since the last visit of a part; the present
        globals until all parts were visited. A parameter that would leave the domain at twice the
        distance keeps its value, so no parameter comes near the edge."""
        factor = jnp.where(jnp.all(self.groups > 0), 2 * AHEAD, 0.0)
        step = lambda x, array: x + factor.astype(x.dtype) * (x - table.read(array, index, x))
        doubled = tree.apply(step, q, self.visited_at)
        return tree.mix(0.5, q, retract(doubled, q, q, jnp.zeros(())).posterior)

    def with_visit(self, index: Int[Array, ""], q: Product, table: Table = WHOLE) -> Parts:
        """The memory after a visit of a part at the globals q."""
        put = lambda array, x: table.put(array, index, x)
        return self._replace(visited_at=tree.apply(put, self.visited_at, q))

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
        """The memory with a new message of one part, the message of all data, and their bound.

        Args:
          index: index of the visited part.
          natural: its new message, for the globals of one block.
          excess: lambda - eta of these globals; a part without a visit gets its share of it as a
            message.
          value: the bound of the part at the present globals.
          stats: statistics of these globals at their present values.
          groups: number of groups in the part.
          num_groups: N.
          at_once: True if `natural` has all globals, and the bound is taken to be linear in their
            statistics together. Otherwise the bound of a part is its value at the last visit.
          keeps_better: True if, where the bound is linear, the part keeps its remembered locals if
            they are better at these globals than the new ones: an E-step may find another optimum.
            This is right only if the bound is exactly linear at fixed locals, and `value` belongs
            to the locals behind `natural`.
          table: access to the arrays of messages.
        """
        remembered = self.natural.only(natural)
        last = tree.apply(lambda array, x: table.read(array, index, x), remembered, natural)
        constant = value - _dot(natural, stats) if at_once else value
        if at_once and keeps_better:
            rounding = ROUNDING * jnp.finfo(value.dtype).eps * jnp.abs(value)
            last_value = _dot(last, stats) + self.constant[index]
            is_better = (self.groups[index] > 0) & (last_value > value + rounding)
            natural = tree.select(is_better, last, natural)
            constant = jnp.where(is_better, self.constant[index], constant)
        updated = tree.apply(lambda array, x: table.put(array, index, x), remembered, natural)
        parts = self._replace(
            natural=self.natural.replace(updated),
            constant=self.constant.at[index].set(constant.astype(self.constant.dtype)),
            groups=self.groups.at[index].set(jnp.asarray(groups, self.groups.dtype)),
        )
        num_visited = jnp.sum(parts.groups)
        unvisited = 1 - num_visited / num_groups
        visited_sum = tree.apply(table.sum, updated, natural)
        fill = lambda x, y: x + jnp.where(unvisited > 0, unvisited * y, 0.0)
        total = tree.apply(fill, visited_sum, excess)
        bound = (_dot(visited_sum, stats) if at_once else 0.0) + jnp.sum(parts.constant)
        return parts, total, num_groups / jnp.maximum(num_visited, 1) * bound


def empty_parts(q: Product, num_parts: int, looks_ahead: bool = True) -> Parts:
    """The memory before the first visit of any part."""
    zeros = tree.apply(lambda x: jnp.zeros((num_parts, *x.shape), x.dtype), q)
    none = jnp.zeros(num_parts, jax.tree.leaves(q)[0].dtype)
    return Parts(zeros, none, none, tree.apply(jnp.copy, zeros) if looks_ahead else None)


def move_bound(
    natural: Product, value: Float[Array, ""], old: PyTree, new: PyTree
) -> Float[Array, ""]:
    """The bound at the statistics `new`, from its value at `old`: at fixed locals it is linear."""
    return value + _dot(natural, jax.tree.map(jnp.subtract, new, old))


def _dot(natural: Product, stats: PyTree) -> Float[Array, ""]:
    """<natural, stats>, over all globals and their batch axes."""
    return functools.reduce(jnp.add, [jnp.sum(q.dot(stats[name])) for name, q in natural.items()])
