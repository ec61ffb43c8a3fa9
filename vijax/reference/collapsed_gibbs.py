"""Collapsed Gibbs sampling of LDA (Griffiths and Steyvers 2004): one topic drawn at a time, all
else integrated out.

p(z_i = k | other z, w) = (alpha_k + n_dk) (eta_w + n_kw) / (sum eta + n_k) / normaliser, counts
without token i"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.checks import require, require_integers
from vijax.data.corpora.corpus import Corpus
from vijax.evaluate.sampler import draw_index
from vijax.evaluate.tokens import as_corpus, check_alpha


class Counts(NamedTuple):
    """State of the sampler: a topic per token, and the counts of tokens that this gives.

    Attributes:
      z: topic of each token; 0 in padding, which is not counted.
      by_document: tokens of each document in each topic; the last row is for padding, and has no
          meaning.
      by_word: tokens of each word in each topic.
      by_topic: tokens of each topic.
    """

    z: Int[Array, "steps lanes"]
    by_document: Float[Array, "docs_plus_1 K"]
    by_word: Float[Array, "V K"]
    by_topic: Float[Array, " K"]


class CollapsedGibbs(NamedTuple):
    """The result of `collapsed_gibbs_lda`.

    Attributes:
      topics: mean, over the sweeps kept, of the posterior mean given the assignments, (eta + n_kw)
          / (sum eta + n_k).
      counts: the last state.
      log_joint: log p(w, z | alpha, eta) after each sweep.
    """

    topics: Float[np.ndarray, "K V"]
    counts: Counts
    log_joint: Float[np.ndarray, " sweeps"]


class Prior(NamedTuple):
    """Concentrations of theta and of the topics."""

    alpha: Float[Array, " K"]
    eta: Float[Array, " V"]


def collapsed_gibbs_lda(
    documents: Any,
    num_topics: int,
    *,
    alpha: Any,
    eta: Any,
    num_sweeps: int,
    key: PRNGKeyArray,
    burn_in: int | None = None,
    num_lanes: int = 1,
    callback: Callable[[int, float, Counts], None] | None = None,
) -> CollapsedGibbs:
    """Collapsed Gibbs sampling of LDA, to measure the variational methods against.

    With `num_lanes=1` the sampler is exact: tokens are visited one after the other, and the states
    after each sweep are a Markov chain with the posterior p(z | w) as its stationary distribution.
    With L lanes, L documents are visited at a time, and the L tokens of a step are drawn given the
    counts before that step: only the next step sees their effect on the counts of words and topics.
    This is an approximation, as in AD-LDA (Newman et al. 2009), though with L - 1 tokens out of
    date where AD-LDA has a whole part of the corpus; it vanishes as L over the number of tokens.
    The hyperparameters stay as given.

    Args:
      documents: a `Corpus`, or anything `vijax.data.read` accepts; it is held in memory.
      num_topics: K.
      alpha: concentration of theta, positive: a scalar or one per topic.
      eta: concentration of the topics, positive: a scalar or one per word.
      num_sweeps: number of times that each token is drawn.
      key: random key of the start and of all draws.
      burn_in: sweeps that the mean of the topics leaves out; all but the last by default. A mean
        over sweeps assumes that topics keep their numbers, as they do unless they are few and
        hardly differ.
      num_lanes: L, documents visited at a time.
      callback: called after each sweep with the number of sweeps done, the log joint and the state.

    Raises:
      ValueError: an argument out of range, or documents without words.

    Source: Griffiths and Steyvers 2004; Hoffman and Blei 2015, appendix C.

    >>> from vijax.data import Corpus
    >>> corpus = Corpus.from_counts([[9, 8, 0, 0], [0, 0, 7, 9], [8, 9, 0, 0], [0, 0, 9, 9]])
    >>> run = collapsed_gibbs_lda(corpus, 2, alpha=0.1, eta=0.1, num_sweeps=50, key=jax.random.key(0))
    >>> np.sort(run.topics.round(1), axis=0).tolist()
    [[0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]]
    """
    corpus = as_corpus(documents)
    burn_in = num_sweeps - 1 if burn_in is None else burn_in
    require_integers(num_topics=num_topics, num_sweeps=num_sweeps, num_lanes=num_lanes)
    require_integers(0, burn_in=burn_in)
    remedy = f"Pass burn_in={num_sweeps // 2}."
    require(burn_in < num_sweeps, "burn_in", f"fewer than the {num_sweeps} sweeps", burn_in, remedy)
    concentrations = (
        check_alpha(alpha, num_topics),
        check_alpha(eta, len(corpus.word_counts()), "eta"),
    )
    prior = Prior(*map(jnp.asarray, concentrations))
    _check_countable(corpus.num_tokens, prior.alpha.dtype)
    lanes = jax.device_put(deal_lanes(corpus, min(num_lanes, corpus.num_documents)))
    counts = random_start(lanes, prior, corpus.num_documents, key)
    topics, log_joints = jnp.zeros_like(counts.by_word.T), []
    for i in range(num_sweeps):
        counts, log_prob = sweep(counts, lanes, prior, jax.random.fold_in(key, i + 1))
        log_joints.append(float(log_prob))
        topics = topics + posterior_mean(counts, prior) if i >= burn_in else topics
        if callback is not None:
            callback(i + 1, log_joints[-1], counts)
    return CollapsedGibbs(
        np.asarray(topics / (num_sweeps - burn_in)), jax.device_get(counts), np.array(log_joints)
    )


def _check_countable(num_tokens: int, dtype: Any) -> None:
    """Checks that counts fit into floats: above 2^24 float32 does not tell n from n + 1."""
    most = 2 ** (jnp.finfo(dtype).nmant + 1)
    remedy = (
        "Enable float64 by jax.config.update('jax_enable_x64', True), or pass a part of the corpus."
    )
    require(
        num_tokens <= most,
        "documents",
        f"at most {most:,} tokens in {dtype}",
        f"{num_tokens:,}",
        remedy,
    )


@functools.partial(jax.jit, static_argnums=2)
def random_start(lanes: Lanes, prior: Prior, num_documents: int, key: PRNGKeyArray) -> Counts:
    """Chains in which the topic of each token is drawn uniformly."""
    num_topics, real = prior.alpha.shape[0], lanes.documents < num_documents
    z = jnp.where(
        real, jax.random.randint(jax.random.fold_in(key, 0), lanes.words.shape, 0, num_topics), 0
    )
    ones = real.astype(prior.alpha.dtype)
    zeros = lambda rows: jnp.zeros((rows, num_topics), ones.dtype)
    by_document = zeros(num_documents + 1).at[lanes.documents, z].add(ones)
    by_word = zeros(prior.eta.shape[0]).at[lanes.words, z].add(ones)
    return Counts(z, by_document, by_word, by_word.sum(axis=0))


@functools.partial(jax.jit, donate_argnums=0)
def sweep(
    counts: Counts, lanes: Lanes, prior: Prior, key: PRNGKeyArray
) -> tuple[Counts, Float[Array, ""]]:
    """Draws every token once, a step of the lanes at a time; returns the new state and its log
    joint."""
    uniforms = jax.random.uniform(key, lanes.words.shape, prior.alpha.dtype)
    real = (lanes.documents < counts.by_document.shape[0] - 1).astype(prior.alpha.dtype)
    eta_total = jnp.sum(prior.eta)

    def step(tables, token):
        old, word, document, real, uniform = token
        own = real[:, None] * jax.nn.one_hot(old, tables[2].shape[0], dtype=uniform.dtype)
        by_document, by_word, by_topic = (
            tables[0][document] - own,
            tables[1][word] - own,
            tables[2] - own,
        )
        weights = (
            (prior.alpha + by_document)
            * (prior.eta[word][:, None] + by_word)
            / (eta_total + by_topic)
        )
        new = jnp.where(real > 0, draw_index(weights, uniform), 0)
        return _move(tables, document, word, old, new, real), new

    tables, z = jax.lax.scan(
        step, counts[1:], (counts.z, lanes.words, lanes.documents, real, uniforms)
    )
    counts = Counts(z, *tables)
    return counts, log_joint(counts, prior)


def _move(
    tables: tuple, document: Array, word: Array, old: Array, new: Array, real: Array
) -> tuple:
    """The counts after a token of each lane goes from its old topic to its new one."""
    by_document, by_word, by_topic = tables
    places, change = jnp.concatenate([old, new]), jnp.concatenate([-real, real])
    twice = lambda rows: jnp.concatenate([rows, rows])
    by_document = by_document.at[twice(document), places].add(change)
    by_word = by_word.at[twice(word), places].add(change)
    return by_document, by_word, by_topic.at[places].add(change)


def log_joint(counts: Counts, prior: Prior) -> Float[Array, ""]:
    """log p(w, z | alpha, eta), topics and shares integrated out; for the words in their order."""
    documents = _dirichlet_multinomial(counts.by_document[:-1], prior.alpha)
    return documents + _dirichlet_multinomial(counts.by_word.T, prior.eta)


def _dirichlet_multinomial(
    counts: Float[Array, "rows n"], concentration: Float[Array, " n"]
) -> Float[Array, ""]:
    """Log probability of rows of draws with these counts, each row with its own Dirichlet
    probabilities."""
    total = jnp.sum(concentration)
    of_rows = gammaln(total) - gammaln(total + jnp.sum(counts, axis=1))
    return jnp.sum(of_rows) + jnp.sum(gammaln(concentration + counts) - gammaln(concentration))


@jax.jit
def posterior_mean(counts: Counts, prior: Prior) -> Float[Array, "K V"]:
    """E[topics | w, z]."""
    return (prior.eta + counts.by_word.T) / (jnp.sum(prior.eta) + counts.by_topic)[:, None]


# --- lanes of tokens ------------------------------------------------------------------------------
class Lanes(NamedTuple):
    """Tokens by step and lane. Each document lies in one lane: tokens visited together are of
    different documents."""

    words: Int[Array | np.ndarray, "steps lanes"]  # word of each token; 0 in padding
    # Document of each token; D, which is no document, in padding. Padding is at the ends of lanes.
    documents: Int[Array | np.ndarray, "steps lanes"]


def deal_lanes(corpus: Corpus, num_lanes: int) -> Lanes:
    """Makes lanes of nearly equal length: documents are dealt to and fro, the longest first; a lane
    keeps their order.

    >>> from vijax.data import Corpus
    >>> lanes = deal_lanes(Corpus.from_counts([[1, 0], [2, 1], [0, 2]]), 2)
    >>> lanes.words.tolist(), lanes.documents.tolist()
    ([[0, 0], [0, 1], [1, 1]], [[1, 0], [1, 2], [1, 2]])
    """
    order = (
        np.argsort(-corpus.tokens, kind="stable")
        if num_lanes > 1
        else np.arange(corpus.num_documents)
    )
    turn, seat = np.divmod(np.arange(corpus.num_documents), num_lanes)
    lane_of = np.empty(corpus.num_documents, np.int64)
    lane_of[order] = np.where(turn % 2 == 0, seat, num_lanes - 1 - seat)
    documents = np.repeat(np.arange(corpus.num_documents), corpus.tokens)
    words = np.repeat(corpus.indices, corpus.counts)
    by_lane = np.argsort(lane_of[documents], kind="stable")
    lane = lane_of[documents][by_lane]
    length = np.bincount(lane, minlength=num_lanes)
    step = np.arange(len(lane)) - (np.cumsum(length) - length)[lane]
    shape = (int(length.max()), num_lanes)
    lanes = Lanes(np.zeros(shape, np.int32), np.full(shape, corpus.num_documents, np.int32))
    lanes.words[step, lane] = words[by_lane]
    lanes.documents[step, lane] = documents[by_lane]
    return lanes
