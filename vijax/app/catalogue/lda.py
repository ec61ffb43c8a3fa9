"""Latent Dirichlet allocation on the command line."""

from __future__ import annotations

from vijax import models
from vijax.app.kinds.documents import DOCUMENTS
from vijax.app.kinds.listing import Listing, Seen
from vijax.app.page.blocks import Topics
from vijax.app.page.topics import shares_of_documents, topics_block
from vijax.app.settings.options import model_section
from vijax.app.settings.sections import DocumentAlgorithm

Settings = model_section(
    models.lda, "latent Dirichlet allocation", width="vocab_size", learn=("alpha", "eta"), num_topics=50, eta=0.1
)


def describe(seen: Seen) -> list[Topics]:
    """The topics, with typical documents."""
    share = lambda sample, rows: seen.fit.transform(sample, key=seen.key)
    return [topics_block(seen, seen.posterior["topics"].concentration, share)]


LISTING = Listing(
    Settings,
    DOCUMENTS,
    DocumentAlgorithm,
    describe,
    unit="document",
    per="word",
    transform=shares_of_documents,
    predicts="topic",
)
