"""Probabilistic latent semantic analysis and the simple mixture of documents on the command line."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from vijax import algorithms, models
from vijax.app.kinds.documents import DOCUMENTS
from vijax.app.kinds.listing import Data, Found, Listing, Seen, Tell
from vijax.app.page.blocks import Topics
from vijax.app.page.topics import of_shares, topics_block
from vijax.app.rows.scores import RowScore
from vijax.app.settings.sections import DocumentAlgorithm
from vijax.app.settings.typed_toml import POSITIVE, at_least, setting
from vijax.families import Dirichlet, Product
from vijax.fitting.result import Fit
from vijax.inference import estep

SHARP = 1e6
"""Added to the concentration of topics that stand for points: their mode is the point, whatever it is."""


@dataclasses.dataclass(frozen=True)
class PlsaSettings:
    """[model]: the generative story."""

    name: Literal["plsa"] = setting("plsa", "probabilistic latent semantic analysis")
    num_topics: int = setting(20, "K, how many topics", at_least(1))
    form: Literal["conditional", "joint"] = setting("conditional", "p(word | document), pLSA 2, or of the pair, pLSA 1")
    alpha: float = setting(1.0, "prior concentration of topics (map, cavi; and of the held-out documents)", POSITIVE)
    eta: float = setting(1.0, "prior concentration of a topic's words (map, cavi)", POSITIVE)


@dataclasses.dataclass(frozen=True)
class SimpleMixtureSettings:
    """[model]: the generative story."""

    name: Literal["simple_mixture"] = setting("simple_mixture", "mixture of documents, each of a single topic")
    num_topics: int = setting(20, "K, how many topics", at_least(1))
    alpha: float = setting(1.0, "prior concentration of the topics' weights", POSITIVE)
    eta: float = setting(1.0, "prior concentration of a topic's words", POSITIVE)
    learn: tuple[Literal["alpha", "eta"], ...] = setting((), "which of alpha and eta are learnt from the data")


# --- pLSA ------------------------------------------------------------------------------------------------------------
def build_plsa(settings: PlsaSettings, data: Data) -> Any:
    """The model, of the training documents."""
    sizes = settings.num_topics, data.train.num_documents, len(data.names)
    return models.plsa(*sizes, form=settings.form, alpha=settings.alpha, eta=settings.eta)


def score_plsa(seen: Seen) -> Any:
    """Document completion: held-out documents have no parameters, so their proportions get the prior Dirichlet."""
    from vijax.evaluate import document_completion

    return document_completion(_words(seen), seen.settings.alpha, seen.data.test, seen.key)


def describe_plsa(seen: Seen) -> list[Topics]:
    """The topics, with typical documents."""
    if seen.settings.form == "conditional":
        shares = np.asarray(seen.point("proportions"), float)
    else:
        weights, documents = (np.asarray(seen.point(name), np.float64) for name in ("weights", "documents"))
        joint = (weights[:, None] * documents).T
        shares = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    return [topics_block(seen, seen.posterior["topics"].concentration, lambda sample, rows: shares[rows])]


def transform_plsa(seen: Seen, corpus: Any, tell: Tell) -> Found:
    """Topic shares of documents under the fitted topics and the prior of their proportions. Those of the training
    documents too are inferred in this way, from their words alone, so that old and new documents can be compared."""
    words = _words(seen)
    model = models.lda(len(words), len(seen.data.names), alpha=seen.settings.alpha)
    alg = algorithms.map(model, estep=estep.mean_field())
    topics = Dirichlet.from_concentration(jnp.asarray(1.0 + SHARP * words, jnp.result_type(float)))
    state = alg.init(seen.key)._replace(posterior=Product({"topics": topics}))
    return of_shares(Fit(alg, state, {}, None).transform(corpus, key=seen.key, progress=tell))


def _words(seen: Seen) -> Float[np.ndarray, "K V"]:
    """Probabilities of words, none of them 0: held-out documents may have words that a topic has never seen."""
    words = np.asarray(seen.point("topics"), float) + 1e-10
    return words / words.sum(axis=1, keepdims=True)


# --- the simple mixture ----------------------------------------------------------------------------------------------
def build_simple_mixture(settings: SimpleMixtureSettings, data: Data) -> Any:
    """The model."""
    return models.simple_mixture(settings.num_topics, len(data.names), alpha=settings.alpha, eta=settings.eta)


def score_simple_mixture(seen: Seen) -> RowScore:
    """Log probability of held-out documents at the fitted weights and topics, per word."""
    joint = _joint(seen, seen.data.test)
    return RowScore.of(logsumexp(joint, axis=1), "word", f"{len(joint)} documents", seen.data.test.tokens)


def describe_simple_mixture(seen: Seen) -> list[Topics]:
    """The topics, with typical documents."""

    def shares(sample: Any, rows: np.ndarray) -> Float[np.ndarray, "docs K"]:
        joint = _joint(seen, sample)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    return [topics_block(seen, seen.posterior["topics"].concentration, shares)]


def transform_simple_mixture(seen: Seen, corpus: Any, tell: Tell) -> Found:
    """The probabilities of the one topic that each document has."""
    joint = _joint(seen, corpus)
    tell(len(joint))
    return of_shares(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def _joint(seen: Seen, corpus: Any) -> Float[np.ndarray, "docs K"]:
    """log p(topic, words) of each document."""
    weights = np.asarray(seen.point("weights"), float)
    return np.log(np.maximum(weights, 1e-300)) + corpus.to_scipy() @ np.log(_words(seen)).T


PLSA = Listing(
    PlsaSettings,
    DOCUMENTS,
    DocumentAlgorithm,
    build_plsa,
    describe_plsa,
    lambda corpus, settings: models.plsa_entries(corpus),
    score_plsa,
    unit="pair",
    per="pair",
    transform=transform_plsa,
    predicts="topic",
    needs_rows=True,
)
SIMPLE_MIXTURE = Listing(
    SimpleMixtureSettings,
    DOCUMENTS,
    DocumentAlgorithm,
    build_simple_mixture,
    describe_simple_mixture,
    score=score_simple_mixture,
    unit="document",
    per="word",
    transform=transform_simple_mixture,
    predicts="topic",
)
