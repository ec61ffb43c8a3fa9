"""The data that the page of topics embeds, as one text of JSON: whole numbers wherever possible, as they are short."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vijax.app.explorer.documents import Documents
from vijax.app.explorer.groups import Grouped
from vijax.app.explorer.words import GRID, MOST_SHOWN, Words
from vijax.topics.summary import Topic

MOST_ALIKE = 6
"""Number of similar topics that are listed for each."""
FINE, SHARE = 1e4, 1e5
"""The precision of logarithms and shares: 0.0001 nats, and a thousandth of a per cent."""


class Explored(NamedTuple):
    """Everything that is explored on the page of a run.

    Attributes:
      topics: largest first, as everywhere.
      distances: between topics, in the order of their numbers.
      words: the lexicon.
      tokens: number of words of the training documents, or None where not known.
      documents: documents that can be searched, or None.
      groups: topics by group and over time.
      name: name of the run, for files that are saved.
      sampled: number of documents, evenly spread, on which all statements about documents and groups rest; None: all.
    """

    topics: Sequence[Topic]
    distances: Any
    words: Words
    tokens: int | None = None
    documents: Documents | None = None
    groups: Sequence[Grouped] = ()
    name: str = "topics"
    sampled: int | None = None


def embedded(explored: Explored) -> str:
    """The text; it holds no "<", so that nothing in it can end the element that it stands in."""
    text = json.dumps(_payload(explored), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _payload(explored: Explored) -> dict[str, Any]:
    words, documents = explored.words, explored.documents
    return {
        "name": explored.name,
        "tokens": explored.tokens,
        "shown": MOST_SHOWN,
        "steps": len(GRID) - 1,
        "fine": FINE,
        "whole": SHARE,
        "words": words.names,
        "overall": _fine(words.log_overall),
        "uses": [_pairs(pairs) for pairs in words.uses],
        "missing": words.left_out,
        "topics": [_topic(topic, explored) for topic in explored.topics],
        "documents": None if documents is None else _documents(documents),
        "groups": [_group(group) for group in explored.groups],
    }


def _topic(topic: Topic, explored: Explored) -> dict[str, Any]:
    leading, documents = explored.words.leading[topic.number], explored.documents
    return {
        "number": topic.number,
        "share": _number(topic.share),
        "coherence": _number(topic.coherence),
        "words": leading.places.tolist(),
        "logs": _fine(leading.log_probs),
        "alike": _alike(topic.number, explored.distances),
        "documents": [] if documents is None else _pairs(documents.typical[topic.number]),
    }


def _alike(number: int, distances: Any) -> list[list[float]]:
    """The nearest topics and their distances."""
    row = np.array([np.nan if value is None else value for value in distances[number]], float)
    row[number] = np.nan
    order = [int(k) for k in np.argsort(row, kind="stable") if np.isfinite(row[k])]
    return [[k, round(float(row[k]), 3)] for k in order[:MOST_ALIKE]]


def _documents(documents: Documents) -> dict[str, Any]:
    return {
        "total": documents.total,
        "titles": documents.titles,
        "excerpts": documents.excerpts,
        "sizes": documents.sizes,
        "shares": [_pairs(pairs) for pairs in documents.shares],
    }


def _group(group: Grouped) -> dict[str, Any]:
    shares = group.shares
    return {
        "by": group.by,
        "every": group.every,
        "time": group.in_time,
        "names": [name or "(none)" for name in shares.groups],
        "documents": shares.documents.tolist(),
        "share": [_whole(row) for row in shares.share],
        "error": [_whole(row) for row in shares.error],
    }


def _fine(logs: Iterable[float]) -> list[int]:
    """Negative logarithms, as whole numbers."""
    return [round(-FINE * float(value)) for value in logs]


def _whole(shares: Iterable[float]) -> list[int | None]:
    return [round(SHARE * float(value)) if math.isfinite(value) else None for value in shares]


def _pairs(pairs: Iterable[tuple[int, float]]) -> list[int]:
    """Number, share, number, share, ..."""
    return [value for k, share in pairs for value in (int(k), round(SHARE * share))]


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
