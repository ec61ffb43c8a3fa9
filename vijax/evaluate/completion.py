"""Document completion: predicts half of a document's tokens from the other half, through theta."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require_integers
from vijax.data.reading.checks import fail
from vijax.evaluate.documents import walk_over
from vijax.evaluate.inputs import Topics, checked
from vijax.evaluate.sampler import Walk, draws
from vijax.evaluate.score import Score
from vijax.evaluate.tokens import TokenRows, per_document
from vijax.xla.compiler import step_jit


def document_completion(
    topics: Any, alpha: Any, documents: Any, key: PRNGKeyArray, *, num_sweeps: int = 50, burn_in: int = 50
) -> Score:
    """Mean log probability per word of the second halves of documents, given their first halves.

    The tokens of each document (not its distinct words) are split at random; theta_d is the posterior mean given the
    first half, averaged over Gibbs draws of the topics of its tokens; then the score is

        sum_d sum_{w in second half of d} log sum_k theta_dk topics_kw  /  number of such w.

    Args:
      topics: probabilities of words by topic, shape (K, V), rows summing to one.
      alpha: concentration of theta, positive: a scalar or one per topic.
      documents: a `Corpus` over the same vocabulary, or anything `vijax.data.read` accepts.
      key: fixes the split (the same key gives the same halves for any topics) and the draws.
      num_sweeps: Gibbs sweeps whose draws are averaged.
      burn_in: sweeps before those.

    Returns:
      A `Score` in nats per word; documents of fewer than two tokens are skipped, and counted.

    Raises:
      ValueError: topics that are not distributions, an alpha that is not positive, another vocabulary, no document with
        two tokens.

    Source: Wallach et al. 2009, section 5.2 (document completion); Hoffman and Blei 2015, appendix D.

    >>> from vijax.data import Corpus
    >>> topics = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> documents = Corpus.from_counts([[20, 20, 0, 0], [0, 0, 9, 11], [1, 0, 0, 0]])
    >>> print(document_completion(topics, 0.01, documents, jax.random.key(0)))
    -0.694 ± 0.000 nats per word (2 documents, 30 words; 1 too short)
    """
    require_integers(num_sweeps=num_sweeps)
    require_integers(0, burn_in=burn_in)
    table, corpus = checked(topics, alpha, documents)
    rows = np.flatnonzero(corpus.tokens >= 2)
    if len(rows) == 0:
        got = f"at most {corpus.tokens.max()} in each of {corpus.num_documents}"
        raise fail("documents", "one with two tokens or more", got, "pass longer documents")
    corpus, num_skipped = corpus[rows], corpus.num_documents - len(rows)

    def complete(tokens: TokenRows, key: PRNGKeyArray) -> Array:
        return _complete(table, tokens, key, num_sweeps=num_sweeps, burn_in=burn_in)

    log_probs = per_document(complete, corpus, table.alpha.shape[0], key)
    return Score.of(log_probs, corpus.tokens // 2, rows, num_skipped)


@functools.partial(step_jit, static_argnames=("num_sweeps", "burn_in"))
def _complete(
    topics: Topics, tokens: TokenRows, key: PRNGKeyArray, *, num_sweeps: int, burn_in: int
) -> Float[Array, " rows"]:
    """Log probability of the second half of each row's tokens given the first half, which has the odd one."""
    length_first = tokens.lengths - tokens.lengths // 2
    first = TokenRows(tokens.words[:, : -(-tokens.words.shape[1] // 2)], length_first)
    theta = _topic_shares(walk_over(topics, first), key, num_sweeps, burn_in)
    mixed = jnp.einsum("dnk,dk->dn", topics.likelihood[tokens.words], theta)
    place = jnp.arange(tokens.words.shape[1])
    second = (place >= length_first[:, None]) & (place < tokens.lengths[:, None])
    return jnp.sum(jnp.where(second, jnp.log(mixed) + topics.log_scale[tokens.words], 0.0), axis=1)


def _topic_shares(walk: Walk, key: PRNGKeyArray, num_sweeps: int, burn_in: int) -> Float[Array, "rows K"]:
    """Posterior mean of theta: (alpha + counts) / total, the counts averaged over the sweeps after `burn_in`."""

    def sweep(i, carry):
        chains, total = carry
        chains = walk.sweep(chains, draws(jax.random.fold_in(key, i), chains))
        return chains, total + jnp.where(i >= burn_in, chains.counts, 0.0)

    start = walk.start(walk.lengths.shape)
    _, total = jax.lax.fori_loop(0, burn_in + num_sweeps, sweep, (start, jnp.zeros_like(start.counts)))
    gamma = walk.alpha + total / num_sweeps
    return gamma / jnp.sum(gamma, axis=1, keepdims=True)
