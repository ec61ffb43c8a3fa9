"""Softmax expectations: Monte Carlo against a grid, Bohning's bound below it and tight at zero variance."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from vijax import expectation, likelihood

COUNTS = np.array([[2.0, 0.0, 1.0]])
MEAN, COV = np.array([[0.3, -1.0, 0.5]]), np.array([[[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]]])


def by_grid():
    """30^3 points of Gauss-Hermite, in NumPy: E l, E grad, E hessian."""
    x, w = np.polynomial.hermite_e.hermegauss(30)
    z = MEAN[0] + np.array(list(itertools.product(x, x, x))) @ np.linalg.cholesky(COV[0]).T
    weight = np.prod(np.array(list(itertools.product(w, w, w))), 1)
    weight /= weight.sum()
    y = COUNTS[0]
    p = special.softmax(z, 1)
    value = stats.multinomial(3, [0.2, 0.3, 0.5]).logpmf(y) - y @ np.log([0.2, 0.3, 0.5])
    value += weight @ (z @ y - 3 * special.logsumexp(z, 1))
    hessian = -3 * np.einsum("s,sij->ij", weight, p[:, :, None] * (np.eye(3) - p[:, None, :]))
    return value, y - 3 * weight @ p, hessian


def test_monte_carlo_and_bound_against_a_grid():
    """20,000 draws: six standard errors of terms bounded by the counts."""
    lik = likelihood.softmax(3)
    args = (jnp.asarray(COUNTS, jnp.float32), jnp.asarray(MEAN, jnp.float32), jnp.asarray(COV, jnp.float32))
    value, slope, curvature = by_grid()
    got = jax.jit(lambda key: expectation.vector_monte_carlo(20_000)(lik, *args, key))(jax.random.key(0))
    np.testing.assert_allclose(got.value[0], value, atol=0.12)
    np.testing.assert_allclose(got.slope[0], slope, atol=0.06)
    np.testing.assert_allclose(got.curvature[0], curvature, atol=0.04)
    bohning = jax.jit(lambda *args: expectation.bohning()(lik, *args, None))
    bound = bohning(*args)
    assert float(bound.value[0]) < value
    near = bohning(args[0], args[1], 1e-8 * args[2])
    np.testing.assert_allclose(near.value, lik.log_prob(args[0][0], args[1][0])[None], rtol=1e-6)
    gap = np.linalg.eigvalsh(curvature - np.asarray(bound.curvature[0]))
    assert gap.min() > -1e-6  # the bound's curvature is the steeper one


def test_bad_input():
    with pytest.raises(ValueError, match=r"softmax expects 3 counts.* at site 1"):
        likelihood.softmax(3).check(np.array([[1, 0, 0], [1, -1, 0]]))
    with pytest.raises(ValueError, match="key"):
        expectation.vector_monte_carlo()(likelihood.softmax(3), COUNTS, MEAN, COV, None)
    other = likelihood.VectorLikelihood(lambda y, z: 0.0, "mine", lambda y: None)
    with pytest.raises(ValueError, match="likelihood: expected softmax"):
        expectation.bohning()(other, COUNTS, MEAN, COV, None)
