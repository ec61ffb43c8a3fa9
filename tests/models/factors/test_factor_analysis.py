"""Factor analysis against the closed form of probabilistic PCA, scikit-learn, and the truth of a
matrix with holes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import FactorAnalysis

import vijax as vi
from tests.naming import naming

RNG = np.random.default_rng(0)
LOADINGS = RNG.normal(size=(5, 2)) * 2
Y = (
    RNG.normal(size=(200, 2)) @ LOADINGS.T
    + 3
    + RNG.normal(size=(200, 5)) * [0.3, 0.4, 0.5, 0.6, 0.7]
).astype(np.float32)


def test_em_reaches_the_closed_form_of_probabilistic_pca():
    """Tipping and Bishop 1999: noise = mean of the smallest eigenvalues; the bound of EM is the
    likelihood itself."""
    fit = vi.fit(
        vi.em(vi.models.factor_analysis(5, 2, noise="isotropic")),
        Y,
        num_steps=200,
        key=jax.random.key(0),
    )
    covariance = np.cov(Y.T.astype(np.float64), bias=True)
    values, vectors = np.linalg.eigh(covariance)
    noise = values[:3].mean()
    model = vectors[:, 3:] @ np.diag(values[3:] - noise) @ vectors[:, 3:].T + noise * np.eye(5)
    best = stats.multivariate_normal(Y.mean(0), model).logpdf(Y).sum()
    np.testing.assert_allclose(1 / fit.posterior["noise"].mode(), noise, rtol=1e-4)
    np.testing.assert_allclose(fit.trace["elbo"][-1], best, rtol=1e-5)
    loadings = np.asarray(fit.posterior["loadings"].mode(), np.float64)
    np.testing.assert_allclose(loadings[:, 2], Y.mean(0), rtol=1e-4)
    np.testing.assert_allclose(
        loadings[:, :2] @ loadings[:, :2].T + noise * np.eye(5), model, atol=0.01
    )


def test_em_with_a_variance_per_column_agrees_with_scikit_learn():
    fit = vi.fit(vi.em(vi.models.factor_analysis(5, 2)), Y, num_steps=400, key=jax.random.key(0))
    peer = FactorAnalysis(2, tol=1e-8, max_iter=5000).fit(Y.astype(np.float64))
    np.testing.assert_allclose(fit.trace["elbo"][-1] / len(Y), peer.score(Y), rtol=1e-4)
    np.testing.assert_allclose(1 / fit.posterior["noise"].mode(), peer.noise_variance_, rtol=0.05)


def test_coordinate_ascent_never_loses_ground():
    with jax.enable_x64(True):
        data = Y.astype(np.float64)
        data[::7, 1] = np.nan
        fit = vi.fit(
            vi.cavi(vi.models.factor_analysis(5, 2)), data, num_steps=60, key=jax.random.key(0)
        )
        assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))


@pytest.mark.parametrize("algorithm", ["cavi", "svi", "ssvi_a"])
def test_matrix_factorisation_fills_the_holes(algorithm):
    """Rank 2 with 40 % missing: the reconstruction of what was hidden is near the noise."""
    rng = np.random.default_rng(1)
    full = (
        rng.normal(size=(150, 2)) @ rng.normal(size=(2, 20)) + 0.1 * rng.normal(size=(150, 20))
    ).astype(np.float32)
    hidden = rng.uniform(size=full.shape) < 0.4
    model = vi.models.factor_analysis(20, 2, noise="isotropic", intercept=False)
    seen = np.where(hidden, np.nan, full).astype(np.float32)
    whole = {"num_steps": 100} if algorithm == "cavi" else {"num_epochs": 60, "batch_size": 50}
    fit = vi.fit(getattr(vi, algorithm)(model), seen, key=jax.random.key(0), **whole)
    x = fit.locals(seen, key=jax.random.key(1))["x"].mean()
    error = np.asarray(x @ fit.posterior["loadings"].mean().T - full)[hidden]
    assert np.sqrt(np.mean(error**2)) < 0.15
    np.testing.assert_allclose(fit.posterior["noise"].mean() ** -0.5, 0.1, rtol=0.2)


def test_bad_data():
    model = vi.models.factor_analysis(2, 1)
    with pytest.raises(ValueError, match=naming("data:", "2", "3")):
        vi.fit(vi.cavi(model), np.zeros(3), num_steps=1, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"inf at \[\[1, 0\]\]"):
        vi.fit(
            vi.cavi(model),
            np.array([[0.0, 1.0], [np.inf, 1.0]]),
            num_steps=1,
            key=jax.random.key(0),
        )
    with pytest.raises(ValueError, match="num_factors"):
        vi.models.factor_analysis(2, 0)
    assert jnp.all(
        jnp.isfinite(
            vi.cavi(model).init(jax.random.key(0), jnp.ones((4, 2))).posterior["noise"].mean()
        )
    )
