"""Means and sds of many unknowns are judged together, so that the largest of many noisy differences
condemns no fit, and one that is wrong is still seen among them."""

import numpy as np
import pytest
from scipy import stats

from vijax.automatic.assessment import (
    Points,
    WeightedDraws,
    Wide,
    moments,
    num_independent,
    shrink,
)
from vijax.automatic.gaussian import Gaussian
from vijax.verdict import limits

DIM, DRAWS = 1000, 4096


def judge(mean: np.ndarray, sd: np.ndarray, seed: int = 0):
    """The judgement of q = N(0, I) where the posterior is N(mean, diag sd^2)."""
    x = np.random.default_rng(seed).normal(size=(DRAWS, len(mean)))
    log_q = stats.norm.logpdf(x).sum(1)
    log_p = stats.norm.logpdf(x, mean, sd).sum(1)
    return moments(WeightedDraws(x, log_p, log_q, log_q), x, [f"x[{i}]" for i in range(len(mean))])


def test_small_errors_of_many_are_not_made_large_by_noise():
    """Each mean is off by .02 sd: .2 nats in all. By each alone the largest difference that is seen
    is four standard errors."""
    mean = 0.02 * np.random.default_rng(1).choice([-1.0, 1.0], DIM)
    off = judge(mean, np.ones(DIM))
    assert off.is_reliable
    assert off.num_numbers == DIM
    assert off.mean.most < limits.GOOD
    assert off.log_sd.most < limits.GOOD
    assert 0.0 < off.hidden < limits.FAIR


@pytest.mark.parametrize("kind", ["mean", "log_sd"])
def test_a_single_wrong_one_is_named(kind):
    mean, sd = np.zeros(DIM), np.ones(DIM)
    if kind == "mean":
        mean[137] = 0.8
    else:
        sd[137] = 0.5
    off = getattr(judge(mean, sd), kind)
    expected = -0.8 if kind == "mean" else np.log(2.0)
    assert off.at == "x[137]"
    np.testing.assert_allclose(off.value, expected, atol=0.15)


def test_errors_that_all_have_in_common_are_not_shrunk_away():
    """0.3 standard deviations in each of 200 that noise of .1 hides one by one."""
    rng = np.random.default_rng(2)
    true = rng.normal(size=200) * 0.3
    estimates, errors, hidden = shrink(true + 0.1 * rng.normal(size=200), np.full(200, 0.1), 200, 4)
    assert hidden == pytest.approx(0.4)
    assert np.sqrt(np.mean((estimates - true) ** 2)) < 0.105  # 0.095 with t known
    inside = np.abs(estimates - true) < limits.WITHIN * errors
    assert 0.9 < inside.mean() < 0.99


def test_numbers_that_depend_on_each_other_are_fewer():
    rng = np.random.default_rng(3)
    common = rng.normal(size=(DRAWS, 1))
    apart = rng.normal(size=(DRAWS, 100))
    equal = np.full(DRAWS, 1 / DRAWS)
    assert 90 < num_independent(apart, equal) < 110
    rho = 0.5
    mixed = np.sqrt(rho) * common + np.sqrt(1 - rho) * apart
    # M^2 / (M + M (M - 1) rho^2)
    np.testing.assert_allclose(num_independent(mixed, equal), 100 / (1 + 99 * rho**2), rtol=0.1)


def test_points_are_whitened_once_for_normals_of_one_covariance():
    rng = np.random.default_rng(0)
    scale = np.tril(rng.normal(size=(6, 6))) + 3 * np.eye(6)
    first = Gaussian(rng.normal(size=6), scale, 0.0)
    parts = [first._replace(mean=100 * rng.normal(size=6)) for _ in range(3)]
    x = rng.normal(size=(9, 6))
    points = Points(x)
    for part in (first, *parts):
        np.testing.assert_allclose(points.whiten(part), part.whiten(x), rtol=1e-9, atol=1e-11)


def test_draws_of_a_wide_law_have_the_covariance_and_centres_of_its_parts():
    scale = np.array([[2.0, 0.0], [1.0, 0.5]])
    centres = [np.array([0.0, 0.0]), np.array([40.0, -40.0])]
    law = Wide(tuple(Gaussian(c, scale, 0.0) for c in centres), False)
    x = law.draw(20_000, np.random.default_rng(0))
    for sign, centre in zip((-1, 1), centres, strict=True):
        part = x[sign * (x[:, 0] - 20) > 0]
        np.testing.assert_allclose(part.mean(0), centre, atol=0.15)
        # Student's t of four degrees of freedom has twice the covariance of its normal.
        np.testing.assert_allclose(np.cov(part.T), 2 * scale @ scale.T, atol=1.5)
