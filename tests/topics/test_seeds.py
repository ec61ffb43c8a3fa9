"""Seed words: the topics that they are for are found under their numbers."""

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.data import Corpus
from vijax.topics import seeded

KINDS = ("apple", "brick", "cloud")
VOCABULARY = tuple(f"{kind}{i}" for kind in KINDS for i in range(6))


def corpus():
    """Documents of one of three kinds of words each."""
    counts = np.zeros((60, 18), int)
    for d, row in enumerate(counts):
        k = d % 3
        row[6 * k : 6 * k + 6] = np.random.default_rng(d).poisson(2.0, 6) + 1
    return Corpus.from_counts(counts, VOCABULARY)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_topics_hold_their_seed_words(order):
    """One word of each kind is enough to say which topic is of which kind."""
    eta = seeded([[f"{KINDS[k]}0"] for k in order], VOCABULARY, 3, weight=20)
    fit = vi.fit(vi.cavi(vi.models.lda(3, 18, eta=eta)), corpus(), num_steps=20, key=jax.random.key(0))
    probs = np.asarray(fit.posterior["topics"].mean()).reshape(3, 3, 6).sum(-1)
    assert probs.argmax(1).tolist() == list(order)
    assert probs.max(1).min() > 0.9


def test_a_word_that_is_not_there_is_refused_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"seeds: expected words of the vocabulary, got 1 others: 'apple9' \(there is 'a"
    ):
        seeded([["apple1", "apple9"]], VOCABULARY, 2)
    with pytest.raises(ValueError, match="seeds: expected at most 1 lists"):
        seeded([["apple1"], ["apple2"]], VOCABULARY, 1)


def test_concentrations_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"eta: expected a scalar, shape \(18,\) or \(3, 18\), got"):
        vi.models.lda(3, 18, eta=np.ones((2, 18)))
