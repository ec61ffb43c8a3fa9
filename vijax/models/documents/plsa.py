"""Probabilistic latent semantic analysis, both kinds, and their Bayesian versions (Pei 2019,
section on pLSA).

A data set is a list of pairs (d_i, x_i), word x in document d:

    joint (pLSA 1):        p(d, x) = sum_k pi_k xi_kd eta_kx                                  (Pei 2019, eq. 2.91)
    conditional (pLSA 2):  p(x | d) = sum_k pi_dk eta_kx                                      (Pei 2019, eq. 2.92)

with Dirichlet priors on pi, xi, eta. `em` is the EM of the paper; `map` smooths it; `cavi` on the
conditional form is latent Dirichlet allocation with the proportions of all documents among the
globals (`vijax.models.lda` has them local). A pair seen c times is one group, whose bound is c log
sum_k: given the globals its topics are exact, r_k in proportion to the terms of the sum."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax.arguments import Positive, Size, check_arguments
from vijax.checks import require
from vijax.contract.batch import DataForm
from vijax.contract.model import Model, model
from vijax.contract.queries import Generative, answers
from vijax.contract.room import limit_sizes
from vijax.families import Dirichlet, Product
from vijax.models.documents.document_draws import (
    pair_generative,
    to_table,
    topic_generative,
    total_like,
)
from vijax.xla.by_value import cache_by_value

Entries = tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]


@cache_by_value
@limit_sizes
@check_arguments
def plsa(
    num_topics: Size,
    num_documents: Size,
    vocab_size: Size,
    form: Literal["joint", "conditional"] = "conditional",
    alpha: Positive = 1.0,
    eta: Positive = 1.0,
) -> Model:
    """Probabilistic latent semantic analysis.

    Args:
      num_topics: K, number of topics.
      num_documents: number of documents.
      vocab_size: V, number of words.
      form: conditional: p(word | document), pLSA 2; joint: p(word, document), pLSA 1.
      alpha: prior concentration of topics (map, cavi; and for held-out documents): of the
        documents' proportions, or in the joint form of the weights and the documents of each topic.
      eta: prior concentration of a topic's words (map, cavi).

    Returns:
      A `Model` with the globals `topics`, words by topic, and `proportions`, topics by document, or
      for the joint form `weights` and `documents`, documents by topic. Data: (documents, words,
      counts), which `plsa_entries` makes.

    Raises:
      ValueError: an argument out of its range.

    >>> import vijax as vi
    >>> data = plsa_entries([[4, 4, 0, 0], [2, 2, 0, 0], [0, 0, 3, 3]])
    >>> fit = vi.fit(vi.em(plsa(2, 3, 4)), data, num_steps=50, key=jax.random.key(0))
    >>> print(jnp.sort(fit.posterior["topics"].mode(), axis=0).round(2))
    [[0.  0.  0.  0. ]
     [0.5 0.5 0.5 0.5]]
    """
    dirichlet = lambda concentration, *shape: Dirichlet.from_concentration(
        np.full(shape, concentration)
    )
    prior = {"topics": dirichlet(eta, num_topics, vocab_size)}
    if form == "joint":
        prior["weights"] = dirichlet(alpha, num_topics)
        prior["documents"] = dirichlet(alpha, num_topics, num_documents)
    else:
        prior["proportions"] = dirichlet(alpha, num_documents, num_topics)

    def local_elbo(
        stats: Any, data: Entries, key: PRNGKeyArray
    ) -> tuple[Float[Array, " pairs"], Any]:
        documents, words, counts = data
        terms = stats["topics"].log.T[words]
        if form == "joint":
            terms += stats["weights"].log[None] + stats["documents"].log.T[documents]
        else:
            terms += stats["proportions"].log[documents]
        return jnp.asarray(counts) * jax.nn.logsumexp(terms, axis=1), jax.nn.softmax(terms, axis=1)

    plain_model = model(Product(prior), local_elbo, init=_uneven)
    check = lambda data: check_entries(data, num_documents, vocab_size)
    sizes = num_documents, vocab_size, check
    generative = pair_generative(*sizes) if form == "joint" else _conditional(*sizes)
    entries = DataForm(check, ("index", "index", "number"))
    return dataclasses.replace(plain_model, form=entries, queries=answers(generative))


def _conditional(num_documents: int, vocab_size: int, check: Any) -> Generative:
    """Words drawn for the documents of training, whose shares are globals."""
    return topic_generative(
        vocab_size,
        local=None,
        shares=lambda values, local: values["proportions"],
        layout=lambda like: total_like(like, num_documents, False, check),
        observed=lambda places, entries: to_table(entries, num_documents, vocab_size),
    )


def _uneven(key: PRNGKeyArray, prior: Product) -> Product:
    """The prior plus up to three observations of everything, so that topics differ."""
    leaves, structure = jax.tree.flatten(prior)
    keys = jax.random.split(key, len(leaves))
    noise = [3 * jax.random.uniform(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
    return jax.tree.map(jnp.add, prior, jax.tree.unflatten(structure, noise))


def plsa_entries(counts: Any) -> Entries:
    """(documents, words, counts) of the entries of a count matrix that are not 0.

    Args:
      counts: documents by words: an array, a SciPy sparse matrix or a `vijax.data.Corpus`.

    Raises:
      ValueError: it is no matrix.

    >>> [x.tolist() for x in plsa_entries([[0, 2], [1, 0]])]
    [[0, 1], [1, 0], [2.0, 1.0]]
    """
    import scipy.sparse

    matrix = counts.to_scipy() if hasattr(counts, "to_scipy") else counts
    require(
        np.ndim(matrix) == 2 or hasattr(matrix, "tocoo"),
        "counts",
        "a matrix",
        f"shape {np.shape(matrix)}",
    )
    entries = scipy.sparse.coo_array(matrix).astype(np.float64)  # sums of small integers wrap
    entries.sum_duplicates()
    is_nonzero = entries.data != 0
    order = np.lexsort((entries.col[is_nonzero], entries.row[is_nonzero]))
    columns = (
        entries.row[is_nonzero].astype(np.int32),
        entries.col[is_nonzero].astype(np.int32),
        entries.data[is_nonzero].astype(np.float32),
    )
    return tuple(column[order] for column in columns)  # type: ignore[return-value]


def check_entries(data: PyTree, num_documents: int, vocab_size: int) -> None:
    """Raises ValueError unless data are documents, words in range and positive counts; names the
    first bad entry."""
    triple = isinstance(data, tuple) and len(data) == 3
    require(
        triple,
        "data",
        "a triple (documents, words, counts)",
        type(data).__name__,
        "See vijax.models.plsa_entries.",
    )
    documents, words, counts = map(np.asarray, data)
    shapes = f"{documents.shape}, {words.shape} and {counts.shape}"
    fits = documents.ndim == 1 and documents.shape == words.shape == counts.shape
    require(fits, "data", "three vectors of one length", shapes)
    for name, ids, size in (("documents", documents, num_documents), ("words", words, vocab_size)):
        require(
            np.issubdtype(ids.dtype, np.integer), "data", f"{name} that are integers", ids.dtype
        )
        bad = np.flatnonzero((ids < 0) | (ids >= size))
        require(
            not len(bad), "data", f"{name} in [0, {size})", f"{ids[bad[:1]]} in entry {bad[:1]}"
        )
    bad = np.flatnonzero(~(np.isfinite(counts) & (counts > 0)))
    require(not len(bad), "data", "positive counts", f"{counts[bad[:1]]} in entry {bad[:1]}")
