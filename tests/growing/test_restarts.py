"""Restarts of documents: against all starts by enumeration, and laps that never lose ground."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln

import vijax as vi
from tests.growing.test_grow_topics import bars, make
from vijax.growing import laps, restarts
from vijax.growing.present import begin, climb
from vijax.growing.task import prepare
from vijax.xla.precision import enable_x64

ALPHA, ROUNDS = 0.8, 300


# --- all starts of small documents ----------------------------------------------------------------
def slope(log_x: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.where(n < 1, log_x, digamma(np.exp(log_x) + np.maximum(n, 1)))


def ascended(phi: np.ndarray, counts: np.ndarray, log_x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The bound of documents after coordinate ascent on responsibilities, from words n of each
    topic: (..., K)."""
    for _ in range(ROUNDS):
        weights = phi * np.exp(slope(log_x, n))[..., None]
        resp = weights / weights.sum(-2, keepdims=True)
        n = (resp * counts).sum(-1)
    many = gammaln(np.exp(log_x) + np.maximum(n, 1)) - gammaln(1 + np.exp(log_x)) + log_x
    terms = resp * np.log(np.where(resp > 0, phi / np.maximum(resp, 1e-300), 1.0))
    whole = gammaln(ALPHA) - gammaln(ALPHA + counts.sum())
    return (terms.sum(-2) * counts).sum(-1) + np.where(n < 1, n * log_x, many).sum(-1) + whole


def test_the_best_of_all_starts_is_found() -> None:
    """Twelve documents of four words, four topics that overlap: each start that gives every word
    wholly to one topic is followed by NumPy. After as many turns as there are topics no document is
    below the best of these 256; from the even start alone some are."""
    rng, num_topics, vocab = np.random.default_rng(4), 4, 4
    counts = rng.integers(1, 9, size=(12, vocab))
    with enable_x64(True):
        model = vi.models.hdp(num_topics, vocab, alpha=ALPHA, eta=0.5)
        topics = vi.Dirichlet(jnp.asarray(rng.gamma(0.7, 6.0, size=(num_topics, vocab)) + 0.5))
        spec = vi.cavi(model, estep=vi.estep.mean_field(500, 1e-10)).spec
        prior = model.prior({name: jnp.asarray(x) for name, x in model.hyper.items()})
        q = prior.replace(
            {
                "topics": topics,
                "sticks": vi.Beta(jnp.array([6.0, 4, 3, 2]), jnp.array([9.0, 5, 3, 2])),
            }
        )
        make = lambda k: vi.models.hdp(k, vocab, alpha=ALPHA, eta=0.5)
        batches = prepare(make, vi.cavi, counts, 4, 4, 1)[0].batches
        batch = jax.tree.map(
            lambda x: x[0], batches._replace(local=restarts.first_words(model, batches))
        )
        stats, hyper = spec.point(q), {name: jnp.asarray(x) for name, x in model.hyper.items()}
        x = restarts.SharedNumbers.from_stats(hyper, stats).x
        turned = jax.jit(
            lambda b, turn: restarts.best_of_starts(spec, hyper, stats, b, jax.random.key(0), turn)
        )
        cold = jax.jit(lambda b: model.local_elbo(hyper, stats, b, jax.random.key(0), spec.estep))(
            batch._replace(local=None)
        )
        for turn in range(2 * num_topics):
            found = turned(batch, turn)
            batch = batch._replace(local=restarts.topic_words(found.local, x))
    phi, log_x = np.exp(np.asarray(stats["topics"].log)), np.log(np.asarray(x))
    in_order = lambda said, docs: np.concatenate(
        [np.asarray(b)[np.asarray(d.weights) > 0] for b, d in zip(said, docs, strict=True)]
    )
    rows = np.concatenate([_rows(docs, vocab) for docs in batch.data])
    assigned = np.eye(num_topics)[
        list(itertools.product(range(num_topics), repeat=vocab))
    ]  # (256, V, K)
    best = np.array(
        [ascended(phi, c, log_x, np.einsum("svk,v->sk", assigned, c)).max() for c in rows]
    )
    ours, usual = (in_order(said.per_group, batch.data) for said in (found, cold))
    assert np.all(ours > best - 1e-6)
    assert np.sum(usual < best - 0.01) >= 2


def _rows(docs: Any, vocab: int) -> np.ndarray:
    """Counts by word of the documents that are no padding."""
    table = np.zeros((len(docs.words), vocab))
    for row, words, counts in zip(
        table, np.asarray(docs.words), np.asarray(docs.counts), strict=True
    ):
        np.add.at(row, words, counts)
    return table[np.asarray(docs.weights) > 0]


# --- laps -----------------------------------------------------------------------------------------
def test_no_lap_lowers_the_bound() -> None:
    """Lap after lap, where the steps of the algorithm, whose documents begin anew, do lower it."""
    growth = begin(*prepare(make, vi.cavi, bars(0), 8, 8, 5), jax.random.key(0), 3)
    q, local, bounds = growth.posterior, growth.local, []
    for _ in range(30):
        lap = climb(growth, q, local, -np.inf, 1)
        q, local = lap.posterior, lap.local
        bounds.append(float(lap.elbo))
    assert np.all(np.diff(bounds) >= -laps.least_gain(bounds[-1]))
    assert bounds[-1] > bounds[0] + 10


def test_topics_are_left_out_by_turns() -> None:
    words = jnp.array([[7.0, 0.1, 3.0], [0.0, 9.0, 0.0], [0.0, 0.0, 0.0]])
    wanted = [[7, 0.1, 0], [0, 0, 0], [0, 0, 0]], [[0, 0.1, 3], [0, 0, 0], [0, 0, 0]]
    for turn, left in enumerate(wanted):
        np.testing.assert_allclose(restarts.drop_topic(words, turn), left)
        np.testing.assert_allclose(restarts.drop_topic(words, turn + 2), left)


def test_words_follow_the_slots() -> None:
    """A merge of slot 2 into slot 0, and a slot that is divided by 3 to 1."""
    from vijax.growing import documents

    words = (jnp.array([[4.0, 1.0, 2.0]]),)
    merged = documents.map_words(words, np.array([[1.0, 0, 1], [0, 1, 0], [0, 0, 0]]))
    np.testing.assert_allclose(merged[0], [[6, 1, 0]])
    divided = documents.map_words(
        words, np.array([[0.75, 0, 0], [0, 1, 0], [0, 0, 1], [0.25, 0, 0]])
    )
    np.testing.assert_allclose(divided[0], [[3, 1, 2, 1]])


@pytest.mark.slow
def test_a_growth_ends_above_restarts_that_are_told_the_number() -> None:
    fit = vi.grow(make, bars(0), key=jax.random.key(0), start=12)
    best = vi.fit(
        vi.cavi(make(6)), bars(0), restarts=5, num_steps=200, tol=1e-7, key=jax.random.key(0)
    )
    assert fit.trace["elbo"][-1] > best.elbo
