"""Rotations of loadings against R and factor_analyzer, and by what they must leave as it is."""

import numpy as np
import pytest
from scipy.optimize import minimize

from vijax.models.factors.rotation import rotate

RNG = np.random.default_rng(0)
SIMPLE = np.zeros((12, 3))
for row in range(12):
    SIMPLE[row, row // 4] = RNG.uniform(0.5, 0.9)
SIMPLE += 0.12 * RNG.normal(size=SIMPLE.shape)
LOADINGS = SIMPLE @ np.linalg.qr(RNG.normal(size=(3, 3)))[0]
# unclass(varimax(A)$loadings)[1:4, ] of R 4.x, and Rotator(method="oblimin") of factor_analyzer
# 0.5 (without Kaiser's normalisation), columns and signs as these give them
OF_R = [
    [-0.4848, 0.1177, 0.0227],
    [-0.5214, 0.0046, 0.0650],
    [-0.5655, -0.0263, -0.1247],
    [-0.6662, -0.0851, 0.0819],
]
OF_FACTOR_ANALYZER = [
    [-0.4894, 0.1214, 0.0030],
    [-0.5223, 0.0076, 0.0378],
    [-0.5663, -0.0194, -0.1555],
    [-0.6644, -0.0813, 0.0429],
]
CORRELATION = [[1.0, 0.0421, -0.0567], [0.0421, 1.0, -0.0313], [-0.0567, -0.0313, 1.0]]
PLACES = [2, 0, 1]
"""Our places of their factors; our signs are the other ones."""


def test_varimax_is_that_of_r():
    loadings = rotate(LOADINGS, "varimax").loadings
    np.testing.assert_allclose(-loadings[:4][:, PLACES], OF_R, atol=2e-4)


def test_oblimin_is_that_of_factor_analyzer():
    rotated = rotate(LOADINGS, "oblimin", normalise=False)
    np.testing.assert_allclose(-rotated.loadings[:4][:, PLACES], OF_FACTOR_ANALYZER, atol=2e-4)
    correlation = rotated.correlation[np.ix_(PLACES, PLACES)]
    np.testing.assert_allclose(correlation, CORRELATION, atol=2e-4)


@pytest.mark.parametrize("method", ["none", "varimax", "oblimin"])
@pytest.mark.parametrize("normalise", [True, False])
def test_a_rotation_leaves_the_law_of_the_columns(method, normalise):
    rotated = rotate(LOADINGS, method, normalise=normalise)
    covariance = rotated.loadings @ rotated.correlation @ rotated.loadings.T
    np.testing.assert_allclose(covariance, LOADINGS @ LOADINGS.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(rotated.correlation), 1, atol=1e-12)
    x = RNG.normal(size=(5, 3))
    np.testing.assert_allclose(x @ rotated.turn @ rotated.loadings.T, x @ LOADINGS.T, atol=1e-12)
    if method != "oblimin":
        np.testing.assert_allclose(rotated.turn.T @ rotated.turn, np.eye(3), atol=1e-12)
    assert (rotated.loadings.sum(0) >= 0).all()
    assert (np.diff((rotated.loadings**2).sum(0)) <= 0).all()


def test_no_other_rotation_has_a_higher_varimax():
    """Two factors, by their angle: the search of SciPy over a grid of starts."""
    weights = LOADINGS[:, :2]

    def criterion(angle):
        c, s = np.cos(angle), np.sin(angle)
        return ((weights @ np.array([[c, -s], [s, c]])) ** 2).var(0).sum()

    starts = np.linspace(0, np.pi / 2, 9)
    best = max(-minimize(lambda a: -criterion(a[0]), [start]).fun for start in starts)
    rotated = rotate(weights, "varimax", normalise=False)
    assert (rotated.loadings**2).var(0).sum() == pytest.approx(best, rel=1e-8)


def test_one_factor_and_wrong_loadings():
    one = rotate(-LOADINGS[:, :1], "oblimin")
    assert one.correlation.tolist() == [[1.0]]
    assert one.loadings.sum() > 0
    for wrong in (LOADINGS[0], LOADINGS[:2], np.full((4, 2), np.nan)):
        with pytest.raises(ValueError, match="loadings: expected a finite matrix"):
            rotate(wrong)
    with pytest.raises(ValueError, match="method"):
        rotate(LOADINGS, "promax")
