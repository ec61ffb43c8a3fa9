"""The correlated topic model (Blei and Lafferty 2007; Khan et al. 2016, section 2.2 and appendix
A.3).

    beta_k ~ Dirichlet(eta),  (mu, Sigma^-1) ~ normal-Wishart,  z_d ~ N(mu, Sigma),
    each word of document d ~ sum_k softmax(z_d)_k beta_k

The local bound of a document at q(z_d) = N(m, V), with the topics of its words summed out, is

    l_d = E_q[sum_v c_v log sum_k softmax(z)_k beta_kv] + E_q[log N(z; mu, Sigma)] + H[q],

where the first term is computed by Monte Carlo. l_d is linear in the statistics of (mu, Sigma^-1),
so that its gradient is the M-step of EM, MAP and mean field."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import EVEN, Positives, Size, check_arguments, integer
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
from vijax.families import Dirichlet, MultivariateNormal, NormalWishart, Product
from vijax.families.vector.matrices import half_log_det, inverse, outer
from vijax.inference import estep as esteps
from vijax.inference.estep import GaussianLocals, LogisticNormal
from vijax.inference.estep.logistic_normal_kernel import table_step
from vijax.inference.expectation.vector import common_draws, gaussian_draws
from vijax.inference.likelihood import softmax_mixture
from vijax.models.documents.document_draws import topic_generative
from vijax.models.documents.lda import near_uniform, smoothed_topics
from vijax.models.documents.lengths import join_lengths, split_documents
from vijax.models.documents.likelihoods import sum_over_words
from vijax.topics.seeds import seed_documents, seed_weights
from vijax.xla.by_value import cache_by_value
from vijax.xla.chunks import merge_chunks, split_chunks
from vijax.xla.compiler import quick_jit
from vijax.xla.content_keys import bag_codes, row_keys
from vijax.xla.device import join_parts
from vijax.xla.random_bits import fused_key


@cache_by_value
@limit_sizes
@check_arguments
def ctm(
    num_topics: Annotated[int, integer(2)],
    vocab_size: Size,
    eta: Positives = 0.01,
    logits: NormalWishart | None = None,
    estep: Any = None,
    num_samples: Annotated[int, EVEN] = 64,
    seed: int = 0,
) -> Model:
    """The correlated topic model.

    Args:
      num_topics: K, number of topics.
      vocab_size: V, number of words.
      eta: prior concentration of a topic's words; small: sharper topics. A scalar or shape (V,); or
        (K, V), as `vijax.topics.seeded` makes it from seed words.
      logits: prior of (mu, Sigma^-1); a weak one if None: E[Sigma^-1] = I at K + 2 degrees of
          freedom.
      estep: default E-step; `vijax.estep.proximal_gradient()` if None.
      num_samples: number of draws of each q(z), over which the bound and the message are averaged;
          even.
      seed: seed of all draws on full data. These draws are the same at each step: the E-step of a
        document continues from its last one, and would follow the noise of new draws. Minibatches
        take new draws from the key of the step (under `vijax.warm` from this seed). The draws of a
        document depend on its words, not on its position.

    Returns:
      A `Model` with globals `topics`, a Dirichlet of batch shape (K,), and `logits`, the
      normal-Wishart of (mu, Sigma^-1), and the hyperparameter `eta`. Its data are tuples of
      `vijax.Documents`; `fit.score` is document completion by this `estep`, also if the algorithm
      has another E-step (`vijax.evaluate.completion` takes any). Full-data algorithms carry the
      q(z) of every document in their state.

    Raises:
      ValueError: a size out of its range, a concentration that is not positive, a prior of another
          dimension.

    >>> import vijax as vi
    >>> from vijax.data import synthetic
    >>> corpus, _ = synthetic.lda_corpus(num_documents=30, num_topics=2, vocab_size=20, seed=0)
    >>> fit = vi.fit(vi.cavi(ctm(2, 20, eta=0.1)), corpus, num_steps=10, key=jax.random.key(0))
    >>> fit.posterior["logits"].mean().precision.shape
    (2, 2)
    >>> bool(fit.trace["elbo"][-1] > fit.trace["elbo"][0])
    True
    """
    eta = word_concentration(eta, num_topics, vocab_size)
    if logits is None:
        logits = _vague(num_topics)
    require(
        isinstance(logits, NormalWishart), "logits", "a vijax.NormalWishart", type(logits).__name__
    )
    require(
        logits.strength_times_location.shape == (num_topics,),
        "logits",
        f"dimension {num_topics}",
        logits.dim,
    )
    default = esteps.proximal_gradient() if estep is None else estep

    def prior(hyper: Hyper) -> Product:
        return Product(
            {"logits": logits, "topics": word_prior(hyper["eta"], num_topics, vocab_size)}
        )

    return Model(
        {"eta": eta},
        prior,
        functools.partial(local_elbo, num_samples, seed, _shared_law),
        functools.partial(_start, num_topics),
        default,
        form=DataForm(documents=DocumentForm(int(vocab_size), {"topics": ("eta",)})),
        locals=LocalsPlan(
            lambda hyper, batch: tuple(
                cold(docs, num_topics, logits.half_degrees.dtype) for docs in batch.data
            ),
            carried=True,
            solved_by=esteps.LogisticNormalEStep,
        ),
        queries=answers(
            _generative(int(vocab_size)),
            score=functools.partial(_completion_score, default),
            transform=lambda stats, local, key: expected_shares(stats["logits"], local, key),
        ),
    )


def _generative(vocab_size: int) -> Generative:
    def local(hyper: Any, values: Any, places: Array, key: PRNGKeyArray) -> dict[str, Array]:
        law = MultivariateNormal.from_mean_precision(
            values["logits"].mean, values["logits"].precision
        )
        return {"z": law.sample(key, (len(places),))}

    def known_families(stats: Any, local: GaussianLocals) -> dict[str, MultivariateNormal]:
        return {
            "z": MultivariateNormal.from_mean_precision(
                local.mean, stats["logits"].precision + local.site
            )
        }

    return topic_generative(
        vocab_size, local, lambda values, local: jax.nn.softmax(local["z"]), known_families
    )


def _vague(num_topics: int) -> NormalWishart:
    degrees = num_topics + 2.0
    return NormalWishart.from_parameters(
        np.zeros(num_topics), 1.0, degrees, np.eye(num_topics) / degrees
    )


def _shared_law(logits: Any, docs: Documents) -> Any:
    """The statistics of the law of z, which all documents share."""
    return logits


def cold(docs: Documents, num_topics: int, dtype: Any) -> GaussianLocals:
    """q(z) for an E-step that starts at the prior."""
    size = docs.weights.shape[0]
    zeros = functools.partial(jnp.zeros, dtype=dtype)
    return GaussianLocals(
        zeros((size, num_topics)), zeros((size, num_topics, num_topics)), jnp.zeros(size, jnp.int32)
    )


_WORTH = 8192
"""Padded slots of a batch that a further length of documents must save. Each length compiles a copy
of the E-step, 1.2 CPU seconds of XLA, and a slot takes .9 us a step: it pays after some 200
steps."""

Law = Callable[[Any, Documents], Any]
"""(statistics of the globals behind z, documents) -> `NormalWishartStats` of mu and Sigma^-1: one
for all documents, or a mean for each."""


class _Chunk(NamedTuple):
    """Documents and the start of their E-step, in one pytree for `sum_over_words`."""

    documents: Documents
    start: GaussianLocals
    keys: Array  # the data of a key for each document

    @property
    def words(self) -> Array:
        """Word ids, by which the rows are looked up."""
        return self.documents.words


def local_elbo(
    num_samples: int,
    seed: int,
    law: Law,
    hyper: Hyper,
    stats: Any,
    batch: Minibatch,
    key: PRNGKeyArray,
    estep: Any,
    num_words: int | None = None,
) -> LocalElbo:
    """`Model.local_elbo` for documents whose z have the law `law(statistics of the globals,
    documents)`. Word w and word w + `num_words` are the same word in two groups, and have the same
    draws."""
    log_beta = jax.tree.leaves(stats["topics"])[0]
    num_topics = stats["topics"].log.shape[-2]
    if batch.local is not None:
        key = fused_key(jax.random.key(seed))
    starts = batch.local or tuple(cold(docs, num_topics, log_beta.dtype) for docs in batch.data)
    groups = join_lengths(list(zip(batch.data, starts, strict=True)), _WORTH)
    size = lambda docs: estep.docs_per_chunk(docs.words.shape[1], num_topics)
    total, aux, log_scale = sum_over_words(
        functools.partial(_chunk_bound, estep, num_samples, law, jax.random.key_impl(key)),
        stats["topics"],
        stats["logits"],
        [
            split_chunks(_Chunk(*group, _document_keys(key, group[0], num_words)), size(group[0]))
            for group in groups
        ],
        key,
        table_step(estep.kernel_settings(), num_samples, law, key),
    )
    by_group = [
        merge_chunks(part, docs.weights.shape[0])
        for part, (docs, _) in zip(aux, groups, strict=True)
    ]
    parts = split_documents(
        jax.tree.map(lambda *x: jnp.concatenate(x), *by_group), [len(d.weights) for d in batch.data]
    )
    scales = [
        jnp.einsum("dn,dn->d", d.counts, log_scale[d.words], precision="highest")
        for d in batch.data
    ]
    weights = [d.weights for d in batch.data]
    return LocalElbo(
        total + sum(w @ scale for w, scale in zip(weights, scales, strict=True)),
        sum(jnp.sum(w) for w in weights),  # type: ignore[arg-type]
        tuple(
            jax.lax.stop_gradient(bound + scale)
            for (bound, _), scale in zip(parts, scales, strict=True)
        ),
        tuple(local for _, local in parts),
        said={"num_words": sum(jnp.sum(d.counts) for d in batch.data)},  # type: ignore[dict-item]
        retractions=sum(
            jnp.sum(jnp.where(w > 0, local.halvings, 0))
            for w, (_, local) in zip(weights, parts, strict=True)
        ),  # type: ignore[arg-type]
    )


def _document_keys(key: PRNGKeyArray, docs: Documents, num_words: int | None) -> Array:
    """The data of a key for each document. The key depends on the words of the document alone, so
    that its topics do not depend on the other documents."""
    words = docs.words if num_words is None else docs.words % num_words
    codes = bag_codes(words, docs.counts) if docs.codes is None else docs.codes
    return jax.random.key_data(row_keys(key, codes))


def _chunk_bound(
    estep: Any,
    num_samples: int,
    law: Law,
    impl: Any,
    rows: Float[Array, "D n K"],
    logits: Any,
    chunk: _Chunk,
    key: PRNGKeyArray,
) -> tuple[Float[Array, ""], tuple[Array, GaussianLocals]]:
    """Total bound of a chunk of documents, differentiable in rows and in the statistics of (mu,
    Sigma^-1); and the bound and q(z) of each document."""
    del key  # `chunk.keys` has a key for each document
    keys_estep, keys_bound = jax.vmap(jax.random.split, out_axes=1)(
        jax.random.wrap_key_data(chunk.keys, impl=impl)
    )
    docs = chunk.documents
    rows = join_parts(rows)  # the E-step of a document solves systems of all topics
    logits = law(logits, docs)
    fixed_rows, fixed_logits = jax.lax.stop_gradient((rows, logits))
    local = jax.lax.stop_gradient(_infer(estep, fixed_rows, fixed_logits, chunk, keys_estep))
    factor = jnp.linalg.cholesky(fixed_logits.precision[None] + local.site)
    cov = inverse(factor)
    draws = gaussian_draws(keys_bound, local.mean, jnp.linalg.cholesky(cov), num_samples)
    per_doc = expected_log_words(rows, docs.counts, draws) + _expected_log_prior(
        logits, local.mean, cov
    )
    # The entropy less K log(2 pi) / 2, which the prior lacks too.
    per_doc += 0.5 * local.mean.shape[1] - half_log_det(factor)
    return jnp.vdot(docs.weights, per_doc), (per_doc, local)


def _infer(
    estep: Any, rows: Array, logits: Any, chunk: _Chunk, keys: PRNGKeyArray
) -> GaussianLocals:
    """q(z) of a chunk of documents: all at once if they share the prior, else one by one."""
    counts, linear, precision = (
        chunk.documents.counts,
        logits.precision_times_mean,
        logits.precision,
    )
    if linear.ndim == 1:
        return estep.logistic_normal(
            LogisticNormal(rows, counts, linear, precision), chunk.start, keys
        )

    def alone(
        rows: Array, counts: Array, linear: Array, start: Any, key: PRNGKeyArray
    ) -> GaussianLocals:
        problem = LogisticNormal(rows[None], counts[None], linear, precision)
        inferred = estep.logistic_normal(problem, jax.tree.map(lambda x: x[None], start), key[None])
        return jax.tree.map(lambda x: x[0], inferred)

    return jax.vmap(alone)(rows, counts, linear, chunk.start, keys)


def expected_log_words(
    rows: Float[Array, "D n K"], counts: Float[Array, "D n"], draws: Float[Array, "D S K"]
) -> Float[Array, " D"]:
    """E_q[log p(words | z)] as an average over draws of z."""
    log_prob = softmax_mixture().log_prob

    def average(rows: Array, counts: Array, draws: Array) -> Float[Array, ""]:
        return jnp.mean(jax.vmap(lambda z: log_prob((rows, counts), z))(draws))

    return jax.vmap(average)(rows, counts, draws)


def _expected_log_prior(
    logits: Any, mean: Float[Array, "D K"], cov: Float[Array, "D K K"]
) -> Float[Array, " D"]:
    """E_q[log N(z; mu, Sigma)] + K log(2 pi) / 2, linear in the statistics of (mu, Sigma^-1); each
    document may have another mu."""
    second = cov + outer(mean, mean)
    quadratic = (
        jnp.einsum("kl,dkl->d", logits.precision, second, precision="highest") + logits.quadratic
    )
    linear = jnp.sum(jnp.atleast_2d(logits.precision_times_mean) * mean, 1)
    return 0.5 * (logits.log_det - quadratic) + linear


def expected_shares(
    logits: Any, local: GaussianLocals, key: PRNGKeyArray, num_samples: int = 256
) -> Float[Array, "D K"]:
    """E_q[softmax(z)] of each document, by Monte Carlo. All documents share the noise, so that a
    document's shares do not depend on the others.

    Args:
      logits: the statistics of (mu, Sigma^-1) for the E-step.
      local: the result of the E-step.
      key: random key of the draws.
      num_samples: number of draws, even.
    """
    cov = inverse(jnp.linalg.cholesky(logits.precision[None] + local.site))
    draws = common_draws(key, local.mean, jnp.linalg.cholesky(cov), num_samples)
    return jnp.mean(jax.nn.softmax(draws), axis=1)


def _completion_score(
    estep: Any, hyper: Hyper, estimates: Estimates, data: Any, key: PRNGKeyArray
) -> Any:
    """Document completion at the posterior mean topics and the estimates of (mu, Sigma^-1)."""
    from vijax.evaluate import gaussian_completion

    del hyper
    logits = _mean(estimates["logits"])
    return gaussian_completion(
        smoothed_topics(estimates),
        logits.mean,
        logits.precision,
        data,
        key,
        estep=estep,
    )


@quick_jit
def _mean(estimate: Any) -> Any:
    return estimate.mean()


_SEEDS = 5
"""Documents whose words start a topic."""


def _start(
    num_topics: int, hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None
) -> Product:
    """Topics by `seeded_topics`; Sigma near the identity, with the weight of ten documents, so that
    modes exist."""
    degrees = num_topics + 10.0
    logits = NormalWishart.from_parameters(
        np.zeros(num_topics), 10.0, degrees, np.eye(num_topics) / degrees
    )
    return prior.replace({"logits": logits, "topics": seeded_topics(hyper, key, prior, batch)})


def seeded_topics(hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None) -> Any:
    """Topics half from word frequencies, half from the words of five random documents of the batch
    each; without a batch near uniform, as in LDA. On AP with K = 10 this start reaches -8.209 nats
    per word after four passes, a near-uniform start -8.286. If the prior differs by topic, topics
    with seed words draw documents that have these words."""
    topics = near_uniform(hyper, key, prior.only(["topics"]), batch)["topics"]
    if batch is not None:
        concentration = prior["topics"].concentration  # type: ignore[attr-defined]
        frequencies = word_frequencies(batch.data, concentration)
        if jnp.ndim(hyper["eta"]) == 2:
            # Seed words of `eta`, since `prior` is flat if the estimand is a maximum of the
            # likelihood.
            seed_words = seed_weights(jnp.asarray(hyper["eta"], concentration.dtype))
            seeds = _counts_by_seeds(key, batch.data, seed_words, frequencies)
        else:
            seeds = counts_at_random(key, batch.data, concentration.shape, concentration.dtype)
        # As many tokens as the batch has: half are spread evenly over the topics, half are those of
        # the seed documents.
        total = jnp.sum(frequencies)
        seed_counts = seeds * (total / jnp.maximum(jnp.sum(seeds), 1.0))
        topics = Dirichlet(
            concentration + 0.5 * (seed_counts + frequencies[None] / len(concentration))
        )
    return topics


def word_frequencies(data: tuple[Documents, ...], like: Float[Array, "K V"]) -> Float[Array, " V"]:
    """Number of occurrences of each word."""
    frequencies = jnp.zeros(like.shape[1], like.dtype)
    for docs in data:
        frequencies = frequencies.at[docs.words].add(
            (docs.weights[:, None] * docs.counts).astype(like.dtype)
        )
    return frequencies


def counts_at_random(
    key: PRNGKeyArray, data: tuple[Documents, ...], shape: tuple[int, ...], dtype: Any
) -> Float[Array, "K V"]:
    """Word counts of a few random documents of each topic."""
    weights = jnp.concatenate([docs.weights for docs in data])
    rank = jnp.argsort(jnp.argsort(jax.random.uniform(key, weights.shape) - weights))
    picked = jnp.where(rank < _SEEDS * shape[0], weights, 0.0)
    seeds, first = jnp.zeros(shape, dtype), 0
    for docs in data:
        part = slice(first, first + docs.weights.shape[0])
        counts = picked[part, None] * docs.counts
        seeds = seeds.at[rank[part, None] % shape[0], docs.words].add(counts.astype(dtype))
        first = part.stop
    return seeds


def _counts_by_seeds(
    key: PRNGKeyArray,
    data: tuple[Documents, ...],
    seed_words: Float[Array, "K V"],
    frequencies: Float[Array, " V"],
) -> Float[Array, "K V"]:
    """Word counts of a few documents of each topic, which have its seed words."""
    size = sum(docs.weights.shape[0] for docs in data)
    rows, weights = seed_documents(seed_words, data, frequencies, min(_SEEDS, size), key)
    seeds, first, topic = jnp.zeros_like(seed_words), 0, jnp.arange(len(seed_words))[:, None, None]
    for docs in data:
        length = docs.weights.shape[0]
        place = jnp.clip(rows - first, 0, length - 1)
        kept_weights = jnp.where(place == rows - first, weights, 0.0)
        words, counts = (jnp.asarray(x)[place] for x in (docs.words, docs.counts))
        seeds = seeds.at[topic, words].add((kept_weights[..., None] * counts).astype(seeds.dtype))
        first += length
    return seeds
