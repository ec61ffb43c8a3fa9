"""Noise that is learnt: against the evidence in NumPy, whatever the unit and the place of the
responses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import vijax as vi
from tests.naming import naming
from vijax.models.regressions.measure import GUESS, WORTH, place_of_columns
from vijax.predict.predictive import observed_data

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)
N, D = 40, 3
X = np.column_stack([np.ones(N), RNG.normal(size=(N, D - 1))])
Y = X @ [3.0, 1.0, -2.0] + 0.4 * RNG.normal(size=N)
UNITS = [(1e-3, 0.0), (50.0, 0.0), (1e4, 1e6), (1.0, 1e6)]


def rbf(a, b):
    return jnp.exp(-0.5 * (a[:, None] - b[None]) ** 2)


def fitted(model, num_steps=40):
    return vi.fit(vi.pg_svi(model), model.data, num_steps=num_steps, key=KEY)


def by_hand(kernel, cross, own, y):
    """Noise sd, mean and variance of z at new inputs, all in units of y, at the greatest evidence
    times prior of the log precision of the noise."""
    unit = y.std()
    z = (y - y.mean()) / unit
    values, vectors = np.linalg.eigh(kernel)
    values, turned = np.maximum(values, 0.0), vectors.T @ z
    shape = 0.5 * WORTH

    def lost(log_precision):
        spread = values + np.exp(-log_precision)
        evidence = -0.5 * np.sum(np.log(spread) + turned**2 / spread)
        return -evidence - shape * log_precision + shape * GUESS**2 * np.exp(log_precision)

    best = optimize.minimize_scalar(
        lost, bounds=(-5, 15), method="bounded", options={"xatol": 1e-10}
    ).x
    inverse = np.linalg.inv(kernel + np.exp(-best) * np.eye(len(y)))
    mean, variance = cross @ inverse @ z, own - np.sum(cross @ inverse * cross, axis=1)
    return unit * np.exp(-0.5 * best), y.mean() + unit * mean, unit**2 * variance


@pytest.mark.parametrize(("unit", "place"), UNITS)
def test_a_linear_model_has_the_noise_of_the_greatest_evidence(unit, place):
    y = place + unit * Y
    fit = fitted(vi.models.glm(X, y, vi.likelihood.gaussian()))
    new = X[:5] + 0.5
    new[:, 0] = 1.0
    noise, mean, variance = by_hand(X @ X.T, new @ X.T, np.sum(new**2, axis=1), y)
    got_mean, got_variance = fit.predict(new)
    np.testing.assert_allclose(float(fit.posterior["noise"].mean()) ** -0.5, noise, rtol=1e-4)
    np.testing.assert_allclose(got_mean, mean, atol=1e-4 * unit, rtol=1e-12)
    np.testing.assert_allclose(got_variance, variance, rtol=1e-3)
    y_new = mean + 0.3 * noise
    density = stats.norm.logpdf(y_new, mean, np.sqrt(variance + noise**2)).mean()
    np.testing.assert_allclose(fit.score((new, y_new), key=KEY).mean, density, atol=2e-3)


def test_a_process_has_the_noise_of_the_greatest_evidence():
    x, new = np.linspace(0.0, 6.0, N), np.array([1.3, 2.9, 9.0])
    y = 1e6 + 50.0 * (np.sin(x) + 0.2 * RNG.normal(size=N))
    fit = fitted(vi.models.gp(x, y, rbf, vi.likelihood.gaussian(), jitter=1e-4))
    kernel = np.asarray(rbf(x, x), float) + 1e-4 * np.eye(N)
    noise, mean, variance = by_hand(kernel, np.asarray(rbf(new, x), float), 1.0, y)
    got_mean, got_variance = fit.predict(new)
    np.testing.assert_allclose(float(fit.posterior["noise"].mean()) ** -0.5, noise, rtol=1e-3)
    np.testing.assert_allclose(got_mean, mean, atol=0.05)
    np.testing.assert_allclose(got_variance, variance, rtol=2e-2)
    low, high = fit.predictive_interval(KEY, like=new)
    width = stats.norm.ppf(0.95) * np.sqrt(variance + noise**2)
    np.testing.assert_allclose(high - low, 2 * width, rtol=0.1)


def test_weights_are_in_units_of_y_and_the_law_that_was_learnt_predicts():
    fit = fitted(vi.models.glm(X, 1e6 + 50.0 * Y, vi.likelihood.gaussian()))
    model = fit.alg.spec.model
    weights, _ = model.predict(fit.posterior, np.eye(D))
    np.testing.assert_allclose(
        weights - [1e6, 0.0, 0.0], 50.0 * np.array([3.0, 1.0, -2.0]), atol=10.0
    )
    mean, variance = fit.predict(X)
    compiled = jax.jit(lambda x: model.predict(fit.posterior, x)[0])(jnp.asarray(X, jnp.float32))
    np.testing.assert_allclose(compiled, mean, rtol=1e-6)
    response = vi.models.response(model.law(fit.posterior), mean - 1e6, variance)
    y = 50.0 * Y
    inside = (y >= response.low) & (y <= response.high)
    assert 0.85 <= inside.mean() <= 1.0


def test_outliers_move_neither_place_nor_unit_under_heavy_tails():
    y = 1e-3 * Y
    y[3] = 999999.0
    fit = fitted(vi.models.glm(X, y, vi.likelihood.student_t()), 60)
    weights, _ = fit.alg.spec.model.predict(fit.posterior, np.eye(D))
    np.testing.assert_allclose(weights, [3e-3, 1e-3, -2e-3], atol=4e-4)
    assert 1e-4 < float(fit.posterior["noise"].mean()) ** -0.5 < 1e-3


def test_the_bound_is_of_y_in_its_own_units():
    bounds = [
        float(fitted(vi.models.glm(X, unit * Y, vi.likelihood.gaussian())).trace["elbo"][-1])
        for unit in (1, 50)
    ]
    assert bounds[0] - bounds[1] == pytest.approx(N * np.log(50.0), abs=1e-2)


def test_draws_at_sites_and_what_they_are_compared_with_are_in_units_of_y():
    y = 1e3 + 50.0 * Y
    fit = fitted(vi.models.glm(X, y, vi.likelihood.gaussian()))
    data = fit.alg.spec.model.data
    draws = np.asarray(fit.predictive(KEY, 200, data))
    np.testing.assert_allclose(draws.mean(axis=0), fit.predict(X)[0], atol=8.0)
    np.testing.assert_allclose(observed_data(fit, data), y, rtol=1e-5)


@pytest.mark.parametrize(
    ("y", "name"),
    [
        (np.full(N, 37.0), "a constant"),
        (np.full(N, 37e-6), "a small constant"),
        (np.zeros(N), "zeros"),
    ],
)
def test_responses_that_do_not_vary_have_little_noise(y, name):
    fit = fitted(vi.models.glm(X, y, vi.likelihood.gaussian()), 10)
    np.testing.assert_allclose(fit.predict(X)[0], y, rtol=1e-6)
    assert float(fit.posterior["noise"].mean()) ** -0.5 < 0.01 * (abs(y[0]) or 1.0)


def test_other_observations_than_those_measured_are_refused():
    model = vi.models.glm(X, Y, vi.likelihood.gaussian())
    with pytest.raises(ValueError, match=naming("data:", "model.data")):
        vi.fit(vi.pg_svi(model), {"site": np.arange(N), "y": Y}, num_steps=1, key=KEY)


def test_a_likelihood_without_its_noise_is_refused_wherever_nothing_learns_it():
    law = vi.likelihood.gaussian()
    with pytest.raises(
        ValueError,
        match=naming("likelihood:", "gaussian"),
    ):
        law.log_prob(0.0, 0.0)
    with pytest.raises(ValueError, match=naming("likelihood:", "model.law")):
        vi.models.response(law, np.zeros(1), np.ones(1))
    with pytest.raises(
        ValueError,
        match=naming("y:", "1e-12", "14"),
    ):
        vi.models.glm(X, 1e14 * Y, vi.likelihood.gaussian())


def test_known_noise_is_taken_as_it_is():
    """A ridge regression about zero, by hand."""
    fit = fitted(vi.models.glm(X, 50.0 * Y, vi.likelihood.gaussian(0.25)), 30)
    by_ridge = np.linalg.solve(X.T @ X + 0.25 * np.eye(D), X.T @ (50.0 * Y))
    np.testing.assert_allclose(
        fit.alg.spec.model.predict(fit.posterior, np.eye(D))[0], by_ridge, rtol=1e-4
    )


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.column_stack([np.arange(4.0), np.full(4, 2.0)]), [0.0, 0.5]),
        (np.eye(2)[[0, 1, 1, 0]], [1.0, 1.0]),
        (np.arange(4.0)[:, None], None),
        (np.eye(4), None),
    ],
)
def test_columns_that_add_up_to_a_constant(x, expected):
    found = place_of_columns(x)
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(found, expected, atol=1e-12)
