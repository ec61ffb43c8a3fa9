"""The documents on the page of topics: those of doc_topics.csv, or some of them, and their beginnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.topics.summary import typical_rows

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


def documents_of(columns: Mapping[str, Sequence[Any]], excerpts: Sequence[str], most: int) -> Documents | None:
    """The documents for a page; None where there are none.

    Args:
      columns: columns of doc_topics.csv: `document`, `words`, `share_0`, `share_1`, ...
      excerpts: beginning of each; empty where not known.
      most: number to keep: documents that use a topic most, and others spread evenly.
    """
    shares = share_matrix(columns)
    sizes = np.nan_to_num(np.asarray(columns["words"], float))
    known = np.flatnonzero(np.isfinite(shares).all(axis=1))
    if not len(known) or most < 1:
        return None
    ranked = [[int(known[d]) for d in rows] for rows in typical_rows(shares[known], sizes[known], MOST_PER_TOPIC)]
    kept = _chosen(ranked, known, most)
    place = {int(row): i for i, row in enumerate(kept)}
    texts = excerpts if len(excerpts) == len(shares) else ()
    return Documents(
        tuple(str(columns["document"][i])[:LONGEST_TITLE] for i in kept),
        tuple(str(texts[i])[:LONGEST_EXCERPT] for i in kept) if len(texts) else (),
        tuple(int(sizes[i]) for i in kept),
        tuple(_largest(shares[i]) for i in kept),
        tuple(tuple((place[i], float(shares[i, k])) for i in rows if i in place) for k, rows in enumerate(ranked)),
        len(shares),
    )


def share_matrix(columns: Mapping[str, Sequence[Any]]) -> Float[np.ndarray, "docs K"]:
    """The columns share_0, share_1, ... as a matrix."""
    names = [f"share_{k}" for k in range(len(columns)) if f"share_{k}" in columns]
    return np.stack([np.asarray(columns[name], float) for name in names], axis=1)


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
