"""The normal on a half-line, far into its tails; and stick-breaking weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

from vijax.families import Beta, Family, TruncatedNormal
from vijax.families.mills import log_mills, mills_tails
from vijax.families.stick_breaking import dirichlet_process, log_weight_of_the_rest, log_weights, mean_weights

mpmath.mp.dps = 30
CUTS = np.array([-40.0, -8.0, -1.0, -0.1, 0.0, 0.5, 0.99, 1.0, 1.01, 2.0, 5.0, 12.0, 40.0, 1e4])


def exact(a: float) -> tuple[float, list[float]]:
    """log R(a) and T_1..T_4 from the moments of z - a given z > a, by mpmath's quadrature-free erfc."""
    a = mpmath.mpf(float(a))
    with mpmath.workdps(120):  # the recursion M_k = (k - 1) M_{k-2} - a M_{k-1} cancels
        ratio = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(a * a / 2) * mpmath.erfc(a / mpmath.sqrt(2))
        moments = [ratio, 1 - a * ratio]
        for k in range(2, 5):
            moments.append((k - 1) * moments[k - 2] - a * moments[k - 1])
        return float(mpmath.log(ratio)), [float(moments[k + 1] / moments[k]) for k in range(4)]


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
def test_mills_ratio_and_its_tails(double: bool) -> None:
    with jax.enable_x64(double):
        a = jnp.asarray(CUTS, float)
        log_ratio, tails = jax.jit(lambda a: (log_mills(a), mills_tails(a)))(a)
    values, want = zip(*map(exact, np.asarray(a)), strict=True)
    tolerance = 1e-10 if double else 4e-6
    np.testing.assert_allclose(log_ratio, values, rtol=tolerance, atol=tolerance)
    for k in range(4):
        np.testing.assert_allclose(tails[k], [w[k] for w in want], rtol=tolerance)


def test_draws_follow_the_law_in_the_tail() -> None:
    """Kolmogorov-Smirnov on 20,000 float32 draws each, at 1e-6, the distribution function in float64 from log R."""
    locations = np.array([-40.0, -3.0, -0.5, 2.0, 40.0])
    draws = np.asarray(TruncatedNormal.from_mean_variance(locations, 1.0).sample(jax.random.key(0), (20_000,)))
    assert np.all(draws >= 0)
    for m, x in zip(locations, draws.T, strict=True):
        x = np.sort(np.float64(x))
        upper = np.exp(scipy.stats.norm.logsf(x, m) - scipy.stats.norm.logsf(0, m))
        assert scipy.stats.kstest(1 - upper, "uniform").pvalue > 1e-6


def test_probit_signs_are_data() -> None:
    """E[z] of z ~ N(f, 1) given the sign y of z is f + y phi(f) / Phi(y f)."""
    f, y = np.array([0.3, -2.0, 1.0, 5.0]), np.array([1.0, 1.0, -1.0, -1.0])
    q = TruncatedNormal(jnp.asarray(y * f), jnp.full(4, -0.5))
    want = f + y * np.exp(scipy.stats.norm.logpdf(f) - scipy.stats.norm.logcdf(y * f))
    np.testing.assert_allclose(y * q.mean(), want, rtol=1e-5)


def test_the_divergence_and_its_slopes_are_those_of_the_definition() -> None:
    """In float64, on both sides of the switch between the kept normal and the tail."""
    with jax.enable_x64(True):
        q = TruncatedNormal.from_mean_variance(jnp.array([-3.0, -0.9, 0.5, 4.0, -1.5, 2.0]), 1.3)
        p = TruncatedNormal.from_mean_variance(jnp.array([-2.0, 1.0, -2.5, 3.0, -1.1, -4.0]), 0.8)
        for f, generic in ((TruncatedNormal.kl, Family.kl), (lambda q, p: q.entropy(), lambda q, p: Family.entropy(q))):
            both = [jax.value_and_grad(lambda q, p, f=f: jnp.sum(f(q, p)), (0, 1))(q, p) for f in (f, generic)]
            for got, want in zip(*map(jax.tree.leaves, both), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)


# --- sticks -----------------------------------------------------------------------------------------------------------
def test_weights_of_a_draw_sum_to_one_and_counts_are_a_gradient() -> None:
    sticks = Beta.from_alpha_beta(jnp.array([[1.0, 2.0, 0.5]] * 2), jnp.array([[3.0, 1.0, 4.0]] * 2))
    weights = np.exp(log_weights(sticks.sample_stats(jax.random.key(0), (100,))))
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-5)
    counts = jnp.array([5.0, 0.0, 2.0, 7.0])
    message = jax.grad(lambda t: jnp.sum(counts * log_weights(t)[0]))(sticks.expected_stats())
    np.testing.assert_allclose(message.log[0], counts[:3])
    np.testing.assert_allclose(message.log1m[0], [9.0, 9.0, 7.0])  # how many went on past each stick
    np.testing.assert_allclose(mean_weights(sticks).sum(-1), 1.0, rtol=1e-6)


def test_the_geometric_tail_is_its_sum() -> None:
    prior = dirichlet_process(2.5, 1)
    stick = jax.tree.map(lambda x: float(x[0]), prior.expected_stats())
    left = -0.7
    terms = [left + stick.log + k * stick.log1m for k in range(2000)]
    got = log_weight_of_the_rest(jnp.float32(left), prior.expected_stats())
    np.testing.assert_allclose(got[0], np.logaddexp.reduce(terms), rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "name"), [((0.0, 2), "concentration"), ((1.0, 0), "num_sticks"), ((np.nan, 1), "concentration")]
)
def test_bad_processes_are_named(arguments: tuple, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: expected "):
        dirichlet_process(*arguments)
