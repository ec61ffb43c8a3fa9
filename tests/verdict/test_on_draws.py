"""The verdict on fits by steps: judged on draws, against what is known exactly; what is said of
fits that cannot be."""

import dataclasses
import functools
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi
from tests.naming import check_names, naming
from vijax.contract.batch import Minibatch
from vijax.data.loader import as_loader, num_rows
from vijax.families import MultivariateNormal, Normal
from vijax.families.vector.free_normals import LowRankNormal
from vijax.fitting import judge
from vijax.inference.guides import Z
from vijax.models.energies.density import Frame, with_guide
from vijax.verdict import on_draws
from vijax.xla import keys

KEY = jax.random.key(0)
PRECISION = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
COV = np.linalg.inv(PRECISION)
SDS = np.sqrt(np.diag(COV))
MEAN = np.array([1.0, -2.0, 0.5])
LOG_Z = 0.5 * np.linalg.slogdet(2 * np.pi * COV)[1]
GUIDES = {
    "mean_field": vi.guides.mean_field(),
    "full_rank": vi.guides.full_rank(),
    "triangular": vi.guides.triangular(),
    "block": vi.guides.block([("a",)]),
    "low_rank": vi.guides.low_rank(2),
    "mixture": vi.guides.mixture(1),
}


def at(v):
    return jnp.concatenate([v["a"], v["b"][None]])


def normal(v):
    return -0.5 * (at(v) - MEAN) @ PRECISION @ (at(v) - MEAN)


@functools.lru_cache
def target():
    """A normal, unnormalised: one variable of two numbers, one of one."""
    return vi.density({"a": vi.free(2), "b": vi.free()}, normal)


def held(model, q, trace=None, alg=None, hyper=None):
    """A fit that ended at this q."""
    alg = alg or vi.ngvi(model)
    state = alg.init(KEY)
    state = state._replace(posterior=state.posterior.replace({Z: q}), hyper=hyper or state.hyper)
    return vi.Fit(alg, state, trace or {}, vi.Status.FINISHED)


def of_guide(name, mean, sd):
    """A fit whose q is the guide's member of this mean and standard deviation, and its moments."""
    guide, alg = GUIDES[name].optimiser_form(), vi.advi(target(), guide=GUIDES[name])
    q = guide.assign(target().free.variables.places).member(jnp.asarray(mean, jnp.float32), sd)
    return held(target(), q, alg=alg), np.asarray(q.mean(), float), np.asarray(_cov(q), float)


def _cov(q):
    """Independent normals, or by hand."""
    if isinstance(q, LowRankNormal):
        return np.diag(np.exp(2 * q.log_sd)) + q.factor @ q.factor.T
    return np.diag(q.variance()) if isinstance(q, Normal) else q.cov


@pytest.mark.parametrize("name", GUIDES)
def test_bound_and_moves_are_those_of_normals(name):
    """ELBO = log Z - KL(q || p). Means begin to move by S P (m_p - m_q), where S is q's covariance
    and P p's precision; log sds by (1 - diag(S P S) / diag(S)) / 2."""
    fit, mean, cov = of_guide(name, MEAN + 0.3, 0.6)
    found, gap = fit.judged(key=KEY, num_draws=4096), mean - MEAN
    kl = 0.5 * (np.trace(PRECISION @ cov) + gap @ PRECISION @ gap - 3 + np.linalg.slogdet(COV)[1])
    kl -= 0.5 * np.linalg.slogdet(cov)[1]
    assert found.elbo.value == pytest.approx(LOG_Z - kl, abs=4 * found.elbo.standard_error)
    assert found.elbo.standard_error < 0.02
    assert 0.5 * kl < found.gap < kl + 0.1
    sds = np.sqrt(np.diag(cov))
    np.testing.assert_array_less(
        abs(found.shift + cov @ PRECISION @ gap / sds), 5 * found.shift_error
    )
    stretch = 0.5 * (1 - np.diag(cov @ PRECISION @ cov) / sds**2)
    np.testing.assert_array_less(abs(found.stretch - stretch), 5 * found.stretch_error)
    assert found.shift_error.max() < 0.05


@pytest.mark.parametrize(
    ("off", "wide", "usable", "words"),
    [
        (0.0, 1.0, True, "q is close to the posterior as far as its own draws reach"),
        (0.3, 1.0, True, "q is near the posterior"),
        (0.0, 1e-3, False, "the sd of a and b would grow by about"),
        (0.0, 0.3, False, "the sd of a and b would grow by about"),
        (0.0, 0.8, True, "q is near the posterior|q is not quite at the posterior"),
        (3.0, 1.0, False, "the mean of a and b would move by about"),
        (235.0, 1.0, False, "the mean of a and b would move by about"),
        (235.0, 0.1, False, "the mean of a and b would move by about"),
        (235.0, 1e-3, False, "the sd of a and b would grow by about"),
        (0.0, 1.5, True, "q is not quite at the posterior"),
        (0.0, 10.0, False, "the sd of a and b would shrink by about"),
    ],
)
@pytest.mark.parametrize("key", range(3))
def test_a_mean_that_is_far_off_is_of_no_use_and_a_good_fit_is_praised(
    off, wide, usable, words, key
):
    """Off by so many posterior sds in each coordinate, and so many times as wide as the
    posterior."""
    scale = np.linalg.cholesky(wide**2 * COV)
    frame = Frame(np.float32(MEAN + off * SDS), np.float32(scale))  # float32 holds it so
    model = with_guide(target(), vi.guides.full_rank(), is_framed=True)
    fit = held(
        model, MultivariateNormal.from_mean_cov(jnp.zeros(3), jnp.eye(3)), hyper={"frame": frame}
    )
    found = fit.judged(key=jax.random.key(key))
    assert found.usable is usable
    assert found.verdict.startswith("Do not use this fit: ") is not usable
    says_right = "can be used" in found.verdict or "means are right to" in found.verdict
    assert found.sds_usable is says_right
    assert np.any([part in found.verdict for part in words.split("|")]), found.verdict


def test_a_narrow_normal_shows_in_the_tail_of_the_ratios():
    """p / q grows as exp(z^2 / 2) does: no mean of it exists."""
    q = MultivariateNormal.from_mean_cov(
        jnp.asarray(MEAN + SDS, jnp.float32), jnp.asarray(1e-4 * COV, jnp.float32)
    )
    assert held(target(), q).judged(key=KEY).khat > 0.7


def test_ratios_that_are_all_equal_are_no_tail():
    """An exactly normal posterior, in both precisions: its k-hat cannot be estimated, and is no
    reason to warn."""
    with jax.enable_x64(True):
        mean, precision = (
            MEAN.copy(),
            PRECISION.copy(),
        )  # JAX remembers arrays that a program of float32 has read
        model = vi.density(
            {"x": vi.free(3)}, lambda v: -0.5 * (v["x"] - mean) @ precision @ (v["x"] - mean)
        )
        found = held(model, MultivariateNormal.from_mean_cov(MEAN, COV)).judged(key=KEY)
    assert found.khat < 0.7
    assert found.gap < 1e-6
    assert found.elbo.value == pytest.approx(LOG_Z, abs=1e-9)
    assert "tails" not in found.verdict


def test_of_a_frame_it_is_that_of_the_free_coordinates():
    """Correlated coordinates, in which those of the frame are none of the variables'."""
    cov = 0.5 * COV
    plain = held(
        target(), MultivariateNormal.from_mean_cov(np.float32(MEAN + 0.2), np.float32(cov))
    )
    framed = with_guide(target(), vi.guides.full_rank(), is_framed=True)
    scale = np.linalg.cholesky(cov / 16)
    frame = Frame(np.float32(MEAN - 1.0), np.float32(scale))
    mean = np.linalg.solve(scale, np.full(3, 1.2))
    inside = MultivariateNormal.from_mean_cov(np.float32(mean), 16 * np.eye(3))
    other = held(framed, inside, alg=vi.ngvi(framed), hyper={"frame": frame})
    one, two = (fit.judged(key=KEY, num_draws=4096) for fit in (plain, other))
    error = np.hypot(one.elbo.standard_error, two.elbo.standard_error)
    assert two.elbo.value == pytest.approx(one.elbo.value, abs=4 * error)
    exact = -0.5 * 0.2 / np.sqrt(np.diag(cov))  # S P (m_p - m_q) / sd, with S = P^-1 / 2
    for said in (one, two):
        np.testing.assert_array_less(abs(said.shift - exact), 5 * said.shift_error)
        assert said.shift_error.max() < 0.02


# --- data -----------------------------------------------------------------------------------------
ROWS = np.random.default_rng(1).normal(2.0, 1.0, 1001).astype(np.float32)


@functools.lru_cache
def of_rows(offset=0.0):
    lik = lambda v, y: norm.logpdf(y, v["x"]) + offset
    return vi.density({"x": vi.free()}, log_prior=lambda v: norm.logpdf(v["x"], 0, 10), log_lik=lik)


def exact(rows=ROWS):
    """Mean and variance of the posterior, and the log evidence."""
    total = np.asarray(rows, float)
    variance = 1 / (len(total) + 0.01)
    mean = variance * total.sum()
    at_zero = (
        -0.5 * np.log(2 * np.pi) * len(total) - 0.5 * total @ total - 0.5 * np.log(2 * np.pi * 100)
    )
    return mean, variance, at_zero + 0.5 * mean**2 / variance + 0.5 * np.log(2 * np.pi * variance)


def posterior_of_rows(model=None):
    mean, variance, _ = exact()
    return held(
        model or of_rows(),
        MultivariateNormal.from_mean_cov(jnp.float32([mean]), jnp.float32([[variance]])),
    )


@pytest.mark.parametrize("rows", [64, 300, 4096])
def test_the_size_of_batches_is_nothing(rows, monkeypatch):
    """One pass over the data, whose last batch is padded."""
    monkeypatch.setattr(on_draws, "ROWS", rows)
    found = posterior_of_rows().judged(as_loader(ROWS, of_rows(), 16, 0), key=KEY)
    assert found.elbo.value == pytest.approx(exact()[2], abs=2e-3)
    assert found.gap < 1e-3
    assert found.usable


def test_the_size_of_a_sum_costs_no_digits_of_its_differences():
    """Each of the rows adds ten thousand nats: in float32 their sum is known to one nat."""
    found = posterior_of_rows(of_rows(-10_000.0)).judged(ROWS, key=KEY)
    assert found.gap < 0.01
    assert found.rounding < 0.05
    assert "means and sds can be used" in found.verdict


def test_where_rounding_hides_the_density_it_is_told():
    model = vi.density({"x": vi.free()}, lambda v: 1e8 - 0.5 * v["x"] ** 2)
    found = held(model, MultivariateNormal.from_mean_cov(jnp.zeros(1), jnp.eye(1))).judged(key=KEY)
    assert found.rounding > 1
    assert found.usable
    check_names(found.verdict, "12", "float64")
    assert "k-hat" not in found.verdict


def test_a_pass_that_leaves_out_groups_stands_for_all():
    """As of a loader that shows a part of its data."""

    class Half:
        num_groups, num_words, steps_per_epoch = 2 * len(ROWS), None, 2

        def batches(self, start, stop):
            for i in range(start, stop):
                yield Minibatch(np.array_split(ROWS, 2)[i], np.float32(self.num_groups))

    mean, variance, evidence = exact(np.concatenate([ROWS, ROWS]))
    q = MultivariateNormal.from_mean_cov(jnp.float32([mean]), jnp.float32([[variance]]))
    found = held(of_rows(), q).judged(Half(), key=KEY)
    assert found.elbo.value == pytest.approx(evidence, abs=5e-3)
    assert found.gap < 1e-3


@pytest.mark.parametrize("outside", [-jnp.inf, jnp.inf, jnp.nan])
def test_a_density_of_zero_is_of_no_use(outside):
    model = vi.density({"x": vi.free()}, lambda v: jnp.where(v["x"] > 0, -v["x"], outside))
    found = held(model, MultivariateNormal.from_mean_cov(jnp.ones(1), jnp.eye(1))).judged(key=KEY)
    assert found.zero == pytest.approx(0.16, abs=0.05)
    assert found.elbo.value == -np.inf
    assert not found.usable
    assert "Declare the supports" in found.verdict


# --- fits -----------------------------------------------------------------------------------------
PRIOR = vi.Gamma.from_shape_rate(1.0, 1.0)
RARE = (3 + 2 * np.random.default_rng(0).normal(size=64)).astype(np.float32)


@functools.lru_cache
def energy():
    """Normal data about a free mean, with a conjugate precision."""
    of = lambda s, y: (
        0.5 * (s["tau"].log - jnp.log(2 * jnp.pi) - s["tau"].value * (y - s["mean"]) ** 2)
    )
    mean = vi.free(log_prior=lambda x: norm.logpdf(x, 0, 10))
    return vi.energy_model(globals={"mean": mean, "tau": PRIOR}, energy=of, example=0.0)


MADE = {
    "ngvi": lambda: (vi.ngvi(target()), None, {"num_steps": 150}),
    "restarts": lambda: (vi.ngvi(target()), None, {"num_steps": 150, "restarts": 2}),
    "bam": lambda: (vi.bam(target()), None, {"num_steps": 100}),
    "advi": lambda: (vi.advi(target(), num_samples=8), None, {"num_steps": 1000}),
    "bbvi": lambda: (vi.bbvi(target()), None, {"num_steps": 1000}),
    "ssvi": lambda: (vi.ssvi(target()), None, {"num_steps": 400}),
    "minibatches": lambda: (vi.ngvi(of_rows()), ROWS, {"num_epochs": 8, "batch_size": 100}),
    "energy": lambda: (vi.svi(energy()), RARE, {"num_steps": 600}),
    "energy by ssvi": lambda: (vi.ssvi(energy()), RARE, {"num_steps": 600}),
    "energy, minibatches": lambda: (vi.svi(energy()), RARE, {"num_steps": 1000, "batch_size": 16}),
    "low rank": lambda: (
        vi.advi(target(), guide=GUIDES["low_rank"], num_samples=8),
        None,
        {"num_steps": 1500},
    ),
    "mixture": lambda: (
        vi.advi(target(), guide=vi.guides.mixture(2), num_samples=8),
        None,
        {"num_steps": 1500},
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_every_row_ends_with_a_verdict_and_gives_no_false_alarm(name):
    alg, data, how = MADE[name]()
    for key in range(3):
        fit = vi.fit(alg, data, key=jax.random.key(key), **how)
        assert fit.usable, fit.verdict
        assert "the posterior as far as its own draws reach" in fit.verdict, fit.verdict
        assert "Other modes were not looked for" in fit.verdict
        assert fit.khat == fit.judged().khat < 1
        last = fit.trace["elbo"][-50:]
        assert fit.judged().elbo.value == pytest.approx(
            last.mean(), abs=float(0.1 + 4 * last.std() / 7)
        )
        assert "still rose" not in fit.verdict


def test_of_an_energy_the_free_variables_are_judged_given_the_others():
    """At the others' q the best q of the mean is the normal of their expectations: so it is found
    to be close."""
    fit = vi.fit(vi.svi(energy()), RARE, num_steps=600, key=KEY)
    assert "The free variables were judged, given q of the others." in fit.verdict
    tau = fit.posterior["tau"].mean()
    off = MultivariateNormal.from_mean_cov(
        fit.posterior[Z].mean() + 3 * (64 * tau) ** -0.5, fit.posterior[Z].cov
    )
    moved = fit._replace(state=fit.state._replace(posterior=fit.posterior.replace({Z: off})))
    found = moved.judged()
    assert found.shift == pytest.approx([-3.0], abs=0.3)
    assert not moved.usable
    assert "the mean of mean would move" in moved.verdict


def test_auto_of_an_energy_is_judged_too():
    fit = vi.auto(energy(), RARE, key=KEY, num_starts=1)
    assert "means and sds can be used" in fit.verdict
    assert fit.report.gap < 0.01
    assert fit.report.khat < 0.7
    assert fit.elbo.value == pytest.approx(fit.trace["elbo"][-200:].mean(), abs=0.1)


def test_it_is_judged_once_and_anew_where_the_state_is_another(monkeypatch):
    counted = []
    plain = on_draws.judge_on_draws
    monkeypatch.setattr(
        on_draws, "judge_on_draws", lambda *args: (counted.append(1), plain(*args))[1]
    )
    fit = vi.fit(vi.ngvi(target()), num_steps=150, key=KEY)
    assert not counted  # until it is asked for
    assert len({fit.verdict, fit.verdict, fit.judged().verdict}) == 1
    assert "verdict: finished: all steps were run. q is close" in repr(fit)
    assert len(counted) == 1
    far = fit.posterior.replace(
        {Z: MultivariateNormal.from_mean_cov(fit.posterior[Z].mean() + 50, jnp.eye(3))}
    )
    moved = fit._replace(state=fit.state._replace(posterior=far))
    assert not moved.usable
    assert "Do not use this fit" in repr(moved).replace("\n    ", " ")
    assert len(counted) == 2


class Traced:
    """A count that is no part of a function's value: it is compared by identity."""

    count = 0

    def __hash__(self):
        return id(self)


def test_equal_models_share_its_programs():
    traced = Traced()

    def density(v):
        traced.count += 1
        return -0.5 * jnp.sum(v["x"] ** 2)

    make = lambda: held(
        vi.density({"x": vi.free(2)}, density),
        MultivariateNormal.from_mean_cov(jnp.zeros(2), jnp.eye(2)),
    )
    first = make().judged(key=KEY)
    before = traced.count
    second = make().judged(key=jax.random.key(1))
    assert traced.count == before > 0
    assert first.elbo.value != second.elbo.value or first.gap == second.gap


def test_draws_are_of_the_fit_s_key():
    """The verdict is a function of the run's arguments."""
    one, same = (vi.fit(vi.ngvi(of_rows()), ROWS, num_steps=150, key=KEY) for _ in range(2))
    assert one.judged().elbo == same.judged().elbo
    assert one.judged().gap == same.judged().gap
    other = vi.fit(vi.ngvi(of_rows()), ROWS, num_steps=1, key=jax.random.key(1)).judge
    assert one._replace(judge=other).judged().gap != one.judged().gap
    assert one.judged(key=KEY).gap != one.judged().gap


def test_a_fit_in_float64_is_judged_so_later():
    with jax.enable_x64(True):
        fit = vi.fit(vi.ngvi(of_rows(0)), ROWS.astype(float), num_steps=60, key=KEY)
    assert fit.judged().elbo.value == pytest.approx(exact()[2], abs=1e-3)
    assert fit.judged().rounding < 1e-10


def test_data_so_large_that_it_costs_are_not_judged_unasked(monkeypatch):
    monkeypatch.setattr(on_draws, "MOST_WORK", 100_000)
    fit = vi.fit(vi.ngvi(of_rows()), ROWS, num_steps=100, key=KEY)
    assert fit.verdict == (
        "finished: all steps were run. Not checked: how near q is to the posterior, for the data "
        "are large. "
        "fit.judged(num_draws=128) judges it: for each draw an evaluation of the log density on "
        "all groups."
    )
    assert np.isnan(fit.khat)
    assert fit.usable
    with pytest.raises(ValueError, match=naming("num_draws:", "fit.judged", "num_draws=128")):
        fit.judged()
    assert fit.judged(num_draws=128).num_draws == 128


def test_what_a_density_hides_is_judged_by_what_it_shows():
    """A standard deviation in hidden units, fitted too few steps."""
    y = 50 + 20 * np.random.default_rng(0).normal(size=200)
    model = vi.density(
        {"_log": vi.free(), "_mean": vi.free()},
        log_prior=lambda v: norm.logpdf(v["_log"]) + norm.logpdf(v["_mean"]),
        log_lik=lambda v, y: norm.logpdf(y, 50 + 20 * v["_mean"], 20 * jnp.exp(v["_log"])),
        derived=lambda v: {"mean": 50 + 20 * v["_mean"], "spread": 20 * jnp.exp(v["_log"])},
    )
    state = vi.fit(vi.ngvi(model), y, num_steps=100, key=KEY)
    assert set(state.judged().names) == {"mean", "spread"}
    assert np.all(np.abs(state.judged().shift) < 0.5)
    early = vi.fit(vi.ngvi(model), y, num_steps=3, key=KEY).verdict
    assert "_" not in early
    assert re.search(r"By its draws, .*(mean|spread) would (move|shrink)", early)


def test_so_many_draws_as_the_size_of_the_data_allows():
    q = MultivariateNormal.from_mean_cov(jnp.zeros(2), jnp.eye(2))

    @dataclasses.dataclass
    class Sized:
        num_groups: int

    counts = [
        on_draws.usual_draws(of_rows(), q, Sized(n))
        for n in (10, 100_000, 400_000, 2_000_000, 3_000_000)
    ]
    assert counts == [512, 512, 167, 128, None]
    model = vi.density({"x": vi.free()}, lambda v, y: jnp.sum(norm.logpdf(y, v["x"])))
    assert num_rows(model, as_loader(ROWS, model, None, 0)) == 1001
    grouped = {"x": np.zeros((10, 30, 2)), "y": np.zeros((10, 30))}
    model = vi.density(
        {"m": vi.free()},
        log_prior=lambda v: norm.logpdf(v["m"]),
        log_lik=lambda v, y: jnp.sum(y["y"]),
    )
    assert num_rows(model, as_loader(grouped, model, None, 0)) == 300
    assert (
        num_rows(model, as_loader({"x": np.zeros((10, 30)), "y": np.zeros(10)}, model, None, 0))
        == 10
    )


# --- drift ----------------------------------------------------------------------------------------
def test_steps_that_moved_are_told_and_many_nats_of_a_far_fit_are_its_end():
    rng = np.random.default_rng(0)
    flat, rising = rng.normal(size=400), rng.normal(size=400) + 0.02 * np.arange(400)
    near = MultivariateNormal.from_mean_cov(
        jnp.asarray(MEAN, jnp.float32), jnp.asarray(COV, jnp.float32)
    )
    wide = MultivariateNormal.from_mean_cov(
        jnp.asarray(MEAN, jnp.float32), jnp.asarray(4 * COV, jnp.float32)
    )
    said = lambda q, trace: held(target(), q, {"elbo": trace}).judged(key=KEY)
    assert "still" not in said(near, flat).verdict
    drift = said(near, rising).drift
    assert drift.value == pytest.approx(2.0, abs=4 * drift.standard_error)
    words = (
        f"The bound still rose by {drift.value:.3g} nats over the last quarter of the steps. Take "
        "more steps."
    )
    assert words in said(near, rising).verdict
    assert "still fell" in said(near, -rising).verdict
    assert said(near, 10 * rising).usable  # its draws say that it has arrived
    assert said(wide, flat).usable
    assert (said(near, flat).sds_usable, said(wide, flat).sds_usable) == (True, False)
    assert not said(wide, 10 * rising).usable
    assert "Whether the last steps still moved is not known" in said(near, flat[:20]).verdict


def test_a_few_steps_far_off_are_no_drift():
    trace = np.random.default_rng(0).normal(size=400)
    trace[[390, 395]] = -1e6
    assert abs(on_draws.drift(trace).value) < 0.5


# --- what is not judged ---------------------------------------------------------------------------
def coin():
    return vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            "cavi",
            r"^finished: all steps were run\. Not checked: whether another start ends higher "
            r".*restarts=",
        ),
        ("em", r"Not checked: .*a point says nothing of how uncertain it is: vijax\.cavi"),
        ("svi", r"how far q is from the posterior"),
    ],
)
def test_of_other_fits_it_is_said_what_was_not_checked_and_how_to(row, words):
    fit = vi.fit(getattr(vi, row)(coin()), np.ones(8, np.float32), num_steps=3, key=KEY)
    assert re.search(words, fit.verdict), fit.verdict
    assert fit.usable
    assert np.isnan(fit.khat)
    with pytest.raises(ValueError, match=naming("fit:", "vijax.density", "fit.verdict")):
        fit.judged()


def test_a_fit_that_failed_is_not_judged_unasked():
    fit = vi.fit(vi.ngvi(target()), num_steps=100, key=KEY)._replace(status=vi.Status.DIVERGED)
    assert np.isnan(fit.khat)
    assert "q starts with means within 2" in fit.verdict
    assert fit.judged().usable  # of its last good state


def test_of_an_e_step_that_draws_it_is_said():
    alg = vi.svi(energy(), estep=vi.estep.gibbs())
    fit = vi.Fit(
        alg,
        alg.init(KEY),
        {},
        vi.Status.FINISHED,
        judge=judge.Judge(as_loader(RARE, energy(), None, 0), 0, False),
    )
    check_names(fit.verdict, "Not checked:", "-step")
    assert fit.usable


def test_a_pickled_fit_keeps_its_judgement_without_the_data():
    fit = vi.fit(vi.ngvi(target()), num_steps=100, key=KEY)
    later = pickle.loads(pickle.dumps(fit))
    assert later.judge.loader is None
    assert later.verdict.endswith(
        "Not checked: how near q is to the posterior. fit.judged(data, key=key) checks it."
    )
    assert np.isnan(later.khat)
    assert "Not checked" in repr(later)
    assert later.judged(key=KEY).usable
    words = fit.verdict
    again = pickle.loads(pickle.dumps(fit))
    assert again.verdict == words
    assert again.judged() == again.judge.judgement(again)
    assert again.judged(key=KEY).gap == later.judged(key=KEY).gap


def test_a_fit_without_data_says_what_it_needs():
    fit = posterior_of_rows()
    assert "Not checked" in fit.verdict
    assert "fit.judged(data, key=key)" in fit.verdict
    with pytest.raises(ValueError, match=naming("data:", "got none", "vijax.fit")):
        fit.judged(key=KEY)
    with pytest.raises(ValueError, match="key: expected a random key"):
        fit.judged(ROWS)
    assert fit.judged(ROWS, key=KEY).usable


# --- starts that diverge --------------------------------------------------------------------------
@functools.lru_cache
def narrow(dim=2, **more):
    """Finite within one of zero alone."""
    return vi.density({"x": vi.free(dim)}, lambda v: 9 * jnp.sum(jnp.log1p(-(v["x"] ** 2))), **more)


@pytest.mark.parametrize("row", ["advi", "ngvi"])
def test_a_fit_that_diverges_names_its_start_a_nearer_one_and_auto(row):
    alg = getattr(vi, row)(narrow())
    means = [
        np.asarray(alg.init(keys.run_keys(jax.random.key(key))[0]).posterior[Z].mean())
        for key in range(8)
    ]
    key = next(
        key for key, mean in enumerate(means) if np.abs(mean).max() > 1.5
    )  # some begin inside
    with pytest.raises(vi.DivergedError) as error:
        vi.fit(alg, num_steps=50, key=jax.random.key(key))
    said = str(error.value)
    assert "q starts with means within 2 of zero and sds of 0.1 in free coordinates" in said
    assert "vijax.density(..., start=0.2)" in said
    assert "vijax.auto" in said
    near = getattr(vi, row)(narrow(start=0.2)).init(keys.run_keys(jax.random.key(key))[0])
    assert vi.fit(alg, num_steps=50, key=jax.random.key(key), state=near).num_skipped == 0


def test_where_a_density_starts():
    for start, most in ((None, 2.0), (0.02, 0.02)):
        model = vi.density(
            {"x": vi.free(500)},
            lambda v: -jnp.sum(v["x"] ** 2),
            **({"start": start} if start else {}),
        )
        q = vi.advi(model).init(KEY).posterior[Z]
        assert 0.9 * most < np.abs(q.mean()).max() <= most
        np.testing.assert_allclose(q.std(), most / 20, rtol=1e-5)
        assert f"{most:g}" in model.free.start_in_words()
    with pytest.raises(ValueError, match="start: expected"):
        vi.density({"x": vi.free()}, lambda v: -(v["x"] ** 2), start=0.0)


def test_data_are_tried_where_fits_start():
    with pytest.raises(ValueError, match=naming("vijax.density", "start=0.2")):
        vi.fit(vi.ngvi(narrow(30)), num_steps=1, key=KEY)
    assert vi.fit(vi.ngvi(narrow(30, start=0.1)), num_steps=20, key=KEY).num_skipped == 0


# --- a differential equation ----------------------------------------------------------------------
def infected(rates, dt=0.25, steps=120, every=8):
    """Shares of a population of an epidemic, by Runge and Kutta's rule."""
    contact, recovery, first = rates
    flow = lambda u: jnp.stack([-contact * u[0] * u[1], contact * u[0] * u[1] - recovery * u[1]])

    def step(u, _):
        one = flow(u)
        two = flow(u + dt / 2 * one)
        three = flow(u + dt / 2 * two)
        four = flow(u + dt * three)
        u = u + dt / 6 * (one + 2 * two + 2 * three + four)
        return u, u

    return jax.lax.scan(step, jnp.stack([1 - first, first]), None, length=steps)[1][
        every - 1 :: every, 1
    ]


@functools.lru_cache
def epidemic():
    seen = np.asarray(infected((0.8, 0.25, 0.005))) + 0.01 * np.random.default_rng(0).normal(
        size=15
    )

    def log_density(v, y):
        prior = norm.logpdf(v["logs"], jnp.array([0.0, 0.0, -3.0]), 2.0).sum()
        return prior + norm.logpdf(y, infected(jnp.exp(v["logs"])), 0.01).sum()

    return vi.density({"logs": vi.free(3)}, log_density), seen.astype(np.float32)


@pytest.mark.filterwarnings("ignore::vijax.fitting.status.SkippedStepsWarning")
def test_of_a_differential_equation_a_fit_that_has_not_arrived_is_refused_and_one_that_has_is_not():
    """Logs of rates begin a hundred posterior sds away: some fits arrive, some do not, some
    diverge. The verdict tells them apart, by the best of them."""
    model, seen = epidemic()
    best = vi.fit(vi.ngvi(model), seen, num_steps=200, key=jax.random.key(2))
    mean, sds = np.asarray(best.posterior[Z].mean()), np.sqrt(np.diag(best.posterior[Z].cov))
    assert "q is close to the posterior" in best.verdict
    refused = arrived = diverged = 0
    for row, steps, tried in (
        ("bam", 200, range(6)),
        ("advi", 1500, (0, 2, 4)),
        ("ngvi", 200, range(4)),
    ):
        for key in tried:
            try:
                fit = vi.fit(
                    getattr(vi, row)(model), seen, num_steps=steps, key=jax.random.key(key)
                )
            except vi.DivergedError:
                diverged += 1
                continue
            off = np.max(np.abs(np.asarray(fit.posterior[Z].mean()) - mean) / sds)
            assert fit.usable or off > 1, (row, key, off, fit.verdict)
            assert not fit.usable or off < 5, (row, key, off, fit.verdict)
            refused, arrived = refused + (not fit.usable), arrived + fit.usable
    assert refused >= 3
    assert arrived >= 2
    assert diverged >= 2
