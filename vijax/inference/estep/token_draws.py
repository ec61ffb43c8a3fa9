"""Random numbers of the tokens of documents, and the words that the tokens are."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from vijax.xla.threefry import threefry2x32


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
