"""The Polya-gamma family: draws against the Laplace transform, at 6 standard errors; densities,
divergences and entropies in float32 against 50 digits."""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import vijax as vi
from vijax.families.scalar.polya_gamma import _proposal, sample_unit
from vijax.families.scalar.polya_gamma_contour import slope

mp = mpmath.mp.clone()
mp.dps = 50

TILTS = np.array(
    [0.0, 0.3, 2.0, 3.0, 3.2, 8.0, 40.0, 300.0]
)  # about the switch of proposals, c cut / 2 = 1, too


@pytest.fixture(scope="module")
def draws():
    c = jnp.broadcast_to(jnp.asarray(TILTS, jnp.float32), (100_000, len(TILTS)))
    return np.asarray(jax.jit(sample_unit)(jax.random.key(0), c), np.float64)


def log_cosh(x):
    return np.logaddexp(x, -x) - np.log(2)


@pytest.mark.parametrize("share", [0.0, 0.5, 2.0, 10.0])
def test_laplace_transform(draws, share):
    """E exp(-s w) = cosh(c / 2) / cosh(sqrt(c^2 / 4 + s / 2)), at s in proportion to the inverse
    mean; share 0 stands for the mean itself, tanh(c / 2) / (2 c)."""
    mean = np.where(TILTS > 0, np.tanh(TILTS / 2) / np.maximum(2 * TILTS, 1e-9), 0.25)
    s = share / mean
    values = np.exp(-s * draws) if share else draws
    exact = np.exp(log_cosh(TILTS / 2) - log_cosh(np.sqrt(TILTS**2 / 4 + s / 2))) if share else mean
    error = values.mean(0) - exact
    assert np.all(np.abs(error) < 6 * values.std(0) / np.sqrt(len(draws)) + 1e-6 * exact)


def test_most_proposals_are_accepted():
    keep = _proposal(
        jax.random.key(0), jnp.broadcast_to(jnp.linspace(0.0, 50.0, 200), (2000, 200))
    )[1]
    assert float(keep.mean(0).min()) > 0.55


def truth_log_prob(x, b, c):
    """The alternating series (Polson, Scott and Windle 2013, eq. 5), with the digits that it
    loses."""
    with mp.workdps(60 + int(2.2 * float(x))):
        x, c, n, total = mp.mpf(float(x)), mp.mpf(float(c)), 0, mp.mpf(0)
        while True:
            term = mp.rf(n + 1, b - 1) * (2 * n + b) * mp.exp(-((2 * n + b) ** 2) / (8 * x))
            total += (-1) ** n * term
            if n > 5 and term < mp.mpf(10) ** (-mp.dps):
                break
            n += 1
        front = (b - 1) * mp.log(2) - mp.loggamma(b) - mp.log(2 * mp.pi * x**3) / 2
        return front + mp.log(total) - c**2 * x / 2 + b * mp.log(mp.cosh(c / 2))


def truth_mean(b, c):
    return mp.mpf(b) / 4 if c == 0 else b * mp.tanh(c / 2) / (2 * c)


def truth_kl(b, c, c2):
    c, c2 = mp.mpf(float(c)), mp.mpf(float(c2))
    normaliser = lambda c: -b * mp.log(mp.cosh(c / 2))
    return (c2**2 - c**2) / 2 * truth_mean(b, c) - normaliser(c) + normaliser(c2)


def truth_entropy(b, c):
    mean = float(truth_mean(b, mp.mpf(c)))
    spread = float(vi.PolyaGamma.from_b_c(b, c).variance()) ** 0.5 / mean
    total = mp.mpf(0)
    for t in np.arange(-10.0, 8.0, 0.25):  # the trapezium rule in log w
        x = mean * np.exp(spread * t)
        log_q = truth_log_prob(x, b, c)
        total -= mp.exp(log_q) * log_q * x
    return 0.25 * spread * total


def is_right(ours, truth):
    """Within 1e-3, relatively, or within 1e-4 where it is below 0.1: the law of test_float32.py."""
    ours, truth = np.asarray(ours, np.float64), np.array([float(t) for t in truth])
    bad = ~(np.abs(ours - truth) <= 1e-3 * np.maximum(np.abs(truth), 0.1))
    assert not bad.any(), (np.flatnonzero(bad)[:5], ours[bad][:5], truth[bad][:5])


def members(size, seed=0):
    """Tilts from 0 to 1e4, others near and far, and values from far left to far right of the
    mean."""
    rng = np.random.default_rng(seed)
    c, far = (np.float32(10 ** rng.uniform(-3, 4, size)) for _ in range(2))
    c[::7] = 0.0
    return c, far, np.float32(c * (1 + 1e-3 * rng.uniform(-1, 1, size))), rng.uniform(-4, 4, size)


def check_members(b, size):
    c, far, near, places = members(size, b)
    q = vi.PolyaGamma.from_b_c(b, c)
    held = np.sqrt(-2 * np.asarray(q.negative_half_square, np.float64))  # c as float32 holds it
    spread = np.sqrt(np.asarray(q.variance())) / np.asarray(q.mean())
    x = np.asarray(q.mean()) * np.exp(np.float32(places) * spread)
    is_right(
        compiled("log_prob")(q, x),
        [truth_log_prob(value, b, tilt) for value, tilt in zip(x, held, strict=True)],
    )
    for other in (far, near):
        p = vi.PolyaGamma.from_b_c(b, other)
        held2 = np.sqrt(-2 * np.asarray(p.negative_half_square, np.float64))
        ours = compiled("kl")(q, p)
        is_right(ours, [truth_kl(b, *pair) for pair in zip(held, held2, strict=True)])
        assert np.all(np.asarray(ours) >= 0)
    return q


compiled = functools.cache(lambda name: jax.jit(lambda q, *rest: getattr(q, name)(*rest)))


def test_float32_against_50_digits():
    check_members(1, 12)


def test_divergences_and_their_slopes_keep_their_digits():
    """A hundred-thousandth of the divergence itself, however small: tilts from 1e-4, equal but for
    a thousandth, for a factor of up to 10, or not at all. Where natural parameters are as float32
    holds them."""
    rng = np.random.default_rng(1)
    c = np.float32(10 ** rng.uniform(-4, 4, 120))
    c[:4] = 0.0
    others = (
        10 ** rng.uniform(-4, 4, 120),
        c * (1 + 1e-3 * rng.uniform(-1, 1, 120)),
        c * 10 ** rng.uniform(-1, 1, 120),
    )
    normaliser = lambda at: -mp.log(mp.cosh(mp.sqrt(-2 * at) / 2))
    mean = lambda at: truth_mean(1, mp.sqrt(-2 * at))
    for other in others:
        q, p = (vi.PolyaGamma.from_b_c(1, tilt) for tilt in (c, np.float32(other)))
        held = [[mp.mpf(float(x)) for x in law.negative_half_square] for law in (q, p)]
        want = [
            (a - b) * mean(a) - normaliser(a) + normaliser(b) for a, b in zip(*held, strict=True)
        ]
        np.testing.assert_allclose(
            compiled("kl")(q, p), [float(x) for x in want], rtol=1e-5, atol=1e-37
        )
        slopes = jax.jit(jax.grad(lambda q, p: jnp.sum(q.kl(p)), 1))(q, p).negative_half_square
        want = [float(mean(b) - mean(a)) for a, b in zip(*held, strict=True)]
        np.testing.assert_allclose(slopes, want, rtol=1e-5, atol=1e-37)


@pytest.mark.slow
@pytest.mark.parametrize("b", [1, 2, 40])
def test_float32_against_50_digits_over_a_wide_grid(b):
    check_members(b, 150)


@pytest.mark.slow
@pytest.mark.parametrize("b", [1, 3, 30])
def test_entropies_against_50_digits(b):
    c = [0.0, 0.5, 4.0, 60.0]
    is_right(vi.PolyaGamma.from_b_c(b, c).entropy(), [truth_entropy(b, tilt) for tilt in c])


def test_the_mode_is_where_the_density_is_highest():
    """On a fine grid of values; 0.83 mean for b = 1, c = 12."""
    q = vi.PolyaGamma.from_b_c(1, np.float32([0.0, 12.0]))
    grid = np.linspace(0.2, 1.0, 400)[:, None] * np.asarray(q.mean())
    density = np.asarray(compiled("log_prob")(q, np.float32(grid)))
    np.testing.assert_allclose(
        compiled("mode")(q), np.take_along_axis(grid, density.argmax(0)[None], 0)[0], rtol=6e-3
    )


@pytest.mark.slow
def test_sums_of_draws_and_how_they_move():
    """b = 5: the Laplace transform of draws; and the mean of dx / dl is the variance, whatever
    c."""
    c = np.array([0.0, 0.5, 6.0])
    q = vi.PolyaGamma.from_b_c(5, c)
    draws = np.asarray(q.sample(jax.random.key(0), (50_000,)), np.float64)
    s = 1 / np.asarray(q.mean(), np.float64)
    exact = np.exp(5 * (log_cosh(c / 2) - log_cosh(np.sqrt(c**2 / 4 + s / 2))))
    values = np.exp(-s * draws)
    assert np.all(np.abs(values.mean(0) - exact) < 6 * values.std(0) / np.sqrt(len(draws)))
    slopes = np.asarray(slope(jnp.float32(draws), q.negative_half_square, 5, q.mean()), np.float64)
    assert np.all(slopes > 0)
    assert np.all(np.abs(slopes.mean(0) - q.variance()) < 6 * slopes.std(0) / np.sqrt(len(draws)))


def test_statistics_are_the_derivatives_of_the_normaliser():
    """By automatic differentiation of -log cosh(sqrt(-l / 2)), naively; and finite at 0, in both
    precisions."""
    with jax.enable_x64(True):
        at = jnp.array([-0.01, -2.0, -30.0])
        naive = lambda at: -jnp.log(jnp.cosh(jnp.sqrt(-at / 2)))
        q = vi.PolyaGamma(at, 1)
        np.testing.assert_allclose(q.log_normalizer(), naive(at), rtol=1e-12)
        np.testing.assert_allclose(
            q.expected_stats().value, jax.vmap(jax.grad(naive))(at), rtol=1e-12
        )
    own = jax.vmap(jax.grad(lambda at: vi.PolyaGamma(at, 1).log_normalizer()))
    np.testing.assert_allclose(
        own(jnp.array([0.0, -1e-9, -1e8])), [0.25, 0.25, 0.5 / np.sqrt(2e8)], rtol=1e-5
    )
    variance = jax.vmap(jax.grad(lambda at: vi.PolyaGamma(at, 1).mean()))
    np.testing.assert_allclose(variance(jnp.array([0.0, -2.0, -1e8])), EXPECTED, rtol=1e-5)


EXPECTED = [1 / 24, float((mp.sinh(2) - 2) / (4 * 8 * mp.cosh(1) ** 2)), 0.5 / 2e8**1.5]


@pytest.mark.slow
def test_a_logistic_regression_written_with_public_names():
    """Binomial counts out of 3: the slope against the posterior on a grid, and a bound that
    increases."""
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(size=80))
    y = np.float32(rng.binomial(3, 1 / (1 + np.exp(-1.2 * x))))

    def energy(s, group):
        psi, square = group["x"] * s["slope"].value, group["x"] ** 2 * s["slope"].square
        return (group["y"] - 1.5) * psi - 0.5 * s["weight"].value * square

    model = vi.energy_model(
        globals={"slope": vi.Normal.from_mean_variance(0.0, 4.0)},
        locals={"weight": vi.PolyaGamma.from_b_c(3, 0.0)},
        energy=energy,
        example={"x": 0.0, "y": 0.0},
    )
    data = {"x": x, "y": y}
    fit = vi.fit(vi.cavi(model), data, num_steps=30, key=jax.random.key(0))
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-4)
    grid = np.linspace(-1.0, 4.0, 4001)[:, None]
    density = np.sum(y * grid * x - 3 * np.logaddexp(0, grid * x), 1) - grid[:, 0] ** 2 / 8
    law = np.exp(density - density.max())
    mean = np.sum(law * grid[:, 0]) / law.sum()
    spread = np.sqrt(np.sum(law * (grid[:, 0] - mean) ** 2) / law.sum())
    assert abs(float(fit.posterior["slope"].mean()) - mean) < 0.2 * spread
