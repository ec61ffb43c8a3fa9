"""Fits over which predictions are averaged: `combine="average"`."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import vijax as vi
from vijax.predict.averaged import average_shares, mixture_of_topics

V, K = 30, 3
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.4, (48, V)) + np.eye(48, V, dtype=int)
CORPUS = vi.data.Corpus.from_counts(COUNTS)
KEY = jax.random.key(0)
ALG = vi.svi(vi.models.lda(K, V))
HOW = {"restarts": 2, "combine": "average", "batch_size": 16, "key": KEY}


@pytest.fixture(scope="module")
def fit():
    return vi.fit(ALG, CORPUS, num_steps=20, **HOW)


def with_topics(fit, tables):
    """The fit with these concentrations of topics, by run; the first is the better one."""
    states = fit.runs.states
    topics = states.posterior["topics"]
    naturals = jax.tree.map(lambda x: jnp.asarray(np.stack(tables), x.dtype), topics)
    np.testing.assert_allclose(naturals.concentration, np.stack(tables), rtol=1e-6)
    runs = fit.runs._replace(
        states=states._replace(posterior=states.posterior.replace({"topics": naturals})),
        recent=jnp.zeros_like(fit.runs.recent).at[1].set(-1.0),
    )
    first = jax.tree.map(lambda x: x[0], runs.states)
    return fit._replace(runs=runs, state=first)


def test_the_average_is_no_worse_than_the_mean_of_the_scores(fit):
    """Jensen: log of a mean is at least the mean of logs, of each document."""
    average = fit.score(CORPUS, key=KEY).log_probs
    each = [member.score(CORPUS, key=KEY).log_probs for member in fit.members]
    assert np.all(average >= np.mean(each, axis=0) - 1e-4)
    assert np.mean(average - np.mean(each, axis=0)) > 1e-3
    assert np.all(average <= np.max(each, axis=0) + np.log(2) * CORPUS.tokens)


def test_the_score_is_the_log_of_the_mean_probability(fit):
    """Documents of one word under fits whose topics are all equal: a theta changes nothing."""
    probs = RNG.dirichlet(np.ones(V), 2)
    made = with_topics(fit, [np.tile(1000 * p, (K, 1)) for p in probs])
    words = [4, 17]
    documents = vi.data.Corpus.from_counts(10 * np.eye(V, dtype=int)[words])
    expected = 5 * (logsumexp(np.log(probs[:, words]), axis=0) - np.log(2))
    np.testing.assert_allclose(made.score(documents, key=KEY).log_probs, expected, rtol=1e-5)


def test_shares_are_of_the_better_runs_topics(fit):
    """A second run with the same topics in another order changes nothing."""
    topics = np.full((K, V), 0.05)
    for k in range(K):
        topics[k, 10 * k : 10 * k + 10] += RNG.gamma(20.0, size=10)
    order = [2, 0, 1]
    made = with_topics(fit, [topics, topics[order]])
    alone, other = (member.transform(CORPUS, key=KEY) for member in made.members)
    np.testing.assert_allclose(other, alone[:, order], atol=1e-3)
    np.testing.assert_allclose(made.transform(CORPUS, key=KEY), alone, atol=5e-3)


def test_shares_of_a_document_alone_are_those_among_others(fit):
    together = fit.transform(CORPUS, key=KEY)
    alone = fit.transform(CORPUS[np.arange(7, 8)], key=KEY)
    np.testing.assert_allclose(together.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(alone[0], together[7], rtol=1e-5)
    assert np.max(np.abs(together - fit.members[0].transform(CORPUS, key=KEY))) > 0.01


def test_a_mixture_of_topics_gives_back_its_shares():
    first = RNG.dirichlet(np.full(200, 0.1), 20)
    shares = RNG.dirichlet(np.full(20, 0.1), 6)
    np.testing.assert_allclose(
        mixture_of_topics(shares @ first, first, nearest=20, rounds=2000), shares, atol=2e-3
    )
    np.testing.assert_allclose(
        average_shares([shares, np.eye(20)[:6]], [first, first]),
        (shares + np.eye(20)[:6]) / 2,
        atol=0.02,
    )


def test_topics_and_state_are_those_of_the_best_run(fit):
    assert [member.runs for member in fit.members] == [None, None]
    best = vi.fit(ALG, CORPUS, num_steps=20, **{**HOW, "combine": "best"})
    assert best.runs is None
    assert best.members == (best,)
    for member in (fit, fit.members[0]):
        for a, b in zip(jax.tree.leaves(member.state), jax.tree.leaves(best.state), strict=True):
            np.testing.assert_array_equal(a, b)
    assert "the best of 2 runs, over which score and transform average" in repr(fit)


def test_a_fit_goes_on_bit_for_bit_and_comes_back_from_a_pickle(fit):
    half = vi.fit(ALG, CORPUS, num_steps=9, **HOW)
    parts = vi.fit(ALG, CORPUS, num_steps=20, state=half.runs, **HOW)
    copied = pickle.loads(pickle.dumps(parts))
    for other in (parts, copied):
        for a, b in zip(jax.tree.leaves(fit.runs), jax.tree.leaves(other.runs), strict=True):
            np.testing.assert_array_equal(a, b)
    assert copied.score(CORPUS, key=KEY).mean == fit.score(CORPUS, key=KEY).mean


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"combine": "mean"}, "combine: expected 'best' or 'average', got 'mean'"),
        ({"restarts": 1}, 'restarts: expected 2 or more with combine="average", got 1'),
    ],
)
def test_arguments_that_make_no_average(more, message):
    with pytest.raises(ValueError, match=message):
        vi.fit(ALG, CORPUS, num_steps=2, **{**HOW, **more})


def test_models_without_an_average_say_so():
    model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    with pytest.raises(ValueError, match=r"average: expected a model that says how .*best"):
        vi.fit(
            vi.cavi(model), jnp.zeros((9, 1)), num_steps=2, key=KEY, restarts=2, combine="average"
        )


def test_a_state_of_one_run_is_refused_with_the_remedy(fit):
    with pytest.raises(ValueError, match=r"state=fit\.runs"):
        vi.fit(ALG, CORPUS, num_steps=30, state=fit.state, **HOW)
