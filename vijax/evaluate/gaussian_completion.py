"""Document completion for topic shares softmax(z), z Gaussian: the held-out score of the correlated topic model."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.data.reading.checks import fail
from vijax.evaluate.inputs import Topics, checked
from vijax.evaluate.score import Score
from vijax.evaluate.tokens import TokenRows, per_document
from vijax.families.base import as_floats
from vijax.families.vector.matrices import inverse, positive_definite
from vijax.inference import estep as esteps
from vijax.inference.estep import GaussianLocals, LogisticNormal
from vijax.inference.expectation.vector import gaussian_draws
from vijax.xla.compiler import step_jit

_ELEMENTS_PER_TOKEN = 1024  # numbers that an E-step of a hundred draws and ten topics holds


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
    """Mean log probability per word of the second halves of documents, given their first halves, at N(mean, precision).

    The tokens of each document are split at random, as by `document_completion` with the same key; the E-step finds
    q(z) of the first half, and each word of the second half is scored by Monte Carlo (Khan et al. 2016, section 7.2):

        log p(w | first half) = log sum_k E_q[softmax(z)_k] topics_kw

    Args:
      topics: probabilities of words by topic, shape (K, V), rows summing to one.
      mean: mu, (K,).
      precision: Sigma^-1, (K, K).
      documents: a `Corpus` over the same vocabulary, or anything `vijax.data.read` accepts.
      key: fixes the split and the draws.
      estep: `vijax.estep.proximal_gradient()` if None.
      num_samples: draws of z, an even number.

    Returns:
      A `Score` in nats per word; documents of fewer than two tokens are skipped, and counted.

    Raises:
      ValueError: topics that are not distributions, a precision that is not positive definite or not of their number,
        another vocabulary, no document with two tokens.

    >>> from vijax.data import Corpus
    >>> topics = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> documents = Corpus.from_counts([[20, 20, 0, 0], [0, 0, 9, 11], [1, 0, 0, 0]])
    >>> score = gaussian_completion(topics, np.zeros(2), 0.01 * np.eye(2), documents, jax.random.key(0))
    >>> round(score.mean, 1), score.num_tokens.tolist(), score.num_skipped
    (-0.7, [20, 10], 1)
    """
    table, corpus = checked(topics, 1.0, documents)
    mean, precision = as_floats(mean, precision)
    size = table.alpha.shape[0]
    require(mean.shape == (size,), "mean", f"shape ({size},)", mean.shape)
    require(precision.shape == (size, size), "precision", f"shape ({size}, {size})", precision.shape)
    precision = positive_definite(precision, "precision")
    require(num_samples >= 2 and num_samples % 2 == 0, "num_samples", "an even number >= 2", num_samples)
    rows = np.flatnonzero(corpus.tokens >= 2)
    if len(rows) == 0:
        got = f"at most {corpus.tokens.max()} in each of {corpus.num_documents}"
        raise fail("documents", "one with two tokens or more", got, "pass longer documents")
    corpus, num_skipped = corpus[rows], corpus.num_documents - len(rows)
    chosen = esteps.proximal_gradient() if estep is None else estep

    def complete(tokens: TokenRows, key: PRNGKeyArray) -> Array:
        return _complete(table, mean, precision, tokens, key, estep=chosen, num_samples=num_samples)

    log_probs = per_document(complete, corpus, _ELEMENTS_PER_TOKEN, key)
    return Score.of(log_probs, corpus.tokens // 2, rows, num_skipped)


@functools.partial(step_jit, static_argnames=("estep", "num_samples"))
def _complete(
    topics: Topics,
    mean: Float[Array, " K"],
    precision: Float[Array, "K K"],
    tokens: TokenRows,
    key: PRNGKeyArray,
    *,
    estep: Any,
    num_samples: int,
) -> Float[Array, " rows"]:
    """Log probability of the second half of each row's tokens given the first half, which has the odd one."""
    length_first = tokens.lengths - tokens.lengths // 2
    place = jnp.arange(tokens.words.shape[1])
    first = (place < length_first[:, None]).astype(mean.dtype)
    second = (place >= length_first[:, None]) & (place < tokens.lengths[:, None])
    likelihood = topics.likelihood[tokens.words]
    key_estep, key_draws = jax.random.split(key)
    half = -(-tokens.words.shape[1] // 2)
    docs = len(first)
    start = GaussianLocals(
        jnp.zeros((docs, len(mean)), mean.dtype),
        jnp.zeros((docs, *precision.shape), mean.dtype),
        jnp.zeros(docs, jnp.int32),
    )
    problem = LogisticNormal(likelihood[:, :half], first[:, :half], precision @ mean, precision)
    local = estep.logistic_normal(problem, start, key_estep)
    cov = inverse(jnp.linalg.cholesky(precision + local.site))
    draws = gaussian_draws(key_draws, local.mean, jnp.linalg.cholesky(cov), num_samples)
    share = jnp.mean(jax.nn.softmax(draws), axis=1)
    mixed = jnp.einsum("dnk,dk->dn", likelihood, share, precision="highest")
    return jnp.sum(jnp.where(second, jnp.log(mixed) + topics.log_scale[tokens.words], 0.0), axis=1)
