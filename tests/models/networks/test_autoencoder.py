"""Autoencoders against linear Gaussian models, of which everything is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi
from tests.naming import naming
from tests.programs import compiled
from vijax.contract.batch import Minibatch

KEY = jax.random.key(0)
W = np.array([[1.0, -0.5, 0.3]], np.float32)  # x = z w + noise, one latent variable
SD = 0.5


def exact_encoder(params, x):
    """The posterior of z: N(w.x / (sd^2 + |w|^2), sd^2 / (sd^2 + |w|^2))."""
    total = SD**2 + (W**2).sum()
    return (W @ x) / total + params, jnp.full(1, 0.5 * np.log(SD**2 / total))


def linear(w, z):
    return z @ w


def model(encoder=exact_encoder, **more):
    observed = vi.models.observed.gaussian(sd=SD)
    return vi.models.vae((encoder, jnp.zeros(1)), (linear, W), observed, latent_dim=1, **more)


def data(n=200):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(n, 1)) @ W + SD * rng.normal(size=(n, 3))).astype(np.float32)


def log_evidence(x):
    cov = W.T @ W + SD**2 * np.eye(3)
    return (
        -0.5 * np.einsum("ni,ij,nj->n", x, np.linalg.inv(cov), x)
        - 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
    )


def bounds(m, estep, keys=1):
    alg = vi.aevb(m, estep=estep)
    state = alg.init(KEY)
    step = jax.jit(lambda key: alg.step(key, state, Minibatch(data(), None))[1].per_group)
    return np.stack([np.asarray(step(key)) for key in jax.random.split(jax.random.key(1), keys)])


def test_with_the_exact_posterior_the_first_estimator_is_the_log_evidence_at_every_draw():
    np.testing.assert_allclose(
        bounds(model(), vi.estep.amortised(closed_kl=False))[0],
        log_evidence(data()),
        rtol=1e-4,
        atol=1e-4,
    )


def test_with_the_exact_posterior_the_second_estimator_is_so_on_average():
    each = bounds(model(), vi.estep.amortised(num_samples=8), keys=50)
    error = each.std(0) / np.sqrt(50)
    assert np.abs((each.mean(0) - log_evidence(data())) / error).max() < 5


def test_both_estimators_have_one_mean_where_the_encoder_is_wrong():
    wrong = lambda params, x: (0.5 * x[:1], jnp.full(1, -0.3))
    one, two = (
        bounds(model(wrong), vi.estep.amortised(closed_kl=closed), keys=200)
        for closed in (True, False)
    )
    error = np.hypot(one.std(0), two.std(0)) / np.sqrt(200)
    assert np.abs((one.mean(0) - two.mean(0)) / error).max() < 5


def test_importance_weights_tighten_the_bound():
    wrong = lambda params, x: (jnp.zeros(1) + params, jnp.zeros(1))  # the prior as q
    m = model(wrong)
    fit = vi.fit(vi.aevb(m, learning_rate=1e-9), data(), num_steps=1, key=KEY)
    exact = log_evidence(data()).mean()
    loose, tight = (m.bound(fit, data(), key=KEY, num_samples=n).mean() for n in (1, 500))
    assert loose < exact - 0.5
    assert abs(tight - exact) < 0.02


def test_what_is_asked_again_compiles_nothing():
    m = model()
    fit = vi.fit(vi.aevb(m), data(), num_steps=1, key=KEY)

    def ask(seed):
        m.reconstruct(fit, data())
        m.generate(fit, jax.random.key(seed), 5)
        m.bound(fit, data(), key=jax.random.key(seed), num_samples=3)

    ask(1)
    before = compiled()
    ask(2)
    assert compiled() == before
    with pytest.raises(ValueError, match="num_draws"):
        m.generate(fit, KEY, 0)


def test_refinement_helps_a_poor_encoder():
    wrong = lambda params, x: (jnp.zeros(1) + params, jnp.zeros(1))
    plain, refined = (
        bounds(model(wrong), vi.estep.amortised(64, refinements=n), 4).mean() for n in (0, 30)
    )
    exact = log_evidence(data()).mean()
    assert exact - refined < 0.3 * (exact - plain)


def test_learning_reaches_the_maximum_of_probabilistic_pca():
    """Known noise: w w' = the top of the covariance less the noise (Tipping and Bishop 1999, eq.
    15)."""
    x = data(400)
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    best = vectors[:, -1:] * np.sqrt(values[-1] - SD**2)
    cov = best @ best.T + SD**2 * np.eye(3)
    exact = (
        np.mean(-0.5 * np.einsum("ni,ij,nj->n", x, np.linalg.inv(cov), x))
        - 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
    )
    encode = lambda p, x: (x @ p["w"], p["log_sd"])
    m = vi.models.vae(
        (encode, {"w": 0.1 * np.ones((3, 1), np.float32), "log_sd": np.zeros(1, np.float32)}),
        (linear, 0.1 * np.ones((1, 3), np.float32)),
        vi.models.observed.gaussian(sd=SD),
        latent_dim=1,
    )
    alg = vi.aevb(m, learning_rate=0.02, estep=vi.estep.amortised(4))
    fit = vi.fit(alg, x, num_epochs=60, batch_size=50, key=KEY)
    assert m.bound(fit, x, key=KEY, num_samples=50).mean() == pytest.approx(exact, abs=0.03)
    found = np.asarray(fit.state.hyper["decoder"])
    np.testing.assert_allclose(found.T @ found, best @ best.T, atol=0.12)
    assert fit.locals(x, key=KEY)["z"].mean().shape == (400, 1)
    assert m.generate(fit, KEY, 5).shape == (5, 3)


def test_a_posterior_over_the_decoder_is_that_of_the_weights():
    """Of many observations the weights' posterior is narrow about the maximum; of few it is near
    the prior."""
    wide, narrow = (_sd_of_weights(n) for n in (3, 600))
    assert narrow < 0.1
    assert wide > 2.5 * narrow


def _sd_of_weights(n):
    m = model(bayesian=True)
    fit = vi.fit(vi.aevb(m, learning_rate=0.02), data(n), num_steps=600, key=KEY)
    draws = fit.sample(jax.random.key(1), 500)["decoder"]
    assert draws.shape == (500, 1, 3)
    return float(np.asarray(draws).std(0).mean())


def test_choices_of_the_user_are_kept_and_the_row_has_the_rest():
    """One estimator for all is that of the weights too; one update by name leaves Adam to the
    others."""
    four = vi.estimator.reparameterised(num_samples=4)
    assert vi.aevb(model(bayesian=True), estimator=four).spec.estimator.choice("free") == four
    m = vi.energy_model(
        globals={"w": vi.free(1), "precision": vi.Gamma.from_shape_rate(2.0, 1.0)},
        energy=lambda s, y, h: (
            s["precision"].log - s["precision"].value * (y - h["net"] - s["w"][0]) ** 2
        ),
        example=0.5,
        points={"net": np.zeros(())},
    )
    spec = vi.aevb(m, update={"precision": vi.update.mirror()}, estimator={"precision": four}).spec
    assert spec.update.choice("precision") == vi.update.mirror()
    assert isinstance(spec.update.choice("free"), vi.update.descend)
    assert spec.estimator.choice("free") == vi.estimator.reparameterised(num_samples=1)


def test_the_prior_of_the_weights_is_counted_once_a_pass():
    """The objective of minibatches, averaged over a pass at one draw of the weights, is that of all
    the data."""
    m = model(bayesian=True)
    alg = vi.aevb(
        m, estep=vi.estep.amortised(closed_kl=False)
    )  # at the exact encoder nothing depends on the noise of z
    state, step = jax.jit(alg.init)(KEY), jax.jit(alg.step)
    narrow = state.posterior["free"]
    narrow = type(narrow).from_mean_variance(narrow.mean(), 1e-6 * jnp.ones(3))
    state = state._replace(posterior=state.posterior.replace({"free": narrow}))
    x = data(40)
    whole = float(step(KEY, state, Minibatch(x, 40.0))[1].elbo)
    parts = [
        float(step(KEY, state, Minibatch(x[i : i + 10], 40.0))[1].elbo) for i in range(0, 40, 10)
    ]
    assert np.mean(parts) == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize(
    ("observed", "good", "bad"),
    [
        (vi.models.observed.bernoulli(), [[0.0, 1.0]], [[0.5, 1.0]]),
        (vi.models.observed.gaussian(), [[0.5, -1.0]], [[np.inf, 0.0]]),
        (vi.models.observed.categorical(3), [[0, 2]], [[0, 3]]),
    ],
)
def test_data_outside_the_support_are_refused(observed, good, bad):
    observed.check(np.array(good))
    with pytest.raises(ValueError, match="data: expected"):
        observed.check(np.array(bad))


def test_likelihoods_are_those_of_scipy():
    from scipy import stats

    x, logits = np.array([0.0, 1.0, 1.0]), np.array([0.3, -1.0, 2.0], np.float32)
    p = 1 / (1 + np.exp(-logits))
    ours = vi.models.observed.bernoulli().log_prob(jnp.asarray(logits), jnp.asarray(x))
    assert float(ours) == pytest.approx(stats.bernoulli.logpmf(x, p).sum(), rel=1e-5)
    mean, log_sd = np.array([0.1, 2.0, 0.0], np.float32), np.array([-1.0, 0.2, 0.0], np.float32)
    ours = vi.models.observed.gaussian().log_prob(
        (jnp.asarray(mean), jnp.asarray(log_sd)), jnp.asarray(x)
    )
    assert float(ours) == pytest.approx(stats.norm.logpdf(x, mean, np.exp(log_sd)).sum(), rel=1e-5)
    table = np.log(np.array([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]], np.float32)) + 4
    ours = vi.models.observed.categorical(3).log_prob(jnp.asarray(table), jnp.array([2, 1]))
    assert float(ours) == pytest.approx(np.log(0.5) + np.log(0.8), rel=1e-5)


@pytest.mark.parametrize(
    ("observed", "output", "x", "said"),
    [
        (
            vi.models.observed.bernoulli(),
            np.zeros(3),
            np.zeros((3, 1)),
            r"logits of shape \(3, 1\), got \(3,\)",
        ),
        (
            vi.models.observed.gaussian(sd=1.0),
            np.zeros(1),
            np.zeros(3),
            r"means of shape \(3,\), got \(1,\)",
        ),
        (
            vi.models.observed.gaussian(),
            (np.zeros(3), np.zeros(1)),
            np.zeros(3),
            r"log standard deviations of shape",
        ),
        (
            vi.models.observed.categorical(4),
            np.zeros((3, 2)),
            np.zeros(3),
            r"logits of shape \(3, 4\), got \(3, 2\)",
        ),
        (
            vi.models.observed.categorical(4),
            np.zeros(4),
            np.zeros(3),
            r"An observation has shape \(3,\)",
        ),
    ],
)
def test_a_decoder_of_another_shape_is_not_broadcast(observed, output, x, said):
    with pytest.raises(ValueError, match=f"decoder: expected .*{said}"):
        observed.log_prob(jax.tree.map(jnp.asarray, output), jnp.asarray(x))


def test_one_log_sd_may_be_that_of_all_entries():
    ours = vi.models.observed.gaussian().log_prob((jnp.zeros(3), jnp.zeros(())), jnp.ones(3))
    assert float(ours) == pytest.approx(3 * float(norm.logpdf(1.0)), rel=1e-6)


def test_networks_that_are_none_are_refused():
    observed = vi.models.observed.gaussian(sd=1.0)
    with pytest.raises(ValueError, match=naming("encoder:", "(apply, params)", "eqx.partition")):
        vi.models.vae(lambda x: x, (linear, W), observed, latent_dim=1)
    m = vi.models.vae(
        (exact_encoder, jnp.zeros(1)), (linear, np.ones((2, 3), np.float32)), observed, latent_dim=2
    )
    with pytest.raises(ValueError, match=naming("encoder:", "(2,)", "(1,)")):
        vi.fit(vi.aevb(m), data(), num_steps=1, key=KEY)
    with pytest.raises(ValueError, match="model: expected one with points"):
        vi.aevb(vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1)))
    with pytest.raises(ValueError, match=naming("estep:", "vijax.estep.amortised()", "MeanField")):
        vi.aevb(model(), estep=vi.estep.mean_field())


def test_networks_of_equinox_and_flax():
    eqx, nnx = pytest.importorskip("equinox"), pytest.importorskip("flax.nnx")
    arrays, static = eqx.partition(eqx.nn.MLP(3, 2, 8, 1, key=KEY), eqx.is_array)

    def encode(params, x):
        mean, log_sd = jnp.split(eqx.combine(params, static)(x), 2)
        return mean, log_sd

    graph, weights = nnx.split(nnx.Linear(1, 3, rngs=nnx.Rngs(0)))
    decode = lambda params, z: nnx.merge(graph, params)(z)
    m = vi.models.vae(
        (encode, arrays), (decode, weights), vi.models.observed.gaussian(sd=SD), latent_dim=1
    )
    fit = vi.fit(vi.aevb(m, learning_rate=0.01), data(), num_steps=200, key=KEY)
    assert fit.trace["elbo"][-20:].mean() > fit.trace["elbo"][:20].mean() + 50
