import numpy as np
import pytest
import scipy.sparse

from tests.naming import naming
from vijax.data.corpora.corpus import Corpus

COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 4, 0, 1]])
WORDS = ["a", "b", "c", "d"]


def random_counts(seed=0, shape=(40, 15)):
    return np.random.default_rng(seed).poisson(0.4, shape)


@pytest.mark.parametrize(
    "kind", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_array, np.float64]
)
def test_from_counts_keeps_the_matrix(kind):
    corpus = Corpus.from_counts(kind(COUNTS), WORDS)
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), COUNTS)
    assert (corpus.num_documents, corpus.vocab_size, corpus.num_tokens) == (3, 4, 8)
    assert corpus.tokens.tolist() == [3, 0, 5]
    assert corpus.word_counts().tolist() == COUNTS.sum(0).tolist()


def test_duplicate_entries_are_summed_and_zeros_dropped():
    matrix = scipy.sparse.coo_matrix(([1, 2, 0], ([0, 0, 0], [1, 1, 2])), shape=(1, 3))
    corpus = Corpus.from_counts(matrix)
    assert corpus.indices.tolist() == [1]
    assert corpus.counts.tolist() == [3]


def test_empty_documents_are_kept_and_noted():
    corpus = Corpus.from_counts(COUNTS)
    assert corpus.notes == (
        "1 of 3 documents are empty: they are kept, and say nothing about the topics.",
    )
    assert corpus[[0, 2]].notes == ()


@pytest.mark.parametrize("rows", [slice(1, None), [2, 0, 2], np.array([True, False, True]), 2])
def test_rows_are_those_of_the_matrix(rows):
    corpus = Corpus.from_counts(COUNTS, WORDS, titles=["x", "y", "z"])[rows]
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), np.atleast_2d(COUNTS[rows]))
    assert corpus.titles == tuple(np.atleast_1d(np.array(["x", "y", "z"])[rows]))


def test_split_is_a_partition_and_repeats():
    corpus = Corpus.from_counts(random_counts(), titles=[str(i) for i in range(40)])
    train, test = corpus.split(held_out=0.25, seed=3)
    assert (len(train), len(test)) == (30, 10)
    assert sorted((*train.titles, *test.titles), key=int) == [str(i) for i in range(40)]
    assert corpus.split(held_out=10, seed=3)[1].titles == test.titles
    assert corpus.split(held_out=10, seed=4)[1].titles != test.titles


@pytest.mark.parametrize("held_out", [0.0, 1.0, 40, 0, 1.5])
def test_split_refuses_an_empty_part(held_out):
    with pytest.raises(ValueError, match=naming("held_out:", "40 documents")):
        Corpus.from_counts(random_counts()).split(held_out=held_out)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1.0, -2.0]], "the negative count -2.0"),
        ([[1.5, 2.0]], "the fractional count 1.5"),
        ([[np.nan, 2.0]], "the not finite value nan"),
        ([[np.inf, 2.0]], "the not finite value inf"),
        ([["a", "b"]], "dtype <U1"),
        ([[2.0**40]], "the count"),
        ([1, 2, 3], r"a matrix \(documents, words\), got shape \(3,\)"),
        (np.zeros((0, 3)), "one document or more, got none"),
        (np.zeros((2, 3)), "documents with words, got 2 empty documents"),
    ],
)
def test_bad_counts(counts, message):
    with pytest.raises(ValueError, match=message) as error:
        Corpus.from_counts(counts)
    assert "To mend it: " in str(error.value)


def test_bad_sparse_counts():
    with pytest.raises(ValueError, match=naming("counts:", "0", "-1")):
        Corpus.from_counts(scipy.sparse.csr_matrix([[1, -1]]))


def test_vocabulary_of_wrong_length():
    with pytest.raises(ValueError, match=naming("vocabulary:", "4 words", "3 words")):
        Corpus.from_counts(COUNTS, WORDS[:3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"indices": [0, 4, 1]},
            "word ids from 0 to 3, the vocabulary having 4 words, got word id 4",
        ),
        ({"indices": [0, -1, 1]}, "got word id -1"),
        ({"indptr": [0, 3, 2]}, "indptr: expected offsets"),
        ({"indptr": [0, 1]}, "indptr: expected offsets"),
        ({"counts": [1, 1]}, "counts: expected 3 of them"),
    ],
)
def test_arrays_that_make_no_corpus(change, message):
    fields = {"indptr": [0, 2, 3], "indices": [0, 1, 1], "counts": [1, 1, 1], "vocabulary": WORDS}
    Corpus(**fields)
    with pytest.raises(ValueError, match=message):
        Corpus(**fields | change)
