"""Topic models on the command line: LDA, HDP, CTM, pLSA, topics that move in time, and the simple
mixture of documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from vijax import algorithms, models
from vijax.app.catalogue.parts import topics_in_time
from vijax.app.drawing.blocks import Arcs, Block, Heat, Table, Topics, Tree
from vijax.app.drawing.views import spread_rows
from vijax.app.rows.by_row import RowScore
from vijax.app.settings.options import (
    build_from_section,
    chooser,
    constructor_settings,
    model_section,
)
from vijax.app.settings.sections import DocumentAlgorithm, grow, lazy, row_section
from vijax.app.settings.units import to_covariance
from vijax.app.sources.doc_topics import commonest_words
from vijax.app.sources.documents import DOCUMENTS
from vijax.app.sources.listing import FittedRun, Listing, RowResults, Tell
from vijax.app.sources.topic_names import SEED_SETTINGS, build_with_seeds, words_per_topic
from vijax.arguments import EVEN, Argument
from vijax.evaluate import npmi
from vijax.families import Dirichlet, Product
from vijax.families.discrete.stick_breaking import mean_weights
from vijax.fitting.result import Fit
from vijax.inference import estep, expectation
from vijax.topics import topic_tree
from vijax.topics.summary import Document, summarise, topic_distances, typical_rows

MOST_PAIRS = 10
"""Number of pairs of topics that are listed from either end of the correlations."""
LEAST = 0.1
"""Least correlation of a pair in the graph of topics."""
SHARP = 1e6
"""A large concentration for topics that are points: it makes the prior negligible."""
MOST_READ = 2000
"""Most documents that are searched for typical ones."""
MOST_COUNTED = 100_000
"""Most documents that are counted for coherence."""
LEADING = 10
"""Number of leading words that give the coherence of a topic."""

IN_USE = 0.5
"""Number of tables from which a topic is in use."""

Proportions = Callable[[Any, np.ndarray], Float[np.ndarray, "docs K"]]


def topics_block(run: FittedRun, proportions: Proportions | None = None) -> Topics:
    """The topics, with documents typical of each.

    Args:
      run: the fit with its data.
      proportions: the shares of topics in some training documents, from these and their rows; None
        takes `Fit.transform`.
    """
    proportions = proportions or (lambda sample, rows: run.fit.transform(sample, key=run.key))
    # A topic emptied by maximum likelihood gets equal probabilities of words, instead of 0/0.
    concentration = np.maximum(np.asarray(run.fit.topic_words.concentration, np.float64), 1e-10)
    probs = concentration / concentration.sum(axis=1, keepdims=True)
    topics = summarise(
        concentration,
        run.data.names,
        documents=typical_documents(run.data.train, proportions),
        coherence=_coherence(probs, run.data.train),
        held=words_per_topic(run),
    )
    number = sum(bool(topic.words) for topic in topics)
    return Topics("1 topic" if number == 1 else f"{number} topics", topics, topic_distances(probs))


def tree_block(run: FittedRun, topics: Topics, editable: bool = True) -> list[Block]:
    """The tree of the topics that hold words; nothing for two or fewer. `editable`: they are of a
    model whose topics `vijax edit` takes."""
    order = sorted(topic.number for topic in topics.topics if topic.words)
    if len(order) < 3:
        return []
    labels = {topic.number: topic.full_label for topic in topics.topics}
    weights = np.maximum(np.asarray(run.fit.topic_words.concentration, np.float64), 1e-10)
    tree = topic_tree(weights[order], weights[order].sum(1))
    place = {k: i for i, k in enumerate(tree.order)}
    place |= {k: k for k in range(len(order), 2 * len(order))}
    joins = []
    for (first, second), loss in zip(tree.joined.tolist(), tree.losses.tolist(), strict=True):
        joins.append((place[first], place[second], 100 * loss / max(tree.total, 1e-300)))
    note = "Joined first are the topics whose difference tells least about words."
    if editable:
        first, second = (order[place] for place in tree.joined[0])
        note += f' To make one of two: vijax edit RUN --merge "{first} {second}".'
    unit = "per cent of what topics tell about words that is lost"
    names = [labels[order[k]] for k in tree.order]
    return [Tree("A tree of the topics", names, joins, note, unit)]


def topic_results(shares: Float[np.ndarray, "docs K"]) -> RowResults:
    """Shares of topics, and before them the number of the largest."""
    return {"topic": shares.argmax(axis=1), "share": shares}


def typical_documents(corpus: Any, proportions: Proportions) -> list[list[Document]]:
    """For each topic the documents with the largest share of it, among `MOST_READ`."""
    rows = spread_rows(corpus.num_documents, MOST_READ)
    sample = corpus[rows]
    shares = np.asarray(proportions(sample, rows))

    def document(row: int, k: int) -> Document:
        title = str(sample.titles[row]) if sample.titles else f"document {rows[row]}"
        excerpt = sample.texts[row] if sample.texts else commonest_words(sample, row)
        return Document(title, excerpt, float(shares[row, k]))

    return [
        [document(row, k) for row in chosen]
        for k, chosen in enumerate(typical_rows(shares, sample.tokens))
    ]


def _coherence(probs: Float[np.ndarray, "K V"], corpus: Any) -> Float[np.ndarray, " K"]:
    """NPMI of each topic's leading words in the training documents, or in many of them."""
    rows = spread_rows(corpus.num_documents, MOST_COUNTED)
    number = min(LEADING, probs.shape[1])
    if number < 2:
        return np.full(len(probs), np.nan)
    sample = corpus if len(rows) == corpus.num_documents else corpus[rows]
    return np.asarray(npmi(probs, sample, num_words=number).per_topic)


# --- latent Dirichlet allocation ------------------------------------------------------------------
LdaSettings = model_section(
    models.lda,
    "latent Dirichlet allocation",
    width="vocab_size",
    learn=("alpha", "eta"),
    listed=("alpha",),
    num_topics=50,
    eta=0.1,
    **SEED_SETTINGS,
)


# --- topics of a hierarchical Dirichlet process ---------------------------------------------------
HdpSettings = model_section(
    models.hdp,
    "topics of a hierarchical Dirichlet process",
    width="vocab_size",
    learn=("alpha", "gamma", "eta"),
    num_topics=50,
    eta=0.1,
    grow=grow("topics", "num_topics"),
    **SEED_SETTINGS,
)
HdpEstep = chooser(
    "[algorithm.estep]: how a document's topics are found.",
    "mean_field",
    "the method",
    mean_field=estep.mean_field,
)
HdpAlgorithm = row_section("svi", "the message to the topics", HdpEstep, lazy=lazy())


def describe_lda(run: FittedRun) -> list[Block]:
    """The topics, with typical documents, and their tree."""
    topics = topics_block(run)
    return [topics, *tree_block(run, topics)]


def describe_hdp(run: FittedRun) -> list[Block]:
    """The topics, with typical documents, and their weights."""
    topics = topics_block(run)
    labels = {topic.number: topic.full_label for topic in topics.topics}
    return [topics, *tree_block(run, topics), _weights_at_the_top(run, labels)]


def _weights_at_the_top(run: FittedRun, labels: dict[int, str]) -> Table:
    """Mean weights of the topics in use, and of all others together."""
    sticks = run.posterior["sticks"]
    weights = np.asarray(mean_weights(sticks), float)
    tables = np.asarray(sticks.alpha, float) - 1
    in_use = [k for k in np.argsort(-weights[:-1], kind="stable").tolist() if tables[k] >= IN_USE]
    rows: list[list] = [[labels.get(k, str(k)), 100 * weights[k], tables[k]] for k in in_use]
    rows.append(["all others", 100 * (1 - weights[in_use].sum()), 0.0])
    note = (
        "A table is a time that a topic was chosen anew in a document; one of less than half a "
        "table is not in use."
    )
    return Table(
        f"{len(in_use)} topics of {len(tables)} in use", ["", "per cent", "tables"], rows, note
    )


# --- the correlated topic model -------------------------------------------------------------------
def _expectation_option(
    make: Callable[[], Any], covariance: str = "full"
) -> tuple[Callable[..., Any], dict[str, Argument]]:
    """An option of `chooser`: the E-step with the expectation from `make`."""

    def make_estep(covariance: Any = covariance, **arguments: Any) -> Any:
        return estep.proximal_gradient(make(), covariance, **arguments)

    settings = constructor_settings(estep.proximal_gradient, ("refine",))
    return make_estep, {
        **settings,
        "covariance": settings["covariance"]._replace(default=covariance),
    }


def _draws_estep(num_samples: int = 64, **arguments: Any) -> Any:
    return estep.proximal_gradient(
        expectation.vector_monte_carlo(num_samples, antithetic=True, matched=True), **arguments
    )


DRAWS = Argument(int, 64, "draws, in pairs", EVEN)
CtmEstep = chooser(
    "[algorithm.estep]: how q(z) of a document, a Gaussian, is found.",
    "proximal_gradient",
    "by draws, or by an approximation of the expectation",
    proximal_gradient=(
        _draws_estep,
        {"num_samples": DRAWS, **constructor_settings(estep.proximal_gradient)},
    ),
    laplace=_expectation_option(expectation.laplace),
    delta_method=_expectation_option(expectation.delta_method),
    blei_lafferty=_expectation_option(expectation.blei_lafferty, "diagonal"),
)
CtmAlgorithm = row_section("em", "the message to topics and logits", CtmEstep, lazy=lazy())
CtmSettings = model_section(
    models.ctm,
    "correlated topic model",
    width="vocab_size",
    without=("seed",),
    num_topics=20,
    **SEED_SETTINGS,
)


def describe_ctm(run: FittedRun) -> list[Block]:
    """The topics, with typical documents, and which of them go together."""
    topics = topics_block(run)
    return [topics, *tree_block(run, topics, editable=False), *correlations(run, topics)]


def correlations(run: FittedRun, topics: Topics) -> list[Block]:
    """Pairs of topics whose logits go together, and all correlations."""
    correlation = _correlation_of_logits(np.asarray(run.point("logits").precision, np.float64))
    order = [topic.number for topic in topics.topics]
    names = [*map(str, order)]
    labels = {topic.number: topic.full_label for topic in topics.topics}
    pairs = sorted((float(correlation[i, j]), i, j) for i in order for j in order if i < j)
    note = ""
    listed_pairs = pairs[::-1]
    if len(pairs) > 2 * MOST_PAIRS:
        listed_pairs = [*pairs[: -MOST_PAIRS - 1 : -1], *pairs[:MOST_PAIRS][::-1]]
        note = f"The {MOST_PAIRS} highest and the {MOST_PAIRS} lowest of {len(pairs):,} pairs."
    rows = [[labels[i], labels[j], value] for value, i, j in listed_pairs]
    return [
        Table("Topics that go together, and that do not", ["", "", "correlation"], rows, note),
        *_graph(correlation, labels),
        Heat("Correlations of logits", names, names, correlation[np.ix_(order, order)], apart=True),
    ]


def _graph(correlation: np.ndarray, labels: Mapping[int, str]) -> list[Block]:
    """Pairs with a correlation of `LEAST` or more; sorted so that pairs are near each other."""
    if len(labels) < 3:
        return []
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    topics = np.array(sorted(labels))
    distances = 1 - correlation[np.ix_(topics, topics)]
    tree = linkage(squareform(distances, checks=False), "average", optimal_ordering=True)
    order = topics[leaves_list(tree)]
    sorted_correlation = correlation[np.ix_(order, order)]
    edges = []
    for i in range(len(topics)):
        for j in range(i + 1, len(topics)):
            if sorted_correlation[i, j] >= LEAST:
                edges.append((i, j, float(sorted_correlation[i, j])))
    edges = sorted(edges, key=lambda edge: -edge[2])[: 2 * len(topics)]
    note = f"Joined are pairs of a correlation of {LEAST} or more, the wider the higher it is."
    return [
        Arcs("Topics that go together, drawn", [labels[k] for k in order.tolist()], edges, note)
    ]


def _correlation_of_logits(precision: np.ndarray) -> np.ndarray:
    """The correlations of the logits, without the common constant that is not identified."""
    centring = np.eye(len(precision)) - 1 / len(precision)
    cov = centring @ to_covariance(precision) @ centring
    deviation = np.sqrt(np.maximum(np.diag(cov), 1e-300))
    return cov / np.outer(deviation, deviation)


# --- pLSA -----------------------------------------------------------------------------------------
PlsaSettings = model_section(
    models.plsa,
    "probabilistic latent semantic analysis",
    width="vocab_size",
    without=("num_documents",),
    num_topics=20,
)


def score_plsa(run: FittedRun) -> Any:
    """Document completion, with a Dirichlet prior for the shares of held-out documents."""
    from vijax.evaluate import document_completion

    return document_completion(_words(run), run.settings.alpha, run.data.test, run.key)


def describe_plsa(run: FittedRun) -> list[Topics]:
    """The topics, with typical documents."""
    if run.settings.form == "conditional":
        shares = np.asarray(run.point("proportions"), float)
    else:
        weights = np.asarray(run.point("weights"), np.float64)
        documents = np.asarray(run.point("documents"), np.float64)
        joint = (weights[:, None] * documents).T
        shares = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    return [topics_block(run, lambda sample, rows: shares[rows])]


def transform_plsa(run: FittedRun, corpus: Any, tell: Tell) -> RowResults:
    """Topic shares of documents under the fitted topics and the prior of their shares. Shares of
    training documents are inferred from their words alone too, so that old and new documents
    compare."""
    words = _words(run)
    model = models.lda(len(words), len(run.data.names), alpha=run.settings.alpha)
    alg = algorithms.map(model, estep=estep.mean_field())
    topics = Dirichlet.from_concentration(jnp.asarray(1.0 + SHARP * words, jnp.result_type(float)))
    state = alg.init(run.key)._replace(posterior=Product({"topics": topics}))
    return topic_results(Fit(alg, state, {}, None).transform(corpus, key=run.key, progress=tell))


def _words(run: FittedRun) -> Float[np.ndarray, "K V"]:
    """Probabilities of words, none of them 0: held-out documents may have words new to a topic."""
    words = np.asarray(run.point("topics"), float) + 1e-10
    return words / words.sum(axis=1, keepdims=True)


# --- the simple mixture ---------------------------------------------------------------------------
SimpleMixtureSettings = model_section(
    models.simple_mixture,
    "mixture of documents, each of a single topic",
    width="vocab_size",
    learn=("alpha", "eta"),
    num_topics=20,
)


def score_simple_mixture(run: FittedRun) -> RowScore:
    """Log probability of held-out documents at the fitted weights and topics, per word."""
    joint = _joint(run, run.data.test)
    remark = f"{len(joint)} documents"
    return RowScore.of(logsumexp(joint, axis=1), "word", remark, run.data.test.tokens)


def transform_simple_mixture(run: FittedRun, corpus: Any, tell: Tell) -> RowResults:
    """The probabilities of each document's topic."""
    shares = _memberships(run, corpus)
    tell(len(shares))
    return topic_results(shares)


def _joint(run: FittedRun, corpus: Any) -> Float[np.ndarray, "docs K"]:
    """log p(topic, words) of each document."""
    weights = np.asarray(run.point("weights"), float)
    return np.log(np.maximum(weights, 1e-300)) + corpus.to_scipy() @ np.log(_words(run)).T


def _memberships(run: FittedRun, corpus: Any) -> Float[np.ndarray, "docs K"]:
    """p(topic | words) of each document."""
    joint = _joint(run, corpus)
    return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))


# --- topics that move in time ---------------------------------------------------------------------
def describe_dtm(run: FittedRun) -> list[Block]:
    """The topics, with typical documents and their tree, and what moves in time."""
    model = topics_in_time.make_model(run.settings, run.data.train)
    shares = lambda sample, rows: run.fit.transform(model.data[rows], key=run.key)
    topics = topics_block(run, shares)
    labels = {topic.number: topic.full_label for topic in topics.topics}
    moving = topics_in_time.blocks_in_time(run, model, labels)
    return [topics, *moving, *tree_block(run, topics)]


# --- the listings ---------------------------------------------------------------------------------
DOCUMENT_LISTING: dict[str, Any] = {"unit": "document", "per": "word", "predicts": "topic"}
WITH_SEEDS: dict[str, Any] = {
    "build": build_with_seeds,
    "transform": lambda run, corpus, tell: topic_results(
        run.fit.transform(corpus, key=run.key, progress=tell)
    ),
    **DOCUMENT_LISTING,
}
LDA = Listing(LdaSettings, DOCUMENTS, DocumentAlgorithm, describe_lda, **WITH_SEEDS)
HDP = Listing(HdpSettings, DOCUMENTS, HdpAlgorithm, describe_hdp, **WITH_SEEDS)
CTM = Listing(CtmSettings, DOCUMENTS, CtmAlgorithm, describe_ctm, **WITH_SEEDS)
PLSA = Listing(
    PlsaSettings,
    DOCUMENTS,
    DocumentAlgorithm,
    describe_plsa,
    lambda corpus, settings: models.plsa_entries(corpus),
    score_plsa,
    lambda settings, data: build_from_section(
        settings, data, num_documents=data.train.num_documents
    ),
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
    lambda run: [topics_block(run, lambda sample, rows: _memberships(run, sample))],
    score=score_simple_mixture,
    transform=transform_simple_mixture,
    **DOCUMENT_LISTING,
)
DTM = Listing(
    topics_in_time.Settings,
    topics_in_time.SOURCE,
    DocumentAlgorithm,
    describe_dtm,
    build=lambda settings, data: topics_in_time.make_model(settings, data.train),
    transform=WITH_SEEDS["transform"],
    needs_rows=True,
    **DOCUMENT_LISTING,
)
