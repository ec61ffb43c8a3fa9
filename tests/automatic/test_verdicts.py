"""What `vijax.auto` and `vijax.dadvi` say of a fit against what is true of it: exact moments, modes
that are known."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy import stats

import vijax as vi
from tests.naming import check_names
from vijax.automatic import assessment, density_checks
from vijax.automatic.gaussian import Gaussian
from vijax.automatic.mixture import Mixture
from vijax.automatic.modes import find_modes, prior_scales, share_hill, wide_starts
from vijax.lbfgs import Point, maximise
from vijax.verdict import limits
from vijax.verdict.target import Target
from vijax.xla import keys

KEY = jax.random.key(0)
USABLE = "means and sds can be used."
"""Without a word more: of the whole posterior."""


# --- other modes ----------------------------------------------------------------------------------
WEIGHTS, PLACES = np.array([0.6, 0.3, 0.1]), np.array([[1.0, 0.0], [-2.0, 2.0], [5.5, -4.5]])


def of_normals(weights, places, sd):
    each = lambda x: norm.logpdf(x, jnp.asarray(places), sd).reshape(len(places), -1).sum(1)
    return lambda x: jax.nn.logsumexp(jnp.log(jnp.asarray(weights)) + each(x))


@functools.cache
def two_modes():
    density = of_normals([0.5, 0.5], [-4.0, 4.0], 0.5)
    return vi.density({"x": vi.free()}, lambda v: density(v["x"]))


@functools.cache
def three_modes(has_prior):
    """A tenth of the mass is 6.4 from the rest of it, where the prior is N(0, 8)."""
    density, prior = of_normals(WEIGHTS, PLACES, 0.5), lambda x: norm.logpdf(x, 0, 8)
    if not has_prior:
        return vi.density({"x": vi.free(2)}, lambda v: density(v["x"])), None
    likelihood = lambda v, one: one * (density(v["x"]) - prior(v["x"]).sum())
    return vi.density({"x": vi.free(2, log_prior=prior)}, log_lik=likelihood), np.ones(1)


METHODS = {"auto": lambda *given, **more: vi.auto(*given, **more, richer=False), "dadvi": vi.dadvi}


@pytest.mark.parametrize("method", METHODS)
def test_a_fit_to_one_mode_of_two_says_that_alone(method):
    """Two normals at -4 and 4: the mean is 1 sd off, sds are 8.06 times too small."""
    fit = METHODS[method](two_modes(), key=KEY)
    assert USABLE not in fit.verdict
    assert "means and sds can be used for that part alone" in fit.verdict
    assert "another mode of similar weight, about 50 % of the posterior" in fit.verdict
    assert (
        "means move by up to 1.0 sd, and sds are up to 8.1 times as large"
        in fit.verdict.replace("8.0", "8.1")
    )
    assert fit.report.others.mean == pytest.approx(4 / np.sqrt(16.25), abs=0.02)
    assert fit.report.others.sds == pytest.approx(np.sqrt(16.25) / 0.5, rel=0.05)


@pytest.mark.parametrize("has_prior", [True, False])
def test_a_mode_far_away_is_found_whatever_the_key(has_prior):
    model, data = three_modes(has_prior)
    for seed in range(4):
        fit = METHODS["auto"](model, data, key=jax.random.key(seed))
        assert len(fit.modes) == 3
        assert "2 other modes of similar weight, about 40 % of the posterior" in fit.verdict
    fit = vi.dadvi(model, data, key=KEY)
    assert "2 other modes of similar weight, about 40 % of the posterior" in fit.verdict


def test_a_mixture_that_has_all_modes_says_so():
    model, data = three_modes(False)
    fit = vi.auto(model, data, key=KEY)
    draws = np.asarray(fit.sample(KEY, 20_000)["x"], np.float64)
    exact = WEIGHTS @ PLACES, np.sqrt(0.25 + WEIGHTS @ (PLACES - WEIGHTS @ PLACES) ** 2)
    np.testing.assert_allclose((draws.mean(0) - exact[0]) / exact[1], 0, atol=0.03)
    np.testing.assert_allclose(draws.std(0), exact[1], rtol=0.03)
    assert USABLE in fit.verdict
    check_names(fit.verdict, "Other modes:", "3", "16")


# --- where searches begin -------------------------------------------------------------------------
def test_the_spread_of_priors_is_known():
    """By quantiles in free coordinates, read off a line of powers of two; of what has no proper
    prior it is not known."""
    model = vi.density(
        {"a": vi.free(), "b": vi.free(support="positive"), "c": vi.free(), "d": vi.free()},
        log_prior=lambda v: (
            norm.logpdf(v["a"], 40.0, 8.0) - v["b"] / 100 + norm.logpdf(v["d"], 0, 1e7)
        ),
        log_lik=lambda v, y: y * v["c"],
    )
    found = prior_scales(Target.from_data(model, np.zeros(2)))
    assert found.is_known.tolist() == [True, True, False, True]
    quantiles = stats.gumbel_l(np.log(100.0)).ppf([0.16, 0.84])  # log of an exponential
    middles = (0, 40.0), (1, quantiles.mean()), (3, 0.0)
    widths = (0, 8.0), (1, 0.5 * np.diff(quantiles)[0]), (3, 1e7)
    for (i, middle), (_, width) in zip(middles, widths, strict=True):
        assert abs(found.middle[i] - middle) < 0.6 * width
        assert 0.8 < found.width[i] / width < 1.25
    begun = wide_starts(Target.from_data(model, np.zeros(2)), found, 16, 0)
    assert np.abs(begun[:, 0] - 40).max() > 8
    assert np.abs(begun[:, 3]).max() > 1e6


def test_a_search_that_stops_amid_a_bent_valley_finds_no_mode():
    """y = x^2 + noise has one mode; in float32 a search ended far out on an arm, which was then
    taken for another."""
    log_p = lambda v: norm.logpdf(v["x"]) + norm.logpdf(v["y"], v["x"] ** 2, 0.5)
    target = Target.from_data(vi.density({"x": vi.free(), "y": vi.free()}, log_p), None)
    for seed in (keys.seed(jax.random.key(i)) for i in range(5)):
        ((mode, count, _),) = find_modes(target, seed, 16)
        assert count == 16
        np.testing.assert_allclose(mode.x, 0, atol=0.1)


class Hills:
    """As a target: two normals, the first coordinates of their means -4 and 4."""

    epsilon, dim = 1e-16, 6
    precision = 10.0 ** np.linspace(0, 2, 6)
    means = 4.0 * np.eye(6)[0] * np.array([[-1.0], [1.0]])

    def __init__(self):
        self.num_gradients = 0

    def slopes(self, x):
        self.num_gradients += len(x)
        each = self._each(x)
        shares = np.exp(each - np.logaddexp(*each.T)[:, None])
        return self.values(x), (shares @ self.means - x) * self.precision

    def values(self, x):
        return np.logaddexp(*self._each(x).T)

    def _each(self, x):
        return np.stack([-0.5 * (x - mean) ** 2 @ self.precision for mean in self.means], 1)


def test_searches_on_one_hill_become_one_and_those_on_two_do_not():
    starts = np.random.default_rng(0).normal(0, 6, (16, 6))
    alone, joined = Hills(), Hills()
    every = maximise(alone.slopes, starts)
    found = maximise(
        joined.slopes, starts, on_one_hill=lambda low, high: share_hill(joined, low, high)
    )
    assert joined.num_gradients < 0.9 * alone.num_gradients
    left = [sum(mode.x[0] < 0 for mode in which) for which in (every, found)]
    assert left[0] == left[1] in range(4, 13)
    assert len(found) == 16
    np.testing.assert_allclose(np.abs([mode.x[0] for mode in found]), 4, atol=0.1)
    place = lambda x: Point(x * np.eye(6)[0], float(Hills().values(x * np.eye(6)[:1])[0]), 0.0)
    assert share_hill(Hills(), place(7.0), place(4.5))
    assert not share_hill(Hills(), place(-5.0), place(4.0))


# --- means and sds --------------------------------------------------------------------------------
def judged(q, log_p, numbers=lambda x: x):
    draws, log_q = q.draw(1024, [0, 1])
    found = assessment.weigh(log_p, q, draws, log_p(draws), log_q, [0, 2])
    x = numbers(found.x)
    return assessment.moments(found, x, [str(i) for i in range(x.shape[1])])


@pytest.mark.parametrize("dim", [1, 3, 10])
@pytest.mark.parametrize(("shift", "stretch"), [(0.0, 1.0), (0.3, 1.0), (0.0, 0.8), (0.2, 1.25)])
def test_moments_of_a_normal_are_known(dim, shift, stretch):
    """q is N(0, I); the first coordinate of the posterior is N(-shift, 1 / stretch^2): off by
    both."""
    log_p = lambda x: -0.5 * ((stretch * (x[:, 0] + shift)) ** 2 + (x[:, 1:] ** 2).sum(1))
    found = judged(Gaussian(np.zeros(dim), np.eye(dim), 0.0), log_p)
    assert found.is_reliable
    assert found.mean.value == pytest.approx(shift * stretch, abs=0.02 + 4 * found.mean.error)
    assert found.log_sd.value == pytest.approx(np.log(stretch), abs=0.02 + 4 * found.log_sd.error)
    assert max(found.mean.error, found.log_sd.error) < 0.05
    if (shift, stretch) == (0.0, 1.0):
        assert max(found.mean.most, found.log_sd.most) < 1e-3  # the largest weights are smoothed


def test_of_heavy_tails_sds_are_known_to_be_too_small():
    """Four independent t of three degrees: the sd of each is root 3."""
    log_p = lambda x: stats.t(3).logpdf(x).sum(1)
    for sd in (1.2, 1.45):
        found = judged(Gaussian(np.zeros(4), sd * np.eye(4), 0.0), log_p)
        assert found.log_sd.value < -0.6 * np.log(np.sqrt(3) / sd)
        assert found.log_sd.most > limits.GOOD


def test_a_bent_arm_is_followed_beyond_the_last_component():
    """y = x^2 / 2 + noise, x ~ N(0, 2), under a mixture of normals that ends at |x| = 4."""
    log_p = lambda x: norm.logpdf(x[:, 0], 0, 2) + norm.logpdf(x[:, 1], x[:, 0] ** 2 / 2, 0.5)
    host = lambda x: np.asarray(log_p(x), np.float64)
    middles = np.linspace(-4, 4, 9)
    parts = []
    for x in middles:
        root = np.array([[0.5, 0.0], [0.5 * x, 0.5]])
        parts.append(Gaussian(np.array([x, x**2 / 2 + 0.125]), root, 0.0))
    weights = np.exp(-(middles**2) / 8)
    q = Mixture(weights / weights.sum(), tuple(parts))
    draws, _ = q.draw(20_000, [3])
    exact = np.log(draws[:, 1].std() / np.sqrt(8.25))
    assert exact < -0.1
    found = judged(q, host)
    assert found.log_sd.at == "1"
    assert found.log_sd.value == pytest.approx(exact, abs=0.06)


@pytest.mark.parametrize("name", ["heavy", "bent"])
def test_sds_that_are_too_small_are_not_to_be_used(name):
    if name == "heavy":
        model = vi.density({"x": vi.free(4)}, lambda v: -2 * jnp.log1p(v["x"] ** 2 / 3).sum())
    else:
        log_p = lambda v: norm.logpdf(v["x"], 0, 2) + norm.logpdf(v["y"], v["x"] ** 2 / 2, 0.5)
        model = vi.density({"x": vi.free(), "y": vi.free()}, log_p)
    fit = vi.auto(model, key=KEY, richer=False)
    assert USABLE not in fit.verdict
    assert "too small" in fit.verdict
    assert fit.report.off.log_sd.value < -0.1


def test_moments_are_those_of_the_values():
    """Of exp(x), which is lognormal under q and gamma under the posterior."""
    log_p = lambda x: 3 * x[:, 0] - np.exp(x[:, 0])
    q = Gaussian(np.array([np.log(3) - 1 / 6]), np.array([[np.sqrt(1 / 3)]]), 0.0)
    found = judged(q, log_p, np.exp)
    mean = np.exp(q.mean[0] + 1 / 6)
    sd = mean * np.sqrt(np.expm1(1 / 3))
    assert found.mean.value == pytest.approx((mean - 3) / np.sqrt(3), abs=0.02)
    assert found.log_sd.value == pytest.approx(np.log(sd / np.sqrt(3)), abs=0.03)


# --- tails ----------------------------------------------------------------------------------------
def test_in_float64_a_normal_posterior_has_no_heavy_tails():
    precision = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
    with jax.enable_x64(True):
        model = vi.density(
            {"x": vi.free(3)}, lambda v: -0.5 * (v["x"] - 1) @ precision @ (v["x"] - 1)
        )
        fits = [vi.auto(model, key=jax.random.key(seed)) for seed in range(4)]
    for fit in fits:
        assert fit.khat == 0.0
        assert USABLE in fit.verdict
        assert "do not rely on tail probabilities" not in fit.verdict


# --- sizes ----------------------------------------------------------------------------------------
def test_a_wide_posterior_is_proper():
    """Standard deviations of 1e8 and .1, a mean of 3e8, in float32."""
    place, scale = jnp.array([3e8, -2.0]), jnp.array([1e8, 0.1])
    model = vi.density({"x": vi.free(2)}, lambda v: norm.logpdf(v["x"], place, scale).sum())
    fit = vi.auto(model, key=KEY)
    assert fit.status is vi.Status.CONVERGED
    assert USABLE in fit.verdict
    draws = np.asarray(fit.sample(KEY, 20_000)["x"], np.float64)
    np.testing.assert_allclose((draws.mean(0) - place) / scale, 0, atol=0.03)


def test_data_far_away_are_found_where_the_prior_reaches():
    """Numbers around 1e8 with a standard deviation of 2, mean and scale unknown."""
    y = 1e8 + 2 * np.random.default_rng(0).normal(size=40)
    with jax.enable_x64(True):
        model = vi.density(
            {"mean": vi.free(), "scale": vi.free(support="positive")},
            log_prior=lambda v: norm.logpdf(v["mean"], 0, 1e9) - v["scale"] / 10,
            log_lik=lambda v, y: norm.logpdf(y, v["mean"], v["scale"]),
        )
        fit = vi.auto(model, y, key=KEY)
        draws = np.asarray(fit.sample(KEY, 20_000)["mean"])
    assert fit.status is vi.Status.CONVERGED
    assert USABLE in fit.verdict
    assert draws.mean() - 1e8 == pytest.approx(y.mean() - 1e8, abs=0.05)
    assert draws.std() == pytest.approx(y.std(ddof=1) / np.sqrt(40), rel=0.1)


def test_what_rounding_hides_is_told_and_its_remedy():
    model = vi.density({"x": vi.free(2)}, lambda v: 1e9 - 0.5 * jnp.sum((v["x"] - 1) ** 2))
    fit = vi.auto(model, key=KEY)
    assert "rounded to 1e+02 nats" in fit.verdict
    assert "Subtract a constant" in fit.verdict
    assert "can be used" not in fit.verdict
    assert "improper" not in fit.verdict


# --- labels ---------------------------------------------------------------------------------------
def lik(v, y):
    return jax.nn.logsumexp(jnp.log(v["w"]) + norm.logpdf(y, v["mu"], v["s"]))


def share(v, y):
    one, other = (norm.logpdf(y, v["mu"][k], 1.0) for k in range(2))
    return jnp.logaddexp(jnp.log(v["w"]) + one, jnp.log1p(-v["w"]) + other)


def chain(v, ys):
    first, rest = norm.logpdf(ys[0], v["mu"], 1.0), norm.logpdf(ys[1:, None], v["mu"], 1.0)
    step = lambda a, e: (jax.nn.logsumexp(a[:, None] + jnp.log(v["moves"]), 0) + e, None)
    return jax.nn.logsumexp(jax.lax.scan(step, first, rest)[0]) + norm.logpdf(v["mu"], 0, 5).sum()


def components(count):
    return {
        "mu": vi.free(count),
        "s": vi.free(count, "positive"),
        "w": vi.free(count, "simplex"),
        "b": vi.free(count),
    }


PRIOR = lambda v: (
    norm.logpdf(v["mu"], 0, 5).sum()
    - v["s"].sum()
    + norm.logpdf(v["b"], jnp.arange(len(v["b"]))).sum()
)
LABELLED = {
    "two": (vi.density(components(2), log_prior=PRIOR, log_lik=lik), [("mu", "s", "w")]),
    "three": (vi.density(components(3), log_prior=PRIOR, log_lik=lik), [("mu", "s", "w")]),
    "a share": (
        vi.density(
            {"mu": vi.free(2), "w": vi.free((), "unit interval")},
            log_prior=lambda v: norm.logpdf(v["mu"], 0, 5).sum(),
            log_lik=share,
        ),
        [("mu", "w")],
    ),
    "a chain": (
        vi.density({"moves": vi.free((2, 2), "simplex"), "mu": vi.free(2)}, chain),
        [("moves", "mu")],
    ),
    "told apart": (
        vi.density(components(2), log_prior=lambda v: PRIOR(v) - 0.01 * v["mu"][0], log_lik=lik),
        [],
    ),
    "in order": (
        vi.density({**components(2), "mu": vi.free(2, "ordered")}, log_prior=PRIOR, log_lik=lik),
        [],
    ),
}


@pytest.mark.parametrize("name", LABELLED)
def test_labels_that_may_be_exchanged_are_found(name):
    """A law: an exchange leaves the density as it is, everywhere; and all that there are are
    found."""
    model, expected = LABELLED[name]
    y = np.concatenate([np.random.default_rng(0).normal(m, 1.0, 20) for m in (-2.0, 2.0)]).astype(
        np.float32
    )
    target = Target.from_data(model, y)
    at = np.random.default_rng(1).normal(size=target.dim)
    found = density_checks.exchanges(target, at, np.full(target.dim, 0.1))
    assert [exchange.names for exchange in found] == expected
    for exchange in found:
        copies = exchange.copies(model.free.variables, at[None])
        assert len(copies) == {2: 1, 3: 5}[exchange.size]
        np.testing.assert_allclose(
            target.values(np.concatenate(copies)), target.values(at[None])[0], rtol=1e-5
        )
    assert not density_checks.exchanges(
        target, np.zeros(target.dim), np.full(target.dim, 10.0)
    )  # they are where they were


def test_a_sphere_has_no_labels():
    """Its entries may be exchanged as they may be turned: no order of theirs is a labelling."""
    shell = vi.density({"x": vi.free(3)}, lambda v: -0.5 * (jnp.linalg.norm(v["x"]) - 9) ** 2)
    assert (
        density_checks.exchanges(
            Target.from_data(shell, None), np.array([8.0, 4.0, 1.0]), np.full(3, 0.1)
        )
        == []
    )


def test_rounding_makes_no_labels():
    """The density is known to a nat, so that some exchanges of entries that differ cannot be seen
    at four points."""
    at = 1.2 * np.arange(8)
    normal = vi.density(
        {"x": vi.free(8)}, lambda v: -0.5 * jnp.sum((v["x"] - jnp.asarray(at)) ** 2) - 1e5
    )
    target = Target.from_data(normal, None)
    assert [density_checks.exchanges(target, at, np.ones(8), seed) for seed in range(40)] == [
        []
    ] * 40


def test_a_mixture_says_that_its_labels_can_be_exchanged():
    y = np.concatenate([np.random.default_rng(0).normal(m, 1.0, 50) for m in (-2.0, 2.0)]).astype(
        np.float32
    )
    fit = vi.auto(LABELLED["a share"][0], y, key=KEY, richer=False)
    assert "the density is the same with the entries of mu and w in another order" in fit.verdict
    assert "q describes one labelling" in fit.verdict
    assert "another mode" not in fit.verdict
    assert len(fit.modes) == 1
    assert sum(mode.num_starts for mode in fit.modes) == 16


# --- modes that are none --------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [1, 2])
def test_where_a_search_was_cut_short_there_is_no_mode(seed):
    """A plain regression with flat priors, on columns of other sizes: searches end far from the
    mode, with bounds 40 nats below that of q, and were said to be a mode of half of the
    posterior."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.normal(0.3, 0.4, (46, 1)))
    near = size * np.exp(0.15 * rng.normal(size=(46, 4)))
    counts = rng.poisson(1.7, (46, 1)) + 1.0
    x = np.concatenate([np.ones((46, 1)), near, counts, rng.integers(0, 2, (46, 1))], 1)
    y = x @ (200.0 * np.array([-2.0, 1, 2, 1, -0.5, 0.5, -2])) + 260.0 * rng.normal(size=46)
    variables = {"beta": vi.free(7), "sigma": vi.free(support="positive")}
    model = vi.density(variables, lambda v: norm.logpdf(y, x @ v["beta"], v["sigma"]).sum())
    fit = vi.auto(model, key=KEY)
    assert "Other modes: none was found" in fit.verdict
    assert USABLE in fit.verdict
    beta = np.linalg.lstsq(x, y, rcond=None)[0]
    draws = np.asarray(fit.sample(jax.random.key(1), 20_000)["beta"], np.float64)
    np.testing.assert_allclose((draws.mean(0) - beta) / draws.std(0), 0, atol=0.1)
