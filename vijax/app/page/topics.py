"""Topics on the page, with documents that are typical of them, for any model of topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.app.kinds.listing import Found, Seen, Tell
from vijax.app.page.blocks import Block, Topics
from vijax.app.rows.doc_topics import commonest_words
from vijax.evaluate import npmi
from vijax.topics.summary import Document, summarise, topic_distances, typical_rows

MOST_READ = 2000
"""Most documents that are searched for typical ones."""
MOST_COUNTED = 100_000
"""Most documents that are counted for coherence."""
LEADING = 10
"""Number of leading words that give the coherence of a topic."""

Proportions = Callable[[Any, np.ndarray], Float[np.ndarray, "docs K"]]


def topics_block(seen: Seen, concentration: Any, proportions: Proportions) -> Topics:
    """The topics of Dirichlet parameters (K, V), with documents typical of each.

    Args:
      seen: the fit and its data.
      concentration: concentration of the topics' words.
      proportions: (some of the training documents, their rows) -> the share of each topic in them.
    """
    # A topic that maximum likelihood has emptied has no words: all are equally probable, rather than 0/0.
    concentration = np.maximum(np.asarray(concentration, np.float64), 1e-10)
    probs = concentration / concentration.sum(axis=1, keepdims=True)
    topics = summarise(
        concentration,
        seen.data.names,
        documents=typical_documents(seen.data.train, proportions),
        coherence=_coherence(probs, seen.data.train),
    )
    distances = topic_distances(probs)
    return Topics("1 topic" if len(topics) == 1 else f"{len(topics)} topics", topics, distances)


def shares_of_documents(seen: Seen, corpus: Any, tell: Tell) -> Found:
    """The topics of documents: the largest of each, and the shares of all."""
    return of_shares(seen.fit.transform(corpus, key=seen.key, progress=tell))


def of_shares(shares: Float[np.ndarray, "docs K"]) -> Found:
    """Shares, and before them the number of the topic with the largest share."""
    return {"topic": shares.argmax(axis=1), "share": shares}


def typical_documents(corpus: Any, proportions: Proportions) -> list[list[Document]]:
    """For each topic the documents with the largest share of it, among `MOST_READ` spread over the training set."""
    rows = np.unique(np.linspace(0, corpus.num_documents - 1, min(MOST_READ, corpus.num_documents)).astype(int))
    sample = corpus[rows]
    shares = np.asarray(proportions(sample, rows))

    def document(row: int, k: int) -> Document:
        title = str(sample.titles[row]) if sample.titles else f"document {rows[row]}"
        excerpt = sample.texts[row] if sample.texts else commonest_words(sample, row)
        return Document(title, excerpt, float(shares[row, k]))

    return [[document(row, k) for row in chosen] for k, chosen in enumerate(typical_rows(shares, sample.tokens))]


def without_excerpts(shown: Sequence[Block]) -> list[Block]:
    """Blocks without the beginnings of documents."""
    return [_without(block) if isinstance(block, Topics) else block for block in shown]


def _without(block: Topics) -> Topics:
    bare = [t._replace(documents=tuple(d._replace(excerpt="") for d in t.documents)) for t in block.topics]
    return block._replace(topics=bare)


def _coherence(probs: Float[np.ndarray, "K V"], corpus: Any) -> Float[np.ndarray, " K"]:
    """NPMI of each topic's leading words in the training documents, or in many of them."""
    rows = np.unique(np.linspace(0, corpus.num_documents - 1, min(MOST_COUNTED, corpus.num_documents)).astype(int))
    number = min(LEADING, probs.shape[1])
    if number < 2:
        return np.full(len(probs), np.nan)
    sample = corpus if len(rows) == corpus.num_documents else corpus[rows]
    return np.asarray(npmi(probs, sample, num_words=number).per_topic)
