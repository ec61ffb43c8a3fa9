"""Unknowns of NumPyro models that are integrated out, against closed forms in SciPy."""

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import vijax as vi
from vijax.adapters.conjugate.forms import BetaForm, GammaForm, NormalForm

numpyro = pytest.importorskip("numpyro")
dist = numpyro.distributions
RNG = np.random.default_rng(0)


# --- models, and their marginal densities ---------------------------------------------------------
GROUP = np.repeat(np.arange(6), [1, 2, 3, 5, 8, 20])
X = RNG.normal(size=len(GROUP))
LINES = (
    RNG.normal(1, 0.8, 6)[GROUP] + X * RNG.normal(0.5, 0.4, 6)[GROUP] + RNG.normal(0, 0.7, len(X))
)


def lines(y, x, group):
    mean = numpyro.sample("mean", dist.Normal(0, 3))
    sds = numpyro.sample("sds", dist.HalfNormal(1.0).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("groups", 6):
        a = numpyro.sample("a", dist.Normal(mean, sds[0]))
        b = numpyro.sample("b", dist.Normal(0, sds[1]))
    numpyro.deterministic("first", a[0])
    numpyro.sample("y", dist.Normal(a[group] + b[group] * x, noise).to_event(1), obs=y)


def of_lines(v):
    """Design, covariance of the effects and of the rows."""
    groups = np.eye(6)[GROUP]
    design = np.c_[groups, groups * X[:, None]]
    effects = np.diag(np.repeat(np.asarray(v["sds"]) ** 2, 6))
    return design, effects, design @ effects @ design.T + v["noise"] ** 2 * np.eye(len(X))


def lines_exactly(v):
    cov = of_lines(v)[2]
    prior = (
        stats.norm(0, 3).logpdf(v["mean"]) + stats.halfnorm.logpdf([*v["sds"], v["noise"]]).sum()
    )
    return prior + stats.multivariate_normal(np.full(len(X), v["mean"]), cov).logpdf(LINES)


EXPOSURE = np.linspace(0.5, 9.0, 9)
COUNTS = RNG.poisson(RNG.gamma(2, 1.5, 9) * EXPOSURE)


def counts(y, exposure):
    shape = numpyro.sample("shape", dist.Exponential(1.0))
    rate = numpyro.sample("rate", dist.Exponential(1.0))
    with numpyro.plate("groups", 9):
        t = numpyro.sample("t", dist.Gamma(shape, rate))
        numpyro.sample("y", dist.Poisson(exposure * t), obs=y)


def counts_exactly(v):
    law = stats.nbinom(v["shape"], v["rate"] / (v["rate"] + EXPOSURE))
    return law.logpmf(COUNTS).sum() - v["shape"] - v["rate"]


SEEN = RNG.normal(size=(5, 7)) * np.array([0.5, 1, 2, 1, 3])[:, None]


def variances(y):
    shape = numpyro.sample("shape", dist.Gamma(2.0, 1.0))
    scale = numpyro.sample("scale", dist.Gamma(2.0, 1.0))
    with numpyro.plate("groups", 5):
        v = numpyro.sample("v", dist.InverseGamma(shape, scale))
    numpyro.sample("y", dist.Normal(0, jnp.sqrt(v)[:, None]).to_event(2), obs=y)


def variances_exactly(v):
    a, b = v["shape"], v["scale"]
    squares = 0.5 * (SEEN**2).sum(1)
    gammas = special.gammaln(a + 3.5) - special.gammaln(a) - 3.5 * np.log(2 * np.pi)
    terms = gammas + a * np.log(b) - (a + 3.5) * np.log(b + squares)
    return terms.sum() + stats.gamma(2).logpdf([a, b]).sum()


TRIALS = np.array([5, 8, 20, 20, 31, 44, 49, 12])
HITS = np.array([0, 3, 2, 6, 4, 9, 7, 12])


def shares(n, y):
    a = numpyro.sample("a", dist.Exponential(0.2))
    b = numpyro.sample("b", dist.Exponential(0.2))
    with numpyro.plate("groups", 8):
        t = numpyro.sample("t", dist.Beta(a, b))
        numpyro.sample("y", dist.Binomial(n, t), obs=y)


def shares_exactly(v):
    law = stats.betabinom(TRIALS, v["a"], v["b"])
    return law.logpmf(HITS).sum() + 2 * np.log(0.2) - 0.2 * (v["a"] + v["b"])


STEPS = np.cumsum(RNG.normal(size=12))


def walk(y):
    step = numpyro.sample("step", dist.HalfNormal(1.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    level = numpyro.sample("level", dist.GaussianRandomWalk(step, num_steps=12))
    numpyro.sample("y", dist.Normal(level, noise).to_event(1), obs=y)


def walk_exactly(v):
    sums = np.tril(np.ones((12, 12))) * v["step"]
    cov = sums @ sums.T + v["noise"] ** 2 * np.eye(12)
    prior = stats.halfnorm.logpdf([v["step"], v["noise"]]).sum()
    return prior + stats.multivariate_normal(np.zeros(12), cov).logpdf(STEPS)


FAR = np.array([29_999.0, 30_001.0, 30_002.0, 30_004.0])


def far(y):
    mean = numpyro.sample("mean", dist.Normal(30_000, 3))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0))
    with numpyro.plate("rows", 4):
        level = numpyro.sample("level", dist.Normal(mean, sd))
        numpyro.sample("y", dist.Normal(level, 1.0), obs=y)


CASES = {
    "lines": (lines, (LINES, X, GROUP), lines_exactly, ["a", "b"]),
    "counts": (counts, (COUNTS, EXPOSURE), counts_exactly, ["t"]),
    "variances": (variances, (SEEN,), variances_exactly, ["v"]),
    "shares": (shares, (TRIALS, HITS), shares_exactly, ["t"]),
    "walk": (walk, (STEPS,), walk_exactly, ["level"]),
}


@functools.cache
def model_of(name):
    model, arguments, *_ = CASES[name]
    return vi.from_numpyro(model, *arguments)


def random_values(density, seed):
    rng = np.random.default_rng(seed)
    return {name: np.exp(rng.normal(size=shape)) for name, shape in density.variables.shapes}


@pytest.mark.parametrize("name", CASES)
def test_density_of_the_others_is_the_integral(name):
    _, _, exactly, gone = CASES[name]
    density = model_of(name).log_density
    assert not set(gone) & set(density.variables.names)
    log_prior = jax.jit(density.log_prior)
    for seed in range(3):
        values = random_values(density, seed)
        floats = {key: jnp.asarray(x, jnp.float32) for key, x in values.items()}
        np.testing.assert_allclose(log_prior(floats), exactly(values), rtol=1e-6)


def draws_given(name, values, count=4000):
    """Draws of the unknowns that were integrated out, at values of the others that differ by
    nothing but their last digits."""
    density = model_of(name).log_density
    jitter = 1 + 1e-6 * np.arange(count)[:, None]
    stacked = {
        key: jnp.asarray((jitter * np.ravel(x)).reshape(count, *np.shape(x)), jnp.float32)
        for key, x in values.items()
    }
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(density.derived))(stacked))


def test_draws_are_from_the_law_given_the_others():
    values = {"a": 2.0, "b": 5.0}
    t = draws_given("shares", values)["t"]
    for i in (0, 5):
        law = stats.beta(2 + HITS[i], 5 + TRIALS[i] - HITS[i])
        assert stats.kstest(t[:, i], law.cdf).pvalue > 1e-5
    values = {"mean": 0.5, "sds": np.array([0.7, 0.4]), "noise": 0.6}
    draws = draws_given("lines", values)
    found = np.c_[draws["a"], draws["b"]]
    design, effects, cov = of_lines(values)
    gain = effects @ design.T @ np.linalg.inv(cov)
    prior_mean = np.r_[np.full(6, 0.5), np.zeros(6)]
    mean = prior_mean + gain @ (LINES - 0.5)
    covariance = effects - gain @ design @ effects
    sds = np.sqrt(np.diag(covariance))
    assert np.abs((found.mean(0) - mean) / sds).max() < 6 / np.sqrt(len(found))
    error = (np.cov(found.T) - covariance) / sds / sds[:, None]
    assert np.abs(error).max() < 6 * np.sqrt(2 / len(found))
    np.testing.assert_array_equal(draws["first"], draws["a"][:, 0])


def test_levels_far_from_zero_are_drawn_from_their_law():
    density = vi.from_numpyro(far, FAR).log_density
    assert density.variables.names == ["mean", "sd"]
    sds = np.linspace(0.999, 1.001, 4000, dtype=np.float32)
    values = {"mean": jnp.full(4000, 30_001, jnp.float32), "sd": jnp.asarray(sds)}
    level = np.asarray(jax.jit(jax.vmap(density.derived))(values)["level"])
    for i, y in enumerate(FAR):
        law = stats.norm((30_001 + y) / 2, np.sqrt(0.5))
        assert stats.kstest(level[:, i], law.cdf).pvalue > 1e-5
    marginal = stats.norm(30_001, np.sqrt(2)).logpdf(FAR).sum()
    prior = stats.norm(30_000, 3).logpdf(30_001) + stats.halfnorm.logpdf(1.0)
    found = density.log_prior({"mean": jnp.float32(30_001), "sd": jnp.float32(1.0)})
    np.testing.assert_allclose(found, marginal + prior, rtol=1e-4)


def test_what_is_not_conjugate_stays():
    def near(y, n):  # logits of normals; Student's t; a rate with an offset
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        sd = numpyro.sample("sd", dist.HalfNormal(1.0))
        with numpyro.plate("groups", len(y)):
            logit = numpyro.sample("logit", dist.Normal(mean, sd))
            heavy = numpyro.sample("heavy", dist.StudentT(30.0, mean, sd))
            rate = numpyro.sample("rate", dist.Gamma(jnp.exp(mean), sd))
            numpyro.sample("seen", dist.Binomial(n, logits=logit), obs=y)
            numpyro.sample("value", dist.Normal(heavy, 1.0), obs=y / 10.0)
            numpyro.sample("count", dist.Poisson(rate + 0.1), obs=y)

    model = vi.from_numpyro(near, HITS, TRIALS)
    assert model.log_density.variables.names == ["heavy", "logit", "mean", "rate", "sd"]
    assert "summed out" not in model.queries


def test_a_density_without_second_derivatives_keeps_its_unknowns():
    @jax.custom_jvp
    def constant(x):
        return x

    constant.defjvps(lambda dx, _, x: jnp.nan * dx)

    @jax.custom_jvp
    def log_lik(level, log_sd):
        residuals = (level - jnp.arange(4.0)) / jnp.exp(log_sd)
        return -0.5 * jnp.sum(residuals**2) - 4 * log_sd

    def slope(primals, tangents):
        level, log_sd = primals
        residuals = (level - jnp.arange(4.0)) / jnp.exp(log_sd)
        slopes = constant(-residuals / jnp.exp(log_sd)), constant(jnp.sum(residuals**2) - 4)
        return log_lik(*primals), jnp.sum(slopes[0] * tangents[0]) + slopes[1] * tangents[1]

    log_lik.defjvp(slope)

    def story():
        log_sd = numpyro.sample("log_sd", dist.Normal(0, 1))
        spread = numpyro.sample("spread", dist.HalfNormal(1.0))
        level = numpyro.sample("level", dist.Normal(0, spread).expand([4]).to_event(1))
        numpyro.factor("y", log_lik(level, log_sd))

    model = vi.from_numpyro(story)
    assert model.log_density.variables.names == ["level", "log_sd", "spread"]


def test_an_unknown_on_which_laws_of_others_depend_stays():
    def regions(y, region):
        mean = numpyro.sample("mean", dist.Normal(0, 3))
        between = numpyro.sample("between", dist.HalfNormal(1.0))
        with numpyro.plate("regions", 3):
            level = numpyro.sample("level", dist.Normal(mean, between))
        with numpyro.plate("towns", 9):
            town = numpyro.sample("town", dist.LogNormal(level[region], between))
            numpyro.sample("y", dist.Poisson(town), obs=y)

    model = vi.from_numpyro(regions, np.arange(9), np.repeat(np.arange(3), 3))
    assert model.log_density.variables.names == ["between", "level", "mean", "town"]


@pytest.mark.parametrize("form", [BetaForm(), GammaForm(), GammaForm(-1), NormalForm()])
def test_forms_against_quadrature(form):
    for a, b in np.random.default_rng(0).gamma(2, 1.5, (4, 2)):
        middle, sd = (float(x) for x in form.middle(a, b))
        z = middle + sd * np.linspace(-40, 40, 40_001)
        with jax.enable_x64(True):
            slopes = np.asarray(form.slope(jnp.asarray(z), a, b))
        # f less its value at the mode, from there to both sides, and the integral of its exponential
        right = integrate.cumulative_trapezoid(slopes[20_000:], z[20_000:])
        left = integrate.cumulative_trapezoid(slopes[20_000::-1], z[20_000::-1])
        heights = np.exp(np.r_[left[::-1], 0.0, right])
        exact = np.log(integrate.trapezoid(heights, z))
        found = form.log_integral(jnp.float32(middle), a, b)
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-4)
        points = jnp.float32(middle - 0.3), jnp.float32(middle + 0.9)
        at_points = tuple(form.slope(point, a, b) for point in points)
        np.testing.assert_allclose(form.solve(points, at_points), (a, b), rtol=1e-4)


@pytest.mark.slow
def test_shares_against_quadrature():
    fit = vi.auto(model_of("shares"), key=jax.random.key(0))
    assert "Integrated out: 't'" in fit.verdict
    draws = fit.sample(jax.random.key(1), 20_000)
    log_a, log_b = np.meshgrid(np.linspace(-3, 4.5, 200), np.linspace(-2, 6, 200), indexing="ij")
    a, b = np.exp(log_a), np.exp(log_b)
    laws = stats.betabinom(TRIALS[:, None, None], a, b).logpmf(HITS[:, None, None]).sum(0)
    log_p = laws - 0.2 * (a + b) + log_a + log_b
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    for i in (0, 7):
        first, total = a + HITS[i], a + b + TRIALS[i]
        mean = (weights * first / total).sum()
        square = (weights * first * (first + 1) / (total * (total + 1))).sum()
        sd = np.sqrt(square - mean**2)
        t = np.asarray(draws["t"])[:, i]
        assert abs(t.mean() - mean) < 0.05 * sd
        assert abs(np.log(t.std() / sd)) < 0.05
    for name, grid in (("a", a), ("b", b)):
        mean = (weights * grid).sum()
        sd = np.sqrt((weights * grid**2).sum() - mean**2)
        assert abs(np.asarray(draws[name]).mean() - mean) < 0.1 * sd
    again = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(again.sample(jax.random.key(1), 20_000)["t"], draws["t"])
