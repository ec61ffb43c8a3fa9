"""Summaries of fitted topics for readers: their words, sizes, likeness and most typical documents,
as plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.terminal import printable

HELD = 0.5
"""Expected words above which a topic holds words."""
MAPPED = 1000
"""Most topics whose distances to each other are computed for the map; more are mapped by the two
directions in which they differ most."""
BLOCK = 2**22
"""Numbers of the table of topics that are copied at once."""


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
      words: the most probable words; empty if it holds no words of the data.
      probabilities: probabilities of these words, descending.
      position: on the map of topics, within [-1, 1]^2.
      documents: the most typical ones.
      coherence: NPMI of its leading words (`vijax.evaluate.npmi`); NaN if it was not computed.
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
    scores: Float[np.ndarray, "topics words"] | None = None,
) -> list[Topic]:
    """Topics from the Dirichlet concentrations of their words, largest first.

    Args:
      concentration: lambda, prior plus expected counts.
      vocabulary: the words; None names them by their ids.
      num_words: number of words of each topic.
      documents: typical documents of each topic, in the order of the rows.
      coherence: coherence of each topic, in the same order.
      held: words that each topic holds, in the same order: topics with less than half a word are
        listed without words. None: all topics are listed with words.
      scores: the words with the highest lead; None: the most probable.

    Beside `concentration` it takes the memory of `BLOCK` numbers, and of some for each topic; for
    the map of at most `MAPPED` topics, of the square of their number.

    >>> topics = summarise(np.array([[9.0, 1.0, 5.0], [1.0, 30.0, 1.0]]), ["sun", "rain", "sea"], num_words=2)
    >>> [(topic.number, topic.words, round(topic.share, 3)) for topic in topics]
    [(1, ('rain', 'sun'), 0.681), (0, ('sun', 'sea'), 0.319)]
    """
    concentration = np.asarray(concentration)
    if vocabulary is None:
        vocabulary = [f"word{i}" for i in range(concentration.shape[1])]
    blocks = list(_row_blocks(*concentration.shape))
    totals = np.concatenate([_weights(concentration, rows).sum(axis=1) for rows in blocks])
    shares = totals / totals.sum()
    leading = [_leading_words(concentration, scores, rows, num_words) for rows in blocks]
    top = np.concatenate([words for words, _ in leading])
    top_probs = np.concatenate([weights for _, weights in leading]) / totals[:, None]
    has_words = np.full(len(totals), True)
    if held is not None and np.max(held) >= HELD:
        has_words = np.asarray(held) >= HELD
    positions = _positions(concentration, totals)
    topics = []
    for k in np.argsort(-shares, kind="stable"):
        topic = Topic(
            number=int(k),
            share=float(shares[k]),
            words=(),
            probabilities=(),
            position=(float(positions[k, 0]), float(positions[k, 1])),
        )
        if has_words[k]:
            topic = topic._replace(
                words=tuple(vocabulary[i] for i in top[k]),
                probabilities=tuple(float(p) for p in top_probs[k]),
                documents=() if documents is None else tuple(documents[k]),
                coherence=math.nan if coherence is None else float(coherence[k]),
            )
        topics.append(topic)
    return topics


def _row_blocks(num_rows: int, num_columns: int) -> Iterator[slice]:
    """Rows of a table, some at a time."""
    size = max(1, BLOCK // max(1, num_columns))
    for start in range(0, num_rows, size):
        yield slice(start, start + size)


def _weights(concentration: np.ndarray, rows: slice) -> Float[np.ndarray, "rows words"]:
    """Some rows in double precision."""
    return np.asarray(concentration[rows], np.float64)


def _leading_words(
    concentration: np.ndarray, scores: np.ndarray | None, rows: slice, num_words: int
) -> tuple[np.ndarray, np.ndarray]:
    """The words of some topics with the highest scores, the highest first and of equal ones the
    first; and their concentrations."""
    weights = _weights(concentration, rows)
    block = weights / weights.sum(axis=1, keepdims=True)
    if scores is not None:
        block = np.asarray(scores[rows])
    top = np.array([_first_places(row, num_words) for row in block])
    return top, np.take_along_axis(weights, top, 1)


def _first_places(scores: Float[np.ndarray, " words"], number: int) -> np.ndarray:
    """`argsort(-scores, stable)[:number]`, which sorts only what it may return."""
    if number >= len(scores) or np.isnan(scores).any():
        return np.argsort(-scores, kind="stable")[:number]
    threshold = np.partition(scores, -number)[-number]
    places = np.flatnonzero(scores >= threshold)
    return places[np.argsort(-scores[places], kind="stable")][:number]


def _positions(concentration: np.ndarray, totals: np.ndarray) -> Float[np.ndarray, "topics 2"]:
    """The map of topics: by their Jensen-Shannon distances, or of many by `_principal_points`."""
    if len(totals) > MAPPED:
        return _principal_points(concentration, totals)
    return layout(topic_distances(_weights(concentration, slice(None)) / totals[:, None]))


def _principal_points(
    concentration: np.ndarray, totals: np.ndarray, num_rounds: int = 12, num_extra: int = 8
) -> Float[np.ndarray, "topics 2"]:
    """Points in [-1, 1]^2: the two principal coordinates of the square roots of the topics'
    probabilities, which is the classical scaling of their Hellinger distances. By rounds of
    subspace iteration, each of which reads the table twice; nothing is random."""
    num_topics, num_words = concentration.shape
    blocks = list(_row_blocks(num_topics, num_words))

    def roots(rows: slice) -> np.ndarray:
        return np.sqrt(_weights(concentration, rows) / totals[rows, None])

    mean = sum(roots(rows).sum(axis=0) for rows in blocks) / num_topics
    width = min(2 + num_extra, num_topics, num_words)
    angles = np.outer(np.arange(1, num_topics + 1), np.sqrt(np.arange(2, width + 2)))
    points = np.linalg.qr(np.cos(np.pi * angles))[0]
    for _ in range(num_rounds):
        directions = sum(roots(rows).T @ points[rows] for rows in blocks)
        directions = np.linalg.qr(directions - np.outer(mean, points.sum(axis=0)))[0]
        scores = np.concatenate([(roots(rows) - mean) @ directions for rows in blocks])
        points, sizes, _ = np.linalg.svd(scores, full_matrices=False)
    points = points[:, :2] * sizes[:2]
    largest = points[np.abs(points).argmax(axis=0), np.arange(2)]
    points = points * np.where(largest < 0, -1, 1)  # an arbitrary sign, but always the same
    points -= 0.5 * (points.max(axis=0) + points.min(axis=0))
    return points / max(float(np.abs(points).max()), 1e-12)


def topic_distances(probs: Float[np.ndarray, "topics words"]) -> Float[np.ndarray, "topics topics"]:
    """Jensen-Shannon distances, sqrt of the divergence in bits: 0 for equal topics, 1 for disjoint
    ones.

    >>> topic_distances(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])).round(3).tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    from scipy.spatial.distance import pdist, squareform  # slow to import

    # For nearly equal topics rounding may give the root of a negative number
    distances = np.nan_to_num(squareform(pdist(probs, "jensenshannon")))
    return (distances / np.sqrt(np.log(2.0))).round(6)


def layout(distances: Float[np.ndarray, "n n"], num_iters: int = 300) -> Float[np.ndarray, "n 2"]:
    """Points in the square [-1, 1]^2 whose distances resemble the given ones, by stress
    majorisation (SMACOF).

    It starts from classical scaling, shifted slightly so that coinciding points can separate;
    nothing is random."""
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
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))]
    vectors = vectors * np.where(largest < 0, -1, 1)  # an arbitrary sign, but always the same
    points = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    spiral = np.arange(len(distances))[:, None] * np.array([[2.4, 2.4 + np.pi / 2]])
    return points + 1e-3 * np.cos(spiral)  # separates points that coincide


def typical_rows(
    proportions: Float[np.ndarray, "docs topics"],
    lengths: Float[np.ndarray, " docs"],
    per_topic: int = 3,
) -> list[list[int]]:
    """The rows with most of each topic, except below a quarter of the median length."""
    long_enough = lengths >= 0.25 * np.median(lengths)
    ranked = np.argsort(-np.where(long_enough[:, None], proportions, -1.0), axis=0, kind="stable")
    return [
        [int(d) for d in ranked[:per_topic, k] if long_enough[d]]
        for k in range(proportions.shape[1])
    ]


def linked(
    shares: Float[np.ndarray, "docs topics"], least: float = 0.05
) -> list[tuple[int, int, float]]:
    """Pairs of topics whose shares of documents have a correlation of `least` or more, the highest
    first, as (i, j, correlation): the edges of a graph of topics.

    >>> linked(np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]))[0][:2]
    (0, 1)
    """
    with np.errstate(invalid="ignore"):
        correlation = np.nan_to_num(np.corrcoef(np.asarray(shares, float).T))
    edges = []
    for i, j in zip(*np.triu_indices(len(correlation), k=1), strict=True):
        if correlation[i, j] >= least:
            edges.append((int(i), int(j), float(correlation[i, j])))
    return sorted(edges, key=lambda edge: -edge[2])


def topics_text(topics: Sequence[Topic], num_words: int = 10) -> str:
    """One line per topic: number, share, name if it has one, words; and one line for all topics
    without words.

    >>> print(topics_text(summarise(np.array([[9.0, 1.0], [0.1, 0.1]]), ["sun", "sea"], held=np.array([9.8, 0.0]))))
       0   98.0%  sun sea
    1 more topic holds no words
    """
    lines = [_topic_line(topic, num_words) for topic in topics if topic.words]
    num_empty = sum(not topic.words for topic in topics)
    if num_empty == 1:
        lines.append("1 more topic holds no words")
    elif num_empty:
        lines.append(f"{num_empty} more topics hold no words")
    return printable("\n".join(lines))


def _topic_line(topic: Topic, num_words: int) -> str:
    name = f"{topic.name}: " if topic.name else ""
    words = " ".join(topic.words[:num_words])
    return f"{topic.number:4d}  {100 * topic.share:5.1f}%  {name}{words}"
