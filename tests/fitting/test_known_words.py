"""A fit knows the words (items) that it was made of: other documents are read by their names, or
refused."""

import pickle
import warnings

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.data import Corpus, TextSettings, prepare, read, synthetic
from vijax.data.known_words import are_same, read_over_words, vocabulary_mark

V = 12
WORDS = tuple(f"w{i:02}" for i in range(V))
KEY = jax.random.key(0)
COUNTS = (
    synthetic.lda_corpus(num_documents=24, num_topics=2, vocab_size=V, seed=0)[0]
    .to_scipy()
    .toarray()
)
CORPUS = Corpus.from_counts(COUNTS, WORDS)
ORDER = np.random.default_rng(1).permutation(V)
MOVED = Corpus.from_counts(COUNTS[:, ORDER], [WORDS[i] for i in ORDER])
OTHERS = Corpus.from_counts(COUNTS, [f"x{i}" for i in range(V)])
PARTLY = Corpus.from_counts(COUNTS, (*WORDS[:-1], "new"))
MODELS = {
    "lda": lambda: vi.svi(vi.models.lda(2, V)),
    "hdp": lambda: vi.svi(vi.models.hdp(3, V)),
    "ctm": lambda: vi.em(vi.models.ctm(2, V)),
    "simple_mixture": lambda: vi.cavi(vi.models.simple_mixture(2, V)),
    "hpf": lambda: vi.cavi(vi.models.hpf(2, V)),
}


@pytest.fixture(scope="module")
def fits():
    made = {}

    def of(name):
        if name not in made:
            made[name] = vi.fit(MODELS[name](), CORPUS, num_steps=5, key=KEY)
        return made[name]

    return of


@pytest.mark.parametrize("name", ["lda", "hdp", "ctm", "simple_mixture"])
def test_topics_of_documents_do_not_hang_on_the_order_of_words(name, fits):
    fit = fits(name)
    assert fit.vocabulary == WORDS
    expected = fit.transform(CORPUS, key=KEY)
    np.testing.assert_array_equal(fit.transform(MOVED, key=KEY), expected)
    np.testing.assert_array_equal(
        fit.transform(COUNTS, key=KEY), expected
    )  # counts without words are in the order
    if "score" in fit.alg.spec.model.queries:
        assert fit.score(MOVED, key=KEY).mean == fit.score(CORPUS, key=KEY).mean
    with pytest.raises(ValueError, match=naming("vocabulary:", "x0, x1", "w00", "To mend it")):
        fit.transform(OTHERS, key=KEY)
    with pytest.warns(
        UserWarning,
        match=r"documents: [\d,]+ of [\d,]+ counts are of words that the fit does not know",
    ):
        fit.transform(PARTLY, key=KEY)


def test_a_wider_corpus_is_read_by_its_words(fits):
    wide = Corpus.from_counts(np.hstack([np.ones((24, 3), int), COUNTS]), ("a", "b", "c", *WORDS))
    with pytest.warns(UserWarning, match="documents: 72 of "):
        found = fits("lda").transform(wide, key=KEY)
    np.testing.assert_array_equal(found, fits("lda").transform(CORPUS, key=KEY))


def test_recommendations_and_rankings_do_not_hang_on_the_order_of_items(fits):
    fit = fits("hpf")
    expected = vi.models.recommend(fit, CORPUS, 3)
    found = vi.models.recommend(fit, MOVED, 3)
    np.testing.assert_array_equal(found.items, expected.items)
    np.testing.assert_array_equal(fit.predict(MOVED), fit.predict(CORPUS))
    assert fit.score(MOVED, key=KEY).mean == fit.score(CORPUS, key=KEY).mean
    table = {"user": ["a", "a", "b"], "item": [WORDS[3], WORDS[7], WORDS[0]]}
    by_hand = np.zeros((2, V), int)
    by_hand[[0, 0, 1], [3, 7, 0]] = 1
    np.testing.assert_array_equal(fit.predict(table), fit.predict(by_hand))
    with pytest.warns(
        UserWarning, match="users: .* counts are of items that the fit does not know"
    ):
        vi.models.recommend(fit, PARTLY, 3)


def test_replicated_data_are_of_the_words_of_the_fit(fits):
    fit = fits("lda")
    same = [fit.predictive(KEY, 3, corpus, groups="same") for corpus in (CORPUS, MOVED)]
    np.testing.assert_array_equal(*same)
    checks = [
        vi.evaluate.predictive_check(
            fit, lambda y: y[:, 0].sum(), corpus, key=KEY, num_draws=5
        ).observed
        for corpus in (CORPUS, MOVED)
    ]
    assert checks[0] == checks[1] == COUNTS[:, 0].sum()


def test_a_state_goes_on_with_its_own_words_alone(fits, tmp_path):
    fit = fits("lda")
    go_on = lambda state, data: vi.fit(MODELS["lda"](), data, state=state, num_steps=6, key=KEY)
    again = go_on(fit.state, Corpus.from_counts(COUNTS[::-1], WORDS))
    assert again.vocabulary == WORDS
    for other in (OTHERS, MOVED):
        with pytest.raises(ValueError, match=naming("state:", "words", "fit.in_words")):
            go_on(fit.state, other)
    assert go_on(fit.state, fit.in_words(MOVED)).vocabulary == WORDS
    go_on(fit.state, COUNTS)  # counts without words
    path = vi.checkpoint.save(tmp_path, 5, fit.state)
    with pytest.raises(ValueError, match=naming("state:", "words", "fit.in_words")):
        go_on(vi.checkpoint.load(path, fit.state).tree, OTHERS)


def test_the_mark_of_an_earlier_release_is_known(fits):
    """Their states hold 128 bits of the data, and nothing of the words."""
    from vijax.data.loader import as_loader
    from vijax.fitting.fingerprint import mark

    alg = MODELS["lda"]()
    now = mark(as_loader(CORPUS, alg.spec.model, None, 0), alg.spec, {})
    assert now.matches(now.data)
    assert not now.is_of_other_words(now.data)
    assert not np.array_equal(now.numbers, now.data)
    other = mark(as_loader(OTHERS, alg.spec.model, None, 0), alg.spec, {})
    assert other.is_of_other_words(now.numbers)
    assert not other.is_of_other_words(now.data)


def test_words_are_kept_by_pickle(fits):
    fit = pickle.loads(pickle.dumps(fits("lda")))
    assert fit.vocabulary == WORDS
    np.testing.assert_array_equal(
        fit.transform(MOVED, key=KEY), fits("lda").transform(CORPUS, key=KEY)
    )


def test_topics_are_named_by_the_words_of_the_fit(fits):
    fit = fits("lda")
    assert fit.topics(num_words=4) == fit.topics(WORDS, 4)
    assert fit.topics([word.upper() for word in WORDS], 1)[0][0].startswith("W")
    with pytest.raises(
        ValueError,
        match=naming("vocabulary:", "another order"),
    ):
        fit.topics(MOVED.vocabulary)
    without = vi.fit(MODELS["lda"](), COUNTS, num_steps=1, key=KEY)
    assert without.vocabulary is None
    with pytest.raises(ValueError, match=naming("vocabulary:", "words")):
        without.topics()


def test_new_texts_are_counted_over_the_words_of_the_fit():
    texts = ["cat dog cat mouse", "stock bond market", "dog mouse cat", "bond stock rise"] * 5
    corpus = read(texts, text=TextSettings(min_df=1, max_df=1.0))
    fit = vi.fit(vi.svi(vi.models.lda(2, corpus.vocab_size)), corpus, num_steps=3, key=KEY)
    found = fit.transform(["market bond", "a zebra, a cat"], key=KEY)
    expected = fit.transform(read(["market bond", "cat"], vocabulary=corpus.vocabulary), key=KEY)
    np.testing.assert_array_equal(found, expected)


def test_a_stream_has_one_vocabulary():
    alg = vi.svi(vi.models.lda(2, V))
    fit = vi.fit(alg, vi.data.stream([CORPUS, CORPUS], shuffled=True), num_steps=2, key=KEY)
    assert fit.vocabulary == WORDS
    with pytest.raises(
        ValueError,
        match=r"batch of step 1: expected the words of the batches before, in their order",
    ):
        vi.fit(alg, vi.data.stream([CORPUS, MOVED], shuffled=True), num_steps=2, key=KEY)


def test_the_words_of_shards_are_known(tmp_path):
    pytest.importorskip("pyarrow")
    texts = [" ".join(np.repeat(WORDS, row)) for row in COUNTS]
    settings = TextSettings(min_df=1, max_df=1.0, token_pattern=r"\S+", stop_words=None)
    folder = prepare(
        [(str(i), text) for i, text in enumerate(texts)], tmp_path / "shards", text=settings
    )
    shards = vi.data.shards(folder)
    fit = vi.fit(
        vi.svi(vi.models.lda(2, shards.vocab_size)), shards, num_steps=2, batch_size=8, key=KEY
    )
    assert fit.vocabulary == shards.vocabulary
    np.testing.assert_array_equal(fit.transform(MOVED, key=KEY), fit.transform(CORPUS, key=KEY))


def test_places_by_hash_are_the_same_whatever_their_names(tmp_path):
    pytest.importorskip("pyarrow")
    settings = TextSettings(min_df=1, max_df=1.0, stop_words=None)
    made = [
        read(
            prepare(enumerate_as_pairs(texts), tmp_path / name, vocabulary="hash:64", text=settings)
        )
        for name, texts in (
            ("one", ["cat dog mouse", "dog"]),
            ("two", ["zebra cat", "lion tiger cat"]),
        )
    ]
    one, two = made
    assert one.vocabulary != two.vocabulary
    assert are_same(one.vocabulary, two.vocabulary)
    assert vocabulary_mark(one.vocabulary) == vocabulary_mark(two.vocabulary)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_over_words(two, one.vocabulary) is two
    assert not are_same(WORDS * 2, one.vocabulary)


def enumerate_as_pairs(texts):
    return [(str(i), text) for i, text in enumerate(texts)]


# --- topics with covariates -----------------------------------------------------------------------
@pytest.fixture(scope="module")
def structural():
    pytest.importorskip("formulae")
    table = {"day": np.arange(24.0)}
    model = vi.stm(2, CORPUS, table, "~ day", eta=0.1)
    return model, vi.fit(vi.cavi(model), model.data, num_steps=3, key=KEY), table


def test_topics_with_covariates_know_their_words(structural):
    model, fit, table = structural
    described = model.described(CORPUS, table)
    moved = vi.data.with_vocabulary(described, MOVED.vocabulary)
    np.testing.assert_allclose(fit.transform(moved, key=KEY), fit.transform(described, key=KEY))
    assert fit.vocabulary == WORDS
    other = vi.data.Corpus.from_counts(COUNTS, OTHERS.vocabulary, covariates=described.covariates)
    with pytest.raises(ValueError, match="expected some word in common"):
        vi.fit(vi.cavi(model), other, num_steps=1, key=KEY)
    with pytest.raises(ValueError, match="expected some word in common"):
        model.find_thoughts(fit, key=KEY, corpus=other)
    strange = vi.stm(2, OTHERS, table, "~ day", eta=0.1)
    for ask in (strange.effects, strange.coefficients, strange.find_thoughts):
        with pytest.raises(
            ValueError,
            match="fit: expected a fit of this model, over its words, got one over others",
        ):
            ask(fit, key=KEY)
    with pytest.raises(ValueError, match="fit: expected a fit of this model, over its words"):
        strange.words(fit)


def test_effects_of_other_documents_want_their_table(structural):
    model, fit, _ = structural
    later = {"day": np.arange(100.0, 124.0)}
    other = model.described(CORPUS, later)
    with pytest.raises(ValueError, match=naming("table:", "table=table")):
        model.effects(fit, key=KEY, corpus=other, num_draws=4)
    found = model.effects(fit, key=KEY, corpus=other, table=later, num_draws=4)
    assert found.labels == ("Intercept", "day")


def test_topics_that_grow_know_their_words():
    fit = vi.grow(
        lambda k: vi.models.hdp(k, V), CORPUS, key=KEY, slots=4, most=4, patience=1, laps_each=3
    )
    assert fit.vocabulary == WORDS
    with pytest.raises(ValueError, match=naming("state:", "words", "fit.in_words")):
        vi.fit(fit.alg, OTHERS, state=fit.state, num_steps=1, key=KEY)


KNOWN = ("river", "mountain", "forest", "meadow")
TEXTS = [f"{a} {b} {a}" for a in KNOWN for b in KNOWN]


def test_texts_of_which_the_fit_knows_no_word_are_said():
    """A text of other words had the shares that the prior has, without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_over_words(TEXTS, KNOWN)
    with pytest.warns(
        UserWarning,
        match=naming("documents:", "1 of 17"),
    ):
        read_over_words([*TEXTS, "entirely different matters"], KNOWN)


def test_texts_of_which_the_fit_knows_less_than_half_are_said():
    mixed = [f"{word} entirely different matters" for word in KNOWN]
    with pytest.warns(
        UserWarning,
        match=naming("documents:", "12", "16 words"),
    ):
        read_over_words(mixed, KNOWN)
