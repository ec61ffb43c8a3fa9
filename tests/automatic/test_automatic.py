"""The steps of `vijax.auto` by hand: towards a normal target regressions are exact, and natural
parameters mix."""

import numpy as np
import pytest
from scipy import special, stats

from vijax.automatic import dadvi, gaussian, trust_region
from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.automatic.trust_region import Run, Sitting
from vijax.verdict.report import Ended

PRECISION = np.array([[1.0, 0.3], [0.3, 0.8]])
MEAN = np.array([0.2, -0.1])
NOBODY = (lambda sitting: None, lambda q, gap: False)
Q = Gaussian(np.array([0.0, 0.1]), np.linalg.cholesky([[1.2, -0.2], [-0.2, 0.9]]), -1.0)


class Normal:
    """As `vijax.verdict.target.Target`: the log density of N(mean, precision^-1), up to a
    constant."""

    epsilon, num_gradients = 1e-16, 0

    def __init__(self, precision=PRECISION, mean=MEAN):
        self.precision, self.mean, self.dim = precision, mean, len(mean)

    def slopes(self, x):
        self.num_gradients += len(x)
        slopes = -(x - self.mean) @ self.precision
        return 0.5 * np.sum((x - self.mean) * slopes, 1), slopes


def naturals(mean, precision):
    return precision @ mean, precision


def of(q):
    scale = q.scale if q.scale.ndim == 2 else np.diag(q.scale)
    return naturals(q.mean, np.linalg.inv(scale @ scale.T))


def mixed(rho, q, target):
    return [
        (1 - rho) * a + rho * b
        for a, b in zip(of(q), naturals(target.mean, target.precision), strict=True)
    ]


def same(q, expected, rtol=1e-8):
    for a, b in zip(of(q), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol)


class Logistic:
    """The posterior of a logistic regression in ten coefficients, which is not normal."""

    epsilon, num_gradients, dim = 1e-16, 0, 10

    def __init__(self):
        rng = np.random.default_rng(0)
        self.x, self.y = rng.normal(size=(40, self.dim)), rng.integers(0, 2, 40)

    def slopes(self, b):
        self.num_gradients += len(b)
        linear = b @ self.x.T
        values = (linear * self.y - np.logaddexp(0, linear)).sum(1) - 0.125 * (b**2).sum(1)
        return values, (self.y - special.expit(linear)) @ self.x - 0.25 * b


def test_what_noise_makes_of_a_step_is_foretold():
    """At the optimum a step is noise alone: as long as foretold of independent draws and of such in
    antithetic pairs, of evenly spread ones shorter."""
    target, q = Logistic(), Gaussian(np.zeros(10), np.eye(10), -np.inf)

    def stepped(q, noise, radius):
        slope, curvature, _, nats = gaussian.evaluate(target, q, noise).regression
        return gaussian.step(q, slope, curvature, radius), nats

    many = draw_noise(2**13, 10, 1)
    for _ in range(30):
        q = stepped(q, many, 0.5)[0].to
    assert stepped(q, many, 0.5)[0].nats < 1e-5
    for draw, low, high in (
        (lambda seed: np.random.default_rng([seed, 7]).normal(size=(256, 10)), 0.85, 1.2),
        (lambda seed: mirrored(np.random.default_rng([seed, 7]).normal(size=(128, 10))), 0.85, 1.2),
        (lambda seed: draw_noise(256, 10, [seed, 7]), 0.3, 0.5),
    ):
        found = [stepped(q, draw(seed), 5.0) for seed in range(40)]
        ratio = np.mean([taken.nats for taken, _ in found]) / np.mean(
            [foretold for _, foretold in found]
        )
        assert low < ratio < high


def mirrored(half):
    return np.concatenate([half, -half])


class Gumbel(Normal):
    """The logarithm of an exponential variable, twice: skewed, so that scores are even about the
    middle."""

    def slopes(self, x):
        self.num_gradients += len(x)
        return (x - np.exp(x)).sum(1), 1 - np.exp(x)


def test_antithetic_pairs_count_once_for_errors_of_the_mean():
    """What is even about scores is the same at both draws of a pair: 16 pairs, not 32 draws."""
    q = Gaussian(np.full(2, -0.5), np.eye(2), 0.0)  # the best normal: E exp(x) = 1
    found = []
    for seed in range(400):
        noise = mirrored(np.random.default_rng([seed, 8]).normal(size=(16, 2)))
        found.append(gaussian.evaluate(Gumbel(), q, noise).regression)
    scatter, told = np.std([f.slope for f in found]), np.sqrt(np.mean([f.sds**2 for f in found]))
    np.testing.assert_allclose(told, scatter, rtol=0.08)


def test_the_elbo_of_a_normal_target_is_exact_on_any_draws():
    """E log N by hand; the mean over these draws is off by what their second moments are."""
    target = Normal()
    noise = mirrored(np.random.default_rng(5).normal(size=(8, 2)))
    now = gaussian.evaluate(target, Q, noise)
    gap = Q.mean - MEAN
    exact = -0.5 * (gap @ PRECISION @ gap + np.trace(PRECISION @ Q.scale @ Q.scale.T)) + Q.entropy()
    np.testing.assert_allclose(now.elbo, exact, rtol=1e-12)
    assert abs(target.slopes(Q.from_noise(noise))[0].mean() + Q.entropy() - exact) > 0.05


def test_the_step_that_scores_ask_for_is_taken():
    """One step leads to a normal target; the mean of log p over few draws would be higher
    elsewhere."""
    target = Normal()
    start = Gaussian(MEAN, 1.1 * np.linalg.cholesky(np.linalg.inv(PRECISION)), -np.inf)
    q = trust_region.fit(Run(target, 1000), Sitting.begin(start), 0, 32)
    assert (q.ended, target.num_gradients) == (Ended.CONVERGED, 64)
    same(q, naturals(target.mean, target.precision))


def test_a_set_with_a_draw_far_out_does_not_undo_those_before():
    """The radius of an averaged step is NEAR / t."""
    target = Normal(mean=np.array([1e3, 0.0]))
    begin = Sitting.begin(Q)._replace(size=32, averaged=30, doubt=1e9, error=0.3)
    found = trust_region._use_fresh_draws(Run(target, 32), begin, [0, 0], *NOBODY)
    assert target.num_gradients == 32
    gap = np.linalg.solve(Q.scale, found.mean - Q.mean)
    assert 0.5 * gap @ gap < trust_region.NEAR / 31


@pytest.mark.parametrize("rho", [0.3, 1.0])
def test_a_step_mixes_natural_parameters_and_knows_its_nats(rho):
    slope = Q.scale.T @ PRECISION @ (MEAN - Q.mean)
    found = gaussian.step(Q, slope, Q.scale.T @ PRECISION @ Q.scale, 10.0, rho)
    same(found.to, mixed(rho, Q, Normal()))
    old, new = (np.asarray(q.scale @ q.scale.T) for q in (Q, found.to))
    gap = found.to.mean - Q.mean
    kl = np.trace(np.linalg.solve(old, new)) + gap @ np.linalg.solve(old, gap) - 2
    kl = 0.5 * (kl + np.linalg.slogdet(old)[1] - np.linalg.slogdet(new)[1])
    np.testing.assert_allclose(found.nats, kl, rtol=1e-8)
    assert found.is_whole
    short = gaussian.step(Q, slope, Q.scale.T @ PRECISION @ Q.scale, 0.5 * kl, rho)
    assert 0.05 * kl < short.nats <= 0.5 * kl
    assert not short.is_whole


def test_a_step_keeps_directions_that_are_far_narrower_than_others():
    """One of 1e-4 beside one of 1e5: their covariance is singular in float64."""
    scale, curvature = np.array([[1.0, 0.0], [1e5, 1e-4]]), np.array([[2.0, 0.5], [0.5, 1.0]])
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(scale @ np.linalg.inv(curvature) @ scale.T)
    found = gaussian.step(Gaussian(np.zeros(2), scale, 0.0), np.zeros(2), curvature, 100.0)
    inside = np.linalg.solve(scale, found.to.scale)
    np.testing.assert_allclose(inside @ inside.T, np.linalg.inv(curvature), rtol=1e-6)
    assert found.is_whole
    assert np.all(np.diagonal(found.to.scale) > 0)


def test_fresh_draws_are_averaged_with_those_before():
    """After steps of 1/2, 1/3 and 1/4 the start is a quarter of q, and the target all of the
    rest."""
    target = Normal()
    begin = Sitting.begin(Q)._replace(size=32, averaged=1, doubt=1e9, error=0.3)
    found = trust_region._use_fresh_draws(Run(target, 96), begin, [0, 0], *NOBODY)
    same(found, mixed(0.75, Q, target))
    np.testing.assert_allclose(found.error, 0.3 / np.sqrt(4))
    assert found.ended == Ended.LIMITED
    assert target.num_gradients == 96


def test_noise_has_the_moments_that_are_promised():
    noise = draw_noise(100, 3, 0)
    assert noise.shape == (128, 3)
    np.testing.assert_allclose(noise.sum(0), 0.0, atol=1e-12)
    unit = dadvi.unit_noise(100, 3, 0)
    np.testing.assert_allclose(unit.mean(0), 0.0, atol=1e-12)
    np.testing.assert_allclose((unit**2).mean(0), 1.0, rtol=1e-12)


def test_distance_and_entropy_are_those_of_the_normal():
    cov, x = Q.scale @ Q.scale.T, np.array([1.0, -0.7])
    np.testing.assert_allclose(
        Q.distance(x), (x - Q.mean) @ np.linalg.solve(cov, x - Q.mean), rtol=1e-12
    )
    np.testing.assert_allclose(
        Q.entropy(), stats.multivariate_normal(Q.mean, cov).entropy(), rtol=1e-12
    )
    apart = Q._replace(scale=np.array([0.5, 2.0]))
    np.testing.assert_allclose(
        apart.distance(x), np.sum(((x - Q.mean) / apart.scale) ** 2), rtol=1e-12
    )
    np.testing.assert_allclose(
        apart.entropy(), stats.norm(scale=apart.scale).entropy().sum(), rtol=1e-12
    )
