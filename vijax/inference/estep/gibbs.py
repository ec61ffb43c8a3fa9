"""Gibbs E-step of mixed membership: topics of tokens sampled with theta integrated out; on
accelerators given draws of theta (`gibbs_at_once.py`).

Tokens of one document are drawn one after the other; token m of all documents of a chunk is drawn
at once. Arrays have the documents in the last axis, so every operation is a run of contiguous
vectors. A draw inverts the cumulative distribution in two levels, first over blocks of about
sqrt(K) topics, then inside the block: a cumulative sum over all K would be the slowest part."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from vijax.arguments import Count, Size, check_arguments
from vijax.contract.estep import Locals, MixedMembership
from vijax.inference.estep.conditionals import (
    Conditionals,
    InferredLocals,
    OfConditionals,
    gibbs_sweeps,
)
from vijax.inference.estep.gibbs_at_once import sample_at_once
from vijax.inference.estep.token_draws import random_words, token_slots, uniform
from vijax.xla import native
from vijax.xla.gather import docs_per_chunk

NO_TOPIC = jnp.iinfo(jnp.int32).max  # out of range, so that adding to its count changes nothing


@dataclasses.dataclass(frozen=True)
class Gibbs(MixedMembership, OfConditionals):
    """Gibbs sampling of each document's tokens; see `gibbs`."""

    num_sweeps: int
    burn_in: int
    tokens: str | None = None

    def conditionals(self, problem: Conditionals, key: PRNGKeyArray) -> InferredLocals:
        if self.tokens is not None:
            raise ValueError(
                "tokens: expected None, since the locals of this model are no topics of tokens, "
                f"got {self.tokens!r}. Leave it out."
            )
        return gibbs_sweeps(problem, key, self.num_sweeps, self.burn_in)

    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """The number of documents that fills vectors and hides the fixed cost of each step; where
        tokens are drawn at once, that fills a cache."""
        if self.tokens == "at_once":
            return docs_per_chunk(num_slots, num_topics)
        return docs_per_chunk(num_slots, num_topics, cache_bytes=2**23, most=32)

    def mixed_membership(
        self,
        likelihood: Array,
        counts: Array,
        alpha: Array,
        key: Any,
        max_tokens: int,
        start: Array | None = None,
    ) -> Locals:
        """See `MixedMembership`; exact for whole `counts` of at most `max_tokens` a row. It does
        not read `start`."""
        seed = jax.random.bits(key, (2,), jnp.uint32)
        inputs = likelihood, counts, alpha, seed
        sample_all = functools.partial(sample_at_once, self.num_sweeps, self.burn_in, max_tokens)
        if self.tokens == "at_once":
            return Locals(*sample_all(*inputs))
        in_turn = functools.partial(self._draw_singly, max_tokens)
        if self.tokens == "in_turn":
            otherwise = in_turn
        else:
            otherwise = functools.partial(
                jax.lax.platform_dependent, cpu=in_turn, default=sample_all
            )
        settings = {
            "max_tokens": max_tokens,
            "burn_in": self.burn_in,
            "num_sweeps": self.num_sweeps,
        }
        shapes = (len(counts), alpha.size), likelihood.shape
        return Locals(*native.run_kernel("gibbs", shapes, otherwise, *inputs, **settings))

    def _draw_singly(
        self, max_tokens: int, likelihood: Array, counts: Array, alpha: Array, seed: Array
    ) -> tuple[Array, Array]:
        docs, slots, _ = likelihood.shape
        slot = token_slots(counts, max_tokens)
        rows = likelihood.at[jnp.arange(docs), jnp.minimum(slot, slots - 1)].get(
            mode="promise_in_bounds"
        )
        tokens = jnp.moveaxis(pad_topics(rows), 1, -1)
        prior = pad_topics(alpha)[:, :, None]

        def sweep(s, carry):
            assignment, totals = carry
            bits = random_words(seed, s, slot.shape)
            assignment = sweep_tokens(*assignment, prior, tokens, slot < slots, bits)
            weight = (s >= self.burn_in).astype(likelihood.dtype)
            index = jnp.arange(docs), slot, assignment[0]
            return assignment, totals.at[index].add(weight, mode="drop")

        # Tokens have no topic at first, so the first sweep removes none and adds them in turn.
        nowhere = jnp.full((max_tokens, docs), NO_TOPIC, jnp.int32)
        first = (nowhere, jnp.zeros_like(tokens[0])), jnp.zeros_like(likelihood)
        _, totals = jax.lax.fori_loop(0, self.burn_in + self.num_sweeps, sweep, first)
        token_topics = totals / self.num_sweeps
        return alpha[None] + jnp.sum(token_topics, axis=1), token_topics


def sweep_tokens(
    topics: Int[Array, "tokens docs"],
    topic_counts: Float[Array, "inner blocks docs"],
    prior: Float[Array, "inner blocks 1"],
    likelihood: Float[Array, "tokens inner blocks docs"],
    exists: Bool[Array, "tokens docs"],
    bits: UInt32[Array, "tokens docs"],
) -> tuple[Int[Array, "tokens docs"], Float[Array, "inner blocks docs"]]:
    """Draws the topics of the existing tokens in turn, from the state after the last sweep."""
    shape = topic_counts.shape
    columns = jnp.arange(shape[2])

    def draw(m, carry):
        topics, topic_counts = carry
        topic_counts = topic_counts.at[topics[m], columns].add(-1.0, mode="drop")
        new = draw_topics((prior + topic_counts.reshape(shape)) * likelihood[m], bits[m])
        new = jnp.where(exists[m], new, NO_TOPIC)
        return topics.at[m].set(new), topic_counts.at[new, columns].add(1.0, mode="drop")

    last = jnp.sum(jnp.any(exists, axis=1), dtype=jnp.int32)
    topics, topic_counts = jax.lax.fori_loop(
        0, last, draw, (topics, topic_counts.reshape(-1, shape[2]))
    )
    return topics, topic_counts.reshape(shape)


def draw_topics(
    weights: Float[Array, "inner blocks docs"], bits: UInt32[Array, " docs"]
) -> Int[Array, " docs"]:
    """A topic for each document, drawn in proportion to its weights, of which one at least is
    positive. The topic at inner position i of block j has the number i * blocks + j."""
    inner, blocks, docs = weights.shape
    # XLA adds along a leading axis fastest on a CPU by a product with ones.
    ones = jnp.ones(inner, weights.dtype)
    sums = jnp.matmul(ones, weights.reshape(inner, -1), precision="highest")
    block_ends = jnp.cumsum(sums.reshape(blocks, docs), axis=0)
    target = uniform(bits, weights.dtype) * block_ends[-1]
    is_before = block_ends <= target[None]
    block = jnp.sum(is_before, axis=0, dtype=jnp.int32)
    remainder = target - jnp.max(jnp.where(is_before, block_ends, 0.0), axis=0)
    column = weights.reshape(inner, -1).at[:, block * docs + jnp.arange(docs)].get(mode="clip")
    topic_ends = jnp.cumsum(column, axis=0)
    # Rounding may put the remainder at the end of the block, or beyond it: then the last topic with
    # weight is drawn.
    last = topic_ends[-1] * (1.0 - jnp.finfo(topic_ends.dtype).eps)
    is_before = topic_ends <= jnp.minimum(remainder, last)[None]
    return jnp.sum(is_before, axis=0, dtype=jnp.int32) * blocks + block


def pad_topics(x: Float[Array, "*shape topics"]) -> Float[Array, "*shape inner blocks"]:
    """The array with its last axis split into two of about sqrt(K): topics of a block, and blocks,
    padded with zeros."""
    topics = x.shape[-1]
    inner = max(1, math.isqrt(topics))
    blocks = -(-topics // inner)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, inner * blocks - topics)])
    return x.reshape(*x.shape[:-1], inner, blocks)


@check_arguments
def gibbs(
    num_sweeps: Size = 5,
    burn_in: Count = 5,
    tokens: Literal["in_turn", "at_once"] | None = None,
) -> Gibbs:
    """Gibbs E-step: locals are drawn, and messages are averaged over the draws.

    Mixed membership, tokens in turn: theta integrated out (Mimno, Hoffman and Blei 2012),
    z_m ~ (alpha_k + n_k^{-m}) beta_k[w_m]. At once: theta ~ Dirichlet(alpha + n), then
    z_m ~ theta_k beta_k[w_m] for all m, from a start near the mode. Both sample the posterior.

    Models written as energies: every local is drawn in turn from its complete conditional; locals
    that do not depend on each other are drawn at once. The message is the mean gradient of the
    energy over the sweeps after the burn-in. The reported `elbo` is an estimate, which may be above
    the log evidence by chance but not in expectation (`gibbs_sweeps` in
    `vijax/inference/estep/conditionals.py` has the formula). `fit.locals` returns the conditionals
    of the last sweep: they are exact if no two locals are coupled, else they are no marginals
    (`vijax.reference.gibbs(..., keep_locals=True)` has draws to average).

    Args:
      num_sweeps: sweeps whose draws are averaged, over tokens or over locals.
      burn_in: sweeps before them.
      tokens: topics of words of documents: drawn one after the other, or all of a document at
        once; unset in turn on CPUs, and at once on accelerators, where tokens in turn are some 25
        operations each. Models without topics of words take None alone.
    """
    return Gibbs(num_sweeps, burn_in, tokens)
