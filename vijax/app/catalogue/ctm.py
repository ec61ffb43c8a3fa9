"""The correlated topic model on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vijax import models
from vijax.app.kinds.documents import DOCUMENTS
from vijax.app.kinds.listing import Listing, Seen
from vijax.app.page.blocks import Block, Heat, Table
from vijax.app.page.topics import shares_of_documents, topics_block
from vijax.app.settings.options import chooser, model_section, settings_in
from vijax.app.settings.sections import lazy, row_section
from vijax.app.settings.units import covariance_of
from vijax.arguments import EVEN, Argument
from vijax.inference import estep, expectation

MOST_PAIRS = 10
"""Pairs of topics that are listed, from either end."""


def _by(make: Callable[[], Any], covariance: str = "full") -> tuple[Callable[..., Any], dict[str, Argument]]:
    """The E-step whose expectation `make` makes, an option of `chooser`."""

    def made(covariance: Any = covariance, **given: Any) -> Any:
        return estep.proximal_gradient(make(), covariance, **given)

    taken = settings_in(estep.proximal_gradient, ("refine",))
    return made, {**taken, "covariance": taken["covariance"]._replace(default=covariance)}


def _sampled(num_samples: int = 64, **given: Any) -> Any:
    return estep.proximal_gradient(expectation.vector_monte_carlo(num_samples, antithetic=True, matched=True), **given)


DRAWS = Argument(int, 64, "draws, in pairs", EVEN)
CtmEstep = chooser(
    "[algorithm.estep]: how q(z) of a document, a Gaussian, is found.",
    "proximal_gradient",
    "by draws, or by an approximation of the expectation",
    proximal_gradient=(_sampled, {"num_samples": DRAWS, **settings_in(estep.proximal_gradient)}),
    laplace=_by(expectation.laplace),
    delta_method=_by(expectation.delta_method),
    blei_lafferty=_by(expectation.blei_lafferty, "diagonal"),
)
CtmAlgorithm = row_section("em", "the message to topics and logits", CtmEstep, lazy=lazy())
Settings = model_section(models.ctm, "correlated topic model", width="vocab_size", without=("seed",), num_topics=20)


def describe(seen: Seen) -> list[Block]:
    """The topics, with typical documents, and which of them go together."""
    share = lambda sample, rows: seen.fit.transform(sample, key=seen.key)
    topics = topics_block(seen, seen.posterior["topics"].concentration, share)
    correlation = _correlation(np.asarray(seen.point("logits").precision, np.float64))
    names = [f"{topic.number}" for topic in topics.topics]
    order = [topic.number for topic in topics.topics]
    words = {topic.number: " ".join(topic.words[:3]) for topic in topics.topics}
    pairs = sorted((float(correlation[i, j]), i, j) for i in order for j in order if i < j)
    shown = pairs[::-1] if len(pairs) <= 2 * MOST_PAIRS else [*pairs[: -MOST_PAIRS - 1 : -1], *pairs[:MOST_PAIRS][::-1]]
    rows = [[words[i], words[j], value] for value, i, j in shown]
    return [
        topics,
        Table("Topics that go together, and that do not", ["", "", "correlation"], rows),
        Heat("Correlations of logits", names, names, correlation[np.ix_(order, order)], apart=True),
    ]


def _correlation(precision: np.ndarray) -> np.ndarray:
    """Of the logits. They are known up to a constant shift of all, which is taken out first."""
    centring = np.eye(len(precision)) - 1 / len(precision)
    cov = centring @ covariance_of(precision) @ centring
    deviation = np.sqrt(np.maximum(np.diag(cov), 1e-300))
    return cov / np.outer(deviation, deviation)


LISTING = Listing(
    Settings,
    DOCUMENTS,
    CtmAlgorithm,
    describe,
    unit="document",
    per="word",
    transform=shares_of_documents,
    predicts="topic",
)
