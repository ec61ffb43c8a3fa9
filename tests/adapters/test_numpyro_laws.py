"""The laws of NumPyro's distributions, against their own draws; and the hierarchy of a model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi

numpyro = pytest.importorskip("numpyro")
from numpyro import distributions as dist  # noqa: E402

from vijax.adapters.numpyro_laws import LAWS, read_law  # noqa: E402

SCALARS = {
    "Normal": dist.Normal(1.0, 2.0),
    "StudentT": dist.StudentT(7.0, 1.0, 2.0),
    "Laplace": dist.Laplace(1.0, 2.0),
    "Logistic": dist.Logistic(1.0, 2.0),
    "Gumbel": dist.Gumbel(1.0, 2.0),
    "LogNormal": dist.LogNormal(0.3, 0.7),
    "HalfNormal": dist.HalfNormal(2.0),
    "HalfCauchy": dist.HalfCauchy(2.0),
    "Exponential": dist.Exponential(3.0),
    "Gamma": dist.Gamma(3.0, 2.0),
    "InverseGamma": dist.InverseGamma(3.0, 2.0),
    "Weibull": dist.Weibull(2.0, 3.0),
    "Beta": dist.Beta(2.0, 3.0),
}
FULL = {
    "MultivariateNormal": dist.MultivariateNormal(jnp.ones(2), jnp.array([[2.0, 0.6], [0.6, 1.0]])),
    "GaussianRandomWalk": dist.GaussianRandomWalk(0.5, 3),
    "CAR": dist.CAR(0.0, 0.5, 2.0, jnp.array([[0.0, 1.0], [1.0, 0.0]])),
}


def test_every_law_has_a_case():
    assert {*SCALARS, *FULL, "Cauchy"} == set(LAWS)


@pytest.mark.parametrize("name", SCALARS)
def test_mean_and_sd_are_those_of_the_free_coordinates(name):
    fn = SCALARS[name]
    x = np.asarray(fn.sample(jax.random.key(0), (50_000,)), float)
    if name == "Beta":
        x = np.log(x / (1 - x))
    elif fn.support is not dist.constraints.real:
        x = np.log(x)
    law = read_law(fn, ())
    assert float(law.loc) == pytest.approx(x.mean(), abs=0.03 * x.std())
    assert float(law.scale) == pytest.approx(x.std(), rel=0.04)


@pytest.mark.parametrize("name", FULL)
def test_factors_are_those_of_the_covariance(name):
    fn = FULL[name]
    x = np.asarray(fn.sample(jax.random.key(0), (50_000,)), float)
    law = read_law(fn, fn.event_shape)
    scale = np.asarray(law.scale, float)
    np.testing.assert_allclose(np.asarray(law.loc), x.mean(0), atol=0.03)
    np.testing.assert_allclose(scale @ scale.T, np.cov(x.T), atol=0.06)


def story():
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spreads = numpyro.sample("spreads", dist.HalfNormal(1.0).expand([2]).to_event(1))
    with numpyro.plate("regions", 3):
        region = numpyro.sample("region", dist.Normal(mean, spreads[0]))
    with numpyro.plate("counties", 6):
        county = numpyro.sample("county", dist.Normal(region[jnp.arange(6) // 2], spreads[1]))
    factor = numpyro.sample("factor", dist.LKJCholesky(2, 1.0))
    with numpyro.plate("pairs", 4):
        numpyro.sample(
            "pair", dist.MultivariateNormal(jnp.zeros(2), scale_tril=spreads[:, None] * factor)
        )
    numpyro.sample("y", dist.Normal(county, 1.0), obs=jnp.arange(6.0))


def test_laws_given_others_are_read_off_the_model(monkeypatch):
    monkeypatch.setattr("vijax.adapters.numpyro_model.find_plan", lambda *_: None)
    own = vi.from_numpyro(story).log_density
    assert own.hierarchy.levels == (("pair", "region"), ("county",)) or own.hierarchy.levels == (
        ("region", "pair"),
        ("county",),
    )
    values = own.values_at(jnp.linspace(-1.0, 1.0, own.variables.dim))
    laws = {}

    def visit(name, law):
        laws[name] = law
        return values[name]

    own.hierarchy.walk(visit)
    assert laws["mean"] is None
    assert laws["spreads"] is None
    np.testing.assert_allclose(laws["county"].loc, values["region"][jnp.arange(6) // 2])
    np.testing.assert_allclose(laws["county"].scale, np.full(6, values["spreads"][1]))
    assert laws["pair"].scale.shape == (4, 2, 2)


def test_a_model_without_hierarchy_has_none():
    def plain():
        mean = numpyro.sample("mean", dist.Normal(0, 5))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=jnp.arange(6.0))

    assert vi.from_numpyro(plain).log_density.hierarchy is None
