"""NumPyro models: their densities against NumPyro's potential energy and sums by hand, posteriors,
and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from vijax import constrain

numpyro = pytest.importorskip("numpyro")
dist = numpyro.distributions
constraints = dist.constraints

KEY = jax.random.key(0)
Y = jnp.array([0.5, -1.0, 2.5])

SUPPORTS = {  # a distribution, the constraint, and what of a value a density is with respect to
    "real": (lambda: dist.StudentT(3.0, 0.0, 1.0), constrain.real()),
    "reals": (lambda: dist.MultivariateNormal(jnp.ones(3), jnp.eye(3)), constrain.real()),
    "positive": (lambda: dist.Gamma(2.0, 1.0).expand([2]).to_event(1), constrain.positive()),
    "half-normal": (lambda: dist.HalfNormal(2.0), constrain.positive()),
    "softplus": (
        lambda: dist.ImproperUniform(constraints.softplus_positive, (), ()),
        constrain.positive(),
    ),
    "above": (lambda: dist.TruncatedNormal(0.0, 1.0, low=0.5), constrain.above(0.5)),
    "below": (lambda: dist.TruncatedNormal(0.0, 1.0, high=0.5), constrain.below(0.5)),
    "unit interval": (lambda: dist.Beta(2.0, 3.0), constrain.unit_interval()),
    "interval": (lambda: dist.Uniform(-1.0, 3.0), constrain.interval(-1.0, 3.0)),
    "simplex": (
        lambda: dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])).expand([2]).to_event(1),
        constrain.simplex(),
    ),
    "ordered": (
        lambda: dist.ImproperUniform(constraints.ordered_vector, (), (3,)),
        constrain.ordered(),
    ),
    "positive definite": (lambda: dist.Wishart(4.0, jnp.eye(2)), constrain.positive_definite()),
    "correlation": (lambda: dist.LKJCholesky(3, 2.0), constrain.correlation_cholesky()),
}


@pytest.mark.parametrize("name", SUPPORTS)
def test_densities_of_coordinates_are_those_of_numpyro(name):
    """minus NumPyro's potential energy, in its own coordinates, moved to ours by the determinant of
    the change."""
    make, support = SUPPORTS[name]

    def model():
        x = numpyro.sample("x", make())
        numpyro.factor("pull", -0.5 * jnp.sum(x**2))

    ours = vi.from_numpyro(model)
    assert ours.free.variables.leaves[0].support == support
    to_theirs = dist.biject_to(make().support).inv

    @jax.jit
    def both(z):
        there = lambda z: jnp.ravel(to_theirs(ours.free.values_at(z)["x"]))
        u = to_theirs(ours.free.values_at(z)["x"])
        theirs = -numpyro.infer.util.potential_energy(model, (), {}, {"x": u})
        return ours.free.log_prior_at(z), theirs + jnp.linalg.slogdet(jax.jacfwd(there)(z))[1]

    with jax.enable_x64(True):
        for seed in range(2):
            one, two = both(
                jnp.asarray(np.random.default_rng(seed).normal(size=ours.free.variables.dim))
            )
            assert float(one) == pytest.approx(float(two), rel=1e-6, abs=1e-6)


def regression(x, y):
    w = numpyro.sample("w", dist.Normal(0, 2).expand([2]).to_event(1))
    with numpyro.plate("N", len(x)):
        mean = numpyro.deterministic("mean", x @ w)
        numpyro.sample("y", dist.Normal(mean, 0.5), obs=y)


def test_a_regression_is_that_in_closed_form():
    """Bound and moments; deterministic sites are drawn with the variables."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))
    y = x @ [1.0, -1.0] + 0.5 * rng.normal(size=20)
    fit = vi.auto(
        vi.from_numpyro(regression, jnp.asarray(x, jnp.float32), y=jnp.asarray(y, jnp.float32)),
        key=KEY,
    )
    cov = np.linalg.inv(x.T @ x / 0.25 + np.eye(2) / 4)
    mean, sds = cov @ x.T @ y / 0.25, np.sqrt(np.diag(cov))
    draws = fit.sample(jax.random.key(1), 20_000)
    w = np.asarray(draws["w"], np.float64)
    np.testing.assert_allclose(w.mean(0) / sds, mean / sds, atol=0.03)
    np.testing.assert_allclose(w.std(0), sds, rtol=0.03)
    np.testing.assert_allclose(draws["mean"], draws["w"] @ x.T.astype(np.float32), atol=1e-4)
    evidence = stats.multivariate_normal(np.zeros(20), 0.25 * np.eye(20) + 4 * x @ x.T).logpdf(y)
    assert fit.elbo.value == pytest.approx(evidence, abs=1e-3)


def test_the_prior_alone_says_how_far_apart_searches_start():
    """Observed sites and factors are no part of it."""
    from vijax.automatic.modes import prior_scales
    from vijax.verdict.target import Target

    def model():
        x = numpyro.sample("x", dist.Normal(3.0, 20.0))
        numpyro.sample("y", dist.Normal(x, 0.1), obs=7.0)
        numpyro.factor("pull", -(x**2))

    scales = prior_scales(Target.from_data(vi.from_numpyro(model), None))
    np.testing.assert_allclose([scales.middle, scales.width], [[3.0], [20.0]], rtol=0.05)


EFFECTS, ERRORS = (
    np.array([28.0, 8, -3, 7, -1, 1, 18, 12]),
    np.array([15.0, 10, 16, 11, 9, 11, 10, 18]),
)


def schools():
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
    with (
        numpyro.plate("J", 8),
        numpyro.handlers.reparam(config={"theta": numpyro.infer.reparam.LocScaleReparam(0)}),
    ):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, jnp.asarray(ERRORS)), obs=jnp.asarray(EFFECTS))


def schools_by_quadrature():
    """Means and standard deviations of mu and theta: given tau all is normal."""
    edges = np.linspace(0, 1, 4001)
    tau = (
        5 * np.tan(np.pi / 2 * 0.5 * (edges[1:] + edges[:-1]))[:, None]
    )  # equally probable under the prior
    precision = 1 / (ERRORS**2 + tau**2)
    v = 1 / (1 / 25 + precision.sum(1))
    m = v * (precision * EFFECTS).sum(1)
    log_p = (
        stats.norm.logpdf(EFFECTS, 0, np.sqrt(1 / precision)).sum(1)
        + 0.5 * np.log(v / 25)
        + 0.5 * m**2 / v
    )
    p = special.softmax(log_p)
    shrunk = tau**2 * precision  # E[theta | mu, tau] = mu + shrunk (y - mu)
    theta = m[:, None] * (1 - shrunk) + shrunk * EFFECTS
    var = shrunk * ERRORS**2 + (1 - shrunk) ** 2 * v[:, None]
    both, vars_ = np.column_stack([m, theta]), np.column_stack([v, var])
    mean = p @ both
    return (
        mean,
        np.sqrt(p @ (vars_ + (both - mean) ** 2)),
        special.logsumexp(log_p) - np.log(len(p)),
    )


@pytest.mark.slow
def test_eight_schools_are_those_by_quadrature():
    """A reparameterised model: the variable that it replaced is among the draws. A product of two
    normals has bends that q has not: its effects are shrunk by a tenth of an sd."""
    with jax.enable_x64(True):
        fit = vi.auto(vi.from_numpyro(schools), key=KEY)
        draws = fit.sample(jax.random.key(1), 40_000)
    mean, sd, evidence = schools_by_quadrature()
    found = np.column_stack([draws["mu"], draws["theta"]])
    assert np.all(np.abs(found.mean(0) - mean) < np.array([0.04] + 8 * [0.14]) * sd)
    assert np.all(np.abs(np.log(found.std(0) / sd)) < 0.1)
    assert evidence - 0.3 < fit.elbo.value < evidence


# --- discrete sites -------------------------------------------------------------------------------
def funsor():
    pytest.importorskip("numpyro.contrib.control_flow")
    return pytest.importorskip("numpyro.contrib.funsor")


def test_discrete_sites_in_a_plate_are_summed_out():
    funsor()

    def mixture():
        share = numpyro.sample("share", dist.Beta(2.0, 2.0))
        with numpyro.plate("K", 2):
            means = numpyro.sample("means", dist.Normal(0, 3))
        with numpyro.plate("N", 3):
            z = numpyro.sample("z", dist.Bernoulli(share))
            numpyro.sample("y", dist.Normal(means[z], 1.0), obs=Y)

    model = vi.from_numpyro(mixture)
    assert model.free.variables.names == ["means", "share"]
    share, means = 0.3, np.array([-1.0, 1.5])
    each = (1 - share) * stats.norm.pdf(Y, means[0]) + share * stats.norm.pdf(Y, means[1])
    exact = (
        stats.beta.logpdf(share, 2, 2) + stats.norm.logpdf(means, 0, 3).sum() + np.log(each).sum()
    )
    z = model.free.variables.coordinates({"share": share, "means": means})
    assert float(jax.jit(model.free.log_prior_at)(z)) == pytest.approx(
        exact + np.log(share * (1 - share)), rel=1e-5
    )


def test_discrete_sites_outside_plates_are_summed_out_together():
    funsor()

    def coupled():
        mean = numpyro.sample("mean", dist.Normal(0, 3))
        a = numpyro.sample("a", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        b = numpyro.sample("b", dist.Bernoulli(jnp.array([0.1, 0.5, 0.8])[a]))
        with numpyro.plate("N", 3):
            numpyro.sample("y", dist.Normal(mean + a - b, 1.0), obs=Y)

    model = vi.from_numpyro(coupled)
    total, mean = 0.0, 0.7
    for a, p in enumerate([0.2, 0.3, 0.5]):
        for b in (0, 1):
            q = [0.1, 0.5, 0.8][a]
            total += p * (q if b else 1 - q) * np.exp(stats.norm.logpdf(Y, mean + a - b).sum())
    exact = np.log(total) + stats.norm.logpdf(mean, 0, 3)
    assert float(jax.jit(model.free.log_prior_at)(jnp.array([mean]))) == pytest.approx(
        exact, rel=1e-5
    )


def test_the_states_of_a_scan_are_summed_out():
    """Against the forward algorithm."""
    funsor()
    moves = np.array([[0.8, 0.2], [0.3, 0.7]])

    def chain():
        means = numpyro.sample("means", dist.Normal(0, 3).expand([2]).to_event(1))

        def step(state, y):
            state = numpyro.sample("state", dist.Categorical(jnp.asarray(moves)[state]))
            numpyro.sample("y", dist.Normal(means[state], 1.0), obs=y)
            return state, None

        numpyro.contrib.control_flow.scan(step, 0, Y)

    means, forward = np.array([0.3, 1.8]), np.array([1.0, 0.0])
    for y in Y:
        forward = forward @ moves * stats.norm.pdf(y, means)
    exact = np.log(forward.sum()) + stats.norm.logpdf(means, 0, 3).sum()
    ours = vi.from_numpyro(chain).free.log_prior_at(jnp.asarray(means, jnp.float32))
    assert float(ours) == pytest.approx(exact, rel=1e-5)


def test_discrete_sites_that_cannot_be_summed_out_are_refused_by_name():
    funsor()

    def told(discrete, batch=False):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        n = numpyro.sample("n", discrete(rate))
        numpyro.sample(
            "y", dist.Normal(0.0 * n, 1.0).expand([3] if batch else []), obs=Y if batch else 0.3
        )

    refused(
        told, "discrete site 'n': expected finitely many values, got those of Poisson", dist.Poisson
    )
    refused(
        told,
        "discrete site 'n': expected at most 1000",
        lambda rate: dist.Binomial(2000, rate / (1 + rate)),
    )
    refused(
        told,
        r"expected a sum over their values, got ValueError.*Put rows into numpyro\.plate",
        lambda r: dist.Bernoulli(0.5),
        True,
    )


# --- what counts, and what is refused -------------------------------------------------------------
def test_scales_masks_and_factors_count():
    def model():
        x = numpyro.sample("x", dist.ImproperUniform(constraints.real, (), ()))
        with (
            numpyro.handlers.scale(scale=3.0),
            numpyro.handlers.mask(mask=jnp.array([True, False, True])),
        ):
            numpyro.sample("y", dist.Normal(x, 1.0), obs=Y)
        numpyro.factor("bonus", 2 * x)

    exact = 3 * stats.norm.logpdf([0.5, 2.5], 0.4, 1).sum() + 0.8
    assert float(vi.from_numpyro(model).free.log_prior_at(jnp.array([0.4]))) == pytest.approx(
        exact, rel=1e-5
    )


def refused(model, match, *args):
    with pytest.raises(ValueError, match=match):
        vi.from_numpyro(model, *args)


def test_models_that_are_no_densities_are_refused():
    refused(3, "model: expected a function that calls numpyro.sample, got int")
    refused(
        lambda: numpyro.sample("y", dist.Normal(0, 1), obs=1.0),
        "model: expected unknown variables, got none",
    )

    def subsampled():
        x = numpyro.sample("x", dist.Normal(0, 1))
        with numpyro.plate("N", 3, subsample_size=2):
            numpyro.sample("y", dist.Normal(x, 1), obs=numpyro.subsample(Y, 0))

    refused(
        subsampled,
        "plate 'N': expected all of 3, got a subsample of 2. Give the full plate.*vijax.density",
    )

    def with_param():
        numpyro.sample("x", dist.Normal(numpyro.param("p", 0.0), 1))

    refused(with_param, "model: param 'p': expected a variable with a prior, got a param")

    def random_names():
        more = float(numpyro.sample("x", dist.Normal(0, 1))) > 0
        numpyro.sample("a" if more else "b", dist.Normal(0, 1))

    refused(random_names, r"model: expected the variables .* in every run")


def test_supports_that_are_none_are_refused_by_name():
    def dependent():
        a = numpyro.sample("a", dist.Gamma(2.0, 1.0))
        numpyro.sample("b", dist.Uniform(0.0, a))

    refused(
        dependent,
        "variable 'b': expected the same support in every run, got interval.*Write it as a "
        "function",
    )
    refused(
        lambda: numpyro.sample("c", dist.LKJ(3, 1.0)),
        "variable 'c': expected a support of real.*got .*of LKJ",
    )
    refused(
        lambda: numpyro.sample("u", dist.Uniform(jnp.zeros(2), jnp.array([1.0, 2.0]))),
        "'u': expected a support of",
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
def test_arguments_of_small_integer_types_do_not_overflow(dtype):
    """The square of a pixel of uint8 is what it should be."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 120, 20).astype(dtype)
    y = rng.normal(size=20)

    def story(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
        numpyro.sample("y", dist.Normal(slope * (x * x) / 1e4, 1.0), obs=y)

    at = {"slope": jnp.array(1.5)}
    small, wide = (
        vi.from_numpyro(story, given, y).log_density.log_prior(at)
        for given in (x, x.astype(np.float64))
    )
    np.testing.assert_allclose(small, wide, rtol=1e-6)
