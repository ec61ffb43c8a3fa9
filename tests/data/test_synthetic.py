import numpy as np
import pytest

from vijax.data.corpora.corpus import Corpus
from vijax.data.synthetic import lda_corpus


def test_words_are_drawn_from_the_topics():
    # Documents of 20,000 tokens: frequencies are theta @ topics up to 6 standard errors (false
    # alarm 1e-6 in all).
    corpus, truth = lda_corpus(10, num_topics=4, vocab_size=30, document_length=20_000.0, eta=0.5)
    expected = truth.theta.astype(float) @ truth.topics
    length = corpus.tokens[:, None]
    error = corpus.to_scipy().toarray() / length - expected
    assert (np.abs(error) < 6 * np.sqrt(expected / length) + 1e-6).all()


def test_moments_of_truth_and_lengths():
    corpus, truth = lda_corpus(4000, num_topics=5, vocab_size=20, document_length=30.0, alpha=0.2)
    np.testing.assert_allclose(truth.topics.sum(axis=1), 1)
    np.testing.assert_allclose(truth.theta.sum(axis=1), 1, atol=1e-6)
    # Var(theta_k) = m (1 - m) / (K alpha + 1), with m = 1 / K.
    np.testing.assert_allclose(truth.theta.var(axis=0), 0.2 * 0.8 / 2, rtol=0.1)
    assert abs(corpus.tokens.mean() - 30) < 6 * np.sqrt(30 / 4000)


def test_given_lengths_are_kept():
    lengths = np.array([1, 50, 7])
    corpus, _ = lda_corpus(3, 2, 10, document_length=lengths)
    assert corpus.tokens.tolist() == [1, 50, 7]


def test_seed_decides_and_folder_makes_no_difference(tmp_path):
    one, _ = lda_corpus(25_000, 3, 40, document_length=5.0, seed=7)
    other, truth = lda_corpus(25_000, 3, 40, document_length=5.0, seed=7, folder=tmp_path)
    assert truth.theta is None
    assert isinstance(other.counts, np.memmap)
    assert (one.to_scipy() != other.to_scipy()).nnz == 0
    assert isinstance(other, Corpus)
    assert (
        one.to_scipy() != lda_corpus(25_000, 3, 40, document_length=5.0, seed=8)[0].to_scipy()
    ).nnz > 0


@pytest.mark.parametrize(
    "bad", [{"num_documents": 0}, {"num_topics": -1}, {"alpha": 0.0}, {"eta": -0.1}]
)
def test_sizes_and_concentrations_are_positive(bad):
    sizes = {"num_documents": 5, "num_topics": 2, "vocab_size": 9}
    with pytest.raises(ValueError, match=f"{next(iter(bad))}: expected a positive number"):
        lda_corpus(**sizes | bad)
