"""The package: what importing it needs, other processes, and the examples of scikit-learn's
documentation in short."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV

import vijax.sklearn as vs
from tests.naming import naming
from vijax.sklearn.parts import base

IRIS, LABELS = load_iris(return_X_y=True)


def said(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_scikit_learn_is_imported_where_it_is_asked_for():
    program = (
        "import sys, vijax; print('sklearn' in sys.modules); sys.modules['sklearn'] = None; "
        "import vijax.sklearn"
    )
    missing = said(program)
    assert missing.stdout == "False\n"
    expected = (
        "sklearn is needed for this and is not installed: pip install scikit-learn (in a clone: "
        'pip install -e ".['
    )
    assert expected + 'sklearn]")' in missing.stderr


def test_searches_in_other_processes():
    grid = GridSearchCV(
        vs.GaussianMixture(2, tol=1e-2, random_state=0),
        {"covariance_type": ["diag"]},
        cv=2,
        n_jobs=2,
    )
    alone = GridSearchCV(
        vs.GaussianMixture(2, tol=1e-2, random_state=0), {"covariance_type": ["diag"]}, cv=2
    )
    np.testing.assert_allclose(grid.fit(IRIS).best_score_, alone.fit(IRIS).best_score_, rtol=1e-9)


def test_which_covariance_by_the_information_criterion():
    """Ellipses of one shape at two places: BIC chooses two components of a tied covariance."""
    rng = np.random.default_rng(0)
    shape = np.array([[0.0, -0.1], [1.7, 0.4]])
    X = np.concatenate(
        [rng.normal(size=(150, 2)) @ shape, rng.normal(size=(150, 2)) @ shape + [-6.0, 3.0]]
    )

    def bic(estimator, X):
        return -estimator.bic(X)

    choices = {"n_components": [1, 2], "covariance_type": ["tied", "diag"]}
    grid = GridSearchCV(
        vs.GaussianMixture(random_state=0, max_iter=300), choices, scoring=bic, cv=3
    ).fit(X)
    assert grid.best_params_ == {"n_components": 2, "covariance_type": "tied"}


def test_each_class_is_a_component():
    """Centres of the classes as starts, and the components are the classes again, for every kind of
    covariance."""
    estimator = vs.GaussianMixture(3, max_iter=50, random_state=0)
    estimator.means_init = np.array([IRIS[k == LABELS].mean(axis=0) for k in range(3)])
    accuracy = {}
    for kind in ("spherical", "full"):
        accuracy[kind] = np.mean(
            estimator.set_params(covariance_type=kind).fit(IRIS).predict(IRIS) == LABELS
        )
    assert min(accuracy.values()) > 0.85
    assert accuracy["full"] > 0.95


@pytest.mark.parametrize("prior", ["dirichlet_process", "dirichlet_distribution"])
def test_components_that_are_not_needed_lose_their_weight(prior):
    rng = np.random.default_rng(0)
    X = np.concatenate(
        [rng.normal(m, 0.3, (100, 2)) for m in ((0.0, -0.7), (0.0, 0.0), (0.0, 4.0))]
    )
    mixture = vs.BayesianGaussianMixture(
        n_components=6,
        weight_concentration_prior_type=prior,
        weight_concentration_prior=1e-3,
        mean_precision_prior=0.8,
        random_state=0,
        max_iter=1500,
    ).fit(X)
    assert np.sum(mixture.weights_ > 0.02) <= 4


def test_topics_of_texts():
    """As in the example on topic extraction: counts of words, a few passes online, the best words
    of each topic."""
    texts = [
        "the cat and the dog",
        "a dog barks at a cat",
        "stocks and bonds fell",
        "bonds rose as stocks fell",
    ] * 30
    words = CountVectorizer(max_features=1000, stop_words="english")
    counts = words.fit_transform(texts)
    settings = {
        "learning_method": "online",
        "learning_offset": 50.0,
        "max_iter": 5,
        "batch_size": 30,
    }
    lda = vs.LatentDirichletAllocation(n_components=2, random_state=0, **settings).fit(counts)
    names = words.get_feature_names_out()
    best = [{names[i] for i in topic.argsort()[::-1][:2]} for topic in lda.components_]
    assert {"cat", "dog"} in best
    assert lda.transform(counts[-2:]).shape == (2, 2)


def test_parts_of_texts_by_matrix_factorisation():
    """The same example's other half: parts of a sparse matrix of weighted words (here a
    gamma-Poisson NMF)."""
    texts = ["cat dog cat pet", "dog barks cat", "stocks bonds fell", "bonds rose stocks fell"] * 20
    words = TfidfVectorizer()
    weights = words.fit_transform(texts)
    nmf = vs.GammaPoissonNMF(n_components=2, random_state=0, max_iter=100).fit(weights)
    names = words.get_feature_names_out()
    best = [{names[i] for i in part.argsort()[::-1][:2]} for part in nmf.components_]
    assert {"cat", "dog"} in best
    assert any(found <= {"stocks", "bonds", "fell"} for found in best)
    shares = nmf.transform(weights)
    assert np.all(shares[0].argmax() == shares[1].argmax() != shares[2].argmax())


def test_how_many_components_by_the_information_criterion_alone():
    """The lowest BIC of one to four components, by hand as in the example on model selection; AIC
    is beside it."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 1.0, size=(80, 1)) for m in (-6.0, 0.0, 6.0)])
    fits = [vs.GaussianMixture(k, random_state=0, n_init=3, tol=1e-4).fit(X) for k in (1, 2, 3, 4)]
    assert int(np.argmin([fit.bic(X) for fit in fits])) == 2
    k = 3 * 3 - 1  # means, variances, weights
    assert fits[2].bic(X) == pytest.approx(-2 * 240 * fits[2].score(X) + k * np.log(240))
    assert fits[2].aic(X) == pytest.approx(-2 * 240 * fits[2].score(X) + 2 * k)


@pytest.mark.parametrize(
    "estimator",
    [
        vs.PoissonMixture(2, max_iter=3, random_state=0),
        vs.GammaPoissonNMF(2, max_iter=3, random_state=0),
        pytest.param(vs.BayesianGLM("poisson", max_iter=5), marks=pytest.mark.slow),
        vs.BayesianLogisticRegression(max_iter=5),
    ],
    ids=lambda row: type(row).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sparse_matrices_give_what_dense_ones_do(estimator):
    X = np.random.default_rng(0).poisson(1.0, size=(20, 4)).astype(float)
    y = (X[:, 0] > 0).astype(int)
    name = next(n for n in ("predict_proba", "predict", "transform") if hasattr(estimator, n))
    both = []
    for rows in (X, scipy.sparse.csr_array(X)):
        both.append(getattr(clone(estimator).fit(rows, y), name)(rows))
    np.testing.assert_allclose(both[0], both[1], rtol=1e-9)


def test_others_refuse_sparse_matrices_in_scikit_learns_words(monkeypatch):
    X = scipy.sparse.csr_array(np.eye(4))
    for estimator in (vs.GaussianMixture(), vs.FactorAnalysis(), vs.GaussianProcessClassifier()):
        with pytest.raises(TypeError, match=r"Sparse data was passed.*dense data is required"):
            estimator.fit(X, [0, 1, 0, 1])
    monkeypatch.setattr(base, "total_memory", lambda: 100.0)
    with pytest.raises(ValueError, match=naming("X:", "50 bytes", "128")):
        vs.PoissonMixture().fit(X)
