"""C_V, the coherence of topics that agrees best with readers (Roeder, Both and Hinneburg 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from vijax.checks import require, require_integers
from vijax.data.corpora.corpus import Corpus
from vijax.evaluate.score import Coherence, documents_with
from vijax.evaluate.tokens import as_corpus
from vijax.evaluate.topic_words import leading_words

SMALLEST = 1e-12
"""Added to the probability of a pair, as in the paper."""


def c_v(
    topics: Any,
    documents: Any,
    *,
    vocabulary: Sequence[str] | None = None,
    num_words: int = 10,
    window: int = 110,
) -> Coherence:
    """C_V of topics, from 0 to 1: how alike the leading words of a topic are in the company that
    they keep among each other.

    With x_v the vector of NPMI(v, w) over the leading words w of a topic, C_V is the mean over v of
    the cosine of x_v and the sum of all x_w. Probabilities are shares of windows of `window` words
    that hold a word, or both. Documents whose order of words is lost are one window each.

    Args:
      topics: probabilities of words by topic, shape (K, V), rows summing to one.
      documents: the reference: a `Corpus` over the same vocabulary, or anything `vijax.data.read`
        accepts, where each document is one window; or, with `vocabulary`, texts as lists of words.
      vocabulary: the V words, for texts as lists of words.
      num_words: number of leading words of a topic, from 2 to V.
      window: words in a window of such texts.

    Returns:
      A `Coherence`: its standard error is over topics.

    Raises:
      ValueError: another vocabulary, or documents without words.

    Source: Roeder et al. 2015, "Exploring the space of topic coherence measures"; as
    `CoherenceModel(coherence="c_v")` of gensim counts.

    >>> topics = np.array([[0.4, 0.4, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1]])
    >>> texts = [["sun", "sea"], ["sea", "sun", "tax"], ["law"], ["law", "tax"]]
    >>> print(c_v(topics, texts, vocabulary=["sun", "sea", "law", "tax"], num_words=2))
    0.513 ± 0.487 (2 topics)
    """
    leading = leading_words(topics, num_words)
    if vocabulary is None:
        corpus = as_corpus(documents, np.shape(topics)[1])
        return Coherence.of(_mean_cosine(documents_with(corpus, leading) / corpus.num_documents))
    require_integers(2, window=window)
    expected = f"{np.shape(topics)[1]} words, one for each column of topics"
    is_whole = len(vocabulary) == np.shape(topics)[1]
    require(is_whole, "vocabulary", expected, len(vocabulary))
    require(
        not isinstance(documents, Corpus | str),
        "documents",
        "texts as lists of words, whose order is known, when a vocabulary is given",
        type(documents).__name__,
        "Leave out vocabulary, and each document is one window.",
    )
    return Coherence.of(_mean_cosine(_share_of_windows(documents, vocabulary, leading, window)))


def _share_of_windows(
    texts: Sequence[Sequence[str]],
    vocabulary: Sequence[str],
    leading: Int[np.ndarray, "K n"],
    window: int,
) -> Float[np.ndarray, "K n n"]:
    """The share of windows with each pair of leading words; on the diagonal, with each word."""
    words, place = np.unique(leading, return_inverse=True)
    columns = {vocabulary[v]: j for j, v in enumerate(words)}
    together = np.zeros((len(words), len(words)))
    num_windows = 0
    for text in texts:
        if isinstance(text, str):
            require(False, "documents", "texts as lists of words", repr(text[:40]))
        codes = np.array([columns.get(word, -1) for word in text], int)
        holds, windows = _windows_with(codes, window)
        used = np.unique(codes[codes >= 0])
        together[np.ix_(used, used)] += holds.T @ holds
        num_windows += windows
    require(num_windows > 0, "documents", "at least one text", "none")
    place = place.reshape(leading.shape)
    return together[place[:, :, None], place[:, None, :]] / num_windows


def _windows_with(
    codes: Int[np.ndarray, " n"], window: int
) -> tuple[Float[np.ndarray, "windows used"], int]:
    """Ones for the windows that hold each word that is used; and the number of windows.

    >>> _windows_with(np.array([3, -1, -1, 5]), 2)[0].tolist()
    [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """
    used = np.unique(codes[codes >= 0])
    occurs = codes[:, None] == used
    size = min(window, len(codes))
    sums = np.concatenate([np.zeros((1, len(used))), np.cumsum(occurs, 0)])
    return (sums[size:] > sums[: len(sums) - size]).astype(float), len(codes) - size + 1


def _mean_cosine(joint: Float[np.ndarray, "K n n"]) -> Float[np.ndarray, " K"]:
    """The mean cosine of each word's NPMI with the leading words, and the sum of these."""
    single = np.diagonal(joint, axis1=1, axis2=2)
    expected = single[:, :, None] * single[:, None, :]
    is_seen = expected > 0
    raised = joint + SMALLEST
    ratio = np.log(raised / np.where(is_seen, expected, 1.0))
    npmi = np.where(is_seen, ratio / np.maximum(-np.log(raised), SMALLEST), 0.0)
    total = npmi.sum(1, keepdims=True)
    lengths = np.linalg.norm(npmi, axis=2) * np.linalg.norm(total, axis=2)
    cosines = (npmi * total).sum(2) / np.maximum(lengths, SMALLEST)
    return cosines.mean(1)
