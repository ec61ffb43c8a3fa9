"""`partial_fit`: minibatches one after the other reach the posterior of all rows."""

import numpy as np
import pytest

import vijax.sklearn as vs
from tests.naming import check_names, naming

COUNTS = np.random.default_rng(0).poisson([2.0, 9.0], (60, 2))
EXACT = {
    "learning_decay": 1.0,
    "learning_offset": 0.0,
}  # steps 1 / t: the mean of what the minibatches say


def test_steps_of_one_over_t_reach_the_exact_posterior_of_one_component():
    model = vs.PoissonMixture(1, rate_prior=0.5, total_samples=60, **EXACT)
    for part in np.split(COUNTS, 3):
        model.partial_fit(part)
    np.testing.assert_allclose(model.rates_[0], (1 + COUNTS.sum(0)) / (0.5 + 60), rtol=1e-9)
    assert model.n_batch_iter_ == 3
    assert model.n_samples_seen_ == 60


def test_without_a_total_a_minibatch_stands_for_the_rows_seen_so_far():
    model = vs.PoissonMixture(1, rate_prior=0.5, **EXACT).partial_fit(COUNTS[:20])
    np.testing.assert_allclose(model.rates_[0], (1 + COUNTS[:20].sum(0)) / 20.5, rtol=1e-9)
    model.partial_fit(COUNTS[20:40])  # half of 20 and half of 40 rows
    shape = 1 + 0.5 * COUNTS[:20].sum(0) + COUNTS[20:40].sum(0)
    np.testing.assert_allclose(model.rates_[0], shape / (0.5 + 0.5 * 20 + 0.5 * 40), rtol=1e-9)


def test_gaussian_mixtures_find_in_parts_what_they_find_at_once():
    rng = np.random.default_rng(1)
    rows = rng.permutation(
        np.concatenate([rng.normal(-4, 1, (300, 2)), rng.normal(4, 1, (100, 2))])
    )
    settings = {"n_components": 2, "random_state": 0}
    whole = vs.BayesianGaussianMixture(**settings).fit(rows)
    parts = vs.BayesianGaussianMixture(
        total_samples=400, learning_decay=1.0, learning_offset=0.0, **settings
    )
    for part in np.split(rows, 8):
        parts.partial_fit(part)
    order, of_parts = np.argsort(whole.means_[:, 0]), np.argsort(parts.means_[:, 0])
    np.testing.assert_allclose(parts.means_[of_parts], whole.means_[order], atol=0.1)
    np.testing.assert_allclose(parts.weights_[of_parts], whole.weights_[order], atol=0.01)
    assert (parts.predict(rows) == of_parts[np.argsort(order)][whole.predict(rows)]).all()


def test_parts_of_counts_are_found_in_parts():
    spectra = np.array([[9.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 9.0]])
    rng = np.random.default_rng(0)
    x = rng.poisson(rng.gamma(1.0, size=(240, 2)) @ spectra)
    nmf = vs.GammaPoissonNMF(
        n_components=2, random_state=0, total_samples=240, learning_offset=1.0
    )  # large first steps
    for _ in range(20):
        for part in np.split(x, 4):
            nmf.partial_fit(part)
    whole = vs.GammaPoissonNMF(n_components=2, random_state=0, tol=1e-6, max_iter=2000).fit(x)
    shares, of_whole = (
        one.components_ / one.components_.sum(1, keepdims=True) for one in (nmf, whole)
    )
    found, right = shares[np.argsort(-shares[:, 0])], of_whole[np.argsort(-of_whole[:, 0])]
    np.testing.assert_allclose(found, right, atol=0.03)
    np.testing.assert_allclose(right, spectra / 18, atol=0.05)
    assert nmf.transform(x).shape == (240, 2)
    before = whole.components_
    np.testing.assert_allclose(
        whole.partial_fit(x[:60]).components_, before, rtol=0.05
    )  # it goes on from the fit
    assert whole.n_samples_seen_ == 300


def test_sequences_of_one_state_reach_the_exact_posterior():
    model = vs.HiddenMarkovModel(
        1, emission="poisson", inference="variational", total_samples=12, **EXACT
    )
    for part in np.split(COUNTS, 3):
        model.partial_fit(part, lengths=[5, 6, 5, 4])
    prior = model.fit_.state.hyper["prior"]["components"]
    shape, rate = np.asarray(prior.shape)[0], np.asarray(prior.rate)[0]
    np.testing.assert_allclose(model.rates_[0], (shape + COUNTS.sum(0)) / (rate + 60), rtol=1e-9)
    assert (model.n_batch_iter_, model.n_samples_seen_) == (3, 12)


def test_correlated_topics_are_found_in_parts():
    """By online EM, as good as by EM: documents of three topics of twenty words, the first two
    correlated."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(20, 0.1), 3)
    shares = np.exp(
        rng.multivariate_normal(np.zeros(3), [[2, 1.5, 0], [1.5, 2, 0], [0, 0, 2]], 300)
    )
    docs = np.stack(
        [rng.multinomial(60, share @ topics) for share in shares / shares.sum(1, keepdims=True)]
    )
    settings = {
        "total_samples": 300,
        "batch_size": 50,
        "learning_offset": 1.0,
        "learning_decay": 0.5,
    }
    model = vs.CorrelatedTopicModel(3, random_state=0, **settings)
    for _ in range(8):
        model.partial_fit(docs)
    assert model.n_batch_iter_ == 48
    alike = np.corrcoef(np.concatenate([model.components_, topics]))[:3, 3:]
    assert (alike.max(axis=1) > 0.95).all()
    assert sorted(alike.argmax(axis=1)) == [0, 1, 2]
    assert model.perplexity(docs) < 9.2  # 9.07 by twenty passes of EM, 9.06 by these steps


def test_tastes_are_found_in_parts():
    rng = np.random.default_rng(0)
    kinds = np.repeat([0, 1], 6)
    taken = (
        rng.random((200, 12)) < np.where(kinds == rng.integers(0, 2, (200, 1)), 0.6, 0.05)
    ).astype(int)
    model = vs.PoissonFactorization(
        2, random_state=0, total_samples=200, batch_size=50, learning_offset=1.0
    )
    for _ in range(10):
        model.partial_fit(taken)
    of_kind = np.stack([model.components_[:, kinds == k].mean(axis=1) for k in (0, 1)])
    assert sorted(of_kind.argmax(axis=1)) == [0, 1]
    assert (of_kind.max(axis=1) > 20 * of_kind.min(axis=1)).all()


@pytest.mark.parametrize("batch_size", [None, 50])
def test_covariates_serve_users_who_took_nothing(batch_size):
    """Two kinds of users, told apart by a number."""
    rng = np.random.default_rng(0)
    kind, items = np.arange(150) % 2, np.repeat([0, 1], 8)
    taken = (rng.random((150, 16)) < np.where(items == kind[:, None], 0.5, 0.02)).astype(int)
    number = kind[:, None] - 0.5
    model = vs.PoissonFactorization(2, max_iter=40, batch_size=batch_size, random_state=0)
    assert model.fit(taken).covariate_weights_ is None
    model.fit(taken, covariates=number)
    assert model.covariate_weights_.shape == (1, 2)
    best = model.recommend(np.zeros((2, 16), int), 8, covariates=[[-0.5], [0.5]])
    np.testing.assert_array_equal(np.sort(best), np.stack([np.arange(8), np.arange(8, 16)]))
    assert model.score(taken, covariates=number) > 0.3
    with pytest.raises(ValueError, match=naming("covariates:", "1", "0")):
        model.transform(taken)
    with pytest.raises(ValueError, match=naming("covariates:", "150")):
        model.fit(taken, covariates=number[:3])
    with pytest.raises(ValueError, match=naming("partial_fit:", "estimator")):
        model.partial_fit(taken)


def test_parts_that_make_no_sense():
    for of_all in (vs.HiddenMarkovModel(), vs.PoissonMixture(inference="em")):
        with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as absent:
            of_all.partial_fit(COUNTS)
        check_names(
            str(absent.value.__cause__), "inference:", "'variational'", "partial_fit", "'em'"
        )
    with pytest.raises(ValueError, match="3 rows or more in the first minibatch, got 2"):
        vs.BayesianGaussianMixture(n_components=3).partial_fit(COUNTS[:2])
    with pytest.raises(ValueError, match="only zeros"):
        vs.GammaPoissonNMF().partial_fit(0 * COUNTS)
