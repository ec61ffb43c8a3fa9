"""Sites beside a conjugate global in one model: labels that are wrong at an unknown rate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import vijax as vi
from tests.naming import naming

RNG = np.random.default_rng(1)
N = 60
X = np.sort(RNG.uniform(-3, 3, N))
RIGHT = np.where(RNG.uniform(size=N) < special.expit(9 * np.sin(1.5 * X)), 1, -1)
Y = np.float32(np.where(RNG.uniform(size=N) < 0.15, -RIGHT, RIGHT))
ALPHA, BETA = 1.0, 4.0
HERMITE, WEIGHT = np.polynomial.hermite_e.hermegauss(80)
WEIGHT = WEIGHT / WEIGHT.sum()


def rbf(a, b):
    return 16 * jnp.exp(-0.5 * (a[:, None] - b[None, :]) ** 2)


def classifier(size=N):
    return vi.models.gp(
        X[:size],
        Y[:size],
        rbf,
        lambda hyper, s: vi.likelihood.noisy_labels(s["flip"]),
        jitter=1e-2,
        others={"flip": vi.Beta.from_alpha_beta(ALPHA, BETA)},
    )


def test_a_step_of_both_globals_is_that_of_their_conditionals():
    """At the prior, by Gauss-Hermite quadrature: the Beta's message counts the labels expected
    wrong and right."""
    with jax.enable_x64(True):
        model = classifier(12)
        alg = vi.pg_svi(model, step_size=vi.step_size.constant(0.5))
        key = jax.random.key(0)
        state, info = jax.jit(alg.step)(key, alg.init(key), model.data)
        sd = np.sqrt(16 + 1e-2)
        log_wrong, log_right = (
            special.digamma(x) - special.digamma(ALPHA + BETA) for x in (ALPHA, BETA)
        )
        z, y = sd * HERMITE, Y[:12, None]
        log_odds = log_right + special.log_expit(y * z) - log_wrong - special.log_expit(-y * z)
        right = special.expit(log_odds) @ WEIGHT
        value = (
            np.logaddexp(
                log_right + special.log_expit(y * z), log_wrong + special.log_expit(-y * z)
            )
            @ WEIGHT
        )
        new = state.posterior["flip"]
    np.testing.assert_allclose(new.alpha, ALPHA + 0.5 * np.sum(1 - right), rtol=1e-3)
    np.testing.assert_allclose(new.beta, BETA + 0.5 * np.sum(right), rtol=1e-3)
    np.testing.assert_allclose(
        info.elbo, value.sum(), rtol=1e-3
    )  # the quadrature of a kink, at 80 nodes


def test_predictions_are_of_the_mean_rate():
    """(1 - E e) E sigma(z) + E e E sigma(-z): linear in e, and so exact."""
    model = classifier(12)
    fit = vi.fit(vi.pg_svi(model), model.data, num_steps=5, key=jax.random.key(0))
    mean, variance = (np.asarray(x, float) for x in model.predict(fit.posterior, np.array([0.3])))
    up = special.expit(mean + np.sqrt(variance) * HERMITE) @ WEIGHT
    rate = float(fit.posterior["flip"].mean())
    got = model.predictive(fit.posterior, np.array([0.3]), 1.0)
    np.testing.assert_allclose(got, (1 - rate) * up + rate * (1 - up), rtol=1e-3)
    np.testing.assert_allclose(model.elbo(fit.posterior), bound_after(model, fit), rtol=1e-5)


def bound_after(model, fit):
    alg = vi.pg_svi(model)
    return jax.jit(alg.step)(jax.random.key(0), fit.state, model.data)[1].elbo


def test_a_likelihood_that_reads_no_statistics_is_refused():
    with pytest.raises(ValueError, match=naming("likelihood:", "function")):
        vi.models.gp(
            X,
            Y,
            rbf,
            vi.likelihood.bernoulli_logit(),
            others={"flip": vi.Beta.from_alpha_beta(1.0, 1.0)},
        )


def test_memory_wants_decreasing_steps_for_the_other_globals():
    model = classifier(12)
    with pytest.raises(ValueError, match=naming("step_size:", "'flip'")):
        vi.pg_svi(model, memory=True)
    alg = vi.pg_svi(model, memory=True, inner_steps=2, step_size=vi.step_size.robbins_monro())
    assert [repr(alg.spec.update.choice(name)) for name in ("z", "flip")] == [
        "block(num_steps=2)",
        "kl()",
    ]
    assert vi.pg_svi(model, mean="exact").spec.update.choice("flip") == vi.update.kl()


@pytest.mark.slow
def test_against_a_sampler():
    """8,000 draws of the No-U-Turn sampler (blackjax) of predictors and rate, from a log density
    written here."""
    blackjax = pytest.importorskip("blackjax")
    model = classifier()
    fit = vi.fit(vi.pg_svi(model), model.data, num_steps=100, key=jax.random.key(0))
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-4)
    root = np.float32(np.linalg.cholesky(np.asarray(rbf(X, X)) + 1e-2 * np.eye(N)))

    def log_density(p):
        z, log_wrong, log_right = (
            root @ p["w"],
            jax.nn.log_sigmoid(p["e"]),
            jax.nn.log_sigmoid(-p["e"]),
        )
        each = jnp.logaddexp(
            log_right + jax.nn.log_sigmoid(Y * z), log_wrong + jax.nn.log_sigmoid(-Y * z)
        )
        return jnp.sum(each) - 0.5 * jnp.sum(p["w"] ** 2) + ALPHA * log_wrong + BETA * log_right

    start = {"w": jnp.zeros(N), "e": jnp.array(-1.5)}
    warm = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), _ = warm.run(jax.random.key(1), start, 1000)
    kernel = blackjax.nuts(log_density, **parameters)

    def one(state, key):
        state, _ = kernel.step(key, state)
        return state, state.position

    _, draws = jax.jit(lambda s: jax.lax.scan(one, s, jax.random.split(jax.random.key(2), 8000)))(
        state
    )
    rate, z = special.expit(np.asarray(draws["e"])), np.asarray(draws["w"]) @ root.T
    mean, variance = fit.posterior["z"].marginals()
    assert (
        abs(rate.mean() - float(fit.posterior["flip"].mean())) < 0.15 * rate.std()
    )  # measured: .06
    assert np.max(np.abs(z.mean(0) - mean) / z.std(0)) < 0.15  # measured: .05
    assert (
        np.min(np.sqrt(variance) / z.std(0)) > 0.7
    )  # measured: .79: mean field between predictors and rate
