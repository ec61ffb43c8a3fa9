"""Every form of a prior against dense NumPy linear algebra, float64; the family of sites against
autodiff of its A."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from vijax import tree
from vijax.inference.sites import FeatureForm, KernelForm, SitePosterior, Sites, SparseFeatureForm
from vijax.inference.sites.forms import covariance_root
from vijax.inference.sites.posterior import SiteStats

N, D = 7, 9
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.5)
A, G = RNG.normal(size=N), RNG.gamma(1.0, size=N)
K = X @ X.T
NEW = RNG.normal(size=(3, D)) * (RNG.random((3, D)) < 0.5)
MIXED = G.copy()
MIXED[2] = -0.05  # a site of negative precision, inside the domain
ROWS = [
    0,
    6,
    3,
    1,
    5,
    2,
    4,
]  # among them, for the sparse form, a padded one with an entry in column 0

FORMS = {
    "kernel": lambda: KernelForm(jnp.asarray(K)),
    "feature": lambda: FeatureForm(jnp.asarray(X)),
    "sparse": lambda: SparseFeatureForm.from_scipy(scipy.sparse.csr_array(X)),
}


def new_inputs(name):
    if name == "kernel":
        return jnp.asarray(X @ NEW.T), jnp.asarray(np.sum(NEW**2, 1))
    if name == "feature":
        return jnp.asarray(NEW)
    form = SparseFeatureForm.from_scipy(scipy.sparse.csr_array(NEW))
    return form.columns, form.values


def dense(g):
    """V = (I + K G)^-1 K, m = V a, log |I + K G|, m' K^-1 m = a' V (I + G K)^-1 a."""
    left = np.linalg.inv(np.eye(N) + K @ np.diag(g))
    cov = left @ K
    return (
        cov @ A,
        cov,
        -np.linalg.slogdet(left)[1],
        A @ cov @ np.linalg.solve(np.eye(N) + np.diag(g) @ K, A),
    )


@pytest.mark.parametrize(
    ("name", "precision"),
    [("kernel", G), ("feature", G), ("sparse", G), ("feature", MIXED), ("sparse", MIXED)],
    ids=["kernel", "feature", "sparse", "feature-negative", "sparse-negative"],
)
def test_form_against_dense_algebra(name, precision):
    mean, cov, log_det, quadratic = dense(precision)
    with jax.enable_x64(True):
        form, sites = FORMS[name](), Sites(jnp.asarray(A), jnp.asarray(precision))

        @jax.jit
        def everything(form, sites, new):
            factor = form.condition(sites)
            rows = jnp.array([4, 1])
            return (
                factor,
                form.marginals(factor, rows),
                form.covariance(factor, jnp.array(ROWS)),
                form.predict(factor, new),
            )

        factor, (m, v), v_block, (new_m, new_v) = everything(form, sites, new_inputs(name))
        assert bool(form.in_domain(sites))
        far = Sites(sites.linear, jnp.full(N, -100.0))
        assert not bool(form.in_domain(far))
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)
    close(factor.log_det, log_det)
    close(factor.quadratic, quadratic)
    close(m, mean[[4, 1]])
    close(v, np.diag(cov)[[4, 1]])
    close(v_block, cov[np.ix_(ROWS, ROWS)])
    precision_w = np.eye(D) + X.T @ np.diag(precision) @ X
    close(new_m, NEW @ np.linalg.solve(precision_w, X.T @ A))
    close(new_v, np.diag(NEW @ np.linalg.solve(precision_w, NEW.T)))


@pytest.mark.parametrize("size", [5, 257])  # as one block, and in blocks of unequal sizes
def test_form_of_a_root_against_dense_algebra(size):
    rng = np.random.default_rng(1)
    x, a, g = rng.normal(size=(size, size)), rng.normal(size=size), rng.gamma(1.0, size=size)
    g[2] = -1e-3
    k = x @ x.T / size + 0.1 * np.eye(size)
    cov = np.linalg.inv(np.linalg.inv(k) + np.diag(g))
    with jax.enable_x64(True):
        root, sites = FeatureForm.from_kernel(jnp.asarray(k)), Sites(jnp.asarray(a), jnp.asarray(g))
        for form in (root, FeatureForm(root.features)):
            factor = jax.jit(form.condition)(sites)
            mean, variance = form.marginals(factor)
            close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
            close(mean, cov @ a)
            close(variance, np.diag(cov))
            close(factor.log_det, np.linalg.slogdet(np.eye(size) + k @ np.diag(g))[1])


def test_sites_are_an_exponential_family():
    """Mean statistics, Fisher products and KL against autodiff of A, and the solve against the
    product."""
    with jax.enable_x64(True):
        k = jnp.asarray(K + 0.1 * np.eye(N))
        prior = FeatureForm(jnp.linalg.cholesky(k))
        q = SitePosterior(jnp.asarray(A), jnp.asarray(G), prior)
        tangent = q.with_naturals(
            [jnp.asarray(RNG.normal(size=N)), jnp.asarray(RNG.normal(size=N))]
        )
        leaves = (q.sites.linear, q.sites.precision)
        log_normalizer = lambda a, g: SitePosterior(a, g, prior).log_normalizer()
        slope = jax.grad(log_normalizer, argnums=(0, 1))(*leaves)
        hessian = jax.jvp(jax.grad(log_normalizer, argnums=(0, 1)), leaves, tuple(tangent.sites))[1]
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
        for a, b in zip(q.expected_stats(), slope, strict=True):
            close(a, b)
        product = q.fisher_product(tangent)
        for a, b in zip(product, hessian, strict=True):
            close(a, b)
        for a, b in zip(q.fisher_solve(product).sites, tangent.sites, strict=True):
            close(a, b)
        m, cov = q.mean(), prior.covariance(q.condition(), jnp.arange(N))
        gaussian = 0.5 * (
            jnp.trace(jnp.linalg.solve(k, cov))
            - N
            + m @ jnp.linalg.solve(k, m)
            + jnp.linalg.slogdet(k)[1]
            - jnp.linalg.slogdet(cov)[1]
        )
        close(q.kl(q.with_naturals([jnp.zeros(N), jnp.zeros(N)])), gaussian)
        other = q.with_naturals([jnp.ones(N), 2 * jnp.asarray(G)])
        gap = tree.subtract(q, other)
        bregman = gap.dot(q.expected_stats()) - q.log_normalizer() + other.log_normalizer()
        close(q.kl(other), bregman)


def test_draws_have_the_moments():
    """20,000 draws, six standard errors."""
    q = SitePosterior(
        jnp.asarray(A, jnp.float32), jnp.asarray(G, jnp.float32), FeatureForm(jnp.asarray(X))
    )
    z = np.asarray(q.sample(jax.random.key(0), (20_000,)))
    mean, cov, *_ = dense(G)
    assert np.all(np.abs(z.mean(0) - mean) < 6 * np.sqrt(np.diag(cov) / len(z)) + 1e-4)
    spread = np.sqrt(np.outer(np.diag(cov), np.diag(cov)) + cov**2)
    assert np.all(np.abs(np.cov(z.T) - cov) < 6 * spread / np.sqrt(len(z)) + 1e-4)
    stats = q.stats(jnp.asarray(z[0]))
    assert isinstance(stats, SiteStats)
    np.testing.assert_allclose(stats.minus_half_square, -0.5 * z[0] ** 2)


def test_a_root_of_a_singular_covariance():
    factor = np.array([[1.0, 0.5], [-2.0, 0.3], [0.7, 0.0]], np.float32)
    root = covariance_root(jnp.asarray(factor @ factor.T))
    np.testing.assert_allclose(root @ root.T, factor @ factor.T, atol=1e-5)
