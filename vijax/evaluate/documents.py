"""Scores of documents one by one: the parts that the estimators share."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.data.corpora.corpus import Corpus
from vijax.evaluate.inputs import Topics
from vijax.evaluate.sampler import Walk
from vijax.evaluate.score import Score
from vijax.evaluate.tokens import TokenRows, per_document


def score_documents(
    estimate: Callable[[Topics, TokenRows, PRNGKeyArray], Array],
    topics: Topics,
    corpus: Corpus,
    key: PRNGKeyArray,
    elements_per_token: int,
) -> Score:
    """The score of all documents with words; `estimate` (jitted) gives the log probability per row."""
    rows = np.flatnonzero(corpus.tokens)
    corpus, num_empty = corpus[rows], corpus.num_documents - len(rows)
    log_probs = per_document(lambda tokens, key: estimate(topics, tokens, key), corpus, elements_per_token, key)
    return Score.of(log_probs, corpus.tokens, rows, num_empty)


def walk_over(topics: Topics, tokens: TokenRows) -> Walk:
    """Rows of tokens with their word probabilities, up to the factors that `scale_of` sums."""
    return Walk(topics.likelihood[tokens.words], jnp.asarray(tokens.lengths), topics.alpha)


def scale_of(topics: Topics, tokens: TokenRows) -> Float[Array, " rows"]:
    """Log of the product of the factors that a walk leaves out."""
    real = jnp.arange(tokens.words.shape[1]) < tokens.lengths[:, None]
    return jnp.sum(jnp.where(real, topics.log_scale[tokens.words], 0.0), axis=1)
