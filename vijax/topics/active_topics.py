"""LDA with few topics in each document: the E-step and the bound cost L topics a document, not K.

Hughes and Sudderth 2016 ("Fast learning of clusters and topics via sparse posteriors"). Given its L
topics, q(theta_d) is Dirichlet with gamma_dk = alpha for all other topics, and only the sum of
these matters: KL(q || p) is the divergence of the aggregated Dirichlets (gamma of the L topics,
(K - L) alpha), for given the sum, the shares of the other topics have the same law under both."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.contract.batch import Documents, Minibatch
from vijax.contract.model import Hyper, LocalElbo
from vijax.families import Dirichlet
from vijax.families.numeric.special import digamma
from vijax.tree import register
from vijax.xla import native
from vijax.xla.chunks import merge_chunks, split_chunks
from vijax.xla.gather import docs_per_chunk, sum_over_rows

LOG_FLOOR = -69.0
"""exp(-69) = 1e-30: float32 cannot see differences between topics that are less likely than this,
compared with a word's best topic; and denormals, which slow every later product, never arise."""


class ActiveTopics(NamedTuple):
    """The topics that documents use most."""

    topics: Int[Array, "docs most"]  # topics of each document, the most used first
    used: Int[Array, " docs"]  # number of them that it may use, from the first on
    left_out: Float[Array, " docs"]  # share of its words that other topics have


@register
@dataclasses.dataclass(frozen=True)
class ActiveDocuments(Documents):
    """Documents that may use some topics only."""

    topics: Int[Array, "docs active"]  # topics of each document, the most used first
    # Places of the pairs (word, topic) of a slot among the pairs of the batch
    places: Int[Array, "docs slots active"]
    used: Int[Array, " docs"]  # number of its topics that it may use, from the first on
    left_out: Float[Array, " docs"]  # share of its words that a first round gave to other topics

    @classmethod
    def from_topics(
        cls, docs: Documents, active: ActiveTopics, places: Int[Array, "docs slots active"]
    ) -> ActiveDocuments:
        """Documents with the topics that were chosen for them."""
        fields = docs.words, docs.counts, docs.weights, docs.max_tokens
        return cls(*fields, active.topics, places, active.used, active.left_out)

    def plain(self) -> Documents:
        """The documents alone."""
        return Documents(self.words, self.counts, self.weights, self.max_tokens)


def choose(
    hyper: Hyper,
    table: Float[Array, "words topics"],
    totals: Float[Array, " topics"],
    docs: Documents,
    most: int,
    may_miss: float = 0.0,
) -> ActiveTopics:
    """The topics to which a round of mean field at the mean topics gives most of each document:
    `most` of them, or the fewest that leave no more than a share `may_miss` of its words to others.

    The round begins at the words' own responsibilities, and reads no draw.
    """
    dtype = table.dtype
    num_docs = len(docs.counts)
    counts = jnp.asarray(docs.counts, dtype)
    alpha = jnp.reshape(hyper["alpha"], 1).astype(dtype)
    results = (
        jax.ShapeDtypeStruct((num_docs, most), jnp.int32),
        jax.ShapeDtypeStruct((num_docs,), jnp.int32),
        jax.ShapeDtypeStruct((num_docs,), dtype),
    )
    by_xla = functools.partial(_choose, most, may_miss)
    arrays = table, totals, jnp.asarray(docs.words), counts, alpha
    topics, used, missed = native.run_kernel(
        "choose", results, by_xla, *arrays, may_miss=float(may_miss)
    )
    left_out = jnp.maximum(missed, 0.0) / jnp.maximum(jnp.sum(counts, axis=1), 1)
    return ActiveTopics(topics, used, left_out)


def _choose(
    most: int,
    may_miss: float,
    table: Array,
    totals: Array,
    words: Array,
    counts: Array,
    alpha: Array,
) -> tuple[Array, Array, Array]:
    """The topics of each document, their number, and the words that other topics have."""
    means = table / totals[None]
    shares = means / jnp.maximum(jnp.sum(means, axis=1, keepdims=True), jnp.finfo(means.dtype).tiny)

    def choose_chunk(chunk: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        words, counts = chunk
        rows = shares.at[words].get(mode="promise_in_bounds")
        weights = alpha[None] + jnp.einsum("dnk,dn->dk", rows, counts, precision="highest")
        level = jnp.maximum(jnp.einsum("dnk,dk->dn", rows, weights, precision="highest"), 1e-30)
        tokens = weights * jnp.einsum("dnk,dn->dk", rows, counts / level, precision="highest")
        largest, topics = jax.lax.top_k(tokens, most)
        sums = jnp.cumsum(largest, axis=1)
        total = jnp.sum(tokens, axis=1)
        wanted = (1 - may_miss) * total if may_miss > 0 else jnp.full_like(total, jnp.inf)
        used = 1 + jnp.sum(sums[:, :-1] < jnp.expand_dims(wanted, -1), axis=1, dtype=jnp.int32)
        return topics, used, total - jnp.take_along_axis(sums, used[:, None] - 1, axis=1)[:, 0]

    per_chunk = docs_per_chunk(words.shape[1], shares.shape[1], cache_bytes=2**18)
    chunks = jax.lax.map(choose_chunk, split_chunks((words, counts), per_chunk))
    return merge_chunks(chunks, words.shape[0])  # type: ignore[return-value]


class _Chunk(NamedTuple):
    """Documents, the places of the pairs of their slots, and the number of topics that each uses,
    as one pytree for `sum_over_rows`."""

    documents: Documents
    places: Int[Array, "docs slots active"]
    used: Int[Array, " docs"]

    @property
    def words(self) -> Array:
        """The rows of the table to look up."""
        return self.places


def bound(
    num_topics: int,
    hyper: Hyper,
    log_topics: Float[Array, " pairs"],
    batch: Minibatch,
    key: PRNGKeyArray,
    estep: Any,
) -> LocalElbo:
    """The bound of documents with active topics; `log_topics` is log beta of the batch's pairs."""
    all_docs: tuple[ActiveDocuments, ...] = batch.data
    num_active = all_docs[0].topics.shape[1]
    alpha = jnp.broadcast_to(hyper["alpha"], (num_active,))
    if hasattr(estep, "tol"):  # for the mean over all topics; gamma of the others does not change
        estep = dataclasses.replace(estep, tol=estep.tol * num_topics / num_active)
    total, aux = sum_over_rows(
        functools.partial(_chunk_bound, estep, num_topics),
        log_topics,
        jax.lax.stop_gradient(alpha),
        [_split(docs, estep) for docs in all_docs],
        key,
    )
    sizes = [docs.weights.shape[0] for docs in all_docs]
    merged = [merge_chunks(part, size) for part, size in zip(aux, sizes, strict=True)]
    bounds, gammas = zip(*merged, strict=True)

    to_law = functools.partial(_aggregated_law, hyper["alpha"], num_topics - num_active)
    prior = to_law(jnp.broadcast_to(alpha, (sum(sizes), num_active)))
    kl = to_law(jnp.concatenate(gammas)).kl(prior)
    divergence = jnp.split(kl, np.cumsum(sizes)[:-1])
    total -= sum(jnp.vdot(docs.weights, d) for docs, d in zip(all_docs, divergence, strict=True))
    per_group = tuple(jax.lax.stop_gradient(b - d) for b, d in zip(bounds, divergence, strict=True))
    num_groups = sum(jnp.sum(docs.weights) for docs in all_docs)
    return LocalElbo(total, num_groups, per_group, gammas, said=_usage(all_docs))  # type: ignore[arg-type]


def _split(docs: ActiveDocuments, estep: Any) -> _Chunk:
    """Documents in chunks for `sum_over_rows`."""
    per_chunk = estep.docs_per_chunk(docs.words.shape[1], docs.topics.shape[1])
    return split_chunks(_Chunk(docs.plain(), docs.places, docs.used), per_chunk)


def _usage(all_docs: tuple[ActiveDocuments, ...]) -> dict[str, Any]:
    """The number of words, the share of them that was left out, and the mean number of topics."""
    num_words = sum(jnp.sum(docs.counts) for docs in all_docs)
    missed = sum(jnp.vdot(jnp.sum(docs.counts, axis=1), docs.left_out) for docs in all_docs)
    used = sum(jnp.vdot(docs.weights, docs.used.astype(docs.weights.dtype)) for docs in all_docs)
    num_groups = sum(jnp.sum(docs.weights) for docs in all_docs)
    return {
        "num_words": num_words,
        "left_out": missed / jnp.maximum(num_words, 1),
        "active_topics": used / jnp.maximum(num_groups, 1),
    }


def _chunk_bound(
    estep: Any,
    num_topics: int,
    log_rows: Float[Array, "D n L"],
    alpha: Float[Array, " L"],
    chunk: _Chunk,
    key: Any,
) -> tuple[Float[Array, ""], tuple[Array, Array]]:
    """The total expected log likelihood of a chunk of documents, differentiable in log rows; and
    for each document this term and gamma."""
    docs = chunk.documents
    fixed = jax.lax.stop_gradient(log_rows)
    alpha = jax.lax.stop_gradient(alpha)
    # A topic that is not used has likelihood zero: its gamma stays alpha, as for all other topics.
    # (Documents that fill up a chunk use none.)
    num_used = jnp.maximum(chunk.used, 1)[:, None]
    is_used = (jnp.arange(alpha.size)[None] < num_used)[:, None, :]
    best = jnp.max(fixed, axis=2, initial=-jnp.inf, where=is_used)
    likelihood = jnp.exp(jnp.clip(fixed - best[:, :, None], LOG_FLOOR, 0.0))
    likelihood = jnp.where(is_used, likelihood, 0.0)
    local = estep.mixed_membership(likelihood, docs.counts, alpha, key, docs.max_tokens)
    local = jax.lax.stop_gradient(local)
    inactive_alpha = (num_topics - alpha.size) * alpha[0]
    gamma_sum = jnp.sum(local.gamma, axis=1, keepdims=True) + inactive_alpha
    weights = digamma(local.gamma) - digamma(gamma_sum)
    largest = jnp.max(weights, axis=1, keepdims=True)
    mixed = jnp.einsum("dnl,dl->dn", likelihood, jnp.exp(weights - largest), precision="highest")
    is_word = docs.counts > 0
    log_probs = jnp.log(jnp.where(is_word, mixed, 1.0)) + largest + best
    per_doc = jnp.sum(docs.counts * log_probs, axis=1)
    tokens = local.token_topics
    if tokens is None:  # the optimal responsibilities
        tokens = likelihood * jnp.exp(weights - largest)[:, None, :]
        tokens = tokens * (docs.counts / jnp.where(is_word, mixed, 1.0))[:, :, None]
    # Its value is zero, and its gradient in log rows are the expected counts
    energy = jnp.sum(docs.weights[:, None, None] * tokens * (log_rows - fixed))
    return jnp.vdot(docs.weights, per_doc) + energy, (per_doc, local.gamma)


def _aggregated_law(
    alpha: Float[Array, ""], num_inactive: int, gamma: Float[Array, "docs active"]
) -> Dirichlet:
    """The Dirichlet of the active topics, with all inactive ones, if any, as one more."""
    if num_inactive == 0:
        return Dirichlet(gamma)
    inactive = jnp.broadcast_to(num_inactive * alpha, (len(gamma), 1))
    return Dirichlet(jnp.concatenate([gamma, inactive], axis=1))
