"""The low-rank normal against the multivariate one, against the derivatives of SciPy's density, and
in float32 against 50 digits, with factors from a hundredth to 3e3 times the standard deviations
beside them, in units from 1e-6 to 1e6."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.families.oracles import each, exactly, mp
from tests.families.test_float32 import beyond
from vijax.families import MultivariateNormal
from vijax.families.vector.free_normals import LowRankNormal

RNG = np.random.default_rng(0)


def made(seed, dim=5, rank=2):
    rng = np.random.default_rng(seed)
    arrays = rng.normal(size=dim), 0.3 * rng.normal(size=dim), rng.normal(size=(dim, rank))
    return LowRankNormal(*(jnp.asarray(a, jnp.float32) for a in arrays))


def cov_of(q):
    factor = np.asarray(q.factor, np.float64)
    return np.diag(np.exp(2 * np.asarray(q.log_sd, np.float64))) + factor @ factor.T


def test_density_entropy_and_variance():
    q = made(1)
    exact = stats.multivariate_normal(np.asarray(q.center, np.float64), cov_of(q))
    x = RNG.normal(size=(7, 5))
    found = jax.jit(lambda q, x: (q.log_prob(x), q.log_prob(x[0]), q.entropy(), q.variance()))(
        q, x.astype(np.float32)
    )
    np.testing.assert_allclose(found[0], exact.logpdf(x), rtol=1e-4, atol=1e-4)
    assert float(found[1]) == pytest.approx(exact.logpdf(x[0]), rel=1e-4)
    assert float(found[2]) == pytest.approx(exact.entropy(), rel=1e-5)
    np.testing.assert_allclose(found[3], np.diag(cov_of(q)), rtol=1e-5)


def test_divergence_is_that_of_the_multivariate_normals():
    p, q = made(1), made(2)
    same = [
        MultivariateNormal.from_mean_cov(np.asarray(r.center), cov_of(r).astype(np.float32))
        for r in (p, q)
    ]
    ours, exact, nothing = jax.jit(lambda p, q, a, b: (p.kl(q), a.kl(b), p.kl(p)))(p, q, *same)
    assert float(ours) == pytest.approx(float(exact), rel=1e-3)
    assert float(nothing) == pytest.approx(0, abs=1e-4)


def test_draws_have_its_moments():
    q = made(3)
    draws = np.asarray(jax.jit(lambda q: q.sample(jax.random.key(0), (200_000,)))(q), np.float64)
    np.testing.assert_allclose(draws.mean(0), q.center, atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), cov_of(q), atol=0.06)


def test_the_stationary_message_is_minus_the_gradient_of_the_entropy():
    """By differences of log det in float64."""
    q = made(4)
    flat = np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in (q.log_sd, q.factor)])

    def entropy(v):
        factor = v[5:].reshape(5, 2)
        return 0.5 * np.linalg.slogdet(np.diag(np.exp(2 * v[:5])) + factor @ factor.T)[1]

    exact = [
        (entropy(flat + 1e-5 * e) - entropy(flat - 1e-5 * e)) / 2e-5 for e in np.eye(len(flat))
    ]
    ours = jax.jit(lambda q: q.stationary())(q)
    np.testing.assert_allclose(
        np.r_[np.ravel(ours.log_sd), np.ravel(ours.factor)], -np.array(exact), atol=1e-4
    )
    np.testing.assert_array_equal(ours.center, 0)


def test_slopes_of_its_density():
    q, x = made(5), RNG.normal(size=5)
    exact = -np.linalg.solve(cov_of(q), x - np.asarray(q.center, np.float64))
    ours = jax.jit(lambda q, x: q.slope(q.stats(x), q).value)(q, x.astype(np.float32))
    np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=1e-4)


def test_a_pathwise_draw_is_a_draw_and_its_derivative():
    q, key, eta = made(6), jax.random.key(1), jnp.arange(5.0)
    sample = jax.jit(lambda q: q.sample(key))

    @jax.jit
    def pathwise(q):
        drawn, v = q.pathwise_sample(key)
        return drawn.value, v(q.as_stats([eta]))

    drawn, got = pathwise(q)
    np.testing.assert_allclose(drawn, sample(q), rtol=1e-6)
    np.testing.assert_allclose(got.center, eta)
    bump = LowRankNormal(q.center, q.log_sd, q.factor + 0.01 * np.eye(5, 2, dtype=np.float32))
    change = float(eta @ (sample(bump) - sample(q)))
    assert np.sum(np.asarray(got.factor) * np.eye(5, 2)) * 0.01 == pytest.approx(change, rel=1e-3)


def test_natural_parameters_are_refused():
    for ask in (lambda q: q.log_normalizer(), lambda q: q.fisher_solve(q.stats(q.center))):
        with pytest.raises(NotImplementedError, match=r"no exponential family.*vijax\.advi"):
            ask(made(1))


# --- float32 against 50 digits --------------------------------------------------------------------
SHAPES = {"two factors": (4, 2), "more factors than coordinates": (3, 5)}


@functools.cache
def members(shape, size, largest=3e3):
    """Laws far from and near to each other, and a draw of each, in float32; every other one's first
    two factors are the same but for a thousandth."""
    (dim, rank), rng = SHAPES[shape], np.random.default_rng(0)
    scale = 10 ** rng.uniform(-6, 6, (size, dim))
    ratio = 10 ** rng.uniform(-2, np.log10(largest), (size, 1, 1)) * 10 ** rng.uniform(
        -3, 0, (size, 1, rank)
    )

    def law():
        factor = ratio * rng.normal(size=(size, dim, rank))
        factor[::2, :, 1] = factor[::2, :, 0] * (
            1 + 1e-3 * rng.normal(size=(len(factor[::2]), dim))
        )
        sd = scale * np.exp(0.3 * rng.normal(size=(size, dim)))
        center = 10 * scale * rng.normal(size=(size, dim))
        return {"center": center, "log_sd": np.log(sd), "factor": scale[:, :, None] * factor}

    q, far = law(), law()
    jitter = lambda x: x * (1 + 1e-3 * rng.uniform(-1, 1, x.shape))
    near = {
        "center": q["center"] + 1e-2 * scale * rng.normal(size=(size, dim)),
        "log_sd": q["log_sd"] + 1e-3 * rng.uniform(-1, 1, (size, dim)),
        "factor": jitter(q["factor"]),
    }
    noise = np.einsum("ndr,nr->nd", q["factor"], rng.normal(size=(size, rank)))
    x = q["center"] + np.exp(q["log_sd"]) * rng.normal(size=(size, dim)) + noise
    return jax.tree.map(np.float32, (q, far, near, x))


@jax.jit
@jax.vmap
def numbers(q, far, near, x):
    q, far, near = (LowRankNormal(**law) for law in (q, far, near))
    kls = {"kl_far": q.kl(far), "kl_near": q.kl(near), "kl_self": q.kl(q)}
    return {**kls, "entropy": q.entropy(), "log_prob": q.log_prob(x)}


def exact_cov(q):
    factor = mp.matrix(q["factor"])
    return mp.diag([mp.exp(2 * s) for s in q["log_sd"]]) + factor * factor.T


def square(x, center, precision):
    gap = mp.matrix(x) - mp.matrix(center)
    return (gap.T * precision * gap)[0]


def truth(q, far, near, x):
    cov, dim = exact_cov(q), len(x)
    level = mp.log(mp.det(cov)) + dim * mp.log(2 * mp.pi)

    def kl(p):
        other = exact_cov(p)
        ratio = other**-1 * cov
        trace = mp.fsum(ratio[i, i] - 1 for i in range(dim))
        return (trace - mp.log(mp.det(ratio)) + square(q["center"], p["center"], other**-1)) / 2

    log_prob = -(level + square(x, q["center"], cov**-1)) / 2
    return {
        "kl_far": kl(far),
        "kl_near": kl(near),
        "kl_self": 0,
        "entropy": (level + dim) / 2,
        "log_prob": log_prob,
    }


def check(shape, size):
    q, far, near, x = members(shape, size)
    ours = numbers(q, far, near, x)
    exact = [truth(*args) for args in zip(*map(each, (q, far, near)), exactly(x), strict=True)]
    for name, got in ours.items():
        want = np.array([float(row[name]) for row in exact])
        excess = beyond(np.asarray(got, np.float64), want)
        i = int(np.argmax(excess))
        assert excess[i] <= 1, f"{name}, row {i}: {got[i]} for {want[i]}"
        assert not name.startswith("kl") or np.min(got) >= 0


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_is_right(shape):
    check(shape, 30)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_float32_is_right_at_a_thousand_points(shape):
    check(shape, 1000)


@jax.jit
@jax.vmap
def slopes(q, p, x):
    """Of divergence, density and entropy, in all parameters and in x."""
    kl = jax.grad(lambda q, p: LowRankNormal(**q).kl(LowRankNormal(**p)), (0, 1))(q, p)
    return kl, jax.grad(lambda q, x: LowRankNormal(**q).log_prob(x), (0, 1))(q, x)


@jax.jit
@jax.vmap
def dense_slopes(q, p, x):
    """The same of the dense covariances."""

    def of(q):
        return jnp.diag(jnp.exp(2 * q["log_sd"])) + q["factor"] @ q["factor"].T

    def kl(q, p):
        gap, ratio = q["center"] - p["center"], jnp.linalg.solve(of(p), of(q))
        return 0.5 * (
            jnp.trace(ratio) - jnp.linalg.slogdet(ratio)[1] + gap @ jnp.linalg.solve(of(p), gap)
        )

    def log_prob(q, x):
        gap = x - q["center"]
        return -0.5 * (jnp.linalg.slogdet(of(q))[1] + gap @ jnp.linalg.solve(of(q), gap))

    return jax.grad(kl, (0, 1))(q, p), jax.grad(log_prob, (0, 1))(q, x)


def test_slopes_in_float32_are_those_of_dense_algebra_in_float64():
    """Factors up to 30 standard deviations: beyond, dense algebra loses digits in float64 too."""
    q, far, _, x = members("two factors", 40, largest=30.0)
    ours = slopes(q, far, x)
    with jax.enable_x64(True):
        exact = jax.tree.map(np.asarray, dense_slopes(*jax.tree.map(np.float64, (q, far, x))))
    for got, want in zip(jax.tree.leaves(ours), jax.tree.leaves(exact), strict=True):
        axes = tuple(range(1, want.ndim))
        size = np.max(np.abs(want), axes, keepdims=True)
        assert np.max(np.abs(np.float64(got) - want) / size) < 2e-4


def test_second_derivatives():
    """Of the density in float64, in everything, against those of dense algebra."""
    with jax.enable_x64(True):
        q, x = (
            jax.tree.map(lambda x: jnp.asarray(x, float), made(7, 3)),
            jnp.array([0.3, -1.0, 2.0]),
        )

        def dense(q, x):
            gap, cov = x - q.center, jnp.diag(jnp.exp(2 * q.log_sd)) + q.factor @ q.factor.T
            return -0.5 * (jnp.linalg.slogdet(cov)[1] + gap @ jnp.linalg.solve(cov, gap))

        both = [jax.jit(jax.hessian(f, (0, 1)))(q, x) for f in (lambda q, x: q.log_prob(x), dense)]
    for got, want in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)


def test_the_precision_inverts_the_covariance():
    """Where the noise of one coordinate is a billionth of what its factors make of it."""
    with jax.enable_x64(True):
        q = LowRankNormal(
            jnp.zeros(3),
            jnp.log(jnp.array([1e-9, 1.0, 1e3])),
            jnp.array([[1.0, 2.0], [0.5, 0], [0, 1]]),
        )
        found = np.asarray(jax.jit(lambda q: q.precision)(q))
    exact = (
        exact_cov(
            {"log_sd": exactly(np.asarray(q.log_sd)), "factor": exactly(np.asarray(q.factor))}
        )
        ** -1
    )
    np.testing.assert_allclose(found, np.array(exact.tolist(), float), rtol=1e-6)
