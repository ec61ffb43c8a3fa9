"""Variances, distribution functions, quantiles and intervals: against SciPy, draws and each
other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as sps

import vijax as vi
from tests.cases import FAMILIES
from tests.naming import naming
from vijax.families.laws import GammaLaw, InverseGammaLaw, Law, StudentLaw

CASES = {case.name: case for case in FAMILIES if not case.extreme}
P = np.array([0.001, 0.025, 0.3, 0.5, 0.9, 0.975])
WITHOUT_LAWS = (
    "matrix_normal_wishart",
    "categorical",
    "markov_chain",
    "wishart",
    "inverse_wishart",
    "normal_wishart",
    "normals_wishart",
    "polya_gamma",
    "recipe",
)
"""Families with a variance at most."""


WITHOUT_VARIANCE = ("recipe",)


def has_laws(name):
    return not name.startswith(WITHOUT_LAWS)


def one_hot(q, draws):
    """Of classes and states, as their mean is."""
    return (
        jax.nn.one_hot(draws, q.mean().shape[-1])
        if isinstance(q, vi.Categorical | vi.MarkovChain)
        else draws
    )


# Unoptimised code: these functions run once, and compiling them is all of the cost.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@jit
def moments(q):
    """Draws, and what the family says of their moments."""
    return one_hot(q, q.sample(jax.random.key(0), (20_000,))), q.mean(), q.variance(), q.std()


# --- each family ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", list(CASES))
def test_variance_is_that_of_draws(name):
    """At six standard errors; where one draw of 20,000 makes a fifth of a variance, it is not known
    from draws."""
    q = CASES[name].build()
    if name in WITHOUT_VARIANCE:
        with pytest.raises(NotImplementedError, match=r"has no closed form\. Draw from it"):
            q.variance()
        return
    draws, means, variances, stds = moments(q)
    for x, mean, variance in zip(*map(jax.tree.leaves, (draws, means, variances)), strict=True):
        x, mean, variance = (np.asarray(a, float) for a in (x, mean, variance))
        squares = (x - mean) ** 2
        known = np.isfinite(variance) & (squares.max(0) < 0.2 * squares.sum(0))
        error = np.maximum(squares.std(0) / np.sqrt(len(x)), 1e-6 * variance)
        assert known.any()
        assert (
            np.abs((squares.mean(0) - variance)[known] / np.maximum(error[known], 1e-30)).max() < 6
        )
    for std, variance in zip(*map(jax.tree.leaves, (stds, variances)), strict=True):
        np.testing.assert_allclose(std**2, variance, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if has_laws(name)])
def test_quantiles_are_where_the_distribution_function_says(name):
    q = CASES[name].build()
    at = q.quantile(P)
    is_law = lambda x: isinstance(x, Law)
    laws = jax.tree.leaves(q.marginal_laws(), is_leaf=is_law)
    assert all(map(is_law, laws))
    assert jax.tree.structure(at) == jax.tree.structure(q.mean())
    for x, law, mean in zip(jax.tree.leaves(at), laws, jax.tree.leaves(q.mean()), strict=True):
        assert x.shape == (len(P), *mean.shape)
        found, p = np.asarray(law.cdf(x)), P.reshape(-1, *(1,) * mean.ndim)
        if q.discrete:
            assert np.all(found >= p - 1e-6)
            assert np.all(np.asarray(law.cdf(x - 1)) < p + 1e-6)
        else:
            np.testing.assert_allclose(found, np.broadcast_to(p, found.shape), rtol=2e-4)


@pytest.mark.parametrize(
    "name", ["gamma", "beta", "normal", "bernoulli", "poisson", "inverse_gamma", "truncated_normal"]
)
def test_they_are_scipys(name):
    case = CASES[name]
    q, exact = case.build(), [case.reference(**member) for member in case.members()]
    np.testing.assert_allclose(
        np.asarray(q.quantile(P)), np.stack([law.ppf(P) for law in exact], -1), rtol=2e-5
    )
    np.testing.assert_allclose(q.variance(), [law.var() for law in exact], rtol=2e-5)
    x = np.asarray(q.mean())
    np.testing.assert_allclose(
        q.cdf(x), [law.cdf(v) for law, v in zip(exact, x, strict=True)], atol=1e-6
    )


def test_intervals_hold_their_mass():
    q = vi.Product(
        {
            "rate": vi.Gamma.from_shape_rate([2.0, 1e6], 3.0),
            "m": vi.Normal.from_mean_variance(1.0, 4.0),
        }
    )
    low, high = q.interval(0.9)
    assert set(low) == {"rate", "m"}
    np.testing.assert_allclose(np.asarray(q.cdf(high)["rate"]) - q.cdf(low)["rate"], 0.9, atol=2e-3)
    exact = sps.gamma(1e6, scale=1 / 3).interval(0.9)
    np.testing.assert_allclose([low["rate"][1], high["rate"][1]], exact, rtol=2e-7)


# --- marginals of what has more than one number ---------------------------------------------------
def test_marginals_of_a_dirichlet_are_betas_without_cancellation():
    """Also of a component that holds nearly all."""
    q = vi.Dirichlet.from_concentration([1e6, 0.5, 1e-3])
    law = q.marginal_laws()
    np.testing.assert_allclose(law.beta, [0.501, 1e6, 1e6], rtol=1e-6)
    assert q.variance().shape == (3,)


def test_the_mean_of_a_normal_wishart_is_students():
    """By draws of 40,000, at five standard errors of a proportion."""
    q = vi.NormalWishart.from_parameters(
        location=[1.0, -2.0], strength=2.0, degrees=5.0, scale=[[0.5, 0.2], [0.2, 1.0]]
    )
    draws = np.asarray(jit(lambda q: q.sample(jax.random.key(0), (40_000,)).mean)(q))
    below = (draws[None] < np.asarray(jit(lambda q: q.mean_law().quantile(P))(q))[:, None]).mean(1)
    error = np.sqrt(P * (1 - P) / len(draws))[:, None]
    assert np.abs((below - P[:, None]) / error).max() < 5
    with pytest.raises(
        NotImplementedError, match=r"NormalWishart: the law of each number.*Draw from it"
    ):
        q.interval()


def test_coefficients_of_a_normal_gamma_are_students():
    q = vi.MultivariateNormalGamma.from_parameters(
        [1.0, 0.0], [[2.0, 0.7], [0.7, 1.0]], shape=3.0, rate=1.5
    )
    draws = np.asarray(jit(lambda q: q.sample(jax.random.key(0), (40_000,)).coefficients)(q))
    below = (draws[None] < np.asarray(jit(lambda q: q.quantile(P).coefficients)(q))[:, None]).mean(
        1
    )
    error = np.sqrt(P * (1 - P) / len(draws))[:, None]
    assert np.abs((below - P[:, None]) / error).max() < 5


def test_predictors_have_the_laws_of_their_marginals():
    x = np.linspace(-1, 1, 6)[:, None]
    model = vi.models.logistic_regression(x, np.sign(x[:, 0]))
    q = vi.fit(vi.pg_svi(model), model.data, num_steps=20, key=jax.random.key(0)).posterior["z"]
    np.testing.assert_allclose(q.variance(), q.marginals().variance, rtol=1e-5)
    low, high = q.interval()
    np.testing.assert_allclose(high - low, 2 * 1.959964 * q.std(), rtol=1e-5)


# --- laws -----------------------------------------------------------------------------------------
def test_moments_that_do_not_exist_are_said():
    assert np.isinf(InverseGammaLaw(jnp.array(2.0), jnp.array(1.0)).variance())
    student = StudentLaw(jnp.array([1.0, 2.0, 3.0]), jnp.zeros(3), jnp.ones(3))
    assert np.isnan(student.mean()).tolist() == [True, False, False]
    np.testing.assert_allclose(student.variance(), [np.inf, np.inf, 3.0])


def test_they_work_in_programs():
    law = GammaLaw(jnp.array([1.0, 1e5]), jnp.array([1.0, 2.0]))
    outside = law.quantile(P)
    np.testing.assert_allclose(jax.jit(lambda law: law.quantile(P))(law), outside, rtol=1e-4)
    np.testing.assert_allclose(jax.vmap(lambda law: law.quantile(P))(law).T, outside, rtol=1e-4)
    with pytest.raises(ValueError, match="not support"):
        jax.grad(lambda rate: jnp.sum(GammaLaw(jnp.ones(2), rate).quantile(0.5)))(jnp.ones(2))


@pytest.mark.parametrize(
    ("p", "words"), [(0.0, "p: expected probabilities"), ([0.5, 1.0], "p:"), ("half", "string")]
)
def test_what_is_no_probability_is_refused(p, words):
    with pytest.raises(ValueError, match=words):
        vi.Normal.from_mean_variance(0.0, 1.0).quantile(p)


def test_what_is_no_mass_is_refused():
    with pytest.raises(ValueError, match=naming("mass:", "0", "1")):
        vi.Normal.from_mean_variance(0.0, 1.0).interval(95)
