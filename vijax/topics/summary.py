"""Summaries of fitted topics for readers: their words, sizes, likeness and most typical documents,
as plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.terminal import printable

HELD = 0.5
"""Words from which a topic holds some."""


class Document(NamedTuple):
    """A typical document of a topic: its name, its beginning, and the topic's share of it."""

    title: str
    excerpt: str
    share: float


class Topic(NamedTuple):
    """A topic for reading.

    Attributes:
      number: its row in the posterior.
      share: its share of all the tokens, 0 to 1.
      words: the most probable words; none where it holds no words of the data.
      probabilities: probabilities of these words, descending.
      position: on the map of topics, within [-1, 1]^2.
      documents: the most typical ones.
      coherence: NPMI of its leading words (`vijax.evaluate.npmi`); NaN where it was not computed.
      name: the name that a user gave it; empty without one.
    """

    number: int
    share: float
    words: tuple[str, ...]
    probabilities: tuple[float, ...]
    position: tuple[float, float]
    documents: tuple[Document, ...] = ()
    coherence: float = math.nan
    name: str = ""

    @property
    def label(self) -> str:
        """The name, or the first three words."""
        return self.name or " ".join(self.words[:3]) or "no words"

    @property
    def full_label(self) -> str:
        """Number and label."""
        return f"{self.number} {self.label}"


def summarise(
    concentration: Float[np.ndarray, "topics words"],
    vocabulary: Sequence[str] | None,
    num_words: int = 12,
    documents: Sequence[Sequence[Document]] | None = None,
    coherence: Float[np.ndarray, " topics"] | None = None,
    held: Float[np.ndarray, " topics"] | None = None,
) -> list[Topic]:
    """Topics from the Dirichlet concentrations of their words, largest first.

    Args:
      concentration: lambda, prior plus expected counts.
      vocabulary: the words; None names them by their ids.
      num_words: number of words of each topic.
      documents: typical documents of each topic, in the order of the rows.
      coherence: coherence of each topic, likewise.
      held: words that each topic holds, likewise: those with less than half a word are listed
        without words. None: all have some.

    >>> topics = summarise(np.array([[9.0, 1.0, 5.0], [1.0, 30.0, 1.0]]), ["sun", "rain", "sea"], num_words=2)
    >>> [(topic.number, topic.words, round(topic.share, 3)) for topic in topics]
    [(1, ('rain', 'sun'), 0.681), (0, ('sun', 'sea'), 0.319)]
    """
    concentration = np.asarray(concentration, np.float64)
    words = (
        vocabulary
        if vocabulary is not None
        else [f"word{i}" for i in range(concentration.shape[1])]
    )
    probs = concentration / concentration.sum(axis=1, keepdims=True)
    shares = concentration.sum(axis=1) / concentration.sum()
    top = np.argsort(-probs, axis=1, kind="stable")[:, :num_words]
    some = (
        np.full(len(probs), True)
        if held is None or np.max(held) < HELD
        else np.asarray(held) >= HELD
    )
    positions = layout(topic_distances(probs))
    return [
        Topic(
            number=int(k),
            share=float(shares[k]),
            words=tuple(words[i] for i in top[k]) if some[k] else (),
            probabilities=tuple(float(p) for p in probs[k, top[k]]) if some[k] else (),
            position=(float(positions[k, 0]), float(positions[k, 1])),
            documents=tuple(documents[k]) if documents is not None and some[k] else (),
            coherence=float(coherence[k]) if coherence is not None and some[k] else math.nan,
        )
        for k in np.argsort(-shares, kind="stable")
    ]


def topic_distances(probs: Float[np.ndarray, "topics words"]) -> Float[np.ndarray, "topics topics"]:
    """Jensen-Shannon distances, sqrt of the divergence in bits: 0 for equal topics, 1 for disjoint
    ones.

    >>> topic_distances(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])).round(3).tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    from scipy.spatial.distance import pdist, squareform  # slow to import

    in_nats = np.nan_to_num(
        squareform(pdist(probs, "jensenshannon"))
    )  # of nearly equal ones the root of less than 0
    return (in_nats / np.sqrt(np.log(2.0))).round(6)


def layout(distances: Float[np.ndarray, "n n"], num_iters: int = 300) -> Float[np.ndarray, "n 2"]:
    """Points in the square [-1, 1]^2 whose distances resemble the given ones: stress majorisation
    (SMACOF).

    It starts from classical scaling, shifted slightly so that coinciding points can separate;
    nothing in it is random."""
    n = len(distances)
    if n == 1:
        return np.zeros((1, 2))
    points = _classical_scaling(distances)
    for _ in range(num_iters):
        between = np.linalg.norm(points[:, None] - points[None], axis=-1)
        ratio = np.divide(distances, between, out=np.zeros_like(between), where=between > 1e-12)
        points = (ratio.sum(axis=1, keepdims=True) * points - ratio @ points) / n
    points -= 0.5 * (points.max(axis=0) + points.min(axis=0))
    return points / max(float(np.abs(points).max()), 1e-12)


def _classical_scaling(distances: np.ndarray) -> np.ndarray:
    centred = distances**2 - (distances**2).mean(axis=0)
    gram = -0.5 * (centred - centred.mean(axis=1, keepdims=True))
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    vectors = vectors * np.where(
        vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))] < 0, -1, 1
    )
    points = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    spiral = np.arange(len(distances))[:, None] * np.array([[2.4, 2.4 + np.pi / 2]])
    return points + 1e-3 * np.cos(spiral)  # separates points that coincide


def typical_rows(
    proportions: Float[np.ndarray, "docs topics"],
    lengths: Float[np.ndarray, " docs"],
    per_topic: int = 3,
) -> list[list[int]]:
    """The rows with most of each topic; documents below a quarter of the median length are left
    out."""
    long_enough = lengths >= 0.25 * np.median(lengths)
    ranked = np.argsort(-np.where(long_enough[:, None], proportions, -1.0), axis=0, kind="stable")
    return [
        [int(d) for d in ranked[:per_topic, k] if long_enough[d]]
        for k in range(proportions.shape[1])
    ]


def linked(
    shares: Float[np.ndarray, "docs topics"], least: float = 0.05
) -> list[tuple[int, int, float]]:
    """Pairs of topics whose shares of documents are correlated by `least` or more, the highest
    first: the edges of a graph of topics that come together.

    >>> linked(np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]))[0][:2]
    (0, 1)
    """
    with np.errstate(invalid="ignore"):
        found = np.nan_to_num(np.corrcoef(np.asarray(shares, float).T))
    pairs = [
        (i, j, float(found[i, j])) for i, j in zip(*np.triu_indices(len(found), k=1), strict=True)
    ]
    return sorted(
        ((int(i), int(j), r) for i, j, r in pairs if r >= least), key=lambda edge: -edge[2]
    )


def topics_text(topics: Sequence[Topic], num_words: int = 10) -> str:
    """One line per topic: number, share, name if it has one, words; and one line for all that hold
    no words.

    >>> print(topics_text(summarise(np.array([[9.0, 1.0], [0.1, 0.1]]), ["sun", "sea"], held=np.array([9.8, 0.0]))))
       0   98.0%  sun sea
    1 more topic holds no words
    """
    said = lambda topic: (
        (f"{topic.name}: " if topic.name else "") + " ".join(topic.words[:num_words])
    )
    lines = [
        f"{topic.number:4d}  {100 * topic.share:5.1f}%  {said(topic)}"
        for topic in topics
        if topic.words
    ]
    if empty := sum(not topic.words for topic in topics):
        lines.append(
            "1 more topic holds no words" if empty == 1 else f"{empty} more topics hold no words"
        )
    return printable("\n".join(lines))
