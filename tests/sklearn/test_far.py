"""Rows far from the others, beside their spread: what rounding would hide, against scikit-learn and
by hand."""

import pickle

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("sklearn")

from sklearn.mixture import GaussianMixture as Theirs

from vijax.sklearn import (
    BayesianGaussianMixture,
    GaussianMixture,
    GrowingGaussianMixture,
    HiddenMarkovModel,
)

SENTINEL = 999_999.0


def with_sentinel(value=SENTINEL):
    X = np.random.default_rng(0).normal(size=(120, 2))
    X[7] = value
    return X


def best_score(X, row, kind):
    """The likelihood at the components that there are: one row, of variance 1e-6, and all
    others."""
    rest = np.delete(X, row, 0)
    if kind == "full":
        cov = np.cov(rest.T, ddof=0)
    else:
        cov = np.diag(rest.var(0)) if kind == "diag" else np.eye(2) * rest.var(0).mean()
    cov = cov + 1e-6 * np.eye(2)
    logs = stats.multivariate_normal.logpdf(rest, rest.mean(0), cov) + np.log(1 - 1 / len(X))
    alone = stats.multivariate_normal.logpdf(X[row], X[row], 1e-6 * np.eye(2)) + np.log(1 / len(X))
    return (logs.sum() + alone) / len(X)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_a_sentinel_is_a_component_of_its_own(kind):
    """37 nats were lost, and `converged_` was true. (scikit-learn's own diagonal kinds lose 8
    here.)"""
    X = with_sentinel()
    found = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
    assert found.converged_
    assert found.score(X) == pytest.approx(best_score(X, 7, kind), abs=1e-6)
    alone = found.predict(X[7:8])[0]
    np.testing.assert_allclose(found.means_[alone], SENTINEL, rtol=1e-12)
    np.testing.assert_allclose(np.diag(np.atleast_2d(found.covariances_[alone])), 1e-6, rtol=1e-6)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.predict_proba(X), found.predict_proba(X))
    assert again.score(X) == found.score(X)
    assert found.bic(X) == pytest.approx(
        -2 * found.score(X) * len(X) + found._n_parameters() * np.log(len(X))
    )
    drawn, classes = found.sample(200)
    assert np.all((drawn[:, 0] > 1e5) == (classes == alone))


def test_a_sentinel_is_that_of_scikit_learn():
    X = with_sentinel()
    weights = np.ones(len(X))
    ours, theirs = (make(2, random_state=0).fit(X) for make in (GaussianMixture, Theirs))
    assert ours.score(X) == pytest.approx(theirs.score(X), abs=1e-9)
    again = GaussianMixture(2, random_state=0).fit(X[::-1], sample_weight=weights)
    assert again.score(X) == pytest.approx(ours.score(X), abs=1e-9)
    on = GaussianMixture(2, random_state=0, warm_start=True).fit(X)
    assert on.fit(X).score(X) == pytest.approx(ours.score(X), abs=1e-9)


@pytest.mark.parametrize("shift", [1e6, -1e7])
def test_rows_all_far_from_zero_are_those_near_it(shift):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2)) + np.where(np.arange(150) % 2, 3.0, -3.0)[:, None]
    near, far = (
        GaussianMixture(2, random_state=0, tol=1e-8, max_iter=300).fit(X + by)
        for by in (0.0, shift)
    )
    order = [m.means_[:, 0].argsort() for m in (near, far)]
    np.testing.assert_allclose(far.means_[order[1]] - shift, near.means_[order[0]], atol=1e-5)
    np.testing.assert_allclose(
        far.covariances_[order[1]], near.covariances_[order[0]], rtol=1e-4, atol=1e-6
    )
    assert far.score(X + shift) == pytest.approx(near.score(X), abs=1e-6)


def test_ordinary_rows_are_fitted_once():
    X = np.random.default_rng(0).normal(size=(120, 2))
    assert GaussianMixture(2, random_state=0).fit(X).places_ is None
    assert GaussianMixture(2, random_state=0).fit(1e5 + 2e4 * X).places_ is None


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_a_sentinel_in_a_sequence_is_a_state(kind):
    X = with_sentinel()
    X[40] = SENTINEL
    found = HiddenMarkovModel(2, covariance_type=kind, random_state=0).fit(X)
    states = found.predict(X)
    alone = states[7]
    assert np.flatnonzero(states == alone).tolist() == [7, 40]
    np.testing.assert_allclose(found.means_[alone], SENTINEL, rtol=1e-12)
    np.testing.assert_allclose(np.diag(np.atleast_2d(found.covariances_[alone])), 1e-3, rtol=1e-6)
    rest = np.delete(X, [7, 40], 0)
    np.testing.assert_allclose(found.means_[1 - alone], rest.mean(0), atol=1e-6)


def test_a_posterior_beside_a_sentinel_is_as_wide_as_its_prior():
    """The prior variance of scikit-learn is that of X, so nothing is narrow enough to be lost."""
    X = with_sentinel()
    found = BayesianGaussianMixture(n_components=2, random_state=0, max_iter=300).fit(X)
    assert np.isfinite(found.score(X))
    theirs = np.linalg.eigvalsh(np.cov(X.T))[-1]
    assert np.linalg.eigvalsh(found.covariances_[found.predict(X[:1])[0]])[
        -1
    ] > 1e-3 * theirs / len(X)


def near_and_far():
    """Two groups of spread .27 near zero, and the same at 8e6, to the last digit."""
    rng, far = np.random.default_rng(0), 2.0**23
    X = np.concatenate([rng.normal(0, 0.27, (40, 2)), rng.normal(2, 0.27, (40, 2))])
    X = np.round(X * 2**20) / 2**20
    return X, X + far, far


@pytest.mark.parametrize("kind", [GaussianMixture, BayesianGaussianMixture])
def test_rows_that_are_all_far_from_zero_are_read_about_their_centre(kind):
    """At a mean of 1e7 and a spread of .27 the fits diverged, or told to work in float64, in which
    they are."""
    near, far, shift = near_and_far()
    model = kind(n_components=2, random_state=0, tol=1e-9, max_iter=300)
    prior = {"mean_prior": [1.0, 1.0]} if kind is BayesianGaussianMixture else {}
    if prior:  # sticks know the order of components, which is by chance
        model.set_params(weight_concentration_prior_type="dirichlet_distribution")
    one = model.set_params(**prior).fit(near)
    order = np.argsort(one.means_[:, 0])
    scores, means, classes = (
        one.score_samples(near),
        one.means_[order],
        one.predict_proba(near)[:, order],
    )
    assert np.ndim(one.centre_) == 0
    other = model.set_params(**{name: [1.0 + shift, 1.0 + shift] for name in prior}).fit(far)
    order = np.argsort(other.means_[:, 0])
    np.testing.assert_allclose(other.means_[order] - shift, means, atol=1e-5)
    np.testing.assert_allclose(other.score_samples(far), scores, atol=1e-5)
    np.testing.assert_allclose(other.predict_proba(far)[:, order], classes, atol=1e-5)
    for name, value in prior.items():
        np.testing.assert_allclose(getattr(other, f"{name}_"), np.add(value, shift))
    assert np.all(np.abs(other.sample(5)[0] - shift) < 10)


def test_components_that_grow_are_found_far_from_zero():
    _, far, shift = near_and_far()
    found = GrowingGaussianMixture(max_components=4, patience=1, random_state=0).fit(far)
    assert found.n_components_ == 2
    np.testing.assert_allclose(np.sort(found.means_[:2, 0] - shift), [0.0, 2.0], atol=0.2)
    assert np.isfinite(found.score(far))
