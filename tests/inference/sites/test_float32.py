"""Divergences and means of sites in float32 against 40 digits, on smooth kernels: strongly
correlated sites."""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from vijax.inference.sites import FeatureForm, KernelForm, SitePosterior

N = 12
JITTERS, WEIGHTS = (1e-2, 1e-4, 1e-6), (1e-3, 1.0, 1e2, 1e4)


@functools.cache
def case(jitter, weight):
    """A kernel and two sets of sites, all of them float32 numbers, with precisions about `weight`
    over the prior's."""
    rng, x = np.random.default_rng(0), np.linspace(0, 1, N)
    kernel = np.float32(np.exp(-0.5 * ((x[:, None] - x) / 0.3) ** 2) + jitter * np.eye(N))
    g = np.float32(weight * rng.gamma(1.0, size=N))
    a = np.float32(g * (np.sin(6 * x) + rng.normal(size=N) / np.sqrt(weight)))
    return kernel, (a, g), (np.float32(1.2 * a), np.float32(1.3 * g))


@functools.cache
def truth(jitter, weight):
    """The mean, KL(q || prior) and KL(q || other), from inverses and determinants."""
    with mpmath.workdps(40):
        kernel, *pair = case(jitter, weight)
        precision = mpmath.matrix(kernel.tolist()) ** -1
        laws = [(precision, mpmath.zeros(N, 1))]
        for a, g in pair:
            p = precision + mpmath.diag(g.tolist())
            laws.append((p, mpmath.lu_solve(p, mpmath.matrix(a.tolist()))))
        prior, q, other = laws
        return np.array([float(x) for x in q[1]]), divergence(q, prior), divergence(q, other)


def divergence(q, p):
    ratio, shift = p[0] * q[0] ** -1, q[1] - p[1]
    trace = mpmath.fsum(ratio[i, i] for i in range(N))
    return float(trace - N - mpmath.log(mpmath.det(ratio)) + (shift.T * p[0] * shift)[0]) / 2


def posterior(form, kernel, sites):
    if form == "kernel":
        return SitePosterior(*map(jnp.asarray, sites), KernelForm(jnp.asarray(kernel)))
    root = np.float32(np.linalg.cholesky(np.float64(kernel)))
    return SitePosterior(*map(jnp.asarray, sites), FeatureForm(jnp.asarray(root)))


@jax.jit
def facts(q, prior, other):
    return q.kl(prior), q.kl(other), q.mean()


@pytest.mark.parametrize("form", ["kernel", "feature"])
@pytest.mark.parametrize("jitter", JITTERS)
def test_divergences_are_right_to_what_the_docstring_says(form, jitter):
    for weight in WEIGHTS:
        kernel, sites, others = case(jitter, weight)
        q = posterior(form, kernel, sites)
        prior, other = (
            q.with_naturals([jnp.zeros(N), jnp.zeros(N)]),
            q.with_naturals(list(map(jnp.asarray, others))),
        )
        mean, to_prior, to_other = truth(jitter, weight)
        from_prior, from_other, found = facts(q, prior, other)
        assert float(from_prior) == pytest.approx(to_prior, rel=2e-4, abs=1e-8), weight
        assert float(from_other) == pytest.approx(
            to_other, rel=2e-2 if weight > 1e2 else 2e-3, abs=1e-6
        ), weight
        np.testing.assert_allclose(found, mean, atol=2e-3 * np.max(np.abs(mean)))


def test_a_site_without_precision_beside_strong_ones():
    """g = 0 and a != 0 (a linear site), which no division by g may touch."""
    kernel, (a, g), _ = case(1e-2, 1e2)
    g = np.where(np.arange(N) % 3 == 0, np.float32(0), g)
    q = posterior("kernel", kernel, (np.float32(a), g))
    wide = np.linalg.inv(np.linalg.inv(np.float64(kernel)) + np.diag(np.float64(g)))
    np.testing.assert_allclose(q.mean(), wide @ a, atol=1e-5 * np.max(np.abs(wide @ a)))
