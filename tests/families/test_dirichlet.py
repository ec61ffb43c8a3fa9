"""Dirichlet: V against float64, its mean the identity, extreme concentrations, edges."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from tests.compilation import optimized_jit
from tests.naming import naming
from tests.rounding import rounding
from vijax.families import Dirichlet, DirichletStats
from vijax.families.base import Family
from vijax.families.numeric.pathwise import elasticity_by_quadrature, sample_offset


def topics(total: float, words: int = 2000) -> np.ndarray:
    """Three topics of about this total: 0.1 plus a heavy tail, in float32."""
    tail = np.random.default_rng(1).gamma(0.05, 20.0, (3, words))
    return np.float32(0.1 + tail * (total / tail.sum(1, keepdims=True)))


# --- V --------------------------------------------------------------------------------------------
quadrature = jax.jit(elasticity_by_quadrature)


def elasticity_in_float64(c: np.ndarray, offset: np.ndarray, chunk: int = 6000) -> np.ndarray:
    """By quadrature, element by element, so that one program serves arrays of any shape."""
    padded = [
        np.pad(x.reshape(-1), (0, -x.size % chunk), mode="edge").reshape(-1, chunk)
        for x in (c, offset)
    ]
    with jax.enable_x64(True):
        g = [np.asarray(quadrature(*map(jnp.asarray, pair))) for pair in zip(*padded, strict=True)]
    return np.concatenate(g)[: c.size].reshape(c.shape)


def v_in_float64(c: np.ndarray, offset: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """F^-1 J^T eta from the textbook formulas: fine in float64 while the total is below 1e10."""
    g = elasticity_in_float64(c, offset) / c
    x = scipy.special.softmax(offset + np.log(c + 2 / 3), axis=-1)
    gradient = g * (eta - x * eta.sum(-1, keepdims=True))
    w, total = 1 / scipy.special.polygamma(1, c), c.sum(-1, keepdims=True)
    d = 1 / scipy.special.polygamma(1, total) - w.sum(-1, keepdims=True)
    return w * gradient + w * (w * gradient).sum(-1, keepdims=True) / d


CONCENTRATIONS = {f"total {total:g}": topics(total) for total in (1e2, 1e4, 1e6, 1e8, 1e9)} | {
    "tiny": np.float32([[1e-3, 1e-3, 2e-3], [0.01, 0.02, 0.03]]),
    "uneven": np.float32([[1e-3, 1.0, 1e4], [0.5, 1e-2, 3.0]]),
    "many small": np.full((2, 500), 0.01, np.float32),
}


@jax.jit
def v_in_float32(key: jax.Array, c: jax.Array, eta: jax.Array) -> tuple[jax.Array, jax.Array]:
    return sample_offset(key, c), Dirichlet(c).pathwise_sample(key)[1](
        DirichletStats(eta)
    ).concentration


@pytest.mark.parametrize("name", CONCENTRATIONS)
def test_v_in_float32_against_float64(name: str) -> None:
    c = CONCENTRATIONS[name]
    key, counts = jax.random.key(1), np.random.default_rng(2).poisson(c * 0.05 + 0.3)
    eta = np.float32(counts + (np.arange(c.shape[-1]) < 2))
    offset, got = v_in_float32(key, c, eta)
    want = v_in_float64(np.float64(c), np.float64(offset), np.float64(eta))
    error = np.linalg.norm(got - want, axis=-1) / np.linalg.norm(want, axis=-1)
    assert np.max(error) < 1e-4


@pytest.mark.parametrize("total", [1e2, 1e6, 1e8])
def test_v_of_the_same_small_count_on_every_rare_word(total: float) -> None:
    """V eta is here w sum(h rho) / D, thousands of terms of mean zero and size 0.3, whose sum in
    some draws is zero by chance (0.04 where 26 is usual): there 1e-4 of that draw's own V eta would
    ask for an h good to 1e-9, and float32 gives 1e-7. The error is held against the size of V eta
    over draws."""
    c = np.full((8, 8000), 0.01)
    c[:, :200] = np.random.default_rng(0).gamma(1.0, 1.0, 200)
    c[:, :200] *= total / c[:, :200].sum(1, keepdims=True)
    c, eta = np.float32(c), np.where(c > 0.01, 0.0, 0.3).astype(np.float32)
    offset, got = v_in_float32(jax.random.key(0), c, eta)
    want = v_in_float64(np.float64(c), np.float64(offset), np.float64(eta))
    error = np.linalg.norm(got - want, axis=-1)
    assert np.max(error) < 1e-4 * np.sqrt(np.mean(np.sum(want**2, axis=-1)))


def test_v_agrees_with_automatic_differentiation_and_a_dense_solve() -> None:
    with jax.enable_x64(True):
        q = Dirichlet(
            jnp.array([[0.05, 0.1, 0.3, 1.0, 4.0, 50.0], [0.2, 0.3, 0.1, 0.03, 0.02, 0.01]])
        )
        eta = DirichletStats(jnp.arange(12.0).reshape(2, 6))
        t, v = q.pathwise_sample(jax.random.key(3))
        t_generic, v_generic = Family.pathwise_sample(q, jax.random.key(3))
        np.testing.assert_allclose(t.log, t_generic.log, rtol=1e-12)
        pairs = (v(eta), v_generic(eta)), (q.fisher_solve(eta), Family.fisher_solve(q, eta))
        for got, want in pairs:
            atol = rounding(want.concentration)
            np.testing.assert_allclose(got.concentration, want.concentration, rtol=1e-10, atol=atol)


@jax.jit
def sums_of_v(c: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums over keys of the means, over independent events, of V and of its square, entry by
    entry."""

    def moments(total: tuple, key: jax.Array) -> tuple:
        _, v = Dirichlet(jnp.broadcast_to(c, (CHUNK, len(c)))).pathwise_sample(key)
        columns = [
            v(DirichletStats(jnp.broadcast_to(e, (CHUNK, len(c))))).concentration
            for e in jnp.eye(len(c))
        ]
        sample = jnp.stack(columns, -1)
        return (total[0] + sample.mean(0), total[1] + (sample**2).mean(0)), None

    return jax.lax.scan(moments, (jnp.zeros((len(c),) * 2),) * 2, keys)[0]


CHUNK = 100_000


def mean_v(c: list[float], num_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """E[V] and its standard error."""
    keys = jax.random.split(jax.random.key(3), num_samples // CHUNK)
    mean, square = (np.asarray(s, np.float64) / len(keys) for s in sums_of_v(jnp.asarray(c), keys))
    return mean, np.sqrt((square - mean**2) / num_samples)


SHAPES = ([0.05, 0.1, 0.3, 1.0, 4.0, 50.0], [0.001, 0.01, 0.3, 1.0, 4.0, 50.0])


@pytest.mark.parametrize("c", SHAPES, ids=["topics", "sparse"])
def test_v_has_mean_identity(c: list[float]) -> None:
    """|E[V] - I| < 5 standard errors in each of 36 entries: false alarms 2 in 1e5."""
    mean, error = mean_v(c, 200_000)
    assert np.max(np.abs(mean - np.eye(len(c))) / error) < 5


@pytest.mark.slow
@pytest.mark.parametrize("c", SHAPES, ids=["topics", "sparse"])
def test_v_has_mean_identity_at_five_million_samples(c: list[float]) -> None:
    """|E[V] - I| < 4 standard errors."""
    mean, error = mean_v(c, 5_000_000)
    assert np.max(np.abs(mean - np.eye(len(c))) / error) < 4


def test_v_can_itself_be_differentiated() -> None:
    """V of a draw at fixed quantiles, by the concentration: against finite differences through
    float64."""

    def first(c: jax.Array) -> jax.Array:
        return (
            Dirichlet(c)
            .pathwise_sample(jax.random.key(0))[1](DirichletStats(jnp.arange(3.0)))
            .concentration[0]
        )

    c = jnp.array([0.3, 2.0, 5.0])
    assert np.isfinite(jax.jit(jax.grad(first))(c)).all()


# --- large and small concentrations ---------------------------------------------------------------
kl_of_a_family = jax.jit(Family.kl)


@jax.jit
def facts(q: Dirichlet, p: Dirichlet) -> tuple:
    return q.kl(p), q.entropy(), q.log_normalizer(), q.expected_stats().log


@pytest.mark.parametrize("total", [1e2, 1e6, 1e8])
def test_kl_entropy_and_log_normalizer_keep_their_digits(total: float) -> None:
    c32 = topics(total)
    with jax.enable_x64(True):
        q, p = Dirichlet(jnp.asarray(np.float64(c32))), Dirichlet(jnp.full(c32.shape, 0.1))
        want = [np.asarray(x) for x in facts(q, p)]
        np.testing.assert_allclose(want[0], kl_of_a_family(q, p), rtol=1e-6)
        np.testing.assert_allclose(
            want[1], [scipy.stats.dirichlet.entropy(row) for row in np.float64(c32)], rtol=1e-6
        )
        log_gamma = scipy.special.gammaln
        np.testing.assert_allclose(
            want[2], log_gamma(c32 * 1.0).sum(-1) - log_gamma(np.float64(c32).sum(-1)), rtol=1e-6
        )
    got = facts(Dirichlet(jnp.asarray(c32)), Dirichlet(jnp.full(c32.shape, jnp.float32(0.1))))
    for x, y in zip(got, want, strict=True):
        assert np.max(np.abs(x - y)) <= 3e-6 * np.max(np.abs(y))


def test_slopes_of_the_divergence_are_those_of_its_definition() -> None:
    """With a component that holds nearly all, and without one; in each of the two laws, and in
    both."""
    with jax.enable_x64(True):
        c = jnp.array([[0.3, 50.0, 2.0, 1e-2], [1.0, 2.0, 1.5, 0.7], [3e3, 0.2, 0.1, 1.0]])
        kl = lambda f: jax.grad(lambda c, c2: jnp.sum(f(Dirichlet(c), Dirichlet(c2))), (0, 1))
        for got, want in zip(kl(Dirichlet.kl)(c, c[::-1]), kl(Family.kl)(c, c[::-1]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)
        alone = jax.grad(lambda c2: jnp.sum(Dirichlet(c).kl(Dirichlet(c2))))(c[::-1])
        np.testing.assert_allclose(alone, kl(Family.kl)(c, c[::-1])[1], rtol=1e-8, atol=1e-10)


def test_kl_of_a_law_to_itself_is_zero() -> None:
    q = Dirichlet(jnp.asarray(topics(1e6)))
    assert np.all(q.kl(q) == 0)


def test_hessian_of_the_log_normalizer_is_the_fisher_matrix() -> None:
    with jax.enable_x64(True):
        c = jnp.array([0.1, 1.0, 30.0])
        trigamma = scipy.special.polygamma
        want = np.diag(trigamma(1, c)) - trigamma(1, float(c.sum()))
        np.testing.assert_allclose(
            jax.hessian(lambda c: Dirichlet(c).log_normalizer())(c), want, rtol=1e-10
        )


# --- draws ----------------------------------------------------------------------------------------
def test_moments_of_draws() -> None:
    c, n = np.array([0.02, 0.5, 3.0]), 400_000
    draw = jax.jit(lambda q, key: q.sample_stats(key, (n,)).log)
    log_x = np.asarray(draw(Dirichlet(jnp.asarray(c)), jax.random.key(0)), np.float64)
    mu = scipy.special.digamma(c) - scipy.special.digamma(c.sum())
    covariance = np.diag(scipy.special.polygamma(1, c)) - scipy.special.polygamma(1, c.sum())
    error = np.sqrt(np.diag(covariance) / n)
    assert np.all(np.abs(log_x.mean(0) - mu) < 6 * error)
    products = (log_x - mu)[:, :, None] * (log_x - mu)[:, None, :]
    assert np.all(np.abs(products.mean(0) - covariance) < 6 * products.std(0) / np.sqrt(n))
    np.testing.assert_allclose(np.exp(log_x).sum(-1), 1.0, rtol=1e-5)


LARGER = functools.partial(pytest.param, marks=pytest.mark.slow)  # the same check of another shape


@pytest.mark.parametrize("by", ["sample axes", "vmap"])
@pytest.mark.parametrize("shape", [(3, 2), LARGER((7, 5)), LARGER((3, 4))])
def test_many_draws_of_a_small_law_under_jit(by: str, shape: tuple[int, ...]) -> None:
    """With a plain sum in the place of `_sum_of_draws` XLA miscompiles these: most draws come out
    wrong."""
    n, c = 20_000, jnp.asarray(np.random.default_rng(0).gamma(1.0, 5.0, shape) + 1.0, jnp.float32)
    keys = jax.random.split(jax.random.key(0), n if by == "vmap" else 1)
    many = lambda f: optimized_jit(lambda keys: jax.vmap(f)(keys) if by == "vmap" else f(keys[0]))(
        keys
    )
    axes = () if by == "vmap" else (n,)
    draw_offset = lambda key: sample_offset(key, c, axes)
    log_x = np.asarray(many(lambda key: Dirichlet(c).sample_stats(key, axes).log))
    quick = jax.jit(
        lambda keys: jax.vmap(draw_offset)(keys) if by == "vmap" else draw_offset(keys[0])
    )
    offset = np.asarray(quick(keys))
    np.testing.assert_allclose(
        log_x, scipy.special.log_softmax(offset + np.log(c + 2 / 3), axis=-1), atol=1e-4
    )


@pytest.mark.parametrize("shape", [(3, 2), LARGER((7, 5))])
def test_v_of_many_draws_of_a_small_law_under_vmap(shape: tuple[int, ...]) -> None:
    c = jnp.asarray(np.random.default_rng(0).gamma(1.0, 5.0, shape) + 1.0, jnp.float32)
    eta = DirichletStats(
        jnp.asarray(np.random.default_rng(1).normal(size=(20_000, *shape)), jnp.float32)
    )
    keys = jax.random.split(jax.random.key(0), 20_000)
    step = lambda key, eta: (
        sample_offset(key, c),
        Dirichlet(c).pathwise_sample(key)[1](eta),
        Dirichlet(c).fisher_solve(eta),
    )
    offset, v, solved = optimized_jit(jax.vmap(step))(keys, eta)
    few = slice(None, None, 97)
    wide = np.broadcast_to(np.float64(c), eta.log.shape)[few]
    want = v_in_float64(wide, np.float64(offset)[few], np.float64(eta.log)[few])
    np.testing.assert_allclose(v.concentration[few], want, atol=1e-3 * np.abs(want).max())
    solve = jax.jit(lambda e: Dirichlet(c).fisher_solve(DirichletStats(e)).concentration)
    one_by_one = np.stack([solve(e) for e in np.asarray(eta.log)[few]])
    np.testing.assert_allclose(
        solved.concentration[few], one_by_one, atol=1e-4 * np.abs(one_by_one).max()
    )


# --- edges ----------------------------------------------------------------------------------------
def test_mode_on_the_boundary_and_its_statistics() -> None:
    q = Dirichlet(jnp.array([[0.5, 1.0, 0.2], [0.5, 2.0, 4.0], [1.0, 1.0, 1.0]]))
    np.testing.assert_allclose(q.mode(), [[1 / 3] * 3, [0, 0.25, 0.75], [1 / 3] * 3], rtol=1e-6)
    stats = q.stats(q.mode()).log
    assert np.isfinite(stats).all()
    assert float(stats[1, 0]) == pytest.approx(np.log(np.finfo(np.float32).tiny))


def test_statistics_of_a_negative_number_are_nan() -> None:
    assert np.isnan(Dirichlet(jnp.ones(2)).stats(jnp.array([-0.1, 1.1])).log[0])


def test_a_single_component_has_no_freedom() -> None:

    @jax.jit
    def draw(q: Dirichlet) -> tuple:
        t, v = q.pathwise_sample(jax.random.key(0))
        return t.log, v(DirichletStats(jnp.ones(1))).concentration

    log_x, v = draw(Dirichlet(jnp.array([2.0])))
    assert float(log_x[0]) == 0.0
    assert float(v[0]) == 0.0


def test_domain_and_flat() -> None:
    q = Dirichlet(jnp.array([1.0, -1.0, jnp.nan, jnp.inf]))
    assert q.in_domain().concentration.tolist() == [True, False, False, False]
    flat = Dirichlet(jnp.ones(3)).flat()
    assert float(flat.log_prob(jnp.array([0.2, 0.3, 0.5]))) == pytest.approx(np.log(2), rel=1e-5)


@pytest.mark.parametrize("bad", [[1.0, 0.0], [1.0, -2.0], [jnp.nan, 1.0], [jnp.inf, 1.0]])
def test_bad_concentrations_are_refused_by_name(bad: list[float]) -> None:
    with pytest.raises(ValueError, match=naming("concentration:", "-count")):
        Dirichlet.from_concentration(jnp.array(bad))


def test_a_scalar_concentration_is_refused() -> None:
    with pytest.raises(ValueError, match="last axis"):
        Dirichlet.from_concentration(1.0)
