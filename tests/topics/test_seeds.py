"""Seed words: the topics that they are for are found under their numbers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.data import Corpus
from vijax.topics import seeded
from vijax.topics.seeds import seed_documents

KINDS, WORDS = ("apple", "brick", "cloud", "delta"), 15
VOCABULARY = tuple(f"{kind}{i}" for kind in KINDS for i in range(WORDS))
SIZE = len(VOCABULARY)
QUICK = vi.estep.proximal_gradient(
    vi.expectation.vector_monte_carlo(16, antithetic=True), max_iters=15
)
ORDERS = [(0, 1, 2, 3), (2, 0, 3, 1), (3, 2, 1, 0)]


def corpus(evenness, docs=200, length=60):
    """Documents of four topics with words of their own; at 0.5 most have words of two or three."""
    rng = np.random.default_rng(0)
    topics = np.full((4, SIZE), 0.002)
    for k, row in enumerate(topics):
        row[WORDS * k : WORDS * (k + 1)] += rng.dirichlet(np.full(WORDS, 3.0))
    topics /= topics.sum(1, keepdims=True)
    shares = rng.dirichlet(np.full(4, evenness), docs)
    return Corpus.from_counts(
        np.array([rng.multinomial(length, share @ topics) for share in shares]), VOCABULARY
    )


CORPUS = corpus(0.5)


def eta_of(order):
    """Two seed words for each kind in the order."""
    return seeded([[f"{KINDS[k]}0", f"{KINDS[k]}1"] for k in order], VOCABULARY, 4)


def of_name(name, eta, corpus):
    """A model and its data; "anchors" and "documents" are stm by its starts."""
    if name == "lda":
        return vi.models.lda(4, SIZE, eta=eta), corpus
    if name == "ctm":
        return vi.models.ctm(4, SIZE, eta=eta, estep=QUICK, num_samples=16), corpus
    table = {"party": np.repeat(["L", "R"], corpus.num_documents // 2)}
    start, content = ("anchors", "party") if name == "content" else (name, None)
    model = vi.stm(
        4,
        corpus,
        table,
        "~ party",
        content=content,
        eta=eta,
        start=start,
        estep=QUICK,
        num_samples=16,
    )
    return model, model.data


def own_share(posterior, order, top=10):
    """Of the first words of each topic, the share that is of the kind which its seed words are
    of."""
    first = np.argsort(-np.asarray(posterior["topics"].concentration), 1)[: len(order), :top]
    return np.mean(first // WORDS == np.array(order)[:, None], 1)


@pytest.mark.parametrize(
    ("name", "order"),
    [*itertools.product(["lda", "ctm", "documents", "anchors"], ORDERS), ("content", ORDERS[1])],
)
def test_topics_hold_their_seed_words(name, order):
    """Without the seed words' part in the start, ctm and stm found the orders of their starts:
    shares of 0 to .5."""
    model, data = of_name(name, eta_of(order), CORPUS)
    fit = vi.fit(vi.cavi(model), data, num_steps=10, key=jax.random.key(0))
    assert own_share(fit.posterior, order).min() > 0.9


@pytest.mark.parametrize("name", ["ctm", "anchors"])
@pytest.mark.parametrize("order", [order[:2] for order in ORDERS])
def test_topics_without_seed_words_take_what_is_left(name, order):
    """Of documents of several topics each."""
    model, data = of_name(name, eta_of(order), CORPUS)
    fit = vi.fit(vi.cavi(model), data, num_steps=10, key=jax.random.key(0))
    assert own_share(fit.posterior, order).min() > 0.9


COUNTS = np.array(
    [[5, 0, 3, 0], [0, 4, 0, 3], [1, 1, 4, 4], [0, 0, 3, 5], [0, 0, 0, 0]], np.float32
)
WIDE = vi.Documents(
    jnp.tile(jnp.arange(4), (5, 1)), jnp.asarray(COUNTS), jnp.array([1.0, 1, 1, 1, 0]), 10
)
NARROW = vi.Documents(jnp.array([[0, 2], [1, 3]]), jnp.array([[8.0, 1], [1, 1]]), jnp.ones(2), 10)
FREQUENCIES = jnp.asarray(COUNTS.sum(0)) + jnp.array([8.0, 1, 1, 1])


def drawn(seeds, number, key=0):
    found = jax.jit(
        lambda key: seed_documents(jnp.asarray(seeds), (WIDE, NARROW), FREQUENCIES, number, key)
    )
    return [np.asarray(x).tolist() for x in found(jax.random.key(key))]


def test_topics_draw_documents_that_have_their_seed_words():
    """Of two lengths: rows 0 to 4, the last one padding, and 5 to 6."""
    (first, second), weights = drawn([[50.0, 0, 0, 0], [0, 50.0, 0, 0]], 2)
    assert sorted(first) == [0, 5]
    assert set(second) <= {1, 6}
    assert weights == [[1, 1], [1, 1]]


def test_topics_without_seed_words_draw_documents_with_few():
    """In proportion to exp of minus the standard deviations by which these have more than words
    drawn from all."""
    counts = np.concatenate([COUNTS[:4, :2].sum(1), [9 - 1, 2 - 1]])
    tokens = np.concatenate([COUNTS[:4].sum(1), [9, 2]])
    chance = float(FREQUENCIES[:2].sum() / FREQUENCIES.sum())
    more = (counts - tokens * chance) / np.sqrt(tokens * chance * (1 - chance))
    likely = np.exp(-np.maximum(more, 0))
    seeds = jnp.array([[50.0, 50.0, 0, 0], [0] * 4, [0] * 4])
    draw = lambda key: seed_documents(seeds, (WIDE, NARROW), FREQUENCIES, 1, key)[0]
    rows = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), 4000)))[..., 0]
    assert set(rows[:, 0]) == {5}
    for k in (1, 2):
        shares = np.bincount(rows[:, k], minlength=7) / len(rows)
        assert shares[4] == 0  # padding
        np.testing.assert_allclose(np.delete(shares, 4), likely / likely.sum(), atol=0.02)


@pytest.mark.parametrize(
    ("seeds", "number"),
    [
        (
            [[50.0, 0, 0, 0], [0, 50.0, 0, 0]],
            2,
        ),  # of word 1 documents 1 and 6, of word 0 documents 0 and 5
        ([[50.0, 0, 0, 0], [50.0, 0, 0, 0]], 0),  # none speaks for one of two that are alike
        ([[50.0, 50.0, 50.0, 50.0]] * 2, 0),  # each word is a seed word
    ],
)
def test_topics_draw_no_more_documents_than_speak_for_them(seeds, number):
    _, weights = drawn(seeds, 5)
    assert [sum(row) for row in weights] == [number, number]


@pytest.mark.parametrize("order", ORDERS)
def test_seed_words_of_lda_decide_without_a_prior(order):
    """By maximum likelihood, from where they have topics begin; it was the order of the noise."""
    fit = vi.fit(
        vi.em(vi.models.lda(4, SIZE, eta=eta_of(order))),
        CORPUS,
        num_steps=30,
        key=jax.random.key(0),
    )
    assert own_share(fit.posterior, order).min() > 0.9


@pytest.mark.parametrize("name", ["ctm", "documents", "anchors"])
def test_without_a_prior_seed_words_still_say_where_topics_begin(name):
    model, data = of_name(name, eta_of(ORDERS[2]), CORPUS)
    alg, batch = vi.em(model), vi.data.full_batch(data, 1)[0]
    start = jax.jit(lambda key: alg.init(key, batch))(jax.random.key(0)).posterior
    assert own_share(start, ORDERS[2]).min() > 0.7


@pytest.mark.parametrize("name", ["ctm", "anchors"])
def test_seed_words_that_no_document_has_break_nothing(name):
    """The topic begins without documents of its own, and still holds its words; the others begin at
    theirs."""
    held = np.isin(np.arange(SIZE), (0, 1))
    rare = Corpus.from_counts(np.where(held, 0, CORPUS.to_scipy().toarray()), VOCABULARY)
    model, data = of_name(name, eta_of((0, 3)), rare)
    alg, batch = (
        vi.cavi(model),
        vi.data.full_batch(data, 1)[0],
    )  # in NumPy, of which a program is made
    start = jax.jit(lambda key: alg.init(key, batch))(jax.random.key(0)).posterior
    assert own_share(start, (0, 3))[1] > 0.9
    concentration = np.asarray(start["topics"].concentration)
    assert np.all(np.isfinite(concentration))
    np.testing.assert_array_equal(concentration[:, held].argmax(0), 0)


def test_a_word_that_is_not_there_is_refused_with_the_nearest():
    with pytest.raises(
        ValueError,
        match=naming("seeds:", "1", "'apple99'"),
    ):
        seeded([["apple1", "apple99"]], VOCABULARY, 2)
    with pytest.raises(ValueError, match="seeds: expected at most 1 lists"):
        seeded([["apple1"], ["apple2"]], VOCABULARY, 1)


def test_concentrations_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=naming("eta:", "60", "4")):
        vi.models.lda(4, SIZE, eta=np.ones((2, SIZE)))
