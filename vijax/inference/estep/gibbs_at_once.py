"""Gibbs sampling of topics, all tokens of a document at once, for accelerators: they wait for each
operation, and tokens in turn are some 25 operations each.

A sweep draws the shares of topics given the tokens' topics, theta ~ Dirichlet(alpha + n), and then
every token by itself, z_m ~ theta_k beta_k[w_m]. Its stationary law of (theta, z) is the posterior,
so that of z is the law of sweeps that integrate theta out. The expected topics of a token given
theta, which the draw needs, are averaged in place of the draws: their mean is the same, and their
variance smaller (Rao and Blackwell).

Such sweeps move more slowly than those that integrate theta out, so they begin near the mode: at
the counts after some rounds of theta_k <- alpha_k + sum_m theta_k beta_k[w_m] / sum_j (...). From
there ten sweeps have a smaller error than ten over tokens in turn from their usual start
(docs/scaling.md has figures)."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from vijax.families.numeric.pathwise import offset_without_loop
from vijax.inference.estep.token_draws import random_words, token_slots, uniform
from vijax.xla.threefry import threefry2x32

ROUNDS = 10
"""Rounds towards the mode before the first sweep."""


def sample_at_once(
    num_sweeps: int,
    burn_in: int,
    max_tokens: int,
    likelihood: Float[Array, "docs slots topics"],
    counts: Float[Array, "docs slots"],
    alpha: Float[Array, " topics"],
    seed: UInt32[Array, " two"],
) -> tuple[Float[Array, "docs topics"], Float[Array, "docs slots topics"]]:
    """gamma and the topics of tokens, as `vijax.contract.estep.Locals` has them."""
    slot = token_slots(counts, max_tokens).T
    blocked = split_topics(likelihood)

    def sweep(s: Array, carry: Any) -> Any:
        topic_counts, total = carry
        shares = draw_shares(alpha[None] + topic_counts, *words_of_sweep(seed, 2 * s))
        bits = random_words(seed, 2 * s + 1, slot.shape)
        topic_counts, normalizers = draw_tokens(shares, blocked, slot, bits)
        weight = (s >= burn_in) * counts / normalizers
        return topic_counts, total + weight[:, :, None] * shares[:, None, :] * likelihood

    start = near_mode(likelihood, counts, alpha), jnp.zeros_like(likelihood)
    _, total = jax.lax.fori_loop(0, burn_in + num_sweeps, sweep, start)
    token_topics = total / num_sweeps
    return alpha[None] + jnp.sum(token_topics, axis=1), token_topics


def near_mode(
    likelihood: Float[Array, "docs slots topics"],
    counts: Float[Array, "docs slots"],
    alpha: Float[Array, " topics"],
) -> Float[Array, "docs topics"]:
    """Expected counts of topics after `ROUNDS` rounds, without alpha."""

    def improve(_: Array, topic_counts: Array) -> Array:
        shares = alpha[None] + topic_counts
        normalizers = jnp.einsum("dnk,dk->dn", likelihood, shares, precision="highest")
        ratios = counts / normalizers
        sums = jnp.einsum("dnk,dn->dk", likelihood, ratios, precision="highest")
        return shares * sums

    start = jnp.sum(counts, axis=1, keepdims=True) * alpha / jnp.sum(alpha)
    return jax.lax.fori_loop(0, ROUNDS, improve, start)


def draw_shares(
    concentration: Float[Array, "docs topics"], *seed: UInt32[Array, ""]
) -> Float[Array, "docs topics"]:
    """Draws of Dirichlets, each divided by its largest share. A likelihood is 1e-30 at least, so
    that no word loses all topics where small shares are zeros."""
    offset = offset_without_loop(jnp.stack(seed), concentration)
    log_shares = offset + jnp.log(concentration + 2 / 3)
    return jnp.exp(log_shares - jnp.max(log_shares, axis=1, keepdims=True))


def draw_tokens(
    shares: Float[Array, "docs topics"],
    likelihood: Float[Array, "docs slots blocks inner"],
    slot: Int[Array, "docs tokens"],
    bits: UInt32[Array, "docs tokens"],
) -> tuple[Float[Array, "docs topics"], Float[Array, "docs slots"]]:
    """The number of each document's tokens in each topic, drawn in proportion to share and
    likelihood; and the sums of these products over topics.

    A token inverts the distribution function of its slot, first over blocks of topics, then inside
    its block. Products with a triangle of ones are sums up to each place in one operation."""
    _, slots, blocks, inner = likelihood.shape
    docs, num_topics = shares.shape
    shares = split_topics(shares)
    document = jnp.arange(docs)[:, None]
    nearest = jnp.minimum(slot, slots - 1)  # tokens that do not exist are dropped at the end
    sums = jnp.sum(likelihood * shares[:, None], axis=3)
    slot_ends = cumulate(sums)
    ends = slot_ends.at[document, nearest].get(mode="promise_in_bounds")
    target = uniform(bits, ends.dtype) * ends[..., -1]
    is_before = ends <= target[..., None]
    block = jnp.minimum(jnp.sum(is_before, axis=2, dtype=jnp.int32), blocks - 1)
    remainder = target - jnp.max(jnp.where(is_before, ends, 0.0), axis=2)
    weights = likelihood.at[document, nearest, block].get(mode="promise_in_bounds")
    weights *= shares.at[document, block].get(mode="promise_in_bounds")
    topic_ends = cumulate(weights)
    # Rounding may put the remainder at the end of the block: then its last topic with weight is
    # drawn.
    last = topic_ends[..., -1] * (1.0 - jnp.finfo(topic_ends.dtype).eps)
    is_before = topic_ends <= jnp.minimum(remainder, last)[..., None]
    topic = block * inner + jnp.sum(is_before, axis=2, dtype=jnp.int32)
    topic = jnp.where(slot < slots, topic, num_topics)
    zeros = jnp.zeros((docs, num_topics), ends.dtype)
    return zeros.at[document, topic].add(1.0, mode="drop"), slot_ends[..., -1]


def words_of_sweep(
    seed: UInt32[Array, " two"], stream: Int[Array, ""]
) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    """Two random words, the seed of a draw of shares."""
    return threefry2x32(seed[0], seed[1], jnp.uint32(0), stream.astype(jnp.uint32))


def cumulate(x: Float[Array, "*shape n"]) -> Float[Array, "*shape n"]:
    """Cumulative sums along the last axis. A cumulative sum of XLA is an operation for each power
    of two."""
    ones = jnp.triu(jnp.ones((x.shape[-1],) * 2, x.dtype))
    return jnp.matmul(x, ones, precision="highest")


def split_topics(x: Float[Array, "*shape topics"]) -> Float[Array, "*shape blocks inner"]:
    """The array with its last axis split into some sqrt(K) blocks of topics, the last padded with
    zeros."""
    topics = x.shape[-1]
    inner = max(1, math.isqrt(topics))
    blocks = -(-topics // inner)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, inner * blocks - topics)])
    return x.reshape(*x.shape[:-1], blocks, inner)
