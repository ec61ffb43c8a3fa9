"""What a fit reports of a global: its law, or a point where the algorithm finds no more; held-out
scores read that."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

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
        (vi.ssvi, {"estimand": {"a": vi.estimand.mode()}}, ["a"]),
    ],
)
def test_algorithms_say_what_they_find(algorithm, choices, points):
    coin = vi.Beta.from_alpha_beta(2.0, 3.0)
    model = vi.model(
        {"a": coin, "b": coin}, lambda s, y, key: (y * s["a"].log + (1 - y) * s["b"].log1m, None)
    )
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
    model = vi.models.mixture(
        vi.models.emission.diagonal_gaussian(2, 1, shape=2.0), concentration=2.0
    )
    fit = vi.fit(algorithm(model), Y, num_steps=30, key=KEY)
    components, weights = (
        fit.posterior["components"].mode(),
        np.asarray(fit.posterior["weights"].mode(), float),
    )
    means, deviations = (
        np.asarray(components.mean)[:, 0],
        np.asarray(components.precision)[:, 0] ** -0.5,
    )
    wanted = np.mean(np.log(stats.norm.pdf(Y, means, deviations) @ weights))
    np.testing.assert_allclose(fit.score(Y, key=KEY).mean, wanted, rtol=1e-5)


@pytest.mark.parametrize("truncation", ["tied", pytest.param("finite", marks=pytest.mark.slow)])
def test_a_dirichlet_process_mixture_has_a_mode(truncation):
    """The last stick's mode is 1: rounded past it by the compiler, log(1 - v) was once NaN."""
    with jax.enable_x64(True):
        model = vi.models.dp_mixture(
            vi.models.emission.unit_gaussian(10, dim=1), truncation=truncation
        )
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


TINY = np.finfo(np.float32).tiny
"""The number nearest to an edge at 0 whose logarithm is had."""
EDGES = {
    "gamma": (
        Gamma.from_shape_rate,
        stats.gamma.logpdf,
        lambda a: (a, 2.0),
        lambda a: (TINY, a, 0.0, 0.5),
    ),
    "beta at 0": (
        vi.Beta.from_alpha_beta,
        stats.beta.logpdf,
        lambda a: (a, 3.0),
        lambda a: (TINY, a, 3.0),
    ),
    "beta at 1": (
        vi.Beta.from_alpha_beta,
        stats.beta.logpdf,
        lambda a: (3.0, a),
        lambda a: (TINY, a, 3.0),
    ),
    "dirichlet": (
        lambda *a: vi.Dirichlet.from_concentration(jnp.array(a)),
        lambda x, a, b, c: (
            special.gammaln(a + b + c) - special.gammaln([a, b, c]).sum() + (a + b - 2) * np.log(x)
        ),
        lambda a: (a, a, 3.0),
        lambda a: (TINY, a, a, 3.0),
    ),
}


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0, 7.0])
@pytest.mark.parametrize("name", EDGES)
def test_the_penalty_of_a_mode_at_the_edge_is_that_of_the_nearest_number_inside(name, shape):
    """There the density itself is infinite or zero (or neither, at shape 1), and an objective would
    say no more."""
    make, log_density, arguments, at = EDGES[name]
    q, prior = make(*arguments(0.7)), make(*arguments(shape))
    penalty = float(jax.jit(vi.estimand.mode().penalty)(q, prior))
    np.testing.assert_allclose(penalty, -float(log_density(*at(shape))), rtol=1e-5, atol=2e-6)


def test_inside_the_penalty_is_minus_the_log_density_at_the_mode():
    q, prior = Gamma.from_shape_rate(3.0, 2.0), Gamma.from_shape_rate(0.5, 1.0)
    np.testing.assert_allclose(
        vi.estimand.mode().penalty(q, prior), -stats.gamma.logpdf(1.0, 0.5), rtol=1e-6
    )


def test_the_objective_of_a_point_at_the_edge_is_finite_and_rises():
    """Counts of zero under a gamma of shape 1/2: the rate's mode goes to 0, whose density is
    infinite."""
    model = vi.model(
        {"rate": Gamma.from_shape_rate(0.5, 1.0)},
        lambda s, y, key: (y * s["rate"].log - s["rate"].value, None),
        init=lambda key, prior: vi.Product({"rate": Gamma.from_shape_rate(4.0, 1.0)}),
    )
    fit = vi.fit(
        vi.map(model, step_size=vi.step_size.constant(0.5)), np.zeros(5), num_steps=8, key=KEY
    )
    assert float(fit.estimates["rate"].mean()) == 0.0
    assert np.all(np.isfinite(fit.trace["elbo"]))
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-5)
    np.testing.assert_allclose(fit.trace["elbo"][-1], stats.gamma.logpdf(TINY, 0.5), rtol=1e-5)
