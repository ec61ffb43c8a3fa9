"""The data in the page of topics: read from a run folder, and written as one text of JSON, with
whole numbers if possible, which are short."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vijax.app.answers.results import EXCERPTS, results_paths
from vijax.app.answers.shares import GroupedShares, page_groups, share_matrix
from vijax.app.drawing import blocks
from vijax.app.drawing.words import GRID, MOST_SHOWN, Words, page_words, words_from_topics
from vijax.app.folder.run_end import read_posterior
from vijax.app.folder.run_folder import read_facts
from vijax.app.plan.config import Config, ConfigError
from vijax.app.settings.quoting import quote
from vijax.app.sources.doc_topics import (
    read_doc_topics,
    read_excerpts,
    rewrite_remedy,
    user_columns,
)
from vijax.topics.summary import Topic, typical_rows

MOST_ALIKE = 6
"""Number of similar topics listed for each."""
LOG_SCALE = 1e4
"""Logarithms are multiplied by this and rounded: a precision of 0.0001 nats."""
SHARE_SCALE = 1e5
"""Shares are multiplied by this and rounded: a precision of a thousandth of a per cent."""


class TopicPage(NamedTuple):
    """The content of the page of topics.

    Attributes:
      topics: largest first.
      distances: between topics, in the order of their numbers.
      words: the lexicon.
      tokens: number of words of the training documents; None if unknown.
      documents: documents that can be searched; None without any.
      groups: topics by group and over time.
      name: name of the run, for files that are saved.
      sampled: number of documents, evenly spread, from which documents and groups come; None: all.
    """

    topics: Sequence[Topic]
    distances: Any
    words: Words
    tokens: int | None = None
    documents: Documents | None = None
    groups: Sequence[GroupedShares] = ()
    name: str = "topics"
    sampled: int | None = None


def to_json_text(page: TopicPage) -> str:
    """The text of JSON. It holds no "<", so that nothing in it can end its HTML element."""
    text = json.dumps(_payload(page), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _payload(page: TopicPage) -> dict[str, Any]:
    words = page.words
    documents = page.documents
    return {
        "name": page.name,
        "tokens": page.tokens,
        "shown": MOST_SHOWN,
        "steps": len(GRID) - 1,
        "fine": LOG_SCALE,
        "whole": SHARE_SCALE,
        "words": words.names,
        "overall": _whole_logs(words.log_overall),
        "uses": [_pairs(pairs) for pairs in words.uses],
        "missing": words.left_out,
        "topics": [_topic(topic, page) for topic in page.topics],
        "documents": None if documents is None else _documents(documents),
        "groups": [_group(group) for group in page.groups],
    }


def _topic(topic: Topic, page: TopicPage) -> dict[str, Any]:
    leading = page.words.leading[topic.number]
    documents = page.documents
    return {
        "number": topic.number,
        "name": topic.name,
        "label": topic.label,
        "share": _number(topic.share),
        "coherence": _number(topic.coherence),
        "words": leading.places.tolist() if topic.words else [],
        "logs": _whole_logs(leading.log_probs) if topic.words else [],
        "orders": {name: places.tolist() for name, places in leading.orders.items()},
        "alike": _alike(topic.number, page.distances),
        "documents": [] if documents is None else _pairs(documents.typical[topic.number]),
    }


def _alike(number: int, distances: Any) -> list[list[float]]:
    """The nearest topics and their distances."""
    row = np.array(distances[number], float)  # None in JSON becomes NaN
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


def _group(group: GroupedShares) -> dict[str, Any]:
    shares = group.shares
    return {
        "by": group.by,
        "every": group.every,
        "time": group.in_time,
        "names": [name or "(none)" for name in shares.groups],
        "documents": shares.documents.tolist(),
        "share": [_whole_shares(row) for row in shares.share],
        "error": [_whole_shares(row) for row in shares.error],
    }


def _whole_logs(logs: Iterable[float]) -> list[int]:
    """Negative logarithms as whole numbers."""
    return [round(-LOG_SCALE * float(value)) for value in logs]


def _whole_shares(shares: Iterable[float]) -> list[int | None]:
    return [round(SHARE_SCALE * float(value)) if math.isfinite(value) else None for value in shares]


def _pairs(pairs: Iterable[tuple[int, float]]) -> list[int]:
    """Number, share, number, share, ..."""
    return [value for k, share in pairs for value in (int(k), round(SHARE_SCALE * share))]


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


# --- documents ------------------------------------------------------------------------------------
MOST_PER_TOPIC = 10
"""Number of documents listed for each topic, with the largest shares of it."""
MOST_SHARES = 5
LEAST_SHARE = 0.01
"""A document keeps its `MOST_SHARES` largest topics with at least this share."""
LONGEST_EXCERPT = 200
LONGEST_TITLE = 120


class Documents(NamedTuple):
    """The documents in the page.

    Attributes:
      titles: titles of the documents that are kept.
      excerpts: their beginnings; empty if unknown.
      sizes: their numbers of words.
      shares: for each document its largest topics and their shares.
      typical: for each topic the places of the documents that use it most, and their shares.
      total: number of all documents.
    """

    titles: tuple[str, ...]
    excerpts: tuple[str, ...]
    sizes: tuple[int, ...]
    shares: tuple[tuple[tuple[int, float], ...], ...]
    typical: tuple[tuple[tuple[int, float], ...], ...]
    total: int


def page_documents(
    columns: Mapping[str, Sequence[Any]], excerpts: Sequence[str], most: int
) -> Documents | None:
    """The documents for a page; None if there are none.

    Args:
      columns: the columns of doc_topics.csv.
      excerpts: the beginnings of the documents; empty if unknown.
      most: number of documents to keep: the leading ones of each topic, and others spread evenly.
    """
    shares = share_matrix(columns)
    sizes = np.nan_to_num(np.asarray(columns["words"], float))
    rows = np.flatnonzero(np.isfinite(shares).all(axis=1))
    if not len(rows) or most < 1:
        return None
    leading = typical_rows(shares[rows], sizes[rows], MOST_PER_TOPIC)
    ranked = [[int(rows[d]) for d in documents] for documents in leading]
    chosen = _choose_rows(ranked, rows, most)
    places = {int(row): i for i, row in enumerate(chosen)}
    typical = []
    for k, documents in enumerate(ranked):
        typical.append(tuple((places[i], float(shares[i, k])) for i in documents if i in places))
    has_excerpts = len(excerpts) == len(shares)
    return Documents(
        titles=tuple(str(columns["document"][i])[:LONGEST_TITLE] for i in chosen),
        excerpts=tuple(str(excerpts[i])[:LONGEST_EXCERPT] for i in chosen if has_excerpts),
        sizes=tuple(int(sizes[i]) for i in chosen),
        shares=tuple(_largest(shares[i]) for i in chosen),
        typical=tuple(typical),
        total=len(shares),
    )


def _choose_rows(ranked: Sequence[Sequence[int]], rows: np.ndarray, most: int) -> np.ndarray:
    """Rows to keep, ascending: first the leading ones of every topic, then others spread evenly."""
    if len(rows) <= most:
        return rows
    by_rank = (row[i] for i in range(MOST_PER_TOPIC) for row in ranked if i < len(row))
    leading = list(dict.fromkeys(by_rank))[:most]
    remaining = np.setdiff1d(rows, leading)
    places = np.linspace(0, len(remaining) - 1, most - len(leading)).astype(int)
    return np.sort(np.concatenate([leading, remaining[np.unique(places)]]).astype(int))


def _largest(shares: np.ndarray) -> tuple[tuple[int, float], ...]:
    top = np.argsort(-shares, kind="stable")[:MOST_SHARES]
    return tuple((int(k), float(shares[k])) for k in top if shares[k] >= LEAST_SHARE)


# --- from a run folder ----------------------------------------------------------------------------
CONCENTRATION = "topics/concentration"
"""The name in posterior.npz of the Dirichlet parameters of the topics' words."""
COUNTS = "topics/counts"
"""The name in posterior.npz of the counts of words by topic and slice of time."""
LEAST_COUNT = 1e-6
"""A count of a word that a topic does not have."""


def topic_page(
    folder: Path,
    config: Config,
    block: blocks.Topics,
    tokens: int | None,
    concentration: np.ndarray | None,
) -> TopicPage | None:
    """The page of the topics of a run; None for a block without topics.

    Args:
      folder: folder of the run.
      config: its settings.
      block: its topics.
      tokens: number of words of the training documents.
      concentration: concentration of the topics' words in a run that has not ended; None reads
        posterior.npz.
    """
    if not block.topics:
        return None
    words = _words_of_run(folder, config, block, concentration)
    all_path, sample_path = results_paths(folder, config)
    path = all_path if all_path.is_file() else sample_path
    columns = read_doc_topics(path) if concentration is None and path.is_file() else None
    size = len(block.topics)
    if columns is not None and f"share_{size - 1}" not in columns:
        raise ConfigError(f"{path}: expected shares of {size} topics; {rewrite_remedy(path)}")
    page = TopicPage(block.topics, block.distances, words, tokens, name=config.name)
    if columns is None:
        return page
    texts = read_excerpts(folder / EXCERPTS) if config.page.excerpts else []
    documents = page_documents(columns, texts, config.page.documents)
    groups = page_groups(columns, user_columns(columns), config.page.by, config.page.every)
    page = page._replace(documents=documents, groups=groups)
    if path == all_path:
        return page
    facts = read_facts(folder)  # the page knows only some of the documents
    total = facts["documents"] + facts["held_out"]
    documents = documents and documents._replace(total=total)
    return page._replace(documents=documents, sampled=len(columns["words"]))


def _words_of_run(
    folder: Path, config: Config, block: blocks.Topics, concentration: np.ndarray | None
) -> Words:
    weights = read_concentration(folder) if concentration is None else concentration
    path = folder / "vocabulary.txt"
    if weights is None or not path.is_file():
        return words_from_topics(block.topics)
    vocabulary = path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
    if weights.shape != (len(block.topics), len(vocabulary)):
        raise ConfigError(
            f"{folder / 'posterior.npz'}: expected {len(block.topics)} topics of {len(vocabulary)} "
            f"words, got an array of shape {weights.shape}; write both again: vijax "
            f"resume {quote(folder)}"
        )
    return page_words(weights, vocabulary, config.page.words)


def read_concentration(folder: Path) -> np.ndarray | None:
    """Concentrations of the topics' words, (K, V), or their counts in all slices of time; None if
    the folder has none."""
    if not (folder / "posterior.npz").is_file():
        return None
    posterior = read_posterior(folder)
    if CONCENTRATION in posterior:
        return np.asarray(posterior[CONCENTRATION], np.float64)
    if COUNTS in posterior:
        return np.maximum(np.asarray(posterior[COUNTS], np.float64).sum(axis=1), LEAST_COUNT)
    return None
