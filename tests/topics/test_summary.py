"""Topics for reading, against SciPy and by hand."""

import tracemalloc
from unittest import mock

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon, pdist, squareform

from vijax.families import Dirichlet
from vijax.topics import summary
from vijax.topics.summary import (
    Document,
    layout,
    summarise,
    topic_distances,
    topics_text,
    typical_rows,
)
from vijax.topics.top_words import _find_top, top_words


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_topics_are_sorted_by_size_and_words_by_probability():
    concentration = np.array([[1.0, 2.0, 1.0], [30.0, 10.0, 20.0]])
    documents = [[], [Document("a", "text", 0.9)]]
    first, second = summarise(
        concentration, ["sun", "sea", "sky"], num_words=2, documents=documents
    )
    assert (first.number, first.words, first.documents[0].title) == (1, ("sun", "sky"), "a")
    np.testing.assert_allclose(first.probabilities, [0.5, 1 / 3])
    np.testing.assert_allclose([first.share, second.share], [60 / 64, 4 / 64])
    assert topics_text([first], num_words=1) == "   1   93.8%  sun"
    assert summarise(concentration, None)[0].words == ("word0", "word2", "word1")


def test_distances_are_jensen_shannon_in_bits():
    probs = np.random.default_rng(0).dirichlet(np.full(50, 0.1), 6)
    expected = [[jensenshannon(p, q, base=2) for q in probs] for p in probs]
    np.testing.assert_allclose(topic_distances(probs), np.nan_to_num(expected), atol=2e-6)


@pytest.mark.parametrize("turn", [0.0, 0.7])
def test_a_flat_arrangement_is_laid_out_as_it_is(turn):
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.5], [0.2, 0.9], [0.5, 0.4]])
    points = points @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    wanted, found = pdist(points), pdist(layout(squareform(pdist(points))))
    np.testing.assert_allclose(found / found.mean(), wanted / wanted.mean(), rtol=1e-3)


@pytest.mark.parametrize("number", [1, 2, 3, 40])
def test_equal_and_equidistant_topics_get_finite_places_inside_the_square(number):
    for distances in (np.zeros((number, number)), 1.0 - np.eye(number)):
        places = layout(distances)
        assert np.isfinite(places).all()
        assert np.abs(places).max() <= 1.0 + 1e-9
    if number > 1:
        assert pdist(places).min() > 0.05  # equidistant ones do not fall on one spot


def test_typical_documents_have_most_of_the_topic_and_are_not_tiny():
    proportions = np.array([[0.9, 0.1], [0.99, 0.01], [0.2, 0.8], [0.5, 0.5]])
    lengths = np.array([100.0, 3.0, 80.0, 120.0])
    assert typical_rows(proportions, lengths, per_topic=2) == [[0, 3], [2, 3]]


def test_words_of_topics_are_sorted_by_one_program():
    topics = Dirichlet.from_concentration(np.array([[1.0, 2.0, 1.5], [30.0, 10.0, 20.0]]))
    top_words(topics, 2)
    count = _find_top._cache_size()
    ids, probabilities = top_words(topics, 2)
    assert _find_top._cache_size() == count
    np.testing.assert_array_equal(ids, [[1, 2], [0, 2]])
    np.testing.assert_allclose(probabilities, [[2 / 4.5, 1.5 / 4.5], [0.5, 1 / 3]], rtol=1e-6)


# --- very many topics -----------------------------------------------------------------------------
def test_leading_words_are_those_of_a_sort_of_all_words(rng):
    """Of equal scores the first words lead, in blocks of any size."""
    table = rng.integers(1, 5, (40, 30)).astype(np.float32)
    expected = np.argsort(-table / table.sum(1, keepdims=True), axis=1, kind="stable")[:, :7]
    with mock.patch.object(summary, "BLOCK", 100):
        topics = summarise(table, None, num_words=7)
    for topic in topics:
        assert topic.words == tuple(f"word{i}" for i in expected[topic.number])
    shares = table.sum(1) / table.sum()
    np.testing.assert_allclose([t.share for t in topics], np.sort(shares)[::-1], rtol=1e-6)


def test_the_map_of_many_topics_is_the_scaling_of_their_hellinger_distances(rng):
    """Against the singular value decomposition of all square roots."""
    centres = rng.dirichlet(np.full(50, 0.3), 3)
    probs = np.array([rng.dirichlet(200 * c + 0.1) for c in centres[rng.integers(0, 3, 60)]])
    with mock.patch.object(summary, "MAPPED", 10), mock.patch.object(summary, "BLOCK", 333):
        topics = summarise(9 * probs, None)
    points = np.array([t.position for t in sorted(topics, key=lambda t: t.number)])
    roots = np.sqrt(probs) - np.sqrt(probs).mean(0)
    left, sizes, _ = np.linalg.svd(roots, full_matrices=False)
    expected = left[:, :2] * sizes[:2]
    ratio = pdist(points) / pdist(expected)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-3)
    assert np.abs(points).max() == pytest.approx(1)


def test_a_summary_of_many_topics_takes_the_memory_of_a_block(rng):
    table = rng.gamma(0.3, size=(1200, 4000)).astype(np.float32) + 0.01
    with mock.patch.object(summary, "BLOCK", 2**16):
        tracemalloc.start()
        topics = summarise(table, None, num_words=5)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(topics) == 1200
    assert peak < 0.35 * table.nbytes
