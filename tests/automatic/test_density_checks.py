"""Densities that are none: an error that names the variables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi

KEY = jax.random.key(0)
SEVERAL = {"x": vi.free(), "y": vi.free(3)}
METHODS = {"auto": vi.auto, "dadvi": vi.dadvi}


def proper(v):
    return norm.logpdf(v["x"]) + norm.logpdf(v["y"]).sum()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("density", "said"),
    [
        (
            lambda v: proper(v) - jnp.inf,
            "log_density: expected one finite at any of eight random starts",
        ),
        (lambda v: norm.logpdf(v["y"]), r"expected one number, got an array of shape \(3,\)"),
        (lambda v: None, "log_density: expected one number, got None"),
        (
            lambda v: proper(v) + v["z"],
            r"a function of the variables \['x', 'y'\], got one that reads 'z'",
        ),
        (lambda v: proper(v) + v.x, r"got one that reads \.x\. Values have names: v\['x'\]"),
        (lambda v: jnp.round(proper(v)).astype(int), "expected a real number, got one of type int"),
        (
            lambda v: jnp.round(proper(v)),
            r"expected a gradient, got none in \['x', 'y'\].*vijax\.bbvi",
        ),
        (
            lambda v: proper(v) + jnp.floor(v["x"]) - proper({**v, "y": jnp.zeros(3)}),
            r"got none in \['x'\]",
        ),
        (
            lambda v: proper(v) + jnp.where(v["x"] > 1e9, jnp.sqrt(v["x"] - 1e9), 0.0),
            r"expected a finite gradient at any of the starts, got none in \['x'\]",
        ),
    ],
)
def test_what_is_no_density_is_refused(method, density, said):
    with pytest.raises(ValueError, match=said):
        METHODS[method](vi.density(SEVERAL, density), key=KEY)


def test_a_gradient_that_is_no_number_is_named_by_its_global():
    root = jax.custom_jvp(lambda x: x)
    root.defjvp(lambda x, dx: (x[0], jnp.nan * dx[0]))
    model = vi.model(
        prior=vi.Product(
            {
                "level": vi.Normal.from_mean_variance(0.0, 1.0),
                "rate": vi.Gamma.from_shape_rate(2.0, 1.0),
            }
        ),
        local_elbo=lambda s, y, key: (
            s["rate"].log - y * root(s["rate"].value) + s["level"].value,
            None,
        ),
    )
    with pytest.raises(vi.DivergedError, match="were skipped, in gradients of rate") as error:
        vi.fit(vi.cavi(model), np.ones(4), key=KEY, num_steps=20)
    assert set(error.value.fit.trace["bad_variable"].tolist()) == {1}
    assert error.value.fit.skipped_of == ["rate"]
