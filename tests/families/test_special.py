"""Special functions against mpmath: values, first and second derivatives, both precisions."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from vijax.families.numeric import special
from vijax.families.numeric.excess import less_half_product, log_excess, product_difference
from vijax.families.numeric.logistic import log_sigmoid, softplus

mpmath.mp.dps = 40
ARGUMENTS = np.float32(np.r_[10.0 ** np.linspace(-3, 8, 60), np.linspace(0.5, 3, 30)])

EXACT = {
    "log_gamma": mpmath.loggamma,
    "digamma": mpmath.digamma,
    "trigamma": lambda x: mpmath.psi(1, x),
    "legendre_gap": lambda x: mpmath.loggamma(x) - x * mpmath.digamma(x) + x,
    "stirling_gap": lambda x: mpmath.loggamma(x) - x * mpmath.log(x) + x,
    "log_minus_digamma": lambda x: mpmath.log(x) - mpmath.digamma(x),
    "trigamma_excess": lambda x: x * mpmath.psi(1, x) - 1,
    "inverse_trigamma": lambda x: 1 / mpmath.psi(1, x),
    "trigamma_deficit": lambda x: x - 1 / mpmath.psi(1, x),
    "relative_trigamma_deficit": lambda x: 1 - 1 / (x * mpmath.psi(1, x)),
}
HAVE_ROOTS = ("log_gamma", "digamma", "legendre_gap", "stirling_gap")
"""Functions that cross zero: there the error is absolute."""


def exact(name: str, order: int = 0) -> np.ndarray:
    f = EXACT[name]
    points = [mpmath.mpf(float(x)) for x in ARGUMENTS]
    if order == 0:
        return np.array([float(f(x)) for x in points])
    return np.array([float(mpmath.diff(f, x, order, h=x * mpmath.mpf(10) ** -10)) for x in points])


def error(name: str, got: jax.Array, want: np.ndarray) -> float:
    scale = np.maximum(1.0, np.abs(want)) if name in HAVE_ROOTS else np.abs(want)
    return float(np.max(np.abs(np.asarray(got, np.float64) - want) / scale))


@pytest.mark.parametrize("name", EXACT)
def test_values(name: str) -> None:
    want, f = exact(name), jax.jit(getattr(special, name))
    tolerance = 2e-6 if name == "log_minus_digamma" else 4e-7
    assert error(name, f(ARGUMENTS), want) < tolerance
    with jax.enable_x64(True):
        assert error(name, f(jnp.asarray(ARGUMENTS, jnp.float64)), want) < 1e-13


@pytest.mark.parametrize(
    "name", ["log_gamma", "digamma", "trigamma", "legendre_gap", "log_minus_digamma"]
)
def test_first_derivatives_are_as_exact_as_values(name: str) -> None:
    want, f = exact(name, 1), jax.jit(jax.vmap(jax.grad(getattr(special, name))))
    got = np.asarray(f(ARGUMENTS), np.float64)
    assert np.max(np.abs(got - want) / (np.abs(want) + (name == "log_gamma"))) < 2e-6
    with jax.enable_x64(True):
        got = np.asarray(f(jnp.asarray(ARGUMENTS, jnp.float64)))
        assert np.max(np.abs(got - want) / (np.abs(want) + (name == "log_gamma"))) < 1e-12


@pytest.mark.parametrize(
    "name", ["inverse_trigamma", "trigamma_deficit", "relative_trigamma_deficit"]
)
def test_first_derivatives_of_the_fisher_combinations(name: str) -> None:
    want, f = exact(name, 1), jax.jit(jax.vmap(jax.grad(getattr(special, name))))
    assert np.max(np.abs(np.asarray(f(ARGUMENTS)) - want) / np.maximum(np.abs(want), 1e-2)) < 1e-4
    with jax.enable_x64(True):
        got = f(jnp.asarray(ARGUMENTS, jnp.float64))
        assert np.max(np.abs(np.asarray(got) - want) / np.maximum(np.abs(want), 1e-6)) < 1e-8


@pytest.mark.parametrize("name", ["log_gamma", "digamma", "legendre_gap"])
def test_second_derivatives(name: str) -> None:
    want, f = exact(name, 2), jax.jit(jax.vmap(jax.grad(jax.grad(getattr(special, name)))))
    assert np.max(np.abs(np.asarray(f(ARGUMENTS), np.float64) / want - 1)) < 3e-5
    with jax.enable_x64(True):
        assert np.max(np.abs(np.asarray(f(jnp.asarray(ARGUMENTS, jnp.float64))) / want - 1)) < 1e-9


@pytest.mark.parametrize("name", EXACT)
def test_outside_the_domain_is_nan_and_does_not_spread(name: str) -> None:
    got = getattr(special, name)(jnp.array([-1.5, jnp.nan, -0.25, 2.0]))
    assert np.isnan(got[:3]).all()
    assert np.isfinite(got[3])


NEARNESS = 10.0 ** np.arange(-5.0, 0.0)


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
def test_the_divergence_of_stirlings_remainder(double: bool) -> None:
    """From 1e-5 apart to 1e12 times: relative errors, smaller than the divergence itself however
    near."""
    x = np.tile(10.0 ** np.arange(-4.0, 9.0), 2 * len(NEARNESS) + 2)
    factors = np.r_[1 + NEARNESS, 1 - NEARNESS, 1e-4, 1e4]
    x2 = x * np.repeat(factors, 13)
    with jax.enable_x64(double):
        x, x2 = jnp.asarray(x, float), jnp.asarray(x2, float)
        got = np.asarray(jax.jit(special.stirling_divergence)(x, x2))
    gap = EXACT["stirling_gap"]
    exactly = lambda a: mpmath.mpf(float(a))
    slope = lambda a: mpmath.digamma(a) - mpmath.log(a)
    with mpmath.workdps(60):
        pairs = [
            (exactly(a), exactly(b)) for a, b in zip(np.asarray(x), np.asarray(x2), strict=True)
        ]
        want = np.array([float(gap(b) - gap(a) - (b - a) * slope(a)) for a, b in pairs])
    tolerance = 1e-3 if not double else 1e-5
    np.testing.assert_allclose(got, want, rtol=tolerance)
    np.testing.assert_allclose(
        got, want, atol=1e-6 if not double else 1e-14, rtol=1e-5 if not double else 1e-11
    )


def test_differences_of_products_and_excesses_keep_their_digits() -> None:
    rng = np.random.default_rng(0)
    a, b, c = np.float32(rng.uniform(1, 9, (3, 200)))
    d = np.float32(a.astype(float) * b / c)
    want = a.astype(float) * b - c.astype(float) * d
    assert np.max(np.abs(want)) > 1e-6  # what rounding one product would leave
    np.testing.assert_allclose(product_difference(a, b, c, d), want, rtol=1e-6, atol=3e-8)
    e = np.float32([1e-7, -1e-3, 0.3, -0.49, 0.51, -0.9, 1e6])
    want = [float(mpmath.mpf(float(x)) - mpmath.log1p(float(x))) for x in e]
    np.testing.assert_allclose(
        log_excess(e, np.log1p(np.float64(e)).astype(np.float32)), want, rtol=1e-6
    )


def test_python_numbers_integers_and_half_precision_are_taken() -> None:
    assert float(special.log_gamma(4)) == pytest.approx(np.log(6), rel=1e-6)
    assert special.digamma(jnp.bfloat16(2.0)).dtype == jnp.bfloat16
    assert special.horner((1.0, 2.0, 3.0), jnp.float32(2.0)) == 17.0


def test_what_the_square_of_a_location_leaves_is_right_to_the_last_bits():
    """raw - x y / (2 strength), where both terms are a thousand times as large; and its slopes."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 1000)).astype(np.float32)
    strength = np.float32(10 ** rng.uniform(-4, 4, 1000))
    product = np.float64(x) * y / (2 * np.float64(strength))
    raw = np.float32(product * (1 + 1e-3 * rng.uniform(0.1, 1, 1000)))
    ours, slopes = jax.vmap(jax.value_and_grad(less_half_product, (0, 1, 2, 3)))(
        raw, x, y, strength
    )
    np.testing.assert_allclose(ours, np.float64(raw) - product, rtol=3e-6)
    wanted = (np.ones(1000), -product / x, -product / y, product / strength)
    for slope, want in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(slope, want, rtol=1e-6)


def test_softplus_and_its_derivatives() -> None:
    """Relative errors down to the smallest numbers; infinities stay what they are."""
    z = np.float32(
        np.r_[
            np.linspace(-85, 85, 171),
            10.0 ** np.linspace(-6, 1, 30),
            -(10.0 ** np.linspace(-6, 1, 30)),
        ]
    )
    points = [mpmath.mpf(float(x)) for x in z]
    sigma = np.array([float(1 / (1 + mpmath.exp(-x))) for x in points])
    bend = np.array([float(1 / ((1 + mpmath.exp(-x)) * (1 + mpmath.exp(x)))) for x in points])
    wanted = np.array([float(mpmath.log1p(mpmath.exp(x))) for x in points]), sigma, bend
    orders = (softplus, jax.grad(softplus), jax.grad(jax.grad(softplus)))
    found = jax.jit(lambda z: [jax.vmap(f)(z) for f in orders])(z)
    for got, want, atol in zip(
        found, wanted, (0, 0, 1e-7), strict=True
    ):  # the last is sigma (1 - sigma)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=atol)
    np.testing.assert_array_equal(
        softplus(jnp.array([-jnp.inf, jnp.inf, jnp.nan])), [0, jnp.inf, jnp.nan]
    )
    np.testing.assert_allclose(
        jax.vmap(log_sigmoid)(z), [float(-mpmath.log1p(mpmath.exp(-x))) for x in points], rtol=1e-6
    )
