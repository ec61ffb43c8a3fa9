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


def test_lift_and_scores_by_hand():
    topics = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    shares = np.array([0.25, 0.75])
    overall = 0.25 * topics[0] + 0.75 * topics[1]
    np.testing.assert_allclose(vi.evaluate.lift(topics, shares), topics / overall, rtol=1e-6)
    for k, v in np.ndindex(topics.shape):
        other = np.log(topics[1 - k, v] + 1e-5)
        log = np.log(topics[k, v] + 1e-5)
        want = topics[k, v] * (log - 0.5 * (log + other))
        np.testing.assert_allclose(vi.evaluate.word_scores(topics)[k, v], want, rtol=1e-5)
    with pytest.raises(ValueError, match="shares: expected one share"):
        vi.evaluate.lift(topics, [0.5, 0.3, 0.2])
    with pytest.raises(ValueError, match="shares"):
        vi.evaluate.lift(topics, [0.0, 0.0])


TEXTS = [
    ["sun", "sea", "wind", "sun", "boat", "law"],
    ["tax", "law", "court", "tax", "law", "vote", "sea"],
    ["boat"],
    ["wind", "sea", "boat", "sun", "vote", "vote", "tax"],
    ["court", "law", "vote"],
]
WORDS = ["sun", "sea", "wind", "boat", "law", "tax", "court", "vote"]
BY_HAND = np.array([[8, 7, 6, 5, 1, 1, 1, 1], [1, 1, 1, 1, 8, 7, 6, 5], [8, 1, 1, 1, 7, 6, 1, 5]])


# CoherenceModel of gensim 4.4.0 with topn=4, coherence="c_v", of these texts and leading words
GENSIM = {
    3: (0.7817073955, 0.7411999767, 0.3760294923),
    110: (0.9269876545, 0.7874729298, 0.5715965951),
}


@pytest.mark.parametrize("window", [3, 110])
def test_c_v_is_that_of_gensim(window):
    topics = BY_HAND / BY_HAND.sum(1, keepdims=True)
    values = vi.evaluate.c_v(topics, TEXTS, vocabulary=WORDS, num_words=4, window=window)
    np.testing.assert_allclose(values.per_topic, GENSIM[window], atol=1e-6)
    if window > max(map(len, TEXTS)):
        counts = [[text.count(word) for word in WORDS] for text in TEXTS]
        bags = vi.evaluate.c_v(topics, vi.data.Corpus.from_counts(counts), num_words=4)
        np.testing.assert_allclose(bags.per_topic, values.per_topic, rtol=1e-9)


def test_c_v_refuses_what_it_cannot_count():
    topics = BY_HAND / BY_HAND.sum(1, keepdims=True)
    with pytest.raises(ValueError, match="vocabulary: expected 8 words"):
        vi.evaluate.c_v(topics, TEXTS, vocabulary=WORDS[:5], num_words=4)
    with pytest.raises(ValueError, match="lists of words"):
        vi.evaluate.c_v(topics, ["sun sea"], vocabulary=WORDS, num_words=4)
    with pytest.raises(ValueError, match="documents"):
        vi.evaluate.c_v(topics, [], vocabulary=WORDS, num_words=4)
