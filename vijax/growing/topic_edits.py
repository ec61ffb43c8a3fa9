"""`edit_topics`: a fit whose topics are merged, dropped, split, or in another order."""

from __future__ import annotations

import typing
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax import tree
from vijax.algorithms import cavi
from vijax.checks import check_key, require
from vijax.data.corpora.corpus import Corpus
from vijax.families import Beta, Dirichlet, Product
from vijax.families.chain.word_walks import WordWalks
from vijax.fitting.fit import fit as run_fit
from vijax.fitting.result import Fit
from vijax.inference.compose import build_algorithm
from vijax.inference.step import initial_state
from vijax.models.documents.dtm import resize
from vijax.models.documents.hdp import hdp
from vijax.models.documents.lda import lda
from vijax.topics.editing import Groups, group_topics, sum_groups

PASSES = 60
"""Passes over the words of a topic that is split."""
CHUNK = 2**24
"""Most numbers in an array of the words that a topic has."""
OTHERS = (
    "Shares of merged topics of other models are sums of the columns of fit.transform; topics are "
    "fewer after a fit with a smaller num_topics."
)


class TopicEdit(NamedTuple):
    """A fit after an edit of its topics.

    Attributes:
      fit: the new fit; `vijax.fit(edited.fit.alg, corpus, state=edited.fit.state, ...)` goes on.
      groups: for each new topic the numbers of the old ones that made it.
    """

    fit: Fit
    groups: Groups


def edit_topics(
    fit: Fit,
    *,
    merge: Sequence[Sequence[int]] = (),
    drop: Sequence[int] = (),
    split: Sequence[int] = (),
    order: Sequence[int] = (),
    corpus: Corpus | None = None,
    key: PRNGKeyArray | None = None,
) -> TopicEdit:
    """A fit of `lda`, `hdp` or `dtm` whose topics are merged, dropped, split, or in another order.
    All numbers are those before the edit.

    A merged topic has the words of its parts, and the sum of their prior shares alpha: by the
    aggregation of Dirichlets its share is the sum of theirs. Without a dropped topic the others
    have the law of shares given that it is not used, and its words go to them. A split divides the
    words of a topic, document by document, by a small fit of two topics to them; merged again,
    these give the old topic. Shares of documents are then inferred from the new topics. Of fits
    that are averaged (`combine="average"`) the better one alone is edited, with a warning: its
    scores and shares are those of `fit.members[0]`. Topics of `dtm` are edited in all slices of
    time alike; the model of the old fit answers for the new one.

    Args:
      fit: a fit of `vijax.models.lda`, `hdp` or `dtm` by an algorithm that keeps distributions.
      merge: groups of two topics or more: [[3, 7], [1, 4, 5]].
      drop: topics that go, such as one of stop words.
      split: topics that become two.
      order: topics that come first, in this order.
      corpus: the documents, for split.
      key: random key, for split.

    Raises:
      ValueError: numbers that are no topics or stand in two edits; another model; a split without
        documents, or of a topic that has no words of two documents.

    >>> import vijax as vi
    >>> counts = np.array([[9, 1, 0, 0], [8, 2, 0, 0], [0, 0, 1, 9], [0, 0, 2, 7]])
    >>> fit = vi.fit(vi.cavi(lda(3, 4)), counts, num_steps=30, key=jax.random.key(0))
    >>> edited = edit_topics(fit, merge=[[0, 2]])
    >>> edited.groups, edited.fit.posterior["topics"].concentration.shape
    (((0, 2), (1,)), (2, 4))
    """
    counts, base = _counts(fit)
    if fit.runs is not None:
        warnings.warn(
            f"fit: the better of {len(fit.members)} averaged fits alone is edited. Compare the new "
            "one with it: fit.members[0].",
            UserWarning,
            stacklevel=2,
        )
        fit = fit._replace(runs=None)
    groups = group_topics(len(counts), merge, drop, split, order)
    new_counts = sum_groups(counts, groups)
    if len(split):
        require(corpus is not None, "corpus", "the documents, for a split", "none")
        for number in split:
            first, second = (i for i, group in enumerate(groups) if group == (number,))
            part = _first_part(fit, corpus, number, _split_key(key, number))
            new_counts[first] = part * counts[number]
            new_counts[second] = (1.0 - part) * counts[number]
    before: Any = fit.posterior["topics"]
    if isinstance(before, WordWalks):
        return TopicEdit(_with_walks(fit, groups, new_counts), groups)
    topics = Dirichlet(jnp.asarray(base + new_counts, before.concentration.dtype))
    return TopicEdit(_with_topics(fit, topics, groups, base, counts, new_counts), groups)


def _counts(fit: Fit) -> tuple[Float[np.ndarray, "K ..."], Float[np.ndarray, ...]]:
    """Expected counts of words of the topics, and what the prior adds to them. Raises ValueError
    unless the fit is of lda, hdp or dtm."""
    posterior: Any = {}
    if isinstance(fit, Fit):
        posterior = fit.posterior
    topics = posterior.get("topics")
    if isinstance(topics, WordWalks):
        return np.asarray(topics.counts, np.float64), np.zeros(())
    is_fit = isinstance(topics, Dirichlet) and set(fit.state.hyper) in (
        {"alpha", "eta"},
        {"alpha", "gamma", "eta"},
    )
    is_known = is_fit and set(posterior) in ({"topics"}, {"topics", "sticks"})
    expected = "one of vijax.models.lda, hdp or dtm, whose topics are distributions (not em, map)"
    require(is_known, "fit", expected, f"one with {list(posterior) or type(fit)}", OTHERS)
    base = np.asarray(fit.state.hyper["eta"], np.float64)
    if base.ndim == 2:
        base = base.min(0)  # what seed words add stays, as counts
    return np.maximum(np.asarray(posterior["topics"].concentration, np.float64) - base, 0.0), base


def _with_walks(fit: Fit, groups: Groups, new_counts: Float[np.ndarray, "G T V"]) -> Fit:
    """The fit of a model of topics that move in time: their counts are sums, slice by slice."""
    hyper, spec = fit.state.hyper, fit.alg.spec
    drift = np.asarray(hyper["drift"], np.float64)
    if drift.ndim:
        drift = np.array([drift[list(group)].mean() for group in groups])
    before: Any = fit.posterior["topics"]
    alpha = np.broadcast_to(np.asarray(hyper["alpha"], np.float64), (len(before.counts),))
    model = resize(spec.model, len(groups), sum_groups(alpha, groups), drift)
    precision = model.prior(model.hyper)["topics"].precision
    topics = WordWalks(jnp.asarray(new_counts, precision.dtype), precision).with_start()
    return _restate(fit, model, Product({"topics": topics}))


def _with_topics(
    fit: Fit,
    topics: Dirichlet,
    groups: Groups,
    base: Float[np.ndarray, ...],
    counts: Float[np.ndarray, "K V"],
    new_counts: Float[np.ndarray, "G V"],
) -> Fit:
    """The fit of a model of these topics."""
    size, vocab_size = topics.concentration.shape
    hyper = fit.state.hyper
    spec = fit.alg.spec
    if "gamma" in hyper:
        scalars = {name: float(hyper[name]) for name in ("alpha", "gamma")}
        model = hdp(size, vocab_size, eta=base, estep=spec.model.estep, **scalars)
        old_sticks: Any = fit.posterior["sticks"]
        tables = np.maximum(np.asarray(old_sticks.alpha, np.float64) - 1.0, 0.0)
        parts = new_counts.sum(1) / np.maximum(_old_sums(counts, groups), 1e-300)
        new_tables = parts * _old_sums(tables, groups)
        sticks = _sticks(new_tables, scalars["gamma"], old_sticks.alpha.dtype)
        posterior = Product({"sticks": sticks, "topics": topics})
    else:
        alpha = np.broadcast_to(np.asarray(hyper["alpha"], np.float64), (len(counts),))
        model = lda(size, vocab_size, sum_groups(alpha, groups), base, spec.model.estep)
        posterior = Product({"topics": topics})
    return _restate(fit, model, posterior)


def _restate(fit: Fit, model: Any, posterior: Product) -> Fit:
    """The fit of another model, at this posterior."""
    algorithm = build_algorithm(fit.alg.spec._replace(model=model))
    state = initial_state(algorithm.spec, tree.as_arrays(model.hyper), posterior)
    state = state._replace(step=fit.state.step)
    trace = {"step": np.array([int(fit.state.step) - 1]), "elbo": np.array([np.nan])}
    return fit._replace(alg=algorithm, state=state, trace=trace, report=None, judge=None, runs=None)


def _old_sums(values: Float[np.ndarray, "K ..."], groups: Groups) -> Float[np.ndarray, " G"]:
    """Sums over the old topics of each new one, whole for both parts of a split topic."""
    return np.array([np.sum(values[list(group)]) for group in groups])


def _sticks(tables: Float[np.ndarray, " G"], gamma: float, dtype: Any) -> Beta:
    """q of the sticks at these numbers of tables: Beta(1 + T_k, gamma + sum_{j>k} T_j)."""
    later = np.cumsum(tables[::-1])[::-1] - tables
    return Beta(jnp.asarray(1.0 + tables, dtype), jnp.asarray(gamma + later, dtype))


# --- splits ---------------------------------------------------------------------------------------
def _split_key(key: PRNGKeyArray | None, number: int) -> PRNGKeyArray:
    check_key(key)
    return jax.random.fold_in(typing.cast(PRNGKeyArray, key), number)


def _first_part(fit: Fit, corpus: Any, number: int, key: PRNGKeyArray) -> Float[np.ndarray, " V"]:
    """The share of each word's uses in a topic that its first part has."""
    is_corpus = isinstance(corpus, Corpus)
    remedy = "Read them by vijax.data.read."
    require(is_corpus, "corpus", "a vijax.data.Corpus", type(corpus).__name__, remedy)
    vocab_size = fit.topic_words.mean().shape[1]
    expected = f"documents over the {vocab_size:,} words of the fit"
    require(corpus.vocab_size == vocab_size, "corpus", expected, corpus.vocab_size)
    counts = _words_of_topic(fit, corpus, number, key)
    rows = np.flatnonzero(counts.getnnz(1))
    kinds = np.flatnonzero(counts.getnnz(0))
    has_words = len(rows) >= 2 and len(kinds) >= 2
    expected = "a topic that has two words or more, in two documents or more"
    require(has_words, "split", expected, f"topic {number}, of {len(kinds)} words")
    counts = counts[rows][:, kinds]
    alpha = 0.5 * float(np.mean(np.asarray(fit.state.hyper["alpha"])))
    parts = run_fit(cavi(lda(2, len(kinds), alpha, 0.1)), counts, num_steps=PASSES, key=key)
    topics: Any = parts.posterior["topics"]
    weights = np.asarray(topics.concentration, np.float64)
    first = np.full(vocab_size, weights[0].sum() / weights.sum())
    first[kinds] = weights[0] / weights.sum(0)
    return first


def _words_of_topic(fit: Fit, corpus: Corpus, number: int, key: PRNGKeyArray) -> Any:
    """The counts of the words of each document for which this is the most probable topic."""
    import scipy.sparse

    shares = np.asarray(fit.transform(corpus, key=key), np.float32)
    words = np.asarray(fit.topic_words.mean(), np.float32).T
    documents = np.repeat(np.arange(corpus.num_documents), corpus.lengths)
    is_own = np.zeros(len(documents), bool)
    step = max(1, CHUNK // words.shape[1])
    for start in range(0, len(documents), step):
        part = slice(start, start + step)
        joint = shares[documents[part]] * words[np.asarray(corpus.indices[part])]
        is_own[part] = joint.argmax(1) == number
    places = documents[is_own], np.asarray(corpus.indices)[is_own]
    shape = corpus.num_documents, words.shape[0]
    return scipy.sparse.csr_matrix((np.asarray(corpus.counts)[is_own], places), shape)
