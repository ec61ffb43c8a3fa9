"""PyMC models: their densities against PyMC's own, posteriors, batches, errors. PyMC is large, and
in the extra `pymc` alone: without it these tests are skipped."""

import os
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming

pymc = pytest.importorskip("pymc", reason="needs PyMC: pip install pymc")

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X @ [1.0, -1.0] + 0.5 * RNG.normal(size=40)
SIGNS = (Y > 0).astype(int)
EFFECTS, ERRORS = (
    np.array([28.0, 8, -3, 7, -1, 1, 18, 12]),
    np.array([15.0, 10, 16, 11, 9, 11, 10, 18]),
)


def regression():
    data = pymc.Data("x", X)
    w, sd = pymc.Normal("w", 0, 1, dims="column"), pymc.HalfNormal("sd", 1)
    pymc.Deterministic("doubled", 2 * sd)
    pymc.Normal("y", data @ w, sd, observed=Y)


def schools():
    mu, tau = pymc.Normal("mu", 0, 5), pymc.HalfCauchy("tau", 5)
    z = pymc.Normal("z", shape=8)
    pymc.Normal("y", pymc.Deterministic("theta", mu + tau * z), ERRORS, observed=EFFECTS)


def logistic():
    w = pymc.StudentT("w", 3, mu=0, sigma=2, shape=2)
    pymc.Bernoulli("y", logit_p=X @ w, observed=SIGNS)


def mixture():
    p = pymc.Dirichlet("p", np.ones(2))
    means = pymc.Normal(
        "means", 0, 5, shape=2, transform=pymc.distributions.transforms.ordered, initval=[-1.0, 1.0]
    )
    pymc.NormalMixture("y", p, means, 1.0, observed=Y)


def volatility():
    step, nu = pymc.Exponential("step", 10.0), pymc.Exponential("nu", 0.1)
    walk = pymc.GaussianRandomWalk("walk", sigma=step, init_dist=pymc.Normal.dist(0, 1), shape=40)
    pymc.StudentT("y", nu, lam=pymc.math.exp(-2 * walk), observed=Y)


def covariances():
    cholesky, *_ = pymc.LKJCholeskyCov("cov", 2, 2, sd_dist=pymc.Exponential.dist(1.0))
    mean = pymc.Uniform("mean", -3, 3, shape=2)
    pymc.MvNormal("y", mean, chol=cholesky, observed=X)
    pymc.Potential("pull", -pymc.math.sum(mean**2))


GALLERY = [regression, schools, logistic, mixture, volatility, covariances]


def built(of):
    with pymc.Model(coords={"column": ["first", "second"]}) as model:
        of()
    return model


@pytest.mark.parametrize("of", GALLERY)
def test_densities_and_values_are_those_of_pymc(of):
    model = built(of)
    with jax.enable_x64(True):
        ours = vi.from_pymc(model).log_density
    theirs, values = model.compile_logp(), model.compile_fn(model.unobserved_value_vars)
    prior = model.compile_logp(vars=model.free_RVs)
    names = [x.name for x in model.unobserved_value_vars]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        point = {name: rng.normal(size=np.shape(x)) for name, x in model.initial_point().items()}
        with jax.enable_x64(True):
            given = {name: jnp.asarray(x) for name, x in point.items()}
            assert float(ours.log_prior(given)) == pytest.approx(float(theirs(point)), rel=1e-6)
            assert float(ours.prior_part(given)) == pytest.approx(float(prior(point)), rel=1e-6)
            slopes = jax.jit(jax.grad(ours.log_prior))(given)
            derived = given if ours.derived is None else {**given, **ours.derived(given)}
        order = [value.name for value in model.value_vars]
        ravelled = np.concatenate([np.ravel(slopes[name]) for name in order])
        np.testing.assert_allclose(ravelled, model.compile_dlogp()(point), rtol=1e-6, atol=1e-8)
        assert sorted(derived) == sorted(names)
        for name, value in zip(names, values(point), strict=True):
            np.testing.assert_allclose(derived[name], value, rtol=1e-9, atol=1e-12)


def test_nothing_of_the_process_is_changed():
    flags, precise = os.environ.get("XLA_FLAGS"), jax.config.jax_enable_x64
    vi.from_pymc(built(regression))
    assert (os.environ.get("XLA_FLAGS"), jax.config.jax_enable_x64) == (flags, precise)


def test_draws_are_inference_data_with_the_names_of_the_model():
    model = built(regression)
    fit = vi.auto(vi.from_pymc(model), key=KEY, richer=False)
    trace = vi.adapters.to_inference_data(fit, model, KEY, 500)
    posterior = trace.posterior
    assert posterior.w.dims == ("chain", "draw", "column")
    assert list(posterior.coords["column"].values) == ["first", "second"]
    assert set(posterior.data_vars) == {"w", "sd", "doubled"}
    np.testing.assert_allclose(posterior.w.values.mean((0, 1)), np.linalg.lstsq(X, Y)[0], atol=0.1)
    replicated = pymc.sample_posterior_predictive(
        trace, model=model, progressbar=False, random_seed=0
    )
    y = replicated.posterior_predictive.y.values
    assert y.shape == (1, 500, 40)
    np.testing.assert_allclose(y.mean((0, 1)), X @ np.linalg.lstsq(X, Y)[0], atol=0.15)


def batched(batch_size=10):
    x, y = pymc.Minibatch(X, Y, batch_size=batch_size)
    w, sd = pymc.Normal("w", 0, 1, shape=2), pymc.HalfNormal("sd", 1)
    pymc.Normal("y", x @ w, sd, observed=y, total_size=40)


def test_a_minibatch_is_dealt_by_vijax_and_all_rows_are_the_whole_density():
    whole, parts = built(regression), vi.from_pymc(built(batched))
    point = {"w": jnp.array([0.5, -0.2]), "sd_log__": jnp.array(0.3)}
    of = parts.log_density
    rows = sum(float(of.log_lik(point, (x, y))) for x, y in zip(X, Y, strict=True))
    assert rows + float(of.log_prior(point)) == pytest.approx(
        float(whole.compile_logp()(point)), rel=1e-5
    )
    fit = vi.fit(vi.ngvi(parts), key=KEY, num_steps=400, batch_size=10)
    w = fit.sample(KEY, 500)["w"].mean(0)
    np.testing.assert_allclose(w, np.linalg.lstsq(X, Y)[0], atol=0.15)


def test_what_cannot_be_a_density_of_free_variables_is_refused_by_name():
    with pymc.Model() as counts:
        pymc.Normal("y", pymc.Poisson("n", 3.0), 1.0, observed=Y)
    with pytest.raises(ValueError, match=r"expected a continuous unknown, .*discrete ones alone"):
        vi.from_pymc(counts)
    with pymc.Model() as simulated:
        mean = pymc.Normal("mean", 0, 1)
        pymc.Simulator("s", lambda rng, mean, size: rng.normal(mean, size=size), mean, observed=Y)
    with pytest.raises(ValueError, match=naming("variable 's':", "variable")):
        vi.from_pymc(simulated)
    with pymc.Model() as seen:
        pymc.Normal("y", 0.0, 1.0, observed=Y)
    with pytest.raises(ValueError, match=naming("model:", "unknown")):
        vi.from_pymc(seen)
    with pytest.raises(ValueError, match=naming("model:", "pymc.Model")):
        vi.from_pymc(regression)
    with pymc.Model() as two:
        w = pymc.Normal("w", 0, 1, shape=2)
        x, y = pymc.Minibatch(X, batch_size=4), pymc.Minibatch(Y, batch_size=4)
        pymc.Normal("y", x @ w, 1.0, observed=y, total_size=40)
    with pytest.raises(
        ValueError,
        match=naming("model:", "pymc.Minibatch", "2"),
    ):
        vi.from_pymc(two)


def test_an_operation_without_a_translation_is_named():
    ops = pytest.importorskip("pytensor.compile.ops")
    tensor = pytest.importorskip("pytensor.tensor")

    def square(x):
        return np.asarray(x**2)

    with warnings.catch_warnings(action="ignore"):  # it has another name in later versions
        square = ops.as_op(itypes=[tensor.dscalar], otypes=[tensor.dscalar])(square)
    with pymc.Model() as model:
        pymc.Normal("y", square(pymc.Normal("mean", 0, 1)), 1.0, observed=Y)
    with pytest.raises(ValueError, match=naming("JAX", "FromFunctionOp", "square")):
        vi.from_pymc(model)


def hazards():
    """Cox's partial likelihood: those who are not at risk have minus infinity."""
    times = np.arange(40.0)[::-1]
    is_at_risk = times >= times[:, None]
    w = pymc.Normal("w", 0, 1, shape=2)
    tensor = pytest.importorskip("pytensor.tensor")
    totals = tensor.log(tensor.sum(tensor.switch(is_at_risk, tensor.exp(X @ w), 0.0), axis=1))
    beyond = tensor.logsumexp(tensor.switch(is_at_risk, X @ w, -np.inf), axis=1)
    pymc.Potential("partial", tensor.sum(X @ w - 0.5 * totals - 0.5 * beyond))


def test_slopes_are_those_of_pytensor():
    """Against differences, where a sum has infinite terms."""
    with jax.enable_x64(True):
        log_density = vi.from_pymc(built(hazards)).log_density.log_prior
        at = jnp.array([0.1, -0.3])
        slope = jax.grad(lambda w: log_density({"w": w}))(at)
        step = 1e-5 * jnp.eye(2)
        differences = [
            (log_density({"w": at + h}) - log_density({"w": at - h})) / 2e-5 for h in step
        ]
    np.testing.assert_allclose(slope, differences, rtol=1e-6)


def test_shapes_by_data_are_taken_as_they_are():
    with pymc.Model() as model:
        data = pymc.Data("data", Y)
        x = pymc.Normal("x", 0, 1, shape=data.shape[0])
        pymc.Normal("y", x, 1.0, observed=data)
    assert vi.from_pymc(model).log_density.variables.dim == 40


# --- discrete variables ---------------------------------------------------------------------------
def classes():
    share = pymc.Beta("share", 2, 3)
    means = pymc.Normal("means", 0, 2, shape=2)
    z = pymc.Bernoulli("z", share, shape=40)
    pymc.Normal("y", pymc.math.switch(z, means[1], means[0]), 1.0, observed=Y)


def test_discrete_variables_are_summed_out_and_told():
    pytest.importorskip("pymc_extras", reason="needs pymc_extras: pip install pymc-extras")
    norm, beta = jax.scipy.stats.norm.logpdf, jax.scipy.stats.beta.logpdf

    def by_hand(v):
        share = jax.nn.sigmoid(v["share_logodds__"])
        log_liks = norm(Y[:, None], v["means"], 1.0) + jnp.log(jnp.stack([1 - share, share]))
        log_prior = norm(v["means"], 0, 2).sum() + beta(share, 2, 3)
        return (
            jax.scipy.special.logsumexp(log_liks, 1).sum()
            + log_prior
            + jnp.log(share * (1 - share))
        )

    with jax.enable_x64(True):
        model = vi.from_pymc(built(classes))
        at = {"share_logodds__": jnp.array(0.4), "means": jnp.array([-0.6, 0.9])}
        ours = jax.value_and_grad(model.log_density.log_prior)(at)
        exact = jax.value_and_grad(by_hand)(at)
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8)
    assert "Summed out: 'z'; pymc_extras.recover_marginals" in model.queries["summed out"]
    with pymc.Model() as counts:
        n = pymc.Poisson("n", 3.0)
        pymc.Normal("y", n * pymc.Normal("mean", 0, 1), 1.0, observed=Y)
    with pytest.raises(ValueError, match=r"discrete variable 'n': expected one that can be summed"):
        vi.from_pymc(counts)


def test_without_pymc_extras_the_error_says_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc_extras", None)
    with pytest.raises(ImportError, match=naming("variable 'z':", "-extras")):
        vi.from_pymc(built(classes))


def test_no_advice_is_given_on_what_a_model_of_pymc_has_not():
    with pymc.Model() as model:
        x = pymc.Normal("x", 0, 1)
        pymc.Potential("never", pymc.math.switch(x > 0.5, 0.0, -np.inf))
    fit = vi.auto(vi.from_pymc(model), key=KEY, num_starts=4, richer=False)
    assert "in PyMC whose supports" in fit.verdict
    assert "vijax.free" not in fit.verdict
