"""The mixture of Blei, Kucukelbir and McAuliffe 2017, sections 2 and 3: Algorithm 2 and eq. 36,
transcribed in NumPy."""

import functools

import jax
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from vijax.evaluate import log_predictive_density
from vijax.models import emission

RNG = np.random.default_rng(0)
Y = RNG.normal(np.repeat([-3.0, 0.5, 4.0], 15), 1.0)
SPREAD, K = 6.0, 3  # prior variance of the means


def model(init=None):
    return vi.models.mixture(
        emission.unit_gaussian(K, dim=1, variance=SPREAD), weights=1 / K, init=init
    )


def algorithm_2(m, s2, steps):
    """Means, variances and the bound (eq. 21) of each sweep; eq. 26 for assignments, eq. 34 for
    components."""
    history = []
    for _ in range(steps):
        score = Y[:, None] * m - 0.5 * (m**2 + s2)
        phi = special.softmax(score, axis=1)
        log_prior = -0.5 * np.log(2 * np.pi * SPREAD) - 0.5 * (m**2 + s2) / SPREAD
        log_lik = -0.5 * np.log(2 * np.pi) - 0.5 * Y[:, None] ** 2 + score
        entropy = -np.sum(special.xlogy(phi, phi)) + 0.5 * np.sum(np.log(2 * np.pi * np.e * s2))
        bound = np.sum(log_prior) + np.sum(phi * (np.log(1 / K) + log_lik)) + entropy
        history.append((m, s2, bound))
        s2 = 1 / (1 / SPREAD + phi.sum(0))
        m = s2 * (phi * Y[:, None]).sum(0)
    return history


@functools.lru_cache
def fitted(steps=25):
    with jax.enable_x64(True):
        alg = vi.cavi(model(vi.init.random_responsibilities()))
        start = jax.jit(alg.init)(jax.random.key(0), Y[:, None])
        fit = vi.fit(alg, Y[:, None], state=start, num_steps=steps, key=jax.random.key(0))
        moments = lambda q: (np.asarray(q.mean())[:, 0], np.asarray(q.variance())[:, 0])
        return moments(start.posterior["components"]), moments(fit.posterior["components"]), fit


def test_trajectory_is_that_of_algorithm_2():
    start, end, fit = fitted()
    history = algorithm_2(*start, 26)
    np.testing.assert_allclose(fit.trace["elbo"], [h[2] for h in history[:25]], rtol=1e-10)
    np.testing.assert_allclose(end, history[25][:2], rtol=1e-10)
    assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))
    assert list(fit.posterior) == ["components"]


def test_predictive_density():
    """Eq. 36, 1/K sum N(y; m_k, 1); and the integral it stands for, 1/K sum N(y; m_k, 1 +
    s_k^2)."""
    _, (m, s2), fit = fitted()
    new = np.linspace(-6, 6, 9)[:, None]
    with jax.enable_x64(True):
        made, q = emission.unit_gaussian(K, 1), fit.posterior["components"]
        printed = log_predictive_density(
            made, q, np.full(K, 1 / K), new, plug_in=True
        ).log_densities
        exact = fit.score(new, key=jax.random.key(0)).log_densities
    np.testing.assert_allclose(printed, np.log(stats.norm(m).pdf(new).mean(1)), rtol=1e-10)
    np.testing.assert_allclose(
        exact, np.log(stats.norm(m, np.sqrt(1 + s2)).pdf(new).mean(1)), rtol=1e-10
    )


def test_restarts_keep_the_best_of_ten():
    alg = vi.cavi(model(vi.init.random_responsibilities()))
    fit = vi.fit(
        alg, Y[:, None].astype(np.float32), num_steps=60, restarts=10, key=jax.random.key(1)
    )
    ends = fit.trace["restart_elbo"][-1]
    assert ends.shape == (10,)
    np.testing.assert_allclose(fit.trace["elbo"][-1], ends.max())
    np.testing.assert_allclose(
        np.sort(fit.posterior["components"].mean()[:, 0]), [-3, 0.5, 4], atol=0.6
    )


@pytest.mark.parametrize("weights", [0.5, [0.5, 0.5], [0.5, 0.6, -0.1]])
def test_weights_that_cannot_be(weights):
    with pytest.raises(ValueError, match="weights: expected"):
        vi.models.mixture(emission.unit_gaussian(3, dim=1), weights=weights)
