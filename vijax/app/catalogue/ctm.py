# ruff: noqa: RUF009
"""The correlated topic model on the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from vijax import models
from vijax.app.kinds.documents import DOCUMENTS
from vijax.app.kinds.listing import Data, Listing, Seen
from vijax.app.page.blocks import Block, Heat, Table
from vijax.app.page.topics import shares_of_documents, topics_block
from vijax.app.settings.options import Chooser, Option
from vijax.app.settings.sections import DAMPING, LAZY, RAMP, WARM, Name, StepSizeConfig
from vijax.app.settings.typed_toml import FRACTION, POSITIVE, at_least, section, setting
from vijax.app.settings.units import covariance_of
from vijax.inference import estep, expectation

COMMON = ("covariance", "step_size", "max_iters", "tol")
MOST_PAIRS = 10
"""Pairs of topics that are listed, from either end."""


def _by(make: Any) -> Any:
    """The E-step whose expectation `make` makes."""
    return lambda **given: estep.proximal_gradient(make(), **given)


def _mean_field(covariance: str = "diagonal", **given: Any) -> Any:
    return estep.proximal_gradient(expectation.blei_lafferty(), covariance, **given)


def _sampled(num_samples: int = 64, **given: Any) -> Any:
    return estep.proximal_gradient(expectation.vector_monte_carlo(num_samples, antithetic=True, matched=True), **given)


@dataclasses.dataclass(frozen=True)
class CtmEstep(Chooser):
    """[algorithm.estep]: how q(z) of a document, a Gaussian, is found."""

    name: Literal["proximal_gradient", "laplace", "delta_method", "blei_lafferty"] = setting(
        "proximal_gradient", "by draws, or by an approximation of the expectation"
    )
    num_samples: int | None = setting(None, "proximal_gradient: draws, in pairs; unset: 64", at_least(2))
    covariance: Literal["full", "diagonal"] | None = setting(None, "of q(z); unset: full, blei_lafferty diagonal")
    step_size: float | None = setting(None, "rho that the inner steps begin with; unset: 0.7", FRACTION)
    max_iters: int | None = setting(None, "most inner steps per document; unset: 100", at_least(1))
    tol: float | None = setting(None, "stop below this gain in nats; unset: 1e-3", POSITIVE)
    refine: int | None = setting(None, "proximal_gradient: last steps, by new draws, averaged; unset: 0", at_least(0))
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "proximal_gradient": Option(_sampled, ("num_samples", "refine", *COMMON)),
        "laplace": Option(_by(expectation.laplace), COMMON),
        "delta_method": Option(_by(expectation.delta_method), COMMON),
        "blei_lafferty": Option(_mean_field, COMMON),
    }


@dataclasses.dataclass(frozen=True)
class CtmAlgorithm:
    """[algorithm]: one row of the table of algorithms, by its name in the literature."""

    name: Name = setting("em", "the message to topics and logits")
    ramp: float | None = setting(None, *RAMP)
    damping: float | None = setting(None, *DAMPING)
    warm_starts: bool = setting(False, *WARM)
    lazy: bool | None = setting(None, *LAZY)
    estep: CtmEstep = section(CtmEstep)
    step_size: StepSizeConfig = section(StepSizeConfig)


@dataclasses.dataclass(frozen=True)
class Settings:
    """[model]: the generative story."""

    name: Literal["ctm"] = setting("ctm", "correlated topic model")
    num_topics: int = setting(20, "K, how many topics", at_least(2))
    eta: float = setting(0.01, "prior concentration of a topic's words", POSITIVE)
    num_samples: int = setting(64, "draws of each q(z) that the bound is averaged over, in pairs", at_least(2))


def build(settings: Settings, data: Data) -> Any:
    """The model."""
    return models.ctm(settings.num_topics, len(data.names), settings.eta, num_samples=settings.num_samples)


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
    build,
    describe,
    unit="document",
    per="word",
    transform=shares_of_documents,
    predicts="topic",
)
