"""Blocks of variables: against the multivariate normal whose covariance is zero between blocks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.scipy.stats import norm
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.families.vector.blocks import Blocks
from vijax.inference.estimator.scores import least_squares

KEY = jax.random.key(0)
M = np.array([1.0, -2.0, 0.5, 0.0])
HALF = np.random.default_rng(0).normal(size=(4, 4))
P = HALF @ HALF.T + np.eye(4)
PLACES = ((0, 1, 3), (2,))
PAIRS = vi.guides.block([("a", "c")])


def model(guide=None):
    """Of a (2), b and c: coordinates in this order."""
    whole = lambda v: jnp.concatenate([v["a"], v["b"][None], v["c"][None]])
    variables = {"c": vi.free(), "a": vi.free(2), "b": vi.free()}
    return vi.density(variables, lambda v: -0.5 * (whole(v) - M) @ P @ (whole(v) - M), guide=guide)


def cut(a, inverted=False):
    """What is within blocks; inverted block by block."""
    found = np.zeros((4, 4))
    for at in PLACES:
        part = a[np.ix_(at, at)]
        found[np.ix_(at, at)] = np.linalg.inv(part) if inverted else part
    return found


@functools.lru_cache
def made(seed):
    rng = np.random.default_rng(seed)
    mean, half = rng.normal(size=4), rng.normal(size=(4, 4))
    cov = cut(half @ half.T + np.eye(4))
    parts = {
        name: vi.MultivariateNormal.from_mean_cov(
            mean[list(at)].astype(np.float32), cov[np.ix_(at, at)].astype(np.float32)
        )
        for name, at in zip("xy", PLACES, strict=True)
    }
    return Blocks(vi.Product(parts), PLACES), stats.multivariate_normal(mean, cov)


def test_it_is_a_multivariate_normal():
    (p, exact), (q, other) = made(0), made(1)
    x = np.random.default_rng(2).normal(size=(3, 4))

    @jax.jit
    def said(p, q, x):
        return (
            p.log_prob(x),
            p.mean(),
            p.cov,
            p.std(),
            p.entropy(),
            p.kl(q),
            p.sample(KEY, (50_000,)),
        )

    log_prob, mean, cov, std, entropy, kl, draws = map(np.asarray, said(p, q, x.astype(np.float32)))
    np.testing.assert_allclose(log_prob, exact.logpdf(x), rtol=1e-4)
    np.testing.assert_allclose(mean, exact.mean, rtol=1e-5)
    np.testing.assert_allclose(cov, exact.cov, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(std, np.sqrt(np.diag(exact.cov)), rtol=1e-4)
    assert float(entropy) == pytest.approx(exact.entropy(), rel=1e-4)
    gap = exact.mean - other.mean
    inverse = np.linalg.inv(other.cov)
    divergence = (
        0.5 * (np.trace(inverse @ exact.cov) + gap @ inverse @ gap - 4)
        + other.entropy()
        - exact.entropy()
    )
    assert float(kl) == pytest.approx(divergence, rel=1e-3)
    draws = draws.astype(np.float64)
    np.testing.assert_allclose(draws.mean(0), exact.mean, atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), exact.cov, atol=0.1)


def test_fisher_information_and_its_inverse():
    p, v = made(0)[0], made(1)[0]
    back = p.fisher_solve(p.fisher_product(v))
    for ours, theirs in zip(jax.tree.leaves(back), jax.tree.leaves(v), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3)


@pytest.mark.parametrize("num_samples", [32, 5])
def test_the_message_is_exact_on_a_normal_target(num_samples):
    """With more draws than coordinates. With fewer each block is fitted by its own, and is right on
    average."""
    q = made(0)[0]
    draws = jax.jit(lambda: q.sample(KEY, (1 if num_samples == 32 else 400, num_samples)))()
    message = lambda x: least_squares(num_samples).message(q, (x, -(x - M) @ P), x[:, 0])
    said = jax.jit(jax.vmap(message))(draws)
    total = np.asarray(said.parts["x"].negative_half_precision, np.float64)
    exact = -0.5 * cut(P)[np.ix_(PLACES[0], PLACES[0])]
    if num_samples == 32:
        np.testing.assert_allclose(total[0], exact, rtol=5e-3, atol=5e-3)
    else:
        standard_errors = total.std(0) / np.sqrt(len(total))
        assert np.abs(total[0] - exact).max() > 0.05
        assert np.all(standard_errors < 0.1 * np.sqrt(np.outer(*2 * [np.diag(-exact)])))
        assert np.all(np.abs(total.mean(0) - exact) < 4 * standard_errors)


def test_natural_gradients_end_at_the_best_blocks():
    """Precision of the target within each block, whatever the order of the variables."""
    fit = vi.fit(vi.ngvi(model(), guide=PAIRS), num_steps=200, key=KEY)
    np.testing.assert_allclose(fit.posterior["free"].mean(), M, atol=1e-3)
    np.testing.assert_allclose(fit.posterior["free"].cov, cut(P, inverted=True), atol=2e-3)
    draws = fit.sample(jax.random.key(1), 20_000)
    assert float(jnp.corrcoef(draws["a"][:, 1], draws["b"])[0, 1]) == pytest.approx(0.0, abs=0.03)
    assert draws["c"].shape == (20_000,)


def test_an_optimiser_ends_there_too():
    alg = vi.advi(
        model(),
        guide=PAIRS,
        estimator=vi.estimator.reparameterised(8),
        optimizer=optax.adam(optax.cosine_decay_schedule(0.05, 1000)),
    )
    fit = vi.fit(alg, num_steps=1000, key=KEY)
    np.testing.assert_allclose(fit.posterior["free"].mean(), M, atol=0.05)
    np.testing.assert_allclose(fit.posterior["free"].cov, cut(P, inverted=True), atol=0.05)


def test_an_energy_has_it_for_its_free_globals():
    def energy(s, group):
        x, y = group
        gap = y - s["slope"] * x - s["base"]
        return 0.5 * (s["noise"].log - jnp.log(2 * jnp.pi) - s["noise"].value * gap**2)

    wide = lambda w: norm.logpdf(w, 0, 5)
    model = vi.energy_model(
        globals={
            "noise": vi.Gamma.from_shape_rate(1.0, 1.0),
            "slope": vi.free(log_prior=wide),
            "base": vi.free(log_prior=wide),
        },
        energy=energy,
        example=(1.0, 1.0),
        structure=vi.Structure(guide=vi.guides.block([("slope", "base")])),
    )
    x = np.linspace(-1, 1, 60).astype(np.float32)
    y = (2 * x + 1 + 0.1 * np.random.default_rng(0).normal(size=60)).astype(np.float32)
    q = vi.fit(vi.svi(model), (x, y), num_steps=100, key=KEY).posterior["free"]
    np.testing.assert_allclose(q.mean(), [1.0, 2.0], atol=0.1)


def test_wrong_groups_are_refused():
    with pytest.raises(ValueError, match=naming("groups:", "'a'", "'b'", "'c'")):
        vi.ngvi(model(), guide=vi.guides.block([("a", "z")]))
    with pytest.raises(ValueError, match=naming("groups:", "'a'")):
        vi.guides.block([("a", "b"), ("a",)])
    for wrong in ("ab", ["ab"], [("a", 1)]):
        with pytest.raises(ValueError, match="groups: expected sequences of names"):
            vi.guides.block(wrong)
