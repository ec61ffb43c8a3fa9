"""The chain behind effects of the structural topic model: a joint test (Geweke 2004), and a
conditional by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.families import Beta, Dirichlet, MatrixNormalWishart, Product
from vijax.models.structural import chain
from vijax.models.structural.group_words import word_table

DOCS, LENGTH, WORDS, TOPICS = 6, 5, 3, 2


def prior_of(groups):
    laws = {
        "topics": Dirichlet.from_concentration(jnp.asarray([[1.0, 2.0, 3.0], [2.0, 2.0, 1.0]])),
        "logits": MatrixNormalWishart.from_parameters(
            np.zeros((2, 2)), 2.0 * np.eye(2), 12.0, np.eye(2) / 12
        ),
    }
    if groups:
        laws["content"] = Dirichlet.from_concentration(jnp.asarray([[2.0, 1.0, 1.0]] * 4))
        laws["own"] = Beta.from_alpha_beta(np.full((2, 2), 2.0), np.full((2, 2), 3.0))
    return Product(laws)


def documents(groups, word):
    """Each word by itself; sites that are not those of the words, so that proposals are refused
    too."""
    of = jnp.repeat(jnp.arange(DOCS), LENGTH)[None]
    x = jnp.stack([jnp.ones(DOCS), jnp.linspace(-1.0, 1.0, DOCS)], 1)
    size = (DOCS, TOPICS)
    sites = chain.Sites(
        jnp.zeros(size), 0.3 * jnp.ones(size), jnp.broadcast_to(0.5 * jnp.eye(2), (*size, 2))
    )
    each = chain.Words(of, word, jnp.ones(of.shape))
    return chain.Documents(x, sites, each, each)


def drawn_z(stats, x, key):
    law = jnp.linalg.inv(stats["logits"].precision)
    mean = x @ stats["logits"].coefficients_times_precision @ law
    return mean + jax.random.normal(key, mean.shape) @ jnp.linalg.cholesky(law).T


def law_of_words(groups, stats, z):
    """Log probabilities of the words of each token, and the number of the first of them; with
    groups odd documents are of the second."""
    table = jnp.exp(word_table(groups, stats)).reshape(max(groups, 1), WORDS, TOPICS)
    group = jnp.arange(DOCS) % max(groups, 1)
    chance = jnp.einsum("dvk,dk->dv", table[group], jax.nn.softmax(z))
    of = jnp.repeat(jnp.arange(DOCS), LENGTH)
    return jnp.log(chance)[of], WORDS * group[of]


def drawn_words(groups, stats, z, key):
    """A word for each token, by the topics and shares."""
    logs, first = law_of_words(groups, stats, z)
    return (jax.random.categorical(key, logs) + first)[None]


def of_prior(groups, key):
    """A draw of the globals and z."""
    keys, prior = jax.random.split(key), prior_of(groups)
    stats = chain.drawn_stats(dict(prior.items()), keys[0])
    return stats, drawn_z(stats, documents(groups, jnp.zeros((1, DOCS * LENGTH), int)).x, keys[1])


def numbers_of(stats, z):
    """First and second moments of bounded functions of all that is drawn. (z has the tails of a t
    law, whose eighth moments, the errors of fourth ones, nearly do not exist.)"""
    found = [stats["logits"].precision[0] / 4, jnp.atleast_1d(stats["logits"].log_det)]
    found += [
        stats["logits"].coefficients_times_precision.ravel() / 2,
        z.mean(0),
        z[0],
        z[0] * z[-1],
    ]
    found = [jnp.tanh(x) for x in found] + [jnp.exp(stats["topics"].log[:, 0])]
    found += (
        [jnp.exp(stats["own"].log).ravel(), jnp.exp(stats["content"].log[:, 0])]
        if "own" in stats
        else []
    )
    found = jnp.concatenate(found)
    return jnp.concatenate([found, found**2])


@pytest.mark.parametrize("groups", [0, 2])
def test_sweeps_leave_the_joint_law_as_it_is(groups):
    """Words are drawn anew between sweeps: what is drawn then has its prior's moments. 6 standard
    errors of some 50 numbers, by batches: a false alarm in some 1e7."""
    prior = prior_of(groups)
    marginal = functools.partial(of_prior, groups)

    def turn(state, key):
        keys = jax.random.split(key)
        word = drawn_words(groups, *state, keys[0])
        stats, z, _ = chain.sweep(
            groups, prior, documents(groups, word), (*state, jnp.zeros(())), keys[1]
        )
        return (stats, z), numbers_of(stats, z)

    key = jax.random.split(jax.random.key(0), 4)
    wanted = jax.jit(jax.vmap(lambda k: numbers_of(*marginal(k))))(jax.random.split(key[0], 20_000))
    starts = jax.vmap(marginal)(jax.random.split(key[1], 50))
    run = jax.jit(
        jax.vmap(lambda start, k: jax.lax.scan(turn, start, jax.random.split(k, 1000))[1])
    )
    got = np.asarray(run(starts, jax.random.split(key[2], 50))).mean(1)
    error = np.sqrt(got.var(0, ddof=1) / len(got) + np.var(wanted, 0) / len(wanted))
    np.testing.assert_array_less(np.abs(got.mean(0) - wanted.mean(0)), 6 * error)


@pytest.mark.parametrize("groups", [0, 2])
def test_sweeps_leave_the_joint_law_with_the_words_as_it_is(groups):
    """From a draw of all, words too, ten sweeps at these words lead to another such draw: what both
    say differs by 0.

    The log probability of the words tells whether z and topics go together, which the test above
    does not see: where words' topics are drawn at the z of the sweep before, z is drawn from its
    law given topics of words summed out, and the words of topics from theirs given those topics,
    but the pair of both is not a draw of their law given the words (their topics know of the old z
    alone). It is then off by 9 standard errors."""
    prior = prior_of(groups)

    def told(word, state):
        logs, first = law_of_words(groups, *state)
        own = jnp.take_along_axis(logs, (word[0] - first)[:, None], 1)
        return jnp.append(numbers_of(*state), own.mean())

    def difference(key):
        keys = jax.random.split(key, 3)
        start = of_prior(groups, keys[0])
        word = drawn_words(groups, *start, keys[1])
        step = functools.partial(chain.sweep, groups, prior, documents(groups, word))
        at = lambda i, state: step(state, jax.random.fold_in(keys[2], i))
        end = jax.lax.fori_loop(0, 10, at, (*start, jnp.zeros(())))
        return told(word, end[:2]) - told(word, start)

    got = np.asarray(jax.jit(jax.vmap(difference))(jax.random.split(jax.random.key(0), 10_000)))
    np.testing.assert_array_less(np.abs(got.mean(0)), 6 * got.std(0) / np.sqrt(len(got)))


def test_coefficients_given_z_are_bayesian_regression():
    """Against the conjugate posterior by hand (Rowe 2003, section 8.4)."""
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(9, 2)), rng.normal(size=(9, 2))
    law = jax.jit(chain.given_z)(prior_of(0)["logits"], *map(jnp.asarray, (x, z)))
    strength = 2 * np.eye(2) + x.T @ x
    location = np.linalg.solve(strength, x.T @ z)
    rate = 12 * np.eye(2) + z.T @ z - location.T @ strength @ location
    read = jax.jit(lambda law: (law.strength, law.location, law.scale, law.degrees))
    wants = strength, location, np.linalg.inv(rate), 12 + 9
    for got, want in zip(read(law), wants, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
