"""Gibbs E-step of mixed membership: topics of tokens sampled with theta integrated out.

Tokens of one document are drawn one after the other; token m of all documents of a chunk is drawn
at once. Arrays keep the documents in the last axis, so that every operation is a run of contiguous
vectors. A draw inverts the cumulative distribution in two levels, first over blocks of about
sqrt(K) topics and then inside the block, because a cumulative sum over all K would be the slowest
part."""

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
from vijax.inference.estep.conditionals import Conditionals, Inferred, OfConditionals, gibbs_sweeps
from vijax.xla import native
from vijax.xla.gather import docs_per_chunk
from vijax.xla.threefry import threefry2x32

NO_TOPIC = jnp.iinfo(jnp.int32).max  # out of range, so that adding to its count changes nothing


@dataclasses.dataclass(frozen=True)
class Gibbs(MixedMembership, OfConditionals):
    """Collapsed Gibbs sampling of each document's tokens; see `gibbs`."""

    num_sweeps: int
    burn_in: int

    def conditionals(self, problem: Conditionals, key: PRNGKeyArray) -> Inferred:
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
        """See `MixedMembership`; exact for whole `counts` of at most `max_tokens` a row. It starts
        anew."""
        given = likelihood, counts, alpha, jax.random.bits(key, (2,), jnp.uint32)
        settings = {
            "max_tokens": max_tokens,
            "burn_in": self.burn_in,
            "num_sweeps": self.num_sweeps,
        }
        shapes, by_xla = (
            ((len(counts), alpha.size), likelihood.shape),
            functools.partial(self._by_xla, max_tokens),
        )
        return Locals(*native.run_kernel("gibbs", shapes, by_xla, *given, **settings))

    def _by_xla(
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
            assignment, kept = carry
            assignment = sweep_tokens(
                *assignment, prior, tokens, slot < slots, random_words(seed, s, slot.shape)
            )
            keep = (s >= self.burn_in).astype(likelihood.dtype)
            return assignment, kept.at[jnp.arange(docs), slot, assignment[0]].add(keep, mode="drop")

        # No topic at first, so that the first sweep has nothing to take out and places the tokens
        # one after the other.
        nowhere = jnp.full((max_tokens, docs), NO_TOPIC, jnp.int32)
        first = (nowhere, jnp.zeros_like(tokens[0])), jnp.zeros_like(likelihood)
        _, kept = jax.lax.fori_loop(0, self.burn_in + self.num_sweeps, sweep, first)
        token_topics = kept / self.num_sweeps
        return alpha[None] + jnp.sum(token_topics, axis=1), token_topics


def sweep_tokens(
    topics: Int[Array, "tokens docs"],
    topic_counts: Float[Array, "inner blocks docs"],
    prior: Float[Array, "inner blocks 1"],
    likelihood: Float[Array, "tokens inner blocks docs"],
    exists: Bool[Array, "tokens docs"],
    bits: UInt32[Array, "tokens docs"],
) -> tuple[Int[Array, "tokens docs"], Float[Array, "inner blocks docs"]]:
    """Draws the topics of the tokens that exist, in turn, from the state after the sweep before."""
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
    """A topic for each document in proportion to its weights, at least one of them positive; the
    topic of inner position i and block j is number i * blocks + j."""
    inner, blocks, docs = weights.shape
    # A product with ones is how XLA adds along a leading axis fastest on a CPU.
    sums = jnp.matmul(
        jnp.ones(inner, weights.dtype), weights.reshape(inner, -1), precision="highest"
    )
    by_block = jnp.cumsum(sums.reshape(blocks, docs), axis=0)
    target = uniform(bits, weights.dtype) * by_block[-1]
    passed = by_block <= target[None]
    block = jnp.sum(passed, axis=0, dtype=jnp.int32)
    rest = target - jnp.max(jnp.where(passed, by_block, 0.0), axis=0)
    column = weights.reshape(inner, -1).at[:, block * docs + jnp.arange(docs)].get(mode="clip")
    inside = jnp.cumsum(column, axis=0)
    # Rounding may put the rest at the end of the block, or beyond it; the last topic with weight is
    # then taken.
    passed = inside <= jnp.minimum(rest, inside[-1] * (1.0 - jnp.finfo(inside.dtype).eps))[None]
    return jnp.sum(passed, axis=0, dtype=jnp.int32) * blocks + block


def random_words(
    seed: UInt32[Array, " two"], stream: Int[Array, ""], shape: tuple[int, ...]
) -> UInt32[Array, ...]:
    """Random words, different for every stream. (`jax.random.bits` is a loop of its own, once for
    each length of documents, and takes longer to compile.)"""
    index = jax.lax.iota(jnp.uint32, math.prod(shape))
    streams = jnp.broadcast_to(stream.astype(jnp.uint32), index.shape)
    return threefry2x32(seed[0], seed[1], index, streams)[0].reshape(shape)


def uniform(bits: UInt32[Array, "*shape"], dtype: jnp.dtype) -> Float[Array, "*shape"]:
    """Uniform numbers in [0, 1): they use as many of the 32 bits as the mantissa holds, so that
    none rounds to 1."""
    drop = max(0, 31 - jnp.finfo(dtype).nmant)
    return (bits >> drop).astype(dtype) * 2.0 ** (drop - 32)


def token_slots(counts: Float[Array, "docs slots"], max_tokens: int) -> Int[Array, "tokens docs"]:
    """The slot of each token: slot 0 `counts[0]` times, then slot 1 ...; past the last token, the
    number of slots."""
    docs = counts.shape[0]
    ends = jnp.cumsum(counts, axis=1).astype(jnp.int32)
    passed = (
        jnp.zeros((docs, max_tokens), jnp.int32)
        .at[jnp.arange(docs)[:, None], ends]
        .add(1, mode="drop")
    )
    return jnp.cumsum(passed, axis=1).T


def pad_topics(x: Float[Array, "*shape topics"]) -> Float[Array, "*shape inner blocks"]:
    """Splits the last axis into topics of a block and blocks, about sqrt(K) each, padded with
    zeros."""
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

    Models written as energies: every local in turn from its complete conditional, locals that do
    not depend on each other at once. The message is the mean gradient of the energy over the sweeps
    kept. The `elbo` reported is an estimate, which may be above the log evidence by chance but not
    in expectation (`gibbs_sweeps` in `vijax/inference/estep/conditionals.py` says of what). The
    locals that `fit.locals` returns are the conditionals of the last sweep: exact where no two
    locals are coupled, else no marginals (`vijax.reference.gibbs(..., keep_locals=True)` has draws
    to average).

    Args:
      num_sweeps: sweeps whose draws are averaged. They are sweeps over tokens, or over locals.
      burn_in: sweeps before those.
    """
    return Gibbs(num_sweeps, burn_in)
