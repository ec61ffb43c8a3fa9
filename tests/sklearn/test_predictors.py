"""Regressions and classifiers against what is known in closed form, and against scikit-learn."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier as TheirClassifier
from sklearn.gaussian_process import GaussianProcessRegressor as TheirRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression

import vijax.sklearn as vs
from tests.naming import naming
from tests.programs import compiled

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2)) * [1.0, 5.0] + [0.0, 20.0]
Z = 1.0 + X[:, 0] - 0.1 * (X[:, 1] - 20.0)


def test_a_gaussian_regression_is_bayes_rule():
    """Ridge regression of standardised columns at the noise that was found; and the noise is about
    right."""
    y = Z + 0.5 * RNG.normal(size=120)
    glm = vs.BayesianGLM(prior_scale=0.7, tol=1e-9, max_iter=2000).fit(X, y)
    noise = float(glm.hyperparameters_["noise"])
    np.testing.assert_allclose(np.sqrt(noise) * y.std(), 0.5, rtol=0.15)
    design = np.column_stack([(X - X.mean(0)) / X.std(0), np.full(120, 10.0)])
    precision = design.T @ design / noise + np.eye(3) / 0.7**2
    weights = np.linalg.solve(precision, design.T @ ((y - y.mean()) / y.std()) / noise)
    np.testing.assert_allclose(glm.coef_, y.std() * weights[:2] / X.std(0), rtol=1e-5)
    spread = np.sqrt(np.diag(np.linalg.inv(precision)))[:2] * y.std() / X.std(0)
    np.testing.assert_allclose(glm.coef_std_, spread, rtol=1e-4)
    np.testing.assert_allclose(glm.predict(X), glm.intercept_ + X @ glm.coef_, rtol=1e-6)
    mean, sd = glm.predict(X[:3], return_std=True)
    expected = -0.5 * ((y[:3] - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(glm.log_predictive(X[:3], y[:3]), expected, rtol=1e-4)


def easy(rows, dim, seed, learn):
    """Columns about 0, coefficients of about 1 in all, noise of .5."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, dim))
    z = x @ rng.normal(size=dim) / np.sqrt(dim)
    return x, z, rng, vs.BayesianGLM(learn_prior_scale=learn, random_state=0)


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize(("rows", "dim"), [(40, 5), (50, 2), (300, 3), (2000, 10)])
def test_a_gaussian_regression_settles_at_the_largest_evidence(rows, dim, learn):
    """As it comes, without a warning; the evidence is that of the marginal, a normal."""
    x, z, rng, glm = easy(rows, dim, 0, learn)
    y = z + 0.5 * rng.normal(size=rows)
    glm.fit(x, y)
    assert glm.converged_
    design = np.column_stack([(x - x.mean(0)) / x.std(0), np.full(rows, 10.0)])
    vectors, lengths, _ = np.linalg.svd(design)
    along = (vectors.T @ (y - y.mean())) ** 2 / y.var()
    squares = np.pad(lengths**2, (0, rows - dim - 1))

    def minus_evidence(logs):
        noise, scale = np.exp(logs[0]), np.exp(logs[1]) if learn else 1.0
        variance = noise + scale**2 * squares
        return 0.5 * np.sum(along / variance + np.log(2 * np.pi * variance * y.var()))

    best = -minimize(
        minus_evidence, [-1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-8}
    ).fun
    assert best - 2e-5 * rows - 1e-2 < glm.lower_bound_ < best + 1e-6 * rows


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize(("rows", "dim"), [(50, 2), (300, 3)])
@pytest.mark.parametrize("likelihood", ["poisson", "gamma", "student_t", "negative_binomial"])
def test_easy_data_settle_without_a_warning(likelihood, rows, dim, learn):
    x, z, rng, glm = easy(rows, dim, 0, learn)
    y = {
        "poisson": lambda: rng.poisson(np.exp(0.5 + z)),
        "gamma": lambda: rng.gamma(4, np.exp(z) / 4),
        "student_t": lambda: z + 0.3 * rng.standard_t(4, size=rows),
        "negative_binomial": lambda: rng.negative_binomial(3, 3 / (3 + np.exp(1 + z))),
    }[likelihood]()
    assert glm.set_params(likelihood=likelihood).fit(x, y).converged_


@pytest.mark.parametrize(
    ("likelihood", "draw"),
    [
        ("poisson", lambda mean: RNG.poisson(mean)),
        ("negative_binomial", lambda mean: RNG.negative_binomial(5, 5 / (5 + mean))),
        ("gamma", lambda mean: RNG.gamma(3.0, mean / 3.0) + 1e-9),
    ],
)
def test_rates_have_a_logarithmic_link(likelihood, draw):
    glm = vs.BayesianGLM(likelihood, max_iter=1000).fit(X, draw(np.exp(Z)))
    np.testing.assert_allclose(glm.coef_, [1.0, -0.1], atol=6 * glm.coef_std_.max())
    mean, sd = glm.predict(X, return_std=True)
    assert np.median(np.abs(np.log(mean) - Z)) < 0.2
    assert np.all(sd > 0)


def test_outliers_move_a_robust_regression_less():
    y = Z + 0.2 * RNG.normal(size=120)
    y[:6] += 40.0
    robust, plain = (
        vs.BayesianGLM(name, max_iter=2000).fit(X, y) for name in ("student_t", "gaussian")
    )
    assert np.abs(robust.coef_ - [1.0, -0.1]).max() < 0.2 * np.abs(plain.coef_ - [1.0, -0.1]).max()


def best_normal(x, y):
    """Mean and covariance of the normal with the highest bound, by quadrature and L-BFGS: standard
    normal coefficients, an intercept of sd 10."""
    design = np.column_stack([x, np.full(len(x), 10.0)])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights /= weights.sum()
    lower = np.tril_indices(3)
    sign = np.where(y, 1.0, -1.0)

    def factor(theta):
        root = np.zeros((3, 3))
        root[lower] = theta[3:]
        return root

    def minus_bound(theta):
        mean, root = theta[:3], factor(theta)
        spread = np.linalg.norm(design @ root, axis=1)
        z = (design @ mean)[:, None] + spread[:, None] * nodes
        likelihood = -np.logaddexp(0, -sign[:, None] * z) @ weights
        penalty = 0.5 * (mean @ mean + np.sum(root**2)) - np.log(np.abs(np.diag(root))).sum()
        return penalty - likelihood.sum()

    start = np.concatenate([np.zeros(3), np.eye(3)[lower]])
    theta = minimize(minus_bound, start, method="L-BFGS-B", options={"maxiter": 500}).x
    return theta[:3], factor(theta) @ factor(theta).T


def test_logistic_regression_is_the_best_normal_near_scikit_learns_and_pickles():
    y = np.where(RNG.uniform(size=120) < 1 / (1 + np.exp(-2 * Z)), "yes", "no")
    glm = vs.BayesianLogisticRegression().fit(X, y)
    peer = LogisticRegression(C=1.0).fit((X - X.mean(0)) / X.std(0), y)
    assert glm.classes_.tolist() == ["no", "yes"]
    mean, cov = best_normal((X - X.mean(0)) / X.std(0), y == "yes")
    np.testing.assert_allclose((glm.coef_ * X.std(0))[0], mean[:2], atol=0.02)
    np.testing.assert_allclose((glm.coef_std_ * X.std(0))[0], np.sqrt(np.diag(cov))[:2], rtol=0.02)
    assert glm.score(X, y) > peer.score((X - X.mean(0)) / X.std(0), y) - 0.03
    again = pickle.loads(pickle.dumps(glm))
    np.testing.assert_array_equal(again.predict_proba(X), glm.predict_proba(X))


def test_a_process_at_a_fixed_kernel_is_scikit_learns():
    x = np.linspace(-3, 3, 40)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * RNG.normal(size=40)
    gp = vs.GaussianProcessRegressor(length_scale=0.8, optimizer=None, tol=1e-7, max_iter=1000).fit(
        x, y
    )
    noise = float(gp.hyperparameters_["noise"])
    peer = TheirRegressor(RBF(0.8), alpha=noise + 1e-6, optimizer=None, normalize_y=True).fit(x, y)
    mean, sd = gp.predict(x + 0.05, return_std=True)
    theirs, spread = peer.predict(x + 0.05, return_std=True)
    np.testing.assert_allclose(mean, theirs, atol=1e-3)
    np.testing.assert_allclose(sd, np.sqrt(spread**2 + noise * y.var()), rtol=1e-3)
    np.testing.assert_allclose(
        gp.lower_bound_, peer.log_marginal_likelihood_value_ - 40 * np.log(y.std()), rtol=1e-3
    )
    learnt = vs.GaussianProcessRegressor(max_iter=300, tol=1e-3).fit(x, y)
    assert learnt.lower_bound_ > gp.lower_bound_ - 1.0
    assert learnt.score(x, y) > 0.95


def test_a_process_tells_rings_apart_as_scikit_learn_does():
    x = RNG.normal(size=(150, 2))
    y = np.digitize(np.linalg.norm(x, axis=1), [0.8, 1.5])
    gp = vs.GaussianProcessClassifier(max_iter=200, tol=1e-3).fit(x[:100], y[:100])
    peer = TheirClassifier(3.0 * RBF(1.0), optimizer=None).fit(x[:100], y[:100])
    assert gp.score(x[100:], y[100:]) >= peer.score(x[100:], y[100:]) - 0.04
    probabilities = gp.predict_proba(x[100:])
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    log_loss = lambda p: -np.log(p[np.arange(50), y[100:]]).mean()
    assert log_loss(probabilities) < log_loss(peer.predict_proba(x[100:])) + 0.05


def test_a_process_of_a_fixed_kernel_has_the_probabilities_of_scikit_learn():
    """Two classes, one of which lies between two parts of the other; theirs are by Laplace's
    approximation."""
    x = np.linspace(-3, 3, 40)[:, None]
    y = np.where(np.abs(x[:, 0]) < 1.5, "in", "out")
    gp = vs.GaussianProcessClassifier(
        length_scale=1.0, scale=2.0, optimizer=None, max_iter=50, tol=1e-2
    ).fit(x, y)
    peer = TheirClassifier(4.0 * RBF(1.0), optimizer=None).fit(x, y)
    assert gp.converged_
    assert gp.predict([[0.0], [2.8], [-2.8]]).tolist() == ["in", "out", "out"]
    at = x + 0.05
    np.testing.assert_allclose(gp.predict_proba(at), peer.predict_proba(at), atol=0.03)


def test_folds_share_programs_though_models_hold_their_data():
    y, counts = Z > 1.0, []
    for size in (115, 114, 113):
        vs.BayesianLogisticRegression(max_iter=20, tol=1.0).fit(X[:size], y[:size]).predict(
            X[size - 60 :][:60]
        )
        vs.GaussianProcessClassifier(max_iter=20, tol=1.0).fit(X[:size], y[:size]).predict(
            X[size - 60 :][:60]
        )
        counts.append(compiled())
    assert counts[0] == counts[-1]


@pytest.mark.parametrize(
    ("estimator", "y", "message"),
    [
        (vs.BayesianGLM("binomial"), Z, "likelihood: expected one of"),
        (vs.BayesianGLM("poisson"), Z - 10.0, "y: .*poisson"),
        (vs.BayesianGLM("gamma"), np.zeros(120), "y: "),
        (vs.BayesianGLM(prior_scale=0.0), Z, "prior_scale: expected a positive number"),
        (vs.GaussianProcessRegressor(max_iter=0), Z, "max_iter: expected an integer >= 1"),
        (vs.GaussianProcessRegressor("rbff"), Z, "kernel: expected a function"),
        (vs.GaussianProcessClassifier(), np.ones(120), "only one class"),
        (vs.BayesianLogisticRegression(), Z, "Unknown label type"),
    ],
)
def test_what_cannot_be_is_named(estimator, y, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)


def test_a_first_fit_compiles_few_programs():
    """In a process of its own, with nothing compiled before; 90 once, most of them single
    operations."""
    code = """
import numpy as np
from tests.programs import compiled
from vijax.sklearn import BayesianLogisticRegression
X = np.random.default_rng(0).normal(size=(100, 2))
BayesianLogisticRegression().fit(X, X[:, 0] > 0).predict(X)
print(compiled())
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert 5 < int(found.stdout) <= 30


@pytest.mark.parametrize("constant", [True, False])
def test_a_response_without_noise_is_named(constant):
    """The remedy named arguments, n_init and init_params, that a regressor does not have."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.full(40, 5.0) if constant else X @ [1.0, 2.0]
    with pytest.warns(
        ConvergenceWarning, match="X gives y exactly, or y is constant: no noise is left"
    ) as caught:
        vs.BayesianGLM(max_iter=60).fit(X, y)
    assert "n_init" not in str(caught[0].message)
    noisy = y + np.random.default_rng(1).normal(size=40)
    with pytest.warns(ConvergenceWarning, match=naming("max_iter=2", "Increase")):
        vs.BayesianGLM(max_iter=2).fit(X, noisy)
