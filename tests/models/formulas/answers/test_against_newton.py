"""Answers of fits with flat priors, against maximum likelihood by Newton's method with the delta
method, and against the normal algebra of balanced data."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.models.mixed_tables import SLEEP

pytestmark = pytest.mark.slow
KEY = jax.random.key(1)


def newton(x, y, weights, link):
    """The maximum-likelihood estimate of a logistic or Poisson regression, and its covariance."""
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        mean = link(x @ beta)
        variance = mean * (1 - mean) if link is expit else mean
        information = x.T @ (x * (weights * variance)[:, None])
        beta = beta + np.linalg.solve(information, x.T @ (weights * (y - mean)))
    return beta, np.linalg.inv(information)


def expit(eta):
    return 1 / (1 + np.exp(-eta))


def delta(answer, beta, covariance):
    """The answer at the estimate, and its standard error by numeric derivatives."""
    steps = 1e-5 * np.eye(len(beta))
    gradient = np.array([(answer(beta + h) - answer(beta - h)) / 2e-5 for h in steps])
    return answer(beta), np.sqrt(np.einsum("ig,ij,jg->g", gradient, covariance, gradient))


def columns(x, h):
    return np.stack([np.ones(len(x)), x, h == "b", h == "c", x * (h == "b"), x * (h == "c")], 1)


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_average_comparisons_and_slopes_of_a_regression(family):
    rng = np.random.default_rng(3)
    size = 1500
    x, h = rng.normal(size=size), rng.choice(list("abc"), size)
    eta = 0.3 + 0.6 * x - 0.5 * (h == "b") + 0.4 * x * (h == "c")
    weights = rng.integers(1, 3, size).astype(float)
    link = {"bernoulli": expit, "poisson": np.exp}[family]
    y = rng.poisson(np.exp(eta)) if family == "poisson" else rng.uniform(size=size) < expit(eta)
    names = ["Intercept", "x", "h[b]", "h[c]", "x:h[b]", "x:h[c]"]
    table = {"y": y.astype(float), "x": x, "h": h}
    flat = dict.fromkeys(names, ("normal", 0, 100))
    model = vi.glmm("y ~ x * h", table, family=family, weights=weights, priors=flat)
    fit = vi.auto(model, key=jax.random.key(0))
    beta, covariance = newton(columns(x, h), y.astype(float), weights, link)
    mean = lambda values: np.average(values, axis=-1, weights=weights)

    def answers(beta):
        predict = lambda x, h: link(columns(x, np.broadcast_to(h, x.shape)) @ beta)
        up = predict(x + 1, h) - predict(x, h)
        by_level = [np.average(up[h == k], weights=weights[h == k]) for k in "abc"]
        differences = [mean(predict(x, k) - predict(x, "a")) for k in "bc"]
        ratio = mean(predict(x, "b")) / mean(predict(x, "c"))
        slope = mean(predict(x + 1e-6, h) - predict(x - 1e-6, h)) / 2e-6
        return np.array([*by_level, *differences, ratio, slope])

    ask = lambda *what, **how: model.comparisons(fit, *what, key=KEY, num_draws=8000, **how)
    tables = [
        ask("x", by="h"),
        ask("h"),
        ask({"h": ("c", "b")}, kind="ratio"),
        model.slopes(fit, "x", key=KEY, num_draws=8000),
    ]
    estimate, error = delta(answers, beta, covariance)
    found = np.concatenate([table.mean for table in tables])
    sds = np.concatenate([table.sd for table in tables])
    # 8,000 draws: means are known to .011 sds, sds to .8 %; the rest is the skew of the posterior.
    np.testing.assert_allclose((found - estimate) / error, 0, atol=0.1)
    np.testing.assert_allclose(sds, error, rtol=0.04)
    widths = np.concatenate([table.high - table.low for table in tables])
    np.testing.assert_allclose(widths, 2 * 1.645 * error, rtol=0.06)


def test_slopes_of_these_groups_and_of_groups_at_large():
    """In balanced data the mean slope of the subjects is known to sigma / sqrt(sum of squares), that
    of the law of subjects to the errors of lme4 (Bates et al. 2015, page 31: 10.467, 1.546)."""
    model = vi.glmm("reaction ~ days + (days | subject)", SLEEP)
    fit = vi.auto(model, key=jax.random.key(0), richer=True)
    sigma = fit.summary().mean[list(fit.summary().names).index("sigma")]
    error = sigma / np.sqrt(18 * 82.5)
    same = model.comparisons(fit, "days", key=KEY)
    new = model.slopes(fit, "days", key=KEY, groups="new")
    assert same.mean[0] == pytest.approx(10.467, abs=0.1)
    assert same.sd[0] == pytest.approx(error, rel=0.1)
    assert new.mean[0] == pytest.approx(10.467, abs=0.15)
    assert new.sd[0] == pytest.approx(1.546, rel=0.15)
