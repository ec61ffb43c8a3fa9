"""The data that the page of topics embeds: read from a run folder, and written as one text of JSON,
with whole numbers wherever possible, as they are short."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vijax.app.answers.results import EXCERPTS, results_paths
from vijax.app.answers.shares import Grouped, grouped, share_matrix
from vijax.app.drawing import blocks
from vijax.app.drawing.words import GRID, MOST_SHOWN, Words, page_words, words_from_topics
from vijax.app.folder.run_end import read_posterior
from vijax.app.folder.run_folder import read_facts
from vijax.app.plan.config import Config, ConfigError
from vijax.app.sources.doc_topics import (
    read_doc_topics,
    read_excerpts,
    rewrite_remedy,
    user_columns,
)
from vijax.topics.summary import Topic, typical_rows

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
      sampled: number of documents, evenly spread, on which all statements about documents and
          groups rest; None: all.
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
    text = json.dumps(
        _payload(explored), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
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
        "name": topic.name,
        "label": topic.label,
        "share": _number(topic.share),
        "coherence": _number(topic.coherence),
        "words": leading.places.tolist() if topic.words else [],
        "logs": _fine(leading.log_probs) if topic.words else [],
        "alike": _alike(topic.number, explored.distances),
        "documents": [] if documents is None else _pairs(documents.typical[topic.number]),
    }


def _alike(number: int, distances: Any) -> list[list[float]]:
    """The nearest topics and their distances."""
    row = np.array(distances[number], float)  # None, as JSON has it, becomes NaN
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


# --- documents ------------------------------------------------------------------------------------
MOST_PER_TOPIC = 10
"""Documents listed as those that use a topic most."""
MOST_SHARES, LEAST_SHARE = 5, 0.01
"""Topics that are kept of a document, of those that have a hundredth of it or more."""
LONGEST_EXCERPT, LONGEST_TITLE = 200, 120


class Documents(NamedTuple):
    """The documents that the page embeds.

    Attributes:
      titles: titles of the documents that are kept.
      excerpts: their beginnings; empty where not known.
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


def documents_of(
    columns: Mapping[str, Sequence[Any]], excerpts: Sequence[str], most: int
) -> Documents | None:
    """The documents for a page, from the columns of doc_topics.csv and their beginnings (empty
    where not known); None where there are none. So many are kept: those that use a topic most, and
    others spread evenly."""
    shares = share_matrix(columns)
    sizes = np.nan_to_num(np.asarray(columns["words"], float))
    known = np.flatnonzero(np.isfinite(shares).all(axis=1))
    if not len(known) or most < 1:
        return None
    ranked = [
        [int(known[d]) for d in rows]
        for rows in typical_rows(shares[known], sizes[known], MOST_PER_TOPIC)
    ]
    kept = _chosen(ranked, known, most)
    place = {int(row): i for i, row in enumerate(kept)}
    texts = excerpts if len(excerpts) == len(shares) else ()
    return Documents(
        tuple(str(columns["document"][i])[:LONGEST_TITLE] for i in kept),
        tuple(str(texts[i])[:LONGEST_EXCERPT] for i in kept) if len(texts) else (),
        tuple(int(sizes[i]) for i in kept),
        tuple(_largest(shares[i]) for i in kept),
        tuple(
            tuple((place[i], float(shares[i, k])) for i in rows if i in place)
            for k, rows in enumerate(ranked)
        ),
        len(shares),
    )


def _chosen(ranked: Sequence[Sequence[int]], known: np.ndarray, most: int) -> np.ndarray:
    """Rows to keep, ascending: first the leading ones of every topic, then others spread evenly."""
    if len(known) <= most:
        return known
    by_rank = (rows[i] for i in range(MOST_PER_TOPIC) for rows in ranked if i < len(rows))
    leading = list(dict.fromkeys(by_rank))[:most]
    others = np.setdiff1d(known, leading)
    places = np.linspace(0, len(others) - 1, most - len(leading)).astype(int)
    return np.sort(np.concatenate([leading, others[np.unique(places)]]).astype(int))


def _largest(shares: np.ndarray) -> tuple[tuple[int, float], ...]:
    top = np.argsort(-shares, kind="stable")[:MOST_SHARES]
    return tuple((int(k), float(shares[k])) for k in top if shares[k] >= LEAST_SHARE)


# --- from a run folder ----------------------------------------------------------------------------
CONCENTRATION = "topics/concentration"
"""The name in posterior.npz of the Dirichlet parameters of the topics' words."""


def explored_of(
    folder: Path,
    config: Config,
    block: blocks.Topics,
    tokens: int | None,
    concentration: np.ndarray | None,
) -> Explored | None:
    """The explored topics of the page of a run; None for a block without topics. `tokens` is the
    number of words of the training documents, `concentration` that of the topics' words for a run
    that has not ended: else posterior.npz is read."""
    if not block.topics:
        return None
    words = _words_of_run(folder, config, block, concentration)
    whole, sample = results_paths(folder, config)
    path = whole if whole.is_file() else sample
    columns = read_doc_topics(path) if concentration is None and path.is_file() else None
    size = len(block.topics)
    if columns is not None and f"share_{size - 1}" not in columns:
        raise ConfigError(f"{path}: expected shares of {size} topics; {rewrite_remedy(path)}")
    found = Explored(block.topics, block.distances, words, tokens, name=config.name)
    if columns is None:
        return found
    texts = read_excerpts(folder / EXCERPTS) if config.page.excerpts else []
    documents = documents_of(columns, texts, config.page.documents)
    groups = grouped(columns, user_columns(columns), config.page.by, config.page.every)
    found = found._replace(documents=documents, groups=groups)
    if path == whole:
        return found
    facts = read_facts(folder)  # the page knows only some of the documents
    total = facts["documents"] + facts["held_out"]
    return found._replace(
        documents=documents and documents._replace(total=total), sampled=len(columns["words"])
    )


def _words_of_run(
    folder: Path, config: Config, block: blocks.Topics, concentration: np.ndarray | None
) -> Words:
    found = posterior_of(folder) if concentration is None else concentration
    path = folder / "vocabulary.txt"
    if found is None or not path.is_file():
        return words_from_topics(block.topics)
    vocabulary = path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
    if found.shape != (len(block.topics), len(vocabulary)):
        raise ConfigError(
            f"{folder / 'posterior.npz'}: expected {len(block.topics)} topics of {len(vocabulary)} "
            f"words, got an array of shape {found.shape}; write both again: vijax resume {folder}"
        )
    return page_words(found, vocabulary, config.page.words)


def posterior_of(folder: Path) -> np.ndarray | None:
    """Concentrations of the topics' words, (K, V); None where the folder has none."""
    if not (folder / "posterior.npz").is_file():
        return None
    found = read_posterior(folder).get(CONCENTRATION)
    return None if found is None else np.asarray(found, np.float64)
