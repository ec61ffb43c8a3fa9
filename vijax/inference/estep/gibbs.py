"""Gibbs E-step of mixed membership: topics of tokens sampled with theta integrated out.

Tokens of one document are drawn one after the other; token m of all documents of a chunk is drawn
at once. Arrays have the documents in the last axis, so every operation is a run of contiguous
vectors. A draw inverts the cumulative distribution in two levels, first over blocks of about
sqrt(K) topics, then inside the block: a cumulative sum over all K would be the slowest part."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

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
from vijax.xla import native
from vijax.xla.gather import docs_per_chunk
from vijax.xla.threefry import threefry2x32

NO_TOPIC = jnp.iinfo(jnp.int32).max  # out of range, so that adding to its count changes nothing


@dataclasses.dataclass(frozen=True)
class Gibbs(MixedMembership, OfConditionals):
    """Collapsed Gibbs sampling of each document's tokens; see `gibbs`."""

    num_sweeps: int
    burn_in: int

    def conditionals(self, problem: Conditionals, key: PRNGKeyArray) -> InferredLocals:
        return gibbs_sweeps(problem, key, self.num_sweeps, self.burn_in)

    def docs_per_chunk(self, num_slots: int, num_topics: int) -> int:
        """The number of documents that fills vectors and hides the fixed cost of each step."""
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
        inputs = likelihood, counts, alpha, jax.random.bits(key, (2,), jnp.uint32)
        settings = {
            "max_tokens": max_tokens,
            "burn_in": self.burn_in,
            "num_sweeps": self.num_sweeps,
        }
        shapes = (len(counts), alpha.size), likelihood.shape
        run_xla = functools.partial(self._run_xla, max_tokens)
        return Locals(*native.run_kernel("gibbs", shapes, run_xla, *inputs, **settings))

    def _run_xla(
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


def random_words(
    seed: UInt32[Array, " two"], stream: Int[Array, ""], shape: tuple[int, ...]
) -> UInt32[Array, ...]:
    """Random words, different for every stream. (`jax.random.bits` would be one more loop for each
    length of documents, and take longer to compile.)"""
    index = jax.lax.iota(jnp.uint32, math.prod(shape))
    streams = jnp.broadcast_to(stream.astype(jnp.uint32), index.shape)
    return threefry2x32(seed[0], seed[1], index, streams)[0].reshape(shape)


def uniform(bits: UInt32[Array, "*shape"], dtype: jnp.dtype) -> Float[Array, "*shape"]:
    """Uniform numbers in [0, 1). They use only as many of the 32 bits as the mantissa holds, so
    that none rounds to 1."""
    drop = max(0, 31 - jnp.finfo(dtype).nmant)
    return (bits >> drop).astype(dtype) * 2.0 ** (drop - 32)


def token_slots(counts: Float[Array, "docs slots"], max_tokens: int) -> Int[Array, "tokens docs"]:
    """The slot of each token: slot 0 `counts[0]` times, then slot 1 ...; after the last token, the
    number of slots."""
    docs = counts.shape[0]
    ends = jnp.cumsum(counts, axis=1).astype(jnp.int32)
    zeros = jnp.zeros((docs, max_tokens), jnp.int32)
    num_ends = zeros.at[jnp.arange(docs)[:, None], ends].add(1, mode="drop")
    return jnp.cumsum(num_ends, axis=1).T


def pad_topics(x: Float[Array, "*shape topics"]) -> Float[Array, "*shape inner blocks"]:
    """The array with its last axis split into two of about sqrt(K): topics of a block, and blocks,
    padded with zeros."""
    topics = x.shape[-1]
    inner = max(1, math.isqrt(topics))
    blocks = -(-topics // inner)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, inner * blocks - topics)])
    return x.reshape(*x.shape[:-1], inner, blocks)


@check_arguments
def gibbs(num_sweeps: Size = 5, burn_in: Count = 5) -> Gibbs:
    """Gibbs E-step: locals are drawn, and messages are averaged over the draws.

    Mixed membership: theta integrated out (Mimno, Hoffman and Blei 2012), z_m ~ (alpha_k +
    n_k^{-m}) beta_k[w_m].

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
    """
    return Gibbs(num_sweeps, burn_in)
