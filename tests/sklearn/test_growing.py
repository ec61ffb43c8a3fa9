"""A mixture that finds the number of its components, as an estimator."""

import jax
import numpy as np
import pytest
from scipy import stats

import vijax.sklearn as vs
from tests.naming import naming

RNG = np.random.default_rng(3)
CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]])
CLASS = np.repeat(np.arange(4), [60, 50, 40, 30])
X = CENTRES[CLASS] + RNG.normal(size=(180, 2))


@pytest.fixture(scope="module")
def grown() -> vs.GrowingGaussianMixture:
    return vs.GrowingGaussianMixture(random_state=0).fit(X)


def test_it_finds_the_components_the_largest_first(grown):
    assert grown.n_components_ == len(grown.weights_) == 4
    np.testing.assert_allclose(grown.means_, CENTRES, atol=0.4)
    np.testing.assert_array_equal(grown.predict(X), CLASS)
    np.testing.assert_allclose(grown.weights_, np.bincount(CLASS) / 180, atol=0.01)
    assert grown.converged_


def test_it_is_the_mixture_that_is_told_their_number(grown):
    """Of the same prior; from a start of its own, whose components may be in another order, which
    sticks know."""
    given = {"n_components": 4, "weight_concentration_prior": 1.0, "tol": 1e-9, "max_iter": 500}
    told = vs.BayesianGaussianMixture(**given, random_state=0).fit(X)
    assert grown.lower_bound_ == pytest.approx(told.lower_bound_, abs=0.5)
    found = told.covariances_[np.argsort(-told.weights_)]
    np.testing.assert_allclose(grown.covariances_, found, rtol=0.01, atol=0.01)


def test_densities_are_those_of_the_posterior(grown):
    """By hand: a mixture of Student t distributions (Murphy 2012, equation 4.222) at the mean
    weights."""
    with jax.enable_x64(True):
        q = grown.fit_.posterior["components"]
        kappa, nu = np.array(q.strength), np.array(q.degrees)
    scale, freedom = grown.covariances_ * nu[:, None, None], nu - 1
    t = lambda k: stats.multivariate_t(
        grown.means_[k], scale[k] * (kappa[k] + 1) / (kappa[k] * freedom[k]), freedom[k]
    )
    expected = np.log(sum(grown.weights_[k] * t(k).pdf(X[:20]) for k in range(4)))
    np.testing.assert_allclose(grown.score_samples(X[:20]), expected, rtol=1e-6)


def test_no_more_components_than_are_allowed():
    assert vs.GrowingGaussianMixture(2, random_state=0).fit(X).n_components_ == 2
    with pytest.raises(ValueError, match=naming("max_components:", "1")):
        vs.GrowingGaussianMixture(1).fit(X)


def test_one_cluster_stays_one():
    alone = vs.GrowingGaussianMixture(random_state=0, covariance_type="diag").fit(X[:60])
    assert alone.n_components_ == 1
    assert alone.weights_[0] > 0.97


def test_what_cannot_be_is_named():
    with pytest.raises(
        ValueError,
        match=naming("covariance_type:", '"full"', '"diag"', '"spherical"'),
    ):
        vs.GrowingGaussianMixture(covariance_type="tied").fit(X)
