"""Mixtures as estimators: scikit-learn's numbers, its attributes, its words."""

import pickle

import numpy as np
import pytest
from sklearn import mixture as theirs
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vijax.sklearn as vs
from tests.naming import naming
from tests.programs import compiled
from vijax.sklearn.parts.covariances import Settings, check_prior

IRIS, LABELS = load_iris(return_X_y=True)
CENTRES = np.stack([IRIS[k == LABELS].mean(0) for k in range(3)])
KINDS = ["full", "tied", "diag", "spherical"]


@pytest.mark.parametrize("kind", KINDS)
def test_em_finds_what_scikit_learn_finds(kind):
    settings = {
        "n_components": 3,
        "covariance_type": kind,
        "means_init": CENTRES,
        "tol": 1e-7,
        "max_iter": 2000,
    }
    ours, peer = (
        vs.GaussianMixture(**settings).fit(IRIS),
        theirs.GaussianMixture(**settings, random_state=0).fit(IRIS),
    )
    order = np.argsort(ours.means_[:, 0])
    theirs_order = np.argsort(peer.means_[:, 0])
    np.testing.assert_allclose(ours.means_[order], peer.means_[theirs_order], atol=2e-3)
    np.testing.assert_allclose(ours.weights_[order], peer.weights_[theirs_order], atol=1e-3)
    np.testing.assert_allclose(ours.score(IRIS), peer.score(IRIS), atol=1e-5)
    np.testing.assert_allclose(
        (ours.bic(IRIS), ours.aic(IRIS)), (peer.bic(IRIS), peer.aic(IRIS)), atol=1e-2
    )
    for name in ("covariances_", "precisions_", "precisions_cholesky_"):
        assert getattr(ours, name).shape == getattr(peer, name).shape
    # Each form of one matrix, and where it belongs: scikit-learn's own density, at our parameters.
    for name in ("means_", "weights_", "covariances_", "precisions_cholesky_"):
        setattr(peer, name, getattr(ours, name))
    np.testing.assert_allclose(ours.score_samples(IRIS), peer.score_samples(IRIS), rtol=1e-9)
    # Ours count the noise of reg_covar in.
    np.testing.assert_allclose(ours.predict_proba(IRIS), peer.predict_proba(IRIS), atol=1e-4)


@pytest.mark.parametrize("prior", ["dirichlet_process", "dirichlet_distribution"])
@pytest.mark.parametrize("kind", KINDS)
def test_variational_mixtures_have_the_attributes_of_scikit_learn(kind, prior):
    settings = {
        "n_components": 3,
        "covariance_type": kind,
        "random_state": 0,
        "tol": 1e-5,
        "max_iter": 500,
    }
    settings["weight_concentration_prior_type"] = prior
    ours = vs.BayesianGaussianMixture(**settings).fit(IRIS)
    peer = theirs.BayesianGaussianMixture(**settings).fit(IRIS)
    for name in (
        "means_",
        "covariances_",
        "precisions_",
        "weights_",
        "mean_precision_",
        "mean_prior_",
    ):
        assert np.shape(getattr(ours, name)) == np.shape(getattr(peer, name)), name
    np.testing.assert_allclose(ours.covariance_prior_, peer.covariance_prior_, rtol=2e-2)
    np.testing.assert_allclose(np.sort(ours.weights_), np.sort(peer.weights_), atol=0.05)
    np.testing.assert_allclose(ours.weights_.sum(), 1.0)
    bounds = np.array(ours.lower_bounds_)
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[1:]))
    assert ours.converged_


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_covariances_are_those_of_scikit_learn(kind):
    """The same model, prior and optimum, where the start is the same: posterior means agree."""
    settings = {"n_components": 3, "tol": 1e-8, "max_iter": 3000, "weight_concentration_prior": 1.0}
    settings["covariance_type"] = kind
    settings["weight_concentration_prior_type"] = "dirichlet_distribution"
    ours = vs.BayesianGaussianMixture(**settings, random_state=0, n_init=5).fit(IRIS)
    peer = theirs.BayesianGaussianMixture(**settings, random_state=0, n_init=5).fit(IRIS)
    ours_order, order = np.argsort(ours.means_[:, 0]), np.argsort(peer.means_[:, 0])
    np.testing.assert_allclose(ours.means_[ours_order], peer.means_[order], atol=2e-3)
    each = (ours_order, order) if kind == "full" else (..., ...)
    for name, atol in (("covariances_", 2e-3), ("degrees_of_freedom_", 0.1)):
        found, expected = (
            np.asarray(getattr(fit, name))[of] for fit, of in zip((ours, peer), each, strict=True)
        )
        np.testing.assert_allclose(found, expected, atol=atol)


def test_a_component_of_one_row_keeps_the_variance_of_the_noise():
    X = np.concatenate([np.random.default_rng(0).normal(size=(40, 2)), [[50.0, 50.0]]])
    found = vs.GaussianMixture(2, reg_covar=1e-2, random_state=0).fit(X)
    np.testing.assert_allclose(
        found.covariances_[found.weights_.argmin()], 1e-2 * np.eye(2), atol=1e-6
    )


def test_folds_share_their_programs_and_searches_run():
    """Folds of 134 and 135 rows, and of 16 and 15 to be scored: what the first one compiled serves
    them all."""
    estimator, counts = vs.BayesianGaussianMixture(n_components=3, tol=1e-2, random_state=0), []
    for train, test in KFold(9, shuffle=True, random_state=0).split(IRIS[:149]):
        estimator.fit(IRIS[train]).score(IRIS[test])
        estimator.predict(IRIS[test])
        counts.append(compiled())
    assert counts[0] == counts[-1]
    pipeline = make_pipeline(
        StandardScaler(), vs.GaussianMixture(3, covariance_type="tied", tol=1e-2, random_state=0)
    )
    grid = GridSearchCV(pipeline, {"gaussianmixture__n_init": [1, 2]}, cv=3).fit(IRIS)
    assert np.isfinite(grid.best_score_)


def test_a_pickle_says_the_same_to_the_last_digit():
    found = vs.GaussianMixture(3, random_state=0).fit(IRIS)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.score_samples(IRIS), found.score_samples(IRIS))
    np.testing.assert_array_equal(again.predict_proba(IRIS), found.predict_proba(IRIS))


def test_draws_have_the_moments_of_the_mixture():
    found = vs.GaussianMixture(2, covariance_type="tied", random_state=0).fit(IRIS)
    draws, labels = found.sample(20_000)
    np.testing.assert_allclose(np.bincount(labels) / len(labels), found.weights_, atol=0.02)
    np.testing.assert_allclose(draws[labels == 0].mean(0), found.means_[0], atol=0.03)
    np.testing.assert_allclose(np.cov(draws[labels == 0].T), found.covariances_, atol=0.03)


def test_counts_in_two_groups():
    X = np.random.default_rng(0).poisson(np.repeat([[1.0, 9.0], [9.0, 1.0]], 50, axis=0))
    for inference in ("variational", "em"):
        found = vs.PoissonMixture(2, inference=inference, random_state=0).fit(X)
        np.testing.assert_allclose(np.sort(found.rates_[:, 0]), [1.0, 9.0], atol=0.8)
        labels = found.predict(X)
        assert len(set(labels[:50])) == len(set(labels[50:])) == 1
    draws, of = found.sample(5000)
    np.testing.assert_allclose(draws[of == 0].mean(0), found.rates_[0], rtol=0.05)


@pytest.mark.parametrize(
    ("arguments", "X", "message"),
    [
        ({"n_components": 0}, IRIS, "n_components: expected an integer >= 1, got 0"),
        (
            {"covariance_type": "banded"},
            IRIS,
            'covariance_type: expected one of "full", "tied", "diag", "spherical"',
        ),
        ({"init_params": "best"}, IRIS, "init_params: expected one of"),
        ({"reg_covar": -1.0}, IRIS, "reg_covar: expected a number >= 0"),
        ({"n_components": 9}, IRIS[:5], "n_components = 9, n_samples = 5"),
        ({}, np.where(IRIS > 7.8, np.nan, IRIS), "Input X contains NaN"),
    ],
)
def test_what_cannot_be_is_named(arguments, X, message):
    with pytest.raises(ValueError, match=message):
        vs.GaussianMixture(**arguments).fit(X)


def test_the_words_of_scikit_learn():
    with pytest.raises(NotFittedError):
        vs.GaussianMixture().predict(IRIS)
    with pytest.raises(ValueError, match="covariance_prior: expected shape"):
        vs.BayesianGaussianMixture(covariance_prior=np.eye(3)).fit(IRIS)
    with pytest.raises(ValueError, match="Negative values in data passed to PoissonMixture"):
        vs.PoissonMixture().fit(-IRIS)
    with pytest.warns(
        ConvergenceWarning,
        match=naming("max_iter=2", "Increase"),
    ):
        found = vs.GaussianMixture(3, max_iter=2, tol=0.0, random_state=0).fit(IRIS)
    with pytest.raises(
        ValueError, match="X has 3 features, but GaussianMixture is expecting 4 features"
    ):
        found.predict(IRIS[:, :3])


def test_a_covariance_in_unlike_units_is_a_covariance():
    """Its smallest eigenvalue is below the rounding of its largest."""
    rng, prior = np.random.default_rng(0), Settings(np.zeros(4), 1.0, 5.0, np.eye(4))
    for _ in range(40):
        root, units = rng.normal(size=(4, 4)), 10 ** rng.uniform(-6, 6, 4)
        check_prior(
            "full",
            prior._replace(covariance=np.outer(units, units) * (root @ root.T + 0.1 * np.eye(4))),
            4,
        )
    units = np.outer(*2 * [[1e-6, 1.0, 1e3, 1e6]])
    with pytest.raises(ValueError, match=naming("covariance_prior:", "positive")):
        check_prior("full", prior._replace(covariance=units * (np.eye(4) - 0.3)), 4)
