"""Topics merged, dropped, split and ordered after a fit, against what the fit says before."""

import pickle

import jax
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.data import Corpus, synthetic
from vijax.fitting.restarts import Many
from vijax.topics.editing import group_topics, sum_groups

KEY = jax.random.key(1)


@pytest.fixture(scope="module")
def corpus():
    return synthetic.lda_corpus(num_documents=300, num_topics=4, vocab_size=30, seed=0)[0]


@pytest.fixture(scope="module")
def fit(corpus):
    model = vi.models.lda(4, 30, alpha=0.2, eta=1e-3)
    return vi.fit(vi.svi(model), corpus, num_epochs=12, batch_size=100, key=KEY)


def with_twin(fit, number):
    """The fit with a topic written twice, half of its words and half of its prior share in each."""
    lambdas = np.asarray(fit.posterior["topics"].concentration)
    rows = [*range(len(lambdas)), number]
    halves = np.where(np.array(rows) == number, 0.5, 1.0)
    alpha = 0.2 * halves
    model = vi.models.lda(len(rows), lambdas.shape[1], alpha=alpha, eta=1e-7)
    alg = vi.svi(model)
    topics = vi.Dirichlet(np.float32(halves[:, None] * lambdas[rows]))
    state = alg.init(KEY)._replace(posterior=vi.Product({"topics": topics}))
    return fit._replace(alg=alg, state=state)


def test_merged_twins_are_the_topic_that_they_were(fit, corpus):
    twins = with_twin(fit, 2)
    merged = vi.edit_topics(twins, merge=[[2, 4]])
    assert merged.groups == ((0,), (1,), (2, 4), (3,))
    lambdas = fit.posterior["topics"].concentration
    found = merged.fit.posterior["topics"].concentration
    np.testing.assert_allclose(found, lambdas, rtol=1e-5, atol=1e-5)
    before = fit.score(corpus, key=KEY)
    assert abs(merged.fit.score(corpus, key=KEY).mean - before.mean) < 1e-4
    shares = twins.transform(corpus, key=KEY)
    together = np.column_stack([shares[:, :2], shares[:, 2] + shares[:, 4], shares[:, 3]])
    # Mean field gives twins a little less than their sum, where a document hardly uses them
    difference = np.abs(merged.fit.transform(corpus, key=KEY) - together)
    assert difference.mean() < 0.002
    assert difference.max() < 0.06


def test_prior_shares_of_a_merge_are_sums_of_dirichlet_shares():
    """The aggregation that an edit rests on, by draws: 6 standard errors."""
    alpha = np.array([0.2, 0.5, 1.1])
    (whole,) = sum_groups(alpha, ((0, 2),))
    draws = np.random.default_rng(0).dirichlet(alpha, 20_000)
    share = draws[:, 0] + draws[:, 2]
    assert stats.kstest(share, stats.beta(whole, 0.5).cdf).pvalue > 1e-6


def test_a_split_merged_again_is_the_fit(fit, corpus):
    split = vi.edit_topics(fit, split=[1], corpus=corpus, key=KEY)
    assert split.groups == ((0,), (1,), (1,), (2,), (3,))
    first, second = np.asarray(split.fit.posterior["topics"].mean())[1:3]
    assert 0.5 * np.abs(first - second).sum() > 0.2  # the parts differ
    again = vi.edit_topics(split.fit, merge=[[1, 2]]).fit
    lambdas = fit.posterior["topics"].concentration
    np.testing.assert_allclose(again.posterior["topics"].concentration, lambdas, rtol=1e-5)
    assert again.score(corpus, key=KEY).mean == pytest.approx(fit.score(corpus, key=KEY).mean)


@pytest.mark.slow
def test_a_split_finds_the_two_topics_that_one_has_swallowed(corpus):
    true = synthetic.lda_corpus(num_documents=300, num_topics=4, vocab_size=30, seed=0)[1]
    topics = np.asarray(true.topics)
    mixed = np.stack([topics[0], topics[1], 0.5 * (topics[2] + topics[3])])
    model = vi.models.lda(3, 30, alpha=0.1, eta=0.01)
    alg = vi.svi(model)
    state = alg.init(KEY)._replace(
        posterior=vi.Product({"topics": vi.Dirichlet(np.float32(3000 * mixed + 0.01))})
    )
    fit = vi.fit(vi.svi(model), corpus, num_epochs=0.5, batch_size=100, key=KEY)
    fit = fit._replace(alg=alg, state=state)
    split = vi.edit_topics(fit, split=[2], corpus=corpus, key=KEY).fit
    parts = np.asarray(split.posterior["topics"].mean())[2:]
    distance = 0.5 * np.abs(parts[:, None] - topics[None, 2:]).sum(-1)
    nearest = min(distance[0, 0] + distance[1, 1], distance[0, 1] + distance[1, 0]) / 2
    assert nearest < 0.25
    assert split.score(corpus, key=KEY).mean > fit.score(corpus, key=KEY).mean + 0.02


def test_a_split_reads_the_shares_of_the_fit_that_is_edited(fit, corpus):
    """Of several fits that are averaged the better one is edited, and it alone."""
    lambdas = fit.posterior["topics"].concentration
    posterior = vi.Product({"topics": vi.Dirichlet(np.full_like(lambdas, 0.5))})
    states = [fit.state, fit.state._replace(posterior=posterior)]
    both = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    several = fit._replace(runs=Many(both, fit.state.step, np.array([[0.0], [1.0]])))
    assert len(several.members) == 2
    with pytest.warns(UserWarning, match=naming("better of 2", "fit.members[0]")):
        split = vi.edit_topics(several, split=[0], corpus=corpus, key=KEY).fit
    split_alone = vi.edit_topics(fit, split=[0], corpus=corpus, key=KEY).fit
    assert split.runs is None
    np.testing.assert_array_equal(
        split.posterior["topics"].concentration, split_alone.posterior["topics"].concentration
    )


def test_dropped_and_ordered(fit, corpus):
    edited = vi.edit_topics(fit, drop=[0], order=[3]).fit
    lambdas = np.asarray(fit.posterior["topics"].concentration)
    np.testing.assert_allclose(
        edited.posterior["topics"].concentration, lambdas[[3, 1, 2]], rtol=1e-6
    )
    shares = edited.transform(corpus, key=KEY)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)
    on = vi.fit(edited.alg, corpus, num_epochs=2, batch_size=100, key=KEY, state=edited.state)
    assert on.score(corpus, key=KEY).mean >= edited.score(corpus, key=KEY).mean
    again = pickle.loads(pickle.dumps(edited))
    assert again.score(corpus, key=KEY).mean == edited.score(corpus, key=KEY).mean
    assert "svi" in repr(edited)


@pytest.mark.slow
def test_hdp_keeps_its_tables(corpus):
    fit = vi.fit(vi.cavi(vi.models.hdp(5, 30)), corpus, num_steps=25, key=KEY)
    largest = int(np.argmax(fit.posterior["sticks"].alpha))
    split = vi.edit_topics(fit, split=[largest], corpus=corpus, key=KEY).fit
    again = vi.edit_topics(split, merge=[[largest, largest + 1]]).fit
    for name in ("alpha", "beta"):
        before, after = (getattr(x.posterior["sticks"], name) for x in (fit, again))
        np.testing.assert_allclose(after, before, rtol=1e-4)
    assert again.score(corpus, key=KEY).mean == pytest.approx(fit.score(corpus, key=KEY).mean)
    tables = lambda fit: float(np.sum(fit.posterior["sticks"].alpha - 1))
    assert tables(split) == pytest.approx(tables(fit), rel=1e-4)


def test_seed_words_stay_as_counts(corpus):
    eta = np.full((4, 30), 0.01)
    eta[0, :3] = 5.0
    alg = vi.svi(vi.models.lda(4, 30, eta=eta))
    fit = vi.fit(alg, corpus, num_epochs=1, batch_size=100, key=KEY)
    edited = vi.edit_topics(fit, order=[1]).fit
    lambdas = np.asarray(fit.posterior["topics"].concentration)
    np.testing.assert_allclose(
        edited.posterior["topics"].concentration, lambdas[[1, 0, 2, 3]], rtol=1e-5
    )


WRONG = [
    ({"merge": [[1]]}, "merge: expected groups of two"),
    ({"merge": [[1, 9]]}, "merge: expected numbers of topics, 0 to 3"),
    ({"merge": [[0, 1], [1, 2]]}, "merge: expected numbers of topics"),
    ({"merge": [[0, 1]], "split": [1]}, "split: expected topics that are not merged"),
    ({"merge": [[0, 1]], "drop": [1]}, "drop: expected topics that are not merged"),
    ({"drop": [0], "order": [0]}, "drop: expected topics that are not split or ordered"),
    ({"drop": [0, 1, 2, 3]}, "drop: expected at least one topic"),
    ({"drop": [True]}, "drop: expected numbers"),
    ({"order": [1.0]}, "order: expected numbers"),
    ({"split": [0]}, "corpus: expected the documents"),
    ({}, "edit: expected something to do"),
]


@pytest.mark.parametrize(("edits", "message"), WRONG)
def test_wrong_edits_are_told(fit, edits, message):
    with pytest.raises(ValueError, match=message):
        vi.edit_topics(fit, **edits)


def test_other_models_and_documents_are_refused(fit, corpus):
    other = Corpus.from_counts(np.ones((3, 5), int))
    with pytest.raises(ValueError, match=naming("corpus:", "30 words")):
        vi.edit_topics(fit, split=[0], corpus=other, key=KEY)
    alg = vi.cavi(vi.models.simple_mixture(2, 30))
    mixture = vi.Fit(alg, alg.init(KEY), {}, None)
    with pytest.raises(ValueError, match=naming("fit:", "vijax.models.lda")):
        vi.edit_topics(mixture, merge=[[0, 1]])


@pytest.mark.slow
def test_topics_that_move_in_time_are_edited_in_all_slices():
    """Words of ordered topics are those of before; counts of merged ones add up, slice by slice, and
    a merge of the two parts of a split is the fit. The old model answers; fitting goes on."""
    corpus, _ = synthetic.lda_corpus(num_documents=60, num_topics=3, vocab_size=30, seed=0)
    drift = [0.05, 0.1, 0.2, 0.3]
    model = vi.dtm(4, corpus, np.repeat([1990, 1991, 1994], 20), alpha=0.2, drift=drift)
    fit = vi.fit(vi.cavi(model), model.data, num_steps=30, key=KEY)
    words, counts = model.words(fit).mean, np.asarray(fit.posterior["topics"].counts)
    ordered = vi.edit_topics(fit, order=[3, 1]).fit
    np.testing.assert_allclose(model.words(ordered).mean, words[[3, 1, 0, 2]], atol=1e-4)
    np.testing.assert_allclose(ordered.state.hyper["drift"], [0.3, 0.1, 0.05, 0.2], rtol=1e-6)
    merged = vi.edit_topics(fit, merge=[[0, 2]], drop=[1])
    assert merged.groups == ((0, 2), (3,))
    found = np.asarray(merged.fit.posterior["topics"].counts)
    np.testing.assert_allclose(found, np.stack([counts[0] + counts[2], counts[3]]), rtol=1e-5)
    np.testing.assert_allclose(merged.fit.state.hyper["alpha"], [0.4, 0.2], rtol=1e-6)
    split = vi.edit_topics(fit, split=[1], corpus=model.data, key=KEY).fit
    again = vi.edit_topics(split, merge=[[1, 2]]).fit
    np.testing.assert_allclose(model.words(again).mean, words, atol=1e-4)
    later = vi.fit(split.alg, model.data, state=split.state, num_steps=45, key=KEY)
    assert np.all(np.diff(later.trace["elbo"]) > -0.01)
    copy = pickle.loads(pickle.dumps(split))
    np.testing.assert_array_equal(model.words(copy).mean, model.words(split).mean)


def test_groups_by_hand():
    assert group_topics(6, merge=[[4, 1], [0, 5]], order=[3, 1]) == ((3,), (4, 1), (0, 5), (2,))
    assert group_topics(3, split=[0, 2]) == ((0,), (0,), (1,), (2,), (2,))
