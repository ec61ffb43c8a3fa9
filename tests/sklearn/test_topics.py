"""Topic models as estimators."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import LatentDirichletAllocation as Theirs
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

import vijax.sklearn as vs
from tests.programs import compiled

RNG = np.random.default_rng(0)
TOPICS = RNG.dirichlet(np.full(30, 0.1), size=3)
X = np.stack([RNG.multinomial(60, p @ TOPICS) for p in RNG.dirichlet(np.full(3, 0.2), size=90)])


@pytest.mark.parametrize("method", ["batch", "online", "structured"])
def test_topics_are_found(method):
    """Better than knowing word frequencies alone, and close to scikit-learn's in its own
    measure."""
    settings = {"n_components": 3, "random_state": 0, "max_iter": 20, "batch_size": 30}
    found = vs.LatentDirichletAllocation(learning_method=method, **settings).fit(X)
    frequencies = X.sum(0) / X.sum()
    alone = np.exp(-np.sum(X * np.log(np.maximum(frequencies, 1e-12))) / X.sum())
    assert found.perplexity(X) < 0.8 * alone
    peer = Theirs(learning_method="batch", **settings).fit(X)
    peer.components_ = found.components_
    peer.exp_dirichlet_component_ = found.exp_dirichlet_component_
    fitted = Theirs(learning_method="batch", **settings).fit(X).perplexity(X)
    assert peer.perplexity(X) < 1.1 * fitted
    shares = found.transform(X)
    np.testing.assert_allclose(shares.sum(1), 1.0, atol=1e-5)
    np.testing.assert_allclose(found.transform(X, normalize=False).sum(1), X.sum(1), rtol=1e-5)


def test_batch_steps_are_those_of_scikit_learn():
    """One pass of coordinate ascent from the same topics, E-steps to convergence."""
    X64 = X.astype(float)
    settings = {
        "n_components": 3,
        "max_iter": 60,
        "mean_change_tol": 1e-6,
        "max_doc_update_iter": 1000,
    }
    ours = vs.LatentDirichletAllocation(**settings, random_state=0).fit(X64)
    peer = Theirs(**settings, random_state=0).fit(X64)
    peer.components_, peer.exp_dirichlet_component_ = (
        ours.components_,
        ours.exp_dirichlet_component_,
    )
    np.testing.assert_allclose(ours.transform(X64), peer.transform(X64), atol=1e-3)
    peer._em_step(X64, total_samples=len(X), batch_update=True)
    np.testing.assert_allclose(ours.components_, peer.components_, rtol=2e-2)


def test_sparse_weights_of_any_kind_and_the_order_of_documents():
    model = vs.LatentDirichletAllocation(3, random_state=0, max_iter=3)
    shares = model.fit(X).transform(X)
    np.testing.assert_allclose(model.transform(scipy.sparse.csr_array(X)), shares, atol=1e-6)
    np.testing.assert_allclose(model.transform(X[::-1]), shares[::-1], atol=1e-5)
    assert np.all(np.isfinite(model.fit(0.3 * X).transform(0.3 * X)))
    assert model.transform(X.astype(np.float32)).dtype == np.float32


def test_partial_fit_goes_on():
    model = vs.LatentDirichletAllocation(
        3, total_samples=90, batch_size=30, learning_offset=1.0, random_state=0
    )
    scores = []
    for _ in range(6):
        scores.append(model.partial_fit(X).perplexity(X))
    assert np.all(np.diff(scores) < 0)
    whole = vs.LatentDirichletAllocation(3, max_iter=20, random_state=0).fit(X)
    assert scores[-1] < 1.15 * whole.perplexity(X)
    assert model.n_batch_iter_ == 18
    with pytest.raises(
        ValueError, match="X has 29 features, but LatentDirichletAllocation is expecting 30"
    ):
        model.partial_fit(X[:, 1:])


def test_perplexity_is_looked_at():
    model = vs.LatentDirichletAllocation(
        3, max_iter=200, evaluate_every=2, perp_tol=0.5, random_state=0
    ).fit(X)
    assert 2 <= model.n_iter_ < 60
    np.testing.assert_allclose(model.bound_, model.perplexity(X), rtol=1e-5)


def test_documents_of_folds_share_programs():
    model, counts = vs.LatentDirichletAllocation(3, max_iter=2, random_state=0), []
    for size in (88, 87, 86):
        model.fit(X[:size]).score(X[size - 30 : size])
        counts.append(compiled())
    assert counts[0] == counts[-1]


def test_in_a_pipeline_with_names_and_a_frame():
    texts = ["apples and pears", "pears and plums", "cars and trains", "trains and boats"] * 5
    model = vs.LatentDirichletAllocation(2, random_state=0, max_iter=5)
    pipeline = make_pipeline(CountVectorizer(stop_words=["and"]), model)
    pipeline.fit(texts)
    frame = model.set_output(transform="pandas").transform(pipeline[0].transform(texts))
    assert list(frame.columns) == ["latentdirichletallocation0", "latentdirichletallocation1"]
    assert frame.shape == (20, 2)


def test_correlated_topics():
    model = vs.CorrelatedTopicModel(3, random_state=0, max_iter=8).fit(X)
    assert model.perplexity(X) < 0.9 * model.components_.shape[1]
    np.testing.assert_allclose(model.transform(X).sum(1), 1.0, atol=1e-5)
    np.testing.assert_allclose(np.diag(model.topic_correlation_), 1.0, atol=1e-5)
    with pytest.raises(ValueError, match="n_components: expected an integer >= 2"):
        vs.CorrelatedTopicModel(1).fit(X)


@pytest.mark.parametrize(
    ("arguments", "data", "message"),
    [
        ({"learning_method": "offline"}, X, "learning_method: expected one of"),
        ({"doc_topic_prior": -1.0}, X, "doc_topic_prior: expected a positive number"),
        ({"max_iter": 0}, X, "max_iter: expected an integer >= 1"),
        ({}, -X, "Negative values in data passed to LatentDirichletAllocation.fit"),
        ({}, 0 * X, "X: expected documents with words, got only empty documents"),
        ({}, np.where(X > 8, np.nan, X), "Input X contains NaN"),
    ],
)
def test_what_cannot_be_is_named(arguments, data, message):
    with pytest.raises(ValueError, match=message):
        vs.LatentDirichletAllocation(**arguments).fit(data)
    with pytest.raises(NotFittedError):
        vs.LatentDirichletAllocation().transform(X)


@pytest.mark.parametrize(
    "kind", [vs.CorrelatedTopicModel, vs.LatentDirichletAllocation, vs.PoissonFactorization]
)
def test_the_type_of_counts_changes_no_answer(kind):
    """Starts and draws in float64 were others than those in float32."""
    counts = np.random.default_rng(0).poisson(0.8, (30, 8))
    model = kind(n_components=2, random_state=0, max_iter=2).fit(counts)
    shares, parts = model.transform(counts), model.components_
    for same in (counts.astype(float), counts.astype(np.float32), counts.astype(object)):
        np.testing.assert_array_equal(model.transform(same), shares)
        np.testing.assert_array_equal(model.fit(same).components_, parts)
    assert model.transform(counts.astype(float)).dtype == np.float64
    assert shares.dtype == np.float32


def test_shares_of_correlated_topics_are_near_their_exact_means():
    """Against a million weighted draws of the law of shares; a training E-step alone is off by
    .098."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(0.3, 1, (60, 3)) @ rng.gamma(0.3, 1, (3, 12)) * 3)
    model = vs.CorrelatedTopicModel(n_components=3, random_state=0, max_iter=20).fit(counts)
    z = np.random.default_rng(1).multivariate_normal(
        model.topic_mean_, model.topic_covariance_, 100_000
    )
    shares = np.exp(z - z.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    log_words = np.log(shares @ model.components_ + 1e-300)
    exact = []
    for row in counts:
        logs = log_words @ row
        weights = np.exp(logs - logs.max())
        exact.append(weights @ shares / weights.sum())
    assert np.abs(model.transform(counts) - exact).max() < 0.04


def test_the_average_of_two_fits():
    """Of a partial fit too. The probability of a document is the mean of those of both fits."""
    settings = {"n_components": 3, "random_state": 0, "batch_size": 30, "total_samples": 90}
    averaged = vs.LatentDirichletAllocation(learning_method="online", n_fits=2, **settings)
    for part in (X[:30], X[30:60], X[60:]):
        averaged.partial_fit(part)
    assert len(averaged.fit_.members) == 2
    bounds = []
    for member in averaged.fit_.members:
        alone = vs.LatentDirichletAllocation(**settings).partial_fit(X[:30])
        alone.fit_ = member
        bounds.append([alone.score(x[None]) for x in X[:5]])
    expected = np.logaddexp(*np.array(bounds)) - np.log(2)
    np.testing.assert_allclose([averaged.score(x[None]) for x in X[:5]], expected, rtol=1e-5)
    assert np.all(expected >= np.mean(bounds, axis=0) - 1e-4)
    together, single = averaged.transform(X), averaged.transform(X[7:8])
    np.testing.assert_allclose(together.sum(1), 1.0, atol=1e-5)
    np.testing.assert_allclose(single[0], together[7], rtol=1e-4)
    whole = vs.LatentDirichletAllocation(n_fits=2, max_iter=3, **settings).fit(X)
    assert whole.perplexity(X) == pytest.approx(whole.bound_)
