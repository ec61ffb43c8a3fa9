"""Left-to-right estimator of the probability of documents given topics: a particle filter over the tokens."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.checks import require_integers
from vijax.evaluate.documents import scale_of, score_documents, walk_over
from vijax.evaluate.inputs import Topics, checked
from vijax.evaluate.sampler import Chains, Walk, draws
from vijax.evaluate.score import Score
from vijax.evaluate.tokens import TokenRows
from vijax.xla.compiler import step_jit


def left_to_right(
    topics: Any, alpha: Any, documents: Any, key: PRNGKeyArray, *, num_particles: int = 20, resample_every: int = 1
) -> Score:
    """Log probability per word of whole documents, log p(w_d | topics, alpha) with theta and z integrated out.

    The chain rule, token by token: log p(w) = sum_n log p(w_n | w_<n), each factor being an average over particles of
    sum_k p(z_n = k | z_<n) topics_k[w_n], where z_<n is a draw given w_<n. Before each factor the earlier topics of
    every particle are redrawn by a Gibbs sweep (Wallach et al. 2009, algorithm 3), and after it the particles are drawn
    again in proportion to their factors. The last step is not in the paper; it makes this a particle filter, so that
    exp(estimate) is unbiased for p(w) with any number of particles, and the estimate itself too low by about half its
    variance.

    It takes N^2 / 2 redraws of a topic per particle of a document of N tokens.

    Args:
      topics: probabilities of words by topic, shape (K, V), rows summing to one.
      alpha: concentration of theta, positive: a scalar or one per topic.
      documents: a `Corpus` over the same vocabulary, or anything `vijax.data.read` accepts.
      key: fixes the order of the tokens and the draws.
      num_particles: more lower the variance.
      resample_every: redraw the earlier topics before every such token only: that many times faster, unbiased still,
        with a larger variance.

    Returns:
      A `Score` in nats per word, of word sequences (no multinomial coefficient); empty documents are skipped.

    Raises:
      ValueError: topics that are not distributions, an alpha that is not positive, another vocabulary, empty documents.

    Source: Wallach et al. 2009, section 4.4; Buntine 2009; Hoffman and Blei 2015, appendix D.

    >>> from vijax.data import Corpus
    >>> topics = jnp.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> documents = Corpus.from_counts([[1, 0, 0, 0], [0, 1, 0, 0]])
    >>> print(left_to_right(topics, 1.0, documents, jax.random.key(0)))
    -1.386 ± 0.000 nats per word (2 documents, 2 words)
    """
    require_integers(num_particles=num_particles, resample_every=resample_every)
    table, corpus = checked(topics, alpha, documents)
    estimate = functools.partial(_left_to_right, num_particles=num_particles, resample_every=resample_every)
    num_topics = table.alpha.shape[0]
    return score_documents(estimate, table, corpus, key, num_topics + 2 * num_particles)


@functools.partial(step_jit, static_argnames=("num_particles", "resample_every"))
def _left_to_right(
    topics: Topics, tokens: TokenRows, key: PRNGKeyArray, *, num_particles: int, resample_every: int
) -> Float[Array, " rows"]:
    """Estimate of log p(w) of each row."""
    walk = walk_over(topics, tokens)
    walk = Walk(walk.likelihood[:, None], walk.lengths[:, None], walk.alpha)
    num_rows = tokens.lengths.shape[0]

    def body(n, carry):
        chains, log_prob = carry
        draw_key, survivor_key = jax.random.split(jax.random.fold_in(key, n))
        draw = draws(draw_key, chains)
        chains = walk.sweep(chains, draw, stop=jnp.where(n % resample_every == 0, n, 0))
        factor = jnp.sum((walk.alpha + chains.counts) * walk.at(n), axis=-1) / (jnp.sum(walk.alpha) + n)
        log_prob += jnp.where(n < tokens.lengths, jnp.log(jnp.mean(factor, axis=1)), 0.0)
        return walk.visit(_take(chains, survivors(factor, survivor_key)), n, draw), log_prob

    start = walk.start((num_rows, num_particles)), jnp.zeros(num_rows, walk.alpha.dtype)
    return jax.lax.fori_loop(0, jnp.max(tokens.lengths), body, start)[1] + scale_of(topics, tokens)


def survivors(weights: Float[Array, "rows particles"], key: PRNGKeyArray) -> Int[Array, "rows particles"]:
    """Particles drawn in proportion to their weights, systematically: each as often as expected, up to one."""
    num_rows, num_particles = weights.shape
    cumulative = jnp.cumsum(weights, axis=1)
    offset = jax.random.uniform(key, (num_rows, 1), weights.dtype)
    points = (jnp.arange(num_particles) + offset) / num_particles * cumulative[:, -1:]
    index = jnp.sum(cumulative[:, None, :] <= points[:, :, None], axis=2)
    return jnp.minimum(index, num_particles - 1)


def _take(chains: Chains, particles: Int[Array, "rows particles"]) -> Chains:
    return Chains(*(jnp.take_along_axis(x, particles[:, :, None], axis=1) for x in chains))
