"""The contract of E-steps, and of those for mixed membership, against which LDA and its relatives
are written.

Each token m of a document belongs to a topic z_m ~ theta, theta ~ Dirichlet(alpha), and is a word
w_m ~ beta_{z_m}. Given beta, an E-step infers z and theta. Documents are rows of unique words with
counts, in chunks that fit in cache; all tokens of a slot are the same word."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.xla.gather import AtOnce


class Locals(NamedTuple):
    """The locals of a chunk of documents, as an E-step found them."""

    # Alpha + expected number of tokens per topic: the parameters of q(theta). Equal to alpha for an
    # empty row
    gamma: Float[Array, "docs topics"]
    # Expected number of the tokens of each slot in each topic; sums over topics to `counts`. None
    # in mean field, where it is a function of `gamma` and the likelihood that is never formed for a
    # whole batch
    token_topics: Float[Array, "docs slots topics"] | None


class EStep:
    """A frozen dataclass of settings, hashable, so that jitted functions can close over it. Its
    base classes name the problems that it solves; a model names the problem that it poses
    (`Model.locals.solved_by`)."""

    # True where the reported bound and the message are of the same locals, as in coordinate ascent;
    # a sampler's are not
    is_ascent: ClassVar[bool] = False
    # True where it climbs to a fixed point, and can begin at locals that were found before
    goes_on: ClassVar[bool] = False
    draws: ClassVar[bool] = True  # True where its bound is of draws, and so is noisy


class MixedMembership(EStep, abc.ABC):
    """Solves for the topics of documents."""

    @abc.abstractmethod
    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """The number of documents that are best given to `mixed_membership` at once."""

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
            so that no product of it is denormal.
          counts: tokens per slot, 0 in padding.
          alpha: Dirichlet concentration of theta, positive.
          key: for E-steps that sample.
          max_tokens: static bound on a row's sum of counts.
          start: gamma at which E-steps that go on begin; None for their own start.
        """

    def table_kernel(self) -> AtOnce | None:
        """The kernel that does the same for all words of a table at once
        (`vijax.xla.gather.sum_over_rows`), for E-steps that are compiled (`vijax.xla.native`); else
        None."""
        return None


def iterate_by_document(
    improve: Callable[[Any], PyTree],
    start: PyTree,
    topic_counts: Callable[[Any], Float[Array, "docs topics"]],
    counts: Float[Array, "docs slots"],
    max_iters: int,
    tol: float,
) -> PyTree:
    """The result of `improve`, one round for all documents at once, repeated until it changes no
    document's topic counts by more than `tol` on average over topics. Every leaf keeps its shape,
    documents first.

    A document that is finished stays as it is, so that its answer does not depend on its neighbours
    in the chunk; one without tokens, by the `counts` per slot, is finished from the start."""
    settled = lambda new, old: (
        jnp.mean(jnp.abs(topic_counts(new) - topic_counts(old)), axis=1) <= tol
    )
    return repeat_by_document(improve, start, settled, jnp.sum(counts, axis=1) > 0, max_iters)


def repeat_by_document(
    improve: Callable[[Any], PyTree],
    start: PyTree,
    settled: Callable[[Any, Any], Bool[Array, " docs"]],
    active: Bool[Array, " docs"],
    max_iters: int,
) -> PyTree:
    """The result of `improve`, repeated for each active document until `settled(new, old)`, or
    `max_iters` times."""
    unfinished = lambda carry: jnp.any(carry[1]) & (carry[2] < max_iters)

    def iterate(carry: tuple) -> tuple:
        old, active, iteration = carry
        new = improve(old)
        done = settled(new, old)
        new = jax.tree.map(
            lambda n, o: jnp.where(active[(...,) + (None,) * (n.ndim - 1)], n, o), new, old
        )
        return new, active & ~done, iteration + 1

    return jax.lax.while_loop(unfinished, iterate, (start, active, 0))[0]
