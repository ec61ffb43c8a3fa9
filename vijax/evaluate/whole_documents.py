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

_NUM_ASCENTS = 10  # sweeps of coordinate ascent after the burn-in


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
    draws of its stationary chain, p(z* | w) is the mean of T(z* <- z_s). The chain runs in both
    directions from a draw z_s ~ reversed T(. <- z*) at a random position s, which makes
    exp(estimate) unbiased for p(w) (Murray and Salakhutdinov 2009). Gibbs sampling and then
    coordinate ascent lead to z*.

    A document of N tokens takes up to 4 S N visits to a token; `left_to_right` takes N^2 / 2 per
    particle. If z* has a small share of a flat posterior, rare large terms dominate the mean of T,
    and the estimate tends to be off.

    Args:
      topics, alpha, documents: as for `document_completion`.
      key: fixes the draws.
      num_samples: S, the length of the chain.
      burn_in: Gibbs sweeps before the coordinate ascent to z*.

    Returns:
      A `Score` in nats per word, of word sequences (without the multinomial coefficient); it skips
      empty documents.

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
    keys = [fold_in_each(tokens.keys, number) for number in range(5)]
    key_target, key_place, key_middle, key_forward, key_backward = keys
    target = _find_likely_topics(walk, key_target, burn_in)
    place = jax.vmap(lambda key: jax.random.randint(key, (), 0, num_samples))(key_place)
    middle = walk.sweep(target, gibbs_choice(key_middle, target), backward=True)

    def run(total, direction):
        backward, num_sweeps, keys = direction
        return _add_transitions(walk, middle, target.z, total, num_sweeps, keys, backward), None

    directions = (
        jnp.array([False, True]),
        jnp.stack([num_samples - 1 - place, place]),
        jnp.stack([key_forward, key_backward]),
    )
    total, _ = jax.lax.scan(run, log_transition(walk, middle, target.z), directions)
    return log_joint(walk, target) - (total - jnp.log(num_samples)) + log_scales(topics, tokens)


def _find_likely_topics(walk: Walk, keys: PRNGKeyArray, burn_in: int) -> Chains:
    """Topics z* of high probability, by Gibbs sampling and then coordinate ascent."""

    def sweep(i, chains):
        draw = gibbs_choice(fold_in_each(keys, i), chains)

        def choose(place, weights):
            best = jnp.argmax(weights, axis=-1).astype(jnp.int32)
            return jnp.where(i < burn_in, draw(place, weights), best)

        return walk.sweep(chains, choose)

    return jax.lax.fori_loop(0, burn_in + _NUM_ASCENTS, sweep, walk.start(walk.lengths.shape))


def _add_transitions(
    walk: Walk,
    chains: Chains,
    target: Array,
    total: Array,
    num_sweeps: Array,
    keys: PRNGKeyArray,
    backward: Array,
) -> Float[Array, " rows"]:
    """logaddexp of `total` and log T(target <- z) over the next `num_sweeps` states z of the chain
    of each row."""

    def body(i, carry):
        chains, total = carry
        chains = walk.sweep(chains, gibbs_choice(fold_in_each(keys, i), chains), backward=backward)
        new_total = jnp.logaddexp(total, log_transition(walk, chains, target))
        return chains, jnp.where(i < num_sweeps, new_total, total)

    return jax.lax.fori_loop(0, jnp.max(num_sweeps), body, (chains, total))[1]


def log_transition(
    walk: Walk, chains: Chains, target: Int[Array, "rows tokens"]
) -> Float[Array, " rows"]:
    """log T(target <- chains): the log probability that the tokens draw their topics in `target`,
    one token after the other."""

    def visit(i, carry):
        chains, log_prob = carry
        weights = walk.weights(chains, i)
        topic = target[:, i]
        index = jnp.minimum(topic, weights.shape[1] - 1)  # K for padding
        weight = jnp.take_along_axis(weights, index[:, None], axis=1)[:, 0]
        term = jnp.log(weight / jnp.sum(weights, axis=1))
        log_prob = log_prob + jnp.where(i < walk.lengths, term, 0.0)
        return walk.visit(chains, i, lambda *_: topic), log_prob

    zeros = jnp.zeros(walk.lengths.shape, walk.alpha.dtype)
    return jax.lax.fori_loop(0, jnp.max(walk.lengths), visit, (chains, zeros))[1]


def log_joint(walk: Walk, chains: Chains) -> Float[Array, " rows"]:
    """log p(w, z) with theta integrated out, and with the word probabilities of the walk."""
    alpha, total = walk.alpha, jnp.sum(walk.alpha)
    num_topics = alpha.shape[0]
    prior = jnp.sum(gammaln(alpha + chains.counts) - gammaln(alpha), axis=1)
    prior += gammaln(total) - gammaln(total + walk.lengths)
    index = jnp.minimum(chains.z, num_topics - 1)
    likelihood = jnp.take_along_axis(walk.likelihood, index[..., None], axis=2)[..., 0]
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

    By the chain rule log p(w) = sum_n log p(w_n | w_<n). Each factor is an average over particles
    of sum_k p(z_n = k | z_<n) topics_k[w_n], where z_<n is a draw given w_<n. Before each factor a
    Gibbs sweep redraws the earlier topics of every particle (Wallach et al. 2009, algorithm 3);
    after it the particles are resampled in proportion to their factors. The paper does not
    resample. With resampling this is a particle filter: exp(estimate) is unbiased for p(w) with any
    number of particles, and the estimate itself is too low by about half its variance.

    A document of N tokens takes N^2 / 2 redraws of a topic per particle.

    Args:
      topics, alpha, documents: as for `document_completion`.
      key: fixes the order of the tokens and the draws.
      num_particles: number of particles; more particles lower the variance.
      resample_every: redraw the earlier topics only before every token of this interval. This is as
        many times faster, and still unbiased, but has a larger variance.

    Returns:
      A `Score` as `chib` returns.

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
        weights = jnp.sum((walk.alpha + chains.counts) * walk.word_probs(n), axis=-1)
        factor = weights / (jnp.sum(walk.alpha) + n)
        log_prob += jnp.where(n < tokens.lengths, jnp.log(jnp.mean(factor, axis=1)), 0.0)
        particles = survivors(factor, fold_in_each(tokens.keys, 2 * n + 1))[:, :, None]
        chains = Chains(*(jnp.take_along_axis(x, particles, axis=1) for x in chains))
        return walk.visit(chains, n, draw), log_prob

    start = walk.start((num_rows, num_particles)), jnp.zeros(num_rows, walk.alpha.dtype)
    _, log_prob = jax.lax.fori_loop(0, jnp.max(tokens.lengths), body, start)
    return log_prob + log_scales(topics, tokens)


def survivors(
    weights: Float[Array, "rows particles"], keys: PRNGKeyArray
) -> Int[Array, "rows particles"]:
    """Systematic resampling: indices of particles in proportion to their weights, each as often as
    expected, up to one. There is one key for each row."""
    num_particles = weights.shape[1]
    cumulative = jnp.cumsum(weights, axis=1)
    offset = jax.vmap(lambda key: jax.random.uniform(key, (1,), weights.dtype))(keys)
    points = (jnp.arange(num_particles) + offset) / num_particles * cumulative[:, -1:]
    index = jnp.sum(cumulative[:, None, :] <= points[:, :, None], axis=2)
    return jnp.minimum(index, num_particles - 1)
