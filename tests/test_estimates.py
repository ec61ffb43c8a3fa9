"""What a fit reports of a global: its law, or a point where the algorithm finds no more; held-out scores read that."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax.families import Gamma, Point

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
Y = RNG.normal(size=(60, 1)) + np.repeat([[-3.0], [3.0]], 30, axis=0)


@pytest.mark.parametrize(
    ("algorithm", "choices", "points"),
    [
        (vi.cavi, {}, []),
        (vi.ssvi, {}, []),
        (vi.map, {}, ["a", "b"]),
        (vi.cavi, {"estimand": {"b": vi.estimand.maximum_likelihood()}}, ["b"]),
        (vi.em, {"estimand": {"b": vi.estimand.distribution()}}, ["a"]),
        (vi.ssvi, {"points": ("a",)}, ["a"]),
    ],
)
def test_algorithms_say_what_they_find(algorithm, choices, points):
    coin = vi.Beta.from_alpha_beta(2.0, 3.0)
    model = vi.model({"a": coin, "b": coin}, lambda s, y, key: (y * s["a"].log + (1 - y) * s["b"].log1m, None))
    spec = algorithm(model, **choices).spec
    assert [name for name in ("a", "b") if spec.is_point(name)] == points


def test_a_point_is_the_mode_of_its_law():
    law = Gamma.from_shape_rate(jnp.array([3.0, 5.0]), 2.0)
    point = Point(law)
    np.testing.assert_allclose(point.mean(), [1.0, 2.0])
    np.testing.assert_allclose(point.expected_stats().log, np.log([1.0, 2.0]), atol=1e-6)
    assert jax.tree.leaves(point) == jax.tree.leaves(law)


@pytest.mark.parametrize("algorithm", [vi.em, vi.map])
def test_a_mixture_of_points_is_scored_at_them(algorithm):
    """Not at the predictive density of the law that keeps the statistics of the point."""
    model = vi.models.mixture(vi.models.emission.diagonal_gaussian(2, 1, shape=2.0), concentration=2.0)
    fit = vi.fit(algorithm(model), Y, num_steps=30, key=KEY)
    components, weights = fit.posterior["components"].mode(), np.asarray(fit.posterior["weights"].mode(), float)
    means, deviations = np.asarray(components.mean)[:, 0], np.asarray(components.precision)[:, 0] ** -0.5
    wanted = np.mean(np.log(stats.norm.pdf(Y, means, deviations) @ weights))
    np.testing.assert_allclose(fit.score(Y, key=KEY).mean, wanted, rtol=1e-5)


@pytest.mark.parametrize("truncation", ["tied", pytest.param("finite", marks=pytest.mark.slow)])
def test_a_dirichlet_process_mixture_has_a_mode(truncation):
    """The last stick's mode is 1: rounded past it by the compiler, log(1 - v) was once NaN."""
    with jax.enable_x64(True):
        model = vi.models.dp_mixture(vi.models.emission.unit_gaussian(10, dim=1), truncation=truncation)
        fit = vi.fit(vi.map(model), Y, num_steps=25, key=KEY)
        assert np.all(np.diff(fit.trace["elbo"]) > -1e-9 * np.abs(fit.trace["elbo"][1:]))
        sticks = np.asarray(fit.posterior["sticks"].mode())
        weights = sticks * np.concatenate([[1.0], np.cumprod(1 - sticks)[:-1]])
        weights = np.append(weights, 1 - weights.sum())
        means = np.asarray(fit.posterior["components"].mode())[:, 0]
        density = stats.norm.pdf(Y, means) @ weights[:10] + (
            weights[10] * stats.norm.pdf(Y[:, 0], 0, np.sqrt(101)) if truncation == "tied" else 0.0
        )
        np.testing.assert_allclose(fit.score(Y, key=KEY).mean, np.mean(np.log(density)), rtol=1e-6)


def test_topics_of_em_are_scored_smoothed():
    """At the mode a word that no training document holds has probability zero."""
    documents = vi.data.Corpus.from_counts(np.array([[5, 3, 0, 0], [0, 4, 6, 0]]))
    fit = vi.fit(vi.em(vi.models.lda(2, 4)), documents, num_steps=5, key=KEY)
    assert float(np.asarray(fit.estimates["topics"].mean())[:, 3].max()) < 1e-6
    score = fit.score(vi.data.Corpus.from_counts(np.array([[3, 3, 2, 4]])), key=KEY)
    assert np.isfinite(score.mean)
