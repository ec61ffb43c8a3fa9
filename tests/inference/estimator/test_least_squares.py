"""Regressions of scores on fewer draws than coordinates ask for: the covariance of draws with scores, with n - 1."""

import itertools

import numpy as np
import pytest

import vijax as vi
from vijax.inference.estimator.least_squares import regression

RNG = np.random.default_rng(0)
FULL = {"diagonal": False, "xp": np}


def simplex(dim):
    """dim + 1 draws of mean zero whose covariance, with n - 1, is the identity."""
    basis = np.linalg.qr(np.column_stack([np.ones(dim + 1), RNG.normal(size=(dim + 1, dim))]))[0]
    return np.sqrt(dim) * basis[:, 1:]


def precision(dim):
    root = RNG.normal(size=(dim, dim))
    return root @ root.T + np.eye(dim)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_of_draws_with_the_moments_of_q_the_message_of_a_normal_target_is_exact(dim):
    mean, curvature, noise = RNG.normal(size=dim), precision(dim), simplex(dim)
    slope = curvature @ mean
    found = regression(noise, slope - noise @ curvature, **FULL)
    np.testing.assert_allclose(found[0], slope, rtol=1e-12)
    np.testing.assert_allclose(found[1], curvature, rtol=1e-12)
    q = vi.MultivariateNormal.from_mean_cov(np.zeros(dim), np.eye(dim))
    said = np.float32(noise), np.float32(slope - noise @ curvature)
    message = vi.estimator.least_squares(dim + 1).message(q, said, np.zeros(dim + 1))
    np.testing.assert_allclose(message.precision_times_mean, slope, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(-2 * message.negative_half_precision, curvature, rtol=1e-4, atol=1e-5)


def test_few_draws_say_on_average_what_all_say():
    """As a covariance with n - 1 does, whatever the scores: of a few of them, of all few."""
    noise, scores = RNG.normal(size=(5, 6)), RNG.normal(size=(5, 6))
    whole = regression(noise, scores, **FULL)
    for count in (2, 3, 4):
        some = [regression(noise[list(i)], scores[list(i)], **FULL) for i in itertools.combinations(range(5), count)]
        slope, curvature = (np.mean([one[i] for one in some], 0) for i in (0, 1))
        np.testing.assert_allclose(slope, whole[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(curvature, whole[1], rtol=1e-12, atol=1e-12)
