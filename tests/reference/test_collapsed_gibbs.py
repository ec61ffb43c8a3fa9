"""Collapsed Gibbs sampling: exactness by enumeration, and the log joint by brute force."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

from vijax.data import Corpus
from vijax.reference import collapsed_gibbs_lda
from vijax.reference.collapsed_gibbs import Prior, deal_lanes, random_start, sweep

CORPUS = Corpus.from_counts([[2, 1, 0], [0, 1, 1], [1, 0, 1]])
ALPHA, ETA = np.array([0.5, 0.9]), np.array([0.3, 0.4, 0.6])


def dirichlet_multinomial(counts, concentration):
    total = concentration.sum()
    terms = gammaln(concentration + counts) - gammaln(concentration)
    return gammaln(total) - gammaln(total + counts.sum()) + terms.sum()


def log_joint(words, documents, z):
    """log p(w, z | alpha, eta), a document and a topic at a time."""
    of_documents = [
        dirichlet_multinomial(np.bincount(z[documents == d], minlength=2), ALPHA) for d in range(3)
    ]
    of_topics = [
        dirichlet_multinomial(np.bincount(words[z == k], minlength=3), ETA) for k in range(2)
    ]
    return sum(of_documents) + sum(of_topics)


def exact_posterior(words, documents):
    """All assignments of the tokens to two topics, and their posterior probabilities."""
    states = np.array(list(itertools.product(range(2), repeat=len(words))))
    logs = np.array([log_joint(words, documents, z) for z in states])
    probabilities = np.exp(logs - logs.max())
    return states, probabilities / probabilities.sum()


def long_run(num_lanes, num_chains, num_sweeps):
    """Assignments of the tokens at the end of many chains, as (chains, tokens), with the words and
    documents."""
    lanes = jax.tree.map(jnp.asarray, deal_lanes(CORPUS, num_lanes))
    prior = Prior(jnp.asarray(ALPHA, jnp.float32), jnp.asarray(ETA, jnp.float32))

    def chain(key):
        body = lambda i, counts: sweep(counts, lanes, prior, jax.random.fold_in(key, i + 1))[0]
        return jax.lax.fori_loop(0, num_sweeps, body, random_start(lanes, prior, 3, key)).z

    z = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), num_chains))
    real = np.asarray(lanes.documents) < 3
    return np.asarray(z)[:, real], np.asarray(lanes.words)[real], np.asarray(lanes.documents)[real]


def test_one_lane_samples_the_exact_posterior():
    """Probabilities of each topic per token, and of each pair of tokens sharing one, within 5
    standard errors."""
    num_chains = 20_000
    z, words, documents = long_run(num_lanes=1, num_chains=num_chains, num_sweeps=60)
    states, probabilities = exact_posterior(words, documents)
    for of in (lambda z: z, lambda z: (z[:, :, None] == z[:, None, :]).reshape(len(z), -1)):
        exact = probabilities @ of(states)
        error = np.abs(of(z).mean(axis=0) - exact)
        assert (error < 5 * np.sqrt(exact * (1 - exact) / num_chains) + 1e-6).all()


def test_several_lanes_are_not_exact():
    """Three documents at a time in a corpus of three is the worst case of the approximation."""
    z, words, documents = long_run(num_lanes=3, num_chains=20_000, num_sweeps=60)
    states, probabilities = exact_posterior(words, documents)
    together = lambda z: z[:, :, None] == z[:, None, :]
    exact = np.tensordot(probabilities, together(states).astype(float), axes=1)
    error = np.abs(together(z).mean(axis=0) - exact).max()
    assert 0.02 < error < 0.2


def test_log_joint_and_counts_agree_with_the_assignments():
    run = collapsed_gibbs_lda(CORPUS, 2, alpha=ALPHA, eta=ETA, num_sweeps=5, key=jax.random.key(1))
    lanes = deal_lanes(CORPUS, 1)
    words, documents, z = lanes.words[:, 0], lanes.documents[:, 0], run.counts.z[:, 0]
    assert run.log_joint[-1] == pytest.approx(log_joint(words, documents, z), abs=1e-4)
    by_word = np.zeros((3, 2))
    np.add.at(by_word, (words, z), 1)
    by_document = np.zeros((3, 2))
    np.add.at(by_document, (documents, z), 1)
    np.testing.assert_array_equal(run.counts.by_word, by_word)
    np.testing.assert_array_equal(run.counts.by_document[:3], by_document)
    np.testing.assert_array_equal(run.counts.by_topic, by_word.sum(axis=0))
    np.testing.assert_allclose(
        run.topics, ((by_word + ETA[:, None]) / (by_word.sum(axis=0) + ETA.sum())).T, rtol=1e-5
    )


def test_finds_the_topics_of_a_corpus_in_lanes():
    rng = np.random.default_rng(0)
    truth = np.kron(np.eye(4), np.full((1, 5), 0.2))
    shares = rng.dirichlet(np.full(4, 0.2), 120)
    corpus = Corpus.from_counts(
        [rng.multinomial(rng.integers(0, 60), theta @ truth) for theta in shares]
    )
    seen = []
    run = collapsed_gibbs_lda(
        corpus, 4, alpha=0.2, eta=0.1, num_sweeps=60, burn_in=40, num_lanes=16, key=jax.random.key(3),
        callback=lambda i, log_joint, counts: seen.append((i, log_joint)),
    )  # fmt: skip
    order = run.topics.argmax(axis=1).argsort()
    assert np.abs(run.topics[order] - truth).max() < 0.1
    assert [i for i, _ in seen] == list(range(1, 61))
    assert [value for _, value in seen] == run.log_joint.tolist()
    assert run.counts.by_topic.sum() == corpus.num_tokens
    assert run.log_joint[-1] > run.log_joint[0]


@pytest.mark.parametrize("num_lanes", [1, 3, 7])
def test_lanes_hold_every_token_once_and_each_document_in_one(num_lanes):
    rng = np.random.default_rng(1)
    corpus = Corpus.from_counts(rng.poisson(0.7, (40, 6)))
    lanes = deal_lanes(corpus, num_lanes)
    step, lane = np.nonzero(lanes.documents < 40)
    found = np.zeros((40, 6), int)
    np.add.at(found, (lanes.documents[step, lane], lanes.words[step, lane]), 1)
    np.testing.assert_array_equal(found, corpus.to_scipy().toarray())
    homes = {
        (d, home)
        for d, home in zip(lanes.documents[step, lane].tolist(), lane.tolist(), strict=True)
    }
    assert len(homes) == len({d for d, _ in homes})


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("alpha", 0.0, "alpha: expected positive finite numbers"),
        ("eta", -1.0, "eta: expected positive finite numbers"),
        ("num_sweeps", 0, "num_sweeps: expected an integer >= 1, got 0"),
        ("num_lanes", 0, "num_lanes: expected an integer >= 1, got 0"),
        ("burn_in", 9, "burn_in: expected fewer than the 5 sweeps, got 9"),
    ],
)
def test_bad_input_is_named(argument, value, message):
    settings = {"alpha": 0.1, "eta": 0.1, "num_sweeps": 5} | {argument: value}
    with pytest.raises(ValueError, match=message):
        collapsed_gibbs_lda(CORPUS, 2, key=jax.random.key(0), **settings)
