"""Likelihoods sum to one, match SciPy, keep their derivatives in the tails, and reject what lies outside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from vijax import likelihood

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


def test_densities_match_scipy():
    with jax.enable_x64(True):
        z = jnp.asarray(Z[1:4])
        np.testing.assert_allclose(likelihood.poisson_log().log_prob(3.0, z), stats.poisson(np.exp(z)).logpmf(3))
        r = 2.5
        nb = stats.nbinom(r, r / (r + np.exp(z)))
        np.testing.assert_allclose(likelihood.negative_binomial(r).log_prob(4.0, z), nb.logpmf(4))
        t = stats.t(3.0, z, 0.5)
        np.testing.assert_allclose(likelihood.student_t(3.0, 0.5).log_prob(1.0, z), t.logpdf(1.0))
        normal = stats.norm(z, np.sqrt(0.3))
        np.testing.assert_allclose(likelihood.gaussian(0.3).log_prob(1.0, z), normal.logpdf(1.0))


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


@pytest.mark.parametrize(
    ("lik", "y", "message"),
    [
        (
            likelihood.bernoulli_logit(),
            [1, -1, 0],
            r"y: bernoulli_logit expects labels -1 or \+1 .*2\*y - 1.*, got 0 at site 2",
        ),
        (likelihood.bernoulli_probit(), [2, -1], "got 2 at site 0"),
        (likelihood.poisson_log(), [1.0, -1.0], "counts 0, 1, 2, .*got -1.0 at site 1"),
        (likelihood.negative_binomial(1.0), [1.0, 1.5], "got 1.5 at site 1"),
        (likelihood.student_t(3.0, 1.0), [1.0, np.nan], "finite numbers, got nan at site 1"),
        (likelihood.ordinal_logit([0.0]), [0, 1, 2], "classes 0, ..., 1, got 2 at site 2"),
    ],
)
def test_observations_outside_the_support_are_named(lik, y, message):
    with pytest.raises(ValueError, match=message):
        lik.check(np.array(y))


def test_bad_parameters():
    for make, name in (
        (lambda: likelihood.negative_binomial(0.0), "dispersion"),
        (lambda: likelihood.student_t(-1.0, 1.0), "degrees"),
        (lambda: likelihood.student_t(1.0, 0.0), "scale"),
        (lambda: likelihood.gaussian(-1.0), "variance"),
        (lambda: likelihood.ordinal_logit([1.0, 1.0]), "cutpoints"),
    ):
        with pytest.raises(ValueError, match=name):
            make()
    with pytest.raises(TypeError, match="likelihood"):
        likelihood.as_likelihood(3)
