"""Posteriors whose halves mirror each other: both are fitted, whatever a rough bound at a mode
says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi


@pytest.mark.parametrize("seed", [0, 2])
def test_a_product_has_two_signs(seed):
    """a and b of a b = 3 are both positive or both negative. The halves are bent, so that the
    normal with the curvature at a mode has a bound far below the fitted one: the other half was
    passed over, and means could be used."""

    def log_density(v):
        prior = norm.logpdf(v["a"], 0, 2) + norm.logpdf(v["b"], 0, 2)
        return prior + 20 * norm.logpdf(3.0, v["a"] * v["b"], 1)

    fit = vi.auto(
        vi.density({"a": vi.free(), "b": vi.free()}, log_density), key=jax.random.key(seed)
    )
    a = np.asarray(fit.sample(jax.random.key(1), 20_000)["a"], float)
    assert 0.35 < np.mean(a > 0) < 0.65
    assert a.std() == pytest.approx(2.155, rel=0.1)
    assert jnp.all(jnp.isfinite(fit.elbo.value))


def test_without_a_mixture_the_other_half_is_told():
    model = vi.density(
        {"a": vi.free(), "b": vi.free()},
        lambda v: (
            norm.logpdf(v["a"], 0, 2)
            + norm.logpdf(v["b"], 0, 2)
            + 20 * norm.logpdf(3.0, v["a"] * v["b"], 1)
        ),
    )
    fit = vi.auto(model, key=jax.random.key(0), richer=False)
    assert fit.report.others.others == 1
    assert "The starts found another mode of similar weight" in fit.verdict
