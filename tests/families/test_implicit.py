"""Implicit reparameterisation against closed forms, and against derivatives of expectations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammainc, ndtr
from jax.scipy.stats import gamma, norm
from scipy import stats as sps

import vijax as vi
from tests.naming import naming

KEY = jax.random.key(0)
NORMAL = {"cdf": lambda x, p: norm.cdf(x, *p), "log_prob": lambda x, p: norm.logpdf(x, *p)}


def test_a_normal_moves_as_its_mean_and_scale_do():
    z = jnp.linspace(-3.0, 3.0, 7)
    at = lambda m, s: vi.implicit(m + s * z, (m, s), **NORMAL)
    m, s = jnp.float32(0.5), jnp.float32(2.0)
    np.testing.assert_array_equal(at(m, s), m + s * z)
    x = at(m, s)  # the draws that are given carry no derivative of their own
    d_m, d_s = jax.jacfwd(lambda m, s: vi.implicit(x, (m, s), **NORMAL), (0, 1))(m, s)
    np.testing.assert_allclose(d_m, np.ones(7), rtol=1e-4)
    np.testing.assert_allclose(d_s, z, rtol=1e-4)
    np.testing.assert_allclose(jax.jacrev(lambda s: at(m, s))(s), z, rtol=1e-4)


def test_second_derivatives():
    """E x^2 = m^2 + s^2; of an exponential x = -log(u) / r, where d^2 x / dr^2 = 2 x / r^2."""
    with jax.enable_x64(True):
        z = jnp.array([-1.3, 0.2, 2.0])
        square = lambda s: vi.implicit(1.0 + 2.0 * z, (1.0, s), **NORMAL) ** 2
        np.testing.assert_allclose(jax.jacfwd(jax.jacfwd(square))(2.0), 2 * z**2, rtol=1e-9)
        law = {"cdf": lambda x, r: -jnp.expm1(-r * x), "log_prob": lambda x, r: jnp.log(r) - r * x}
        x = jnp.array([0.1, 1.0, 4.0])
        curve = jax.jacfwd(jax.jacrev(lambda r: vi.implicit(x, r, **law)))(1.5)
        np.testing.assert_allclose(curve, 2 * x / 1.5**2, rtol=1e-9)


def test_gamma_draws_move_as_those_of_the_family():
    """Its polynomial of the elasticity, at the same draws; under jit and vmap."""
    a = jnp.array([0.6, 2.5, 20.0])
    law = {"cdf": lambda x, a: gammainc(a, x), "log_prob": gamma.logpdf}
    x, expected = jax.jvp(lambda a: vi.Gamma(a, -jnp.ones(3)).sample(KEY), (a,), (jnp.ones(3),))
    one = lambda x, a: jax.grad(lambda a: vi.implicit(x, a, **law))(a)
    np.testing.assert_allclose(jax.jit(jax.vmap(one))(x, a), expected, rtol=2e-4)


def test_a_truncated_normal_moves_as_its_quantile_does():
    """A normal given x > 0, against SciPy's quantile function by differences."""
    law = {
        "cdf": lambda x, m: 1 - ndtr(m - x) / ndtr(m),
        "log_prob": lambda x, m: norm.logpdf(x - m) - jnp.log(ndtr(m)),
    }
    u, m, h = np.array([0.1, 0.5, 0.99]), -0.7, 1e-5
    quantile = lambda m: sps.truncnorm(-m, np.inf, m).ppf(u)
    with jax.enable_x64(True):
        got = jax.jit(jax.jacfwd(lambda m: vi.implicit(jnp.asarray(quantile(-0.7)), m, **law)))(m)
    np.testing.assert_allclose(got, (quantile(m + h) - quantile(m - h)) / (2 * h), rtol=1e-6)


def test_the_gradient_of_an_expectation_under_a_mixture_which_has_no_quantile():
    """E x^2 of two normals in their weight: (m1^2 - m2^2); from 40,000 draws, at 6 standard
    errors."""
    means, rng = np.array([-1.0, 2.0]), np.random.default_rng(0)
    weigh = lambda w, parts: w * parts[0] + (1 - w) * parts[1]
    law = {
        "cdf": lambda x, w: weigh(w, [ndtr(x - m) for m in means]),
        "log_prob": lambda x, w: jnp.log(weigh(w, [norm.pdf(x, m) for m in means])),
    }
    x = jnp.float32(rng.normal(size=40_000) + means[(rng.uniform(size=40_000) > 0.3).astype(int)])
    slopes = np.asarray(
        jax.jit(jax.jacfwd(lambda w: vi.implicit(x, w, **law) ** 2))(np.float32(0.3)), np.float64
    )
    assert abs(slopes.mean() - (1.0 - 4.0)) < 6 * slopes.std() / 200


def test_wrong_functions_and_draws_are_refused():
    with pytest.raises(
        ValueError,
        match=naming("cdf:", "(2,)", "shape ()"),
    ):
        vi.implicit(jnp.zeros(2), 1.0, cdf=lambda x, p: jnp.sum(x), log_prob=lambda x, p: x)
    with pytest.raises(ValueError, match=r"^log_prob: .* got shape \(3, 2\)"):
        vi.implicit(jnp.zeros(2), jnp.ones((3, 1)), cdf=lambda x, p: x, log_prob=lambda x, p: x * p)
    with pytest.raises(ValueError, match=r"^x: expected numbers"):
        vi.implicit("a", 1.0, cdf=lambda x, p: x, log_prob=lambda x, p: x)
