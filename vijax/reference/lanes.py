"""A corpus as lanes of tokens, for samplers that visit several tokens at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Int

from vijax.data.corpora.corpus import Corpus


class Lanes(NamedTuple):
    """Tokens by step and lane. Each document lies in one lane, so tokens visited together are of different documents.

    Attributes:
      words: word of each token; 0 in padding.
      documents: document of each token; D, which is no document, in padding. Padding is at the ends of lanes.
    """

    words: Int[Array | np.ndarray, "steps lanes"]
    documents: Int[Array | np.ndarray, "steps lanes"]


def deal_lanes(corpus: Corpus, num_lanes: int) -> Lanes:
    """Lanes of nearly equal length: documents are dealt to and fro, the longest first; a lane keeps their order.

    >>> from vijax.data import Corpus
    >>> lanes = deal_lanes(Corpus.from_counts([[1, 0], [2, 1], [0, 2]]), 2)
    >>> lanes.words.tolist(), lanes.documents.tolist()
    ([[0, 0], [0, 1], [1, 1]], [[1, 0], [1, 2], [1, 2]])
    """
    order = np.argsort(-corpus.tokens, kind="stable") if num_lanes > 1 else np.arange(corpus.num_documents)
    turn, seat = np.divmod(np.arange(corpus.num_documents), num_lanes)
    lane_of = np.empty(corpus.num_documents, np.int64)
    lane_of[order] = np.where(turn % 2 == 0, seat, num_lanes - 1 - seat)
    documents = np.repeat(np.arange(corpus.num_documents), corpus.tokens)
    words = np.repeat(corpus.indices, corpus.counts)
    by_lane = np.argsort(lane_of[documents], kind="stable")
    lane = lane_of[documents][by_lane]
    length = np.bincount(lane, minlength=num_lanes)
    step = np.arange(len(lane)) - (np.cumsum(length) - length)[lane]
    shape = (int(length.max()), num_lanes)
    lanes = Lanes(np.zeros(shape, np.int32), np.full(shape, corpus.num_documents, np.int32))
    lanes.words[step, lane] = words[by_lane]
    lanes.documents[step, lane] = documents[by_lane]
    return lanes
