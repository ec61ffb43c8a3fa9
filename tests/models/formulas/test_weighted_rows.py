"""A row of weight 2 is the row twice and one of weight 0 is left out, in all that a formula learns
from the rows: knots, means, levels, polynomials, steps, priors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.data.formulas.row_statistics import quantiles

RNG = np.random.default_rng(3)
N = 40
WEIGHTS = RNG.integers(0, 4, N).astype(float)
TABLE = {
    "x": RNG.gamma(2.0, size=N),
    "z": RNG.uniform(0, 10, N),
    "g": RNG.choice(list("abc"), N),
    "o": RNG.choice([0, 1, 2], N),
    "y": RNG.normal(size=N),
    "k": RNG.integers(0, 3, N),
    "w": WEIGHTS,
}
# The last row is unlike all others, and does not count.
STRANGE = {"x": 1e4, "z": 1e4, "g": "zz", "o": 9, "y": 0.0, "k": 7, "w": 0.0}
TABLE = {name: np.append(column, STRANGE[name]) for name, column in TABLE.items()}
REPEATED = {name: np.repeat(column, TABLE["w"].astype(int)) for name, column in TABLE.items()}
FORMULAS = [
    "y ~ x + s(z, k=6)",
    "y ~ g + s(z, by=g, k=5)",
    "y ~ t2(x, z)",
    "y ~ scale(x) + center(z)",
    "y ~ poly(z, 3)",
    "y ~ poly(z, 2, raw=True)",
    "y ~ bs(z, df=6)",
    "y ~ I(x > median(x)) + I(z / max(z))",
    "y ~ I((x - mean(x)) / std(x))",
    "y ~ mo(o)",
    "y ~ g * z",
    "y ~ C(o, Sum)",
    "y ~ z + (scale(x) | g)",
    "y ~ z + (1 | g)",
    "scale(y) ~ z",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_weights_are_repeated_rows(formula):
    weighted = vi.glmm(formula, TABLE, weights="w")
    repeated = vi.glmm(formula, REPEATED)
    assert weighted.names == repeated.names
    assert weighted.design.coefficients == repeated.design.coefficients
    rows, others = (model.design.read_rows(REPEATED) for model in (weighted, repeated))
    for name in ("x", "offset", "steps"):
        np.testing.assert_allclose(getattr(rows, name), getattr(others, name), atol=1e-12)
    for ours, theirs in zip((*rows.z, *rows.smooths), (*others.z, *others.smooths), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    bounds = [log_density_at(model) for model in (weighted, repeated)]
    np.testing.assert_allclose(*bounds, rtol=2e-5)
    assert list(weighted.priors) == list(repeated.priors)
    for ours, theirs in zip(weighted.priors.values(), repeated.priors.values(), strict=True):
        assert ours[0] == theirs[0]
        np.testing.assert_allclose(ours[1:], theirs[1:], rtol=1e-9, atol=1e-12)


def log_density_at(model):
    """The log density of a model and its data at one point, of its prior and its data."""
    density = model.log_density
    x = 0.1 * jnp.cos(jnp.arange(density.variables.dim))
    log_liks = jax.jit(density.log_liks_at)(x, model.data)
    return float(density.log_prior_at(x) + log_liks.sum())


def test_a_fit_of_weighted_rows_is_that_of_repeated_ones():
    means = []
    for table, weights in ((TABLE, "w"), (REPEATED, None)):
        model = vi.glmm("y ~ scale(x) + s(z, k=5)", table, weights=weights)
        fit = vi.auto(model, key=jax.random.key(0))
        means.append(fit.predict(REPEATED, key=jax.random.key(1)).mean)
    np.testing.assert_allclose(*means, atol=1e-3)


def test_levels_of_categories_of_weight_zero_are_none():
    model = vi.glmm("k ~ z", TABLE, family="categorical", weights="w")
    assert model.design.levels == ("0", "1", "2")
    assert vi.glmm("k ~ z", TABLE, family="cumulative", weights="w").design.levels[-1] == "2"


def test_quantiles_of_weights_that_are_not_whole_are_relative():
    x = RNG.normal(size=50)
    weights = RNG.integers(1, 4, 50).astype(float)
    levels = [0.0, 0.1, 0.5, 0.77, 1.0]
    expected = np.quantile(np.repeat(x, weights.astype(int)), levels)
    np.testing.assert_allclose(quantiles(x, weights, levels), expected, rtol=1e-12)
    half = weights * 0.5
    np.testing.assert_allclose(quantiles(x, half, levels), quantiles(x, half * 3.7, levels))
    np.testing.assert_allclose(quantiles(x, np.full(50, 0.3), levels), np.quantile(x, levels))
