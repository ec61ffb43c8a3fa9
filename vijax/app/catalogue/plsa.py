"""Probabilistic latent semantic analysis and the simple mixture of documents on the command line."""

from __future__ import annotations

from typing import Any

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
from vijax.app.settings.options import built, model_section
from vijax.app.settings.sections import DocumentAlgorithm
from vijax.families import Dirichlet, Product
from vijax.fitting.result import Fit
from vijax.inference import estep

SHARP = 1e6
"""Added to the concentration of topics that stand for points: their mode is the point, whatever it is."""


PlsaSettings = model_section(
    models.plsa,
    "probabilistic latent semantic analysis",
    width="vocab_size",
    without=("num_documents",),
    num_topics=20,
)


SimpleMixtureSettings = model_section(
    models.simple_mixture,
    "mixture of documents, each of a single topic",
    width="vocab_size",
    learn=("alpha", "eta"),
    num_topics=20,
)


# --- pLSA ------------------------------------------------------------------------------------------------------------
def build_plsa(settings: Any, data: Data) -> Any:
    """The model, of the training documents."""
    return built(settings, data, num_documents=data.train.num_documents)


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
    describe_plsa,
    lambda corpus, settings: models.plsa_entries(corpus),
    score_plsa,
    unit="pair",
    per="pair",
    transform=transform_plsa,
    predicts="topic",
    needs_rows=True,
    build=build_plsa,
)
SIMPLE_MIXTURE = Listing(
    SimpleMixtureSettings,
    DOCUMENTS,
    DocumentAlgorithm,
    describe_simple_mixture,
    score=score_simple_mixture,
    unit="document",
    per="word",
    transform=transform_simple_mixture,
    predicts="topic",
)
