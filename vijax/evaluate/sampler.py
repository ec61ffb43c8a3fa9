"""Gibbs sampling of the topics of tokens given the word probabilities of topics, with theta
integrated out: draws, and sweeps.

    p(z_i = k | z without i, w) = (alpha_k + n_k without i) beta_k[w_i] / normaliser

Rows are independent Markov chains (documents, or particles of documents), which visit their tokens
in parallel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Chains(NamedTuple):
    """Topic assignments of rows of tokens."""

    # Topic of each token; K for padding, and for a token without a topic yet
    z: Int[Array, "*rows tokens"]
    counts: Float[Array, "*rows K"]  # tokens of each topic: the sum of one-hot z


Choose = Callable[[Array, Array], Array]
"""(place, unnormalised probabilities of the topics of the token at this place) -> new topics."""


class Walk(NamedTuple):
    """The tokens of documents that chains visit.

    Several chains may visit one document: their leading axes need only broadcast against the
    leading axes here."""

    # beta[word] of each token up to a factor per token, in (0, 1]
    likelihood: Float[Array, "*rows tokens K"]
    lengths: Int[Array, "*rows"]  # tokens of each row
    alpha: Float[Array, " K"]  # concentration of theta

    def start(self, rows: tuple[int, ...]) -> Chains:
        """Chains whose tokens have no topic yet: the first sweep draws the topic of each token
        given the tokens before it."""
        num_tokens, num_topics = self.likelihood.shape[-2:]
        no_topic = jnp.full((*rows, num_tokens), num_topics, jnp.int32)
        return Chains(no_topic, jnp.zeros((*rows, num_topics), self.alpha.dtype))

    def word_probs(self, place: Array) -> Float[Array, "*rows K"]:
        """beta[word] of the token at `place` of each row."""
        return jax.lax.dynamic_index_in_dim(self.likelihood, place, axis=-2, keepdims=False)

    def weights(self, chains: Chains, place: Array) -> Float[Array, "*rows K"]:
        """Unnormalised probabilities of the topics of the token at `place`, given the topics of all
        other tokens of its row."""
        counts = chains.counts - self._one_hot(_read_place(chains.z, place))
        return (self.alpha + counts) * self.word_probs(place)

    def visit(self, chains: Chains, place: Array, choose: Choose) -> Chains:
        """The chains after the token at `place` of each row got a new topic from `choose`."""
        topic = choose(place, self.weights(chains, place))
        new = jnp.where(place < self.lengths, topic, self.alpha.shape[0])
        counts = chains.counts - self._one_hot(_read_place(chains.z, place)) + self._one_hot(new)
        return Chains(jax.lax.dynamic_update_index_in_dim(chains.z, new, place, axis=-1), counts)

    def _one_hot(self, z: Int[Array, "*rows"]) -> Float[Array, "*rows K"]:
        return jax.nn.one_hot(z, self.alpha.shape[0], dtype=self.alpha.dtype)

    def sweep(
        self,
        chains: Chains,
        choose: Choose,
        *,
        stop: Array | None = None,
        backward: Array | bool = False,
    ) -> Chains:
        """The chains after one visit to each token before `stop` (None: to all tokens), in order,
        or in reverse order if `backward`."""
        if stop is None:
            stop = jnp.max(self.lengths)

        def body(i, chains):
            return self.visit(chains, jnp.where(backward, stop - 1 - i, i), choose)

        return jax.lax.fori_loop(0, stop, body, chains)


def _read_place(z: Int[Array, "*rows tokens"], place: Array) -> Int[Array, "*rows"]:
    return jax.lax.dynamic_index_in_dim(z, place, axis=-1, keepdims=False)


def gibbs_choice(keys: PRNGKeyArray, chains: Chains) -> Choose:
    """The choice by draws from the conditionals: it makes a sweep a sweep of Gibbs sampling, or its
    time reversal if backward. `keys` (rows,) has one key for each row; the draws at a place do not
    depend on the width of the rows."""
    _, *within, num_tokens = chains.z.shape
    draw_row = lambda key: jax.random.uniform(key, (num_tokens, *within), chains.counts.dtype)
    uniforms = jnp.moveaxis(jax.vmap(draw_row)(keys), 1, 0)
    return lambda place, weights: draw_index(weights, uniforms[place])


def draw_index(
    weights: Float[Array, "*rows K"], uniforms: Float[Array, "*rows"]
) -> Int[Array, "*rows"]:
    """Index k with probability weights_k / sum(weights), by inverting the cumulative sum in two
    levels: first a block of about sqrt(K) weights, then a member of the block. A cumulative sum
    over all K is several times slower on a CPU than all else in a Gibbs update.

    >>> draw_index(jnp.array([0.0, 1.0, 0.0, 3.0]), jnp.array(0.3)).item()
    3
    """
    num_topics = weights.shape[-1]
    size = math.isqrt(num_topics - 1) + 1
    num_blocks = -(-num_topics // size)
    padding = [(0, 0)] * (weights.ndim - 1) + [(0, num_blocks * size - num_topics)]
    blocks = jnp.pad(weights, padding).reshape(*weights.shape[:-1], num_blocks, size)
    sums = jnp.cumsum(jnp.sum(blocks, axis=-1), axis=-1)
    target = uniforms * sums[..., -1]
    block = jnp.minimum(_rank(sums, target), num_blocks - 1)
    last = jnp.take_along_axis(sums, jnp.maximum(block - 1, 0)[..., None], axis=-1)[..., 0]
    before = jnp.where(block > 0, last, 0.0)
    members = jnp.take_along_axis(blocks, block[..., None, None], axis=-2)[..., 0, :]
    member = jnp.minimum(_rank(jnp.cumsum(members, axis=-1), target - before), size - 1)
    return jnp.minimum(block * size + member, num_topics - 1)


def _rank(
    cumulative: Float[Array, "*rows n"], target: Float[Array, "*rows"]
) -> Int[Array, "*rows"]:
    return jnp.sum(cumulative <= target[..., None], axis=-1, dtype=jnp.int32)
