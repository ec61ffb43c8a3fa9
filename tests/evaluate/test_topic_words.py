"""Words of topics, and topics of words, against loops and known topics."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment

import vijax as vi
from vijax.data import Corpus, synthetic
from vijax.topics.anchors import _candidates, _convex_weights

RNG = np.random.default_rng(0)
TOPICS = RNG.dirichlet(np.full(12, 0.5), 3)
COUNTS = RNG.poisson(0.6, (40, 12))


def test_frex_is_the_harmonic_mean_of_ranks():
    exclusive = TOPICS / TOPICS.sum(0)
    for k in range(3):
        for v in range(12):
            ranks = [np.mean(x[k] <= x[k, v]) for x in (exclusive, TOPICS)]
            want = 1 / (0.3 / ranks[0] + 0.7 / ranks[1])
            np.testing.assert_allclose(vi.evaluate.frex(TOPICS, 0.3)[k, v], want, rtol=1e-6)


def test_semantic_coherence_is_a_sum_over_pairs():
    found = vi.evaluate.semantic_coherence(
        TOPICS, Corpus.from_counts(COUNTS), num_words=4
    ).per_topic
    has = COUNTS > 0
    for k in range(3):
        top = np.argsort(-TOPICS[k])[:4]
        each = [
            np.log(((has[:, v] & has[:, w]).sum() + 1) / has[:, w].sum())
            for i, v in enumerate(top)
            for w in top[:i]
        ]
        np.testing.assert_allclose(found[k], np.mean(each), rtol=1e-12)


def test_exclusive_topics_are_exclusive():
    alone = np.kron(np.eye(3), np.arange(1.0, 5.0) / 10)
    assert vi.evaluate.exclusivity(alone, num_words=4).mean > 0.9
    assert (
        vi.evaluate.exclusivity(TOPICS, num_words=4).mean
        < vi.evaluate.exclusivity(alone, num_words=4).mean
    )


def test_convex_weights_are_those_of_points_of_the_hull():
    corners, weights = RNG.normal(size=(3, 20)), RNG.dirichlet(np.ones(3), 50)
    np.testing.assert_allclose(_convex_weights(weights @ corners, corners), weights, atol=1e-4)


def test_anchor_words_find_the_topics():
    """Within .2 in L1 of three topics; topics at random are 1.0 away."""
    corpus, truth = synthetic.lda_corpus(num_documents=500, num_topics=3, vocab_size=50, seed=0)
    found = vi.topics.anchor_words(corpus, 3)
    gaps = np.abs(found.topics[:, None] - np.asarray(truth.topics)[None]).sum(-1)
    assert gaps[linear_sum_assignment(gaps)].mean() < 0.2
    np.testing.assert_allclose(found.topics.sum(1), 1.0)
    np.testing.assert_allclose(found.shares.sum(), 1.0)


@pytest.mark.parametrize(("docs", "least"), [(3000, 150), (1500, 150), (500, 50)])
def test_anchors_occur_in_150_documents_or_a_tenth_of_them(docs, least):
    """Word v is in 2 v documents."""
    counts = sparse.csr_matrix(np.arange(docs)[:, None] < 2 * np.arange(120))
    np.testing.assert_array_equal(_candidates(counts, 3), np.arange(least // 2, 120))


def test_few_frequent_words_leave_ten_anchors_a_topic():
    counts = sparse.csr_matrix(np.arange(500)[:, None] < np.arange(60)[None])
    np.testing.assert_array_equal(_candidates(counts, 3), np.arange(30, 60))
