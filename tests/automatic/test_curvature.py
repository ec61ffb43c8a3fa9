"""Normals of full covariance by expected Hessians: which pairs are coupled, the optimum, and where
it is not for us."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy import optimize, stats

import vijax as vi
from vijax.automatic.curvature import normal as curved
from vijax.automatic.curvature.kinks import has_kinks
from vijax.automatic.curvature.pattern import Pattern, color_pattern, find_pattern
from vijax.automatic.gaussian import Gaussian
from vijax.automatic.trust_region import Run
from vijax.lbfgs import Mode
from vijax.verdict.target import Target

KEY = jax.random.key(0)
DIM = 320


def pattern_at_random(rng, dim):
    """A sparse symmetric pattern, with some hubs."""
    coupled = np.triu(rng.random((dim, dim)) < rng.choice([0.02, 0.1, 0.3]), 1)
    hubs = rng.choice(dim, min(dim, rng.integers(0, 4)), replace=False)
    coupled[hubs] = coupled[:, hubs] = True
    return coupled | coupled.T | np.eye(dim, dtype=bool)


@pytest.mark.parametrize("seed", range(30))
def test_a_matrix_is_read_from_its_products(seed):
    rng = np.random.default_rng(seed)
    coupled = pattern_at_random(rng, int(rng.integers(1, 40)))
    matrix = rng.normal(size=coupled.shape)
    matrix = np.where(coupled, matrix + matrix.T, 0.0)
    pattern = color_pattern(coupled)
    assert pattern.num_products <= len(coupled)
    np.testing.assert_allclose(
        pattern.matrix(pattern.directions @ matrix).toarray(), matrix, atol=1e-14
    )


def test_few_products_serve_groups_chains_and_grids():
    near = np.abs(np.subtract.outer(np.arange(200), np.arange(200)))
    assert color_pattern(near < 2).num_products == 3
    groups = near == 0
    groups[:5] = groups[:, :5] = True
    assert color_pattern(groups).num_products == 6
    rows, columns = np.divmod(np.arange(225), 15)
    grid = np.abs(np.subtract.outer(rows, rows)) + np.abs(np.subtract.outer(columns, columns)) < 2
    assert color_pattern(grid).num_products <= 9
    assert color_pattern(np.ones((50, 50), bool)).num_products == 50


def standard(dim):
    return Gaussian(np.zeros(dim), np.ones(dim), 0.0)


def target_of(dim, log_density):
    return Target.from_data(vi.density({"x": vi.free(dim)}, log_density), None)


def test_a_pattern_that_moves_is_taken_for_dense():
    """Beyond one the first half is coupled to the second one too."""

    def branches(v):
        x, y = jnp.split(v["x"], 2)
        return -0.5 * jnp.sum(v["x"] ** 2) - jnp.where(x[0] > 0.2, 0.1 * (x * y).sum() ** 2, 0.0)

    still = find_pattern(target_of(40, lambda v: -0.5 * jnp.sum(v["x"] ** 2)), standard(40), [0])
    assert still.num_products == 1
    moves = [
        find_pattern(target_of(40, branches), standard(40), [seed]).num_products
        for seed in range(6)
    ]
    assert set(moves) <= {1, 40}
    assert 40 in moves


def precision_of_a_hierarchy():
    """Chains of ten, coupled to three globals."""
    rng = np.random.default_rng(0)
    near = np.abs(np.subtract.outer(np.arange(DIM), np.arange(DIM)))
    blocks = np.equal.outer(np.arange(DIM) // 10, np.arange(DIM) // 10)
    lower = np.where((near < 2) & blocks, rng.normal(size=(DIM, DIM)), 0.0) + 3 * np.eye(DIM)
    lower = np.tril(lower)
    lower[-3:] = 0.3 * rng.normal(size=(3, DIM)) + 3 * np.eye(DIM)[-3:]
    return np.tril(lower) @ np.tril(lower).T


def test_a_normal_of_many_variables_is_found():
    precision = precision_of_a_hierarchy()
    held, mean = jnp.asarray(precision, jnp.float32), np.linspace(-1, 1, DIM)
    model = vi.density(
        {"x": vi.free(DIM)}, lambda v: -0.5 * (v["x"] - mean) @ held @ (v["x"] - mean)
    )
    fit = vi.auto(model, key=KEY, num_starts=2)
    assert fit.report.ended.startswith("converged")
    assert fit.report.gap < 0.01
    exact = np.linalg.inv(precision)
    frame = jax.tree.map(np.asarray, fit.state.hyper["frame"])
    np.testing.assert_allclose(frame.shift, mean, atol=0.02 * np.sqrt(np.diag(exact)).max())
    np.testing.assert_allclose(frame.scale @ frame.scale.T, exact, atol=2e-3 * exact.max())


def optimum_of_one(slope, curvature):
    """Mean and sd of the normal with E[slope] = 0 and E[-curvature] = 1 / variance, by
    quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()

    def off(at):
        x = at[0] + np.exp(at[1]) * points
        return [weights @ slope(x), weights @ curvature(x) + np.exp(-2 * at[1])]

    found = optimize.root(off, [0.0, 0.0])
    assert found.success
    return found.x[0], np.exp(found.x[1])


def test_many_skewed_variables_have_the_best_normals():
    """Logarithms of Gamma variables, each coupled to the next: by the chain of differences y they
    are independent."""
    shape = 4.0

    def log_density(v):
        y = jnp.concatenate([v["x"][:1], jnp.diff(v["x"])])
        return (shape * y - jnp.exp(y)).sum()

    fit = vi.auto(vi.density({"x": vi.free(DIM)}, log_density), key=KEY, num_starts=2)
    mean, sd = optimum_of_one(lambda y: shape - np.exp(y), lambda y: -np.exp(y))
    frame = jax.tree.map(lambda x: np.asarray(x, float), fit.state.hyper["frame"])
    to_y = np.eye(DIM) - np.eye(DIM, k=-1)
    covariance = to_y @ frame.scale @ frame.scale.T @ to_y.T
    np.testing.assert_allclose(to_y @ frame.shift, mean, atol=0.05 * sd)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), sd, rtol=0.05)


def test_a_density_with_kinks_is_left_to_slopes():
    """Half of all curvature lies in the kinks, where no Hessian sees it."""
    x = np.random.default_rng(0).normal(size=(4, DIM)).astype(np.float32)

    def log_density(v):
        return norm.logpdf(x @ v["w"], 0.0, 3.0).sum() - 2 * jnp.abs(v["w"]).sum()

    fit = vi.auto(vi.density({"w": vi.free(DIM)}, log_density), key=KEY, num_starts=2)
    assert np.ndim(fit.state.hyper["frame"].scale) == 1
    # Independent normals: E[2 |w|] is 2 sqrt(2 / pi) sd, and the rows add their own precision.
    own, kink = (x**2).sum(0) / 9, 2 * np.sqrt(2 / np.pi)
    exact = (np.sqrt(kink**2 + 4 * own) - kink) / (2 * own)
    sds = np.asarray(fit.sample(KEY, 4000)["w"]).std(0)
    assert np.median(sds / exact) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("log_density", "kinks"),
    [
        (lambda v: -jnp.sum(v["x"] ** 2), False),
        (lambda v: -jnp.sum(jnp.exp(v["x"]) - v["x"]), False),
        (lambda v: -2 * jnp.sum(jnp.log1p(4 * v["x"] ** 2)), False),
        (lambda v: -jnp.sum(jnp.abs(v["x"])), True),
        (lambda v: -jnp.sum(v["x"] ** 2) - jnp.abs(v["x"][3]), True),
        (lambda v: -jnp.sum(v["x"] ** 2) - jnp.maximum(v["x"][:2].sum() - 0.5, 0), True),
    ],
)
def test_kinks_are_seen(log_density, kinks):
    assert has_kinks(target_of(12, log_density), standard(12), [0]) == kinks


def test_dense_is_dense():
    matrix = np.arange(9.0).reshape(3, 3)
    matrix = matrix + matrix.T
    pattern = Pattern.dense(3)
    np.testing.assert_array_equal(pattern.matrix(pattern.directions @ matrix).toarray(), matrix)


def test_a_walk_without_a_level_is_improper():
    """Its differences are normal, and nothing says where it is."""
    fit = vi.auto(
        vi.density({"x": vi.free(DIM)}, lambda v: -0.5 * jnp.sum(jnp.diff(v["x"]) ** 2)),
        key=KEY,
        num_starts=2,
    )
    assert "improper" in fit.verdict
    assert not fit.report.usable


def test_kinks_alone_are_no_error():
    """Their Hessians are zero."""
    fit = vi.auto(
        vi.density({"x": vi.free(DIM)}, lambda v: -jnp.sum(jnp.abs(v["x"] - 1.0))),
        key=KEY,
        num_starts=2,
    )
    draws = np.asarray(fit.sample(KEY, 4000)["x"])
    assert np.median(draws.mean(0)) == pytest.approx(1.0, abs=0.05)
    assert np.median(draws.std(0)) == pytest.approx(np.sqrt(np.pi / 2), rel=0.05)


def logistic_regression(num_rows, dim):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, dim)).astype(np.float32)
    y = rng.binomial(1, 1 / (1 + np.exp(-x @ rng.normal(size=dim) / np.sqrt(dim))))
    logit = lambda v, row: row["x"] @ v["w"]
    model = vi.density(
        {"w": vi.free(dim)},
        log_prior=lambda v: norm.logpdf(v["w"]).sum(),
        log_lik=lambda v, row: row["y"] * logit(v, row) - jax.nn.softplus(logit(v, row)),
    )
    return model, {"x": x, "y": y.astype(np.float32)}


def test_a_normal_is_fitted_at_the_only_mode_of_a_dense_density():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(12, 12)) / 4 + np.eye(12)
    held, mean = jnp.asarray(root @ root.T), np.linspace(-1, 1, 12)
    target = target_of(12, lambda v: -0.5 * (v["x"] - mean) @ held @ (v["x"] - mean))
    run = Run(target, 20_000, lambda: False)
    q = curved.fit_at_mode(run, Mode(mean + 0.1, 0.0, np.ones(12)), 0)
    exact = np.linalg.inv(root @ root.T)
    np.testing.assert_allclose(q.mean, mean, atol=1e-3)
    np.testing.assert_allclose(q.scale @ q.scale.T, exact, atol=1e-3 * exact.max())


def test_no_normal_is_fitted_at_a_saddle_or_to_a_sparse_density():
    at = Mode(np.zeros(12), 0.0, np.ones(12))
    fit_of = lambda log_density: curved.fit_at_mode(
        Run(target_of(12, log_density), 20_000, lambda: False), at, 0
    )
    assert fit_of(lambda v: -0.5 * jnp.sum(v["x"] ** 2)) is None
    assert fit_of(lambda v: 0.1 * jnp.sum(v["x"]) ** 2 - jnp.sum(v["x"] ** 2)) is None


@pytest.mark.slow
@pytest.mark.parametrize("dim", [150, 400])
def test_second_derivatives_fit_a_regression_of_many_rows(dim):
    """The optimum has E[slope] = 0 and precision E[-Hessian], here by 4,000 draws of the fit."""
    model, data = logistic_regression(8000, dim)
    fit = vi.auto(model, data, key=KEY)
    assert "means and sds can be used" in fit.verdict
    w = np.asarray(fit.sample(jax.random.key(1), 4000)["w"], float)
    p = 1 / (1 + np.exp(-w @ data["x"].T))
    slope = (data["y"] - p) @ data["x"] - w
    precision = np.eye(dim) + (data["x"] * (p * (1 - p)).mean(0)[:, None]).T @ data["x"]
    cov = np.linalg.inv(precision)
    shift = cov @ slope.mean(0) / np.sqrt(np.diag(cov))
    assert np.abs(shift).max() < 0.1
    np.testing.assert_allclose(w.std(0), np.sqrt(np.diag(cov)), rtol=0.08)


def test_points_in_one_call_do_not_change_values():
    model, data = logistic_regression(2000, 600)
    x = np.random.default_rng(2).normal(size=(40, 600)) / 30
    target = Target.from_data(model, data)
    assert target.has_many_products
    logits = x @ data["x"].T
    exact = (data["y"] * logits - np.logaddexp(0, logits)).sum(1) + stats.norm.logpdf(x).sum(1)
    np.testing.assert_allclose(target.values(x), exact, rtol=1e-5)
    np.testing.assert_allclose(target.values(x[:5]), exact[:5], rtol=1e-5)
