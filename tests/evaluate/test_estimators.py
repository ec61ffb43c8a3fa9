"""Held-out estimators against exact enumeration, against each other, and in expectation."""

import itertools

import jax
import numpy as np
import pytest
from scipy.special import gammaln

from tests.naming import naming
from vijax.data import Corpus
from vijax.evaluate import chib, document_completion, left_to_right

TOPICS = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.6, 0.2], [0.25, 0.05, 0.1, 0.6]])
ALPHA = np.array([0.3, 0.7, 0.2])


def exact_log_prob(words, topics, alpha):
    """log of the sum of p(w, z) over all K^N assignments z."""
    num_topics = len(topics)
    logs = []
    for z in itertools.product(range(num_topics), repeat=len(words)):
        counts = np.bincount(z, minlength=num_topics)
        prior = (
            gammaln(alpha.sum())
            - gammaln(alpha.sum() + len(words))
            + (gammaln(alpha + counts) - gammaln(alpha)).sum()
        )
        logs.append(prior + np.log(topics[list(z), words]).sum())
    return np.logaddexp.reduce(logs)


def corpus_of(*documents, vocab_size=4):
    return Corpus.from_counts([np.bincount(words, minlength=vocab_size) for words in documents])


@pytest.fixture(scope="module")
def synthetic():
    """Topics and documents drawn from LDA, eight topics and sixty words."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.1), 8) + 1e-6
    topics /= topics.sum(axis=1, keepdims=True)
    shares = rng.dirichlet(np.full(8, 0.3), 40)
    return topics, Corpus.from_counts(
        [rng.multinomial(rng.integers(15, 45), theta @ topics) for theta in shares]
    )


@pytest.mark.parametrize("estimator", [left_to_right, chib])
@pytest.mark.parametrize("words", [[0, 3], [0, 0, 1, 3, 3, 2]])
def test_unbiased_for_the_exact_probability(estimator, words):
    """The mean of exp(estimate) is p(w), within 5 standard errors (false alarm: 6e-7 each)."""
    exact = exact_log_prob(words, TOPICS, ALPHA)
    copies = corpus_of(*[words] * 20_000)
    few = {"num_particles": 2} if estimator is left_to_right else {"num_samples": 3, "burn_in": 2}
    ratio = np.exp(estimator(TOPICS, ALPHA, copies, jax.random.key(1), **few).log_probs - exact)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(len(ratio)) + 1e-5


def test_left_to_right_stays_unbiased_when_it_redraws_rarely():
    words = [0, 0, 1, 3, 3, 2, 2]
    copies = corpus_of(*[words] * 20_000)
    score = left_to_right(
        TOPICS, ALPHA, copies, jax.random.key(2), num_particles=3, resample_every=3
    )
    ratio = np.exp(score.log_probs - exact_log_prob(words, TOPICS, ALPHA))
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(len(ratio)) + 1e-5


@pytest.mark.parametrize("estimator", [left_to_right, chib])
def test_converges_to_the_exact_probability(estimator):
    documents = [[0, 1, 1], [3, 3, 3, 2, 0], [2, 2, 1, 0, 3, 3, 1], [1]]
    exact = np.array([exact_log_prob(words, TOPICS, ALPHA) for words in documents])
    many = {"num_particles": 4000} if estimator is left_to_right else {"num_samples": 4000}
    score = estimator(TOPICS, ALPHA, corpus_of(*documents), jax.random.key(3), **many)
    np.testing.assert_allclose(score.log_probs, exact, atol=0.1)
    assert score.mean == pytest.approx(exact.sum() / 16, abs=0.005)


def test_left_to_right_and_chib_agree_on_true_topics(synthetic):
    """Within 0.02 nats per word; and worse topics, half uniform, score worse by all three
    measures."""
    topics, corpus = synthetic
    ltr = left_to_right(topics, 0.3, corpus, jax.random.key(4), num_particles=20)
    other = chib(topics, 0.3, corpus, jax.random.key(5), num_samples=200)
    assert abs(ltr.mean - other.mean) < 0.02
    assert ltr.standard_error == pytest.approx(other.standard_error, rel=0.2)
    worse = 0.5 * topics + 0.5 / 60
    assert (
        left_to_right(worse, 0.3, corpus, jax.random.key(4), num_particles=20).mean < ltr.mean - 0.1
    )
    assert chib(worse, 0.3, corpus, jax.random.key(5), num_samples=200).mean < other.mean - 0.1


def test_completion_depends_on_topics_and_key_alone(synthetic):
    topics, corpus = synthetic
    score = lambda topics, seed: document_completion(topics, 0.3, corpus, jax.random.key(seed)).mean
    assert score(topics, 1) == score(topics, 1) != score(topics, 2)
    assert score(0.5 * topics + 0.5 / 60, 1) < score(topics, 1) - 0.1


def test_completion_is_exact_for_two_tokens():
    """Given one token, E[theta_k | w] = (alpha_k + p(z = k | w)) / (1 + sum alpha); the order of
    the two is random."""
    copies = corpus_of(*[[0, 3]] * 4000)
    score = document_completion(
        TOPICS, ALPHA, copies, jax.random.key(7), num_sweeps=400, burn_in=10
    )

    def log_next(first, second):
        posterior = ALPHA * TOPICS[:, first] / (ALPHA @ TOPICS[:, first])
        return np.log((ALPHA + posterior) / (1 + ALPHA.sum()) @ TOPICS[:, second])

    expected = np.array([log_next(0, 3), log_next(3, 0)])
    nearest = np.abs(score.log_probs[:, None] - expected).argmin(axis=1)
    assert np.abs(score.log_probs - expected[nearest]).max() < 0.25
    for order in (0, 1):
        chosen = score.log_probs[nearest == order]
        assert abs(np.exp(chosen).mean() / np.exp(expected[order]) - 1) < 0.005
        assert 0.45 < np.mean(nearest == order) < 0.55


def test_completion_is_near_the_exact_predictive():
    """sum over documents of log p(second half | first half) by enumeration: theta's mean is exact,
    Gibbs converges."""
    words = [0, 0, 1, 3]
    score = document_completion(
        TOPICS, ALPHA, corpus_of(words), jax.random.key(8), num_sweeps=20_000
    )
    possible = [
        sum(np.log(predictive(first, TOPICS, ALPHA)[w]) for w in second)
        for first, second in (
            ((0, 0), (1, 3)),
            ((0, 1), (0, 3)),
            ((0, 3), (0, 1)),
            ((1, 3), (0, 0)),
        )
    ]
    assert np.abs(np.array(possible) - score.log_probs[0]).min() < 0.01


@pytest.mark.parametrize(
    "other", [TOPICS[:, ::-1], np.full((1, 4), 0.25)], ids=["of as many topics", "of one"]
)
def test_completion_of_several_fits_averages_their_probabilities(other):
    """By enumeration, as for one fit; words 0 and 3 are likely in other topics of the second."""
    fits, words, alpha = [TOPICS, other], [0, 0, 1, 3], 0.3
    score = document_completion(fits, alpha, corpus_of(words), jax.random.key(8), num_sweeps=5000)

    def log_prob(first, second):
        each = [predictive(first, topics, np.full(len(topics), alpha)) for topics in fits]
        return sum(np.log(np.mean([p[w] for p in each])) for w in second)

    halves = ((0, 0), (1, 3)), ((0, 1), (0, 3)), ((0, 3), (0, 1)), ((1, 3), (0, 0))
    assert np.abs(np.array([log_prob(*both) for both in halves]) - score.log_probs[0]).min() < 0.01


def predictive(first, topics, alpha):
    """p(next word | first words), by enumeration."""
    base = exact_log_prob(first, topics, alpha)
    return np.exp(
        [exact_log_prob([*first, w], topics, alpha) - base for w in range(topics.shape[1])]
    )


def test_short_documents_are_skipped_and_counted():
    corpus = corpus_of(
        [0, 1, 2, 3, 0, 1, 1], [], [3], [0, 0]
    )  # the odd token of seven is given, and not scored
    completion = document_completion(TOPICS, ALPHA, corpus, jax.random.key(0))
    assert completion.rows.tolist() == [0, 3]
    assert completion.num_tokens.tolist() == [3, 1]
    assert completion.num_skipped == 2
    whole = left_to_right(TOPICS, ALPHA, corpus, jax.random.key(0))
    assert whole.rows.tolist() == [0, 2, 3]
    assert whole.num_skipped == 1


BAD = {
    "topics: expected rows of probabilities": (TOPICS * 2, 0.1, [[1, 1, 1, 1]]),
    "topics: expected a matrix": (TOPICS[0], 0.1, [[1, 1, 1, 1]]),
    "row 1 with sum nan": (np.where([[0], [1], [0]], np.nan, TOPICS), 0.1, [[1, 1, 1, 1]]),
    "alpha: expected positive": (TOPICS, 0.0, [[1, 1, 1, 1]]),
    "alpha: expected a scalar or shape": (TOPICS, [0.1, 0.1], [[1, 1, 1, 1]]),
    "documents: expected a vocabulary of 4 words": (TOPICS, 0.1, [[1, 1, 1]]),
    "probability 0 in every topic for word 2": (
        np.array([[0.5, 0.5, 0.0, 0.0]]),
        0.1,
        [[1, 0, 1, 0]],
    ),
}


@pytest.mark.parametrize("message", BAD)
@pytest.mark.parametrize("score", [document_completion, left_to_right, chib])
def test_bad_input_is_named(score, message):
    topics, alpha, counts = BAD[message]
    with pytest.raises(ValueError, match=message):
        score(topics, alpha, Corpus.from_counts(counts), jax.random.key(0))


def test_bad_settings_are_named():
    corpus = corpus_of([0, 1, 2])
    with pytest.raises(ValueError, match=naming("num_particles:", "1", "0")):
        left_to_right(TOPICS, ALPHA, corpus, jax.random.key(0), num_particles=0)
    with pytest.raises(ValueError, match="num_samples: expected an integer"):
        chib(TOPICS, ALPHA, corpus, jax.random.key(0), num_samples=1.5)
    with pytest.raises(ValueError, match="documents: expected one with two tokens"):
        document_completion(TOPICS, ALPHA, corpus_of([0], [1]), jax.random.key(0))
