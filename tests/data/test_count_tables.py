"""Tables of counts, a column for each word: they are read by their words, whatever the order of the
columns."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.data.corpora.count_tables import are_counts
from vijax.data.known_words import read_over_words

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
arrow = pytest.importorskip("pyarrow")

KEY = jax.random.key(0)
WORDS = ("text", "apple", "pear", "dog", "cat", "user")
COUNTS = np.random.default_rng(0).poisson(2.0, (20, 6))
MAKERS = {
    "pandas": pandas.DataFrame,
    "pandas, nullable": lambda columns: pandas.DataFrame(columns).convert_dtypes(),
    "pandas, floats": lambda columns: pandas.DataFrame(columns).astype(float),
    "pandas, sparse": lambda columns: pandas.DataFrame(columns).astype(
        pandas.SparseDtype("int64", 0)
    ),
    "polars": polars.DataFrame,
    "Arrow": arrow.table,
}


def table(kind, words):
    return MAKERS[kind]({word: COUNTS[:, WORDS.index(word)] for word in words})


@pytest.fixture(scope="module")
def fit():
    corpus = vi.data.Corpus.from_counts(COUNTS, WORDS)
    return vi.fit(vi.cavi(vi.models.lda(2, 6)), corpus, num_steps=5, key=KEY)


@pytest.mark.parametrize("kind", MAKERS)
def test_they_are_read_by_their_words(kind):
    for words in (WORDS, WORDS[::-1]):
        np.testing.assert_array_equal(
            read_over_words(table(kind, words), WORDS).to_scipy().toarray(), COUNTS
        )
    with pytest.warns(
        UserWarning, match=r"documents: .* counts are of words that the fit does not know"
    ):
        found = read_over_words(MAKERS[kind]({"plum": COUNTS[:, 0], "cat": COUNTS[:, 4]}), WORDS)
    np.testing.assert_array_equal(found.to_scipy().toarray()[:, 4], COUNTS[:, 4])


def test_a_fit_reads_them(fit):
    """A table of the words of a fit was a bare KeyError, or a column 'text' of numbers."""
    expected = fit.transform(vi.data.Corpus.from_counts(COUNTS, WORDS), key=KEY)
    for words in (WORDS, WORDS[::-1]):
        np.testing.assert_array_equal(fit.transform(table("pandas", words), key=KEY), expected)
    texts = pandas.DataFrame({"text": ["apple pear", "dog cat"], "year": [1, 2]})
    assert fit.transform(texts, key=KEY).shape == (2, 2)


def test_a_corpus_has_the_names_of_the_columns():
    made = pandas.DataFrame(COUNTS, [f"d{row}" for row in range(20)], columns=WORDS)
    corpus = vi.data.read(made)
    assert corpus.vocabulary == WORDS
    assert list(corpus.index) == list(made.index)
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), COUNTS)
    assert vi.data.read(pandas.DataFrame(COUNTS)).vocabulary is None
    assert vi.data.read(pandas.DataFrame(COUNTS), vocabulary=WORDS).vocabulary == WORDS


def test_other_tables_are_read_as_before():
    texts = pandas.DataFrame({"text": ["apple pear", "dog cat"], "year": [1, 2]})
    assert not are_counts(texts)
    assert not are_counts(pandas.DataFrame({"user": [1, 2], "item": [3, 4], "count": [1, 1]}))
    with pytest.raises(ValueError, match="the negative count -1"):
        vi.data.read(pandas.DataFrame({"apple": [1, -1], "pear": [0, 1]}))
    with pytest.raises(ValueError, match=r"a column 'text'.*a column of numbers for each word"):
        read_over_words(
            pandas.DataFrame({"name": ["a", "b"], "apple": [1, 0], "pear": [0, 1]}), WORDS
        )


def test_users_by_items_too():
    made = pandas.DataFrame(COUNTS, columns=WORDS)
    found = vi.fit(vi.cavi(vi.models.hpf(2, 6)), vi.data.read(made), num_steps=3, key=KEY)
    expected = vi.models.recommend(found, COUNTS, 2)
    np.testing.assert_array_equal(vi.models.recommend(found, made[list(WORDS[::-1])], 2), expected)


@pytest.mark.parametrize("first", [0, 1, 1234567])
def test_a_column_that_numbers_the_rows_is_no_word(first):
    pandas = pytest.importorskip("pandas")
    counts = np.random.default_rng(0).poisson(1.0, (8, 2))
    table = pandas.DataFrame(
        {"id": np.arange(first, first + 8), "cat": counts[:, 0], "dog": counts[:, 1]}
    )
    with pytest.raises(
        ValueError, match="a column of counts for each word, got 'id', which numbers the rows"
    ):
        vi.data.read(table)
    assert vi.data.read(table.drop(columns="id")).vocabulary == ("cat", "dog")


def test_a_fit_without_words_takes_numbered_columns_by_their_number():
    counts = pandas.DataFrame([[3, 0, 1], [0, 2, 5]])
    assert (
        read_over_words(counts[[2, 0, 1]], None).to_scipy().toarray().tolist()
        == counts.to_numpy().tolist()
    )
    named = counts.set_axis(["cat", "dog", "fox"], axis=1)
    with pytest.warns(
        UserWarning,
        match=naming("'cat'", "'dog'", "'fox'"),
    ):
        read_over_words(named, None)
