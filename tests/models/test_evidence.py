"""Bounds against the evidence by brute force, for models whose own tests have no such check."""

import itertools

import jax
import numpy as np
import pytest
from scipy import integrate, special, stats

import vijax as vi
from vijax.models import emission

RNG = np.random.default_rng(0)
POINTS = np.array([[-2.1], [-1.6], [1.9], [2.6], [2.2]])
X = RNG.normal(size=(12, 1))
RESPONSE = 0.8 * X[:, 0] + 0.5 * RNG.normal(size=12)
TABLE = RNG.normal(size=(8, 1)) @ [[1.0, -0.7]] + 0.4 * RNG.normal(size=(8, 2))


def log_marginal(rows, variance=4.0):
    """Unit-variance normals with a common mean N(0, variance)."""
    return stats.multivariate_normal(np.zeros(len(rows)), np.eye(len(rows)) + variance).logpdf(
        rows[:, 0]
    )


def partitions(n):
    """Every labelling in which new labels come in order: one for each partition."""
    labels = [[0]]
    for _ in range(n - 1):
        labels = [[*z, k] for z in labels for k in range(max(z) + 2)]
    return np.array(labels)


def dp_evidence(concentration):
    """The Chinese restaurant: alpha^K prod (n_k - 1)! / (alpha (alpha + 1) ... (alpha + N - 1))."""
    total = []
    for z in partitions(len(POINTS)):
        sizes = np.bincount(z)
        prior = len(sizes) * np.log(concentration) + special.gammaln(sizes).sum()
        prior -= special.gammaln(concentration + len(z)) - special.gammaln(concentration)
        total.append(prior + sum(log_marginal(POINTS[z == k]) for k in range(len(sizes))))
    return special.logsumexp(total)


def truncated_evidence(concentration, size):
    """Blei and Jordan's truncation: v_k ~ Beta(1, alpha) for k < T, the last stick whole."""
    total = []
    for z in itertools.product(range(size), repeat=len(POINTS)):
        sizes = np.bincount(z, minlength=size)
        later = sizes[::-1].cumsum()[::-1]
        sticks = special.betaln(1 + sizes[:-1], concentration + later[1:]) - special.betaln(
            1, concentration
        )
        own = [log_marginal(POINTS[np.array(z) == k]) for k in range(size) if sizes[k]]
        total.append(np.sum(sticks) + sum(own))
    return special.logsumexp(total)


@pytest.mark.parametrize("truncation", ["finite", "tied"])
def test_dp_mixture(truncation):
    with jax.enable_x64(True):
        model = vi.models.dp_mixture(emission.unit_gaussian(3, 1, variance=4.0), 1.3, truncation)
        fit = vi.fit(vi.cavi(model), POINTS, num_steps=100, key=jax.random.key(0))
    evidence = dp_evidence(1.3) if truncation == "tied" else truncated_evidence(1.3, 3)
    assert (
        evidence - 3.0 < fit.trace["elbo"][-1] < evidence
    )  # the order of the classes, and what mean field cannot say
    assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))


def test_ard_regression():
    """One coefficient: the evidence given the relevance is that of a normal-gamma, a multivariate
    t."""
    shape, rate, c, d = 1.5, 0.8, 2.0, 1.1
    given = lambda a: stats.multivariate_t(
        np.zeros(12), (np.eye(12) + X @ X.T / a) * rate / shape, df=2 * shape
    ).pdf(RESPONSE)
    scale = given(1.0)
    value = integrate.quad(
        lambda a: given(a) / scale * stats.gamma(c, scale=1 / d).pdf(a), 0, np.inf
    )[0]
    with jax.enable_x64(True):
        model = vi.models.ard_regression(1, shape, rate, c, d)
        fit = vi.fit(vi.cavi(model), (X, RESPONSE), num_steps=50, key=jax.random.key(0))
    evidence = np.log(value) + np.log(scale)
    assert evidence - 0.2 < fit.trace["elbo"][-1] < evidence


def test_factor_analysis():
    """One factor, two columns: rows are N(0, w w' + I / tau); w and tau on a grid."""
    w, log_tau = np.linspace(-4, 4, 81), np.linspace(-4, 4, 81)
    w1, w2, lt = np.meshgrid(w, w, log_tau, indexing="ij")
    tau, norm = np.exp(lt), w1**2 + w2**2
    log_p = (
        stats.norm.logpdf(w1)
        + stats.norm.logpdf(w2)
        + stats.gamma(2.0, scale=1 / 1.5).logpdf(tau)
        + lt
    )
    # By Sherman and Morrison: |cov| = (1 + tau |w|^2) / tau^2, cov^-1 = tau (I - tau w w' / (1 +
    # tau |w|^2)).
    projected = (TABLE[:, 0, None, None, None] * w1 + TABLE[:, 1, None, None, None] * w2) ** 2
    quadratic = tau * (np.sum(TABLE**2) - tau * projected.sum(0) / (1 + tau * norm))
    log_p += -0.5 * quadratic - 0.5 * len(TABLE) * (
        np.log1p(tau * norm) - 2 * lt + 2 * np.log(2 * np.pi)
    )
    evidence = special.logsumexp(log_p) + 3 * np.log(0.1)
    with jax.enable_x64(True):
        model = vi.models.factor_analysis(2, 1, "isotropic", intercept=False, shape=2.0, rate=1.5)
        fit = vi.fit(vi.cavi(model), TABLE, num_steps=200, key=jax.random.key(0))
    assert evidence - 3.0 < fit.trace["elbo"][-1] < evidence
