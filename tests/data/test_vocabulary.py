import numpy as np
import pytest

from tests.naming import naming
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.select import select_words, with_vocabulary

COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 4, 0, 1]])
WORDS = ["a", "b", "c", "d"]


def test_select_words_takes_columns_in_order():
    corpus = select_words(
        Corpus.from_counts(COUNTS, WORDS, titles=["x", "y", "z"]), np.array([3, 0])
    )
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), COUNTS[:, [3, 0]])
    assert corpus.vocabulary == ("d", "a")
    assert corpus.titles == ("x", "y", "z")


def test_with_vocabulary_drops_and_counts_other_words():
    corpus = with_vocabulary(Corpus.from_counts(COUNTS, WORDS), ["d", "new", "a"])
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), [[0, 0, 2], [0, 0, 0], [1, 0, 0]])
    assert corpus.notes[-1].startswith("5 of 8 tokens are of words that are not in the vocabulary")


def test_words_unseen_in_training_go():
    train, test = Corpus.from_counts([[1, 0, 2]]), Corpus.from_counts([[1, 1, 0]])
    kept = np.flatnonzero(train.word_counts())
    np.testing.assert_array_equal(select_words(test, kept).to_scipy().toarray(), [[1, 0]])


def test_vocabularies_with_nothing_in_common():
    with pytest.raises(
        ValueError, match=r"some word in common with the corpus, got a, b, c, d, \.\.\. against x"
    ):
        with_vocabulary(Corpus.from_counts(COUNTS, WORDS), ["x"])
    with pytest.raises(ValueError, match=naming("corpus.vocabulary:", "None")):
        with_vocabulary(Corpus.from_counts(COUNTS), ["x"])
