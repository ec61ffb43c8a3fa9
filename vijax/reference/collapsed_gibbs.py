"""Collapsed Gibbs sampling of LDA (Griffiths and Steyvers 2004): it draws one topic at a time, with
theta and the topics integrated out.

    p(z_i = k | other z, w) = (alpha_k + n_dk) (eta_w + n_kw) / (sum eta + n_k) / normaliser,

with counts n without token i."""

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
    """State of the sampler: a topic for each token, and the counts of these topics.

    Attributes:
      z: topic of each token; 0 in padding, which does not count.
      by_document: tokens of each document in each topic; the last row is for padding, without
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
      topics: mean, over the sweeps after the burn-in, of the posterior mean given the assignments,
          (eta + n_kw) / (sum eta + n_k).
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
    """Collapsed Gibbs sampling of LDA, as a reference for variational methods.

    With `num_lanes=1` the sampler is exact: it visits one token after the other, and the states
    after each sweep are a Markov chain with the posterior p(z | w) as its stationary distribution.
    With L lanes it visits L documents at a time, and draws the L tokens of a step given the counts
    before that step: only the next step sees their effect on the counts of words and topics. This
    is an approximation, as in AD-LDA (Newman et al. 2009). Its counts lack L - 1 tokens, where
    those of AD-LDA lack a part of the corpus; the error vanishes as L over the number of tokens.
    The hyperparameters are fixed.

    Args:
      documents: a `Corpus`, or anything `vijax.data.read` accepts; it must fit in memory.
      num_topics: K.
      alpha: concentration of theta, positive: a scalar or one per topic.
      eta: concentration of the topics, positive: a scalar or one per word.
      num_sweeps: number of draws of each token.
      key: random key of the start and of all draws.
      burn_in: sweeps that the mean of the topics leaves out; by default all but the last. A mean
        over sweeps assumes that topics keep their numbers; they do unless they are few and hardly
        differ.
      num_lanes: L, the number of documents that are visited at a time.
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
    if burn_in is None:
        burn_in = num_sweeps - 1
    require_integers(num_topics=num_topics, num_sweeps=num_sweeps, num_lanes=num_lanes)
    require_integers(0, burn_in=burn_in)
    remedy = f"Pass burn_in={num_sweeps // 2}."
    require(burn_in < num_sweeps, "burn_in", f"fewer than the {num_sweeps} sweeps", burn_in, remedy)
    alpha = check_alpha(alpha, num_topics)
    eta = check_alpha(eta, len(corpus.word_counts()), "eta")
    prior = Prior(jnp.asarray(alpha), jnp.asarray(eta))
    _check_countable(corpus.num_tokens, prior.alpha.dtype)
    lanes = jax.device_put(deal_lanes(corpus, min(num_lanes, corpus.num_documents)))
    counts = random_start(lanes, prior, corpus.num_documents, key)
    total = jnp.zeros_like(counts.by_word.T)
    log_joints = []
    for i in range(num_sweeps):
        counts, log_prob = sweep(counts, lanes, prior, jax.random.fold_in(key, i + 1))
        log_joints.append(float(log_prob))
        if i >= burn_in:
            total = total + posterior_mean(counts, prior)
        if callback is not None:
            callback(i + 1, log_joints[-1], counts)
    topics = np.asarray(total / (num_sweeps - burn_in))
    return CollapsedGibbs(topics, jax.device_get(counts), np.array(log_joints))


def _check_countable(num_tokens: int, dtype: Any) -> None:
    """ValueError if counts do not fit into floats: above 2^24, n and n + 1 are equal in float32."""
    limit = 2 ** (jnp.finfo(dtype).nmant + 1)
    expected = f"at most {limit:,} tokens in {dtype}"
    enable = "Enable float64 by jax.config.update('jax_enable_x64', True)"
    remedy = f"{enable}, or pass a part of the corpus."
    require(num_tokens <= limit, "documents", expected, f"{num_tokens:,}", remedy)


@functools.partial(jax.jit, static_argnums=2)
def random_start(lanes: Lanes, prior: Prior, num_documents: int, key: PRNGKeyArray) -> Counts:
    """A state with uniform draws of the topics of all tokens."""
    num_topics = prior.alpha.shape[0]
    is_token = lanes.documents < num_documents
    draws = jax.random.randint(jax.random.fold_in(key, 0), lanes.words.shape, 0, num_topics)
    z = jnp.where(is_token, draws, 0)
    ones = is_token.astype(prior.alpha.dtype)
    zeros = lambda rows: jnp.zeros((rows, num_topics), ones.dtype)
    by_document = zeros(num_documents + 1).at[lanes.documents, z].add(ones)
    by_word = zeros(prior.eta.shape[0]).at[lanes.words, z].add(ones)
    return Counts(z, by_document, by_word, by_word.sum(axis=0))


@functools.partial(jax.jit, donate_argnums=0)
def sweep(
    counts: Counts, lanes: Lanes, prior: Prior, key: PRNGKeyArray
) -> tuple[Counts, Float[Array, ""]]:
    """Draws the topic of every token once, one token of each lane at a time; returns the new state
    and its log joint."""
    uniforms = jax.random.uniform(key, lanes.words.shape, prior.alpha.dtype)
    is_token = (lanes.documents < counts.by_document.shape[0] - 1).astype(prior.alpha.dtype)
    eta_total = jnp.sum(prior.eta)

    def step(tables, token):
        topic, word, document, weight, uniform = token
        all_by_document, all_by_word, all_by_topic = tables
        num_topics = all_by_topic.shape[0]
        removed = weight[:, None] * jax.nn.one_hot(topic, num_topics, dtype=uniform.dtype)
        by_document = all_by_document[document] - removed
        by_word = all_by_word[word] - removed
        by_topic = all_by_topic - removed
        weights = (
            (prior.alpha + by_document)
            * (prior.eta[word][:, None] + by_word)
            / (eta_total + by_topic)
        )
        new_topic = jnp.where(weight > 0, draw_index(weights, uniform), 0)
        return _move(tables, document, word, topic, new_topic, weight), new_topic

    tokens = counts.z, lanes.words, lanes.documents, is_token, uniforms
    tables, z = jax.lax.scan(step, counts[1:], tokens)
    counts = Counts(z, *tables)
    return counts, log_joint(counts, prior)


def _move(
    tables: tuple, document: Array, word: Array, topic: Array, new_topic: Array, weight: Array
) -> tuple:
    """The counts after a token of each lane got a new topic; `weight` is 0 for padding."""
    by_document, by_word, by_topic = tables
    topics = jnp.concatenate([topic, new_topic])
    change = jnp.concatenate([-weight, weight])
    documents = jnp.concatenate([document, document])
    words = jnp.concatenate([word, word])
    by_document = by_document.at[documents, topics].add(change)
    by_word = by_word.at[words, topics].add(change)
    return by_document, by_word, by_topic.at[topics].add(change)


def log_joint(counts: Counts, prior: Prior) -> Float[Array, ""]:
    """log p(w, z | alpha, eta) of the sequence of words, with topics and shares integrated out."""
    documents = _dirichlet_multinomial(counts.by_document[:-1], prior.alpha)
    return documents + _dirichlet_multinomial(counts.by_word.T, prior.eta)


def _dirichlet_multinomial(
    counts: Float[Array, "rows n"], concentration: Float[Array, " n"]
) -> Float[Array, ""]:
    """Log probability of rows of draws with these counts; the probabilities of each row are a draw
    of the Dirichlet."""
    total = jnp.sum(concentration)
    row_terms = gammaln(total) - gammaln(total + jnp.sum(counts, axis=1))
    return jnp.sum(row_terms) + jnp.sum(gammaln(concentration + counts) - gammaln(concentration))


@jax.jit
def posterior_mean(counts: Counts, prior: Prior) -> Float[Array, "K V"]:
    """E[topics | w, z]."""
    return (prior.eta + counts.by_word.T) / (jnp.sum(prior.eta) + counts.by_topic)[:, None]


# --- lanes of tokens ------------------------------------------------------------------------------
class Lanes(NamedTuple):
    """Tokens by step and lane; the tokens of a step have different documents."""

    words: Int[Array | np.ndarray, "steps lanes"]  # word of each token; 0 in padding
    # Document of each token; D in padding, which is at the ends of lanes
    documents: Int[Array | np.ndarray, "steps lanes"]


def deal_lanes(corpus: Corpus, num_lanes: int) -> Lanes:
    """Makes lanes of nearly equal length: documents are dealt to the lanes back and forth, the
    longest first; within a lane they keep their order.

    >>> from vijax.data import Corpus
    >>> lanes = deal_lanes(Corpus.from_counts([[1, 0], [2, 1], [0, 2]]), 2)
    >>> lanes.words.tolist(), lanes.documents.tolist()
    ([[0, 0], [0, 1], [1, 1]], [[1, 0], [1, 2], [1, 2]])
    """
    order = np.arange(corpus.num_documents)
    if num_lanes > 1:
        order = np.argsort(-corpus.tokens, kind="stable")
    turn, seat = np.divmod(np.arange(corpus.num_documents), num_lanes)
    document_lanes = np.empty(corpus.num_documents, np.int64)
    document_lanes[order] = np.where(turn % 2 == 0, seat, num_lanes - 1 - seat)
    documents = np.repeat(np.arange(corpus.num_documents), corpus.tokens)
    words = np.repeat(corpus.indices, corpus.counts)
    by_lane = np.argsort(document_lanes[documents], kind="stable")
    lane = document_lanes[documents][by_lane]
    length = np.bincount(lane, minlength=num_lanes)
    step = np.arange(len(lane)) - (np.cumsum(length) - length)[lane]
    shape = (int(length.max()), num_lanes)
    lanes = Lanes(np.zeros(shape, np.int32), np.full(shape, corpus.num_documents, np.int32))
    lanes.words[step, lane] = words[by_lane]
    lanes.documents[step, lane] = documents[by_lane]
    return lanes
