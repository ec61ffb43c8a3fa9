"""Families that are no densities are refused where they are handed in, with the constructor that
was meant; and the loss by rounding is counted in units of the law, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.families import InverseGamma, MultivariateNormal, Product, Wishart, construction
from vijax.families.construction import require_proper


@pytest.mark.parametrize(
    ("q", "meant"),
    [
        (
            vi.Normal(0.0, 1.0),
            r"Normal\(0\.0, 1\.0\)\. Did you mean Normal\.from_mean_variance\(0\.0, 1\.0\)\?",
        ),
        (vi.Gamma(2.0, 3.0), r"Did you mean Gamma\.from_shape_rate\(2\.0, 3\.0\)\?"),
        (InverseGamma(2.0, 3.0), r"Did you mean InverseGamma\.from_shape_scale\(2\.0, 3\.0\)\?"),
        (
            vi.Dirichlet([1.0, 1.0]),
            r"arrays, got .*Did you mean Dirichlet\.from_concentration\(\[1\.0, 1\.0\]\)\?",
        ),
        (vi.Beta(-1.0, 2.0), r"Did you mean Beta\.from_alpha_beta\(-1\.0, 2\.0\)\?"),
        (
            MultivariateNormal(np.zeros(3), np.eye(3)),
            r"from_mean_precision\(mean, precision\) or MultivariateNormal\.from_mean_cov\(mean, "
            r"cov\)\?",
        ),
        (Wishart(np.eye(2), 3.0), r"Did you mean Wishart\.from_degrees_scale\("),
        (
            vi.Normal(np.zeros(2), np.array([-1.0, np.nan])),
            r"Did you mean Normal\.from_mean_variance",
        ),
    ],
)
def test_the_constructor_that_was_meant_is_shown(q, meant):
    with pytest.raises(ValueError, match=r"^prior: expected natural parameters .*" + meant):
        require_proper("prior", q)


def test_what_is_proper_or_traced_passes():
    require_proper("prior", vi.Normal(0.0, -0.5))
    require_proper("prior", {"a": vi.Gamma.from_shape_rate(2.0, 3.0)})
    jax.eval_shape(lambda x: require_proper("prior", vi.Normal(x, x)), 1.0)
    one = vi.Normal.from_mean_variance(0.0, 1.0)
    jax.eval_shape(lambda x: require_proper("prior", {"a": one, "b": vi.Normal(x, x)}), 1.0)


def test_priors_and_templates_are_checked_where_they_are_given():
    coin = lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None)
    with pytest.raises(ValueError, match=naming("prior['bias']:", "Beta.from_alpha_beta", "-1.0")):
        vi.model({"bias": vi.Beta(-1.0, 1.0)}, coin)
    with pytest.raises(ValueError, match=r"^prior\['a'\]: .*from_mean_variance"):
        vi.model(Product({"a": vi.Normal(jnp.array(0.0), jnp.array(1.0))}), coin)
    with pytest.raises(ValueError, match=naming("prior['w']:", "from_concentration")):
        vi.model({"w": vi.Dirichlet([1.0, 1.0])}, coin)
    with pytest.raises(ValueError, match=naming("globals['w']:", "from_concentration")):
        vi.energy_model(
            globals={"w": vi.Dirichlet([1.0, 1.0])}, energy=lambda s, y: s["w"].log[0], example=0.0
        )
    with pytest.raises(ValueError, match=r"^template: .*from_mean_variance"):
        vi.conditional(vi.Normal(0.0, 1.0))
    with pytest.raises(ValueError, match=naming("prior:", "Beta")):
        vi.model(vi.Beta.from_alpha_beta(1.0, 1.0), coin)


def test_the_loss_of_a_mean_is_counted_in_standard_deviations():
    """sqrt(d' P d) of an error d of the mean, whatever the correlations; P d is what the location
    is off by."""
    precision, error = np.array([[4.0, -3.8], [-3.8, 9.0]]), np.array([0.3, -0.1])
    mean = np.array([1.0, 2.0])
    lost = construction.mean_error(precision @ (mean + error), precision, mean)
    np.testing.assert_allclose(lost, np.sqrt(error @ precision @ error), rtol=1e-12)
