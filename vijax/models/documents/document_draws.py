"""Draws of documents from topics: tables of counts, a row for each document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.contract.queries import Generative, Values, is_sizes, length_masks

Places = Bool[Array, "docs length"]
"""True where a document has a word."""


def draw_words(
    probabilities: Float[Array, "docs V"], places: Places, key: PRNGKeyArray
) -> Int[Array, "docs length"]:
    """A word for each place, by inversion of the distribution function of its document."""
    below = jnp.cumsum(probabilities, -1)
    u = jax.random.uniform(key, places.shape, probabilities.dtype) * below[:, -1:]
    ids = jax.vmap(lambda below, u: jnp.searchsorted(below, u, side="right"))(below, u)
    return jnp.minimum(ids, probabilities.shape[-1] - 1)


def count_words(
    ids: Int[Array, "docs length"], places: Places, size: int
) -> Float[Array, "docs V"]:
    """Number of occurrences of each word in each document."""
    rows = jnp.arange(len(ids))[:, None]
    return jnp.zeros((len(ids), size)).at[rows, ids].add(places.astype(float))


def topic_generative(
    vocab_size: int,
    local: Callable[[Any, Values, Places, PRNGKeyArray], Values] | None,
    shares: Callable[[Values, Values], Float[Array, "docs K"]],
    known_families: Callable[[Any, Any], Any] = lambda stats, local: local,
    layout: Callable[[Any], Any] | None = None,
    observed: Callable[[Any, Any], Any] | None = None,
) -> Generative:
    """Draws of bags of words with given lengths. `shares` maps the values of globals and locals to
    the shares of topics in each document. The other functions are arguments of `Generative`; their
    defaults are for lengths or documents."""

    def data(
        hyper: Any, values: Values, local: Values, places: Places, key: PRNGKeyArray
    ) -> Float[Array, "docs V"]:
        return count_words(
            draw_words(shares(values, local) @ values["topics"], places, key), places, vocab_size
        )

    read = layout or (lambda like: places_like(like, vocab_size))
    return Generative(read, data, local, observed or _counts, known_families)


def places_like(like: Any, vocab_size: int) -> Places:
    """Places of words from lengths, a list of whole numbers, or from documents."""
    if is_sizes(like):
        return jnp.asarray(length_masks(like))
    remedy = "Relabel them with vijax.data.with_vocabulary(corpus, training vocabulary)."
    corpus = _read_corpus(like)
    fits = corpus.vocab_size == vocab_size
    require(
        fits,
        "like",
        f"lengths, or documents over {vocab_size} words",
        f"{corpus.vocab_size} words",
        remedy,
    )
    return jnp.asarray(length_masks(corpus.tokens))


def _counts(places: Places, documents: Any) -> Float[Array, "docs V"]:
    del places
    return jnp.asarray(_read_corpus(documents).to_scipy().toarray(), jnp.result_type(float))


def _read_corpus(documents: Any) -> Any:
    from vijax.data import read

    return read(documents)


def total_like(
    like: Any, num_documents: int, is_joint: bool, check: Callable[[Any], None]
) -> Places:
    """Totals of pLSA from entries (documents, words, counts) or from the words of each document;
    jointly, one total."""
    expected = "words in all, or entries"
    if not is_joint:
        expected = f"the lengths of the {num_documents} documents, or entries"
    if is_joint and isinstance(like, int | np.integer):
        lengths = [int(like)]
    elif is_sizes(like) and not is_joint:
        lengths = list(map(int, like))
        require(len(lengths) == num_documents, "like", expected, f"{len(lengths)} lengths")
    else:
        require(isinstance(like, tuple) and len(like) == 3, "like", expected, like)
        check(like)
        documents, _, counts = map(np.asarray, like)
        lengths = np.bincount(documents, counts, minlength=num_documents).astype(int).tolist()
        if is_joint:
            lengths = [sum(lengths)]
    return jnp.asarray(length_masks(lengths))


def to_table(entries: Any, num_documents: int, vocab_size: int) -> Float[Array, "docs V"]:
    """Entries (documents, words, counts) as a table."""
    documents, words, counts = map(jnp.asarray, entries)
    return jnp.zeros((num_documents, vocab_size)).at[documents, words].add(counts)


def pair_generative(
    num_documents: int, vocab_size: int, check: Callable[[Any], None]
) -> Generative:
    """Pairs (document, word) of the joint form of pLSA, as a table of counts."""

    def data(
        hyper: Any, values: Values, local: Values, places: Places, key: PRNGKeyArray
    ) -> Float[Array, "docs V"]:
        topics = values["documents"].T * values["weights"]  # p(d, k)
        key_documents, key_words = jax.random.split(key)
        document = draw_words(jnp.sum(topics, 1)[None], places, key_documents)[0]
        below = jnp.cumsum((topics / jnp.sum(topics, 1, keepdims=True)) @ values["topics"], -1)[
            document
        ]
        u = jax.random.uniform(key_words, document.shape, below.dtype) * below[:, -1]
        word = jnp.minimum(
            jax.vmap(lambda b, u: jnp.searchsorted(b, u, side="right"))(below, u), vocab_size - 1
        )
        return (
            jnp.zeros((num_documents, vocab_size)).at[document, word].add(places[0].astype(float))
        )

    return Generative(
        layout=lambda like: total_like(like, num_documents, True, check),
        data=data,
        observed=lambda places, entries: to_table(entries, num_documents, vocab_size),
    )
