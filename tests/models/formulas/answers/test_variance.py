"""Variance explained and effects by group, against moments of SciPy's laws, the variances of lme4's
published fit, and arithmetic by hand."""

import jax
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from tests.models.formulas.answers.made import drawn
from tests.models.mixed_tables import CATTLE, SLEEP
from vijax.models.formulas.answers import by_group, variance
from vijax.models.formulas.answers.response_variances import MOMENTS, moments
from vijax.models.formulas.draws import Draws
from vijax.models.formulas.form import CORRELATIONS, SDS
from vijax.models.formulas.laws import LAWS

AUX = {"sigma": 0.4, "nu": 5.0, "alpha": 1.7, "psi": 0.6, "kappa": 4.0, "lam": 2.5}
ETA = 0.3
MEAN, SHARE, COUNTS = np.exp(ETA), special.expit(ETA), np.arange(400)


def mixed(mean, variance, share=0.6):
    return share * mean, share * (variance + mean**2) - (share * mean) ** 2


def hurdle(law):
    p = law.pmf(COUNTS)
    p = np.where(COUNTS > 0, 0.6 * p / (1 - p[0]), 0.4)
    return p @ COUNTS, p @ COUNTS**2 - (p @ COUNTS) ** 2


NEGATIVE = stats.nbinom(1.7, 1.7 / (1.7 + MEAN))
SCALE = MEAN / special.gamma(1 + 1 / 1.7)
BETA = stats.beta(4 * SHARE, 4 * (1 - SHARE))
EXACT = {
    "gaussian": (ETA, 0.16),
    "t": (ETA, stats.t(5, scale=0.4).var()),
    "bernoulli": stats.bernoulli(SHARE).stats(),
    "poisson": (MEAN, MEAN),
    "negativebinomial": NEGATIVE.stats(),
    "zero_inflated_poisson": mixed(MEAN, MEAN),
    "zero_inflated_negativebinomial": mixed(MEAN, NEGATIVE.var()),
    "hurdle_poisson": hurdle(stats.poisson(MEAN)),
    "hurdle_negativebinomial": hurdle(NEGATIVE),
    "exponential": stats.expon(scale=MEAN).stats(),
    "gamma": stats.gamma(1.7, scale=MEAN / 1.7).stats(),
    "weibull": stats.weibull_min(1.7, scale=SCALE).stats(),
    "wald": stats.invgauss(MEAN / 2.5, scale=2.5).stats(),
    "lognormal": stats.lognorm(0.4, scale=MEAN).stats(),
    "hurdle_gamma": mixed(*stats.gamma(1.7, scale=MEAN / 1.7).stats()),
    "hurdle_lognormal": mixed(*stats.lognorm(0.4, scale=MEAN).stats()),
    "beta": BETA.stats(),
    "zero_inflated_beta": mixed(*BETA.stats()),
    "binomial": np.array(stats.binom(6, SHARE).stats()) / (6, 36),
    "beta_binomial": np.array(stats.betabinom(6, 4 * SHARE, 4 * (1 - SHARE)).stats()) / (6, 36),
    "zero_inflated_binomial": mixed(*np.array(stats.binom(6, SHARE).stats()) / (6, 36)),
}


@pytest.mark.parametrize("law", EXACT)
def test_mean_and_variance_of_a_law(law):
    aux = {name: np.array([AUX[name]]) for name in LAWS[law].aux}
    eta = np.array([[ETA, ETA + 1]])
    found = moments(law, aux, eta, np.full(2, 6.0))
    np.testing.assert_allclose([float(x[0, 0]) for x in found], EXACT[law], rtol=1e-9)
    trials = 1 if law in MOMENTS else 6.0
    np.testing.assert_allclose(found[0] * trials, LAWS[law].mean(aux, eta) * trials, rtol=1e-12)


def test_every_law_of_numbers_has_moments():
    laws = [law for law in LAWS.values() if not law.categories and law.has_variance]
    assert set(EXACT) == {law.name for law in laws}


def test_shares_of_variance_of_published_sds():
    """lme4's fit of sleepstudy (Bates et al. 2015, page 31): sds 24.741 and 5.922, correlation .066,
    residual 25.592; performance::r2_nakagawa gives .799 and .279, icc .722."""
    model = vi.glmm("reaction ~ days + (days | subject)", SLEEP)
    term = model.density_form.effects[0]
    size = np.array(term.sizes) / model.density_form.units.size
    values = {
        SDS + "subject": np.array([[24.741, 5.922]]) * size,
        CORRELATIONS + "subject.0": np.arctanh([[0.066]]),
    }
    named = {"Intercept": [251.405], "days": [10.467], "sigma": [25.592]}
    named = {name: np.array(x) for name, x in named.items()}
    rng = np.random.default_rng(0)
    effects = rng.normal(size=(1, 18, 2)) * [24.741, 5.922]
    found = variance.explain(model, Draws(named, {"subject": effects}, values), 0.9)
    shares = dict(zip(found.labels["share"], found.draws[0], strict=True))
    assert shares["R2 marginal"] == pytest.approx(0.279, abs=0.002)  # R divides by N - 1
    assert shares["R2 conditional"] == pytest.approx(0.799, abs=0.001)
    assert shares["ICC"] == pytest.approx(0.722, abs=0.001)
    subject = np.searchsorted(model.design.factors[0].levels, SLEEP["subject"].astype(str))
    fitted = 251.405 + 10.467 * SLEEP["days"]
    fitted = fitted + effects[0, subject, 0] + effects[0, subject, 1] * SLEEP["days"]
    exact = fitted.var() / (fitted.var() + 25.592**2)
    assert shares["R2 Bayesian"] == pytest.approx(exact, rel=1e-6)


def test_shares_of_variance_behind_links():
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=40), "g": np.arange(40) % 8, "f": np.arange(40) % 5}
    table |= {"count": rng.poisson(3, 40), "yes": np.arange(40) % 2, "w": 1.0 + np.arange(40) % 3}
    share = table["w"] / table["w"].sum()
    spread = lambda x: share @ (x - share @ x) ** 2
    model = vi.glmm("yes ~ x + (1 | g) + (1 | f)", table, "bernoulli", weights="w")
    draws = drawn(model)
    found = variance.explain(model, draws, 0.9)
    shares = dict(zip(found.labels["share"], found.draws.T, strict=True))
    common = draws.named["x"] ** 2 * spread(table["x"])
    groups = [draws.named[f"1|{name}_sigma"] ** 2 for name in "gf"]
    total = common + sum(groups) + np.pi**2 / 3
    np.testing.assert_allclose(shares["R2 marginal"], common / total, rtol=1e-6)
    np.testing.assert_allclose(shares["R2 conditional"], 1 - np.pi**2 / 3 / total, rtol=1e-6)
    np.testing.assert_allclose(shares["ICC g"], groups[0] / (total - common), rtol=1e-6)
    # counts: log(1 + 1 / mean + 1 / alpha)
    model = vi.glmm("count ~ x", table, "negativebinomial", weights="w")
    draws = drawn(model, {"alpha": np.full(7, 2.0)})
    found = variance.explain(model, draws, 0.9)
    assert found.labels["share"].tolist() == ["R2 marginal", "R2 Bayesian"]
    eta = draws.named["Intercept"][:, None] + draws.named["x"][:, None] * table["x"]
    mean = np.exp(eta) @ share
    common = draws.named["x"] ** 2 * spread(table["x"])
    residual = np.log(1 + 1 / mean + 1 / 2)
    np.testing.assert_allclose(found.draws[:, 0], common / (common + residual), rtol=1e-9)
    between = np.array([spread(row) for row in np.exp(eta)])
    within = (np.exp(eta) + np.exp(2 * eta) / 2) @ share
    np.testing.assert_allclose(found.draws[:, 1], between / (between + within), rtol=1e-9)


def test_what_is_not_defined_is_left_out_and_said():
    table = {"share": np.linspace(0.1, 0.9, 12), "x": np.arange(12.0), "h": list("abc") * 4}
    model = vi.glmm("share ~ x", table, "beta")
    found = variance.explain(model, drawn(model, {"kappa": np.full(7, 3.0)}), 0.9)
    assert found.labels["share"].tolist() == ["R2 Bayesian"]
    assert "not defined" in found.notes[1]
    model = vi.glmm("h ~ x", table, "categorical")
    found = variance.explain(model, drawn(model), 0.9)
    assert found.labels["category"].tolist() == ["b", "c"]


def test_effects_of_groups_are_largest_first_and_say_how_far_they_are_shrunk():
    model = vi.glmm("p(incidence, size) ~ period + (1 | herd)", CATTLE)
    draws = drawn(model, num_draws=50)
    found = by_group.effects_table(model, draws, False, 0.9)
    effects = draws.effects["herd"][:, :, 0]
    assert len(found) == 15
    assert (np.diff(found.mean) <= 0).all()
    herd = list(model.design.factors[0].levels).index(found.labels["group"][0])
    assert herd == effects.mean(0).argmax()
    assert found.mean[0] == pytest.approx(effects[:, herd].mean())
    assert (
        found.labels["rows"][0]
        == (CATTLE["herd"].astype(str) == str(found.labels["group"][0])).sum()
    )
    law = (draws.named["1|herd_sigma"] ** 2).mean()
    assert found.labels["shrunk"][0] == pytest.approx(min(effects[:, herd].var() / law, 1))
    total = by_group.effects_table(model, draws, True, 0.9)
    assert total.mean[0] == pytest.approx((effects[:, herd] + draws.named["Intercept"]).mean())


def test_totals_of_effects_on_sigma_have_its_intercept():
    table = {"y": np.sin(np.arange(24.0)), "g": np.arange(24) % 4}
    model = vi.glmm("y ~ 1 + (1 | g)", table, formulas="sigma ~ 1 + (1 | g)")
    draws = drawn(model)
    own, total = (by_group.effects_table(model, draws, value, 0.9) for value in (False, True))
    for name in ("Intercept", "sigma_Intercept"):
        rows = own.labels["effect"] == name
        assert rows.sum() == 4
        more = total.mean[rows] - own.mean[rows]
        np.testing.assert_allclose(more, draws.named[name].mean(), rtol=1e-9)


@pytest.mark.slow
def test_shrinkage_of_balanced_groups_is_that_of_normal_algebra():
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(40), [1] * 20 + [9] * 20)
    y = rng.normal(size=40)[group] + rng.normal(size=len(group))
    model = vi.glmm("y ~ 1 + (1 | g)", {"y": y, "g": group})
    fit = vi.auto(model, key=jax.random.key(0))
    found = model.effects_by_group(fit, key=jax.random.key(1), num_draws=4000)
    named = model.draws(fit, jax.random.key(2), 4000).named
    for rows in (1, 9):
        shrunk = found.labels["shrunk"][found.labels["rows"] == rows]
        exact = named["sigma"] ** 2 / (named["sigma"] ** 2 + rows * named["1|g_sigma"] ** 2)
        assert shrunk.mean() == pytest.approx(
            exact.mean(), abs=0.06
        )  # and what the mean is known to
    explained = model.explained_variance(fit, key=jax.random.key(3))
    shares = dict(zip(explained.labels["share"], explained.mean, strict=True))
    assert shares["ICC"] == pytest.approx(0.5, abs=0.2)
