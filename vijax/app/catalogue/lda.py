"""Latent Dirichlet allocation on the command line."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from vijax import models
from vijax.app.kinds.documents import DOCUMENTS
from vijax.app.kinds.listing import Data, Listing, Seen
from vijax.app.page.blocks import Topics
from vijax.app.page.topics import shares_of_documents, topics_block
from vijax.app.settings.sections import DocumentAlgorithm
from vijax.app.settings.typed_toml import POSITIVE, at_least, setting


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
    share = lambda sample, rows: seen.fit.transform(sample, key=seen.key)
    return [topics_block(seen, seen.posterior["topics"].concentration, share)]


LISTING = Listing(
    Settings,
    DOCUMENTS,
    DocumentAlgorithm,
    build,
    describe,
    unit="document",
    per="word",
    transform=shares_of_documents,
    predicts="topic",
)
