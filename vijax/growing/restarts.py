"""Laps of topics in which documents start from their words of each topic (after Hughes, Kim and
Sudderth 2015, section 3.3).

The bound of a document has many optima. So a lap evaluates each document from three starts, at the
same globals: its present words of each topic; an even start; and its present words without one of
its topics, which changes lap after lap. It keeps the start whose bound is highest. The first start
never ends below the document's bound of the lap before. So no lap lowers the bound."""

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
from vijax.models.documents.hdp import SharedNumbers

EVERY = 4
"""Laps between even starts of documents."""
FEWEST = 0.5
"""Words of a topic from which a document is tried without it."""


@dataclasses.dataclass(frozen=True)
class Onward(MixedMembership):
    """Gives the start itself: the model's own coordinate ascent goes on from it."""

    is_ascent: ClassVar[bool] = True
    goes_on: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    usual: MeanField

    @property
    def max_iters(self) -> int:
        """Rounds of a document, at most."""
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
    """A step whose documents begin from the best of three starts, with its info and their words of
    each topic after it.

    Args:
      step: the step of an algorithm of topics.
      key: random key.
      turn: number of the lap; it chooses the topic that a document is tried without.
      state: the state; it remembers no locals.
      batch: documents; `local` has their words of each topic.
    """
    spec = step.spec
    stats = spec.point(state.posterior)
    best = best_of_starts(spec, state.hyper, stats, batch, key, turn)
    onward = build_algorithm(spec._replace(estep=Onward(spec.estep))).step
    after, info = onward(key, state._replace(local=best.local), batch)
    words = topic_words(after.local, SharedNumbers.from_stats(state.hyper, stats).x)
    return after._replace(local=None), (info, words)


def best_of_starts(
    spec: Any, hyper: Any, stats: Any, batch: Minibatch, key: PRNGKeyArray, turn: Any
) -> LocalElbo:
    """The bounds and locals of documents, each from the best of its starts; see `step_from`."""
    x = SharedNumbers.from_stats(hyper, stats).x
    onward = Onward(spec.estep)

    def evaluate(words: Any, estep: Any) -> LocalElbo:
        start = None if words is None else tuple(x + n for n in words)
        return spec.model.local_elbo(hyper, stats, batch._replace(local=start), key, estep)

    present = evaluate(batch.local, onward)
    fewer = tuple(drop_topic(n, turn) for n in topic_words(present.local, x))
    best = pick_better(present, evaluate(fewer, onward))
    # The even start is by far the dearest
    return jax.lax.cond(
        turn % EVERY == 0, lambda: pick_better(best, evaluate(None, spec.estep)), lambda: best
    )


def topic_words(local: Any, x: Float[Array, " K"]) -> Any:
    """The words of each topic, from the locals gamma."""
    return tuple(jnp.maximum(gamma - x, 0.0) for gamma in local)


def pick_better(a: LocalElbo, b: LocalElbo) -> LocalElbo:
    """The bounds and locals of b for documents whose bound is higher there, else those of a."""
    wins = tuple(y > x for x, y in zip(a.per_group, b.per_group, strict=True))

    def pick(xs: Any, ys: Any) -> Any:
        return tuple(
            jnp.where(jnp.expand_dims(win, range(1, x.ndim)), y, x)
            for win, x, y in zip(wins, xs, ys, strict=True)
        )

    return a._replace(per_group=pick(a.per_group, b.per_group), local=pick(a.local, b.local))


def drop_topic(words: Float[Array, "D K"], turn: Any) -> Float[Array, "D K"]:
    """The words of each topic without one of the topics that each document has; with the turn, the
    smallest first.

    >>> drop_topic(jnp.array([[7.0, 0.1, 3.0], [0.0, 9.0, 0.0]]), 1).tolist()
    [[0.0, 0.10000000149011612, 3.0], [0.0, 0.0, 0.0]]
    """
    has_topic = words >= FEWEST
    rank = jnp.argsort(jnp.argsort(jnp.where(has_topic, words, jnp.inf), axis=1), axis=1)
    dropped = turn % jnp.maximum(jnp.sum(has_topic, axis=1, keepdims=True), 1)
    return jnp.where(rank == dropped, 0.0, words)


def first_words(model: Any, batches: Minibatch) -> Any:
    """The words of each topic of documents before the first lap: an even share."""
    hyper = tree.as_arrays(model.hyper)
    return jax.vmap(lambda data: model.locals.start(hyper, Minibatch(data, None)))(batches.data)
