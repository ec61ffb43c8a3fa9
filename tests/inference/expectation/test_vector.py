"""Softmax expectations: Monte Carlo against a grid, Bohning's bound below it and tight at zero
variance."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from tests.naming import naming
from vijax.inference import expectation, likelihood
from vijax.inference.expectation.vector import gaussian_draws

COUNTS = np.array([[2.0, 0.0, 1.0]])
MEAN, COV = (
    np.array([[0.3, -1.0, 0.5]]),
    np.array([[[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]]]),
)


def by_grid():
    """30^3 points of Gauss-Hermite, in NumPy: E l, E grad, E hessian."""
    x, w = np.polynomial.hermite_e.hermegauss(30)
    z = MEAN[0] + np.array(list(itertools.product(x, x, x))) @ np.linalg.cholesky(COV[0]).T
    weight = np.prod(np.array(list(itertools.product(w, w, w))), 1)
    weight /= weight.sum()
    y = COUNTS[0]
    p = special.softmax(z, 1)
    value = stats.multinomial(3, [0.2, 0.3, 0.5]).logpmf(y) - y @ np.log([0.2, 0.3, 0.5])
    value += weight @ (z @ y - 3 * special.logsumexp(z, 1))
    hessian = -3 * np.einsum("s,sij->ij", weight, p[:, :, None] * (np.eye(3) - p[:, None, :]))
    return value, y - 3 * weight @ p, hessian


def test_monte_carlo_and_bound_against_a_grid():
    """20,000 draws: six standard errors of terms bounded by the counts."""
    lik = likelihood.softmax(3)
    args = (
        jnp.asarray(COUNTS, jnp.float32),
        jnp.asarray(MEAN, jnp.float32),
        jnp.asarray(COV, jnp.float32),
    )
    value, slope, curvature = by_grid()
    got = jax.jit(lambda key: expectation.vector_monte_carlo(20_000)(lik, *args, key))(
        jax.random.key(0)
    )
    np.testing.assert_allclose(got.value[0], value, atol=0.12)
    np.testing.assert_allclose(got.slope[0], slope, atol=0.06)
    np.testing.assert_allclose(got.curvature[0], curvature, atol=0.04)
    bohning = jax.jit(lambda *args: expectation.bohning()(lik, *args, None))
    bound = bohning(*args)
    assert float(bound.value[0]) < value
    near = bohning(args[0], args[1], 1e-8 * args[2])
    np.testing.assert_allclose(near.value, lik.log_prob(args[0][0], args[1][0])[None], rtol=1e-6)
    gap = np.linalg.eigvalsh(curvature - np.asarray(bound.curvature[0]))
    assert gap.min() > -1e-6  # the bound's curvature is the steeper one


def test_curvature_of_slopes():
    """Of as few draws as may be exact where l is quadratic; of many the Hessian's, as by the grid;
    at words of a document the slopes at each draw are those by automatic differentiation."""
    few = expectation.vector_monte_carlo(2, True, True, "slopes")
    shape = np.array([[2.0, 0.4, -0.3], [0.4, 1.0, 0.2], [-0.3, 0.2, 3.0]], np.float32)
    bowl = likelihood.VectorLikelihood(
        lambda y, z: -0.5 * (z - y) @ shape @ (z - y), "bowl", lambda y: None
    )
    args = (
        jnp.asarray(COUNTS, jnp.float32),
        jnp.asarray(MEAN, jnp.float32),
        jnp.asarray(COV, jnp.float32),
    )
    got = few(bowl, *args, jax.random.key(0))
    gap = MEAN[0] - COUNTS[0]
    np.testing.assert_allclose(got.curvature[0], -shape, atol=2e-5)
    np.testing.assert_allclose(got.slope[0], -shape @ gap, rtol=1e-5)
    np.testing.assert_allclose(
        got.value[0], -0.5 * (gap @ shape @ gap + np.sum(shape * COV[0])), rtol=1e-5
    )
    many = expectation.vector_monte_carlo(20_000, True, True, "slopes")
    for made, expected in zip(
        many(likelihood.softmax(3), *args, jax.random.key(0)), by_grid(), strict=True
    ):
        np.testing.assert_allclose(made[0], expected, atol=0.02)
    words = likelihood.softmax_mixture()
    z = np.array([[0.3, -1.0, 0.5], [2.0, 0.1, -3.0]], np.float32)
    own, slopes = words.slopes((ROWS, WORDS), z)
    each = jax.vmap(jax.value_and_grad(lambda x: words.log_prob((ROWS, WORDS), x)))(z)
    np.testing.assert_allclose(own, each[0], rtol=1e-6)
    np.testing.assert_allclose(slopes, each[1], atol=1e-5)


@pytest.mark.parametrize("pairs", [2, 3, 8])
def test_matched_draws_have_the_mean_and_covariance_asked_for(pairs):
    """Of fewer pairs than dimensions, orthogonal shifts of length sqrt(K) in the metric of V."""
    factor = np.linalg.cholesky(COV).astype(np.float32)
    draws = gaussian_draws(
        jax.random.key(0), jnp.asarray(MEAN, jnp.float32), factor, 2 * pairs, matched=True
    )
    np.testing.assert_allclose(np.mean(draws[0], 0), MEAN[0], atol=1e-6)
    shift = np.asarray(draws[0], np.float64) - MEAN[0]
    if pairs < 3:
        standard = np.linalg.solve(np.linalg.cholesky(COV[0]), shift[:pairs].T)
        np.testing.assert_allclose(standard.T @ standard, 3 * np.eye(pairs), atol=1e-5)
    else:
        np.testing.assert_allclose(shift.T @ shift / (2 * pairs), COV[0], atol=1e-6)


def test_bad_input():
    with pytest.raises(ValueError, match=r"softmax expects 3 counts.* at site 1"):
        likelihood.softmax(3).check(np.array([[1, 0, 0], [1, -1, 0]]))
    with pytest.raises(ValueError, match="key"):
        expectation.vector_monte_carlo()(likelihood.softmax(3), COUNTS, MEAN, COV, None)
    other = likelihood.VectorLikelihood(lambda y, z: 0.0, "mine", lambda y: None)
    for bound in (expectation.bohning(), expectation.blei_lafferty()):
        with pytest.raises(ValueError, match="likelihood: expected softmax"):
            bound(other, COUNTS, MEAN, COV, None)
    with pytest.raises(ValueError, match="num_samples: expected an even number"):
        expectation.vector_monte_carlo(3, antithetic=True)
    with pytest.raises(ValueError, match=naming("curvature:", "'hessians'")):
        expectation.vector_monte_carlo(4, antithetic=True, curvature="slopes")
    with pytest.raises(ValueError, match=naming("curvature:", "'hessians'", "'slopes'")):
        expectation.vector_monte_carlo(4, curvature="stein")
    with pytest.raises(ValueError, match=r"softmax_mixture expects counts >= 0"):
        likelihood.softmax_mixture().check((np.ones((2, 3)), np.array([1.0, -1.0])))


ROWS, WORDS = (
    np.array([[0.9, 0.1, 0.3], [0.2, 1.0, 0.05], [0.5, 0.5, 1.0], [1.0, 1.0, 1.0]]),
    np.array([3.0, 1.0, 5.0, 0.0]),
)


def mixture_by_grid(m, cov):
    """E l of `softmax_mixture` by 20^3 points of Gauss-Hermite, in NumPy."""
    x, w = np.polynomial.hermite_e.hermegauss(20)
    z = m + np.array(list(itertools.product(x, x, x))) @ np.linalg.cholesky(cov).T
    weight = np.prod(np.array(list(itertools.product(w, w, w))), 1)
    return weight @ (np.log(special.softmax(z, 1) @ ROWS.T) @ WORDS) / weight.sum()


def test_mixture_derivatives_in_closed_form_are_those_of_autodiff():
    with jax.enable_x64(True):
        lik, y = likelihood.softmax_mixture(), (jnp.asarray(ROWS), jnp.asarray(WORDS))
        z = jnp.asarray(np.random.default_rng(0).normal(size=(7, 3)) * 2)
        value, slope, curvature = lik.averages(y, z)
        np.testing.assert_allclose(
            value, jnp.mean(jax.vmap(lambda x: lik.log_prob(y, x))(z)), rtol=1e-12
        )
        np.testing.assert_allclose(
            slope, jnp.mean(jax.vmap(jax.grad(lik.log_prob, 1), (None, 0))(y, z), 0), atol=1e-12
        )
        hessian = jnp.mean(jax.vmap(jax.hessian(lik.log_prob, 1), (None, 0))(y, z), 0)
        np.testing.assert_allclose(curvature, hessian, atol=1e-12)


def test_mixture_derivatives_in_float32_where_shares_and_words_are_all_but_impossible():
    z = np.array([[50.0, 0.0, -60.0], [0.0, 30.0, -30.0], [-90.0, 20.0, 0.0]])
    averages = jax.jit(lambda y, z: likelihood.softmax_mixture().averages(y, z))
    with jax.enable_x64(True):
        exact = averages((1e-25 * ROWS, WORDS), z)
    narrow = [np.asarray(x, np.float32) for x in (1e-25 * ROWS, WORDS, z)]
    for got, expected in zip(averages(tuple(narrow[:2]), narrow[2]), exact, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-6)


def test_mixture_expectations_against_finite_differences_of_quadrature():
    """g = dE/dm and Gamma = -2 dE/dV. Bounds lie below E l; the delta method is near it where the
    variance is small."""
    m, cov, h, eye = MEAN[0], COV[0], 1e-4, np.eye(3)
    slope = [
        (mixture_by_grid(m + h * e, cov) - mixture_by_grid(m - h * e, cov)) / (2 * h) for e in eye
    ]
    moves = [[0.5 * h * (np.outer(a, b) + np.outer(b, a)) for b in eye] for a in eye]
    curvature = [
        [(mixture_by_grid(m, cov + d) - mixture_by_grid(m, cov - d)) / h for d in row]
        for row in moves
    ]
    with jax.enable_x64(True):
        lik, y = likelihood.softmax_mixture(), (jnp.asarray(ROWS[None]), jnp.asarray(WORDS[None]))
        at = lambda e, v: e(lik, y, jnp.asarray(MEAN), jnp.asarray(v[None]), jax.random.key(0))
        drawn = at(expectation.vector_monte_carlo(10_000, antithetic=True), cov)
        np.testing.assert_allclose(drawn.value[0], mixture_by_grid(m, cov), atol=0.06)
        np.testing.assert_allclose(drawn.slope[0], slope, atol=0.06)
        np.testing.assert_allclose(drawn.curvature[0], curvature, atol=0.06)
        for bound in (expectation.bohning(), expectation.blei_lafferty()):
            assert float(at(bound, cov).value[0]) < mixture_by_grid(m, cov)
        small = at(expectation.delta_method(), 1e-3 * cov).value[0]
        np.testing.assert_allclose(small, mixture_by_grid(m, 1e-3 * cov), rtol=1e-5)


@pytest.mark.parametrize("name", ["bohning", "blei_lafferty", "delta_method", "laplace"])
def test_slope_and_curvature_are_derivatives_of_the_value(name):
    """dE/dm and 2 dE/dV of what each claims E l to be (Laplace's, which has no V, in m alone)."""
    with jax.enable_x64(True):
        lik, y = likelihood.softmax_mixture(), (jnp.asarray(ROWS[None]), jnp.asarray(WORDS[None]))
        estimate = lambda m, v: getattr(expectation, name)()(lik, y, m, v, None)
        got = estimate(jnp.asarray(MEAN), jnp.asarray(COV))
        by_m, by_v = jax.grad(lambda m, v: estimate(m, v).value[0], (0, 1))(
            jnp.asarray(MEAN), jnp.asarray(COV)
        )
        np.testing.assert_allclose(got.slope, by_m, atol=1e-10)
        if name != "laplace":
            np.testing.assert_allclose(got.curvature, by_v + jnp.swapaxes(by_v, 1, 2), atol=1e-10)


def test_bohnings_bound_is_its_formula_for_counts():
    """l(m) - W tr(A V) / 2 with A = (I - 11'/K) / 2; W = 3 tokens."""
    lik = likelihood.softmax(3)
    args = tuple(np.asarray(x, np.float32) for x in (COUNTS, MEAN, COV))
    loss = 3 * np.trace(0.5 * (np.eye(3) - 1 / 3) @ COV[0]) / 2
    expected = jax.jit(lik.log_prob)(args[0][0], args[1][0]) - loss
    value = jax.jit(lambda *args: expectation.bohning()(lik, *args, None).value)(*args)
    np.testing.assert_allclose(value[0], expected, rtol=1e-6)
