"""Fits as ArviZ keeps them."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.fitting.to_arviz import load

KEY, DRAWS = jax.random.key(0), jax.random.key(1)
Y = np.array([0.5, -1.0, 2.5], np.float32)


@pytest.fixture(scope="module", autouse=True)
def arviz():
    """Loaded by the one test process that comes to these tests."""
    with contextlib.suppress(ImportError):
        load()
    return pytest.importorskip("arviz")


def values(tree, group="posterior"):
    return {str(name): np.asarray(x, np.float64) for name, x in tree[group].data_vars.items()}


def test_log_densities_of_the_draws_are_scipys():
    """Gamma(3) by a normal in log x: log p has the Jacobian, log q is normal; both of the free
    coordinate."""
    model = vi.density({"x": vi.free(support="positive")}, lambda v: 2 * jnp.log(v["x"]) - v["x"])
    fit = vi.auto(model, key=KEY)
    tree = fit.to_arviz(DRAWS, 400)
    x, said = values(tree)["x"], values(tree, "sample_stats")
    assert x.shape == (1, 400)
    np.testing.assert_allclose(said["lp"], 3 * np.log(x) - x, rtol=1e-4, atol=1e-4)
    frame = fit.state.hyper["frame"]
    q = stats.norm(float(frame.shift[0]), float(frame.scale[0, 0]))
    np.testing.assert_allclose(said["lq"], q.logpdf(np.log(x)), rtol=1e-3, atol=1e-3)
    mean, error = np.mean(said["lp"] - said["lq"]), np.std(said["lp"] - said["lq"]) / 20
    assert mean == pytest.approx(fit.elbo.value, abs=4 * error)


def test_attributes_name_library_algorithm_and_verdict():
    fit = vi.auto(vi.density({"x": vi.free(2)}, lambda v: -jnp.sum(v["x"] ** 2)), key=KEY)
    said = fit.to_arviz(DRAWS, 10)["posterior"].attrs
    assert said["inference_library"] == "vijax"
    assert said["inference_library_version"] == vi.__version__
    assert said["algorithm"] == "ngvi"
    assert said["verdict"] == fit.verdict
    assert said["elbo"] == fit.elbo.value


def test_a_density_with_data_has_lp_where_they_are_given():
    """Independent coordinates, whose log densities add up."""
    model = vi.density(
        {"m": vi.free(), "b": vi.free()},
        log_prior=lambda v: norm.logpdf(v["m"]) + norm.logpdf(v["b"]),
        log_lik=lambda v, y: norm.logpdf(y, v["m"], 1.0),
        guide=vi.guides.mean_field(),
    )
    fit = vi.fit(vi.ngvi(model), Y, num_steps=50, key=KEY)
    assert set(values(fit.to_arviz(DRAWS, 20), "sample_stats")) == {"lq"}
    tree = fit.to_arviz(DRAWS, 20, data=Y)
    drawn, said = values(tree), values(tree, "sample_stats")
    x = np.stack([drawn["b"], drawn["m"]], -1)
    exact = stats.norm.logpdf(x).sum(-1) + stats.norm.logpdf(Y, drawn["m"][..., None]).sum(-1)
    np.testing.assert_allclose(said["lp"], exact, rtol=1e-4)
    q = fit.posterior["free"]
    exact = stats.norm.logpdf(x, np.asarray(q.mean()), np.sqrt(np.asarray(q.variance()))).sum(-1)
    np.testing.assert_allclose(said["lq"], exact, rtol=1e-3, atol=1e-3)


def test_a_conjugate_fit_has_its_draws():
    y = np.concatenate(
        [np.random.default_rng(0).normal(m, 1.0, (20, 1)) for m in (-4.0, 4.0)]
    ).astype(np.float32)
    fit = vi.fit(
        vi.cavi(vi.models.mixture(vi.models.emission.full_gaussian(2, 1))), y, num_steps=10, key=KEY
    )
    tree = fit.to_arviz(DRAWS, 200)
    drawn, plain = values(tree), fit.sample(DRAWS, 200)
    np.testing.assert_allclose(drawn["weights"][0], plain["weights"], rtol=1e-6)
    parts = {name: x.shape for name, x in drawn.items() if name.startswith("components.")}
    assert len(parts) >= 2
    assert all(shape[:3] == (1, 200, 2) for shape in parts.values())
    with pytest.raises(ValueError, match=naming("data:", "None")):
        fit.to_arviz(DRAWS, 10, data=y)
    with pytest.raises(ValueError, match="num_draws: expected an integer >= 1"):
        fit.to_arviz(DRAWS, 0)


def test_replicated_data_stand_beside_the_data():
    from vijax.models import emission

    fit = vi.fit(
        vi.cavi(vi.models.mixture(emission.unit_gaussian(1, 1))), Y[:, None], num_steps=2, key=KEY
    )
    tree = fit.to_arviz(DRAWS, 20, predictive_of=Y[:, None])
    assert values(tree, "posterior_predictive")["y"].shape == (1, 20, 3, 1)
    np.testing.assert_array_equal(values(tree, "observed_data")["y"], Y[:, None])
    assert values(tree)["components"].shape == (1, 20, 1, 1)
