"""Objectives of several draws: against exact integrals over all draws of a q that is wrong."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy import stats

import vijax as vi
from tests.models.networks import test_structured_autoencoder as structured_models
from tests.naming import naming
from tests.programs import compiled
from vijax.contract.batch import Minibatch
from vijax.contract.objective import importance_weighted, renyi
from vijax.inference.estimator.base import estimate

KEY = jax.random.key(3)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
ALPHAS = (0.0, 0.5, 1.0, -0.5, 2.0)
X, NOISE = 1.3, 0.8  # z ~ N(0, 1), x | z ~ N(z, NOISE^2)


def log_joint(z):
    return stats.norm.logpdf(z) + stats.norm.logpdf(X, z, NOISE)


def expected(alpha, num_draws, mean, sd, log_p=log_joint):
    """E[L] over all draws, by Gauss-Hermite quadrature in as many dimensions."""
    noise = np.array(list(itertools.product(NODES, repeat=num_draws)))
    weight = np.prod(list(itertools.product(WEIGHTS, repeat=num_draws)), axis=1)
    z = mean + sd * noise
    ratios = log_p(z) - stats.norm.logpdf(noise) + np.log(sd)
    return float(weight @ np.asarray(bounds(alpha)(ratios)))


@functools.cache
def bounds(alpha):
    return jax.jit(jax.vmap(renyi(alpha).bound))


@pytest.fixture(autouse=True)
def _in_float64():
    with jax.enable_x64(True):
        yield


def test_of_one_draw_all_are_the_evidence_lower_bound():
    mean, sd = 0.2, 0.7
    kl = 0.5 * (mean**2 + sd**2 - 1) - np.log(sd)
    fits = -0.5 * ((X - mean) ** 2 + sd**2) / NOISE**2 - np.log(NOISE) - 0.5 * np.log(2 * np.pi)
    for alpha in ALPHAS:
        assert expected(alpha, 1, mean, sd) == pytest.approx(fits - kl, rel=1e-10)


def test_between_the_two_bounds_it_rises_with_the_draws_and_falls_with_the_order():
    evidence = stats.norm.logpdf(X, 0, np.sqrt(1 + NOISE**2))
    for alpha in (0.0, 0.5):
        one, two, three = (expected(alpha, k, 0.2, 1.0) for k in (1, 2, 3))
        assert one < two - 0.01
        assert two < three - 0.005
        assert three < evidence
    orders = [expected(alpha, 2, 0.2, 1.0) for alpha in (0.0, 0.5, 1.0, 2.0)]
    assert np.all(np.diff(orders) < -0.01)


def test_of_many_draws_the_limit_is_the_log_evidence():
    """And at the posterior itself every draw's ratio is."""
    evidence = float(stats.norm.logpdf(X, 0, np.sqrt(1 + NOISE**2)))
    noise = np.random.default_rng(0).normal(size=400_000)
    ratios = log_joint(0.2 + noise) - stats.norm.logpdf(noise)
    error = float(np.exp(ratios - evidence).std() / np.sqrt(len(noise)))
    assert abs(float(importance_weighted().bound(ratios)) - evidence) < 5 * error
    mean, variance = X / (1 + NOISE**2), NOISE**2 / (1 + NOISE**2)
    at = mean + np.sqrt(variance) * noise[:5]
    exact = log_joint(at) - stats.norm.logpdf(at, mean, np.sqrt(variance))
    for alpha in ALPHAS:
        assert float(bounds(alpha)(exact[None])[0]) == pytest.approx(evidence, rel=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_the_message_is_the_natural_gradient_of_the_objective(alpha):
    """F (message - lambda) against differences of the exact objective of two draws; the target has
    two humps."""
    target = lambda z: jnp.logaddexp(-0.5 * (z - 1.5) ** 2 / 0.3, 0.4 - 0.5 * (z + 1) ** 2)
    q = vi.Normal.from_mean_variance(jnp.array([0.3]), jnp.array([0.8]))

    def exact(naturals):
        variance = -0.5 / naturals[1]
        return expected(alpha, 2, naturals[0] * variance, np.sqrt(variance), jax.jit(target))

    at, step = (
        np.array([float(q.precision_times_mean[0]), float(q.negative_half_precision[0])]),
        1e-4,
    )
    slope = [(exact(at + step * e) - exact(at - step * e)) / (2 * step) for e in np.eye(2)]
    rule = {"x": vi.estimator.weighted(2, renyi(alpha))}
    flat = vi.Product({"x": jax.tree.map(jnp.zeros_like, q)})

    @jax.jit
    @jax.vmap
    def messages(key):
        bound = lambda s, _: (target(s["x"].value[0]), None)
        natural = estimate(
            rule, ["x"], key, vi.Product({"x": q}), flat, jnp.zeros(()), bound, {}
        ).natural["x"]
        grad = q.fisher_product(jax.tree.map(jnp.subtract, natural, q))
        return jnp.concatenate(jax.tree.leaves(grad))

    draws = np.asarray(messages(jax.random.split(jax.random.key(0), 200_000)))
    error = draws.std(0) / np.sqrt(len(draws))
    assert np.all(error < 0.01 * np.abs(slope).max())
    np.testing.assert_array_less(np.abs(draws.mean(0) - slope), 6 * error + 1e-6)


def test_a_wider_q_is_found_by_advi():
    """Two humps: the evidence lower bound takes one of them, the importance-weighted bound spreads
    over both."""
    model = vi.density(
        {"x": vi.free()},
        lambda v: jnp.logaddexp(-0.5 * (v["x"] - 2) ** 2, -0.5 * (v["x"] + 2) ** 2),
    )
    for guide in (vi.guides.mean_field(), vi.guides.full_rank()):
        sds = []
        for objective in (None, importance_weighted()):
            alg = vi.advi(model, guide=guide, num_samples=16, objective=objective)
            fit = vi.fit(alg, num_steps=1500, key=jax.random.key(0))
            sds.append(float(np.ravel(fit.posterior["free"].variance())[0]) ** 0.5)
        assert sds[1] > 1.15 * sds[0]


# --- autoencoders ---------------------------------------------------------------------------------
DECODE = np.array([[1.0, -0.5]])
SD = 0.7


def autoencoder(shift):
    encode = lambda p, x: (0.4 * x[:1] + p, jnp.full(1, -0.2))
    decoder = (lambda w, z: jnp.tanh(z @ w), jnp.asarray(DECODE))
    return vi.models.vae(
        (encode, jnp.asarray(shift)), decoder, vi.models.observed.gaussian(sd=SD), latent_dim=1
    )


DRAWS = 4000
ROW = np.array([0.8, -0.3])


def of_row(alpha, shift, num_draws=2):
    """E[L] of one observation, by quadrature."""
    log_p = lambda z: (
        stats.norm.logpdf(z) + stats.norm.logpdf(ROW, np.tanh(z[..., None] * DECODE[0]), SD).sum(-1)
    )
    return expected(alpha, num_draws, 0.4 * ROW[0] + shift, np.exp(-0.2), log_p)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_value_and_gradient_of_an_autoencoder_are_those_of_the_exact_objective(alpha):
    model = autoencoder([0.1])
    estep = vi.estep.amortised(2, objective=renyi(alpha))

    @jax.jit
    @jax.vmap
    def both(key):
        batch = Minibatch(jnp.asarray(ROW[None]), None)
        total = lambda p: (
            model.local_elbo({**model.hyper, "encoder": p}, {}, batch, key, estep).total
        )
        return jnp.stack(
            [total(model.hyper["encoder"]), jax.grad(total)(model.hyper["encoder"])[0]]
        )

    draws = np.asarray(both(jax.random.split(jax.random.key(0), 100_000)))
    error = draws.std(0) / np.sqrt(len(draws))
    exact = [of_row(alpha, 0.1), (of_row(alpha, 0.1 + 1e-4) - of_row(alpha, 0.1 - 1e-4)) / 2e-4]
    np.testing.assert_array_less(np.abs(draws.mean(0) - exact), 6 * error)
    assert (
        abs(of_row(alpha, 0.1, 1) - exact[0]) > 20 * error[0]
    )  # it is not the evidence lower bound


def test_of_one_draw_it_is_the_first_estimator():
    model, batch = autoencoder([0.1]), Minibatch(jnp.asarray(ROW[None]), None)
    said = lambda estep: float(
        jax.jit(lambda: model.local_elbo(model.hyper, {}, batch, KEY, estep).total)()
    )
    plain = said(vi.estep.amortised(1, closed_kl=False))
    assert said(vi.estep.amortised(1, objective=importance_weighted())) == pytest.approx(
        plain, rel=1e-12
    )


def test_a_structured_autoencoder_nears_the_log_density_of_its_rows():
    """log int p(x | u) sum_z exp E[log p(u, z | beta)] du on a grid of the two latents."""
    kind = structured_models.diagonal()
    model, x = structured_models.structured(kind), structured_models.data(kind, 4)
    fit = vi.Fit(
        vi.aevb(model),
        vi.aevb(model).init(jax.random.key(0), Minibatch(jnp.asarray(x), None)),
        {},
        None,
    )
    fit = fit._replace(state=fit.state._replace(posterior=model.prior({})))
    stats = dict(fit.posterior.expected_stats())
    side = np.linspace(-8, 8, 161)
    u = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)

    def inside(u):
        at = {"u": vi.Normal.from_mean_variance(jnp.zeros(2), 1.0).stats(u)}
        each = lambda k: structured_models.diagonal_energy({**stats, **at, "z": kind_of_class(k)})
        return jax.nn.logsumexp(jnp.stack([each(k) for k in range(structured_models.K)]))

    kind_of_class = lambda k: vi.Categorical.from_probs(np.full(structured_models.K, 0.5)).stats(
        jnp.asarray(k)
    )
    fits = norm.logpdf(x[:, None], (u @ kind[-1].T)[None], structured_models.SD).sum(-1)
    joint = np.asarray(jax.vmap(inside)(jnp.asarray(u))) + fits + 2 * np.log(side[1] - side[0])
    exact = np.log(np.exp(joint - joint.max(1, keepdims=True)).sum(1)) + joint.max(1)
    q = fit.locals(x, key=jax.random.key(0))["u"]
    density = norm.logpdf(u, np.asarray(q.mean())[:, None], np.sqrt(q.variance())[:, None]).sum(-1)
    second = np.log(
        np.exp(2 * joint - density - 2 * np.log(side[1] - side[0]) - 2 * exact[:, None]).sum(1)
    )
    error = np.sqrt(np.expm1(second) / DRAWS)
    tight = model.bound(fit, x, key=jax.random.key(0), num_samples=DRAWS)
    assert np.sort(error)[1] < 0.01  # of the others q(u) misses a mode
    np.testing.assert_array_less(np.abs(tight - exact), 5 * error)
    batch, plain = Minibatch(jnp.asarray(x), None), vi.estep.structured(50, DRAWS)
    loose = jax.jit(
        lambda: model.local_elbo(model.hyper, stats, batch, jax.random.key(1), plain).per_group
    )()
    assert np.all(loose < exact + 0.03)  # its own error is near 0.01
    assert np.mean(exact - loose) > 0.05


def test_new_rows_have_the_moments_of_the_mixture():
    kind = structured_models.diagonal()
    model = structured_models.structured(kind)
    means, sd, weights = np.array([[-3.0, 1.0], [2.0, 0.0]]), 0.5, np.array([0.7, 0.3])
    sure = vi.Product(
        {
            "weights": vi.Dirichlet.from_concentration(1e6 * weights),
            "components": vi.NormalGamma.from_parameters(means, 1e6, 1e6, 1e6 * sd**2),
        }
    )
    rows = Minibatch(jnp.asarray(structured_models.data(kind, 4)), None)
    fit = vi.Fit(vi.aevb(model), vi.aevb(model).init(jax.random.key(0), rows), {}, None)
    fit = fit._replace(state=fit.state._replace(posterior=sure))
    num = 20_000
    made = np.asarray(model.generate(fit, jax.random.key(1), num))
    centre = weights @ means
    cov = sd**2 * np.eye(2) + (weights[:, None] * (means - centre)).T @ (means - centre)
    w = kind[-1]
    error = np.sqrt(np.diag(w @ cov @ w.T) / num)
    np.testing.assert_array_less(np.abs(made.mean(0) - w @ centre), 6 * error)
    np.testing.assert_allclose(np.cov(made.T), w @ cov @ w.T, atol=0.05 * np.abs(cov).max())


def test_what_is_asked_again_compiles_nothing():
    kind = structured_models.diagonal()
    model, x = structured_models.structured(kind), structured_models.data(kind, 4)
    start = vi.aevb(model).init(jax.random.key(0), Minibatch(jnp.asarray(x), None))
    fit = vi.Fit(vi.aevb(model), start, {}, None)

    def ask(seed):
        model.generate(fit, jax.random.key(seed), 3)
        model.bound(fit, x, key=jax.random.key(seed), num_samples=2)

    ask(1)
    before = compiled()
    ask(2)
    assert compiled() == before


def test_what_is_refused():
    for bad in (np.inf, "half", True):
        with pytest.raises(ValueError, match=r"^alpha: expected a finite number"):
            renyi(bad)
    with pytest.raises(ValueError, match=naming("objective:", "vijax.objective")):
        vi.estep.amortised(2, objective="iwae")
    model = vi.density({"x": vi.free()}, lambda v: -(v["x"] ** 2))
    with pytest.raises(ValueError, match=r"^objective: expected"):
        vi.advi(model, objective=0.5)
    with pytest.raises(
        ValueError,
        match=naming("estimator:", "'components'"),
    ):
        vi.svi(
            vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1)),
            estimator=vi.estimator.weighted(),
        )
