"""Expectations against adaptive quadrature that is told where to look, in float64; estimators
against those."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from tests.likelihoods import LIKELIHOODS
from tests.rounding import rounding
from vijax.inference import expectation, likelihood


def adaptive(function, m, v, bends):
    """E_{N(m, v)}[function(z)], adaptively, told of every length scale near every bend."""
    sd = np.sqrt(v)
    rings = np.concatenate([-np.geomspace(0.5, 3e4, 10)[::-1], [0.0], np.geomspace(0.5, 3e4, 10)])
    cuts = np.concatenate([m + sd * np.linspace(-10, 10, 9), *(bend + rings for bend in bends)])
    cuts = np.unique(np.clip(cuts, m - 10 * sd, m + 10 * sd))
    density = lambda z: (
        math.exp(-0.5 * ((z - m) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
    )  # SciPy's takes 20 times as long

    def piece(a, b):
        return integrate.quad(lambda z: function(z) * density(z), a, b, epsabs=1e-13, epsrel=1e-11)[
            0
        ]

    return sum(piece(a, b) for a, b in itertools.pairwise(cuts))


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_expectations_agree_with_adaptive_quadrature(name):
    """Closed forms where there are any, else our quadrature."""
    row = LIKELIHOODS[name]
    rng = np.random.default_rng(0)
    means = lambda v: (0.3, rng.normal(0, 3 + 3 * np.sqrt(v)))
    grid = [(y, m, v) for y in row.observations for v in row.variances for m in means(v)]
    y, m, v = map(np.array, zip(*grid, strict=True))
    with jax.enable_x64(True):
        got = jax.jit(functools.partial(expectation.exact(), row.make()))(
            *map(jnp.asarray, (y, m, v)), None
        )
        got = jax.tree.map(np.asarray, got)
    with np.errstate(over="ignore"):
        for i, (yi, mi, vi) in enumerate(grid):
            for j, field in enumerate(got._fields):
                expected = adaptive(
                    lambda z, j=j, yi=yi: row.by_hand(yi, z)[j], mi, vi, row.bends(yi)
                )
                error = abs(got[j][i] - expected) / (1 + abs(expected))
                assert error < 1e-8, (field, yi, mi, vi, got[j][i], expected)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_float32_is_right_to_float32(name):
    row = LIKELIHOODS[name]
    y = np.repeat(row.observations, len(row.variances))
    v = np.tile(row.variances, len(row.observations))
    m = np.random.default_rng(1).normal(0, 2, len(v))
    call = lambda: jax.jit(functools.partial(expectation.exact(), row.make()))
    single = call()(
        jnp.asarray(y, jnp.float32), jnp.asarray(m, jnp.float32), jnp.asarray(v, jnp.float32), None
    )
    with jax.enable_x64(True):
        double = call()(jnp.asarray(y, float), jnp.asarray(m), jnp.asarray(v), None)
    for a, b in zip(single, double, strict=True):
        assert a.dtype == jnp.float32
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["bernoulli_probit", "negative_binomial", "student_t"])
def test_few_equidistant_nodes_do_while_predictors_are_narrow(name):
    """Beside the composite rule in float64, standard deviations up to the length over which the
    likelihood bends."""
    row, rng = LIKELIHOODS[name], np.random.default_rng(0)
    y = np.repeat(row.observations, 8)
    m, part = np.float32(rng.normal(0, 4, len(y))), np.linspace(0.01, 0.999, len(y))

    def moments(kind, is_analytic=True):
        with jax.enable_x64(kind == np.float64):
            lik = row.make()
            assert lik.analytic
            v = np.float32((part * float(lik.width)) ** 2)
            lik = dataclasses.replace(lik, analytic=is_analytic)
            sites = (jnp.asarray(x, kind) for x in (y, m, v))
            return jax.jit(functools.partial(expectation.quadrature(), lik))(*sites, None)

    found, want = [moments(kind) for kind in (np.float64, np.float32)], moments(np.float64, False)
    for double, single, right in zip(*found, want, strict=True):
        np.testing.assert_allclose(double, right, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(single, right, rtol=3e-6, atol=3e-6)


def test_poisson_closed_form_and_its_limit():
    y, m = jnp.array([0.0, 3.0]), jnp.array([0.2, -1.0])
    poisson_by_nodes = jax.jit(
        functools.partial(expectation.quadrature(), likelihood.poisson_log())
    )
    for v in (1e-6, 2.0):
        with jax.enable_x64(True):
            closed = expectation.exact()(likelihood.poisson_log(), y, m, jnp.full(2, v), None)
            by_nodes = poisson_by_nodes(y, m, jnp.full(2, v), None)
        for a, b in zip(closed, by_nodes, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=rounding(b))


def test_the_value_differentiates_to_the_moments():
    """Autodiff of E[l] in m and v, through fixed nodes, is Bonnet's and Price's theorem."""
    with jax.enable_x64(True):
        y, m, v = jnp.array([1, -1, 1]), jnp.array([0.4, 2.0, -30.0]), jnp.array([1e-2, 3.0, 1e4])
        estimate = functools.partial(expectation.quadrature(), likelihood.bernoulli_logit(), y)

        def value(m, v):
            moments = estimate(m, v, None)
            return jnp.sum(moments.value), moments

        (dm, dv), moments = jax.tree.map(
            np.asarray, jax.jit(jax.grad(value, argnums=(0, 1), has_aux=True))(m, v)
        )
    np.testing.assert_allclose(dm, moments.slope, rtol=1e-9, atol=rounding(moments.slope))
    np.testing.assert_allclose(
        2 * dv, moments.curvature, rtol=1e-7, atol=rounding(moments.curvature)
    )


@pytest.mark.parametrize("name", ["bonnet_price", "reparameterised", "score_function"])
def test_monte_carlo_is_unbiased(name):
    """Six standard errors of 400 independent estimates; 27 comparisons, false alarm below 1e-7."""
    y, m, v = jnp.array([1, -1, 1]), jnp.array([0.4, 2.0, -3.0]), jnp.array([0.3, 4.0, 50.0])
    lik = likelihood.bernoulli_logit()
    exact = jax.jit(functools.partial(expectation.exact(), lik))(y, m, v, None)
    estimator = getattr(expectation, name)(num_samples=50)
    keys = jax.random.split(jax.random.key(0), 400)
    draws = jax.jit(jax.vmap(lambda key: estimator(lik, y, m, v, key)))(keys)
    for samples, truth in zip(draws, exact, strict=True):
        error = jnp.std(samples, axis=0) / np.sqrt(len(keys))
        assert np.all(np.abs(jnp.mean(samples, axis=0) - truth) < 6 * error + 1e-6)


def test_a_likelihood_of_ones_own_needs_no_derivation():
    """It is integrated by nodes, and the built-in one in closed form: they share nothing."""
    liks = (lambda y, z: jax.nn.log_sigmoid(y * z)), likelihood.bernoulli_logit()
    with jax.enable_x64(True):
        own, built_in = jax.jit(
            lambda *few: [expectation.exact()(lik, *few, None) for lik in liks]
        )(*_few())
    for a, b in zip(own, built_in, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def _few():
    return jnp.array([1, -1]), jnp.array([0.1, 5.0]), jnp.array([0.5, 100.0])


def test_jaakkola_jordan_bounds_from_below_and_touches():
    lik = likelihood.bernoulli_logit()
    jj = jax.jit(functools.partial(expectation.jaakkola_jordan(), lik))
    quadrature = jax.jit(functools.partial(expectation.exact(), lik))
    y, m = jnp.array([1, -1, 1, -1]), jnp.array([-3.0, 0.0, 2.0, 20.0])
    for v in (1e-6, 1.0, 100.0):
        bound = jj(y, m, jnp.full(4, v), None)
        exact = quadrature(y, m, jnp.full(4, v), None)
        assert np.all(bound.value <= exact.value + 1e-5)
    near = jj(y, m, jnp.full(4, 1e-6), None)
    np.testing.assert_allclose(near.value, jax.nn.log_sigmoid(y * m), atol=1e-5)
    slope = jax.grad(lambda m: jnp.sum(jj(y, m, jnp.ones(4), None).value))(m)
    np.testing.assert_allclose(jj(y, m, jnp.ones(4), None).slope, slope, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="likelihood: expected bernoulli_logit"):
        expectation.jaakkola_jordan()(likelihood.bernoulli_probit(), y, m, jnp.ones(4), None)


def test_a_likelihood_that_is_nan_somewhere_shows_in_that_site_only():
    bad = lambda y, z: jnp.where(y > 1, jnp.nan, jax.nn.log_sigmoid(y * z))
    moments = expectation.exact()(bad, jnp.array([1.0, 2.0]), jnp.zeros(2), jnp.ones(2), None)
    assert np.isnan(moments.value).tolist() == [False, True]


def test_bad_arguments():
    for make in (expectation.quadrature, expectation.score_function, expectation.bonnet_price):
        with pytest.raises(ValueError, match="num_"):
            make(0)
    with pytest.raises(ValueError, match="key: expected a random key"):
        expectation.bonnet_price()(likelihood.bernoulli_logit(), *_few(), None)
