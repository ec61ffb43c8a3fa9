"""Densities that float32 rounds too much are fitted in float64, and it is said."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import vijax as vi
from tests.naming import check_names
from vijax.automatic import density_checks, trust_region
from vijax.automatic.gaussian import Gaussian
from vijax.verdict.target import Target

KEY = jax.random.key(0)
SMALL = 1e-9


def chance(x):
    """A probability that is one but for some billionths, which float32 rounds to one."""
    return 1.0 - SMALL * jnp.exp(x)


def rounded():
    """Misses of 2e9 trials: their probability is what float32 cannot hold."""
    log_miss = lambda x: jnp.log(jnp.maximum(1.0 - chance(x), 1e-7 * SMALL))
    return vi.density(
        {"x": vi.free()}, lambda v: 40 * log_miss(v["x"]) - 40 * jnp.exp(v["x"]) - 0.5 * v["x"] ** 2
    )


def smooth():
    return vi.density({"x": vi.free(2)}, lambda v: -0.5 * jnp.sum((v["x"] - 1) ** 2))


def putting():
    """Broadie's putts (Gelman 2019): a chance of nearly one for short ones, of which 15 in 45,198
    are missed."""
    feet = [
        0.28,
        0.97,
        1.93,
        2.92,
        3.93,
        4.94,
        5.94,
        6.95,
        7.95,
        8.95,
        9.95,
        10.95,
        11.95,
        12.95,
        14.43,
        16.43,
    ]
    tries = [
        45198,
        183020,
        169503,
        113094,
        73855,
        53659,
        42991,
        37050,
        33275,
        30836,
        28637,
        26239,
        24636,
        22876,
    ]
    made = [
        45183,
        182899,
        168594,
        108953,
        64740,
        41106,
        28205,
        21334,
        16615,
        13503,
        11060,
        9032,
        7687,
        6432,
    ]
    return (
        np.array(feet),
        np.array([*tries, 41267, 35712], float),
        np.array([*made, 9813, 7196], float),
    )


def log_lik_of_putts(s, t, feet, tries, made, cdf, xp):
    """The likelihood of standard deviations s of the angle and t of the distance; the putts are the
    last axis."""
    angle = 2 * cdf(xp.arcsin((4.25 - 1.68) / 24 / feet) / s) - 1
    distance = cdf(2 / ((feet + 1) * t)) - cdf(-1 / ((feet + 1) * t))
    p = angle * distance
    tiny = np.finfo(p.dtype).eps  # cut off as NumPyro does
    p = xp.clip(p, tiny, 1 - tiny)
    return xp.sum(made * xp.log(p) + (tries - made) * xp.log1p(-p), -1)


def test_a_density_that_float32_holds_is_fitted_in_it():
    fit = vi.auto(smooth(), key=KEY)
    assert fit.report.single == 0
    assert "float64" not in fit.verdict


def test_one_that_it_rounds_is_fitted_in_float64():
    fit = vi.auto(rounded(), key=KEY)
    assert fit.report.single > 0.05
    check_names(fit.verdict, "float64", "float32")
    # The posterior of x is that of 40 events of a rate exp(x).
    x = np.linspace(-3, 3, 4001)
    log_p = 40 * x - 40 * np.exp(x) - 0.5 * x**2
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    mean = weight @ x
    sd = np.sqrt(weight @ (x - mean) ** 2)
    q = fit.sample(jax.random.key(1), 20_000)["x"]
    assert q.dtype == jnp.float32
    np.testing.assert_allclose(q.mean(), mean, atol=0.03 * sd)
    np.testing.assert_allclose(q.std(), sd, rtol=0.03)


def test_a_fit_in_float64_goes_on_in_it(monkeypatch):
    """To the end of one that was never stopped, bit for bit."""

    def stop(self, target, sitting):
        plain(self, target, sitting)
        if target.is_double:
            self._asked.set()

    whole = vi.auto(rounded(), key=KEY)
    plain = trust_region.Watcher.note
    with monkeypatch.context() as patch:
        patch.setattr(trust_region.Watcher, "note", stop)
        stage = vi.auto(rounded(), key=KEY).report.stage
    assert stage.moved == whole.report.single
    again = vi.auto(rounded(), key=KEY, stage=stage)
    assert again.verdict == whole.verdict
    assert again.report.num_gradients == whole.report.num_gradients
    np.testing.assert_array_equal(whole.posterior["free"].mean(), again.posterior["free"].mean())


def test_putts_are_right():
    """Data of NumPy that the density reads from around it have to be traced anew: JAX keeps them as
    float32."""
    data = putting()
    cdf = jax.scipy.stats.norm.cdf
    model = vi.density(
        {"s": vi.free(support="positive"), "t": vi.free(support="positive")},
        lambda v: (
            log_lik_of_putts(v["s"], v["t"], *data, cdf, jnp) - 0.5 * (v["s"] ** 2 + v["t"] ** 2)
        ),
    )
    fit = vi.auto(model, key=KEY)
    assert fit.report.single > 0.05
    s, t = np.linspace(0.012, 0.015, 301), np.linspace(0.13, 0.145, 301)
    log_p = log_lik_of_putts(s[:, None, None], t[None, :, None], *data, scipy.stats.norm.cdf, np)
    log_p -= 0.5 * (s[:, None] ** 2 + t**2)
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    draws = fit.sample(jax.random.key(1), 20_000)
    for name, at, marginal in (("s", s, weight.sum(1)), ("t", t, weight.sum(0))):
        mean = marginal @ at
        sd = np.sqrt(marginal @ (at - mean) ** 2)
        np.testing.assert_allclose(draws[name].mean(), mean, atol=0.1 * sd)
        np.testing.assert_allclose(draws[name].std(), sd, rtol=0.1)


@pytest.mark.parametrize("constants", [np.asarray, jnp.asarray])
def test_what_jax_cannot_trace_again_is_no_error(constants):
    y = constants(np.random.default_rng(0).normal(size=9))
    model = vi.density({"x": vi.free()}, lambda v: -0.5 * jnp.sum((y - v["x"]) ** 2))
    fit = vi.auto(model, key=KEY)
    assert fit.report.single == 0
    np.testing.assert_allclose(fit.posterior["free"].mean(), 0.0, atol=0.05)


def log_root(gap):
    """log sqrt(1 - (1 - gap)^2), by a factor that float32 has not for a gap of 1e-10."""
    cov = jnp.stack([jnp.stack([1.0, 1.0 - gap]), jnp.stack([1.0 - gap, 1.0])])
    return jnp.log(jnp.linalg.cholesky(cov)[1, 1])


def lost_beyond(edge):
    """N(0, 1), whose logarithm float32 does not have beyond an edge."""
    gap = lambda x: jnp.where(x > edge, 1e-10, 0.5)
    return vi.density(
        {"x": vi.free()},
        lambda v: -0.5 * v["x"] ** 2 + 0.0 * log_root(gap(v["x"])),
        derived=lambda v: {"log": log_root(1e-10 * jnp.exp(v["x"]))},
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_few_draws_without_a_value_in_float32_are_noticed(seed):
    model = lost_beyond(1.9)  # 3 % of the draws
    q = Gaussian(np.zeros(1), np.eye(1), 0.0)
    single, double = (Target.from_data(model, None, is_double) for is_double in (False, True))
    assert density_checks.float32_error(single, lambda: double, q, seed) == np.inf
    low = Gaussian(np.full(1, -5.0), 0.1 * np.eye(1), 0.0)
    assert density_checks.float32_error(single, lambda: double, low, seed) < 1e-3


@pytest.mark.slow
def test_derived_values_that_float32_does_not_have_are_derived_in_float64():
    fit = vi.auto(lost_beyond(1.9), key=KEY)
    assert "Computed in float64" in fit.verdict
    draws = fit.sample(jax.random.key(1), 2000)
    assert draws["log"].dtype == np.float32
    np.testing.assert_allclose(draws["log"], 0.5 * (draws["x"] + np.log(2e-10)), atol=1e-3)
