"""Checks of every evaluation: topics that are distributions, a positive alpha, documents over the same vocabulary."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import fail
from vijax.families.base import positive_and_finite

# exp(-69) = 1e-30: a topic this much less likely than a word's best is never drawn, and products stay normal floats.
_FLOOR = 1e-30


class Topics(NamedTuple):
    """Topics and the prior of their shares, in the form that evaluations work on.

    Attributes:
      likelihood: topics[:, v] over its largest entry, floored at 1e-30: by word, so that gathering is of rows.
      log_scale: log of that largest entry; -inf for a word of probability 0 (which no document holds).
      alpha: concentration of theta, one per topic.
    """

    likelihood: Float[Array, "V K"]
    log_scale: Float[Array, " V"]
    alpha: Float[Array, " K"]


def checked(topics: Any, alpha: Any, documents: Any) -> tuple[Topics, Corpus]:
    """The inputs of an evaluation, checked.

    Raises:
      ValueError: topics that are not distributions over words, an alpha that is not positive, documents over another
        vocabulary, or with a word that no topic can say.
    """
    topics = check_topics(topics)
    alpha = check_alpha(alpha, topics.shape[0]).astype(topics.dtype)
    corpus = as_corpus(documents, topics.shape[1])
    likelihood, log_scale = _scaled(topics)
    _check_possible(np.asarray(log_scale), corpus)
    return Topics(*map(jnp.asarray, (likelihood, log_scale, alpha))), corpus


def _scaled(topics: Float[np.ndarray, "K V"]) -> tuple[Float[np.ndarray, "V K"], Float[np.ndarray, " V"]]:
    largest = np.max(topics, axis=0)
    scaled = topics / np.where(largest > 0, largest, 1.0).astype(topics.dtype)
    with np.errstate(divide="ignore"):
        return np.maximum(scaled, topics.dtype.type(_FLOOR)).T, np.log(largest)


def check_topics(topics: Any) -> Float[np.ndarray, "K V"]:
    """Topics as an array of distributions over words.

    Raises:
      ValueError: not a matrix, or a row that is not a distribution; the message names the first such row.
    """
    topics = np.asarray(topics)
    topics = topics.astype(jnp.result_type(topics))  # float32, unless JAX works in float64
    remedy = "pass probabilities with one row per topic, such as fit.posterior['topics'].mean()"
    if topics.ndim != 2 or 0 in topics.shape:
        raise fail("topics", "a matrix (topics, words)", f"shape {topics.shape}", remedy)
    topics = topics if jnp.issubdtype(topics.dtype, jnp.floating) else topics.astype(jnp.result_type(float))
    sums, least = np.asarray(topics.sum(axis=1), np.float64), np.asarray(topics.min(axis=1))
    bad = ~(np.abs(sums - 1) < 1e-3) | ~(least >= 0)  # written so that NaN fails
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        got = f"row {k} with sum {sums[k]:.6g} and least entry {least[k]:.3g} ({int(bad.sum())} such)"
        raise fail("topics", "rows of probabilities that sum to one", got, remedy)
    return topics / topics.sum(axis=1, keepdims=True)


def check_alpha(alpha: Any, size: int, name: str = "alpha") -> Float[np.ndarray, " size"]:
    """A Dirichlet concentration as one positive number per entry.

    Raises:
      ValueError: another shape, or not positive and finite.
    """
    alpha = np.asarray(alpha, jnp.result_type(float))
    if alpha.shape not in ((), (size,)):
        raise fail(name, f"a scalar or shape ({size},)", f"shape {alpha.shape}", "pass one number for all, or one each")
    if not positive_and_finite(alpha).all():
        raise fail(name, "positive finite numbers", str(alpha), "pass a concentration such as 0.1")
    return np.broadcast_to(alpha, (size,))


def as_corpus(documents: Any, vocab_size: int | None = None) -> Corpus:
    """A corpus from anything that `vijax.data.read` accepts, its words numbered below `vocab_size`.

    Raises:
      ValueError: it cannot be read, it is over another vocabulary, or all its documents are empty.
    """
    corpus = documents if isinstance(documents, Corpus) else _read(documents)
    if vocab_size is not None and corpus.vocab_size != vocab_size:
        remedy = "read the documents with the vocabulary of the fit (vijax.data.with_vocabulary does it)"
        raise fail(
            "documents", f"a vocabulary of {vocab_size} words, as the topics have", str(corpus.vocab_size), remedy
        )
    if corpus.num_tokens == 0:
        raise fail("documents", "documents with words", f"{corpus.num_documents} empty ones", "pass other documents")
    return corpus


def _read(documents: Any) -> Corpus:
    from vijax.data import read  # a reader imports its own packages; a Corpus needs none

    return read(documents)


def _check_possible(log_scale: np.ndarray, corpus: Corpus) -> None:
    impossible = np.flatnonzero(np.isneginf(log_scale) & (corpus.word_counts() > 0))
    if len(impossible):
        got = f"probability 0 in every topic for word {impossible[0]} ({len(impossible)} such)"
        remedy = "drop words unseen in training (vijax.data.select_words), or smooth the topics"
        raise fail("topics", "a positive probability for each word of the documents", got, remedy)
