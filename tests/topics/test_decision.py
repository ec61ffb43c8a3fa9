"""Steps by words where they pay: what is decided, from which data, and how many programs such a fit
compiles."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.programs import compiled, names_since
from vijax.data.loader import as_loader
from vijax.families import Dirichlet
from vijax.families.discrete.by_word import DirichletByWord
from vijax.topics.decision import choose_steps, is_by_words
from vijax.topics.own_words import OwnWordsLoader

KEY = jax.random.key(0)
K, V = 70, 1000


def corpus(num_words=V, long=()):
    """128 documents of three words each, but for those of many."""
    rng = np.random.default_rng(0)
    counts = np.zeros((128, num_words), int)
    for row in counts:
        row[rng.choice(num_words, 3, replace=False)] = 1
    for d, length in long:
        counts[d, :length] = 1
    return vi.data.Corpus.from_counts(counts)


def lda(num_words=V, num_topics=K, **more):
    return vi.models.lda(num_topics, num_words, **more)


def decided(alg, data=None, batch_size=16, state=None):
    return choose_steps(
        alg,
        as_loader(corpus() if data is None else data, alg.spec.model, batch_size, 0, None, 0),
        state,
    )


@pytest.mark.parametrize(
    ("make", "by_words"),
    [
        (lambda: vi.svi(lda()), True),
        (lambda: vi.ssvi_a(lda()), True),
        (lambda: vi.warm(vi.svi(lda())), True),
        (lambda: vi.svi(lda(), learn=("alpha",)), True),
        (lambda: vi.topics.by_words(vi.svi(lda())), True),
        (lambda: vi.topics.all_words(vi.svi(lda())), False),
        (lambda: vi.svi(lda(), learn=("eta",)), False),
        (lambda: vi.averaged(vi.svi(lda()), 3), False),
        (lambda: vi.ssvi(lda()), False),
        (lambda: vi.compose(lda(), step_size=vi.step_size.robbins_monro()), False),
        (
            lambda: vi.svi(lda(num_topics=60)),
            False,
        ),  # 60,000 numbers: a step would be spared next to nothing
    ],
)
def test_rows_that_allow_it_are_taken_by_words(make, by_words):
    assert is_by_words(decided(make())) is by_words


def test_batches_of_many_words_are_taken_dense():
    alg = vi.svi(lda(num_topics=100))
    some = vi.data.Corpus.from_counts(
        (np.random.default_rng(0).random((128, V)) < 0.06).astype(int)
    )
    assert not is_by_words(decided(alg, some, batch_size=16))  # of 630 words
    assert is_by_words(decided(alg, some, batch_size=4))  # of 220
    assert not is_by_words(decided(alg, batch_size=128))  # all data at once


def test_the_users_cadence_of_the_penalty_is_kept():
    algorithms = vi.svi(lda()), vi.svi(lda(), penalty_every=3), vi.svi(lda(), learn=("alpha",))
    for alg, expected in zip(algorithms, (None, 3, None), strict=True):
        for by_words in (decided(alg), vi.topics.by_words(alg)):
            assert by_words.wrappers[-1].penalty_every == expected
    assert vi.topics.by_words(algorithms[1], penalty_every=4).wrappers[-1].penalty_every == 4


def test_all_words_of_a_model_without_words_is_the_algorithm_itself():
    alg = vi.svi(vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1)))
    assert vi.topics.all_words(alg) is alg
    with pytest.raises(ValueError, match="alg: expected an algorithm such as"):
        vi.topics.all_words(alg.spec.model)


def test_a_fit_decides_as_if_it_had_been_asked_for():
    usual, asked, dense = (
        vi.fit(alg, corpus(), batch_size=16, num_steps=3, key=KEY)
        for alg in (
            vi.svi(lda()),
            vi.topics.by_words(vi.svi(lda())),
            vi.topics.all_words(vi.svi(lda())),
        )
    )
    assert isinstance(usual.state.posterior["topics"], DirichletByWord)
    assert isinstance(dense.state.posterior["topics"], Dirichlet)
    assert repr(usual).startswith("Fit by svi, by_words: ")
    np.testing.assert_array_equal(
        usual.posterior["topics"].concentration, asked.posterior["topics"].concentration
    )
    np.testing.assert_allclose(
        usual.posterior["topics"].concentration, dense.posterior["topics"].concentration, rtol=1e-4
    )


def test_a_fit_that_goes_on_keeps_the_form_of_its_state():
    """Whatever its data, so that a run in parts is a run in one."""
    alg = vi.svi(lda())
    begun = vi.fit(alg, corpus(), batch_size=16, num_steps=2, key=KEY)
    assert is_by_words(decided(alg, batch_size=128, state=begun.state))
    on = vi.fit(alg, corpus(), batch_size=16, num_steps=4, key=KEY, state=begun.state)
    once = vi.fit(alg, corpus(), batch_size=16, num_steps=4, key=KEY)
    np.testing.assert_array_equal(
        on.posterior["topics"].concentration, once.posterior["topics"].concentration
    )
    assert not is_by_words(decided(alg, state=alg.init(KEY)))
    together = vi.fit(
        alg, corpus(), batch_size=16, num_steps=2, key=KEY, restarts=2, callbacks=[keep := Keep()]
    )
    assert is_by_words(together.alg)
    assert is_by_words(decided(alg, batch_size=128, state=keep.whole))


class Keep:
    """Keeps the whole state of the last call."""

    def __call__(self, progress):
        self.whole = jax.tree.map(jax.numpy.copy, progress.whole)


def test_a_fit_by_words_compiles_two_programs_at_most():
    """Documents of 200, 300, 400 and 500 words among short ones: batches of five numbers of
    words."""
    some = corpus(V, long=[(7, 200), (50, 300), (90, 400), (120, 500)])
    loader = OwnWordsLoader(as_loader(some, lda(), 4, 0, None, 0), V)
    own = [len(batch.data.words) for batch in loader.batches(0, 64)]
    counts = [np.sum(batch.data.words < V) for batch in loader.batches(0, 64)]
    assert len({int(n) // 50 for n in counts}) == 5
    assert len(set(own)) <= 2
    assert all(n <= size for n, size in zip(counts, own, strict=True))
    before = compiled()
    vi.fit(vi.svi(lda(num_topics=71)), some, batch_size=4, num_steps=64, key=KEY)
    assert 1 <= names_since(before).count("_chunk") <= 2


def test_the_shape_is_found_from_a_part_of_the_first_pass():
    """No batch of a hundred passes has more words, though few were looked at."""
    rng = np.random.default_rng(1)
    some = vi.data.Corpus.from_counts((rng.random((400, 300)) < 0.02).astype(int))
    loader = OwnWordsLoader(as_loader(some, lda(300), 10, 0, None, 0), 300)
    most = max(np.sum(batch.data.words < 300) for batch in loader.batches(0, 4000))
    assert len(loader.count_words()) <= 16
    assert most <= loader.size <= most + 32
