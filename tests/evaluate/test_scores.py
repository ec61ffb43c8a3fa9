"""Standard errors, coherence, the unigram baseline, and the tokens of a corpus."""

import itertools

import jax
import numpy as np
import pytest

from tests.naming import naming
from tests.rounding import rounding
from vijax.data import Corpus
from vijax.evaluate import Coherence, Score, nmi, npmi, unigram_score
from vijax.evaluate.sampler import draw_index
from vijax.evaluate.token_order import token_order
from vijax.evaluate.tokens import token_rows


def test_standard_error_is_that_of_the_bootstrap():
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 50, 400)
    totals = sizes * rng.normal(-7, 1, 400)
    score = Score.of(totals, sizes)
    picks = rng.integers(0, 400, (4000, 400))
    bootstrap = totals[picks].sum(axis=1) / sizes[picks].sum(axis=1)
    assert score.mean == pytest.approx(totals.sum() / sizes.sum())
    assert score.standard_error == pytest.approx(bootstrap.std(), rel=0.05)
    assert score.perplexity == pytest.approx(np.exp(-score.mean))


def test_one_document_has_no_standard_error():
    assert Score.of([-8.0], [4]).standard_error == float("inf")


def test_standard_error_of_coherence_is_that_of_a_mean():
    values = np.random.default_rng(0).normal(size=30)
    assert Coherence.of(values).standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(30))


def loop_npmi(topics, counts, num_words):
    """NPMI by definition, a pair of words at a time."""
    occurs = counts > 0
    scores = []
    for topic in topics:
        pairs = []
        for v, w in itertools.combinations(np.argsort(-topic)[:num_words], 2):
            both = np.mean(occurs[:, v] & occurs[:, w])
            independent = occurs[:, v].mean() * occurs[:, w].mean()
            pairs.append(
                -1.0
                if both == 0
                else 1.0
                if both == 1
                else np.log(both / independent) / -np.log(both)
            )
        scores.append(np.mean(pairs))
    return np.array(scores)


def test_npmi_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.1), 6)
    counts = rng.poisson(0.3, (50, 40)) * (rng.random(40) < 0.9)
    counts[:, 3] = counts[:, 5] = 2  # in all documents
    topics[0, [3, 5]] = 0.6
    topics /= topics.sum(axis=1, keepdims=True)
    coherence = npmi(topics, Corpus.from_counts(counts), num_words=5)
    want = loop_npmi(topics, counts, 5)
    np.testing.assert_allclose(coherence.per_topic, want, rtol=1e-12, atol=rounding(want))
    assert coherence.mean == pytest.approx(coherence.per_topic.mean())


def test_nmi_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=300)
    found = np.where(rng.random(300) < 0.6, labels, rng.integers(7, size=300))
    got = nmi([f"kind {k}" for k in labels], found)
    assert got.mean == pytest.approx(metrics.normalized_mutual_info_score(labels, found))
    picks = rng.integers(300, size=(300, 300))
    spread = np.std([nmi(labels[pick], found[pick]).mean for pick in picks])
    assert got.standard_error == pytest.approx(spread, rel=0.3)
    assert nmi(["a", "a"], [1, 1]) == (1.0, 0.0)
    with pytest.raises(ValueError, match="found: expected 2 rows"):
        nmi(["a", "b"], [1])


def test_npmi_names_bad_input():
    corpus = Corpus.from_counts(np.eye(4, dtype=int))
    topics = np.full((2, 4), 0.25)
    with pytest.raises(ValueError, match="num_words: expected at most 4"):
        npmi(topics, corpus, num_words=5)
    with pytest.raises(ValueError, match="num_words: expected an integer >= 2"):
        npmi(topics, corpus, num_words=1)
    with pytest.raises(ValueError, match="topics: expected rows of probabilities"):
        npmi(2 * topics, corpus)
    with pytest.raises(ValueError, match=naming("documents:", "4 words")):
        npmi(topics, Corpus.from_counts([[1, 1, 1]]), num_words=2)


def test_unigram_score_is_the_cross_entropy():
    train, test = np.array([[3, 1, 0], [1, 0, 5]]), np.array([[1, 0, 2], [0, 0, 0], [2, 3, 0]])
    score = unigram_score(Corpus.from_counts(train), Corpus.from_counts(test))
    assert score.mean == pytest.approx(
        (test.sum(axis=0) * np.log(train.sum(axis=0) / 10)).sum() / 8
    )
    assert score.rows.tolist() == [0, 2]
    assert score.num_skipped == 1
    unseen = Corpus.from_counts([[1, 1, 0]]), Corpus.from_counts([[0, 0, 2]])
    with pytest.raises(ValueError, match=naming("test:", "word 2", "vijax.data.select_words")):
        unigram_score(*unseen)
    assert unigram_score(*unseen, smoothing=1.0).mean == pytest.approx(np.log(1 / 5))


def test_rows_hold_the_tokens_of_their_documents():
    counts = np.random.default_rng(0).poisson(0.5, (300, 20))
    corpus = Corpus.from_counts(counts)
    found = np.zeros_like(counts)
    for tokens, rows in token_rows(corpus, jax.random.key(0), elements_per_token=1 << 17):
        for words, length, row in zip(tokens.words, tokens.lengths, rows, strict=False):
            found[row] += np.bincount(words[:length], minlength=20)
    np.testing.assert_array_equal(found, counts)


def test_tokens_are_shuffled_evenly():
    corpus = Corpus.from_counts(np.tile([2, 1, 1], (6000, 1)))
    words = corpus.indices[token_order(corpus, jax.random.key(0)).entries].reshape(6000, 4)
    frequencies = (words[:, :, None] == np.arange(3)).mean(axis=0)
    np.testing.assert_allclose(frequencies, np.tile([0.5, 0.25, 0.25], (4, 1)), atol=0.04)


@pytest.mark.parametrize("num_topics", [1, 2, 3, 7, 10, 100, 101])
def test_index_is_drawn_in_proportion_to_the_weights(num_topics):
    """Against inversion of the plain cumulative sum in float64, at uniforms on a fine grid."""
    weights = np.random.default_rng(num_topics).gamma(0.3, size=num_topics) + 1e-6
    uniforms = (np.arange(10_000) + 0.5) / 10_000
    drawn = np.asarray(draw_index(np.broadcast_to(weights, (10_000, num_topics)), uniforms))
    exact = np.searchsorted(np.cumsum(weights), uniforms * weights.sum(), side="right")
    assert np.mean(drawn != exact) < 1e-3
    assert drawn.min() >= 0
    assert drawn.max() < num_topics
