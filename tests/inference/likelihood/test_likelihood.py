"""Likelihoods sum to one, match SciPy, keep their derivatives in the tails, and reject what lies
outside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from tests.families.oracles import mp
from tests.likelihoods import LIKELIHOODS
from vijax.inference import likelihood

Z = np.array([-30.0, -2.0, 0.0, 0.7, 12.0])


@pytest.mark.parametrize(
    ("lik", "support"),
    [
        (likelihood.bernoulli_logit(), [-1, 1]),
        (likelihood.bernoulli_probit(), [-1, 1]),
        (likelihood.ordinal_logit([-1.0, 0.5, 3.0]), [0, 1, 2, 3]),
    ],
)
def test_probabilities_sum_to_one(lik, support):
    each = jax.jit(jax.vmap(lambda y: jax.vmap(lambda z: lik.log_prob(y, z))(jnp.asarray(Z))))
    logs = each(jnp.asarray(support))
    np.testing.assert_allclose(jax.nn.logsumexp(logs, axis=0), 0.0, atol=2e-6)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_densities_match_scipy(name):
    row = LIKELIHOODS[name]
    with jax.enable_x64(True):
        each = jax.jit(jax.vmap(row.make().log_prob, (None, 0)))
        for y in row.observations:
            np.testing.assert_allclose(
                each(y, jnp.asarray(Z[1:4])), row.by_hand(y, Z[1:4])[0], rtol=1e-10
            )


COUNTS = np.float32([0.0, 1.0, 30.0, 1e3, 1e5, 1e6, 1e7, 1e8])


def test_large_counts_in_float32():
    """Log probabilities and their slopes, counts up to 1e8, up to five deviations off the rate, as
    good as exp(z) is; and the expectation, which is half the variance times the rate below."""
    lik, y = likelihood.poisson_log(), np.repeat(COUNTS[:, None], 5, 1)
    z = np.float32(
        np.log(np.maximum(y, 0.5)) + np.array([-5, -1, 0, 1, 5]) / np.sqrt(np.maximum(y, 4))
    )
    each = jax.vmap(jax.vmap(jax.value_and_grad(lik.log_prob, 1)))
    value, slope = (np.asarray(x, np.float64) for x in jax.jit(each)(y, z))
    exact = np.vectorize(lambda y, z: float(mp.mpf(y) * z - mp.exp(z) - mp.loggamma(mp.mpf(y) + 1)))
    want = exact(np.float64(y), np.float64(z))
    assert np.all(np.abs(value - want) < 3e-6 * (np.sqrt(y) + 1 + np.abs(want)))
    assert np.all(np.abs(slope - (y - np.exp(np.float64(z)))) < 3e-7 * (1 + y))
    m, v = np.float32(np.log(1e6)), np.float32(1e-6)
    lower = float(lik.closed_form(1e6, jnp.asarray(m), jnp.asarray(v)).value)
    assert lower == pytest.approx(float(lik.log_prob(1e6, jnp.asarray(m))) - 0.5, abs=1e-3)


def test_large_counts_of_a_negative_binomial_in_float32():
    """As good as z is known, whose rounding the slope multiplies, counts far above and below the
    dispersion."""
    dispersion, y, off = np.meshgrid(
        np.float32([0.01, 5.0, 1e4, 1e8]), COUNTS, np.float32([-30, -1e-3, 0, 1e-3, 30])
    )
    z = np.float32(np.log(np.maximum(y, 0.5)) + off)
    each = lambda r, y, z: jax.value_and_grad(likelihood.negative_binomial(r).log_prob, 1)(y, z)
    value, slope = (
        np.asarray(x, np.float64) for x in jax.jit(jnp.vectorize(each))(dispersion, y, z)
    )

    def exact(r, y, z):
        r, y, mean = mp.mpf(r), mp.mpf(y), mp.exp(mp.mpf(z))
        own = mp.loggamma(y + r) - mp.loggamma(r) - mp.loggamma(y + 1)
        found = own + y * mp.log(mean / (mean + r)) + r * mp.log(r / (mean + r))
        return float(found), float((y - mean) * r / (mean + r))

    want, steep = np.vectorize(exact)(*(np.float64(x) for x in (dispersion, y, z)))
    assert np.all(np.abs(value - want) < 3e-7 * (10 + np.abs(want) + np.abs(z * steep)))
    assert np.all(np.abs(slope - steep) < 3e-6 * (1 + np.minimum(y, dispersion) + np.abs(steep)))


def test_curvature_and_dispersion_of_a_negative_binomial_in_float32():
    """The second derivative, the one in r, and values at predictors that are infinite."""
    dispersion, y, off = np.meshgrid(
        *map(np.float32, ([0.1, 5.0, 1e3], [0, 1, 7, 400], [-60, -2, 3, 60]))
    )
    z = np.float32(np.log(np.maximum(y, 0.5)) + off)
    of = lambda r, y, z: likelihood.negative_binomial.__wrapped__(r).log_prob(y, z)
    bend = jax.jit(jnp.vectorize(jax.grad(jax.grad(of, 2), 2)))(dispersion, y, z)
    turn = jax.jit(jnp.vectorize(jax.grad(of)))(dispersion, y, z)

    def exact(r, y, z):
        r, y, mean = mp.mpf(r), mp.mpf(y), mp.exp(mp.mpf(z))
        own = mp.digamma(y + r) - mp.digamma(r) + mp.log(r / (mean + r)) + (mean - y) / (mean + r)
        return float(-(y + r) * mean * r / (mean + r) ** 2), float(own)

    wanted_bend, wanted_turn = np.vectorize(exact)(*(np.float64(x) for x in (dispersion, y, z)))
    largest = np.where(
        y > 0, np.minimum(y, dispersion), dispersion
    )  # at its peak it is a quarter or more
    assert np.all(np.abs(bend - wanted_bend) < 3e-6 * np.abs(wanted_bend) + 1e-6 * largest)
    np.testing.assert_allclose(turn, wanted_turn, rtol=1e-4, atol=3e-6)
    ends = likelihood.negative_binomial(2.0).log_prob(
        jnp.array([0.0, 0, 3, 3]), jnp.array([-1.0, 1, -1, 1]) * jnp.inf
    )
    np.testing.assert_array_equal(ends, [0.0, -np.inf, -np.inf, -np.inf])


def test_large_counts_of_a_softmax_in_float32():
    y, rng = np.float32([0.0, 1.0, 1e3, 3e6, 1e8]), np.random.default_rng(0)
    z = np.float32(np.log(np.maximum(y, 0.5)) + 1e-4 * rng.normal(size=(8, 5)))
    got = jax.jit(jax.vmap(lambda z: likelihood.softmax(5).log_prob(y, z)))(z)
    counts = [mp.mpf(float(count)) for count in y]
    for found, at in zip(got, z, strict=True):
        total = mp.log(mp.fsum(mp.exp(mp.mpf(float(x))) for x in at))
        each = [
            c * (mp.mpf(float(x)) - total) - mp.loggamma(c + 1)
            for c, x in zip(counts, at, strict=True)
        ]
        assert float(found) == pytest.approx(
            float(mp.loggamma(mp.fsum(counts) + 1) + mp.fsum(each)), rel=1e-3
        )


@pytest.mark.parametrize("x64", [False, True])
def test_probit_tails(x64):
    """log Phi and its first two derivatives against erfcx, which has no cancellation."""
    z = np.array([-1e4, -300.0, -20.0, -5.01, -4.99, -1.0, 3.0, 8.0])
    ratio = np.sqrt(2 / np.pi) / special.erfcx(-z / np.sqrt(2))
    rtol = 1e-10 if x64 else 3e-5
    with jax.enable_x64(x64):
        f = lambda x: likelihood.bernoulli_probit().log_prob(1, x)
        three = jax.jit(jax.vmap(lambda x: (f(x), jax.grad(f)(x), jax.grad(jax.grad(f))(x))))
        value, first, second = three(jnp.asarray(z))
    np.testing.assert_allclose(value, special.log_ndtr(z), rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(first, ratio, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(second[3:], (-ratio * (z + ratio))[3:], rtol=30 * rtol, atol=1e-10)
    np.testing.assert_allclose(second[:3], -1.0, rtol=4e-3)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_observations_outside_the_support_are_named(name):
    y, message = LIKELIHOODS[name].outside
    lik = LIKELIHOODS[name].make()
    lik.check(np.array(LIKELIHOODS[name].observations))
    with pytest.raises(ValueError, match=message):
        lik.check(np.array(y))


@pytest.mark.parametrize("name", [name for name, row in LIKELIHOODS.items() if row.invalid])
def test_bad_parameters(name):
    for make, argument in LIKELIHOODS[name].invalid:
        with pytest.raises(ValueError, match=f"^{argument}: expected"):
            make()


def test_what_is_no_likelihood():
    with pytest.raises(TypeError, match="likelihood"):
        likelihood.as_likelihood(3)


def test_the_registry_has_every_likelihood():
    """Of a scalar predictor alone: the others, of vectors or of other globals, have tests of their
    own."""
    of_more = {"as_likelihood", "noisy_labels", "softmax", "softmax_mixture"}
    made = {name for name, value in vars(likelihood).items() if name.islower() and callable(value)}
    assert made - of_more == set(LIKELIHOODS)


def test_ordinal_classes_are_drawn_on_their_side_of_the_cutpoints():
    lik = likelihood.ordinal_logit([-1.0, 0.5, 3.0])
    z = jnp.array([-60.0, 60.0])
    assert lik.sample(jax.random.key(0), z).tolist() == [0.0, 3.0]
    draws = lik.sample(jax.random.key(1), jnp.full(20_000, 0.2))
    expected = np.exp([float(lik.log_prob(k, jnp.float32(0.2))) for k in range(4)])
    np.testing.assert_allclose(
        [(draws == k).mean() for k in range(4)], expected, atol=6 * (0.25 / 20_000) ** 0.5
    )


def test_an_infinite_predictor_leaves_one_ordinal_class():
    far = jnp.array([-jnp.inf, jnp.inf])
    lowest, middle, highest = (
        likelihood.ordinal_logit([-1.0, 0.5]).log_prob(k, far) for k in range(3)
    )
    assert (lowest[0], highest[1]) == (0, 0)
    assert np.all(np.array([lowest[1], *middle, highest[0]]) <= -1e29)
