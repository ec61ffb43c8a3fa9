"""Scores of documents are by what a document holds: neither its place, nor the order of its words,
nor who else is scored counts."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.sparse

from vijax.data import Corpus
from vijax.evaluate import chib, document_completion, gaussian_completion, left_to_right
from vijax.evaluate.ranking import hide
from vijax.evaluate.token_order import token_order
from vijax.models.structural.completion import halves

KEY = jax.random.key(3)
RNG = np.random.default_rng(0)
TOPICS = RNG.dirichlet(np.full(12, 0.3), 3) + 1e-3
TOPICS /= TOPICS.sum(axis=1, keepdims=True)
COUNTS = RNG.poisson(1.5, (9, 12))
COUNTS[4] = COUNTS[0]  # the same document twice
PLACES = RNG.permutation(9)
SCORES = {
    "completion": lambda corpus: document_completion(
        TOPICS, 0.3, corpus, KEY, num_sweeps=5, burn_in=5
    ),
    "gaussian": lambda corpus: gaussian_completion(
        TOPICS, np.zeros(3), np.eye(3), corpus, KEY, num_samples=16
    ),
    "chib": lambda corpus: chib(TOPICS, 0.3, corpus, KEY, num_samples=5, burn_in=2),
    "left to right": lambda corpus: left_to_right(TOPICS, 0.3, corpus, KEY, num_particles=3),
}


def with_words_backwards(corpus):
    """The same documents, whose words lie in another order."""
    within = np.concatenate(
        [np.arange(a, b)[::-1] for a, b in zip(corpus.indptr, corpus.indptr[1:], strict=False)]
    )
    return dataclasses.replace(corpus, indices=corpus.indices[within], counts=corpus.counts[within])


@pytest.mark.parametrize("name", SCORES)
def test_a_document_has_its_score_at_any_place_and_with_its_words_in_any_order(name):
    score, corpus = SCORES[name], Corpus.from_counts(COUNTS)
    each = score(corpus).log_probs
    np.testing.assert_allclose(score(with_words_backwards(corpus)).log_probs, each, rtol=1e-6)
    moved = score(Corpus.from_counts(COUNTS[PLACES])).log_probs
    others = [place for place, document in enumerate(PLACES) if document not in (0, 4)]
    np.testing.assert_allclose(moved[others], each[PLACES[others]], rtol=1e-6)
    equal = [place for place, document in enumerate(PLACES) if document in (0, 4)]
    np.testing.assert_allclose(
        moved[equal], each[[0, 4]], rtol=1e-6
    )  # in the order in which they come


def test_a_document_alone_is_cut_as_among_others():
    corpus = Corpus.from_counts(COUNTS)
    among = [part.to_scipy().toarray() for part in halves(corpus, KEY)]
    for row in (1, 8):
        alone = [
            part.to_scipy().toarray()[0]
            for part in halves(Corpus.from_counts(COUNTS[row : row + 1]), KEY)
        ]
        np.testing.assert_array_equal(alone, [part[row] for part in among])
    backwards = [part.to_scipy().toarray() for part in halves(with_words_backwards(corpus), KEY)]
    np.testing.assert_array_equal(backwards, among)


def test_what_is_hidden_of_a_user_goes_by_what_the_user_took():
    matrix = scipy.sparse.csr_array(COUNTS)
    among = [part.toarray() for part in hide(matrix, 0.4, 1)]
    backwards = scipy.sparse.csr_array(COUNTS[::-1])
    apart = [1, 2, 3, 5, 6, 7, 8]
    for part, moved in zip(among, hide(backwards, 0.4, 1), strict=True):
        np.testing.assert_array_equal(moved.toarray()[::-1][apart], part[apart])
    np.testing.assert_array_equal(hide(matrix[[3]], 0.4, 1)[1].toarray()[0], among[1][3])
    assert not np.array_equal(hide(matrix, 0.4, 2)[1].toarray(), among[1])


def test_equal_documents_are_cut_by_themselves():
    """Else a document that stands ten times would count as one draw."""
    first, _ = halves(Corpus.from_counts(np.tile([3, 3, 3, 3], (50, 1))), KEY)
    assert len(np.unique(first.to_scipy().toarray(), axis=0)) > 10


def test_another_key_is_another_order():
    corpus = Corpus.from_counts(COUNTS)
    one, other = (token_order(corpus, jax.random.key(seed)).entries for seed in (0, 1))
    assert np.mean(one != other) > 0.5
    np.testing.assert_array_equal(np.sort(one), np.sort(other))


def test_an_order_of_documents_without_words_is_empty():
    found = token_order(Corpus.from_counts([[0, 0], [0, 2]]), KEY)
    assert found.entries.tolist() == [0, 0]
    assert len(found.codes) == 2
