"""Data drawn from models, with the truth they were drawn from: corpora, binary vectors, spectrograms.

Corpora are from latent Dirichlet allocation,

    topics_k ~ Dirichlet(eta),  theta_d ~ Dirichlet(alpha),  z_di ~ theta_d,  w_di ~ topics_{z_di}.

Tokens of one topic are exchangeable, so they are drawn together: how often each word occurs among them is multinomial,
and which of them falls to which document is a shuffle. That costs tens of nanoseconds per token, whatever V.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.data.build import CorpusBuilder
from vijax.data.checks import fail
from vijax.data.corpus import Corpus

CHUNK_DOCUMENTS = 20_000


class LdaTruth(NamedTuple):
    """What a synthetic corpus was drawn from.

    Attributes:
      topics: word probabilities of each topic.
      theta: topic proportions of each document, or None when they were not kept.
    """

    topics: Float[np.ndarray, "topics words"]
    theta: Float[np.ndarray, "docs topics"] | None


def lda_corpus(
    num_documents: int,
    num_topics: int,
    vocab_size: int,
    document_length: float | Int[np.ndarray, " docs"] = 100.0,
    alpha: float = 0.1,
    eta: float = 0.1,
    seed: int = 0,
    folder: str | Path | None = None,
) -> tuple[Corpus, LdaTruth]:
    """A corpus from the LDA model, and its truth.

    Args:
      num_documents: D.
      num_topics: K.
      vocab_size: V; the words are called w0, w1, ...
      document_length: mean of the Poisson lengths, of which none is below 1; or the length of each document.
      alpha: concentration of the topic proportions.
      eta: concentration of the topics.
      seed: the same seed gives the same corpus.
      folder: where to write the corpus as memory-mapped files, 20,000 documents at a time, for one of any size (the
        3.8 million documents of Wikipedia, say); `theta` is not kept then.

    Raises:
      ValueError: a size is below 1 or a concentration is not positive.

    >>> corpus, truth = lda_corpus(100, num_topics=5, vocab_size=50, document_length=20.0)
    >>> corpus.num_documents, truth.topics.shape, truth.theta.shape
    (100, (5, 50), (100, 5))
    """
    _check_positive(num_documents=num_documents, num_topics=num_topics, vocab_size=vocab_size, alpha=alpha, eta=eta)
    topics = _generator(seed, 0).dirichlet(np.full(vocab_size, eta), num_topics)
    builder, kept = CorpusBuilder(None if folder is None else Path(folder)), []
    for chunk, first in enumerate(range(0, num_documents, CHUNK_DOCUMENTS), 1):
        rng = _generator(seed, chunk)
        size = min(CHUNK_DOCUMENTS, num_documents - first)
        lengths = _lengths(rng, document_length, first, size)
        theta = rng.dirichlet(np.full(num_topics, alpha), size)
        builder.add(*_bags(rng, rng.multinomial(lengths, theta), topics))
        if folder is None:
            kept.append(theta.astype(np.float32))
    vocabulary = tuple(f"w{word}" for word in range(vocab_size))
    return builder.finish(vocabulary), LdaTruth(topics, np.concatenate(kept) if kept else None)


class MixtureTruth(NamedTuple):
    """What a synthetic mixture was drawn from.

    Attributes:
      weights: of the components.
      probabilities: of a one, of each component in each dimension.
      labels: component of each observation.
    """

    weights: Float[np.ndarray, " K"]
    probabilities: Float[np.ndarray, "K D"]
    labels: Int[np.ndarray, " N"]


def bernoulli_mixture(
    num_observations: int = 1000, num_components: int = 100, dim: int = 100, alpha: float = 20.0, seed: int = 0
) -> tuple[Float[np.ndarray, "N D"], MixtureTruth]:
    """Binary vectors from the finite approximation to a Dirichlet-process mixture (seed 000, section 4.2), with truth:

        weights ~ Dirichlet(alpha / K),  probabilities_kd ~ Beta(1, 1),  z_n ~ weights,  y_nd ~ Bernoulli(p_{z_n d})

    Args:
      num_observations: N.
      num_components: K.
      dim: D.
      alpha: total concentration of the weights.
      seed: the same seed gives the same data.

    Raises:
      ValueError: a size is below 1 or the concentration is not positive.

    >>> y, truth = bernoulli_mixture(50, num_components=4, dim=3, alpha=2.0)
    >>> y.shape, truth.probabilities.shape, truth.labels.shape
    ((50, 3), (4, 3), (50,))
    """
    _check_positive(num_observations=num_observations, num_components=num_components, dim=dim, alpha=alpha)
    rng = _generator(seed, 0)
    weights = rng.dirichlet(np.full(num_components, alpha / num_components))
    probabilities = rng.uniform(size=(num_components, dim))
    labels = rng.choice(num_components, num_observations, p=weights)
    y = rng.uniform(size=(num_observations, dim)) < probabilities[labels]
    return y.astype(np.float32), MixtureTruth(weights, probabilities, labels)


def _generator(seed: int, chunk: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, chunk], np.uint64)))


def _lengths(rng: np.random.Generator, document_length, first: int, size: int) -> Int[np.ndarray, " docs"]:
    if np.ndim(document_length) == 0:
        return np.maximum(rng.poisson(document_length, size), 1)
    return np.asarray(document_length)[first : first + size]


def _bags(
    rng: np.random.Generator, in_topic: Int[np.ndarray, "docs topics"], topics: Float[np.ndarray, "topics words"]
) -> tuple[Int[np.ndarray, " docs"], Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Lengths, words and counts of documents with `in_topic[d, k]` tokens of topic k."""
    num_documents, vocab_size = len(in_topic), topics.shape[1]
    often = rng.multinomial(in_topic.sum(axis=0), topics)
    words = [rng.permutation(np.repeat(np.arange(vocab_size), count)) for count in often]
    documents = [np.repeat(np.arange(num_documents), count) for count in in_topic.T]
    code = np.sort(np.concatenate(documents) * vocab_size + np.concatenate(words))
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    counts = np.diff(starts, append=len(code))
    code = code[starts]
    return np.bincount(code // vocab_size, minlength=num_documents), code % vocab_size, counts


def _check_positive(**arguments: float) -> None:
    for name, value in arguments.items():
        least = 1 if isinstance(value, int) and name not in ("alpha", "eta") else 0
        if not value > 0 or value < least:
            raise fail(name, "a positive number", str(value), f"pass {name}=1, or more")
