"""Estimators of the probability of whole documents given topics: Chib's, and left to right."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.checks import require_integers
from vijax.evaluate.completion import score_documents
from vijax.evaluate.sampler import Chains, Walk, gibbs_choice
from vijax.evaluate.score import Score
from vijax.evaluate.tokens import TokenRows, Topics, check_inputs, log_scales, make_walk
from vijax.xla.compiler import step_jit
from vijax.xla.content_keys import fold_in_each

_CLIMBS = 10  # sweeps of coordinate ascent that follow the burn-in


def chib(
    topics: Any,
    alpha: Any,
    documents: Any,
    key: PRNGKeyArray,
    *,
    num_samples: int = 100,
    burn_in: int = 20,
) -> Score:
    """Log probability per word of whole documents, log p(w_d | topics, alpha) with theta and z
    integrated out.

    p(w) = p(w, z*) / p(z* | w) for any z*. With T the kernel of one Gibbs sweep and z_1 .. z_S
    draws of its stationary chain, p(z* | w) is the mean of T(z* <- z_s). The chain is run both ways
    from a draw of a random place s in it, z_s ~ reversed T(. <- z*), which makes exp(estimate)
    unbiased for p(w) (Murray and Salakhutdinov 2009). z* is reached by Gibbs sampling, then
    coordinate ascent.

    It takes up to 4 S N visits to a token for a document of N tokens, where `left_to_right` takes
    N^2 / 2 per particle. Where z* is a small part of a flat posterior, rare large terms dominate
    the mean of T: the estimate tends to be off.

    Args:
      topics, alpha, documents: as for `document_completion`.
      key: fixes the draws.
      num_samples: S, the length of the chain.
      burn_in: Gibbs sweeps on the way to z*.

    Returns:
      A `Score` in nats per word, of word sequences (no multinomial coefficient); empty documents
      are skipped.

    Source: Wallach et al. 2009, section 4.3; Hoffman and Blei 2015, appendix D.

    >>> from vijax.data import Corpus
    >>> topics = jnp.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> documents = Corpus.from_counts([[1, 0, 0, 0], [0, 1, 0, 0]])
    >>> print(chib(topics, 1.0, documents, jax.random.key(0)))
    -1.386 ± 0.000 nats per word (2 documents, 2 words)
    """
    require_integers(num_samples=num_samples)
    require_integers(0, burn_in=burn_in)
    table, corpus = check_inputs(topics, alpha, documents)
    estimate = functools.partial(_chib, num_samples=num_samples, burn_in=burn_in)
    return score_documents(estimate, table, corpus, key, table.alpha.shape[0])


@functools.partial(step_jit, static_argnames=("num_samples", "burn_in"))
def _chib(
    topics: Topics, tokens: TokenRows, *, num_samples: int, burn_in: int
) -> Float[Array, " rows"]:
    """Estimate of log p(w) of each row."""
    walk = make_walk(topics, tokens)
    climb, at, turn, forth, back = (fold_in_each(tokens.keys, number) for number in range(5))
    target = _likely(walk, climb, burn_in)
    place = jax.vmap(lambda key: jax.random.randint(key, (), 0, num_samples))(at)
    middle = walk.sweep(target, gibbs_choice(turn, target), backward=True)

    def run(total, direction):
        backward, num_sweeps, keys = direction
        return _add_transitions(walk, middle, target.z, total, num_sweeps, keys, backward), None

    both = (
        jnp.array([False, True]),
        jnp.stack([num_samples - 1 - place, place]),
        jnp.stack([forth, back]),
    )
    total, _ = jax.lax.scan(run, log_transition(walk, middle, target.z), both)
    return log_joint(walk, target) - (total - jnp.log(num_samples)) + log_scales(topics, tokens)


def _likely(walk: Walk, keys: PRNGKeyArray, burn_in: int) -> Chains:
    """Topics z* of high probability: Gibbs sampling, then coordinate ascent."""

    def sweep(i, chains):
        draw = gibbs_choice(fold_in_each(keys, i), chains)
        best = lambda weights: jnp.argmax(weights, axis=-1).astype(jnp.int32)
        return walk.sweep(chains, lambda place, w: jnp.where(i < burn_in, draw(place, w), best(w)))

    return jax.lax.fori_loop(0, burn_in + _CLIMBS, sweep, walk.start(walk.lengths.shape))


def _add_transitions(
    walk: Walk,
    chains: Chains,
    target: Array,
    total: Array,
    num_sweeps: Array,
    keys: PRNGKeyArray,
    backward: Array,
) -> Float[Array, " rows"]:
    """logaddexp of `total` and log T(target <- z) for the next `num_sweeps` states z of each row's
    chain."""

    def body(i, carry):
        chains, total = carry
        chains = walk.sweep(chains, gibbs_choice(fold_in_each(keys, i), chains), backward=backward)
        longer = jnp.logaddexp(total, log_transition(walk, chains, target))
        return chains, jnp.where(i < num_sweeps, longer, total)

    return jax.lax.fori_loop(0, jnp.max(num_sweeps), body, (chains, total))[1]


def log_transition(
    walk: Walk, chains: Chains, target: Int[Array, "rows tokens"]
) -> Float[Array, " rows"]:
    """log T(target <- chains): each token draws its topic in `target` after the tokens before it
    have drawn theirs."""

    def visit(i, carry):
        chains, log_prob = carry
        weights = walk.weights(chains, i)
        chosen = target[:, i]
        weight = jnp.take_along_axis(
            weights, jnp.minimum(chosen, weights.shape[1] - 1)[:, None], axis=1
        )[:, 0]
        term = jnp.log(weight / jnp.sum(weights, axis=1))
        return walk.visit(chains, i, lambda *_: chosen), log_prob + jnp.where(
            i < walk.lengths, term, 0.0
        )

    zeros = jnp.zeros(walk.lengths.shape, walk.alpha.dtype)
    return jax.lax.fori_loop(0, jnp.max(walk.lengths), visit, (chains, zeros))[1]


def log_joint(walk: Walk, chains: Chains) -> Float[Array, " rows"]:
    """log p(w, z), theta integrated out (with the word probabilities of the walk)."""
    alpha, total = walk.alpha, jnp.sum(walk.alpha)
    num_topics = alpha.shape[0]
    prior = jnp.sum(gammaln(alpha + chains.counts) - gammaln(alpha), axis=1)
    prior += gammaln(total) - gammaln(total + walk.lengths)
    likelihood = jnp.take_along_axis(
        walk.likelihood, jnp.minimum(chains.z, num_topics - 1)[..., None], axis=2
    )[..., 0]
    return prior + jnp.sum(jnp.where(chains.z < num_topics, jnp.log(likelihood), 0.0), axis=1)


def left_to_right(
    topics: Any,
    alpha: Any,
    documents: Any,
    key: PRNGKeyArray,
    *,
    num_particles: int = 20,
    resample_every: int = 1,
) -> Score:
    """Log probability per word of whole documents, log p(w_d | topics, alpha) with theta and z
    integrated out.

    The chain rule, token by token: log p(w) = sum_n log p(w_n | w_<n), each factor being an average
    over particles of sum_k p(z_n = k | z_<n) topics_k[w_n], where z_<n is a draw given w_<n. Before
    each factor the earlier topics of every particle are redrawn by a Gibbs sweep (Wallach et al.
    2009, algorithm 3), and after it the particles are drawn again in proportion to their factors.
    The last step is not in the paper; it makes this a particle filter, so that exp(estimate) is
    unbiased for p(w) with any number of particles, and the estimate itself too low by about half
    its variance.

    It takes N^2 / 2 redraws of a topic per particle of a document of N tokens.

    Args:
      topics, alpha, documents: as for `document_completion`.
      key: fixes the order of the tokens and the draws.
      num_particles: more lower the variance.
      resample_every: redraw the earlier topics before every such token only: that many times
        faster, unbiased still, with a larger variance.

    Returns:
      A `Score`, as of `chib`.

    Source: Wallach et al. 2009, section 4.4; Buntine 2009; Hoffman and Blei 2015, appendix D.

    >>> from vijax.data import Corpus
    >>> topics = jnp.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    >>> documents = Corpus.from_counts([[1, 0, 0, 0], [0, 1, 0, 0]])
    >>> print(left_to_right(topics, 1.0, documents, jax.random.key(0)))
    -1.386 ± 0.000 nats per word (2 documents, 2 words)
    """
    require_integers(num_particles=num_particles, resample_every=resample_every)
    table, corpus = check_inputs(topics, alpha, documents)
    estimate = functools.partial(
        _left_to_right, num_particles=num_particles, resample_every=resample_every
    )
    num_topics = table.alpha.shape[0]
    return score_documents(estimate, table, corpus, key, num_topics + 2 * num_particles)


@functools.partial(step_jit, static_argnames=("num_particles", "resample_every"))
def _left_to_right(
    topics: Topics, tokens: TokenRows, *, num_particles: int, resample_every: int
) -> Float[Array, " rows"]:
    """Estimate of log p(w) of each row."""
    walk = make_walk(topics, tokens)
    walk = Walk(walk.likelihood[:, None], walk.lengths[:, None], walk.alpha)
    num_rows = tokens.lengths.shape[0]

    def body(n, carry):
        chains, log_prob = carry
        draw = gibbs_choice(fold_in_each(tokens.keys, 2 * n), chains)
        chains = walk.sweep(chains, draw, stop=jnp.where(n % resample_every == 0, n, 0))
        factor = jnp.sum((walk.alpha + chains.counts) * walk.at(n), axis=-1) / (
            jnp.sum(walk.alpha) + n
        )
        log_prob += jnp.where(n < tokens.lengths, jnp.log(jnp.mean(factor, axis=1)), 0.0)
        kept = survivors(factor, fold_in_each(tokens.keys, 2 * n + 1))[:, :, None]
        chains = Chains(*(jnp.take_along_axis(x, kept, axis=1) for x in chains))
        return walk.visit(chains, n, draw), log_prob

    start = walk.start((num_rows, num_particles)), jnp.zeros(num_rows, walk.alpha.dtype)
    return jax.lax.fori_loop(0, jnp.max(tokens.lengths), body, start)[1] + log_scales(
        topics, tokens
    )


def survivors(
    weights: Float[Array, "rows particles"], keys: PRNGKeyArray
) -> Int[Array, "rows particles"]:
    """Particles drawn in proportion to their weights, systematically: each as often as expected, up
    to one. Each row has a key of its own."""
    num_particles = weights.shape[1]
    cumulative = jnp.cumsum(weights, axis=1)
    offset = jax.vmap(lambda key: jax.random.uniform(key, (1,), weights.dtype))(keys)
    points = (jnp.arange(num_particles) + offset) / num_particles * cumulative[:, -1:]
    index = jnp.sum(cumulative[:, None, :] <= points[:, :, None], axis=2)
    return jnp.minimum(index, num_particles - 1)
