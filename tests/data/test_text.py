import collections

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from tests.naming import naming
from vijax.data.texts import text
from vijax.data.texts.text import TextSettings, corpus_from_texts

WORDS = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "theta",
    "kappa",
    "lambda",
    "sigma",
    "upsilon",
    "omega",
)
EVERYTHING = TextSettings(min_df=1, max_df=1.0, max_vocabulary=None, stop_words=None)


def random_texts(number=60, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(len(WORDS), 0.3))
    return [" ".join(rng.choice(WORDS, rng.integers(1, 30), p=weights)) for _ in range(number)]


def make(texts, **arguments):
    return corpus_from_texts(((str(n), t) for n, t in enumerate(texts)), **arguments)


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("block", [7, 1024])
def test_counts_are_scikit_learns(tmp_path, monkeypatch, on_disk, block):
    monkeypatch.setattr(text, "BLOCK_DOCUMENTS", block)
    texts = random_texts()
    corpus = make(texts, settings=EVERYTHING, folder=tmp_path / "corpus" if on_disk else None)
    expected = CountVectorizer(token_pattern=r"[^\W\d_]{3,}")
    np.testing.assert_array_equal(
        corpus.to_scipy().toarray(), expected.fit_transform(texts).toarray()
    )
    assert corpus.vocabulary == tuple(expected.get_feature_names_out())
    assert isinstance(corpus.counts, np.memmap) == on_disk
    assert tuple(corpus.titles) == tuple(str(n) for n in range(60))
    assert corpus.texts[3] == texts[3][:300]
    assert not on_disk or not list((tmp_path / "corpus").glob("counting-*"))


@pytest.mark.parametrize(
    "settings", [{"min_df": 20}, {"min_df": 0.3}, {"max_df": 30}, {"max_df": 0.4}]
)
def test_limits_on_documents_are_scikit_learns(settings):
    texts = random_texts()
    corpus = make(texts, settings=TextSettings(**{"min_df": 1, "max_df": 1.0} | settings))
    expected = CountVectorizer(**settings).fit(texts)
    assert corpus.vocabulary == tuple(expected.get_feature_names_out())
    assert 0 < corpus.vocab_size < len(WORDS)


def test_most_frequent_words_are_kept():
    texts = random_texts()
    corpus = make(texts, settings=TextSettings(max_df=1.0, max_vocabulary=4))
    common = collections.Counter(" ".join(texts).split()).most_common(4)
    assert corpus.vocabulary == tuple(sorted(word for word, _ in common))


def test_default_minimum_suits_small_and_large_collections():
    rare = ["common words", *["common thing"] * 99]
    assert "words" in make(rare, settings=TextSettings(max_df=1.0)).vocabulary
    assert (
        "words"
        not in make(rare * 4 + ["common thing"] * 200, settings=TextSettings(max_df=1.0)).vocabulary
    )
    assert "words" in make(rare * 5, settings=TextSettings(max_df=1.0)).vocabulary


def test_words_and_stop_words_by_default():
    corpus = make(["The cat's 42 toys: we don't like Ärger, NumPy2 or it"])
    assert corpus.vocabulary == ("cat", "like", "numpy", "toys", "ärger")


def test_own_stop_words_are_tokenised_as_the_text_is():
    settings = TextSettings(stop_words=["Don't", "cat"])
    assert make(["A cat: don't sit", "sit down"], settings=settings).vocabulary == ("down", "sit")


def test_stop_words_of_another_language():
    settings = TextSettings(stop_words="german")
    assert make(["Der Hund und die Katze", "eine Katze"], settings=settings).vocabulary == (
        "hund",
        "katze",
    )


def test_stop_words_of_a_file(tmp_path):
    path = tmp_path / "stop.txt"
    path.write_text("the\n\nCat\n", encoding="utf-8")
    for named in (path, str(path)):
        assert make(["The cat sat"], settings=TextSettings(stop_words=named)).vocabulary == ("sat",)
    path.write_bytes("Ärger".encode("latin-1"))
    with pytest.raises(ValueError, match=naming("stop.txt:", "UTF")):
        make(["The cat sat"], settings=TextSettings(stop_words=path))
    path.write_text("\n")
    with pytest.raises(ValueError, match=naming("stop_words:", "stop.txt")):
        make(["The cat sat"], settings=TextSettings(stop_words=path))


def test_phrases_are_of_neighbours_without_stop_words():
    settings = TextSettings(ngrams=3, min_df=1, max_df=1.0)
    corpus = make(["New York of the Times", "york new"], settings=settings)
    assert corpus.vocabulary == (
        "new",
        "new york",
        "new york times",
        "times",
        "york",
        "york new",
        "york times",
    )
    assert corpus.to_scipy().toarray().tolist() == [[1, 1, 1, 1, 1, 0, 1], [1, 0, 0, 0, 1, 1, 0]]


def test_phrases_of_a_fixed_vocabulary_are_counted_unasked():
    corpus = make(["new york new york", "old york"], vocabulary=["new york", "york"])
    assert corpus.to_scipy().toarray().tolist() == [[2, 2], [0, 1]]


def test_case_can_matter():
    assert make(["Bath bath"], settings=TextSettings(lowercase=False)).vocabulary == (
        "Bath",
        "bath",
    )


def test_fixed_vocabulary_keeps_its_order():
    corpus = make(["beta alpha beta unknown", "other"], vocabulary=["beta", "new", "alpha"])
    assert corpus.to_scipy().toarray().tolist() == [[2, 0, 1], [0, 0, 0]]
    assert "1 of 2 documents are empty" in corpus.notes[-1]


@pytest.mark.parametrize(
    ("texts", "settings", "message"),
    [
        ([], {}, "expected one document or more, got none"),
        (
            ["the of and", "42"],
            {},
            "texts: expected documents with words, got 2 empty documents.*token_pattern=",
        ),
        (["one two", None], {}, r"texts, 1: expected text, got None \(NoneType\)"),
        (
            ["some words"],
            {"min_df": 3},
            "min_df, max_df: expected some word in 3 to 10 of the 1 documents, got none of 1",
        ),
        (
            ["words"],
            {"stop_words": "klingon"},
            "stop_words: expected a language, a file of words, a list of words or None, got "
            "'klingon'.*known.*german",
        ),
        (["words"], {"ngrams": 0}, "ngrams: expected a whole number from 1 to 5, got 0"),
        (["words"], {"ngrams": 2.0}, "ngrams: expected a whole number from 1 to 5, got 2.0"),
        (
            ["words"],
            {"min_df": -1},
            "min_df: expected a whole number of 1 or more, or a fraction such as 0.5, got -1",
        ),
        (["words"], {"max_df": 1.5}, "max_df: expected"),
        (
            ["words"],
            {"max_vocabulary": 0},
            "max_vocabulary: expected a whole number of 1 or more, got 0",
        ),
        (["words"], {"token_pattern": "(unclosed"}, "token_pattern: expected a regular expression"),
    ],
)
def test_bad_texts_and_settings(texts, settings, message):
    with pytest.raises(ValueError, match=message):
        make(texts, settings=TextSettings(**settings))


def test_no_word_in_common_with_the_vocabulary():
    with pytest.raises(ValueError, match="expected some word in common with the corpus, got alpha"):
        make(["alpha beta"], vocabulary=["x", "y"])
