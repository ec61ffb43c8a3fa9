"""Kernels by name, and the published setting on the Ionosphere data (skipped where the data folder is missing)."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi

DATA = Path(os.environ.get("VIJAX_DATA", Path(__file__).parents[2].parent / "shared" / "data"))


def test_named_kernels_are_tinygps_with_ard():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 2)), np.array([1, -1, 1, 1, -1])
    with jax.enable_x64(True):
        hyper = {"scale": 2.0, "length": jnp.array([0.5, 3.0])}
        model = vi.models.gp(x, y, "rbf", vi.likelihood.bernoulli_logit(), hyper=hyper)
        factor = model.posterior(vi.sites.Sites.zeros(5)).prior.features
        gap = (x[:, None] - x[None]) / np.array([0.5, 3.0])
        np.testing.assert_allclose(factor @ factor.T, 4 * np.exp(-0.5 * np.sum(gap**2, -1)) + 1e-6 * np.eye(5))
        for name in ("matern12", "matern32", "matern52", "linear"):
            other = vi.models.gp(x, y, name, vi.likelihood.bernoulli_logit(), jitter=1e-3)
            assert np.isfinite(other.elbo(vi.sites.Sites.zeros(5)))
        slope = jax.grad(lambda h: model.elbo(vi.sites.Sites.zeros(5), h))(model.hyper)
        assert slope["length"].shape == (2,)
        assert np.all(np.isfinite(slope["length"]))


def test_a_tinygp_kernel_and_a_likelihood_with_hyperparameters():
    kernels = pytest.importorskip("tinygp").kernels
    x, y = np.linspace(0, 1, 6), np.array([0.0, 1.0, 0.0, 2.0, 4.0, 3.0])
    model = vi.models.gp(
        x,
        y,
        lambda h: h["scale"] ** 2 * kernels.Matern32(0.5) + kernels.Constant(1.0),
        lambda h: vi.likelihood.negative_binomial(h["dispersion"]),
        hyper={"scale": 1.0, "dispersion": 3.0},
        jitter=1e-3,
    )
    alg = vi.pg_svi(model, learn=("scale", "dispersion"))
    fit = vi.fit(alg, model.data, num_steps=60, key=jax.random.key(0))
    assert float(fit.trace["elbo"][-1]) > float(fit.trace["elbo"][20])
    assert float(fit.state.hyper["dispersion"]) != 3.0


@pytest.mark.skipif(not (DATA / "ionosphere.npz").exists(), reason="no data folder: set VIJAX_DATA")
def test_ionosphere_reference_numbers():
    """(log l, log sigma) = (1, 2.5), jitter 1e-2, logistic likelihood; beta = 2: an independent implementation's
    numbers (initial and optimal ELBO, log-loss in bits, errors; a gap of 1e-2 within 6 passes and 1e-3 within 9)."""
    data = np.load(DATA / "ionosphere.npz")

    def kernel(a, b):
        distance = jnp.sum(a**2, 1)[:, None] + jnp.sum(b**2, 1)[None] - 2 * a @ b.T
        return np.exp(5.0) * jnp.exp(-jnp.maximum(distance, 0.0) / (2 * np.exp(2.0)))

    best = -89.26565163
    with jax.enable_x64(True):
        lik = vi.likelihood.bernoulli_logit()
        model = vi.models.gp(data["X_train"], data["y_train"], kernel, lik, jitter=1e-2)
        alg = vi.pg_svi(model, step_size=vi.step_size.proximal(2.0))
        fit = vi.fit(alg, model.data, num_steps=30, key=jax.random.key(0))
        up = np.asarray(model.predictive(fit.posterior, data["X_test"], 1.0))
        final = float(model.elbo(fit.posterior))
    elbo, label = fit.trace["elbo"], data["y_test"]
    assert abs(elbo[0] + 1375.8447946) < 1e-4
    assert abs(final - best) < 1e-5
    assert abs(-np.mean(np.log2(np.where(label > 0, up, 1 - up))) - 0.417690) < 1e-4
    assert np.sum((up > 0.5) != (label > 0)) == 7
    assert np.all(np.diff(elbo) > -1e-9)
    gap = np.abs(elbo / best - 1)
    assert gap[6] < 1e-2
    assert gap[9] < 1e-3
