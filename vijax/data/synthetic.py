"""Data drawn from known models, and their truth: corpora, binary vectors, spectrograms.

Corpora are from latent Dirichlet allocation,

    topics_k ~ Dirichlet(eta),  theta_d ~ Dirichlet(alpha),  z_di ~ theta_d,  w_di ~ topics_{z_di}.

Tokens of one topic are exchangeable, so they are drawn together: their words are multinomial, and a
shuffle deals them to documents. That costs tens of nanoseconds per token, whatever V is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.data.corpora.build import CorpusBuilder
from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import fail

CHUNK_DOCUMENTS = 20_000


class LdaTruth(NamedTuple):
    """The truth of a synthetic corpus.

    Attributes:
      topics: word probabilities of each topic.
      theta: topic proportions of each document, or None if they were not stored.
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
      document_length: mean of the Poisson lengths, where 0 becomes 1; or the length of each
        document.
      alpha: concentration of the topic proportions.
      eta: concentration of the topics.
      seed: the same seed gives the same corpus.
      folder: folder to write the corpus to as memory-mapped files, 20,000 documents at a time, for
        any size (say the 3.8 million documents of Wikipedia); `theta` is then not stored.

    >>> corpus, truth = lda_corpus(100, num_topics=5, vocab_size=50, document_length=20.0)
    >>> corpus.num_documents, truth.topics.shape, truth.theta.shape
    (100, (5, 50), (100, 5))
    """
    _check_positive(
        num_documents=num_documents,
        num_topics=num_topics,
        vocab_size=vocab_size,
        alpha=alpha,
        eta=eta,
    )
    topics = _generator(seed, 0).dirichlet(np.full(vocab_size, eta), num_topics)
    builder = CorpusBuilder(None if folder is None else Path(folder))
    thetas = []
    for chunk, first in enumerate(range(0, num_documents, CHUNK_DOCUMENTS), 1):
        rng = _generator(seed, chunk)
        size = min(CHUNK_DOCUMENTS, num_documents - first)
        lengths = _lengths(rng, document_length, first, size)
        theta = rng.dirichlet(np.full(num_topics, alpha), size)
        builder.add(*_bags(rng, rng.multinomial(lengths, theta), topics))
        if folder is None:
            thetas.append(theta.astype(np.float32))
    vocabulary = tuple(f"w{word}" for word in range(vocab_size))
    return builder.finish(vocabulary), LdaTruth(topics, np.concatenate(thetas) if thetas else None)


class MixtureTruth(NamedTuple):
    """The truth of a synthetic mixture.

    Attributes:
      weights: weights of the components.
      probabilities: probability of a one, by component and dimension.
      labels: component of each observation.
    """

    weights: Float[np.ndarray, " K"]
    probabilities: Float[np.ndarray, "K D"]
    labels: Int[np.ndarray, " N"]


def bernoulli_mixture(
    num_observations: int = 1000,
    num_components: int = 100,
    dim: int = 100,
    alpha: float = 20.0,
    seed: int = 0,
) -> tuple[Float[np.ndarray, "N D"], MixtureTruth]:
    """Binary vectors from the finite approximation to a Dirichlet-process mixture (Hoffman and Blei
    2015, section 4.2), with truth:

        weights ~ Dirichlet(alpha / K),  probabilities_kd ~ Beta(1, 1),  z_n ~ weights,  y_nd ~ Bernoulli(p_{z_n d})

    Args:
      num_observations: N.
      num_components: K.
      dim: D.
      alpha: total concentration of the weights.
      seed: the same seed gives the same data.

    >>> y, truth = bernoulli_mixture(50, num_components=4, dim=3, alpha=2.0)
    >>> y.shape, truth.probabilities.shape, truth.labels.shape
    ((50, 3), (4, 3), (50,))
    """
    _check_positive(
        num_observations=num_observations, num_components=num_components, dim=dim, alpha=alpha
    )
    rng = _generator(seed, 0)
    weights = rng.dirichlet(np.full(num_components, alpha / num_components))
    probabilities = rng.uniform(size=(num_components, dim))
    labels = rng.choice(num_components, num_observations, p=weights)
    y = rng.uniform(size=(num_observations, dim)) < probabilities[labels]
    return y.astype(np.float32), MixtureTruth(weights, probabilities, labels)


class SpectrogramTruth(NamedTuple):
    """The truth of a synthetic spectrogram.

    Attributes:
      dictionary: spectra, each of mean 1.
      activations: activation of each spectrum in each frame.
    """

    dictionary: Float[np.ndarray, "F K"]
    activations: Float[np.ndarray, "T K"]


def spectrogram(
    num_frames: int = 1000,
    num_components: int = 50,
    num_frequencies: int = 257,
    scale: float = 1.0,
    b: float = 0.2,
    seed: int = 0,
) -> tuple[Int[np.ndarray, "T F"], SpectrogramTruth]:
    """A magnitude spectrogram in whole quanta, Y_tf ~ Poisson(scale sum_k W_fk H_tk), with its
    truth (Hoffman and Blei 2015, section 4.3).

    Spectra are speech-like (`speech_spectra`) and of mean 1, activations Gamma(b, b), so the mean
    of Y is scale times the number of components.

    Args:
      num_frames: T.
      num_components: K.
      num_frequencies: F.
      scale: quanta to the unit.
      b: shape and rate of the activations.
      seed: the same seed gives the same data.

    >>> y, truth = spectrogram(20, num_components=3, num_frequencies=65)
    >>> y.shape, truth.dictionary.shape, truth.activations.shape
    ((20, 65), (65, 3), (20, 3))
    """
    sizes = {
        "num_frames": num_frames,
        "num_components": num_components,
        "num_frequencies": num_frequencies,
    }
    _check_positive(**sizes, scale=float(scale), b=float(b))
    rng = _generator(seed, 0)
    dictionary = speech_spectra(rng, num_components, num_frequencies)
    activations = rng.gamma(b, 1 / b, (num_frames, num_components))
    y = rng.poisson(scale * activations @ dictionary.T)
    return y, SpectrogramTruth(dictionary, activations)


def speech_spectra(
    rng: np.random.Generator, num_components: int, num_frequencies: int, top: float = 8000.0
) -> Float[np.ndarray, "F K"]:
    """Magnitude spectra of voiced sounds on a grid from 0 to `top` Hz: harmonics under formants,
    each of mean 1.

    The pitch is log-uniform in 80 to 300 Hz. Harmonics are Gaussian peaks of 25 Hz (a window of
    some 30 ms), over a floor of a hundredth. Formants, log-uniform in 250 to 900, 800 to 2500, 2200
    to 3500 and 3300 to 4500 Hz, have resonances 1 / sqrt(1 + ((f - F) / B)^2), half-widths B of 60
    to 200 Hz and levels of 0, 0 to -12, -6 to -24 and -12 to -30 dB."""
    f = np.linspace(0.0, top, num_frequencies)[:, None]
    uniform = lambda low, high: rng.uniform(low, high, num_components)
    pitch = np.exp(uniform(np.log(80.0), np.log(300.0)))
    distance = f - pitch * np.maximum(np.round(f / pitch), 1.0)
    harmonics = 0.01 + np.exp(-0.5 * (distance / 25.0) ** 2)
    envelope = np.full((num_frequencies, num_components), 1e-3)
    for low, high, loudest, faintest in (
        (250, 900, 0, 0),
        (800, 2500, 0, -12),
        (2200, 3500, -6, -24),
        (3300, 4500, -12, -30),
    ):
        centre = np.exp(uniform(np.log(low), np.log(high)))
        width = uniform(60.0, 200.0)
        level = 10 ** (uniform(faintest, loudest) / 20)
        envelope += level / np.sqrt(1 + ((f - centre) / width) ** 2)
    spectra = harmonics * envelope
    return spectra / spectra.mean(axis=0)


def _generator(seed: int, chunk: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, chunk], np.uint64)))


def _lengths(
    rng: np.random.Generator, document_length, first: int, size: int
) -> Int[np.ndarray, " docs"]:
    if np.ndim(document_length) == 0:
        return np.maximum(rng.poisson(document_length, size), 1)
    return np.asarray(document_length)[first : first + size]


def _bags(
    rng: np.random.Generator,
    in_topic: Int[np.ndarray, "docs topics"],
    topics: Float[np.ndarray, "topics words"],
) -> tuple[Int[np.ndarray, " docs"], Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Lengths, words and counts of documents with `in_topic[d, k]` tokens of topic k."""
    num_documents = len(in_topic)
    vocab_size = topics.shape[1]
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
        minimum = 1 if isinstance(value, int) and name not in ("alpha", "eta") else 0
        if not value > 0 or value < minimum:
            raise fail(name, "a positive number", str(value), f"pass {name}=1, or more")
