"""LDA whose documents are held to few topics: the E-step and the bound cost L topics a document,
not K.

Hughes and Sudderth 2016 ("Fast learning of clusters and topics via sparse posteriors"). Given its L
topics, q(theta_d) is Dirichlet with gamma_dk = alpha for all others, of which only the sum matters:
KL(q || p) is that of the aggregated Dirichlets (gamma of the L, (K - L) alpha), for what is left of
both is the same."""

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
"""exp(-69) = 1e-30: topics this much less likely than a word's best are told apart by nothing a
float32 can see, and denormals, which slow every later product, never arise."""


class ActiveTopics(NamedTuple):
    """The topics that documents use most."""

    topics: Int[Array, "docs most"]  # those of each document, the one that it uses most first
    used: Int[Array, " docs"]  # number of them that it may use, from the first on
    left_out: Float[Array, " docs"]  # share of its words that other topics have


@register
@dataclasses.dataclass(frozen=True)
class ActiveDocuments(Documents):
    """Documents that are held to some topics."""

    topics: Int[Array, "docs active"]  # the topics that each document may use
    places: Int[
        Array, "docs slots active"
    ]  # places of the pairs (word, topic) of a slot among those of the batch
    used: Int[Array, " docs"]  # number of them that it may use, from the first on
    left_out: Float[
        Array, " docs"
    ]  # the share of its words that a first round gave to other topics

    @classmethod
    def of(
        cls, docs: Documents, chosen: ActiveTopics, places: Int[Array, "docs slots active"]
    ) -> ActiveDocuments:
        """These documents, held to the topics that were chosen for them."""
        own = (docs.words, docs.counts, docs.weights, docs.max_tokens)
        return cls(*own, chosen.topics, places, chosen.used, chosen.left_out)

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

    The round begins at the words' own responsibilities. No draw is looked at.
    """
    dtype, num_docs = table.dtype, len(docs.counts)
    counts, alpha = jnp.asarray(docs.counts, dtype), jnp.reshape(hyper["alpha"], 1).astype(dtype)
    ids = [jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((num_docs, most), (num_docs,))]
    results = *ids, jax.ShapeDtypeStruct((num_docs,), dtype)
    given = table, totals, jnp.asarray(docs.words), counts, alpha
    by_xla = functools.partial(_choose, most, may_miss)
    topics, used, left = native.run_kernel(
        "choose", results, by_xla, *given, may_miss=float(may_miss)
    )
    return ActiveTopics(
        topics, used, jnp.maximum(left, 0.0) / jnp.maximum(jnp.sum(counts, axis=1), 1)
    )


def _choose(
    most: int,
    may_miss: float,
    table: Array,
    totals: Array,
    words: Array,
    counts: Array,
    alpha: Array,
) -> tuple[Array, Array, Array]:
    """The topics of each document, how many it uses, and how much the others have."""
    means = table / totals[None]
    shares = means / jnp.maximum(jnp.sum(means, axis=1, keepdims=True), jnp.finfo(means.dtype).tiny)

    def some(chunk: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        words, counts = chunk
        rows = shares.at[words].get(mode="promise_in_bounds")
        weights = alpha[None] + jnp.einsum("dnk,dn->dk", rows, counts, precision="highest")
        level = jnp.maximum(jnp.einsum("dnk,dk->dn", rows, weights, precision="highest"), 1e-30)
        found = weights * jnp.einsum("dnk,dn->dk", rows, counts / level, precision="highest")
        kept, topics = jax.lax.top_k(found, most)
        sums, total = jnp.cumsum(kept, axis=1), jnp.sum(found, axis=1)
        wanted = (1 - may_miss) * total if may_miss > 0 else jnp.full_like(total, jnp.inf)
        used = 1 + jnp.sum(sums[:, :-1] < jnp.expand_dims(wanted, -1), axis=1, dtype=jnp.int32)
        return topics, used, total - jnp.take_along_axis(sums, used[:, None] - 1, axis=1)[:, 0]

    per_chunk = docs_per_chunk(words.shape[1], shares.shape[1], cache_bytes=2**18)
    found = jax.lax.map(some, split_chunks((words, counts), per_chunk))
    return merge_chunks(found, words.shape[0])  # type: ignore[return-value]


class _Chunk(NamedTuple):
    """Documents, where the pairs of their slots are, and how many topics each uses, in one pytree
    for `sum_over_rows`."""

    documents: Documents
    places: Int[Array, "docs slots active"]
    used: Int[Array, " docs"]

    @property
    def words(self) -> Array:
        """What the table is looked up by."""
        return self.places


def bound(
    num_topics: int,
    hyper: Hyper,
    log_topics: Float[Array, " pairs"],
    batch: Minibatch,
    key: PRNGKeyArray,
    estep: Any,
) -> LocalElbo:
    """Of documents with active topics; `log_topics` are log beta of the batch's pairs."""
    held: tuple[ActiveDocuments, ...] = batch.data
    most = held[0].topics.shape[1]
    alpha = jnp.broadcast_to(hyper["alpha"], (most,))
    if hasattr(estep, "tol"):  # of the mean over all topics, of which those left out do not change
        estep = dataclasses.replace(estep, tol=estep.tol * num_topics / most)
    size = lambda docs: estep.docs_per_chunk(docs.words.shape[1], most)
    chunks = [
        split_chunks(_Chunk(docs.plain(), docs.places, docs.used), size(docs)) for docs in held
    ]
    total, aux = sum_over_rows(
        functools.partial(_chunk_bound, estep, num_topics),
        log_topics,
        jax.lax.stop_gradient(alpha),
        chunks,
        key,
    )
    sizes = [docs.weights.shape[0] for docs in held]
    bounds, gammas = zip(
        *(merge_chunks(part, n) for part, n in zip(aux, sizes, strict=True)), strict=True
    )
    others = functools.partial(_with_rest, hyper["alpha"], num_topics - most)
    kl = others(jnp.concatenate(gammas)).kl(others(jnp.broadcast_to(alpha, (sum(sizes), most))))
    divergence = jnp.split(kl, np.cumsum(sizes)[:-1])
    total -= sum(jnp.vdot(docs.weights, d) for docs, d in zip(held, divergence, strict=True))
    per_group = tuple(jax.lax.stop_gradient(b - d) for b, d in zip(bounds, divergence, strict=True))
    num_words = sum(jnp.sum(docs.counts) for docs in held)
    left = sum(jnp.vdot(jnp.sum(docs.counts, axis=1), docs.left_out) for docs in held)
    used = sum(jnp.vdot(docs.weights, docs.used.astype(docs.weights.dtype)) for docs in held)
    num_groups = sum(jnp.sum(docs.weights) for docs in held)
    shares = {
        "left_out": left / jnp.maximum(num_words, 1),
        "active_topics": used / jnp.maximum(num_groups, 1),
    }
    return LocalElbo(total, num_groups, per_group, gammas, said={"num_words": num_words, **shares})  # type: ignore[arg-type,dict-item]


def _chunk_bound(
    estep: Any,
    num_topics: int,
    log_rows: Float[Array, "D n L"],
    alpha: Float[Array, " L"],
    chunk: _Chunk,
    key: Any,
) -> tuple[Float[Array, ""], tuple[Array, Array]]:
    """Total expected log likelihood of a chunk of documents, differentiable in log rows; that and
    gamma of each."""
    docs, fixed, alpha = (
        chunk.documents,
        jax.lax.stop_gradient(log_rows),
        jax.lax.stop_gradient(alpha),
    )
    # A topic that is not used has likelihood zero: its gamma stays alpha, as those of all others
    # are. (What fills up a chunk uses none.)
    used = (jnp.arange(alpha.size)[None] < jnp.maximum(chunk.used, 1)[:, None])[:, None, :]
    best = jnp.max(fixed, axis=2, initial=-jnp.inf, where=used)
    likelihood = jnp.where(used, jnp.exp(jnp.clip(fixed - best[:, :, None], LOG_FLOOR, 0.0)), 0.0)
    found = estep.mixed_membership(likelihood, docs.counts, alpha, key, docs.max_tokens)
    local = jax.lax.stop_gradient(found)
    rest = (num_topics - alpha.size) * alpha[0]
    weights = digamma(local.gamma) - digamma(jnp.sum(local.gamma, axis=1, keepdims=True) + rest)
    largest = jnp.max(weights, axis=1, keepdims=True)
    mixed = jnp.einsum("dnl,dl->dn", likelihood, jnp.exp(weights - largest), precision="highest")
    known = docs.counts > 0
    per_doc = jnp.sum(
        docs.counts * (jnp.log(jnp.where(known, mixed, 1.0)) + largest + best), axis=1
    )
    tokens = local.token_topics
    if tokens is None:  # the optimal ones
        tokens = likelihood * jnp.exp(weights - largest)[:, None, :]
        tokens = tokens * (docs.counts / jnp.where(known, mixed, 1.0))[:, :, None]
    # Zero, whose gradient in log rows are the expected counts.
    energy = jnp.sum(docs.weights[:, None, None] * tokens * (log_rows - fixed))
    return jnp.vdot(docs.weights, per_doc) + energy, (per_doc, local.gamma)


def _with_rest(
    alpha: Float[Array, ""], others: int, gamma: Float[Array, "docs active"]
) -> Dirichlet:
    """With the other topics as one more, where there are any."""
    if others == 0:
        return Dirichlet(gamma)
    return Dirichlet(
        jnp.concatenate([gamma, jnp.broadcast_to(others * alpha, (len(gamma), 1))], axis=1)
    )
