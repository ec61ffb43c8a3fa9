"""The contract of E-steps; and of E-steps for mixed membership, which LDA and its relatives use.

Each token m of a document belongs to a topic z_m ~ theta, theta ~ Dirichlet(alpha), and is a word
w_m ~ beta_{z_m}. Given beta, an E-step infers z and theta. Documents are rows of unique words with
counts, in chunks that fit in cache; all tokens of a slot are the same word."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax.xla.gather import AtOnce


class Locals(NamedTuple):
    """The locals of a chunk of documents, the result of an E-step."""

    # The parameters of q(theta): alpha plus the expected number of tokens in each topic. It is
    # alpha for an empty row
    gamma: Float[Array, "docs topics"]
    # Expected number of the tokens of each slot in each topic; the sum over topics is `counts`.
    # None in mean field, where it is a function of `gamma` and the likelihood, and too large for a
    # whole batch
    token_topics: Float[Array, "docs slots topics"] | None


class EStep:
    """The settings of an E-step: a frozen dataclass, hashable, so that jitted functions can close
    over it. Its base classes are the problems that it solves; a model names its problem in
    `Model.locals.solved_by`."""

    # True if the reported bound and the message have the same locals, as in coordinate ascent; not
    # for a sampler
    is_ascent: ClassVar[bool] = False
    # True if it climbs to a fixed point, and can begin at earlier locals
    goes_on: ClassVar[bool] = False
    # True if its bound is estimated by draws, and so is noisy
    draws: ClassVar[bool] = True


class MixedMembership(EStep, abc.ABC):
    """Solves for the topics of documents."""

    @abc.abstractmethod
    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """The best number of documents for one call of `mixed_membership`."""

    @abc.abstractmethod
    def mixed_membership(
        self,
        likelihood: Float[Array, "docs slots topics"],
        counts: Float[Array, "docs slots"],
        alpha: Float[Array, " topics"],
        key: PRNGKeyArray,
        max_tokens: int,
        start: Float[Array, "docs topics"] | None = None,
    ) -> Locals:
        """The locals of a chunk of documents.

        Args:
          likelihood: beta_k[word], divided by its largest entry over topics and floored at 1e-30,
            so that no product is denormal.
          counts: tokens per slot, 0 in padding.
          alpha: Dirichlet concentration of theta, positive.
          key: for E-steps that sample.
          max_tokens: static bound on the sum of counts of a row.
          start: an earlier gamma, for E-steps that can begin there (`goes_on`); else None.
        """

    def table_kernel(self) -> AtOnce | None:
        """The kernel of E-step, bound and gradient for a whole table
        (`vijax.xla.gather.sum_over_rows`), for E-steps that are compiled (`vijax.xla.native`); else
        None."""
        return None


FEWEST = 128
"""Documents from which on a loop goes on with those that are left."""


def iterate_by_document(
    improve: Callable[..., Any],
    start: PyTree,
    topic_counts: Callable[[Any], Float[Array, "docs topics"]],
    counts: Float[Array, "docs slots"],
    max_iters: int,
    tol: float,
    data: PyTree = None,
) -> PyTree:
    """The result of `improve`, repeated until each document is finished: a round changes its topic
    counts by at most `tol` on average over topics.

    A round improves all documents at once. Every leaf keeps its shape, documents first. A finished
    document does not change any more, so its result does not depend on its neighbours in the chunk;
    a document without tokens is finished at the start. See `repeat_by_document` for `data`."""

    def is_finished(new: Any, before: Any) -> Bool[Array, " docs"]:
        change = jnp.abs(topic_counts(new) - topic_counts(before))
        return jnp.mean(change, axis=1) <= tol

    has_tokens = jnp.sum(counts, axis=1) > 0
    return repeat_by_document(improve, start, is_finished, has_tokens, max_iters, data)


def repeat_by_document(
    improve: Callable[..., Any],
    start: PyTree,
    is_finished: Callable[[Any, Any], Bool[Array, " docs"]],
    active: Bool[Array, " docs"],
    max_iters: int,
    data: PyTree = None,
) -> PyTree:
    """The result of `improve`, repeated for each active document until `is_finished(new, before)`,
    or `max_iters` times.

    Args:
      improve: (state) -> the state after a round; with `data`, (state, data).
      start: the state; every leaf has documents first.
      is_finished: (new state, state) -> a mask of documents.
      active: the documents to improve.
      max_iters: most rounds.
      data: arrays of each document, documents first. A chunk of `FEWEST` documents or more then
        goes on with the active ones as soon as they are half, a quarter, and so on: most rounds are
        of few documents.
    """
    first = start, active, jnp.int32(0)
    if data is None:
        improve_state = lambda state, _: improve(state)
        return _repeat(improve_state, is_finished, max_iters, None, first)[0]
    return _repeat(improve, is_finished, max_iters, data, first)[0]


Round = tuple[PyTree, Bool[Array, " docs"], Int[Array, ""]]
"""State, mask of the active documents, number of rounds."""


def _repeat(
    improve: Callable[..., Any],
    is_finished: Callable[[Any, Any], Bool[Array, " docs"]],
    max_iters: int,
    data: PyTree,
    carry: Round,
) -> Round:
    """Rounds until no document is active, of a chunk that shrinks."""
    num_docs = carry[1].shape[0]
    is_large = data is not None and num_docs >= FEWEST
    half = num_docs // 2 * is_large

    def has_next(carry: Round) -> Bool[Array, ""]:
        return (jnp.sum(carry[1]) > half) & (carry[2] < max_iters)

    def iterate(carry: Round) -> Round:
        before, active, iteration = carry
        new = improve(before, data)
        finished = is_finished(new, before)
        select = lambda n, b: jnp.where(active[(...,) + (None,) * (n.ndim - 1)], n, b)
        new = jax.tree.map(select, new, before)
        return new, active & ~finished, iteration + 1

    def shrink(carry: Round) -> Round:
        state, active, iteration = carry
        rows = jnp.argsort(~active)[:half]  # the active ones come first
        take = lambda tree: jax.tree.map(lambda x: x[rows], tree)
        remaining = take(state), active[rows], iteration
        new, active, iteration = _repeat(improve, is_finished, max_iters, take(data), remaining)
        state = jax.tree.map(lambda x, y: x.at[rows].set(y), state, new)
        return state, jnp.zeros(num_docs, bool), iteration

    carry = jax.lax.while_loop(has_next, iterate, carry)
    if not is_large:
        return carry
    return jax.lax.cond(_has_next_round(carry, max_iters), shrink, lambda carry: carry, carry)


def _has_next_round(carry: Round, max_iters: int) -> Bool[Array, ""]:
    """True if a document is active, and rounds are left."""
    return jnp.any(carry[1]) & (carry[2] < max_iters)
