"""Quasi-random draws: uniform one by one, evenly spread together, and gradients with the right mean
and less noise."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.families.numeric import draws as quasi
from vijax.families.vector.free_normals import LowRankNormal, TriangularNormal
from vijax.families.vector.normal_mixture import NormalMixture
from vijax.inference.estimator.base import estimate

KEY = jax.random.key(0)
DIM, COUNT, REPEATS = 2, 16, 4000


def points(key, count=COUNT, dim=DIM):
    return jax.vmap(lambda i: quasi.quasi_normal(key, i, count, dim, jnp.float32))(
        jnp.arange(count)
    )


def test_each_point_is_standard_normal():
    """Of many shifts, by Kolmogorov and Smirnov: false alarms 1 in 1,000 a coordinate."""
    all_of = np.asarray(jax.jit(jax.vmap(points))(jax.random.split(KEY, 2000)), np.float64)
    for i in (0, 7):
        for d in range(DIM):
            assert stats.kstest(all_of[:, i, d], "norm").pvalue > 1e-3
    assert abs(np.corrcoef(all_of[:, 3].T)[0, 1]) < 0.1


def test_together_they_have_one_in_each_cell():
    """Of sixteen points one is in each sixteenth of every coordinate, whatever the shift."""
    points_of = jax.jit(points)
    for seed in range(5):
        x = np.asarray(points_of(jax.random.key(seed)), np.float64)
        for d in range(DIM):
            np.testing.assert_array_equal(
                np.sort(np.floor(stats.norm.cdf(x[:, d]) * COUNT)), np.arange(COUNT)
            )


def families():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(DIM, DIM))
    cov, mean = (
        (half @ half.T + np.eye(DIM)).astype(np.float32),
        rng.normal(size=DIM).astype(np.float32),
    )
    triangle = jnp.asarray(0.4 * rng.normal(size=(DIM, DIM)), jnp.float32)
    return {
        "normal": vi.Normal.from_mean_variance(mean, np.diag(cov)),
        "full": vi.MultivariateNormal.from_mean_cov(mean, cov),
        "triangular": TriangularNormal(jnp.asarray(mean), triangle),
        "low_rank": LowRankNormal(jnp.asarray(mean), jnp.zeros(DIM), jnp.ones((DIM, 1))),
        "mixture": NormalMixture(
            jnp.array([0.3, -0.2]), jnp.stack([mean, -mean]), jnp.stack([triangle, -triangle])
        ),
        "blocks": vi.guides.block().assign({"a": [1], "b": [0]}).member(jnp.asarray(mean), 0.7),
    }


def bound(stats_of, _):
    x = stats_of["x"].value
    return jnp.sum(jnp.sin(x)) - 0.1 * x[0] ** 2 * x[1] ** 2 + jnp.sum(x), None


@functools.lru_cache
def messages(name, quasi):
    """Of many keys, all numbers in a row."""
    q = vi.Product({"x": families()[name]})
    rule = {"x": vi.estimator.reparameterised(COUNT, sticking=name == "mixture", quasi=quasi)}
    one = lambda key: estimate(rule, ["x"], key, q, q.flat(), jnp.float32(0.0), bound, {}).natural
    found = jax.jit(jax.vmap(one))(jax.random.split(KEY, REPEATS))
    return np.concatenate(
        [np.asarray(x, np.float64).reshape(REPEATS, -1) for x in jax.tree.leaves(found)], 1
    )


@pytest.mark.parametrize("name", list(families()))
def test_gradients_have_the_same_mean_and_less_noise(name):
    plain, even = messages(name, False), messages(name, True)
    error = np.sqrt((plain.var(0) + even.var(0)) / REPEATS)
    assert np.all(np.abs(plain.mean(0) - even.mean(0)) < 5 * error + 1e-5)
    assert (
        plain.var(0).sum() > 1.5 * even.var(0).sum()
    )  # measured: 1.9 times (low rank) to 49 times (blocks)


def test_the_rows_take_them():
    model = vi.density({"x": vi.free(3)}, lambda v: -jnp.sum(jnp.cosh(v["x"] - 1.0)))
    for alg in (
        vi.advi(model, estimator=vi.estimator.reparameterised(16, quasi=True)),
        vi.ngvi(model, estimator=vi.estimator.least_squares(16, quasi=True)),
    ):
        fit = vi.fit(alg, num_steps=1500, key=KEY)
        np.testing.assert_allclose(fit.posterior["free"].mean(), 1.0, atol=0.05)


def test_other_globals_are_refused():
    coin = vi.model(
        {"bias": vi.Beta.from_alpha_beta(2.0, 3.0)},
        lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    alg = vi.svi(coin, estimator=vi.estimator.reparameterised(4, quasi=True), num_groups=4.0)
    state = jax.eval_shape(alg.init, KEY)
    with pytest.raises(ValueError, match=naming("quasi:", "Beta")):
        jax.eval_shape(alg.step, KEY, state, np.ones(4, np.float32))


@pytest.mark.parametrize("estimator", [vi.estimator.reparameterised, vi.estimator.least_squares])
def test_it_is_asked_for_by_a_bool(estimator):
    with pytest.raises(ValueError, match=naming("quasi:", "True", "False", "'sobol'")):
        estimator(8, quasi="sobol")
