"""Parts of a posterior about one place that have other widths: found, fitted, and never passed
over."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi

KEY = jax.random.key(0)
NARROW = 0.02


def spike_in_slab(dim: int):
    """Half of the mass is 50 times as wide as the other half."""

    def log_density(v):
        return jnp.logaddexp(norm.logpdf(v["x"], 0, NARROW).sum(), norm.logpdf(v["x"]).sum())

    return vi.density({"x": vi.free(dim)}, log_density)


@pytest.mark.parametrize("dim", [5, 10])
def test_a_spike_in_a_slab_is_fitted_as_both(dim):
    """The search for a mode ends in the spike, and no draw of q reaches the slab: sds were 36 times
    too small, and could be used."""
    fit = vi.auto(spike_in_slab(dim), key=KEY)
    x = np.asarray(fit.sample(jax.random.key(1), 20_000)["x"], float)
    np.testing.assert_allclose(x.std(0), np.sqrt((1 + NARROW**2) / 2), rtol=0.05)
    assert fit.elbo.value == pytest.approx(np.log(2), abs=0.01)
    assert not fit.report.others.widths
    assert "means and sds can be used" in fit.verdict


def test_without_a_mixture_the_part_is_told():
    fit = vi.auto(spike_in_slab(10), key=KEY, richer=False)
    ((name, times),) = fit.report.others.widths
    assert name == ""
    assert times == pytest.approx(50, rel=0.3)
    assert fit.report.others.share_of_widths == pytest.approx(0.5, abs=0.1)
    assert "% of the posterior, by the bounds, is some" in fit.verdict
    assert "means and sds can be used for that part alone" in fit.verdict


def test_variables_that_each_have_two_widths_are_told():
    """Of 32 combinations one normal has one: along single variables it is narrower."""
    model = vi.density(
        {"x": vi.free(5)},
        lambda v: jnp.logaddexp(norm.logpdf(v["x"], 0, NARROW), norm.logpdf(v["x"])).sum(),
    )
    fit = vi.auto(model, key=KEY, richer=False)
    named = [name for name, _ in fit.report.others.widths]
    assert any(name.startswith("x[") for name in named)
    assert "which q does not describe" in fit.verdict
    assert "means and sds can be used." not in fit.verdict


@pytest.mark.parametrize("kind", ["normal", "student", "laplace", "logistic"])
def test_of_one_width_there_is_one(kind):
    factor = np.random.default_rng(0).normal(size=(4, 4))
    log_densities = {
        "normal": lambda x: -0.5 * jnp.sum((factor @ x) ** 2),
        "student": lambda x: -2 * jnp.log1p(x**2 / 3).sum(),
        "laplace": lambda x: -jnp.sqrt(x**2 + 1e-4).sum(),
        "logistic": lambda x: -jax.nn.softplus(x).sum() - jax.nn.softplus(-3 * x).sum(),
    }
    log_density = log_densities[kind]
    fit = vi.auto(
        vi.density({"x": vi.free(4)}, lambda v: log_density(v["x"])), key=KEY, richer=False
    )
    assert not fit.report.others.widths
