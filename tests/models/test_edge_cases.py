"""Mixtures and regressions of data that say little: points all alike, fewer than components,
constant columns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax.models import emission

ROW = np.array([[3.0, 0.0]])
# six components for one point, and the greatest log likelihood of it where there is one
EMISSIONS = {
    "bernoulli": (lambda: emission.bernoulli(6, 2), ROW > 0, 0.0),
    "poisson": (lambda: emission.poisson(6, 2), ROW, stats.poisson(3).logpmf(3)),
    "categorical": (lambda: emission.categorical(6, 2), ROW, 0.0),
    "unit_gaussian": (lambda: emission.unit_gaussian(6, 2), ROW, -np.log(2 * np.pi)),
    "diagonal_gaussian": (lambda: emission.diagonal_gaussian(6, 2), ROW, None),
    "full_gaussian": (lambda: emission.full_gaussian(6, 2), ROW, None),
}

QUICK = {("em", "full_gaussian"), ("cavi", "diagonal_gaussian")}  # of the fast suite


def run(algorithm, model, data, steps=8):
    fit = vi.fit(getattr(vi, algorithm)(model), data, num_steps=steps, key=jax.random.key(0))
    assert np.all(fit.trace["result"] == 0)  # no step was skipped
    assert np.all(np.isfinite(fit.trace["elbo"]))
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(fit.posterior))
    return fit


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        pytest.param(a, name, marks=[] if (a, name) in QUICK else pytest.mark.slow)
        for a in ("em", "cavi")
        for name in EMISSIONS
    ],
)
def test_points_all_alike_leave_classes_empty(name, algorithm):
    """Twenty copies of one point and six components. Maximum likelihood has no opinion of an empty
    class, which stays where it is; the likelihood is that of one component (a Gaussian's own
    variances have no best value)."""
    make, row, best = EMISSIONS[name]
    data = np.repeat(row, 20, axis=0).astype(np.float32)
    fit = run(algorithm, vi.models.mixture(make(), concentration=1.5), data)
    if algorithm == "em" and best is not None:
        np.testing.assert_allclose(fit.trace["elbo"][-1], 20 * best, rtol=1e-5, atol=1e-4)
    if algorithm == "cavi":
        assert np.all(np.diff(fit.trace["elbo"]) > -1e-4 * np.abs(fit.trace["elbo"][1:]))


@pytest.mark.slow
@pytest.mark.parametrize("name", EMISSIONS)
@pytest.mark.parametrize("algorithm", ["em", "map", "cavi"])
def test_one_point_and_constant_columns(name, algorithm):
    make, row, _ = EMISSIONS[name]
    one = row.astype(np.float32)
    flag = np.concatenate([np.repeat(one, 10, 0), np.repeat(one * [[0, 1]], 10, 0)]).astype(
        np.float32
    )
    for data in (one, flag):
        run(algorithm, vi.models.mixture(make(), concentration=1.5), data)


def test_a_class_that_empties_keeps_its_place():
    """EM of unit-variance components, one of which starts so far out that no point is its own (to
    float32)."""
    y = np.array([[-1.0], [0.0], [1.0]], np.float32)
    alg = vi.em(vi.models.mixture(emission.unit_gaussian(2, 1), weights=0.5, init=vi.init.prior()))
    start = vi.Normal.from_mean_variance(jnp.array([[0.5], [80.0]]), 0.1)
    state = alg.init(jax.random.key(0), y)._replace(posterior=vi.Product({"components": start}))
    state, info = jax.jit(alg.step)(jax.random.key(0), state, y)
    np.testing.assert_allclose(state.posterior["components"].mean()[:, 0], [0.0, 80.0], atol=1e-5)
    assert int(info.result) == 0
    assert int(info.retractions) > 0


@pytest.mark.parametrize("rows", ["fewer than columns", "all alike", "constant response"])
def test_ard_regression(rows):
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    x, y = {  # one shape for the last two: one compilation
        "fewer than columns": (x[:2], np.array([1.0, -1.0])),
        "all alike": (np.repeat(x[:1], 20, 0), np.ones(20)),
        "constant response": (x * 0 + 1, np.full(20, 3.0)),
    }[rows]
    fit = run("cavi", vi.models.ard_regression(4), (x, y.astype(np.float32)), steps=20)
    assert np.all(
        np.linalg.eigvalsh(np.asarray(fit.posterior["coefficients"].strength, np.float64)) > 0
    )


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(vi.models.hierarchical_linear_regression, marks=pytest.mark.slow),
        pytest.param(vi.models.hierarchical_probit_regression, marks=pytest.mark.slow),
        vi.models.multilevel_logistic_regression,
    ],
)
def test_hierarchical_regression_of_one_row_and_of_labels_all_alike(make):
    """Three groups of two columns: one row, one row twice, none at all; and every response 1."""
    x, y, mask = vi.models.group_rows(
        np.array([[1.0, 2], [1, 0], [1, 0]]), np.ones(3), np.array([0, 1, 1]), 3
    )
    fit = run("cavi", make(2), (x.astype(np.float32), y.astype(np.float32), mask), steps=40)
    local = fit.locals((x, y, mask), key=jax.random.key(0))["coefficients"]
    assert np.all(np.linalg.eigvalsh(np.asarray(local.cov, np.float64)) > 0)
    np.testing.assert_allclose(local.mean()[2], fit.posterior["population"].mean().mean, atol=1e-4)
