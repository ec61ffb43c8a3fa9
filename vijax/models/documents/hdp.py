"""Topics of a hierarchical Dirichlet process with learnt top weights, by direct assignment (Teh,
Jordan, Beal and Blei 2006, section 5.3).

    v_k ~ Beta(1, gamma),  beta_k = v_k prod_{j<k} (1 - v_j),  phi_k ~ Dirichlet(eta),            k = 1, 2, ...
    pi_d ~ DP(alpha, beta),  z_dm ~ Categorical(pi_d),  w_dm ~ Categorical(phi_{z_dm})

The posterior is q(v) q(phi) and, in each document, q(z) q(pi | v) with q(pi | v) = Dirichlet(alpha
beta + n), the exact conditional of pi at the expected numbers of words n_k = sum_m r_mk. This
equals integrating pi out (Teh, Kurihara and Welling 2008). With x_k = alpha beta_k and f(x, n) =
log Gamma(x + n) - log Gamma(x) for whole n,

    log p(z | v) = log Gamma(alpha) - log Gamma(alpha + N) + sum_k f(x_k, n_k).

q(z) gives no token to topics after the truncation K, for which q(v) and q(phi) are the priors. So
bounds of different K are bounds of one model. E f(x_k, n_k) under q(z) q(v) needs a lower bound,
which here is

    h(log x, n) = n log x            for n < 1,
                  f(x, n)            for n >= 1,        at x_k = alpha exp(E log beta_k), n_k = sum_m r_mk.

1. In n: f is convex with f(x, 0) = 0 and f(x, 1) = log x. So the mean of f over whole numbers with
   mean n is at least the chord of f between the whole numbers around n, which is n log x for n < 1,
   and above f for n >= 1.
2. In log x: n log x is linear. For n >= 1 f is convex, because its slope is

       x (psi(x + n) - psi(x)) = integral over y > 0 of e^-y (1 - e^{-n y/x}) / (1 - e^{-y/x}) dy,

   and the fraction, the slope of a^n between a = e^{-y/x} and 1, increases with a and so with x. By
   Jensen's inequality E log x may replace log x.

So h gives a valid bound, which is differentiable in the statistics of v: at fixed q(z) it is convex
in them, and linear in the statistics of phi. Its gradient in log beta_k is the expected number of
tables that serve topic k in the document, x (psi(x + n) - psi(x)) (n below one word). This count is
the message, and q(v) = Beta(1 + T_k, gamma + sum_{j>k} T_j) with T the tables of all documents: the
step of direct assignment, without draws. Each step maximises a tangent, so that no step lowers the
bound.

Hughes, Kim and Sudderth (2015) use the bound log Gamma(alpha) - sum_k log Gamma(alpha beta_k) >= K
log alpha + sum_k log beta_k instead, with q(pi) independent of v: each document has a table for
every topic, used or not. Their q(v) needs E beta_k, which is not linear in the statistics of v, and
an optimiser.

The E-step is first that of LDA at the prior concentrations x, with the slope psi(x + n) instead of
the slope of h, and then coordinate ascent on h: r_mk is proportional to exp(E log phi_kw)
exp(dh/dn), which maximises the tangent of the convex h. With h alone, documents with few words for
each topic would not leave an even start."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positive, Positives, Size, check_arguments
from vijax.contract.batch import (
    DataForm,
    DocumentForm,
    Documents,
    Minibatch,
    word_concentration,
    word_prior,
)
from vijax.contract.estep import iterate_by_document
from vijax.contract.model import Estimates, Hyper, LocalElbo, LocalsPlan, Model
from vijax.contract.queries import Generative, answers
from vijax.contract.room import limit_sizes
from vijax.families import Dirichlet, Product
from vijax.families.discrete import stick_breaking
from vijax.families.numeric.special import digamma, legendre_gap, log_gamma
from vijax.inference import estep as esteps
from vijax.inference.estep import MeanField
from vijax.models.documents.document_draws import topic_generative
from vijax.models.documents.lda import mean_shares, near_uniform, smoothed_topics
from vijax.models.documents.likelihoods import sum_over_words
from vijax.xla.by_value import cache_by_value
from vijax.xla.chunks import merge_chunks, split_chunks

LEAST = 1e-20
"""Least concentration of a document's topics, outside of logarithms."""


@cache_by_value
@limit_sizes
@check_arguments
def hdp(
    num_topics: Size,
    vocab_size: Size,
    alpha: Positive = 1.0,
    gamma: Positive = 1.0,
    eta: Positives = 0.01,
    estep: MeanField | None = None,
) -> Model:
    """Topics of a hierarchical Dirichlet process: the top weights of topics are learnt.

    Args:
      num_topics: K, the largest number of topics; `vijax.grow` finds the number in use.
      vocab_size: V, number of words.
      alpha: concentration of a document's topics about the weights at the top; small: few topics
        each. It is the total over topics: alpha of `lda` times K.
      gamma: concentration of the weights at the top; small: few topics in all.
      eta: prior concentration of a topic's words, as in `lda`.
      estep: `vijax.estep.mean_field()` if None.

    Returns:
      A `Model` with two globals, `topics`, a Dirichlet of batch shape (K,), and `sticks`, a Beta of
      shape (K,), and hyperparameters `alpha`, `gamma` and `eta`.
      `vijax.families.discrete.stick_breaking.mean_weights(sticks)` are the weights of the K topics,
      then the weight of all others. Data are as for `lda`. `fit.transform` gives shares of the K
      topics, and `fit.score` is document completion at the posterior means of the globals.

    Raises:
      ValueError: a size below 1, a concentration that is not positive or of the wrong shape.

    >>> import numpy as np, vijax as vi
    >>> counts = np.array([[9, 1, 0, 0], [8, 2, 0, 0], [0, 0, 1, 9], [0, 0, 2, 7]])
    >>> fit = vi.fit(vi.cavi(hdp(6, 4, eta=0.5)), counts, num_steps=60, key=jax.random.key(0))
    >>> tables = fit.posterior["sticks"].alpha - 1  # of each topic: two hold all documents
    >>> int((tables > 0.5).sum())
    2
    """
    hyper = {
        "alpha": jnp.asarray(alpha, float),
        "gamma": jnp.asarray(gamma, float),
        "eta": word_concentration(eta, num_topics, vocab_size),
    }

    def prior(hyper: Hyper) -> Product:
        topics = word_prior(hyper["eta"], num_topics, vocab_size)
        return Product(
            {
                "sticks": stick_breaking.dirichlet_process(hyper["gamma"], num_topics),
                "topics": topics,
            }
        )

    return Model(
        hyper,
        prior,
        _local_elbo,
        _start,
        estep or esteps.mean_field(),
        form=DataForm(documents=DocumentForm(int(vocab_size), {"topics": ("eta",)})),
        # Not linear in the statistics of sticks, but convex: tangents are lower bounds too
        locals=LocalsPlan(
            functools.partial(_cold, num_topics), solved_by=MeanField, is_linear=True
        ),
        queries=answers(
            _generative(num_topics, int(vocab_size)), score=_completion, transform=mean_shares
        ),
    )


def _start(hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None) -> Product:
    """Topics near uniform, weights at the top nearly even."""
    sticks: Any = prior["sticks"]
    even = stick_breaking.nearly_even(sticks, sticks.alpha.size)
    return prior.replace({"sticks": even, **near_uniform(hyper, key, prior, batch)})


# --- queries --------------------------------------------------------------------------------------
def _generative(num_topics: int, vocab_size: int) -> Generative:
    """Documents of the K topics; later topics have no words."""

    def local(hyper: Any, values: Any, places: Array, key: PRNGKeyArray) -> dict[str, Array]:
        weights = stick_breaking.weights(values["sticks"])[:num_topics]
        concentration = jnp.maximum(hyper["alpha"] * weights, LEAST)
        return {"shares": Dirichlet(concentration).sample(key, (len(places),))}

    known_families = lambda stats, gamma: {"shares": Dirichlet(gamma)}
    return topic_generative(
        vocab_size, local, lambda values, local: local["shares"], known_families
    )


def _completion(hyper: Hyper, estimates: Estimates, data: Any, key: PRNGKeyArray) -> Any:
    """Document completion at the mean topics and the mean weights at the top, nats per word (see
    `vijax.evaluate.document_completion`)."""
    from vijax.evaluate import document_completion

    weights = stick_breaking.mean_weights(estimates["sticks"])[:-1]
    alpha = jnp.maximum(hyper["alpha"] * weights, 1e-6)
    return document_completion(smoothed_topics(estimates), alpha, data, key)


# --- documents ------------------------------------------------------------------------------------
class _Chunk(NamedTuple):
    """Documents and the start of their E-step, in one pytree for `sum_over_words`."""

    documents: Documents
    start: Float[Array, "docs K"] | None

    @property
    def words(self) -> Array:
        """Word ids, by which the rows are looked up."""
        return self.documents.words


class SharedNumbers(NamedTuple):
    """Numbers that all documents share, beside the topics: E log x_k, and alpha."""

    log_x: Float[Array, " K"]
    alpha: Float[Array, ""]

    @classmethod
    def from_stats(cls, hyper: Hyper, stats: Any) -> Self:
        """From the statistics of sticks."""
        log_beta = stick_breaking.log_weights(stats["sticks"])[:-1]
        alpha = jnp.asarray(hyper["alpha"], log_beta.dtype)
        return cls(jnp.log(alpha) + log_beta, alpha)

    @property
    def x(self) -> Float[Array, " K"]:
        """x_k, positive."""
        return jnp.maximum(jnp.exp(self.log_x), LEAST)


def _cold(num_topics: int, hyper: Hyper, batch: Minibatch) -> tuple[Float[Array, "docs K"], ...]:
    """The words of each document, divided evenly among the topics."""
    even = lambda counts: jnp.sum(counts, axis=1, keepdims=True) / num_topics * jnp.ones(num_topics)
    return tuple(even(jnp.asarray(docs.counts)) + LEAST for docs in batch.data)


def _local_elbo(
    hyper: Hyper, stats: Any, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    shared = SharedNumbers.from_stats(hyper, stats)
    starts = batch.local or (None,) * len(batch.data)
    size = lambda docs: estep.docs_per_chunk(docs.words.shape[1], shared.log_x.size)
    chunks = [split_chunks(_Chunk(d, s), size(d)) for d, s in zip(batch.data, starts, strict=True)]
    bound = functools.partial(_chunk_bound, estep)
    total, aux, log_scale = sum_over_words(bound, stats["topics"], shared, chunks, key)
    sizes = [docs.weights.shape[0] for docs in batch.data]
    bounds, gammas = zip(
        *(merge_chunks(part, size) for part, size in zip(aux, sizes, strict=True)), strict=True
    )
    scales = [jnp.sum(docs.counts * log_scale[docs.words], axis=1) for docs in batch.data]
    total += sum(
        jnp.vdot(docs.weights, scale) for docs, scale in zip(batch.data, scales, strict=True)
    )
    per_group = tuple(
        jax.lax.stop_gradient(b + scale) for b, scale in zip(bounds, scales, strict=True)
    )
    num_groups = jnp.sum(jnp.array([jnp.sum(docs.weights) for docs in batch.data]))
    num_words = jnp.sum(jnp.array([jnp.sum(docs.counts) for docs in batch.data]))
    return LocalElbo(total, num_groups, per_group, gammas, said={"num_words": num_words})


def _chunk_bound(
    estep: MeanField,
    rows: Float[Array, "D n K"],
    shared: SharedNumbers,
    chunk: _Chunk,
    key: PRNGKeyArray,
) -> tuple[Float[Array, ""], tuple[Array, Array]]:
    """Total bound of a chunk of documents, differentiable in rows and `shared`; and the bound and
    gamma of each document."""
    docs, (fixed, fixed_shared) = chunk.documents, jax.lax.stop_gradient((rows, shared))
    counts = docs.counts.astype(rows.dtype)
    slope, words = _ascend(estep, fixed, counts, fixed_shared, chunk.start, docs.max_tokens, key)
    total_words = jnp.sum(counts, axis=1)
    # Weights relative to psi(alpha + N): terms of the size of N log N then cancel analytically.
    top = digamma(fixed_shared.alpha + total_words)
    weights = jnp.exp(slope - top[:, None])
    mixed = jnp.einsum("dnk,dk->dn", rows, weights, precision="highest")
    likelihood = jnp.sum(counts * jnp.log(jnp.where(counts > 0, mixed, 1.0)), axis=1)
    by_topic = _tangent_gap(shared.log_x, words) + words * (
        _slope(fixed_shared.log_x, words) - slope
    )
    log_all_words = log_gamma(shared.alpha) - log_gamma(shared.alpha + total_words)
    # log_all_words + N psi(alpha + N) - N, with the gradient of log_all_words.
    all_words = (
        log_gamma(fixed_shared.alpha)
        - legendre_gap(fixed_shared.alpha + total_words)
        + fixed_shared.alpha * (1.0 - top)
    )
    all_words += log_all_words - jax.lax.stop_gradient(log_all_words)
    bounds = likelihood + jnp.sum(by_topic, axis=1) + all_words
    return jnp.vdot(docs.weights.astype(rows.dtype), bounds), (bounds, fixed_shared.x + words)


def _ascend(
    estep: MeanField,
    likelihood: Float[Array, "D n K"],
    counts: Float[Array, "D n"],
    shared: SharedNumbers,
    start: Float[Array, "D K"] | None,
    max_tokens: int,
    key: PRNGKeyArray,
) -> tuple[Float[Array, "D K"], Float[Array, "D K"]]:
    """The slopes of the last responsibilities, and the number of words of each topic at them."""
    start = None if start is None else jnp.maximum(start.astype(counts.dtype), shared.x[None])
    gamma = estep.mixed_membership(likelihood, counts, shared.x, key, max_tokens, start).gamma

    def improve(words: Float[Array, "D K"], data: tuple[Array, Array]) -> Float[Array, "D K"]:
        likelihood, counts = data
        slope = _slope(shared.log_x, words)
        weights = jnp.exp(slope - jnp.max(slope, axis=1, keepdims=True))
        mixed = jnp.einsum("dnk,dk->dn", likelihood, weights, precision="highest")
        return weights * jnp.einsum("dnk,dn->dk", likelihood, counts / mixed, precision="highest")

    first = jnp.maximum(gamma - shared.x[None], 0.0)
    data = likelihood, counts
    words = iterate_by_document(
        improve, first, lambda n: n, counts, estep.max_iters, estep.tol, data
    )
    return _slope(shared.log_x, words), improve(words, data)


def _slope(log_x: Float[Array, " K"], n: Float[Array, "D K"]) -> Float[Array, "D K"]:
    """dh/dn."""
    return jnp.where(n < 1, log_x, digamma(jnp.exp(log_x) + jnp.maximum(n, 1.0)))


def bound_of_words(log_x: Float[Array, " K"], n: Float[Array, "D K"]) -> Float[Array, "D K"]:
    """h, the contribution of n words of a topic to the bound of a document."""
    x = jnp.exp(log_x)
    return jnp.where(
        n < 1, n * log_x, log_gamma(x + jnp.maximum(n, 1.0)) - log_gamma(1 + x) + log_x
    )


@jax.custom_jvp
def _tangent_gap(log_x: Float[Array, " K"], n: Float[Array, "D K"]) -> Float[Array, "D K"]:
    """h - n dh/dn + n, without the terms of the size of n and n log n, which cancel. As a function
    of log x it has the slope of h at a fixed dh/dn."""
    x = jnp.exp(log_x)
    many = x + jnp.maximum(n, 1.0)
    gap = legendre_gap(many) + x * (digamma(many) - 1.0) - log_gamma(1 + x) + log_x
    return jnp.where(n < 1, n, gap)


@_tangent_gap.defjvp
def _tangent_gap_jvp(primals: tuple, tangents: tuple) -> tuple:
    (log_x, n), (dlog_x, _) = primals, tangents
    return _tangent_gap(log_x, n), tables(log_x, n) * dlog_x


def tables(log_x: Float[Array, " K"], n: Float[Array, "D K"]) -> Float[Array, "D K"]:
    """dh/d log x: the expected number of tables that serve n words of a topic.

    >>> print(tables(jnp.log(jnp.array([2.0])), jnp.array([[0.25], [1.0], [3.0]])).round(3)[:, 0])  # 1 + 2/3 + 2/4
    [0.25  1.    2.167]
    """
    x = jnp.exp(log_x)
    return jnp.where(n < 1, n, 1 + x * (digamma(x + jnp.maximum(n, 1.0)) - digamma(1 + x)))
