"""Document completion: the score of half of a document's tokens given the other half, through its
topic shares."""

from __future__ import annotations

import functools
from collections.abc import Callable
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

    The tokens of each document (not its distinct words) are split at random, by what it holds: its
    score is the same at another place, among other documents, and with its words in another order.
    theta_d is the posterior mean given the first half, averaged over Gibbs draws of the topics of
    its tokens; then the score is

        sum_d sum_{w in second half of d} log sum_k theta_dk topics_kw  /  number of such w.

    Of several fits the probabilities of a word are averaged, which is worth more than longer fits:
    theta of each fit is inferred by itself (benchmarks/results_topics.md).

    Args:
      topics: probabilities of words by topic, shape (K, V), rows summing to one; or a list of such,
        one for each of several fits.
      alpha: concentration of theta, positive: a scalar or one per topic.
      documents: a `Corpus` over the same vocabulary, or anything `vijax.data.read` accepts.
      key: fixes the split (the same key gives the same halves for any topics) and the draws.
      num_sweeps: Gibbs sweeps whose draws are averaged.
      burn_in: sweeps before those.

    Returns:
      A `Score` in nats per word; documents of fewer than two tokens are skipped, and counted.

    Raises:
      ValueError: topics that are not distributions, another vocabulary, no document with two
          tokens.

    Source: Wallach et al. 2009, section 5.2 (document completion); Hoffman and Blei 2015, appendix
    D. An average over fits is the posterior predictive with the fits as draws.

    >>> from vijax.data import Corpus
    >>> topics = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> documents = Corpus.from_counts([[20, 20, 0, 0], [0, 0, 9, 11], [1, 0, 0, 0]])
    >>> print(document_completion(topics, 0.01, documents, jax.random.key(0)))
    -0.694 ± 0.000 nats per word (2 documents, 30 words; 1 too short)
    """
    require_integers(num_sweeps=num_sweeps)
    require_integers(0, burn_in=burn_in)
    fits = (
        list(topics)
        if isinstance(topics, list | tuple) and len(topics) and np.ndim(topics[0]) == 2
        else [topics]
    )
    tables = [check_inputs(one, alpha, documents) for one in fits]
    corpus, size = tables[0][1], max(table.alpha.size for table, _ in tables)
    complete = functools.partial(_complete_by_gibbs, num_sweeps=num_sweeps, burn_in=burn_in)
    return _score_of_halves(complete, tuple(table for table, _ in tables), corpus, key, size)


@functools.partial(step_jit, static_argnames=("num_sweeps", "burn_in"))
def _complete_by_gibbs(
    fits: tuple[Topics, ...], tokens: TokenRows, *, num_sweeps: int, burn_in: int
) -> Float[Array, " rows"]:
    sweeps = functools.partial(_by_word, num_sweeps=num_sweeps, burn_in=burn_in)
    if len({topics.likelihood.shape for topics in fits}) == 1:  # one program for all
        by_word = jax.lax.map(
            lambda topics: sweeps(topics, tokens), jax.tree.map(lambda *x: jnp.stack(x), *fits)
        )
    else:
        by_word = jnp.stack([sweeps(topics, tokens) for topics in fits])
    return _second_half(tokens, jax.nn.logsumexp(by_word, 0) - np.log(len(fits)))


def _by_word(
    topics: Topics, tokens: TokenRows, *, num_sweeps: int, burn_in: int
) -> Float[Array, "rows tokens"]:
    """Log probability of each token given the first half of its row."""
    first = tokens._replace(
        words=tokens.words[:, : -(-tokens.words.shape[1] // 2)], lengths=_first_lengths(tokens)
    )
    walk = make_walk(topics, first)

    def sweep(i, carry):
        chains, total = carry
        chains = walk.sweep(chains, gibbs_choice(fold_in_each(tokens.keys, i), chains))
        return chains, total + jnp.where(i >= burn_in, chains.counts, 0.0)

    start = walk.start(walk.lengths.shape)
    _, total = jax.lax.fori_loop(
        0, burn_in + num_sweeps, sweep, (start, jnp.zeros_like(start.counts))
    )
    gamma = (
        walk.alpha + total / num_sweeps
    )  # of the posterior mean of theta, counts averaged over sweeps
    return _of_words(topics, tokens, gamma / jnp.sum(gamma, axis=1, keepdims=True))


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
    """Mean log probability per word of the second halves of documents, given their first halves, at
    N(mean, precision).

    The tokens of each document are split at random, as by `document_completion` with the same key;
    the E-step finds q(z) of the first half, and each word of the second half is scored by Monte
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
    require(
        precision.shape == (size, size), "precision", f"shape ({size}, {size})", precision.shape
    )
    precision = positive_definite(precision, "precision")
    require(
        num_samples >= 2 and num_samples % 2 == 0, "num_samples", "an even number >= 2", num_samples
    )
    estep = esteps.proximal_gradient() if estep is None else estep
    complete = functools.partial(_complete_by_gaussian, mean=mean, precision=precision, estep=estep)
    # An E-step of a hundred draws and ten topics holds so many numbers for each token.
    return _score_of_halves(
        functools.partial(complete, num_samples=num_samples), table, corpus, key, 1024
    )


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
    key_estep, key_draws = fold_in_each(tokens.keys, 0), fold_in_each(tokens.keys, 1)
    start = GaussianLocals(
        jnp.zeros((docs, len(mean)), mean.dtype),
        jnp.zeros((docs, *precision.shape), mean.dtype),
        jnp.zeros(docs, jnp.int32),
    )
    problem = LogisticNormal(
        topics.likelihood[tokens.words[:, :half]], first, precision @ mean, precision
    )
    local = estep.logistic_normal(problem, start, key_estep)
    cov = inverse(jnp.linalg.cholesky(precision + local.site))
    draws = gaussian_draws(key_draws, local.mean, jnp.linalg.cholesky(cov), num_samples)
    return _second_half(tokens, _of_words(topics, tokens, jnp.mean(jax.nn.softmax(draws), axis=1)))


def _score_of_halves(
    complete: Callable, topics: Any, corpus: Corpus, key: PRNGKeyArray, per_token: int
) -> Score:
    """The score of the second halves of documents, of each row of tokens by `complete(topics,
    tokens)`."""
    if corpus.tokens.max() < 2:
        got = f"at most {corpus.tokens.max()} in each of {corpus.num_documents}"
        raise fail("documents", "one with two tokens or more", got, "pass longer documents")
    return score_documents(complete, topics, corpus, key, per_token, 2)


def score_documents(
    estimate: Callable,
    topics: Any,
    corpus: Corpus,
    key: PRNGKeyArray,
    per_token: int,
    part: int = 1,
) -> Score:
    """The score of one in `part` tokens of each document that has as many; `estimate` (jitted)
    gives the log probability of each row of tokens, and holds `per_token` numbers for a token."""
    rows = np.flatnonzero(corpus.tokens >= part)
    chosen = corpus[rows]
    log_probs = per_document(lambda tokens: estimate(topics, tokens), chosen, per_token, key)
    return Score.of(log_probs, chosen.tokens // part, rows, corpus.num_documents - len(rows))


def _first_lengths(tokens: TokenRows) -> Int[Array | np.ndarray, " rows"]:
    """Tokens in the first half of each row, which has the odd one."""
    return tokens.lengths - tokens.lengths // 2


def _of_words(
    topics: Topics, tokens: TokenRows, theta: Float[Array, "rows K"]
) -> Float[Array, "rows tokens"]:
    """Log probability of each token under topic shares."""
    mixed = jnp.einsum("dnk,dk->dn", topics.likelihood[tokens.words], theta, precision="highest")
    return jnp.log(mixed) + topics.log_scale[tokens.words]


def _second_half(tokens: TokenRows, by_word: Float[Array, "rows tokens"]) -> Float[Array, " rows"]:
    """The sum over the second half of each row's tokens."""
    place = jnp.arange(tokens.words.shape[1])
    second = (place >= _first_lengths(tokens)[:, None]) & (place < tokens.lengths[:, None])
    return jnp.sum(jnp.where(second, by_word, 0.0), axis=1)
