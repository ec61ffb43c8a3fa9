"""Kernels by name, and the published setting on the Ionosphere data (skipped where the data folder
is missing)."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from tests.programs import compiled, names_since
from vijax.models.regressions.kernels import find_kernel

DATA = Path(os.environ.get("VIJAX_DATA", Path(__file__).parents[3].parent / "shared" / "data"))


def test_named_kernels_are_tinygps_with_ard():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 2)), np.array([1, -1, 1, 1, -1])
    with jax.enable_x64(True):
        hyper = {"scale": 2.0, "length": jnp.array([0.5, 3.0])}
        model = vi.models.gp(x, y, "rbf", vi.likelihood.bernoulli_logit(), hyper=hyper)
        factor = model.posterior(vi.sites.Sites.zeros(5)).prior.features
        gap = (x[:, None] - x[None]) / np.array([0.5, 3.0])
        np.testing.assert_allclose(
            factor @ factor.T, 4 * np.exp(-0.5 * np.sum(gap**2, -1)) + 1e-6 * np.eye(5)
        )
        for name in ("matern12", "matern32", "matern52", "linear"):
            other = vi.models.gp(x, y, name, vi.likelihood.bernoulli_logit(), jitter=1e-3)
            assert np.isfinite(other.elbo(vi.sites.Sites.zeros(5)))
        slope = jax.grad(lambda h: model.elbo(vi.sites.Sites.zeros(5), h))(model.hyper)
        assert slope["length"].shape == (2,)
        assert np.all(np.isfinite(slope["length"]))


@pytest.mark.parametrize(("name", "nu"), [("matern12", 0.5), ("matern32", 1.5), ("matern52", 2.5)])
def test_matern_kernels_of_several_columns_are_of_the_euclidean_distance(name, nu):
    from sklearn.gaussian_process.kernels import Matern

    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    matrix = lambda h: find_kernel(name)({"scale": 1.0, "length": h})(x, x)
    found = jax.jit(matrix)(1.3)
    np.testing.assert_allclose(found, Matern(1.3, nu=nu)(x), atol=1e-5)
    slope = jax.jit(jax.grad(lambda h: matrix(h).sum()))(1.3)
    assert np.isfinite(slope)


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


def rbf(a, b):
    return jnp.exp(-0.5 * (a[:, None] - b[None, :]) ** 2)


def test_inducing_inputs_at_every_input_are_the_exact_process():
    x, y = np.linspace(0.0, 3.0, 7), np.array([-1, -1, 1, -1, 1, 1, 1])
    lik, new = vi.likelihood.bernoulli_logit(), np.array([-1.0, 0.7, 5.0])
    with jax.enable_x64(True):
        exact = vi.models.gp(x, y, rbf, lik, jitter=1e-9)
        sparse = vi.models.gp(x, y, rbf, lik, jitter=1e-9, inducing=x)
        fits = [
            vi.fit(vi.pg_svi(m), m.data, num_steps=30, key=jax.random.key(0))
            for m in (exact, sparse)
        ]
        for a, b in zip(
            *(m.predict(f.posterior, new) for m, f in zip((exact, sparse), fits, strict=True)),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, atol=1e-6)
        np.testing.assert_allclose(fits[0].trace["elbo"], fits[1].trace["elbo"], atol=1e-6)
        sites, cross = fits[0].posterior["z"], np.asarray(rbf(new, x))
        # The textbook's: pseudo-observations a / g of variance 1 / g.
        pull = np.linalg.solve(rbf(x, x) + np.diag(1 / sites.precision), cross.T)
        mean, variance = exact.predict(sites, new)
        np.testing.assert_allclose(mean, pull.T @ (sites.linear / sites.precision), atol=1e-6)
        np.testing.assert_allclose(variance, 1 - np.sum(cross.T * pull, axis=0), atol=1e-6)


def test_twenty_thousand_inputs_in_memory_linear_in_them():
    """A step with 50 inducing inputs takes some N x M arrays; an N x N one would be 400 times one
    of them."""
    n, m = 20_000, 50
    x = np.linspace(0.0, 30.0, n).astype(np.float32)
    y = np.where(np.sin(x) > 0, 1, -1)
    model = vi.models.gp(
        x, y, rbf, vi.likelihood.bernoulli_logit(), jitter=1e-3, inducing=np.linspace(0, 30, m)
    )
    alg = vi.pg_svi(
        model, step_size=vi.step_size.constant(0.5), expectation=vi.expectation.gauss_hermite(20)
    )
    state = alg.init(jax.random.key(0))
    compiled = (
        jax.jit(lambda s, data: alg.step(jax.random.key(0), s, data))
        .lower(state, model.data)
        .compile()
    )
    assert compiled.memory_analysis().temp_size_in_bytes < 20 * n * m * 4
    for _ in range(8):
        state, info = compiled(state, model.data)
    assert bool(jnp.isfinite(info.elbo))
    up = np.asarray(model.predictive(state.posterior, np.array([1.5, 4.5, 7.8]), 1))
    assert np.all((up > 0.8) == [True, False, True])


def test_a_kernel_larger_than_memory_is_an_error_before_it_is_made(monkeypatch):
    from vijax.models.regressions import gaussian_process

    monkeypatch.setattr(gaussian_process, "total_memory", lambda: 1e9)
    x = np.zeros(20_000, np.float32)
    never = lambda a, b: pytest.fail("the kernel was evaluated")
    with pytest.raises(ValueError, match=naming("x:", "1 GB", "20000", "11.2 GB")):
        vi.models.gp(x, np.ones(20_000), never, vi.likelihood.bernoulli_logit())
    with pytest.raises(ValueError, match=naming("form:", "'whitened'")):
        vi.models.gp(
            x, np.ones(20_000), rbf, vi.likelihood.bernoulli_logit(), form="kernel", inducing=x[:5]
        )


@pytest.mark.skipif(not (DATA / "ionosphere.npz").exists(), reason="no data folder: set VIJAX_DATA")
def test_ionosphere_reference_numbers():
    """(log l, log sigma) = (1, 2.5), jitter 1e-2, logistic likelihood; beta = 2: an independent
    implementation's numbers (initial and optimal ELBO, log-loss in bits, errors; a gap of 1e-2
    within 6 passes and 1e-3 within 9)."""
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


def test_a_likelihood_of_hyperparameters_may_bind_others_by_defaults():
    """A second parameter with a default made a log_lik(y, z) of it."""
    x, y = np.linspace(0.0, 1.0, 5), np.linspace(-1.0, 1.0, 5)
    own = lambda hyper, scale=2.0: vi.likelihood.gaussian(scale * hyper["noise"])
    model = vi.models.gp(x, y, lambda hyper: rbf, own, hyper={"noise": 0.5}, jitter=1e-4)
    assert model.likelihood({"noise": jnp.array(0.5)}, {}).name == "gaussian"


def close_inputs():
    rng = np.random.default_rng(0)
    x, new = (rng.normal(size=(n, 2)).astype(np.float32) for n in (400, 20))
    return x, np.where(x[:, 0] + 0.5 * rng.normal(size=400) > 0, 1, -1), new


@pytest.mark.parametrize(
    ("jitter", "form"), [(1e-4, "whitened"), (1e-6, "whitened"), (1e-4, "kernel")]
)
def test_a_kernel_within_the_rounding_of_float32_is_factorised_in_float64(jitter, form):
    """Of 400 close inputs the least eigenvalue is the jitter, beside a largest of 2,600; float32
    alone has no factor. Predictions from given sites are the textbook's in float64."""
    (x, y, new), lik = close_inputs(), vi.likelihood.bernoulli_logit()
    model = vi.models.gp(
        x, y, "rbf", lik, hyper={"scale": 3.0, "length": 2.0}, jitter=jitter, form=form
    )
    sites = vi.sites.Sites(jnp.asarray(0.4 * y, jnp.float32), jnp.full(400, 0.2, jnp.float32))
    kernel = lambda a, b: 9.0 * np.exp(-np.sum((a[:, None].astype(float) - b[None]) ** 2, -1) / 8.0)
    pull = np.linalg.solve(kernel(x, x) + (jitter + 1 / 0.2) * np.eye(400), kernel(x, new))
    mean, variance = model.predict(sites, new)
    assert mean.dtype == jnp.float32
    np.testing.assert_allclose(mean, pull.T @ (0.4 * y / 0.2), atol=3e-4)
    np.testing.assert_allclose(variance, 9.0 - np.sum(kernel(x, new) * pull, 0), atol=3e-4)


def test_a_kernel_whose_factor_fails_in_float32_is_factorised_in_float64():
    """Its least eigenvalue, 2.7e-5, is beyond the rounding of its entries, 2.0e-5, but not that of
    a factorisation, as its largest is 2,100: the check passed, and every step was skipped."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 5)).astype(np.float32)
    y = np.where(np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] > 0, 1, -1)
    hyper = {"scale": np.float32(np.e), "length": np.float32(np.e)}
    model = vi.models.gp(x, y, "rbf", vi.likelihood.bernoulli_logit(), hyper=hyper, jitter=3e-5)
    sites = vi.sites.Sites(jnp.asarray(0.4 * y, jnp.float32), jnp.full(500, 0.2, jnp.float32))
    kernel = lambda a, b: (
        np.e**2 * np.exp(-np.sum((a[:, None].astype(float) - b[None]) ** 2, -1) / (2 * np.e**2))
    )
    new = rng.normal(size=(20, 5)).astype(np.float32)
    pull = np.linalg.solve(kernel(x, x) + (3e-5 + 1 / 0.2) * np.eye(500), kernel(x, new))
    mean, variance = model.predict(sites, new)
    np.testing.assert_allclose(mean, pull.T @ (0.4 * y / 0.2), atol=3e-4)
    np.testing.assert_allclose(variance, np.e**2 - np.sum(kernel(x, new) * pull, 0), atol=3e-4)


def test_hyperparameters_are_learnt_through_a_factor_in_float64():
    x, y, _ = close_inputs()
    slopes = []
    for is_double in (False, True):
        with jax.enable_x64(is_double):
            inputs = x.astype(np.float64 if is_double else np.float32)
            hyper, lik = {"scale": 3.0, "length": 2.0}, vi.likelihood.bernoulli_logit()
            model = vi.models.gp(inputs, y, "rbf", lik, hyper=hyper, jitter=1e-6)
            sites = vi.sites.Sites(
                jnp.asarray(0.4 * y, inputs.dtype), jnp.full(400, 0.2, inputs.dtype)
            )
            slopes.append(jax.jit(jax.grad(lambda h, m=model, s=sites: m.elbo(s, h)))(model.hyper))
    for name in ("scale", "length"):
        assert slopes[0][name].dtype == jnp.float32
        assert float(slopes[0][name]) == pytest.approx(float(slopes[1][name]), rel=1e-3)


def test_a_kernel_that_is_singular_in_float64_too_is_refused():
    x = np.zeros((3, 1))
    expected = "kernel: expected a matrix positive definite in float64, .* Add jitter."
    with pytest.raises(ValueError, match=expected):
        vi.models.gp(
            x, np.ones(3), lambda a, b: a @ b.T - 1.0, vi.likelihood.bernoulli_logit(), jitter=0.0
        )


def test_a_prediction_is_one_program():
    """104 programs once, two seconds of compilation; and none for other inputs of that shape."""
    x, y = np.linspace(0.0, 3.0, 11), np.where(np.arange(11) % 4 > 1, 1, -1)
    model = vi.models.gp(
        x, y, "rbf", vi.likelihood.bernoulli_logit(), hyper={"scale": 1.5}, jitter=1e-4
    )
    q = jax.jit(vi.pg_svi(model).init)(jax.random.key(0)).posterior
    before = compiled()
    first = model.predictive(q, np.linspace(0.5, 2.5, 6), 1)
    assert [name for name in names_since(before) if name != "_nothing"] == ["densities"]
    before = compiled()
    model.predictive(q, np.linspace(0.0, 2.0, 6), -1)
    assert names_since(before) == []
    np.testing.assert_allclose(first, 0.5, atol=1e-6)  # of the prior
