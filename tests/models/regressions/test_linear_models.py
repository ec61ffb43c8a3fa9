"""GLMs: the weight-space, kernel-space and sparse forms are one posterior; the Jaakkola-Jordan
bound is its EM."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCOO
from scipy import special

import vijax as vi
from vijax.inference.step_size import constant, proximal

RNG = np.random.default_rng(5)
X = RNG.normal(size=(12, 5)) * (RNG.random((12, 5)) < 0.6)
Y = np.where(X @ RNG.normal(size=5) + 0.3 * RNG.normal(size=12) > 0, 1, -1)
NEW = RNG.normal(size=(3, 5)) * (RNG.random((3, 5)) < 0.6)


def test_forms_agree_on_minibatches_and_in_prediction():
    lik = vi.likelihood.bernoulli_logit()
    with jax.enable_x64(True):
        models = {
            "weights": vi.models.glm(X, Y, lik, 1.5, form="weights"),
            "kernel": vi.models.glm(X, Y, lik, 1.5, form="kernel"),
            "sparse": vi.models.glm(scipy.sparse.csr_array(X), Y, lik, 1.5),
            "sparse kernel": vi.models.glm(scipy.sparse.csr_array(X), Y, lik, 1.5, form="kernel"),
        }
        results = {}
        for name, model in models.items():
            alg = vi.pg_svi(model, step_size=proximal(0.3))
            fit = vi.fit(alg, model.data, num_steps=15, batch_size=5, key=jax.random.key(0))
            new = scipy.sparse.csr_array(NEW) if name == "sparse kernel" else NEW
            results[name] = [
                *fit.posterior["z"].sites,
                *model.predict(fit.posterior, new),
                fit.trace["elbo"],
            ]
        for name, got in results.items():
            for a, b in zip(got, results["weights"], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10, err_msg=name)


def test_the_form_follows_the_shape_and_bcoo_is_read():
    lik, student = vi.likelihood.bernoulli_logit(), vi.likelihood.student_t(3.0, 1.0)
    prior = lambda x, y, lik: (
        type(vi.models.glm(x, y, lik).posterior(vi.sites.Sites.zeros(len(y))).prior).__name__
    )
    wide, labels = X[:4], Y[:4]
    assert prior(X, Y, lik) == "FeatureForm"
    assert prior(wide, labels, lik) == "KernelForm"
    assert prior(wide, labels, student) == "FeatureForm"  # sites of negative precision
    assert prior(BCOO.fromdense(jnp.asarray(X)), Y, lik) == "SparseFeatureForm"
    from_bcoo = vi.models.glm(BCOO.fromdense(jnp.asarray(X)), Y, lik)
    dense = vi.models.glm(X, Y, lik)
    sites = vi.sites.Sites(jnp.ones(12), jnp.ones(12))
    new = jnp.asarray(NEW, jnp.float32)
    for a, b in zip(
        from_bcoo.predict(sites, BCOO.fromdense(new)), dense.predict(sites, new), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_jaakkola_jordan_is_the_em_of_its_authors():
    """Bishop (2006), eq. 10.156 to 10.163: xi^2 = x' (S + m m') x, S^-1 = I + 2 sum lambda(xi) x
    x', by hand."""
    mean, cov = np.zeros(5), np.eye(5)
    for _ in range(3):
        xi = np.sqrt(np.einsum("ni,ij,nj->n", X, cov + np.outer(mean, mean), X))
        lam = np.where(xi > 0, (special.expit(xi) - 0.5) / (2 * np.maximum(xi, 1e-30)), 0.125)
        cov = np.linalg.inv(np.eye(5) + 2 * X.T @ (lam[:, None] * X))
        mean = cov @ X.T @ (Y / 2)
    with jax.enable_x64(True):
        model = vi.models.logistic_regression(X, Y, bound="jaakkola_jordan")
        alg = vi.pg_svi(model, step_size=constant(1.0))
        fit = vi.fit(alg, model.data, num_steps=3, key=jax.random.key(0))
        got_mean, got_variance = model.predict(fit.posterior, np.eye(5))
        longer = vi.fit(alg, model.data, num_steps=60, key=jax.random.key(0))
        exact = vi.models.logistic_regression(X, Y)
        best = vi.fit(vi.pg_svi(exact), exact.data, num_steps=40, key=jax.random.key(0))
        bounds = float(model.elbo(longer.posterior)), float(exact.elbo(best.posterior))
    np.testing.assert_allclose(got_mean, mean, atol=1e-10)
    np.testing.assert_allclose(got_variance, np.diag(cov), atol=1e-10)
    assert np.all(np.diff(longer.trace["elbo"]) > -1e-10)
    assert bounds[0] < bounds[1]


def test_float32_agrees_with_float64():
    fits = []
    for x64 in (False, True):
        with jax.enable_x64(x64):
            model = vi.models.glm(X, Y, vi.likelihood.bernoulli_logit(), 10.0)
            fit = vi.fit(
                vi.pg_svi(model, step_size=proximal(2.0)),
                model.data,
                num_steps=25,
                key=jax.random.key(0),
            )
            fits.append([np.asarray(v) for v in model.predict(fit.posterior, NEW)])
    for single, double in zip(*fits, strict=True):
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, double, rtol=2e-3, atol=2e-3)


def test_bad_input_is_named():
    lik = vi.likelihood.bernoulli_logit()
    broken = X.copy()
    broken[4, 0] = broken[7, 0] = np.nan
    rows = "x: expected finite numbers, got 2 rows that are not, the first row 4"
    for call, message in (
        (lambda: vi.models.glm(broken, Y, lik), rows),
        (lambda: vi.models.glm(scipy.sparse.csr_array(broken), Y, lik), rows),
        (lambda: vi.models.glm(X[0], Y, lik), "x: expected a matrix"),
        (lambda: vi.models.glm(X, Y[:3], lik), "y: expected one observation for each of the 12"),
        (lambda: vi.models.glm(X, np.zeros(12), lik), r"got 0.0 at site 0"),
        (lambda: vi.models.glm(X, Y, lik, -1.0), "prior_scale"),
        (lambda: vi.models.glm(X, Y, lik, form="dual"), "form"),
        (lambda: vi.models.logistic_regression(X, Y, bound="taylor"), "bound"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
