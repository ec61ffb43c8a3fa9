"""Latent Dirichlet allocation (Hoffman and Blei 2015, section 4.1; Blei, Kucukelbir and McAuliffe
2017, section 4.3; Pei 2019, section on LDA).

    beta_k ~ Dirichlet(eta),  theta_d ~ Dirichlet(alpha),
    z_dm ~ Categorical(theta_d),  w_dm ~ Categorical(beta_{z_dm})

The local bound of a document at topics beta, q(theta_d) = Dirichlet(gamma_d) and optimal
responsibilities, is

    l_d(log beta) = sum_v c_dv log sum_k exp(E log theta_dk) beta_kv
                    - KL(Dirichlet(gamma_d) || Dirichlet(alpha)),

for *any* gamma_d a lower bound of log p(w_d | beta). Mean field maximises it in gamma_d. Gibbs and
CVB0 supply other expected topic counts N_dvk: the energy sum N log beta then gives the gradient,
and the reported bound is the one at gamma_d = alpha + sum N."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax import tree
from vijax.arguments import Positives, Size, check_arguments
from vijax.checks import require
from vijax.contract.batch import (
    DataForm,
    DocumentForm,
    Documents,
    Minibatch,
    word_concentration,
    word_prior,
)
from vijax.contract.model import Estimates, Hyper, LocalElbo, LocalsPlan, Model
from vijax.contract.queries import Generative, answers
from vijax.contract.room import limit_sizes
from vijax.families import Dirichlet, Point, Product
from vijax.families.base import as_float
from vijax.inference import estep as esteps
from vijax.inference.estep import Locals
from vijax.inference.estep.mixed_membership import cold
from vijax.models.documents.document_draws import topic_generative
from vijax.models.documents.likelihoods import sum_over_words
from vijax.topics import active_topics
from vijax.topics.seeds import seed_weights
from vijax.xla.by_value import cache_by_value
from vijax.xla.chunks import merge_chunks, split_chunks
from vijax.xla.device import join_parts


@cache_by_value
@limit_sizes
@check_arguments
def lda(
    num_topics: Size,
    vocab_size: Size,
    alpha: Positives = 0.1,
    eta: Positives = 0.01,
    estep: Any = None,
) -> Model:
    """Latent Dirichlet allocation.

    Args:
      num_topics: K, number of topics.
      vocab_size: V, number of words.
      alpha: prior concentration of a document's topics; small: few topics each. A scalar or shape
          (K,).
      eta: prior concentration of a topic's words; small: sharper topics. A scalar or shape (V,); or
        (K, V), as `vijax.topics.seeded` makes it from seed words.
      estep: default E-step; `vijax.estep.mean_field()` if None.

    Returns:
      A `Model` with one global, `topics`, a Dirichlet of batch shape (K,), and hyperparameters
      `alpha` and `eta`. Its data are tuples of `vijax.Documents`.

    Raises:
      ValueError: a size below 1, a concentration that is not positive or of the wrong shape.

    >>> model = lda(num_topics=5, vocab_size=100)
    >>> model.prior(model.hyper)["topics"].concentration.shape
    (5, 100)
    """
    hyper = {
        "alpha": share_concentration(alpha, num_topics),
        "eta": word_concentration(eta, num_topics, vocab_size),
    }

    def prior(hyper: Hyper) -> Product:
        return Product({"topics": word_prior(hyper["eta"], num_topics, vocab_size)})

    bound = functools.partial(local_elbo, num_topics)
    return Model(
        hyper,
        prior,
        bound,
        near_uniform,
        estep or esteps.mean_field(),
        form=DataForm(
            documents=DocumentForm(int(vocab_size), {"topics": ("eta",)}, active_topics.choose)
        ),
        locals=LocalsPlan(
            functools.partial(cold_shares, num_topics),
            solved_by=esteps.MixedMembership,
            is_linear=True,
        ),
        queries=answers(
            _generative(num_topics, int(vocab_size)),
            score=completion_score,
            average=average_score,
            transform=mean_shares,
        ),
    )


def _generative(num_topics: int, vocab_size: int) -> Generative:
    def local(hyper: Any, values: Any, places: Array, key: PRNGKeyArray) -> dict[str, Array]:
        alpha = jnp.broadcast_to(hyper["alpha"], (num_topics,))
        return {"shares": Dirichlet(alpha).sample(key, (len(places),))}

    known_families = lambda stats, gamma: {"shares": Dirichlet(gamma)}
    return topic_generative(
        vocab_size, local, lambda values, local: local["shares"], known_families
    )


def mean_shares(
    stats: Any, gamma: Float[Array, "docs K"], key: PRNGKeyArray
) -> Float[Array, "docs K"]:
    """Means of the documents' Dirichlets."""
    del stats, key
    return gamma / jnp.sum(gamma, axis=1, keepdims=True)


def completion_score(hyper: Hyper, estimates: Estimates, data: Any, key: PRNGKeyArray) -> Any:
    """Document completion at the means of the topics' Dirichlets, after EM and MAP too, nats per
    word (see `vijax.evaluate.document_completion`)."""
    from vijax.evaluate import document_completion

    return document_completion(smoothed_topics(estimates), hyper["alpha"], data, key)


def average_score(
    hypers: Sequence[Hyper], estimates: Sequence[Estimates], data: Any, key: PRNGKeyArray
) -> Any:
    """Document completion by the average of several fits: each infers the shares of a document by
    its own topics, and their probabilities of a word are averaged."""
    from vijax.evaluate.completion import average_completion

    tables = map(smoothed_topics, estimates)
    alphas = (hyper["alpha"] for hyper in hypers)
    return average_completion([*zip(tables, alphas, strict=True)], data, key)


def smoothed_topics(estimates: Estimates) -> Float[Array, "K V"]:
    """Means of the topics' Dirichlets, under EM and MAP too. At their mode a word not seen in
    training has probability zero, and a held-out document with this word has no finite score."""
    topics = estimates["topics"]
    return (topics.law if isinstance(topics, Point) else topics).mean()


def near_uniform(
    hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None
) -> Product:
    """lambda = prior + Gamma(100, 100): every topic near uniform, as if each word had been seen
    about once in each topic, with the symmetry broken (the customary start of online LDA; it is
    added to the prior so that modes exist). The gamma draw is the cube of a normal draw (Wilson and
    Hilferty, 1931), accurate to 6e-4 up to four deviations and quick to compile. Seed words of
    `eta` are added even if the estimand is a maximum of the likelihood, which has no prior."""
    del batch
    noise = jax.tree.map(lambda c: _gamma_100(key, c.shape, c.dtype), prior["topics"])
    topics = prior["topics"]
    eta = hyper.get("eta", 0.0)
    if jnp.ndim(eta) == 2:
        with_seeds = lambda c: jnp.maximum(c, seed_weights(jnp.asarray(eta, c.dtype)))
        topics = jax.tree.map(with_seeds, topics)
    return Product({"topics": tree.add(topics, noise)})


def _gamma_100(key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any) -> Array:
    return (1 - 1 / 900 + jax.random.normal(key, shape, dtype) / 30) ** 3


def share_concentration(value: Any, num_topics: int) -> Float[Array, ...]:
    """The concentration of the shares of K topics, a scalar or (K,); else ValueError."""
    value = as_float(value, "alpha")
    expected = f"a scalar or shape ({num_topics},)"
    require(value.shape in ((), (num_topics,)), "alpha", expected, value.shape)
    return value


class _Chunk(NamedTuple):
    """Documents and the start of their E-step, in one pytree for `sum_over_words`."""

    documents: Documents
    start: Float[Array, "docs K"] | None

    @property
    def words(self) -> Array:
        """Word ids, by which the rows are looked up."""
        return self.documents.words

    def bounded_start(self, alpha: Float[Array, " K"]) -> Float[Array, "docs K"] | None:
        """The start of gamma, at least alpha. Only rows of zeros, which pad a chunk, are below
        alpha."""
        if self.start is None:
            return None
        return jnp.maximum(self.start, alpha[None])


def cold_shares(
    num_topics: int, hyper: Hyper, batch: Minibatch
) -> tuple[Float[Array, "docs K"], ...]:
    """Starts of the E-step of documents, gamma of equal shares."""
    alpha = jnp.broadcast_to(hyper["alpha"], (num_topics,))
    return tuple(cold(jnp.asarray(docs.counts), alpha) for docs in batch.data)


def local_elbo(
    num_topics: int, hyper: Hyper, stats: Any, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    """`Model.local_elbo` of documents, at any statistics `topics` of words."""
    if isinstance(batch.data[0], active_topics.ActiveDocuments):
        return active_topics.bound(num_topics, hyper, stats["topics"].pairs, batch, key, estep)
    alpha = jnp.broadcast_to(hyper["alpha"], (num_topics,))
    starts = batch.local or (None,) * len(batch.data)
    size = lambda docs: estep.docs_per_chunk(docs.words.shape[1], num_topics)
    chunks = [split_chunks(_Chunk(d, s), size(d)) for d, s in zip(batch.data, starts, strict=True)]
    fixed_alpha, at_once = jax.lax.stop_gradient(alpha), estep.table_kernel()
    total, aux, log_scale = sum_over_words(
        functools.partial(_chunk_likelihood, estep),
        stats["topics"],
        fixed_alpha,
        chunks,
        key,
        at_once,
    )
    sizes = [docs.weights.shape[0] for docs in batch.data]
    merged = [merge_chunks(part, size) for part, size in zip(aux, sizes, strict=True)]
    bounds, gammas = zip(*merged, strict=True)
    scales = [jnp.sum(docs.counts * log_scale[docs.words], axis=1) for docs in batch.data]
    # For all documents at once: else it would be compiled for every length.
    divergences = divergence_from_prior(jnp.concatenate(gammas), alpha)
    divergence = jnp.split(divergences, np.cumsum(sizes)[:-1])
    corrections = [scale - kl for scale, kl in zip(scales, divergence, strict=True)]
    total += sum(jnp.vdot(docs.weights, r) for docs, r in zip(batch.data, corrections, strict=True))
    per_group = tuple(
        jax.lax.stop_gradient(bound + r) for bound, r in zip(bounds, corrections, strict=True)
    )
    num_groups = jnp.sum(jnp.array([jnp.sum(docs.weights) for docs in batch.data]))
    num_words = jnp.sum(jnp.array([jnp.sum(docs.counts) for docs in batch.data]))
    return LocalElbo(total, num_groups, per_group, gammas, said={"num_words": num_words})


def _chunk_likelihood(
    estep: Any,
    rows: Float[Array, "D n K"],
    alpha: Float[Array, " K"],
    chunk: _Chunk,
    key: PRNGKeyArray,
) -> tuple[Float[Array, ""], tuple[Array, Array]]:
    """Total expected log likelihood of a chunk of documents, differentiable in rows; and the value
    and gamma of each document."""
    docs = chunk.documents
    if estep.draws:  # a token is drawn by the probabilities of all topics
        rows = join_parts(rows)
    fixed, alpha = jax.lax.stop_gradient((rows, alpha))
    inferred = estep.mixed_membership(
        fixed, docs.counts, alpha, key, docs.max_tokens, chunk.bounded_start(alpha)
    )
    local = jax.lax.stop_gradient(inferred)
    per_doc = expected_log_likelihood(
        rows if local.token_topics is None else fixed, docs.counts, local.gamma
    )
    total = jnp.vdot(docs.weights, per_doc) + _own_energy(rows, local, docs.weights)
    return total, (per_doc, local.gamma)


def expected_log_likelihood(
    rows: Float[Array, "D n K"], counts: Float[Array, "D n"], gamma: Float[Array, "D K"]
) -> Float[Array, " D"]:
    """sum_v c_v log sum_k exp(E log theta_k) beta_kv at q(theta_d) = Dirichlet(gamma_d) (Blei,
    Kucukelbir and McAuliffe 2017, section 4.3)."""
    log_weight = Dirichlet(gamma).expected_stats().log
    # The largest weight is 1, so that small alpha cannot underflow them all.
    largest = jnp.max(log_weight, axis=1, keepdims=True)
    mixed = jnp.einsum("dnk,dk->dn", rows, jnp.exp(log_weight - largest), precision="highest")
    return jnp.sum(counts * (jnp.log(jnp.where(counts > 0, mixed, 1.0)) + largest), axis=1)


def divergence_from_prior(
    gamma: Float[Array, "D K"], alpha: Float[Array, " K"]
) -> Float[Array, " D"]:
    """KL(Dirichlet(gamma_d) || Dirichlet(alpha))."""
    return Dirichlet(gamma).kl(Dirichlet(jnp.broadcast_to(alpha, gamma.shape)))


def _own_energy(
    rows: Float[Array, "D n K"], local: Locals, weights: Float[Array, " D"]
) -> Float[Array, ""]:
    """A term of value zero, whose gradient in log rows is the expected counts N of the E-step."""
    if local.token_topics is None:
        return jnp.zeros((), rows.dtype)
    fixed = jax.lax.stop_gradient(rows)
    return jnp.sum(weights[:, None, None] * local.token_topics / fixed * (rows - fixed))
