"""Expectations of log sigma(z) in closed form, against sums of 30 digits that converge
geometrically."""

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.families.oracles import mp
from vijax.inference.likelihood import bernoulli_logit, log_sigmoid

MEANS, VARIANCES = (0.0, 0.3, -2.0, 8.0, 30.0), (1e-8, 1e-3, 0.25, 4.0, 100.0)
GRID = np.array([(m, v) for m in MEANS for v in VARIANCES])


@functools.cache
def truth(single):
    """E l, E l', E l'' at the grid's numbers in float32 or float64, by the trapezoidal rule: sigma
    has its poles at odd multiples of i pi, so that steps of length h / s in z, h below 0.45, have
    an error below exp(-2 pi^2 / 0.45)."""
    found = []
    for m, v in GRID.astype(np.float32).astype(float) if single else GRID:
        with mp.workdps(30):
            m, s = mp.mpf(m), mp.sqrt(mp.mpf(v))
            h = min(mp.mpf("0.45"), mp.mpf("0.45") / s)
            total = [mp.mpf(0)] * 3
            for i in range(-int(15 / h), int(15 / h) + 1):
                x = h * i
                z, weight = m + s * x, h * mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)
                u = mp.exp(-abs(z))
                terms = min(z, 0) - mp.log1p(u), (u if z > 0 else 1) / (1 + u), -u / (1 + u) ** 2
                total = [t + weight * new for t, new in zip(total, terms, strict=True)]
            found.append([float(t) for t in total])
    return np.array(found)


@pytest.mark.parametrize(("single", "rtol"), [(True, 6e-6), (False, 2e-13)])
def test_every_moment_has_its_digits_also_where_it_is_tiny(single, rtol):
    """At m = 30, v = 1e-8, say, E l' is 9e-14."""
    with jax.enable_x64(not single):
        m, v = jnp.asarray(GRID.T, jnp.float32 if single else jnp.float64)
        got = jax.jit(jax.vmap(log_sigmoid.log_sigmoid_moments))(m, v)
    assert got.value.dtype == (jnp.float32 if single else jnp.float64)
    np.testing.assert_allclose(np.stack(got, 1), truth(single), rtol=rtol)
    assert np.min(np.abs(truth(single))) < 1e-12


def test_the_polynomial_has_the_error_that_is_claimed():
    """u / (1 + u) - sum d_k u^k is exactly T(1 - 2u) / T(3) of it."""
    for n in log_sigmoid.TERMS.values():
        weights = log_sigmoid._alternating(n)
        basis = lambda x, n=n: np.polynomial.chebyshev.chebval(x, [0] * n + [1])
        for u in (0.0, 0.1, 0.5, 0.93, 1.0):
            exact = sum(Fraction(d) * Fraction(u) ** k for k, d in enumerate(weights))
            gap = 1 - float(exact * (1 + Fraction(u)))
            assert gap == pytest.approx(basis(1 - 2 * u) / basis(3.0), abs=2e-15)
        assert 1 / basis(3.0) < (2e-9 if n == log_sigmoid.TERMS[True] else 4e-17)


def test_derivatives_are_the_moments_and_go_on():
    """Bonnet and Price, to the third order, beside the same derivatives by central differences."""
    with jax.enable_x64(True):
        m, v, h = np.float64(0.7), np.float64(1.3), 1e-4
        f = jax.jit(log_sigmoid.log_sigmoid_moments)
        value = lambda m, v: f(m, v).value
        dm, dv = jax.jit(jax.grad(value, (0, 1)))(m, v)
        third = jax.jit(jax.grad(lambda m: f(m, v).curvature))(m)
        mixed = jax.jit(jax.grad(jax.grad(value, 1), 0))(m, v)
        by_differences = (f(m + h, v).curvature - f(m - h, v).curvature) / (2 * h)
        assert float(dm) == pytest.approx(float(f(m, v).slope), rel=1e-12)
        assert float(2 * dv) == pytest.approx(float(f(m, v).curvature), rel=1e-12)
        assert float(third) == pytest.approx(float(by_differences), rel=1e-6)
        assert float(2 * mixed) == pytest.approx(float(third), rel=1e-12)


def test_the_probability_of_a_label_in_float32():
    """E sigma(y z), to the digits of float32 in both tails."""
    m, v = np.asarray(GRID.T, np.float32)
    other = jax.jit(jax.vmap(bernoulli_logit().density, (None, 0, 0)))(-1, m, v)
    np.testing.assert_allclose(other, truth(True)[:, 1], rtol=6e-6)
