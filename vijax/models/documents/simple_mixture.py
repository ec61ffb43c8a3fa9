"""The simple mixture of documents: every document has one topic (Pei 2019, section on SMM, eq. 2.7
and 2.8).

    pi ~ Dirichlet(alpha),  eta_k ~ Dirichlet(eta),  z_d ~ pi,
    words of d ~ eta_{z_d}, independently

For the plain categorical mixture of single observations, use documents of one word each. Small
vocabularies can also use `mixture(emission.categorical(K, V))`, the same model on dense rows of
counts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positive, Size, check_arguments
from vijax.contract.batch import DataForm, DocumentForm, Documents, Minibatch, word_prior
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.contract.queries import Generative, answers
from vijax.contract.room import limit_sizes
from vijax.families import Categorical, Dirichlet, Product
from vijax.models.documents.document_draws import topic_generative
from vijax.models.documents.lda import near_uniform
from vijax.xla.by_value import cache_by_value
from vijax.xla.chunks import merge_chunks, split_chunks
from vijax.xla.gather import docs_per_chunk, sum_over_rows


@cache_by_value
@limit_sizes
@check_arguments
def simple_mixture(
    num_topics: Size, vocab_size: Size, alpha: Positive = 1.0, eta: Positive = 1.0
) -> Model:
    """A mixture of bags of words: a topic for each document, not for each word as in `lda`.

    Args:
      num_topics: K, number of topics.
      vocab_size: V, number of words.
      alpha: prior concentration of the topics' weights. A hyperparameter.
      eta: prior concentration of a topic's words. A hyperparameter.

    Returns:
      A `Model` with globals `weights` and `topics`; its data are tuples of `vijax.Documents`, which
      any reader of `vijax.data` makes. `fit.transform(corpus, key=key)` are the documents'
      responsibilities.

    Raises:
      ValueError: an argument out of its range.

    >>> import numpy as np, vijax as vi
    >>> counts = np.array([[9, 1, 0], [8, 2, 0], [0, 1, 9], [0, 2, 7]])
    >>> fit = vi.fit(vi.cavi(simple_mixture(2, 3)), counts, num_steps=30, key=jax.random.key(0))
    >>> classes = fit.transform(counts, key=jax.random.key(0)).argmax(1)
    >>> bool(classes[0] == classes[1] != classes[2] == classes[3])
    True
    """

    def prior(hyper: Hyper) -> Product:
        topics = word_prior(hyper["eta"], num_topics, vocab_size)
        return Product(
            {"topics": topics, "weights": Dirichlet(jnp.full(num_topics, hyper["alpha"]))}
        )

    def start(hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None) -> Product:
        return prior.replace(near_uniform(hyper, key, prior, batch))

    return Model(
        hyper={"alpha": jnp.asarray(alpha, float), "eta": jnp.asarray(eta, float)},
        prior=prior,
        local_elbo=_local_elbo,
        init=start,
        form=DataForm(documents=DocumentForm(int(vocab_size), {"topics": ("eta",)})),
        queries=answers(
            _generative(num_topics, int(vocab_size)), transform=lambda stats, classes, key: classes
        ),
    )


def _generative(num_topics: int, vocab_size: int) -> Generative:
    def local(hyper: Any, values: Any, places: Array, key: PRNGKeyArray) -> dict[str, Array]:
        return {"z": jax.random.categorical(key, jnp.log(values["weights"]), shape=(len(places),))}

    shares = lambda values, local: jax.nn.one_hot(local["z"], num_topics)
    return topic_generative(
        vocab_size, local, shares, lambda stats, classes: {"z": Categorical(jnp.log(classes))}
    )


def _local_elbo(
    hyper: Hyper, stats: Any, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    """Sum over documents of log sum_k exp(E log pi_k + sum_v c_dv E log eta_kv), without an
    iterative E-step."""
    del hyper, estep
    log_weights, table = stats["weights"].log, stats["topics"].by_word
    size = log_weights.size
    chunks = [split_chunks(docs, docs_per_chunk(docs.words.shape[1], size)) for docs in batch.data]
    total, aux = sum_over_rows(_chunk, table, log_weights, chunks, key)
    sizes = [docs.weights.shape[0] for docs in batch.data]
    bounds, classes = zip(
        *(merge_chunks(part, n) for part, n in zip(aux, sizes, strict=True)), strict=True
    )
    num_groups = sum((jnp.sum(docs.weights) for docs in batch.data), jnp.zeros(()))
    num_words = sum((jnp.sum(docs.counts) for docs in batch.data), jnp.zeros(()))
    return LocalElbo(total, num_groups, bounds, classes, said={"num_words": num_words})


def _chunk(
    rows: Float[Array, "D n K"], log_weights: Float[Array, " K"], docs: Documents, key: PRNGKeyArray
) -> tuple[Float[Array, ""], tuple[Array, Array]]:
    """Total bound of a chunk of documents; and the bound and responsibilities of each document."""
    del key
    scores = log_weights + jnp.einsum(
        "dnk,dn->dk", rows, docs.counts.astype(rows.dtype), precision="highest"
    )
    bounds = jax.nn.logsumexp(scores, axis=1)
    return jnp.vdot(docs.weights.astype(rows.dtype), bounds), (
        bounds,
        jax.nn.softmax(scores, axis=1),
    )
