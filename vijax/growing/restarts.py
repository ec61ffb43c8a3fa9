"""Laps of topics whose documents keep the words that they have of each topic, and are begun anew
where that is better (after Hughes, Kim and Sudderth 2015, section 3.3).

The bound of a document has many optima. So a lap evaluates each document from three starts, at the
same globals: from where it was; from an even start; and from where it was without one of its
topics, which takes turns lap after lap. It keeps the one whose bound is highest. The first is never
below the document's bound of the lap before. So no lap lowers the bound."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax import tree
from vijax.contract.batch import Minibatch
from vijax.contract.estep import Locals, MixedMembership
from vijax.contract.model import LocalElbo
from vijax.inference.compose import build_algorithm
from vijax.inference.estep import MeanField
from vijax.inference.state import Info, State
from vijax.models.documents.hdp import Shared

EVERY = 4
"""Laps from one even start of documents to the next."""
FEWEST = 0.5
"""Words of a topic from which a document is tried without it."""


@dataclasses.dataclass(frozen=True)
class Onward(MixedMembership):
    """Begins at the given locals as they are: the model's own coordinate ascent goes on from
    there."""

    is_ascent: ClassVar[bool] = True
    goes_on: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    usual: MeanField

    @property
    def max_iters(self) -> int:
        """Most rounds of a document."""
        return self.usual.max_iters

    @property
    def tol(self) -> float:
        """See `vijax.estep.mean_field`."""
        return self.usual.tol

    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """See `MixedMembership`."""
        return self.usual.docs_per_chunk(num_slots, num_topics)

    def mixed_membership(
        self,
        likelihood: Array,
        counts: Array,
        alpha: Array,
        key: Any,
        max_tokens: int,
        start: Array | None = None,
    ) -> Locals:
        """The start itself."""
        assert start is not None
        return Locals(start, None)


def step_from(
    step: Any, key: PRNGKeyArray, turn: Int[Array, ""], state: State, batch: Minibatch
) -> tuple[State, tuple[Info, Any]]:
    """A step whose documents begin from the best of three starts; the words of each topic after it.

    Args:
      step: the step of an algorithm of topics.
      key: random key.
      turn: number of the lap, which says what topic a document is tried without.
      state: the state; it remembers no locals.
      batch: documents; its `local` are the words that each has of each topic.
    """
    spec, stats = step.spec, step.spec.point(state.posterior)
    best = best_of_starts(spec, state.hyper, stats, batch, key, turn)
    onward = build_algorithm(spec._replace(estep=Onward(spec.estep))).step
    after, info = onward(key, state._replace(local=best.local), batch)
    return after._replace(local=None), (
        info,
        words_of(after.local, Shared.of(state.hyper, stats).x),
    )


def best_of_starts(
    spec: Any, hyper: Any, stats: Any, batch: Minibatch, key: PRNGKeyArray, turn: Any
) -> LocalElbo:
    """The bounds and locals of documents, each from the best of its starts; see `step_from`."""
    x, onward = Shared.of(hyper, stats).x, Onward(spec.estep)

    def found(words: Any, estep: Any) -> LocalElbo:
        start = None if words is None else tuple(x + n for n in words)
        return spec.model.local_elbo(hyper, stats, batch._replace(local=start), key, estep)

    now = found(batch.local, onward)
    fewer = tuple(without_one(n, turn) for n in words_of(now.local, x))
    best = better(now, found(fewer, onward))
    # By far the dearest of the starts
    return jax.lax.cond(
        turn % EVERY == 0, lambda: better(best, found(None, spec.estep)), lambda: best
    )


def words_of(local: Any, x: Float[Array, " K"]) -> Any:
    """The words of each topic, of the locals gamma."""
    return tuple(jnp.maximum(gamma - x, 0.0) for gamma in local)


def better(one: LocalElbo, other: LocalElbo) -> LocalElbo:
    """Each document's bound and locals where its bound is higher."""
    wins = tuple(b > a for a, b in zip(one.per_group, other.per_group, strict=True))
    pick = lambda a, b: tuple(
        jnp.where(jnp.expand_dims(w, range(1, x.ndim)), y, x)
        for w, x, y in zip(wins, a, b, strict=True)
    )
    return one._replace(
        per_group=pick(one.per_group, other.per_group), local=pick(one.local, other.local)
    )


def without_one(words: Float[Array, "D K"], turn: Any) -> Float[Array, "D K"]:
    """The words of each topic but for one that each document has words of: the smallest first, by
    turns.

    >>> without_one(jnp.array([[7.0, 0.1, 3.0], [0.0, 9.0, 0.0]]), 1).tolist()
    [[0.0, 0.10000000149011612, 3.0], [0.0, 0.0, 0.0]]
    """
    held = words >= FEWEST
    order = jnp.argsort(jnp.argsort(jnp.where(held, words, jnp.inf), axis=1), axis=1)
    chosen = turn % jnp.maximum(jnp.sum(held, axis=1, keepdims=True), 1)
    return jnp.where(order == chosen, 0.0, words)


def first_words(model: Any, batches: Minibatch) -> Any:
    """The words of each topic of documents that have not been seen: an even share."""
    hyper = tree.as_arrays(model.hyper)
    return jax.vmap(lambda data: model.locals.start(hyper, Minibatch(data, None)))(batches.data)
