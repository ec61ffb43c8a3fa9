"""The normal on a half-line, far into its tails; and stick-breaking weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

from vijax.families import Beta, Family, TruncatedNormal
from vijax.families.discrete.stick_breaking import (
    dirichlet_process,
    log_weight_of_the_rest,
    log_weights,
    mean_weights,
)
from vijax.families.numeric import normal_tails
from vijax.families.numeric.normal_tails import log_mills, mills_tails
from vijax.families.scalar.truncated_normal import _central_moments, _excess

mpmath.mp.dps = 30
CUTS = np.array([-40.0, -8.0, -1.0, -0.1, 0.0, 0.5, 0.99, 1.0, 1.01, 2.0, 5.0, 12.0, 40.0, 1e4])


def exact(a: float) -> tuple[float, list[float]]:
    """log R(a) and T_1..T_4 from the moments of z - a given z > a, by mpmath's quadrature-free
    erfc."""
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


FAR = np.array(
    [
        -1e6,
        -1e4,
        -4800.0,
        -500.0,
        -30.0,
        -3.0,
        -1.0,
        -0.9,
        -0.3,
        0.0,
        2.0,
        5.0,
        30.0,
        500.0,
        4800.0,
        1e4,
        1e6,
    ]
)
"""Locations in standard deviations, the cut at 0."""
PROBABILITIES = np.array([1e-12, 1e-6, 1e-3, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6])


def exact_hazard(y: float, a: float) -> mpmath.mpf:
    """-log P(z > a + y | z > a)."""
    with mpmath.workdps(60):
        y, a = mpmath.mpf(float(y)), mpmath.mpf(float(a))
        return mpmath.log(mpmath.erfc(a / mpmath.sqrt(2))) - mpmath.log(
            mpmath.erfc((a + y) / mpmath.sqrt(2))
        )


def test_quantiles_and_their_inverse_far_from_the_cut_and_near_it() -> None:
    """On the host, in float64, to 1e-11: the cumulative hazard of the quantile is that of the
    probability."""
    a, hazard = (x.ravel() for x in np.meshgrid(-FAR, -np.log1p(-PROBABILITIES)))
    y = normal_tails.excess(hazard, a)
    exact = np.array([float(exact_hazard(*pair)) for pair in zip(y, a, strict=True)])
    slack = (
        1e-11 + 1e-15 * np.abs(a) * (a < 0) / hazard
    )  # the quantile's own rounding, of a size of 1e-16 |a|
    assert np.all(np.abs(exact / hazard - 1) < slack)
    np.testing.assert_allclose(normal_tails.cumulative_hazard(y, a), exact, rtol=1e-11)


def test_quantiles_in_float32() -> None:
    """Of float32 locations and spreads, in units from a millionth to a million."""
    spread = np.float32([1e-12, 1.0, 1e12])[:, None]
    q = TruncatedNormal.from_mean_variance(np.float32(FAR * np.sqrt(spread)), spread)
    got = np.asarray(
        jax.jit(lambda q, p: q.quantile(p))(q, np.float32(PROBABILITIES[1:-1])), np.float64
    )
    cdf = jax.jit(lambda q, x: q.cdf(x))
    spread, location = (np.asarray(x, np.float64) for x in (q.spread, q.location))
    sd = np.sqrt(spread)
    for x, p in zip(got, np.float32(PROBABILITIES[1:-1]), strict=True):
        want = sd * normal_tails.excess(
            np.full(sd.shape, -np.log1p(-np.float64(p))), -location / sd
        )
        np.testing.assert_allclose(x, want, rtol=3e-7)
        below = -np.expm1(-normal_tails.cumulative_hazard(x / sd, -location / sd))
        np.testing.assert_allclose(cdf(q, x.astype(np.float32)), below, rtol=3e-6)


def test_moments_in_float32() -> None:
    """Mean, variance and the moments of the Fisher information, against 120 digits; also close to
    where one form follows the other."""
    location = np.concatenate([np.float32(FAR), np.linspace(-1.5, 1.5, 301, dtype=np.float32)])
    q = TruncatedNormal.from_mean_variance(location, np.ones_like(location))
    mean, second, third, fourth = np.array([exact_moments(-m) for m in location]).T
    said = jax.jit(lambda q: (q.mean(), q.variance(), q.std()))(q)
    np.testing.assert_allclose(said[0], mean, rtol=1e-6)
    np.testing.assert_allclose(said[1], second, rtol=2e-6)
    np.testing.assert_allclose(said[2], np.sqrt(second), rtol=1e-6)
    moments = jax.jit(_central_moments)(jnp.asarray(-location))
    for got, want in zip(moments, (second, third, fourth), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-30)


def exact_moments(a: float) -> tuple[float, ...]:
    """Mean of z - a given z > a, and the central moments, from E[z^k] = (k - 1) E[z^(k - 2)] + a^(k
    - 1) h."""
    with mpmath.workdps(120):
        a = mpmath.mpf(float(a))
        h = mpmath.exp(-a * a / 2) / mpmath.sqrt(mpmath.pi / 2) / mpmath.erfc(a / mpmath.sqrt(2))
        m = [mpmath.mpf(1), h]
        for k in (2, 3, 4):
            m.append((k - 1) * m[k - 2] + a ** (k - 1) * h)
        third = m[3] - 3 * h * m[2] + 2 * h**3
        fourth = m[4] - 4 * h * m[3] + 6 * h**2 * m[2] - 3 * h**4
        return float(h - a), float(m[2] - h**2), float(third), float(fourth)


def test_pathwise_slopes_far_from_the_cut_in_float32() -> None:
    """dy / da = R(a + y) / R(a) - 1 at draws of every law."""
    cuts = jnp.asarray(np.repeat(-FAR[1:-1, None], 8, 1), jnp.float32)
    u = jnp.broadcast_to(jnp.linspace(0.06, 0.94, 8, dtype=jnp.float32), cuts.shape)
    y, slope = jax.jit(lambda a: jax.jvp(lambda a: _excess(a, u), (a,), (jnp.ones_like(a),)))(cuts)
    for a, x, got in zip(*map(np.ravel, (cuts, y, slope)), strict=True):
        with mpmath.workdps(60):
            a, z = mpmath.mpf(float(a)), mpmath.mpf(float(a)) + mpmath.mpf(float(x))
            log_mills = lambda v: v * v / 2 + mpmath.log(mpmath.erfc(v / mpmath.sqrt(2)))
            want = float(mpmath.expm1(log_mills(z) - log_mills(a)))
        assert abs(got - want) < 3e-5 * abs(want) + 1e-6 * min(1.0, float(abs(z)))


def test_no_draw_is_at_the_cut_where_the_cut_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the least uniform number too: of 0 the normal quantile would be minus infinity."""
    least = lambda key, shape=(), dtype=float, minval=0.0, maxval=1.0: jnp.full(
        shape, minval, dtype
    )
    monkeypatch.setattr(jax.random, "uniform", least)
    assert (
        4790
        < float(TruncatedNormal.from_mean_variance(4800.0, 1.0).sample(jax.random.key(0)))
        < 4800
    )


def test_draws_follow_the_law_in_the_tail() -> None:
    """Kolmogorov-Smirnov on 20,000 float32 draws each, at 1e-6, the distribution function in
    float64 from log R."""
    locations = np.array([-4800.0, -40.0, -3.0, -0.5, 2.0, 40.0, 4800.0])
    draws = np.asarray(
        TruncatedNormal.from_mean_variance(locations, 1.0).sample(jax.random.key(0), (20_000,))
    )
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
        for f, generic in (
            (TruncatedNormal.kl, Family.kl),
            (lambda q, p: q.entropy(), lambda q, p: Family.entropy(q)),
        ):
            both = [
                jax.value_and_grad(lambda q, p, f=f: jnp.sum(f(q, p)), (0, 1))(q, p)
                for f in (f, generic)
            ]
            for got, want in zip(*map(jax.tree.leaves, both), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)


# --- sticks ---------------------------------------------------------------------------------------
def test_weights_of_a_draw_sum_to_one_and_counts_are_a_gradient() -> None:
    sticks = Beta.from_alpha_beta(
        jnp.array([[1.0, 2.0, 0.5]] * 2), jnp.array([[3.0, 1.0, 4.0]] * 2)
    )
    weights = np.exp(log_weights(sticks.sample_stats(jax.random.key(0), (100,))))
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-5)
    counts = jnp.array([5.0, 0.0, 2.0, 7.0])
    message = jax.grad(lambda t: jnp.sum(counts * log_weights(t)[0]))(sticks.expected_stats())
    np.testing.assert_allclose(message.log[0], counts[:3])
    np.testing.assert_allclose(
        message.log1m[0], [9.0, 9.0, 7.0]
    )  # how many went on past each stick
    np.testing.assert_allclose(mean_weights(sticks).sum(-1), 1.0, rtol=1e-6)


def test_the_geometric_tail_is_its_sum() -> None:
    prior = dirichlet_process(2.5, 1)
    stick = jax.tree.map(lambda x: float(x[0]), prior.expected_stats())
    left = -0.7
    terms = [left + stick.log + k * stick.log1m for k in range(2000)]
    got = log_weight_of_the_rest(jnp.float32(left), prior.expected_stats())
    np.testing.assert_allclose(got[0], np.logaddexp.reduce(terms), rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0.0, 2), "concentration"), ((1.0, 0), "num_sticks"), ((np.nan, 1), "concentration")],
)
def test_bad_processes_are_named(arguments: tuple, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: expected "):
        dirichlet_process(*arguments)
