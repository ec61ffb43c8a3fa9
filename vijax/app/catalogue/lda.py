"""Latent Dirichlet allocation on the command line."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from vijax import models
from vijax.app.blocks import Topics
from vijax.app.documents import DOCUMENTS
from vijax.app.listing import Data, Listing, Seen
from vijax.app.sections import DocumentAlgorithm
from vijax.app.typed_toml import POSITIVE, at_least, setting
from vijax.summary import Document, summarise, topic_distances, typical_rows

MOST_READ = 2000
"""At most so many documents are searched for typical ones."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """[model]: the generative story."""

    name: Literal["lda"] = setting("lda", "latent Dirichlet allocation")
    num_topics: int = setting(50, "K, how many topics", at_least(1))
    alpha: float = setting(0.1, "prior concentration of a document's topics; small: few topics each", POSITIVE)
    eta: float = setting(0.1, "prior concentration of a topic's words; small: sharper topics", POSITIVE)
    learn: tuple[Literal["alpha", "eta"], ...] = setting((), "which of alpha and eta are learnt from the data")


def build(settings: Settings, data: Data) -> Any:
    """The model."""
    return models.lda(settings.num_topics, len(data.names), alpha=settings.alpha, eta=settings.eta)


def describe(seen: Seen) -> list[Topics]:
    """The topics, with typical documents."""
    concentration = np.asarray(seen.posterior["topics"].concentration, np.float64)
    topics = summarise(concentration, seen.data.names, documents=typical_documents(seen))
    distances = topic_distances(concentration / concentration.sum(axis=1, keepdims=True))
    return [Topics(f"{len(topics)} topics", topics, distances)]


def typical_documents(seen: Seen) -> list[list[Document]]:
    """For each topic, the documents that are most of it, among `MOST_READ` spread over the training set."""
    corpus = seen.data.train
    rows = np.unique(np.linspace(0, corpus.num_documents - 1, min(MOST_READ, corpus.num_documents)).astype(int))
    sample = corpus[rows]
    proportions = seen.fit.transform(sample, key=seen.key)

    def document(row: int, k: int) -> Document:
        title = str(sample.titles[row]) if sample.titles else f"document {rows[row]}"
        excerpt = sample.texts[row] if sample.texts else _commonest_words(sample, row)
        return Document(title, excerpt, float(proportions[row, k]))

    typical = typical_rows(proportions, sample.tokens)
    return [[document(row, k) for row in chosen] for k, chosen in enumerate(typical)]


def _commonest_words(corpus: Any, row: int, number: int = 15) -> str:
    pairs = slice(corpus.indptr[row], corpus.indptr[row + 1])
    order = np.argsort(-corpus.counts[pairs], kind="stable")[:number]
    return " ".join(corpus.vocabulary[corpus.indices[pairs][i]] for i in order)


LISTING = Listing(Settings, DOCUMENTS, DocumentAlgorithm, build, describe, unit="document", per="word")
