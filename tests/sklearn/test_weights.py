"""Weights of rows: a row of weight 2 is the same as two rows, and a row of weight 0 is none."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import vijax.sklearn as vs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
WEIGHTS = np.concatenate([RNG.permutation(np.repeat([0.0, 1.0, 2.0, 3.0], 5)) for _ in range(2)])
Y = X @ [1.0, -0.5] + 0.3 * RNG.normal(size=40)
ROWS = np.concatenate([X[:20] - 4, X[20:] + 4])
CENTRES = np.array([[-4.0, -4.0], [4.0, 4.0]])


def repeated(*arrays):
    return tuple(np.repeat(x, WEIGHTS.astype(int), axis=0) for x in arrays)


def halves(*arrays):
    """Two tables of the same rows, arrays and weights: rows of the first half are repeated in one,
    and weighed in the other. They have the same shape, so that fits share programs."""
    for first in (True, False):
        times = np.where((np.arange(40) < 20) == first, WEIGHTS, 1).astype(int)
        weights = np.repeat(np.where(times == WEIGHTS, 1.0, WEIGHTS), times)
        yield tuple(np.repeat(x, times, axis=0) for x in arrays), weights


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (vs.BayesianLogisticRegression(tol=1e-9), Y > 0),
        (vs.BayesianGLM(likelihood="poisson", tol=1e-9), np.round(np.exp(Y))),
        (vs.BayesianGLM(tol=1e-9, max_iter=60), Y),
    ],
    ids=["logistic", "poisson", "gaussian"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_linear_models_take_a_weight_as_so_many_rows(model, y):
    (one, weights), (two, others) = halves(X, y)
    ours = model.fit(*one, sample_weight=weights)
    found = {
        name: np.array(getattr(ours, name))
        for name in ("coef_", "coef_std_", "intercept_", "lower_bound_")
    }
    other = model.fit(*two, sample_weight=others)
    for name, value in found.items():
        np.testing.assert_allclose(value, getattr(other, name), rtol=1e-5, err_msg=name)


def test_fractions_of_weights_move_the_fit_as_they_move_that_of_scikit_learn():
    """With a wide prior and many rows the mean is the maximum of the likelihood."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2000, 2))
    y = rng.random(2000) < 1 / (1 + np.exp(-x @ [1.0, -1.0]))
    weights = np.where(y, 0.3, 1.7)
    ours = vs.BayesianLogisticRegression(prior_scale=100.0).fit(x, y, sample_weight=weights)
    peer = LogisticRegression(C=1e6).fit(x, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=0.02)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, rtol=0.02)
    assert abs(ours.intercept_[0]) > 1  # without weights it is near zero


@pytest.mark.parametrize("kind", ["full", "spherical"])
def test_mixtures_take_a_weight_as_so_many_rows(kind):
    settings = {
        "weight_concentration_prior_type": "dirichlet_distribution",
        "random_state": 0,
        "max_iter": 500,
    }
    model = vs.BayesianGaussianMixture(n_components=2, covariance_type=kind, tol=1e-9, **settings)
    (one, weights), (two, others) = halves(ROWS)
    ours = model.fit(*one, sample_weight=weights)
    order = np.argsort(ours.means_[:, 0])
    names = ("weights_", "means_", "covariances_", "mean_precision_", "degrees_of_freedom_")
    found, bound = {name: getattr(ours, name)[order] for name in names}, ours.lower_bound_
    other = model.fit(*two, sample_weight=others)
    order = np.argsort(other.means_[:, 0])
    for name, value in found.items():
        np.testing.assert_allclose(value, getattr(other, name)[order], rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(bound, other.lower_bound_, rtol=1e-6)


TWO_GROUPS = np.concatenate([RNG.normal(0, 1, (30, 2)), RNG.normal(5, 1, (25, 2))])


@pytest.mark.parametrize("start", ["kmeans", "random"])
def test_starts_are_drawn_by_content_and_weight(start):
    """Weights, repeated rows and rows in another order are one answer where several optima are
    near."""
    settings = {"init_params": start, "random_state": 0, "max_iter": 40, "tol": 1e-9}
    model = vs.BayesianGaussianMixture(n_components=3, **settings)
    weights = np.random.default_rng(0).integers(1, 3, 55)
    rows = np.repeat(TWO_GROUPS, weights, axis=0)
    order = np.random.default_rng(5).permutation(len(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            (model.fit(data, sample_weight=counts).lower_bound_, model.weights_)
            for data, counts in ((TWO_GROUPS, weights), (rows, None), (rows[order], None))
        ]
    for bound, shares in found[1:]:
        np.testing.assert_allclose(bound, found[0][0], rtol=1e-9)
        np.testing.assert_allclose(shares, found[0][1], atol=1e-9)


def test_em_and_counts_take_weights():
    em = vs.GaussianMixture(2, means_init=CENTRES, tol=1e-9, max_iter=500)
    found = em.fit(ROWS, sample_weight=WEIGHTS).means_, em.weights_, em.lower_bound_
    again = em.fit(*repeated(ROWS))
    for value, right in zip(found, (again.means_, again.weights_, again.lower_bound_), strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-6)
    counts = np.random.default_rng(2).poisson(np.repeat([[2.0, 9.0], [9.0, 2.0]], 20, axis=0))
    one = vs.PoissonMixture(1, tol=1e-9).fit(counts, sample_weight=WEIGHTS)
    np.testing.assert_allclose(
        one.rates_, vs.PoissonMixture(1, tol=1e-9).fit(*repeated(counts)).rates_, rtol=1e-9
    )
    # By hand: the prior is worth one row of the weighted mean.
    mean = WEIGHTS @ counts / WEIGHTS.sum()
    shape, rate = 1 + WEIGHTS @ counts, 1 / mean + WEIGHTS.sum()
    np.testing.assert_allclose(one.rates_[0], shape / rate, rtol=1e-9)


@pytest.mark.parametrize(
    ("weights", "words"), [(-WEIGHTS, "Negative values"), (0 * WEIGHTS, "non-zero|positive weight")]
)
def test_weights_that_make_no_sense(weights, words):
    with pytest.raises(ValueError, match=words):
        vs.GaussianMixture().fit(ROWS, sample_weight=weights)
