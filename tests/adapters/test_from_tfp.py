"""Joint distributions of TensorFlow Probability as models: their densities, supports, posteriors
and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.naming import naming
from tests.optional import tfp_adapter
from vijax import constrain
from vijax.adapters.tfp_joint import support

tfp = tfp_adapter()
tfd, tfb = tfp.tfd, tfp.tfp.bijectors

pytestmark = pytest.mark.filterwarnings("ignore")
KEY = jax.random.key(0)
Y = np.array([0.5, -1.0, 2.5], np.float32)


def transformed(base, *bijectors):
    return tfd.TransformedDistribution(base, tfb.Chain(list(bijectors)))


def likelihood(scale, mean):
    return tfd.Sample(tfd.Normal(mean, scale), 3, name="y")


def coroutine():
    root = tfd.JointDistributionCoroutine.Root
    mean = yield root(tfd.Normal(0.0, 2.0, name="mean"))
    scale = yield root(tfd.Gamma(3.0, 2.0, name="scale"))
    yield likelihood(scale, mean)


NAMED = {"mean": tfd.Normal(0.0, 2.0), "scale": tfd.Gamma(3.0, 2.0), "y": likelihood}
LISTED = [tfd.Normal(0.0, 2.0, name="mean"), tfd.Gamma(3.0, 2.0, name="scale"), likelihood]
JOINTS = {
    "named": lambda: tfd.JointDistributionNamed(NAMED),
    "named, batched": lambda: tfd.JointDistributionNamedAutoBatched(NAMED),
    "sequential": lambda: tfd.JointDistributionSequential(LISTED),
    "sequential, batched": lambda: tfd.JointDistributionSequentialAutoBatched(LISTED),
    "coroutine": lambda: tfd.JointDistributionCoroutine(coroutine),
    "coroutine, batched": lambda: tfd.JointDistributionCoroutineAutoBatched(coroutine),
}


@pytest.mark.parametrize("kind", JOINTS)
def test_the_density_is_scipys_for_every_kind_of_joint(kind):
    """At random coordinates, with the Jacobian of exp."""
    model = vi.from_tfp(JOINTS[kind](), {"y": Y})
    known = model.free.variables
    assert {
        name: (v.shape, v.support) for name, v in zip(known.names, known.leaves, strict=True)
    } == {
        "mean": ((), constrain.real()),
        "scale": ((), constrain.positive()),
    }
    for mean, log_scale in np.random.default_rng(0).normal(size=(3, 2)):
        scale = np.exp(log_scale)
        exact = stats.norm.logpdf(mean, 0, 2) + stats.gamma.logpdf(scale, 3, scale=0.5) + log_scale
        exact += stats.norm.logpdf(Y, mean, scale).sum()
        z = model.free.variables.coordinates({"mean": mean, "scale": scale})
        assert float(model.free.log_prior_at(z)) == pytest.approx(exact, rel=2e-5)


PARTS = {
    "real": (lambda: tfd.StudentT(3.0, 0.0, 1.0), constrain.real()),
    "reals": (lambda: tfd.MultivariateNormalTriL(jnp.zeros(3), jnp.eye(3)), constrain.real()),
    "moved": (
        lambda: transformed(tfd.Normal(0.0, 1.0), tfb.Shift(1.0), tfb.Scale(-2.0)),
        constrain.real(),
    ),
    "half-normal": (lambda: tfd.HalfNormal(2.0), constrain.positive()),
    "log-normal": (lambda: tfd.LogNormal(0.0, 1.0), constrain.positive()),
    "inverse gamma": (lambda: tfd.InverseGamma(2.0, 1.0), constrain.positive()),
    "several": (lambda: tfd.Sample(tfd.Gamma(2.0, 1.0), 3), constrain.positive()),
    "above": (lambda: tfd.HalfCauchy(1.5, 1.0), constrain.above(1.5)),
    "below": (
        lambda: transformed(tfd.Normal(0.0, 1.0), tfb.Shift(2.0), tfb.Scale(-1.0), tfb.Exp()),
        constrain.below(2.0),
    ),
    "beta": (lambda: tfd.Beta(2.0, 3.0), constrain.unit_interval()),
    "interval": (lambda: tfd.TruncatedNormal(0.0, 1.0, -1.0, 2.0), constrain.interval(-1.0, 2.0)),
    "simplex": (lambda: tfd.Sample(tfd.Dirichlet([1.0, 2.0, 3.0]), 2), constrain.simplex()),
    "ordered": (
        lambda: transformed(tfd.Sample(tfd.Normal(0.0, 1.0), 3), tfb.Ascending()),
        constrain.ordered(),
    ),
    "positive definite": (
        lambda: tfd.WishartTriL(4.0, scale_tril=jnp.eye(3)),
        constrain.positive_definite(),
    ),
    "correlation": (lambda: tfd.CholeskyLKJ(3, 2.0), constrain.correlation_cholesky()),
    "logarithm": (
        lambda: transformed(tfd.Gamma(2.0, 1.0), tfb.Invert(tfb.Exp())),
        constrain.real(),
    ),
}


EVERY_PART = pytest.mark.parametrize("name", PARTS)


@EVERY_PART
def test_supports_are_those_of_the_parts(name):
    make, expected = PARTS[name]
    assert support(make().experimental_default_event_space_bijector()) == expected


@EVERY_PART
def test_the_density_of_a_part_is_tfps(name):
    """At a draw, the log determinant apart."""
    joint = tfd.JointDistributionNamed({"x": PARTS[name][0](), "other": tfd.Normal(0.0, 1.0)})
    model = vi.from_tfp(joint, {"other": 0.3})
    x = joint.sample(seed=jax.random.PRNGKey(3))["x"]
    z = model.free.variables.coordinates({"x": x})
    ours = jax.jit(model.free.log_prior_at)(z) - model.free.variables.values(z)[1]
    assert float(ours) == pytest.approx(float(joint.log_prob(x=x, other=0.3)), rel=1e-3, abs=1e-3)


def test_a_conjugate_posterior_is_found():
    """Normal mean with known variance: the bound is the log evidence, and draws have the
    posterior's moments."""
    joint = tfd.JointDistributionNamed(
        {"mean": tfd.Normal(1.0, 2.0), "y": lambda mean: tfd.Sample(tfd.Normal(mean, 0.5), 3)}
    )
    fit = vi.auto(vi.from_tfp(joint, {"y": Y}), key=KEY)
    precision = 1 / 4 + 3 / 0.25
    mean = (1 / 4 + Y.sum() / 0.25) / precision
    evidence = stats.multivariate_normal(np.ones(3), 0.25 * np.eye(3) + 4).logpdf(Y)
    draws = np.asarray(fit.sample(jax.random.key(1), 20_000)["mean"], np.float64)
    assert draws.mean() == pytest.approx(mean, abs=0.03 / np.sqrt(precision))
    assert draws.std() == pytest.approx(1 / np.sqrt(precision), rel=0.03)
    assert fit.elbo.value == pytest.approx(evidence, abs=1e-3)


def test_the_prior_of_the_unknown_parts_is_known():
    joint = tfd.JointDistributionNamedAutoBatched(
        {"x": tfd.Sample(tfd.Normal(3.0, 20.0), 2), "y": lambda x: tfd.Normal(x, 0.1)}
    )
    density = vi.from_tfp(joint, {"y": [7.0, 8.0]}).log_density
    found = density.prior_part({"x": jnp.array([1.0, 2.0])})
    np.testing.assert_allclose(found, stats.norm.logpdf([1.0, 2.0], 3, 20).sum(), rtol=1e-5)


def test_what_is_observed_may_be_whole_numbers():
    joint = tfd.JointDistributionNamed(
        {"p": tfd.Beta(1.0, 1.0), "y": lambda p: tfd.Binomial(10.0, probs=p)}
    )
    model = vi.from_tfp(joint, {"y": 3})
    z = model.free.variables.coordinates({"p": 0.4})
    exact = stats.binom.logpmf(3, 10, 0.4) + np.log(0.4 * 0.6)
    assert float(model.free.log_prior_at(z)) == pytest.approx(exact, rel=1e-5)


# --- what is refused ------------------------------------------------------------------------------
def refused(parts, match, observed=None):
    with pytest.raises(ValueError, match=match):
        vi.from_tfp(tfd.JointDistributionNamed(parts), observed)


def test_joints_that_are_no_densities_are_refused():
    with pytest.raises(ValueError, match=naming("joint:", "Normal")):
        vi.from_tfp(tfd.Normal(0.0, 1.0))
    normal = tfd.Normal(0.0, 1.0)
    refused({"x": normal}, r"observed: expected names among \['x'\], got \['y'\]", {"y": 1.0})
    refused({"x": normal}, "joint: expected unknown variables, got none", {"x": 1.0})
    refused(
        {"x": tfd.Normal(jnp.zeros(3), 1.0), "y": normal},
        r"one number, got an array of shape \(3,\).*Independent",
    )
    refused(
        {"x": tfd.JointDistributionNamed({"y": normal})},
        "'x': expected a distribution of one array, got JointDist",
    )


def test_parts_that_are_no_variables_are_refused_by_name():
    scale = tfd.Gamma(2.0, 1.0)
    refused(
        {"n": tfd.Bernoulli(0.5)}, "variable 'n': expected a continuous variable, got one of int32"
    )
    refused(
        {"a": scale, "b": lambda a: tfd.Uniform(0.0, a)},
        "variable 'b': expected the same support in every run",
    )
    refused({"c": tfd.LKJ(3, 1.0)}, "variable 'c': expected a support of real.*got that of LKJ")
    refused(
        {"u": tfd.Independent(tfd.Uniform([0.0, 0.0], [1.0, 2.0]), 1)},
        "variable 'u': expected a support of real",
    )
    refused(
        {"p": scale, "y": tfd.Bernoulli(0.5)},
        "observed: 'y': expected values of int32, got 0.5",
        {"y": 0.5},
    )
