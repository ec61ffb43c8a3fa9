"""Log joint densities by hand, free coordinates by their Jacobians; chains of blackjax beside the
approximations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from tests.naming import naming
from tests.rounding import rounding
from vijax import families, reference
from vijax.families import CoefficientsPrecision, MeanPrecision
from vijax.models import emission, group_rows
from vijax.reference.walk import coordinates, from_free, to_free

pytest.importorskip("blackjax")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = X @ [1.5, 0.0] + 0.5 * RNG.normal(size=30)
POINTS = RNG.normal(np.repeat([-2.5, 2.5], [12, 20]), 1.0)[:, None]
LABELS = np.repeat(np.arange(8), 6)
SLOPES = RNG.normal(size=8) * 0.8 + 0.5
SIGNS = np.where(SLOPES[LABELS] + RNG.logistic(size=48) > 0, 1.0, -1.0)


def ard():
    return vi.models.ard_regression(2, 2.0, 1.0, 1.5, 0.7)


def mixture():
    return vi.models.mixture(emission.unit_gaussian(2, 1, variance=9.0), concentration=2.0)


def logistic():
    return vi.models.multilevel_logistic_regression(1, strength=1.0, degrees=4.0)


def groups():
    return group_rows(np.ones((48, 1)), SIGNS, LABELS)


# --- densities ------------------------------------------------------------------------------------
def test_density_of_ard_regression():
    w, tau, a = np.array([0.7, -0.3]), 1.3, np.array([0.5, 2.0])
    by_hand = stats.norm(X @ w, tau**-0.5).logpdf(Y).sum() + stats.gamma(2.0, scale=1.0).logpdf(tau)
    by_hand += (
        stats.norm(0, (tau * a) ** -0.5).logpdf(w).sum()
        + stats.gamma(1.5, scale=1 / 0.7).logpdf(a).sum()
    )
    with jax.enable_x64(True):
        density = reference.log_joint(ard(), (X, Y))
        found = density(
            {
                "coefficients": CoefficientsPrecision(jnp.asarray(w), jnp.asarray(tau)),
                "relevance": a,
            },
            {},
        )
    np.testing.assert_allclose(found, by_hand, rtol=1e-10)


def test_density_of_a_mixture_sums_over_classes():
    mu, pi = np.array([[-1.0], [2.0]]), np.array([0.3, 0.7])
    terms = np.log(pi) + stats.norm(mu[:, 0], 1.0).logpdf(POINTS)
    by_hand = special.logsumexp(terms, axis=1).sum() + stats.norm(0, 3.0).logpdf(mu).sum()
    by_hand += stats.dirichlet([2.0, 2.0]).logpdf(pi)
    with jax.enable_x64(True):
        found = reference.log_joint(mixture(), POINTS)(
            {"components": jnp.asarray(mu), "weights": jnp.asarray(pi)}, {}
        )
    np.testing.assert_allclose(found, by_hand, rtol=1e-10)


def test_density_of_multilevel_logistic_regression_has_no_augmentation():
    mu, precision, b = 0.4, 1.7, RNG.normal(size=8)
    by_hand = (
        special.log_expit(SIGNS * b[LABELS]).sum() + stats.norm(mu, precision**-0.5).logpdf(b).sum()
    )
    by_hand += stats.norm(0, precision**-0.5).logpdf(mu) + stats.gamma(2.0, scale=0.5).logpdf(
        precision
    )
    with jax.enable_x64(True):
        density = reference.log_joint(logistic(), groups(), ["coefficients"])
        value = MeanPrecision(jnp.array([mu]), jnp.array([[precision]]))
        found = density({"population": value}, {"coefficients": jnp.asarray(b)[:, None]})
    np.testing.assert_allclose(found, by_hand, rtol=1e-10)


def test_density_of_sampled_locals_has_their_base_measure():
    """z ~ Gamma(2, rate), y ~ Poisson(z): the energy leaves out -log z, the density does not."""

    def energy(s, y):
        z, rate = s["z"], s["rate"]
        return (
            y * z.log
            - z.value
            - jax.scipy.special.gammaln(y + 1)
            + 2 * z.log
            + 2 * rate.log
            - rate.value * z.value
        )

    model = vi.energy_model(
        globals={"rate": vi.Gamma.from_shape_rate(1.5, 0.5)},
        locals={"z": vi.Gamma.from_shape_rate(1.0, 1.0)},
        energy=energy,
        example=1.0,
    )
    y, z = np.array([0.0, 3.0]), np.array([0.4, 1.7])
    got = reference.log_joint(model, y, sampled=("z",))(
        {"rate": jnp.array(0.7)}, {"z": jnp.asarray(z)}
    )
    each = stats.poisson(z).logpmf(y) + stats.gamma(2, scale=1 / 0.7).logpdf(z)
    np.testing.assert_allclose(
        got, stats.gamma(1.5, scale=1 / 0.5).logpdf(0.7) + each.sum(), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("sampled", "message"),
    [([], "all but one block of the locals"), (["weight", "slope"], "names among the locals")],
)
def test_locals_that_cannot_be_integrated_out(sampled, message):
    with pytest.raises(ValueError, match=f"sampled: expected {message}"):
        reference.log_joint(logistic(), groups(), sampled)


def test_a_model_without_an_energy_is_refused():
    with pytest.raises(ValueError, match=naming("model:", "vijax.energy_model")):
        reference.log_joint(vi.models.lda(2, 3), None)
    with pytest.raises(ValueError, match=naming("model:", "Categorical")):
        coordinates(families.Categorical.from_probs([0.5, 0.5]))


# --- coordinates ----------------------------------------------------------------------------------
LOWER = np.tril_indices(2)
COORDINATES = {  # a member, and the entries of its value that are free
    "gamma": (lambda: families.Gamma.from_shape_rate(2.0, 3.0), lambda x: x[None]),
    "beta": (lambda: families.Beta.from_alpha_beta(2.0, 3.0), lambda x: x[None]),
    "normal": (lambda: families.Normal.from_mean_variance(0.3, 2.0), lambda x: x[None]),
    "dirichlet": (lambda: families.Dirichlet.from_concentration([1.0, 2.0, 3.0]), lambda x: x[:-1]),
    "wishart": (lambda: families.Wishart.from_degrees_scale(4.0, jnp.eye(2)), lambda x: x[LOWER]),
    "normal_gamma": (
        lambda: families.NormalGamma.from_parameters(0.2, 1.0, 2.0, 1.5),
        lambda x: jnp.stack([*x]),
    ),
    "normal_wishart": (
        lambda: families.NormalWishart.from_parameters(jnp.array([0.2, 1.0]), 1.0, 4.0, jnp.eye(2)),
        lambda x: jnp.concatenate([x.mean, x.precision[LOWER]]),
    ),
}


@pytest.mark.parametrize("name", COORDINATES)
def test_coordinates_and_their_log_determinant(name):
    """Against the Jacobian by automatic differentiation."""
    from jax.flatten_util import ravel_pytree

    make, entries = COORDINATES[name]
    with jax.enable_x64(True):
        q = make()
        free, value = coordinates(q), q.sample(jax.random.key(0))
        x, unravel = ravel_pytree(to_free(free, value))
        again, log_det = from_free(free, unravel(x))
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=rounding(b)), again, value
        )
        jacobian = jax.jacobian(lambda x: entries(from_free(free, unravel(x))[0]))(x)
        np.testing.assert_allclose(log_det, np.linalg.slogdet(np.asarray(jacobian))[1], atol=1e-9)


# --- chains ---------------------------------------------------------------------------------------
def mean_and_error(draws):
    """Mean over all draws, and its standard error from the chains' own means."""
    by_chain = np.asarray(draws, np.float64).mean(axis=1)
    return by_chain.mean(0), by_chain.std(0, ddof=1) / np.sqrt(len(by_chain))


def test_metropolis_hastings_on_a_coin():
    coin = vi.energy_model(
        globals={"bias": vi.Beta.from_alpha_beta(2.0, 1.0)},
        energy=lambda s, y: y * s["bias"].log + (1 - y) * s["bias"].log1m,
        example=0.0,
    )
    chains = reference.metropolis_hastings(
        coin,
        jnp.array([1.0, 1.0, 0.0, 1.0]),
        key=jax.random.key(0),
        num_samples=1000,
        scale=1.5,
        thin=5,
        chains=16,
    )
    mean, error = mean_and_error(chains.globals["bias"])
    assert abs(mean - 5 / 7) < 6 * error < 0.03
    assert 0.2 < float(chains.acceptance.mean()) < 0.8


@pytest.mark.slow
def test_ard_regression_against_nuts():
    """Mean field is exact in nothing but close in the mean: within a tenth of a posterior
    deviation."""
    fit = vi.fit(
        vi.cavi(ard()),
        (X.astype(np.float32), Y.astype(np.float32)),
        num_steps=100,
        key=jax.random.key(0),
    )
    chains = reference.nuts(ard(), (X, Y), key=jax.random.key(1), num_samples=2000, chains=8)
    assert not chains.divergent.any()
    draws = chains.globals["coefficients"]
    mean, error = mean_and_error(draws.coefficients)
    spread = np.asarray(draws.coefficients).std((0, 1))
    assert np.all(np.abs(fit.posterior["coefficients"].location - mean) < 0.1 * spread + 6 * error)
    tau, error = mean_and_error(draws.precision)
    q = fit.posterior["coefficients"]
    assert abs(q.shape / q.rate - tau) < 0.05 * tau + 6 * error


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["nuts", "metropolis_hastings"])
def test_mixture_against_chains_and_gibbs(sampler):
    """Well-separated components: chains stay with their labels."""
    y = POINTS.astype(np.float32)
    extra = {} if sampler == "nuts" else {"scale": 0.25, "thin": 20}
    chains = getattr(reference, sampler)(
        mixture(), y, key=jax.random.key(1), num_samples=2000, chains=8, **extra
    )
    sweeps = jax.vmap(lambda k: reference.gibbs(mixture(), y, key=k, num_samples=4000).globals)(
        jax.random.split(jax.random.key(2), 8)
    )
    fit = vi.fit(vi.cavi(mixture()), y, num_steps=100, key=jax.random.key(0))
    means = lambda draws: np.sort(np.asarray(draws["components"])[..., 0], axis=-1)
    mean, error = mean_and_error(means(chains.globals))
    gibbs_mean, gibbs_error = mean_and_error(means(sweeps))
    assert np.all(np.abs(mean - gibbs_mean) < 6 * np.hypot(error, gibbs_error))
    assert np.all(error < 0.02)
    np.testing.assert_allclose(np.sort(fit.posterior["components"].mean()[:, 0]), mean, atol=0.05)


@pytest.mark.slow
def test_multilevel_logistic_regression_against_nuts_and_gibbs():
    data = groups()
    chains = reference.nuts(
        logistic(),
        data,
        key=jax.random.key(1),
        num_samples=2000,
        chains=8,
        sampled=["coefficients"],
    )
    mean, error = mean_and_error(chains.globals["population"].mean[..., 0])
    b, b_error = mean_and_error(chains.locals["coefficients"][..., 0])
    run = lambda k: reference.gibbs(logistic(), data, key=k, num_samples=4000, keep_locals=True)
    sweeps = jax.vmap(run)(jax.random.split(jax.random.key(2), 8))
    gibbs_mean, gibbs_error = mean_and_error(sweeps.globals["population"].mean[..., 0])
    assert abs(mean - gibbs_mean) < 6 * np.hypot(error, gibbs_error) < 0.2
    gibbs_b, gibbs_b_error = mean_and_error(sweeps.locals["coefficients"][..., 0])
    assert np.all(np.abs(b - gibbs_b) < 6 * np.hypot(b_error, gibbs_b_error))
    fit = vi.fit(vi.cavi(logistic()), data, num_steps=300, key=jax.random.key(0))
    q = np.asarray(fit.locals(data, key=jax.random.key(0))["coefficients"].mean()[:, 0])
    # Mean field shrinks a little too much: by less than three tenths of a posterior deviation here.
    spread = np.asarray(chains.locals["coefficients"][..., 0]).std((0, 1))
    assert np.all(np.abs(q - b) < 0.3 * spread)


def test_a_log_density_is_sampled_too():
    """Against the posterior of a normal mean with known noise; values are in their supports."""
    y = jnp.array([1.0, 2.0, 4.0, 5.0])
    logp = jax.scipy.stats.norm.logpdf
    model = vi.density(
        {"m": vi.free(), "s": vi.free(support="positive")},
        log_prior=lambda v: logp(v["m"], 0, 10.0) - v["s"],
        log_lik=lambda v, y: logp(y, v["m"], 1.0),
    )
    chains = vi.reference.nuts(model, y, key=jax.random.key(0), num_samples=1000, warmup=300)
    assert chains.globals["m"].shape == (4, 1000)
    assert float(chains.globals["m"].mean()) == pytest.approx(12 / 4.01, abs=0.05)
    assert float(chains.globals["m"].std()) == pytest.approx(4.01**-0.5, rel=0.1)
    assert float(chains.globals["s"].mean()) == pytest.approx(1.0, abs=0.1)
    assert np.all(np.asarray(chains.globals["s"]) > 0)
    with pytest.raises(ValueError, match=naming("sampled:", "none")):
        vi.reference.nuts(model, y, key=jax.random.key(0), num_samples=10, sampled=["z"])
