"""Document completion: the score of one half of the tokens of a document given the other half, by
its topic shares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.checks import require, require_integers
from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import fail
from vijax.evaluate.sampler import gibbs_choice
from vijax.evaluate.score import Score
from vijax.evaluate.tokens import TokenRows, Topics, check_inputs, make_walk, per_document
from vijax.families.base import as_floats
from vijax.families.vector.matrices import inverse, positive_definite
from vijax.inference import estep as esteps
from vijax.inference.estep import GaussianLocals, LogisticNormal
from vijax.inference.expectation.vector import gaussian_draws
from vijax.xla.compiler import step_jit
from vijax.xla.content_keys import fold_in_each


def document_completion(
    topics: Any,
    alpha: Any,
    documents: Any,
    key: PRNGKeyArray,
    *,
    num_sweeps: int = 50,
    burn_in: int = 50,
) -> Score:
    """Mean log probability per word of the second halves of documents, given their first halves.

    The tokens of each document (not its distinct words) are split at random. The split depends only
    on the contents of the document: not on its position, on the other documents, or on the order of
    its words. theta_d is the posterior mean given the first half, averaged over Gibbs draws of the
    topics of its tokens; then the score is

        sum_d sum_{w in second half of d} log sum_k theta_dk topics_kw  /  number of these w.

    For several fits the probabilities of a word are averaged over the fits, each with its theta;
    this gains more than longer fits (benchmarks/results_topics.md).

    Args:
      topics: probabilities of words by topic, shape (K, V), rows summing to one; or a list with the
        topics of each of several fits.
      alpha: concentration of theta, positive: a scalar or one per topic.
      documents: a `Corpus` over the same vocabulary, or anything `vijax.data.read` accepts.
      key: fixes the draws, and the split: the same key gives the same halves for any topics.
      num_sweeps: Gibbs sweeps whose draws are averaged.
      burn_in: Gibbs sweeps before these.

    Returns:
      A `Score` in nats per word; it skips documents with fewer than two tokens, and counts them.

    Raises:
      ValueError: topics that are not distributions, another vocabulary, or no document with two
          tokens.

    Source: Wallach et al. 2009, section 5.2 (document completion); Hoffman and Blei 2015, appendix
    D. An average over fits is the posterior predictive with the fits as draws.

    >>> from vijax.data import Corpus
    >>> topics = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> documents = Corpus.from_counts([[20, 20, 0, 0], [0, 0, 9, 11], [1, 0, 0, 0]])
    >>> print(document_completion(topics, 0.01, documents, jax.random.key(0)))
    -0.694 ± 0.000 nats per word (2 documents, 30 words; 1 too short)
    """
    has_fits = isinstance(topics, list | tuple) and len(topics) and np.ndim(topics[0]) == 2
    fits = [(table, alpha) for table in (topics if has_fits else [topics])]
    return average_completion(fits, documents, key, num_sweeps=num_sweeps, burn_in=burn_in)


def average_completion(
    fits: Sequence[tuple[Any, Any]],
    documents: Any,
    key: PRNGKeyArray,
    *,
    num_sweeps: int = 50,
    burn_in: int = 50,
) -> Score:
    """`document_completion` of several fits, each with topics and an alpha of its own: pairs."""
    require_integers(num_sweeps=num_sweeps)
    require_integers(0, burn_in=burn_in)
    inputs = [check_inputs(table, alpha, documents) for table, alpha in fits]
    tables = tuple(table for table, _ in inputs)
    _, corpus = inputs[0]
    size = max(table.alpha.size for table in tables)
    complete = functools.partial(_complete_by_gibbs, num_sweeps=num_sweeps, burn_in=burn_in)
    return _score_of_halves(complete, tables, corpus, key, size)


def grouped_completion(
    fits: Sequence[tuple[Any, Any]],
    documents: Any,
    groups: Int[np.ndarray, " docs"],
    key: PRNGKeyArray,
    *,
    num_sweeps: int = 50,
    burn_in: int = 50,
) -> Score:
    """`average_completion` of topics whose words differ between groups of documents, such as slices
    of time. Documents are cut into the same halves.

    Args:
      fits: pairs of topics and alpha; topics are probabilities of words, shape (groups, K, V).
      documents: a `Corpus`.
      groups: the group of each document.
      key, num_sweeps, burn_in: as for `document_completion`.

    >>> from vijax.data import Corpus
    >>> topics = np.array([[[0.5, 0.5, 0.0]], [[0.0, 0.5, 0.5]]]) + 1e-9
    >>> documents = Corpus.from_counts([[8, 8, 0], [0, 8, 8]])
    >>> print(grouped_completion([(topics, 1.0)], documents, np.array([0, 1]), jax.random.key(0)))
    -0.693 ± 0.000 nats per word (2 documents, 16 words)
    """
    tables = []
    for by_group, alpha in fits:
        parts = [check_inputs(table, alpha, documents)[0] for table in by_group]
        likelihood = jnp.concatenate([part.likelihood for part in parts])
        log_scale = jnp.concatenate([part.log_scale for part in parts])
        tables.append(Topics(likelihood, log_scale, parts[0].alpha))
    offsets = np.asarray(groups, np.int32) * documents.vocab_size
    complete = functools.partial(_complete_by_gibbs, num_sweeps=num_sweeps, burn_in=burn_in)
    size = max(table.alpha.size for table in tables)
    return _score_of_halves(complete, tuple(tables), documents, key, size, offsets)


@functools.partial(step_jit, static_argnames=("num_sweeps", "burn_in"))
def _complete_by_gibbs(
    fits: tuple[Topics, ...], tokens: TokenRows, *, num_sweeps: int, burn_in: int
) -> Float[Array, " rows"]:
    sweep = functools.partial(_log_probs_of_tokens, num_sweeps=num_sweeps, burn_in=burn_in)
    if len({topics.likelihood.shape for topics in fits}) == 1:  # one program for all
        stack = jax.tree.map(lambda *x: jnp.stack(x), *fits)
        log_probs = jax.lax.map(lambda topics: sweep(topics, tokens), stack)
    else:
        log_probs = jnp.stack([sweep(topics, tokens) for topics in fits])
    return _sum_second_half(tokens, jax.nn.logsumexp(log_probs, 0) - np.log(len(fits)))


def _log_probs_of_tokens(
    topics: Topics, tokens: TokenRows, *, num_sweeps: int, burn_in: int
) -> Float[Array, "rows tokens"]:
    """Log probability of each token given the first half of its row."""
    half = -(-tokens.words.shape[1] // 2)
    first = tokens._replace(words=tokens.words[:, :half], lengths=_first_lengths(tokens))
    walk = make_walk(topics, first)

    def sweep(i, carry):
        chains, total = carry
        chains = walk.sweep(chains, gibbs_choice(fold_in_each(tokens.keys, i), chains))
        return chains, total + jnp.where(i >= burn_in, chains.counts, 0.0)

    chains = walk.start(walk.lengths.shape)
    start = chains, jnp.zeros_like(chains.counts)
    _, total = jax.lax.fori_loop(0, burn_in + num_sweeps, sweep, start)
    gamma = walk.alpha + total / num_sweeps  # concentrations, with the mean counts of the sweeps
    return _shares_log_probs(topics, tokens, gamma / jnp.sum(gamma, axis=1, keepdims=True))


def gaussian_completion(
    topics: Any,
    mean: Any,
    precision: Any,
    documents: Any,
    key: PRNGKeyArray,
    *,
    estep: Any = None,
    num_samples: int = 512,
) -> Score:
    """Mean log probability per word of the second halves of documents given their first halves,
    with the prior z ~ N(mean, precision^-1) of a correlated topic model.

    The split of the tokens of a document is that of `document_completion` with the same key. The
    E-step computes q(z) from the first half, and each word of the second half is scored by Monte
    Carlo (Khan et al. 2016, section 7.2):

        log p(w | first half) = log sum_k E_q[softmax(z)_k] topics_kw

    Args:
      topics, documents, key: as for `document_completion`.
      mean: mu, (K,).
      precision: Sigma^-1, (K, K), positive definite.
      estep: `vijax.estep.proximal_gradient()` if None.
      num_samples: draws of z, an even number.

    >>> from vijax.data import Corpus
    >>> topics = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> documents = Corpus.from_counts([[20, 20, 0, 0], [0, 0, 9, 11], [1, 0, 0, 0]])
    >>> score = gaussian_completion(topics, np.zeros(2), 0.01 * np.eye(2), documents, jax.random.key(0))
    >>> round(score.mean, 1), score.num_tokens.tolist(), score.num_skipped
    (-0.7, [20, 10], 1)
    """
    table, corpus = check_inputs(topics, 1.0, documents)
    mean, precision = as_floats(mean, precision)
    size = table.alpha.shape[0]
    require(mean.shape == (size,), "mean", f"shape ({size},)", mean.shape)
    square = (size, size)
    require(precision.shape == square, "precision", f"shape ({size}, {size})", precision.shape)
    precision = positive_definite(precision, "precision")
    is_even = num_samples >= 2 and num_samples % 2 == 0
    require(is_even, "num_samples", "an even number >= 2", num_samples)
    if estep is None:
        estep = esteps.proximal_gradient()
    complete = functools.partial(
        _complete_by_gaussian,
        mean=mean,
        precision=precision,
        estep=estep,
        num_samples=num_samples,
    )
    return _score_of_halves(complete, table, corpus, key, _GAUSSIAN_ELEMENTS)


_GAUSSIAN_ELEMENTS = 1024
"""Numbers for each token in an E-step of a hundred draws and ten topics."""


@functools.partial(step_jit, static_argnames=("estep", "num_samples"))
def _complete_by_gaussian(
    topics: Topics,
    tokens: TokenRows,
    *,
    mean: Float[Array, " K"],
    precision: Float[Array, "K K"],
    estep: Any,
    num_samples: int,
) -> Float[Array, " rows"]:
    docs, width = tokens.words.shape
    half = -(-width // 2)
    first = (jnp.arange(half) < _first_lengths(tokens)[:, None]).astype(mean.dtype)
    key_estep = fold_in_each(tokens.keys, 0)
    key_draws = fold_in_each(tokens.keys, 1)
    start = GaussianLocals(
        jnp.zeros((docs, len(mean)), mean.dtype),
        jnp.zeros((docs, *precision.shape), mean.dtype),
        jnp.zeros(docs, jnp.int32),
    )
    likelihood = topics.likelihood[tokens.words[:, :half]]
    problem = LogisticNormal(likelihood, first, precision @ mean, precision)
    local = estep.logistic_normal(problem, start, key_estep)
    cov = inverse(jnp.linalg.cholesky(precision + local.site))
    draws = gaussian_draws(key_draws, local.mean, jnp.linalg.cholesky(cov), num_samples)
    theta = jnp.mean(jax.nn.softmax(draws), axis=1)
    return _sum_second_half(tokens, _shares_log_probs(topics, tokens, theta))


def _score_of_halves(
    complete: Callable,
    topics: Any,
    corpus: Corpus,
    key: PRNGKeyArray,
    per_token: int,
    offsets: Int[np.ndarray, " docs"] | None = None,
) -> Score:
    """The score of the second halves of documents; `complete(topics, tokens)` gives their log
    probabilities for rows of tokens."""
    if corpus.tokens.max() < 2:
        longest = f"at most {corpus.tokens.max()} in each of {corpus.num_documents}"
        raise fail("documents", "one with two tokens or more", longest, "pass longer documents")
    return score_documents(complete, topics, corpus, key, per_token, 2, offsets)


def score_documents(
    estimate: Callable,
    topics: Any,
    corpus: Corpus,
    key: PRNGKeyArray,
    per_token: int,
    part: int = 1,
    offsets: Int[np.ndarray, " docs"] | None = None,
) -> Score:
    """The score of documents of which one token in `part` is scored, without documents of fewer
    tokens.

    Args:
      estimate: jitted; (topics, rows of tokens) -> log probability of each row.
      topics: the argument of `estimate`.
      corpus: the documents.
      key: random key.
      per_token: numbers that `estimate` holds for a token.
      part: number of tokens for each scored token.
      offsets: numbers that are added to the word ids of each document, after its tokens are in
        order.
    """
    rows = np.flatnonzero(corpus.tokens >= part)
    documents = corpus[rows]
    per_row = lambda tokens: estimate(topics, tokens)
    if offsets is not None:
        offsets = offsets[rows]
    log_probs = per_document(per_row, documents, per_token, key, offsets)
    num_skipped = corpus.num_documents - len(rows)
    return Score.of(log_probs, documents.tokens // part, rows, num_skipped)


def _first_lengths(tokens: TokenRows) -> Int[Array | np.ndarray, " rows"]:
    """Number of tokens in the first half of each row, which has one more if the number is odd."""
    return tokens.lengths - tokens.lengths // 2


def _shares_log_probs(
    topics: Topics, tokens: TokenRows, theta: Float[Array, "rows K"]
) -> Float[Array, "rows tokens"]:
    """Log probability of each token under topic shares."""
    likelihood = topics.likelihood[tokens.words]
    probs = jnp.einsum("dnk,dk->dn", likelihood, theta, precision="highest")
    return jnp.log(probs) + topics.log_scale[tokens.words]


def _sum_second_half(
    tokens: TokenRows, values: Float[Array, "rows tokens"]
) -> Float[Array, " rows"]:
    """The sum of the values over the second half of the tokens of each row."""
    place = jnp.arange(tokens.words.shape[1])
    second = (place >= _first_lengths(tokens)[:, None]) & (place < tokens.lengths[:, None])
    return jnp.sum(jnp.where(second, values, 0.0), axis=1)
