"""How far priors move estimates, against conjugate normal algebra and against fits with the wider
prior."""

import jax
import numpy as np
import pytest
from scipy import integrate, stats

import vijax as vi
from tests.models.mixed_tables import CATTLE, SLEEP
from vijax.trust.priors import influence_of_priors, widen


@pytest.mark.parametrize(("estimate", "error", "sd"), [(-1.6, 0.42, 1.0), (3.0, 0.5, 2.5)])
def test_the_move_of_a_normal_prior_is_that_of_normal_algebra(estimate, error, sd):
    """A posterior of a normal likelihood and N(0, sd^2), and the one with ten times the sd."""
    mean, variance = posterior(estimate, error, sd)
    wide_mean, _ = posterior(estimate, error, 10 * sd)
    x = mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=4000)
    found = influence_of_priors({"x": ("normal", 0.0, sd)}, {"x": x}).influences[0]
    assert found.is_reliable
    assert found.wide_mean == pytest.approx(wide_mean, abs=0.06 * np.sqrt(variance))
    moved = (mean - wide_mean) / np.sqrt(variance)
    assert found.shift == pytest.approx(moved, abs=0.06)


def posterior(estimate, error, sd):
    variance = 1 / (1 / error**2 + 1 / sd**2)
    return variance * estimate / error**2, variance


def test_a_half_normal_prior_of_a_spread():
    """Against quadrature, for a likelihood exp(-s) s^2."""
    likelihood = lambda s: s**2 * np.exp(-s)

    def mean(scale):
        density = lambda s: likelihood(s) * np.exp(-0.5 * (s / scale) ** 2)
        total = integrate.quad(density, 0, 80)[0]
        return integrate.quad(lambda s: s * density(s), 0, 80)[0] / total

    grid = np.linspace(0, 60, 200001)[1:]
    density = likelihood(grid) * stats.halfnorm(scale=6.0).pdf(grid)
    uniform = np.random.default_rng(1).uniform(size=20000)
    x = np.interp(uniform, np.cumsum(density) / density.sum(), grid)
    found = influence_of_priors({"s": ("half_normal", 6.0)}, {"s": x}).influences[0]
    assert found.mean == pytest.approx(mean(6.0), abs=0.04)
    assert found.wide_mean == pytest.approx(mean(60.0), abs=0.05)


def test_weights_that_fail_are_said_to_fail():
    """A prior that is as narrow as the posterior: its weights have no variance."""
    x = 0.98 * np.random.default_rng(0).normal(size=4000)
    found = influence_of_priors({"x": ("normal", 0.0, 1.0)}, {"x": x})
    assert not found.influences[0].is_reliable
    assert found.large_shifts == ()
    assert "could not be checked" in found.sentences()[0]
    assert "x  normal 0 1" in repr(found)
    assert "?" in repr(found)


def test_priors_without_a_scale_are_listed_as_not_checked():
    priors = {"psi": ("beta", 2.0, 2.0), "x": ("normal", 0.0, 100.0), "corr|g": ("lkj", 1.0)}
    x = np.random.default_rng(0).normal(size=400)
    found = influence_of_priors(priors, {"psi": x, "x": x})
    assert found.unchecked == ("psi", "corr|g")
    assert found.sentences() == ["No prior moved its estimate by more than 0.2 sd."]
    assert "Not checked: the priors of psi, corr|g." in repr(found)
    assert widen(("exponential", 2.0)) == ("exponential", 0.2)
    assert widen(("half_student_t", 4.0, 2.0)) == ("half_student_t", 4.0, 20.0)


def test_a_fit_of_another_model_is_refused():
    model = vi.density({"x": vi.free()}, lambda v: -0.5 * v["x"] ** 2)
    fit = vi.fit(vi.ngvi(model), num_steps=2, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"fit: expected a fit of vijax\.glmm"):
        vi.trust.prior_influence(fit, key=jax.random.key(1))


@pytest.mark.slow
def test_the_weights_say_what_a_fit_with_the_wider_prior_gives():
    formula = "p(incidence, size) ~ period + (1 | herd)"
    narrow = {f"period[{k}]": ("normal", 0, 1) for k in "bcd"} | {"Intercept": ("normal", 0, 1.5)}
    fit = vi.auto(vi.glmm(formula, CATTLE, priors=narrow), key=jax.random.key(0))
    found = vi.trust.prior_influence(fit, key=jax.random.key(1))
    assert [row.name for row in found.large_shifts[:2]] == ["period[d]", "period[c]"]
    for row in found.influences[1:4]:
        wide = {**narrow, row.name: ("normal", 0, 10)}
        again = vi.auto(vi.glmm(formula, CATTLE, priors=wide), key=jax.random.key(0)).summary()
        mean = again.mean[again.names.index(row.name)]
        assert row.wide_mean == pytest.approx(mean, abs=0.08 * row.sd)
    usual = vi.auto(vi.glmm(formula, CATTLE), key=jax.random.key(0))
    found = vi.trust.prior_influence(usual, key=jax.random.key(1))
    assert found.large_shifts == ()
    fit = vi.auto(vi.glmm("reaction ~ days + (days | subject)", SLEEP), key=jax.random.key(0))
    found = vi.trust.prior_influence(fit, key=jax.random.key(1))
    assert found.large_shifts == ()
    assert found.unchecked == ("corr|subject",)


def rare_ends():
    """Of 300 ratings a few are in the first category; the cutpoints are -6, -1, 0 and 4.5."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=300)
    latent = 2 * x + rng.logistic(size=300)
    return {"y": np.digitize(latent, [-5, -1, 0, 4.5]), "x": x}, "y ~ x", "cumulative"


def long_panel():
    """120 patients with six visits, zeros mostly: log odds differ by patient with an sd of four."""
    rng = np.random.default_rng(1)
    g, t = np.repeat(np.arange(120), 6), np.tile(np.arange(6) * 2.4, 120)
    chance = 1 / (1 + np.exp(1.6 + 0.4 * t - 4 * rng.normal(size=120)[g]))
    y = (rng.random(720) < chance).astype(float)
    return {"y": y, "t": t, "g": g}, "y ~ t + (1 | g)", "bernoulli"


@pytest.mark.slow
@pytest.mark.parametrize("make", [rare_ends, long_panel])
def test_usual_priors_move_no_estimate(make):
    table, formula, family = make()
    fit = vi.auto(vi.glmm(formula, table, family), key=jax.random.key(0), richer=True)
    influence = vi.trust.prior_influence(fit, key=jax.random.key(1))
    assert influence.sentences() == ["No prior moved its estimate by more than 0.2 sd."]


def test_usual_cutpoints_are_about_the_log_odds_of_the_rows():
    y = np.repeat([0, 1, 2], [2, 10, 8])
    weights = np.where(y == 0, 2.0, 1.0)
    model = vi.glmm("y ~ 1", {"y": y}, "cumulative", weights=weights)
    expected = np.round(np.log([4.5 / 18.5, 14.5 / 8.5]), 2)
    assert [model.priors[f"threshold[{i}]"] for i in (0, 1)] == [
        ("normal", centre, 5.0) for centre in expected
    ]
